//! What waits for its time: loading, peeking, taking.

use super::{entry, ids, in_partition, strict};
use punctual_contract::{
    Ask, Hot,
    hot::{Depth, Details, HotEntry},
    ownership::Tenure,
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    settings::Retries,
    state::State,
    task::{Content, Demands, Priority},
    time::Millis,
};
use std::sync::Arc;

const P0: Partition = Partition(0);

async fn peek_all(hot: &dyn Hot) -> Vec<HotEntry> {
    hot.peek(P0, None, Millis::MAX, 1_000).await.unwrap()
}

pub async fn loading_puts_into_due_and_counts(hot: Arc<dyn Hot>) {
    assert_eq!(hot.load(vec![entry(1, 5, 1), entry(2, 3, 1)]).await.unwrap(), 2);
    assert_eq!(hot.load(vec![entry(3, 4, 1), entry(1, 5, 1)]).await.unwrap(), 1, "only what was put in");
    assert_eq!(ids(&peek_all(&*hot).await), [2, 3, 1]);
    assert_eq!(hot.depth().await.unwrap(), Depth { due: 3, firing: 0, ..Depth::default() });
}

pub async fn loading_twice_is_harmless(hot: Arc<dyn Hot>) {
    let batch: Vec<HotEntry> = (0..50).map(|id| entry(id, id, 1)).collect();
    hot.load(batch.clone()).await.unwrap();
    assert_eq!(hot.load(batch.clone()).await.unwrap(), 0);
    assert_eq!(peek_all(&*hot).await, batch);
    assert_eq!(hot.take(Tenure::sole(P0), Millis::MAX, 100).await.unwrap().len(), 50, "each fires once");
}

/// As long as it may be.
fn odd_ask() -> Ask {
    Ask {
        payload: Content::binary(
            (0..Ask::PAYLOAD_LEN_MAX).map(|nth| u8::try_from(nth % 256).unwrap()).collect(),
        ),
        max_attempts: u32::MAX,
        execute_at: Millis(i64::MIN),
        timeout_ms: Some(i64::MAX),
        labels: (0..9).map(|nth| (format!("label-{nth}"), "é".repeat(150))).collect(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
    }
}

pub async fn an_entry_comes_back_as_it_went_in(hot: Arc<dyn Hot>) {
    let odd = HotEntry {
        place: TaskRef { partition: Partition(0), due_at: Millis(1), id: i64::MIN },
        due_at: Millis::MAX,
        fence: i64::MAX,
        queue: Arc::new(QueueKey {
            namespace: Name::new("eu:1").unwrap(),
            queue: Name::new("a.b_c-d").unwrap(),
        }),
        priority: Priority::LOWEST,
        task_id: i64::MAX,
        task_version: i64::MIN,
        deadline_at: Millis::MAX.plus(-1),
        state: State::DispatchFailed,
        fired_at: Millis::ZERO,
        attempt: u32::MAX,
        details: Arc::new(Details {
            demands: Demands {
                concurrency_key: Some("k".repeat(256)),
                handler_versions: Some(">=2.1, <3".to_owned()),
            },
            kind: Name::new("charge").ok(),
            ask: Some(Arc::new(odd_ask())),
        }),
    };
    let other = HotEntry {
        details: Arc::default(),
        attempt: 0,
        place: TaskRef { id: i64::MAX, ..odd.place },
        fence: i64::MIN,
        task_id: 0,
        ..odd.clone()
    };
    hot.load(vec![odd.clone(), other.clone()]).await.unwrap();
    assert_eq!(peek_all(&*hot).await, [odd.clone(), other.clone()]);
    let fired = |it| HotEntry { fired_at: Millis::MAX, ..it };
    let taken = hot.take(Tenure::sole(P0), Millis::MAX, 2).await.unwrap();
    assert_eq!(taken, [fired(odd.clone()), fired(other)]);
    hot.offer(taken.clone(), Retries::default()).await.unwrap();
    assert_eq!(hot.admit(&odd.queue, strict(9)).await.unwrap(), taken);
}

pub async fn an_older_fence_never_replaces_a_newer_in_due(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 50, 3)]).await.unwrap();
    for fence in [1, 2, 3] {
        assert_eq!(hot.load(vec![entry(1, 10, fence)]).await.unwrap(), 0);
    }
    assert_eq!(peek_all(&*hot).await, [entry(1, 50, 3)]);
}

pub async fn a_newer_fence_replaces_an_older_in_due(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 10, 1), entry(2, 20, 1)]).await.unwrap();
    assert_eq!(hot.load(vec![entry(1, 30, 2)]).await.unwrap(), 1);
    assert_eq!(peek_all(&*hot).await, [entry(2, 20, 1), entry(1, 30, 2)]);
    assert_eq!(
        ids(&hot.take(Tenure::sole(P0), Millis(20), 9).await.unwrap()),
        [2],
        "the old time is forgotten"
    );
    assert_eq!(hot.depth().await.unwrap().due, 1);
}

