//! The account: promise 6. Every case of the suite ends with it; these are the ones that are about it.

use super::{
    balanced,
    sample::{CALLER, KEEP, NOW, apply, ask, insert, queue, step, version},
    walk::{push, reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Books, Change, PendingBytes, Tally},
};
use punctual_domain::{
    name::QueueKey,
    state::{Event, State, TRANSITIONS},
    task::{Content, NewTask},
    time::Millis,
};
use std::sync::Arc;
use tokio::task::JoinSet;

pub async fn an_empty_store_has_empty_books(store: Arc<dyn Store>) {
    assert_eq!(store.books().await.unwrap(), Books::default());
    assert_eq!(store.audit().await.unwrap(), Books::default());
}

fn pending(queue: QueueKey, bytes: usize) -> PendingBytes {
    PendingBytes { queue, bytes: i64::try_from(bytes).unwrap() }
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
    let tallies = vec![
        tally(queue("a"), State::Scheduled, 1),
        tally(queue("b"), State::Scheduled, 2),
        tally(queue("b"), State::Cancelled, 1),
        tally(queue("mail"), State::Running, 1),
    ];
    // Of each `{}`.
    let pending_bytes = vec![pending(queue("a"), 2), pending(queue("b"), 4)];
    assert_eq!(books, Books { accepted: 5, deleted: 0, tallies, pending_bytes });
}

pub async fn a_replacement_that_changes_queue_moves_the_account(store: Arc<dyn Store>) {
    insert(&*store, ask(1)).await;
    let batch = vec![NewTask { queue: queue("sms"), ..ask(1) }, NewTask { queue: queue("fax"), ..ask(1) }];
    store.insert(batch, CALLER, NOW).await.unwrap();
    let books = store.books().await.unwrap();
    let tallies = vec![tally(queue("fax"), State::Scheduled, 1)];
    let pending_bytes = vec![pending(queue("fax"), 2)];
    let wanted = Books { accepted: 1, deleted: 0, tallies, pending_bytes };
    assert_eq!(books, wanted, "a replacement creates no row");
}

/// Covers payloads in the row, beside it, and outside of the store.
pub async fn a_task_that_goes_into_another_queue_takes_its_account_along(store: Arc<dyn Store>) {
    let sizes = [7, 5_000, 3_000_000];
    let payload = |size: usize| match size {
        3_000_000 => Content::outside(true, "ab/cd", size),
        _ => Content::binary(vec![b'x'; size]),
    };
    let into = |queue: &str| Change::Reschedule {
        execute_at: None,
        priority: None,
        payload: None,
        queue: Some(super::sample::name(queue)),
    };
    for (id, size) in (0..).zip(sizes) {
        let stays = NewTask { payload: Content::binary(vec![1]), ..ask(100 + id) };
        insert(&*store, stays).await;
        let place = insert(&*store, NewTask { payload: payload(size), ..ask(id) }).await.task.place;
        // From every state that a change of plan leaves.
        let waiting = super::sample::read(&*store, place).await;
        if size == 5_000 {
            push(&*store, &waiting, Event::Claim, NOW).await;
        }
        let waiting = super::sample::read(&*store, place).await;
        apply(&*store, step(&waiting, into("sms")), NOW).await;
        balanced(&*store).await;
        let moved = super::sample::read(&*store, place).await;
        assert_eq!((&moved.ask.queue, moved.state), (&queue("sms"), State::Scheduled));
        assert_eq!(
            NewTask { queue: queue("mail"), ..moved.ask.clone() },
            waiting.ask,
            "and nothing else changes"
        );
        assert!(moved.fence > waiting.fence, "an entry of before is refused");
        apply(&*store, step(&moved, into("sms")), NOW).await;
        balanced(&*store).await;
    }
    let books = store.books().await.unwrap();
    let tallies = vec![tally(queue("mail"), State::Scheduled, 3), tally(queue("sms"), State::Scheduled, 3)];
    let pending_bytes = vec![pending(queue("mail"), 3), pending(queue("sms"), sizes.iter().sum())];
    assert_eq!(books, Books { accepted: 6, deleted: 0, tallies, pending_bytes });
    // Together with all else that a change of plan can be.
    let place = super::sample::read(&*store, insert(&*store, ask(200)).await.task.place).await;
    let all = Change::Reschedule {
        execute_at: Some(NOW.plus(9)),
        priority: Some(punctual_domain::task::Priority::LOWEST),
        payload: Some(payload(5_000)),
        queue: Some(super::sample::name("fax")),
    };
    apply(&*store, step(&place, all), NOW).await;
    balanced(&*store).await;
    let moved = super::sample::read(&*store, place.place).await;
    assert_eq!((moved.ask.queue, moved.due_at), (queue("fax"), NOW.plus(9)));
    let fax = store
        .books()
        .await
        .unwrap()
        .pending_bytes
        .into_iter()
        .find(|pending_bytes| pending_bytes.queue == queue("fax"));
    assert_eq!(fax, Some(pending(queue("fax"), 5_000)));
}

