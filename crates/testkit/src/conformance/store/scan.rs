//! The scans by which the engine finds waiting tasks.

use super::{
    sample::{LATER, NEXT, NOW, ask, full, insert, moved, scan, version},
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    hot::HotEntry,
    store::{Change, Scan},
};
use punctual_domain::{
    name::Name,
    place::{Partition, partition_of},
    state::State,
    task::NewTask,
    time::Millis,
};
use std::{collections::HashSet, sync::Arc};

/// Everything, whatever the partition.
async fn scan_all(store: &dyn Store, until: Millis) -> Vec<HotEntry> {
    let mut found = Vec::new();
    for partition in 0..store.partitions() {
        found.extend(scan(store, Partition(partition), until).await);
    }
    found
}

/// The first `count` ids of one partition.
fn neighbours(store: &dyn Store, partition: Partition, count: usize) -> Vec<i64> {
    let (name, partitions) = (Name::default_namespace(), store.partitions());
    (0..).filter(|id| partition_of(&name, *id, partitions) == partition).take(count).collect()
}

pub async fn only_what_waits_is_found(store: Arc<dyn Store>) {
    let mut waiting = HashSet::new();
    for state in reachable() {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        if state.is_waiting() {
            waiting.insert((task.place.id, state));
        }
    }
    let found = scan_all(&*store, NEXT).await;
    assert_eq!(found.iter().map(|entry| (entry.place.id, entry.state)).collect::<HashSet<_>>(), waiting);
    assert_eq!(found.len(), waiting.len());
}

pub async fn entries_come_in_order_of_due_time_and_id(store: Arc<dyn Store>) {
    let ids = neighbours(&*store, Partition(0), 60);
    for (nth, id) in (0..).zip(&ids) {
        insert(&*store, NewTask { execute_at: NOW.plus(nth * 37 % 10), ..ask(*id) }).await;
    }
    let found = scan(&*store, Partition(0), NEXT).await;
    assert_eq!(found.len(), 60);
    assert!(found.iter().map(HotEntry::key).is_sorted());
    let first =
        store.scan(Scan { partition: Partition(0), until: NEXT, after: None, limit: 7 }).await.unwrap();
    assert_eq!(first, found[..7], "a limit takes the first");
    assert_eq!(
        store.scan(Scan { partition: Partition(0), until: NEXT, after: None, limit: 0 }).await.unwrap(),
        []
    );
}

pub async fn pages_follow_each_other_without_gap_or_overlap(store: Arc<dyn Store>) {
    let partition = Partition(store.partitions() - 1);
    for (nth, id) in (0..).zip(neighbours(&*store, partition, 50)) {
        insert(&*store, NewTask { execute_at: NOW.plus(nth / 20), ..ask(id) }).await;
    }
    let whole = scan(&*store, partition, NEXT).await;
    for limit in [1, 3, 7, 50] {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = store.scan(Scan { partition, until: NEXT, after, limit }).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            pages.extend(page);
        }
        assert_eq!(pages, whole, "pages of {limit}");
    }
}

pub async fn until_is_inclusive_and_after_is_exclusive(store: Arc<dyn Store>) {
    let task = insert(&*store, NewTask { execute_at: NEXT, ..ask(1) }).await.task;
    let (partition, id) = (task.place.partition, task.place.id);
    assert_eq!(scan(&*store, partition, NEXT.plus(-1)).await, []);
    assert_eq!(scan(&*store, partition, NEXT).await.len(), 1);
    let after = |after| Scan { partition, until: NEXT, after: Some(after), limit: 9 };
    assert_eq!(store.scan(after((NEXT, id))).await.unwrap(), []);
    assert_eq!(store.scan(after((NEXT, id - 1))).await.unwrap().len(), 1);
    assert_eq!(store.scan(after((NEXT.plus(-1), i64::MAX))).await.unwrap().len(), 1);
    assert_eq!(store.scan(after((NEXT.plus(9), 0))).await.unwrap(), [], "after the end of the range");
}

