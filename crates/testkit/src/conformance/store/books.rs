//! The account: promise 6. Every case of the suite ends with it; these are the ones that are about it.

use super::{
    balanced,
    sample::{CALLER, KEEP, NOW, apply, ask, insert, queue, step, version},
    walk::{push, reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Books, Change, Tally},
};
use punctual_domain::{
    name::QueueKey,
    state::{State, TRANSITIONS},
    task::NewTask,
    time::Millis,
};
use std::sync::Arc;
use tokio::task::JoinSet;

pub async fn an_empty_store_has_empty_books(store: Arc<dyn Store>) {
    assert_eq!(store.books().await.unwrap(), Books::default());
    assert_eq!(store.audit().await.unwrap(), Books::default());
}

fn tally(queue: QueueKey, state: State, tasks: i64) -> Tally {
    Tally { queue, state, tasks }
}

pub async fn books_are_sorted_and_say_where_every_task_is(store: Arc<dyn Store>) {
    for (id, name) in [(1, "b"), (2, "a"), (3, "b"), (4, "b")] {
        insert(&*store, NewTask { queue: queue(name), ..ask(id) }).await;
    }
    walk_to(&*store, 5, State::Running).await;
    let task = insert(&*store, NewTask { queue: queue("b"), ..ask(1) }).await.task;
    apply(&*store, step(&task, Change::Cancel { keep_until: KEEP }), NOW).await;
    let books = store.books().await.unwrap();
    let standing = vec![
        tally(queue("a"), State::Scheduled, 1),
        tally(queue("b"), State::Scheduled, 2),
        tally(queue("b"), State::Cancelled, 1),
        tally(queue("mail"), State::Running, 1),
    ];
    assert_eq!(books, Books { accepted: 5, deleted: 0, standing });
}

pub async fn a_replacement_that_changes_queue_moves_the_account(store: Arc<dyn Store>) {
    insert(&*store, ask(1)).await;
    let batch = vec![NewTask { queue: queue("sms"), ..ask(1) }, NewTask { queue: queue("fax"), ..ask(1) }];
    store.insert(batch, CALLER, NOW).await.unwrap();
    let books = store.books().await.unwrap();
    let standing = vec![tally(queue("fax"), State::Scheduled, 1)];
    assert_eq!(books, Books { accepted: 1, deleted: 0, standing }, "a replacement creates no row");
}

pub async fn every_accepted_task_stays_accounted_for_to_its_end(store: Arc<dyn Store>) {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut tasks = Vec::new();
    for state in reachable() {
        for copy in 0..5 {
            tasks.push(walk_to(&*store, i64::from(state.code()) * 10 + copy, state).await.place);
        }
    }
    for _ in 0..300 {
        let row = &TRANSITIONS[rng.usize(..TRANSITIONS.len())];
        let task = super::sample::read(&*store, tasks[rng.usize(..tasks.len())]).await;
        push(&*store, &task, row.event, NOW).await;
    }
    balanced(&*store).await;
    store.retire(Millis::MAX, Millis::MAX, 20).await.unwrap();
    balanced(&*store).await;
    let books = store.books().await.unwrap();
    assert_eq!(books.accepted, i64::try_from(tasks.len()).unwrap());
}

pub async fn books_balance_while_many_write(store: Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for writer in 0..16_i64 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for round in 0..10 {
                let id = (writer * 7 + round) % 40;
                let task = insert(&*store, version(id, round)).await.task;
                push(&*store, &task, TRANSITIONS[2].event, NOW).await;
                assert_eq!(store.books().await.unwrap().unaccounted(), 0, "at all times");
            }
        });
    }
    writers.join_all().await;
}

pub async fn to_check_the_writers_is_counted_nowhere(store: Arc<dyn Store>) {
    check_writers(&*store).await;
    assert_eq!(store.books().await.unwrap(), Books::default());
    insert(&*store, ask(1)).await;
    let before = store.books().await.unwrap();
    check_writers(&*store).await;
    check_writers(&*store).await;
    assert_eq!(store.books().await.unwrap(), before);
    balanced(&*store).await;
}

async fn check_writers(store: &dyn Store) {
    for part in 0..store.parts() {
        store.check_writers_in(part).await.unwrap();
    }
}
