//! Entries that are not due yet: loading, and the choice between two fences.

use super::{drain_all, drain_in, drain_until, due_count, entry, ids, in_partition};
use punctual_contract::{
    Ask, Hot,
    hot::{Details, HotEntry},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::{Content, Demands, Priority},
    time::Millis,
};
use std::sync::Arc;

pub async fn loading_puts_into_due_and_counts(hot: Arc<dyn Hot>) {
    assert_eq!(hot.load(vec![entry(1, 5, 1), entry(2, 3, 1)]).await.unwrap(), 2);
    assert_eq!(hot.load(vec![entry(3, 4, 1), entry(1, 5, 1)]).await.unwrap(), 1, "only what was put in");
    assert_eq!(due_count(&*hot).await, 3);
    assert_eq!(ids(&drain_all(&*hot).await), [2, 3, 1]);
}

pub async fn loading_twice_is_harmless(hot: Arc<dyn Hot>) {
    let batch: Vec<HotEntry> = (0..50).map(|id| entry(id, id, 1)).collect();
    hot.load(batch.clone()).await.unwrap();
    assert_eq!(hot.load(batch.clone()).await.unwrap(), 0);
    assert_eq!(due_count(&*hot).await, 50);
    assert_eq!(drain_all(&*hot).await, batch, "each once");
    assert_eq!(drain_all(&*hot).await, []);
}

/// A request of the maximum length.
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

fn odd() -> HotEntry {
    HotEntry {
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
    }
}

pub async fn an_entry_comes_back_as_it_went_in(hot: Arc<dyn Hot>) {
    let odd = odd();
    let other = HotEntry {
        details: Arc::default(),
        attempt: 0,
        place: TaskRef { id: i64::MAX, ..odd.place },
        fence: i64::MIN,
        task_id: 0,
        ..odd.clone()
    };
    let fired = |entry| HotEntry { fired_at: Millis::MAX, ..entry };
    let loaded = vec![odd.clone(), fired(other.clone())];
    assert_eq!(hot.load(loaded).await.unwrap(), 2);
    let drained = drain_all(&*hot).await;
    assert_eq!(drained, [odd, other], "what is due has not fired");
}

pub async fn an_older_fence_never_replaces_a_newer_in_due(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 50, 3)]).await.unwrap();
    for fence in [1, 2, 3] {
        assert_eq!(hot.load(vec![entry(1, 10, fence)]).await.unwrap(), 0, "fence {fence}");
    }
    assert_eq!(drain_until(&*hot, 49, 9).await, [], "no earlier instant was taken over");
    assert_eq!(drain_all(&*hot).await, [entry(1, 50, 3)]);
}

pub async fn a_newer_fence_replaces_an_older_in_due(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 10, 1), entry(2, 20, 1)]).await.unwrap();
    assert_eq!(hot.load(vec![entry(1, 30, 2)]).await.unwrap(), 1);
    assert_eq!(due_count(&*hot).await, 2, "it stands once");
    assert_eq!(ids(&drain_until(&*hot, 20, 9).await), [2], "the old instant is forgotten");
    assert_eq!(drain_all(&*hot).await, [entry(1, 30, 2)]);
}

pub async fn one_id_twice_in_a_load_stands_once(hot: Arc<dyn Hot>) {
    assert_eq!(hot.load(vec![entry(1, 10, 1), entry(1, 30, 2), entry(1, 20, 1)]).await.unwrap(), 2);
    assert_eq!(due_count(&*hot).await, 1);
    assert_eq!(drain_all(&*hot).await, [entry(1, 30, 2)]);
}

pub async fn a_partition_has_only_its_own(hot: Arc<dyn Hot>) {
    let last = super::PARTITIONS - 1;
    let batch = vec![in_partition(0, entry(1, 5, 1)), in_partition(last, entry(1, 7, 2))];
    assert_eq!(hot.load(batch).await.unwrap(), 2, "an id is of a partition");
    assert_eq!(ids(&drain_until(&*hot, 9, 9).await), [1]);
    assert_eq!(drain_until(&*hot, 9, 9).await, []);
    assert_eq!(drain_in(&*hot, last, 9, 9).await, [in_partition(last, entry(1, 7, 2))]);
}

pub async fn empty_batches_are_nothing(hot: Arc<dyn Hot>) {
    assert_eq!(hot.load(vec![]).await.unwrap(), 0);
    assert_eq!(hot.drain(&[], Millis::MAX, 9).await.len(), 0);
    assert_eq!(drain_all(&*hot).await, []);
    assert_eq!(due_count(&*hot).await, 0);
}
