//! The detection of tasks that should have fired and have not.

use super::{
    sample::{LATER, NEXT, NOW, ask, insert, insert_at, scan},
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{OverdueLook, OverduePage},
};
use punctual_domain::{
    name::Name,
    place::{Partition, partition_of},
    task::NewTask,
    time::Millis,
};
use std::{collections::HashSet, sync::Arc};

async fn look(
    store: &dyn Store,
    partition: Partition,
    after: Option<(Millis, i64)>,
    (limit, rows): (usize, Option<usize>),
) -> OverduePage {
    store.overdue(OverdueLook { partition, after, until: NEXT, limit, rows }).await.unwrap()
}

fn ids_in(partition: Partition, partitions: u16, count: usize) -> Vec<i64> {
    let name = Name::default_namespace();
    (0..).filter(|id| partition_of(&name, *id, partitions) == partition).take(count).collect()
}

pub async fn only_what_has_not_fired_is_overdue(store: Arc<dyn Store>) {
    let mut unfired = HashSet::new();
    for state in reachable() {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        if state.waits_for_its_time() {
            unfired.insert((task.place.id, task.due_at, task.fence));
        }
    }
    let mut found = HashSet::new();
    for partition in (0..store.partitions()).map(Partition) {
        let page = look(&*store, partition, None, (100, None)).await;
        assert_eq!(page.next, None);
        found.extend(page.found.iter().map(|overdue| (overdue.place.id, overdue.due_at, overdue.fence)));
    }
    assert_eq!(found, unfired);
    let store = &*store;
    for partition in (0..store.partitions()).map(Partition) {
        let until = NOW.plus(-1);
        let page = store.overdue(OverdueLook { partition, after: None, until, limit: 100, rows: None }).await;
        assert_eq!(page.unwrap().found, [], "nothing was due by then");
    }
}

pub async fn a_walk_meets_everything_and_stops_where_it_was_told(store: Arc<dyn Store>) {
    let partition = Partition(store.partitions() - 1);
    let ids = ids_in(partition, store.partitions(), 40);
    for (nth, id) in (0..).zip(&ids) {
        insert(&*store, NewTask { execute_at: NOW.plus(nth / 7), ..ask(*id) }).await;
    }
    let whole = look(&*store, partition, None, (100, None)).await;
    assert_eq!((whole.found.len(), whole.next), (40, None));
    assert!(whole.found.is_sorted_by_key(|overdue| (overdue.due_at, overdue.place.id)));
    for (limit, rows) in [(7, None), (3, Some(10)), (100, Some(9)), (1, Some(1))] {
        let (mut met, mut after) = (Vec::new(), None);
        loop {
            let page = look(&*store, partition, after, (limit, rows)).await;
            assert!(page.found.len() <= limit);
            assert!(page.next.is_none() || page.next > after, "it goes on");
            for overdue in page.found {
                if !met.contains(&overdue) {
                    met.push(overdue);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(met, whole.found, "{limit} of {rows:?} rows");
    }
}

/// A scan may remember its progress; this check must not.
pub async fn what_a_scan_has_passed_is_seen_all_the_same(store: Arc<dyn Store>) {
    let partition = Partition(0);
    let ids = ids_in(partition, store.partitions(), 2);
    let later = LATER.plus(3_600_000);
    insert_at(&*store, NewTask { execute_at: later, ..ask(ids[0]) }, later).await;
    for _ in 0..3 {
        scan(&*store, partition, later).await;
    }
    // A clock that had gone ahead is right again.
    let behind = insert_at(&*store, ask(ids[1]), NOW).await.task;
    let page = look(&*store, partition, None, (10, Some(10))).await;
    assert_eq!(page.found.iter().map(|overdue| overdue.place.id).collect::<Vec<_>>(), [behind.place.id]);
}