/// Covers short payloads, long ones, and ones that are stored outside of the store, whose length outside counts.
pub async fn books_have_the_bytes_of_payloads_as_long_as_their_tasks_wait(store: Arc<dyn Store>) {
    let sizes = [7, 5_000, 3_000_000];
    let payload = |size: usize| match size {
        3_000_000 => Content::outside(true, "ab/cd", size),
        _ => Content::binary(vec![b'x'; size]),
    };
    let of_mail = async |store: &dyn Store| {
        balanced(store).await;
        let books = store.books().await.unwrap();
        books
            .pending_bytes
            .iter()
            .map(|pending_bytes| usize::try_from(pending_bytes.bytes).unwrap())
            .sum::<usize>()
    };
    let mut waiting = 0;
    for (nth, size) in sizes.into_iter().enumerate() {
        for event in [Event::Retry, Event::Release, Event::Snooze, Event::Succeed, Event::Bury] {
            let id = i64::try_from(nth).unwrap() * 100 + i64::from(event as u8);
            let place = insert(&*store, NewTask { payload: payload(size), ..ask(id) }).await.task.place;
            let read = async || super::sample::read(&*store, place).await;
            assert_eq!(of_mail(&*store).await, waiting + size, "{size} comes in");
            push(&*store, &read().await, Event::Claim, NOW).await;
            assert_eq!(of_mail(&*store).await, waiting + size, "it still waits");
            push(&*store, &read().await, Event::Dispatch, NOW).await;
            assert_eq!(of_mail(&*store).await, waiting, "an executor has it");
            push(&*store, &read().await, event, NOW).await;
            waiting += if event.target().is_pending() { size } else { 0 };
            assert_eq!(of_mail(&*store).await, waiting, "{event:?} of {size}");
        }
    }
    let place = insert(&*store, NewTask { payload: payload(7), ..ask(999) }).await.task.place;
    for size in [5_000, 3_000_000, 40, 5_001, 9] {
        let change = Change::Reschedule {
            execute_at: None,
            priority: None,
            payload: Some(payload(size)),
            queue: None,
        };
        let task = super::sample::read(&*store, place).await;
        apply(&*store, step(&task, change), NOW).await;
        assert_eq!(of_mail(&*store).await, waiting + size, "another payload");
    }
    for size in [5_000, 3_000_000, 9] {
        insert(&*store, NewTask { payload: payload(size), ..ask(999) }).await;
        assert_eq!(of_mail(&*store).await, waiting + size, "replaced");
    }
    let task = super::sample::read(&*store, place).await;
    apply(&*store, step(&task, Change::Cancel { keep_until: KEEP }), NOW).await;
    assert_eq!(of_mail(&*store).await, waiting, "cancelled");
    let dead = walk_to(&*store, 1_000, State::Dead).await;
    assert_eq!(of_mail(&*store).await, waiting, "dead");
    push(&*store, &dead, Event::Redrive, NOW).await;
    assert_eq!(of_mail(&*store).await, waiting + 2, "brought back to life");
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
