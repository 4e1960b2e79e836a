//! The requirements on every bus. A receive that waits as long as a test may hang was not woken, and returns
//! nothing.

use crate::patience::HANG_LIMIT;
use punctual_contract::{Bus, bus::Delivery, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    task::{Content, Priority},
    time::Millis,
};
use std::{
    collections::HashSet,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

const NOW: Millis = Millis(1_700_000_000_000);

/// A message of queue "mail"; its number is its id and task id.
///
/// # Panics
/// Never.
#[must_use]
pub fn assignment(number: i64) -> Assignment {
    let due_at = NOW.plus(number);
    Assignment {
        place: TaskRef { partition: Partition(3), due_at, id: number },
        queue: queue("mail"),
        task_id: number,
        task_version: i64::MIN,
        fence: 7,
        attempt: 2,
        max_attempts: 5,
        kind: Name::new("send").unwrap(),
        priority: Priority::HIGHEST,
        payload: Content::binary(vec![0, 0xff, 0xc0, b'\n']),
        execute_at: due_at.plus(-5),
        due_at,
        fired_at: due_at.plus(1),
        leased_since: due_at.plus(1),
        lease_until: due_at.plus(30_000),
        timeout_ms: Some(60_000),
        labels: [("customer".to_owned(), "ы".to_owned())].into(),
        traceparent: Some("ы \u{0} \u{1F980}".to_owned()),
    }
}

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
}

async fn publish(bus: &dyn Bus, numbers: impl IntoIterator<Item = i64>) {
    for result in bus.publish(numbers.into_iter().map(assignment).collect()).await {
        result.unwrap();
    }
}

async fn receive(bus: &dyn Bus, limit: usize, wait: Duration, now: Millis) -> Vec<Delivery> {
    let got = bus.receive(&queue("mail"), limit, wait, now).await.unwrap();
    assert!(got.len() <= limit, "bounded");
    got
}

/// All that is there, without waiting.
async fn drain(bus: &dyn Bus) -> Vec<Delivery> {
    receive(bus, 10_000, Duration::ZERO, NOW).await
}

fn numbers(deliveries: &[Delivery]) -> Vec<i64> {
    let mut numbers: Vec<i64> = deliveries.iter().map(|delivery| delivery.message.place.id).collect();
    numbers.sort_unstable();
    numbers
}

fn keys(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

pub async fn a_message_arrives_as_it_was_sent(bus: Arc<dyn Bus>) {
    let large = Content::binary((0..=255).cycle().take(1 << 20).collect());
    let sent = [assignment(1), Assignment { payload: large, traceparent: None, ..assignment(2) }];
    assert!(bus.publish(sent.to_vec()).await.iter().all(Result::is_ok));
    let mut got = drain(&*bus).await;
    got.sort_by_key(|delivery| delivery.message.place.id);
    assert!(got.iter().map(|delivery| &delivery.message).eq(&sent));
    assert!(got.iter().all(|delivery| delivery.times == 1), "given out once");
}

pub async fn publishing_answers_once_a_message(bus: Arc<dyn Bus>) {
    for count in [0, 1, 100] {
        assert_eq!(
            bus.publish((0..count).map(assignment).collect()).await.len(),
            usize::try_from(count).unwrap()
        );
    }
    assert_eq!(drain(&*bus).await.len(), 101);
}

pub async fn a_receive_is_bounded_and_leaves_the_rest(bus: Arc<dyn Bus>) {
    publish(&*bus, 0..10).await;
    assert_eq!(receive(&*bus, 0, HANG_LIMIT, NOW).await, [], "nothing asked, nothing waited for");
    let mut got = receive(&*bus, 4, HANG_LIMIT, NOW).await;
    assert_eq!(got.len(), 4);
    got.extend(drain(&*bus).await);
    assert_eq!(numbers(&got), (0..10).collect::<Vec<_>>());
}

pub async fn a_receive_without_wait_answers_at_once(bus: Arc<dyn Bus>) {
    assert_eq!(drain(&*bus).await, []);
    assert_eq!(bus.receive(&queue("nobody"), 9, Duration::ZERO, NOW).await.unwrap(), []);
}

pub async fn a_receive_gives_up_after_its_wait(bus: Arc<dyn Bus>) {
    let (began, wait) = (Instant::now(), Duration::from_millis(30));
    assert_eq!(receive(&*bus, 9, wait, NOW).await, []);
    assert!(began.elapsed() >= wait, "not before");
    publish(&*bus, [1]).await;
    assert_eq!(drain(&*bus).await.len(), 1, "and lost nothing by it");
}

pub async fn a_waiting_receive_is_woken_by_a_message(bus: Arc<dyn Bus>) {
    for number in 0..50 {
        let (mut waiting, one) = (JoinSet::new(), Arc::clone(&bus));
        waiting.spawn(async move { receive(&*one, 9, HANG_LIMIT, NOW).await });
        if number % 2 == 0 {
            tokio::task::yield_now().await;
        }
        publish(&*bus, [number]).await;
        assert_eq!(numbers(&waiting.join_all().await[0]), [number]);
    }
}

pub async fn every_waiting_receive_gets_its_share(bus: Arc<dyn Bus>) {
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let bus = Arc::clone(&bus);
        waiting.spawn(async move { receive(&*bus, 1, HANG_LIMIT, NOW).await });
    }
    tokio::task::yield_now().await;
    publish(&*bus, 0..20).await;
    let got = waiting.join_all().await.concat();
    assert_eq!(numbers(&got), (0..20).collect::<Vec<_>>(), "one batch wakes as many as it feeds");
}

