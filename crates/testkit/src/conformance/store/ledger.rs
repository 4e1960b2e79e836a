//! Counts of all rows: they say where every task is, find nothing false whatever moves meanwhile, and their reports are kept. What
//! they find is shown where rows can be altered: beside each back end.

use super::{
    sample::{KEEP, NOW, apply, ask, find, insert, queue, step, version},
    walk::{push, reachable, walk_to},
};
use punctual_contract::{
    Store,
    ledger::{LedgerCount, PartitionCount},
    store::Change,
};
use punctual_domain::{
    state::{State, TRANSITIONS},
    task::NewTask,
    time::Millis,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::task::JoinSet;

async fn counts(store: &dyn Store) -> Vec<LedgerCount> {
    let mut counts = Vec::new();
    for part in 0..store.parts() {
        counts.push(store.count_ledger(part).await.unwrap().expect("nothing rebuilds the database"));
    }
    counts
}

/// Checked after every case: account, register and rows of every database agree.
///
/// # Panics
/// When they do not.
pub(super) async fn conserved(store: &dyn Store) {
    for count in counts(store).await {
        assert_eq!(count.unaccounted(), 0, "{count:?}");
        assert!(count.faults.is_empty() && count.differences.is_empty(), "{count:?}");
    }
}

pub async fn a_count_says_where_every_task_is(store: Arc<dyn Store>) {
    for state in reachable() {
        walk_to(&*store, i64::from(state.code()), state).await;
    }
    for id in 100..110 {
        insert(&*store, NewTask { queue: queue("sms"), ..ask(id) }).await;
    }
    let counts = counts(&*store).await;
    let sum = |of: fn(&LedgerCount) -> i64| counts.iter().map(of).sum::<i64>();
    let of =
        |is_so: fn(State) -> bool| i64::try_from(reachable().filter(|state| is_so(*state)).count()).unwrap();
    let waiting = sum(|count| count.partitions.iter().map(|partition| partition.waiting).sum());
    let in_flight = sum(|count| count.partitions.iter().map(|partition| partition.in_flight).sum());
    let finished = sum(|count| count.partitions.iter().map(|partition| partition.finished).sum());
    assert_eq!(waiting, of(State::is_pending) + 10);
    assert_eq!((in_flight, finished), (of(State::is_in_flight), of(State::is_finished)));
    assert_eq!(sum(|count| count.accepted), waiting + in_flight + finished);
    assert_eq!(sum(|count| count.registered), waiting + in_flight + finished);
    assert_eq!(sum(LedgerCount::unaccounted), 0, "{counts:?}");
    let numbers: Vec<u16> =
        counts.iter().flat_map(|count| &count.partitions).map(|partition| partition.partition.0).collect();
    assert!(numbers.iter().all(|number| *number < store.partitions()), "{numbers:?}");
}

pub async fn what_is_deleted_is_in_no_register(store: Arc<dyn Store>) {
    for id in 0..40 {
        let task = insert(&*store, ask(id)).await.task;
        if id % 3 > 0 {
            apply(&*store, step(&task, Change::Cancel { keep_until: NOW }), NOW).await;
        }
    }
    for _ in 0..20 {
        store.retire(Millis::MAX, Millis::MAX, 7).await.unwrap();
    }
    let counts = counts(&*store).await;
    let registered: i64 = counts.iter().map(|count| count.registered).sum();
    let stored: i64 = counts.iter().map(|count| count.accepted - count.deleted).sum();
    let by_partition = |number: fn(&PartitionCount) -> i64| -> i64 {
        counts.iter().flat_map(|count| &count.partitions).map(number).sum()
    };
    let deleted: i64 = counts.iter().map(|count| count.deleted).sum();
    assert!(deleted > 0);
    assert_eq!((by_partition(|count| count.deleted), by_partition(|count| count.accepted)), (deleted, 40));
    assert_eq!((registered, stored), (stored, counts.iter().map(LedgerCount::rows).sum()));
    conserved(&*store).await;
}

/// Inserts, replacements, moves in time, hand-overs and deletions.
pub async fn a_count_beside_traffic_finds_nothing_false(store: Arc<dyn Store>) {
    const WRITERS: i64 = 6;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(writer.unsigned_abs());
            for round in 0..40 {
                let id = writer * 100 + round % 13;
                let task = insert(&*store, version(id, round)).await.task;
                let later = Change::Reschedule {
                    execute_at: Some(NOW.plus(rng.i64(0..200_000_000))),
                    priority: None,
                    payload: None,
                    queue: None,
                };
                let change = if round % 2 == 0 { later } else { Change::Cancel { keep_until: NOW } };
                apply(&*store, step(&task, change), NOW).await;
                for _ in 0..3 {
                    let Some(task) = find(&*store, task.place).await else { break };
                    push(&*store, &task, TRANSITIONS[rng.usize(..TRANSITIONS.len())].event, NOW).await;
                }
            }
        });
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let (deleting, stop) = (Arc::clone(&store), Arc::clone(&is_over));
    let mut retention = JoinSet::new();
    retention.spawn(async move {
        while !stop.load(Relaxed) {
            deleting.retire(KEEP, KEEP, 5).await.unwrap();
        }
    });
    let mut counted = 0;
    loop {
        conserved(&*store).await;
        counted += 1;
        if let Some(ended) = writers.try_join_next() {
            ended.unwrap();
        }
        if writers.is_empty() {
            break;
        }
    }
    is_over.store(true, Relaxed);
    retention.join_all().await;
    conserved(&*store).await;
    assert!(counted > 1);
}

pub async fn a_report_is_kept_and_answers_the_requests_before_it(store: Arc<dyn Store>) {
    assert!(store.ledger_reports().await.unwrap().is_empty());
    store.request_ledger_count(0).await.unwrap();
    let read = async || store.ledger_reports().await.unwrap().remove(0);
    let requested = read().await;
    assert!(requested.part == 0 && requested.requests > requested.answered && requested.body.is_none());
    store.request_ledger_count(0).await.unwrap();
    store.save_ledger_report(0, r#"{"a": 1}"#, requested.requests).await.unwrap();
    let kept = read().await;
    assert_eq!(kept.body.as_deref(), Some(r#"{"a": 1}"#));
    assert!(kept.requests > kept.answered, "one came meanwhile");
    store.save_ledger_report(0, r#"{"a": 2}"#, kept.requests).await.unwrap();
    let kept = read().await;
    assert_eq!((kept.requests, kept.body.as_deref()), (kept.answered, Some(r#"{"a": 2}"#)));
    store.save_ledger_report(3, "{}", 0).await.unwrap();
    let parts: Vec<usize> = store.ledger_reports().await.unwrap().iter().map(|report| report.part).collect();
    assert_eq!(parts, [0, 3]);
}
