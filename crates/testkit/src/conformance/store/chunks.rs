//! The tasks of a queue among those of all others: found immediately however few they are, and none is
//! missed.

use super::sample::{CALLER, KEEP, NOW, ask, insert, moved, name, queue};
use punctual_contract::{
    Store,
    store::{Change, Page, Query},
};
use punctual_domain::{
    insert::OnConflict,
    name::Name,
    state::State,
    task::{NewTask, Task},
};
use std::sync::Arc;

/// The number of tasks that a user had when a list of 32 was empty.
const TASKS: i64 = 65_000;
const BATCH: i64 = 5_000;

fn of(queue: &str) -> Query {
    let (namespace, queue) = (Some(Name::default_namespace()), Some(name(queue)));
    Query { namespace, queue, limit: 50, ..Query::default() }
}

fn ids(tasks: &[Task]) -> Vec<i64> {
    tasks.iter().map(Task::task_id).collect()
}

/// All pages, and how many there were.
async fn pages(store: &dyn Store, query: &Query) -> (Vec<i64>, usize) {
    let (mut all, mut query) = (Vec::new(), query.clone());
    for nth in 1..1_000 {
        let Page { tasks, next_before_id, .. } = store.list(&query).await.unwrap();
        assert!(tasks.len() <= query.limit, "bounded");
        all.extend(ids(&tasks));
        query.before_id = next_before_id;
        if next_before_id.is_none() {
            return (all, nth);
        }
    }
    panic!("a list that never ends");
}

/// Every 2,031st is of the queue, and others of the kind.
fn one(id: i64) -> NewTask {
    match id % 2_031 {
        8 => NewTask { queue: queue("orders"), ..ask(id) },
        1_000 => NewTask { kind: name("odd"), ..ask(id) },
        _ => ask(id),
    }
}

pub async fn thirty_two_of_sixty_five_thousand_are_one_page(store: Arc<dyn Store>) {
    let mut odd_ones = Vec::new();
    for from in (0..TASKS).step_by(usize::try_from(BATCH).unwrap()) {
        let asks = (from..from + BATCH).map(one).collect();
        let stored = store.insert(asks, CALLER, NOW).await.unwrap();
        odd_ones.extend(
            stored.into_iter().map(|inserted| inserted.task).filter(|task| task.task_id() % 2_031 == 1_500),
        );
    }
    let each = |nth: i64| (0..TASKS).rev().filter(move |id| id % 2_031 == nth).collect::<Vec<_>>();
    let orders = store.list(&of("orders")).await.unwrap();
    let (first, next) = (ids(&orders.tasks), orders.next_before_id);
    // One look reads twenty chunks: tasks in further chunks are found by the next, and none is skipped.
    let (all, looks) = pages(&*store, &of("orders")).await;
    assert_eq!((all.as_slice(), first.len() >= 19), (each(8).as_slice(), true), "{next:?}");
    assert!(looks <= 4, "{looks} looks");
    assert_eq!(each(8).len(), 32);
    let (kind, looks) = pages(&*store, &Query { kind: Some(name("odd")), ..of("mail") }).await;
    assert_eq!((kind.as_slice(), looks <= 4), (each(1_000).as_slice(), true), "{looks} looks");
    let (none, looks) = pages(&*store, &of("nobody")).await;
    assert_eq!((none.as_slice(), looks), ([].as_slice(), 1), "nothing is walked for a queue without tasks");
    for task in &odd_ones {
        moved(&*store, task, Change::Cancel { keep_until: KEEP }, NOW).await;
    }
    let cancelled = Query { state: Some(State::Cancelled), ..of("mail") };
    assert_eq!(pages(&*store, &cancelled).await.0, each(1_500));
    for limit in [1, 5, 31, 32, 33] {
        let found = pages(&*store, &Query { limit, ..of("orders") }).await.0;
        assert_eq!(found, each(8), "pages of {limit}: none twice, none missing, the newest first");
    }
}

pub async fn what_goes_into_another_queue_is_found_there(store: Arc<dyn Store>) {
    let mut tasks = Vec::new();
    for id in 0..3 {
        tasks.push(insert(&*store, ask(id)).await.task);
    }
    // Others behind them, so that the chunk is not the one that is written.
    store.insert((100..2_600).map(ask).collect(), CALLER, NOW).await.unwrap();
    let queue = Some(name("sms"));
    let change = Change::Reschedule { execute_at: None, priority: None, payload: None, queue };
    let task = moved(&*store, &tasks[1], change, NOW).await;
    assert_eq!(pages(&*store, &of("sms")).await.0, [1]);
    let of_kind = Query { kind: Some(task.ask.kind), ..of("sms") };
    assert_eq!(pages(&*store, &of_kind).await.0, [1], "as one of its kind");
    assert!(!pages(&*store, &of("mail")).await.0.contains(&1));
}

pub async fn a_replacement_is_found_in_its_new_queue_and_kind(store: Arc<dyn Store>) {
    for id in 0..3 {
        insert(&*store, ask(id)).await;
    }
    store.insert((100..2_600).map(ask).collect(), CALLER, NOW).await.unwrap();
    let other = NewTask {
        queue: queue("sms"),
        kind: name("odd"),
        task_version: 1,
        on_conflict: OnConflict::Replace,
        ..ask(1)
    };
    insert(&*store, other).await;
    let of_kind = Query { kind: Some(name("odd")), ..of("sms") };
    assert_eq!(pages(&*store, &of_kind).await.0, [1]);
    assert_eq!(pages(&*store, &of("sms")).await.0, [1]);
}