pub async fn a_message_is_with_one_consumer_at_a_time(bus: Arc<dyn Bus>) {
    publish(&*bus, 0..5).await;
    assert_eq!(drain(&*bus).await.len(), 5);
    assert_eq!(drain(&*bus).await, [], "given to no other");
    assert_eq!(bus.reclaim(&queue("mail"), NOW).await.unwrap(), 0, "however often it is asked");
    assert_eq!(drain(&*bus).await, []);
}

pub async fn queues_do_not_mix(bus: Arc<dyn Bus>) {
    let other = QueueKey { namespace: Name::new("other").unwrap(), ..queue("mail") };
    let elsewhere = [
        Assignment { queue: other.clone(), ..assignment(2) },
        Assignment { queue: queue("sms"), ..assignment(3) },
    ];
    publish(&*bus, [1]).await;
    assert_eq!(bus.publish(elsewhere.to_vec()).await.len(), 2);
    assert_eq!(numbers(&drain(&*bus).await), [1]);
    assert_eq!(numbers(&bus.receive(&other, 9, Duration::ZERO, NOW).await.unwrap()), [2]);
    let sms = bus.receive(&queue("sms"), 9, Duration::ZERO, NOW).await.unwrap();
    assert_eq!(numbers(&sms), [3]);
    bus.acknowledge(&queue("mail"), &keys(&sms)).await.unwrap();
    assert_eq!(bus.reclaim(&queue("sms"), NOW.plus(1)).await.unwrap(), 1, "each queue has ids of its own");
}

pub async fn ids_are_unique_in_a_queue(bus: Arc<dyn Bus>) {
    let mut seen = HashSet::new();
    for _ in 0..5 {
        publish(&*bus, 0..20).await;
        let got = drain(&*bus).await;
        assert!(got.iter().all(|delivery| seen.insert(delivery.id)), "also after the queue was empty");
        bus.acknowledge(&queue("mail"), &keys(&got)).await.unwrap();
    }
    assert_eq!(seen.len(), 100);
}

pub async fn what_is_acknowledged_never_comes_again(bus: Arc<dyn Bus>) {
    publish(&*bus, 0..6).await;
    let got = drain(&*bus).await;
    bus.acknowledge(&queue("mail"), &keys(&got[..2])).await.unwrap();
    assert_eq!(bus.reclaim(&queue("mail"), NOW.plus(1)).await.unwrap(), 4);
    let again = drain(&*bus).await;
    assert_eq!(numbers(&again), numbers(&got[2..]));
    bus.acknowledge(&queue("mail"), &keys(&again)).await.unwrap();
    assert_eq!(bus.reclaim(&queue("mail"), Millis::MAX).await.unwrap(), 0);
    assert_eq!(drain(&*bus).await, []);
}