pub async fn a_partition_shows_only_its_own(store: Arc<dyn Store>) {
    for id in 0..100 {
        insert(&*store, ask(id)).await;
    }
    let mut found = 0;
    for partition in (0..store.partitions()).map(Partition) {
        let entries = scan(&*store, partition, NEXT).await;
        assert!(entries.iter().all(|entry| entry.place.partition == partition));
        found += entries.len();
    }
    assert_eq!(found, 100);
    assert_eq!(scan(&*store, Partition(u16::MAX), NEXT).await, [], "a partition that has nothing");
}

/// Also after tasks of the past have ended, and when the same partitions are read again and again.
pub async fn scans_that_are_answered_together_answer_as_each_does(store: Arc<dyn Store>) {
    let tasks: Vec<_> = (0..60).map(|id| NewTask { execute_at: NOW.plus(id % 7), ..ask(id) }).collect();
    let mut inserted = Vec::new();
    for task in tasks {
        inserted.push(insert(&*store, task).await);
    }
    let partitions = || (0..store.partitions()).map(Partition).chain([Partition(u16::MAX)]);
    let mut ended = inserted.iter();
    for until in [NOW.plus(-1), NOW.plus(3), NEXT, LATER, NEXT, NOW.plus(3)] {
        let scans: Vec<Scan> =
            partitions().map(|partition| Scan { partition, until, after: None, limit: 500 }).collect();
        let together = store.scan_together(scans.clone()).await.unwrap();
        assert_eq!(together.len(), scans.len());
        for (scan, rows) in scans.into_iter().zip(together) {
            let alone = store.scan(scan.clone()).await.unwrap();
            assert_eq!(rows.unwrap_or_else(|| alone.clone()), alone, "{scan:?}");
        }
        for task in ended.by_ref().take(10) {
            moved(&*store, &task.task, Change::Cancel { keep_until: LATER }, NEXT).await;
        }
    }
}

pub async fn an_entry_says_what_its_task_says(store: Arc<dyn Store>) {
    let table = [(full(1), NOW.plus(600_000)), (version(2, -4), Millis::MAX)];
    for (asked, deadline_at) in table {
        let task = insert(&*store, asked).await.task;
        let found = scan(&*store, task.place.partition, NEXT).await;
        let entry = found.into_iter().find(|entry| entry.place.id == task.place.id).unwrap();
        assert_eq!(
            (entry.place.partition, entry.due_at, entry.fence),
            (task.place.partition, NOW, task.fence)
        );
        assert_eq!((&*entry.queue, entry.priority), (&task.ask.queue, task.ask.priority));
        assert_eq!((entry.task_id, entry.task_version), (task.task_id(), task.ask.task_version));
        assert_eq!((entry.deadline_at, entry.state), (deadline_at, State::Scheduled));
        assert_eq!(entry.fired_at, Millis::ZERO, "not taken yet");
    }
}

pub async fn a_new_time_moves_the_entry(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Retrying).await;
    let partition = task.place.partition;
    let change = Change::Reschedule { execute_at: Some(LATER), priority: None, payload: None, queue: None };
    let sooner = moved(&*store, &task, change, NOW).await;
    let found = scan(&*store, partition, NEXT).await;
    assert_eq!(
        found.iter().map(|entry| (entry.due_at, entry.fence)).collect::<Vec<_>>(),
        [(LATER, sooner.fence)]
    );
    let released = walk_to(&*store, 2, State::Dispatched).await;
    assert_eq!(scan_all(&*store, Millis::MAX).await.len(), 1, "what an executor has does not wait");
    let released = moved(&*store, &released, Change::Release, NOW).await;
    let again = scan(&*store, released.place.partition, NOW).await;
    assert_eq!(again.iter().map(|entry| entry.fence).collect::<Vec<_>>(), [released.fence]);
}