pub async fn one_id_twice_in_a_load_stands_once(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 10, 1), entry(1, 30, 2), entry(1, 20, 1)]).await.unwrap();
    assert_eq!(peek_all(&*hot).await, [entry(1, 30, 2)]);
}

pub async fn peeking_reads_in_order_and_moves_nothing(hot: Arc<dyn Hot>) {
    let mut batch: Vec<HotEntry> = (0..100).map(|id| entry(id, id * 37 % 10, 1)).collect();
    hot.load(batch.clone()).await.unwrap();
    batch.sort_by_key(HotEntry::key);
    for _ in 0..2 {
        assert_eq!(peek_all(&*hot).await, batch);
    }
    assert_eq!(hot.depth().await.unwrap(), Depth { due: 100, firing: 0, ..Depth::default() });
}

pub async fn peeking_goes_on_after_a_position(hot: Arc<dyn Hot>) {
    hot.load((0..50).map(|id| entry(id, id / 20, 1)).collect()).await.unwrap();
    for limit in [1, 7, 50] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = hot.peek(P0, after, Millis(9), limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            found.extend(ids(&page));
        }
        assert_eq!(found, (0..50).collect::<Vec<_>>(), "pages of {limit}");
    }
    assert_eq!(hot.peek(P0, Some((Millis(9), 0)), Millis(5), 9).await.unwrap(), [], "after the end");
}

pub async fn peeking_stops_at_until_and_at_the_limit(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 10, 1), entry(2, 20, 1), entry(3, 21, 1)]).await.unwrap();
    assert_eq!(ids(&hot.peek(P0, None, Millis(20), 9).await.unwrap()), [1, 2], "until is inclusive");
    assert_eq!(ids(&hot.peek(P0, None, Millis(20), 1).await.unwrap()), [1]);
    assert_eq!(hot.peek(P0, None, Millis(20), 0).await.unwrap(), []);
    assert_eq!(hot.peek(P0, None, Millis(9), 9).await.unwrap(), []);
}

pub async fn a_partition_shows_only_its_own(hot: Arc<dyn Hot>) {
    let last = super::PARTITIONS - 1;
    hot.load(vec![in_partition(0, entry(1, 5, 1)), in_partition(last, entry(2, 5, 1))]).await.unwrap();
    assert_eq!(ids(&hot.peek(Partition(last), None, Millis(9), 9).await.unwrap()), [2]);
    assert_eq!(ids(&hot.take(Tenure::sole(P0), Millis(9), 9).await.unwrap()), [1]);
    assert_eq!(hot.take(Tenure::sole(P0), Millis(9), 9).await.unwrap(), []);
    assert_eq!(ids(&hot.take(Tenure::sole(Partition(last)), Millis(9), 9).await.unwrap()), [2]);
}

pub async fn nothing_is_taken_before_its_time(hot: Arc<dyn Hot>) {
    hot.load((0..100).map(|id| entry(id, 1_000 + id, 1)).collect()).await.unwrap();
    assert_eq!(hot.take(Tenure::sole(P0), Millis(999), 1_000).await.unwrap(), []);
    for now in [1_000, 1_000, 1_003, 1_002, 1_050] {
        let taken = hot.take(Tenure::sole(P0), Millis(now), 1_000).await.unwrap();
        assert!(taken.iter().all(|it| it.due_at <= Millis(now)), "{now}: {taken:?}");
    }
    assert_eq!(
        hot.depth().await.unwrap(),
        Depth { due: 49, firing: 51, ..Depth::default() },
        "and all that was due"
    );
}

pub async fn the_earliest_is_taken_first_up_to_the_limit(hot: Arc<dyn Hot>) {
    hot.load((0..30).map(|id| entry(id, id * 7 % 10, 1)).collect()).await.unwrap();
    let mut wanted = peek_all(&*hot).await;
    for limit in [0, 1, 4, 100] {
        let taken = hot.take(Tenure::sole(P0), Millis(100), limit).await.unwrap();
        let rest = wanted.split_off(limit.min(wanted.len()));
        assert_eq!(ids(&taken), ids(&wanted), "limit {limit}");
        assert!(taken.iter().all(|it| it.fired_at == Millis(100)), "says when it was taken");
        wanted = rest;
    }
}

pub async fn empty_batches_are_nothing(hot: Arc<dyn Hot>) {
    assert_eq!(hot.load(vec![]).await.unwrap(), 0);
    hot.settle(&[]).await.unwrap();
    hot.offer(vec![], Retries::default()).await.unwrap();
    assert_eq!(hot.take(Tenure::sole(P0), Millis::MAX, 9).await.unwrap(), []);
    assert_eq!(hot.firing(P0, Millis::MAX, 0..9).await.unwrap(), []);
    assert_eq!(hot.admit(&super::queue("mail"), strict(9)).await.unwrap(), []);
    assert_eq!(hot.depth().await.unwrap(), Depth::default());
}
