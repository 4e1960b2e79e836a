//! The requirements on every carrier of signals between engines, which are few: no delivery is promised. But
//! a signal that is repeated arrives unchanged, and these cases check that.

use crate::patience::{HANG_LIMIT, a_moment};
use punctual_contract::{Signals, ownership::Signal};
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    time::Millis,
};
use std::{sync::Arc, time::Duration};

fn due(partition: u16, due_at: i64) -> Signal {
    Signal::Due { partition: Partition(partition), due_at: Millis(due_at) }
}

fn ready(namespace: &str, queue: &str) -> Signal {
    let queue = QueueKey { namespace: Name::new(namespace).unwrap(), queue: Name::new(queue).unwrap() };
    Signal::Ready { engine: "a".to_owned(), queue }
}

/// Announces until the other end has received everything. Errors mean that signals may have been missed: it
/// listens again.
async fn heard(from: &dyn Signals, by: &dyn Signals, sent: &[Signal]) -> Vec<Signal> {
    let mut all: Vec<Signal> = Vec::new();
    let listen = async {
        while !sent.iter().all(|signal| all.contains(signal)) {
            all.extend(by.next().await.unwrap_or_default());
        }
    };
    let announce = async {
        loop {
            from.announce(sent.to_vec()).await.unwrap();
            a_moment().await;
        }
    };
    tokio::time::timeout(HANG_LIMIT, async {
        tokio::select! {
            () = listen => {}
            () = announce => {}
        }
    })
    .await
    .expect("signals that are sent again and again arrive");
    all
}

pub async fn what_one_announces_another_hears_as_it_was_sent(one: Arc<dyn Signals>, other: Arc<dyn Signals>) {
    let sent = [
        due(0, 0),
        due(u16::MAX, Millis::MAX.0),
        due(7, 1_700_000_000_123),
        ready("default", "mail"),
        ready("team-a", "mail"),
    ];
    let all = heard(&*one, &*other, &sent).await;
    assert!(all.iter().all(|signal| sent.contains(signal)), "{all:?}");
    heard(&*other, &*one, &[due(1, 1)]).await;
}

pub async fn announcing_nothing_is_nothing(one: Arc<dyn Signals>, other: Arc<dyn Signals>) {
    one.announce(vec![]).await.unwrap();
    heard(&*one, &*other, &[due(1, 2)]).await;
}

pub async fn who_stops_waiting_can_wait_again(one: Arc<dyn Signals>, other: Arc<dyn Signals>) {
    for _ in 0..3 {
        let _ = tokio::time::timeout(Duration::from_millis(10), other.next()).await;
    }
    heard(&*one, &*other, &[due(1, 3), ready("default", "q")]).await;
}

pub async fn many_signals_at_once_arrive(one: Arc<dyn Signals>, other: Arc<dyn Signals>) {
    let sent: Vec<Signal> = (0..64).map(|nth| due(nth, i64::from(nth))).collect();
    heard(&*one, &*other, &sent).await;
}