pub async fn an_unknown_acknowledgement_is_passed_over(bus: Arc<dyn Bus>) {
    bus.acknowledge(&queue("nobody"), &[1, 2]).await.unwrap();
    publish(&*bus, [1]).await;
    let got = drain(&*bus).await;
    let id = got[0].id;
    bus.acknowledge(&queue("mail"), &[u64::MAX, id, id]).await.unwrap();
    bus.acknowledge(&queue("mail"), &[id]).await.unwrap();
    bus.acknowledge(&queue("mail"), &[]).await.unwrap();
    assert_eq!(bus.reclaim(&queue("mail"), Millis::MAX).await.unwrap(), 0);
}

pub async fn what_is_not_acknowledged_is_reclaimed_and_counted(bus: Arc<dyn Bus>) {
    publish(&*bus, [1]).await;
    for times in 1..5 {
        let got = drain(&*bus).await;
        assert_eq!(got.iter().map(|delivery| delivery.times).collect::<Vec<_>>(), [times]);
        assert_eq!(got[0].message, assignment(1));
        assert_eq!(bus.reclaim(&queue("mail"), NOW.plus(1)).await.unwrap(), 1);
        assert_eq!(bus.reclaim(&queue("mail"), NOW.plus(1)).await.unwrap(), 0, "it waits already");
    }
}

pub async fn a_reclaim_takes_only_what_was_delivered_before(bus: Arc<dyn Bus>) {
    publish(&*bus, 0..3).await;
    for second in 0..3 {
        assert_eq!(receive(&*bus, 1, Duration::ZERO, NOW.plus(second * 1_000)).await.len(), 1);
    }
    assert_eq!(bus.reclaim(&queue("mail"), NOW).await.unwrap(), 0, "before is exclusive");
    assert_eq!(bus.reclaim(&queue("mail"), NOW.plus(2_000)).await.unwrap(), 2);
    assert_eq!(drain(&*bus).await.len(), 2);
    assert_eq!(bus.reclaim(&queue("nobody"), Millis::MAX).await.unwrap(), 0);
}

pub async fn a_reclaim_wakes_who_waits(bus: Arc<dyn Bus>) {
    publish(&*bus, 0..2).await;
    assert_eq!(drain(&*bus).await.len(), 2);
    let mut waiting = JoinSet::new();
    for _ in 0..2 {
        let bus = Arc::clone(&bus);
        waiting.spawn(async move { receive(&*bus, 1, HANG_LIMIT, NOW).await });
    }
    tokio::task::yield_now().await;
    assert_eq!(bus.reclaim(&queue("mail"), NOW.plus(1)).await.unwrap(), 2);
    let got = waiting.join_all().await.concat();
    assert_eq!(numbers(&got), [0, 1]);
}

/// Waiting receives are dropped before, between and after messages arrive. A dropped one that had been woken
/// must wake another.
pub async fn a_receive_that_is_dropped_loses_nothing(bus: Arc<dyn Bus>) {
    let mut context = Context::from_waker(Waker::noop());
    for number in 0..50 {
        let mut dropped = Box::pin(receive(&*bus, 9, HANG_LIMIT, NOW));
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        let (mut waiting, one) = (JoinSet::new(), Arc::clone(&bus));
        waiting.spawn(async move { receive(&*one, 9, HANG_LIMIT, NOW).await });
        tokio::task::yield_now().await;
        if number % 2 == 0 {
            drop(dropped);
            publish(&*bus, [number]).await;
        } else {
            publish(&*bus, [number]).await;
            drop(dropped);
        }
        assert_eq!(numbers(&waiting.join_all().await[0]), [number]);
    }
    assert_eq!(drain(&*bus).await, []);
}

pub async fn of_many_consumers_each_message_goes_to_one(bus: Arc<dyn Bus>) {
    let mut work = JoinSet::new();
    for producer in 0..4 {
        let bus = Arc::clone(&bus);
        work.spawn(async move {
            for batch in 0..25 {
                let first = producer * 500 + batch * 20;
                publish(&*bus, first..first + 20).await;
                tokio::task::yield_now().await;
            }
            Vec::new()
        });
    }
    for consumer in 0..8 {
        let bus = Arc::clone(&bus);
        work.spawn(async move {
            let mut got: Vec<Delivery> = Vec::new();
            while got.len() < 250 {
                got.extend(receive(&*bus, (3 + consumer).min(250 - got.len()), HANG_LIMIT, NOW).await);
            }
            got
        });
    }
    let got = work.join_all().await.concat();
    assert_eq!(numbers(&got), (0..2_000).collect::<Vec<_>>());
}
