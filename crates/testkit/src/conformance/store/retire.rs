//! The deletion of tasks: a success in two steps, the others in one, each batch bounded.

use super::{
    sample::{KEEP, LATER, NOW, ask, find, insert, moved, name, read, version},
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Change, Query, Retired},
};
use punctual_domain::{
    insert::Decision,
    state::{Event, State},
    time::Millis,
};
use std::sync::Arc;

const OVER: Millis = Millis(KEEP.0 + 1);
const STOPPED_UNTIL: Millis = Millis(KEEP.0 + 1_000);
const STOPPED_OVER: Millis = Millis(STOPPED_UNTIL.0 + 1);

pub async fn a_success_is_stopped_first_and_deleted_later(store: Arc<dyn Store>) {
    let before = walk_to(&*store, 1, State::Succeeded).await;
    let retired = store.retire(OVER, STOPPED_UNTIL, 10).await.unwrap();
    assert_eq!(retired, Retired { stopped: 1, deleted: 0, has_more: false });
    let task = read(&*store, before.place).await;
    assert_eq!((task.state, task.keep_until), (State::Stopped, Some(STOPPED_UNTIL)));
    assert_eq!(task.result, before.result, "still readable");
    let line = task.history.last().unwrap();
    assert_eq!((line.event, line.from, line.at), (Some(Event::Retire), Some(State::Succeeded), OVER));
    assert_eq!(store.retire(OVER, STOPPED_UNTIL, 10).await.unwrap(), Retired::default(), "not yet");
    let retired = store.retire(STOPPED_OVER, Millis::MAX, 10).await.unwrap();
    assert_eq!(
        (retired, find(&*store, task.place).await),
        (Retired { stopped: 0, deleted: 1, has_more: false }, None)
    );
}

pub async fn other_finished_tasks_are_deleted_when_their_time_is_over(store: Arc<dyn Store>) {
    for state in [State::Dead, State::Cancelled] {
        let task = walk_to(&*store, 1, state).await;
        let retired = store.retire(OVER, STOPPED_UNTIL, 10).await.unwrap();
        assert_eq!(retired, Retired { stopped: 0, deleted: 1, has_more: false }, "{state:?}");
        assert_eq!(find(&*store, task.place).await, None);
        assert_eq!(store.versions(&name("default"), 1, None, 9).await.unwrap(), []);
        assert_eq!(store.list(&Query { limit: 9, ..Query::default() }).await.unwrap().tasks, []);
    }
}

pub async fn what_is_kept_or_unfinished_is_left_alone(store: Arc<dyn Store>) {
    let mut tasks = Vec::new();
    for state in reachable() {
        tasks.push(walk_to(&*store, i64::from(state.code()), state).await);
    }
    let before_keep = KEEP.plus(-1);
    assert_eq!(store.retire(before_keep, STOPPED_UNTIL, 100).await.unwrap(), Retired::default());
    for task in &tasks {
        assert_eq!(&read(&*store, task.place).await, task);
    }
    for _ in 0..3 {
        store.retire(Millis::MAX, Millis::MAX, 100).await.unwrap();
    }
    for task in tasks.iter().filter(|task| !task.state.is_finished()) {
        assert_eq!(&read(&*store, task.place).await, task, "however long it takes");
    }
}

pub async fn a_batch_is_bounded_and_the_rest_comes_next(store: Arc<dyn Store>) {
    for id in 0..25 {
        let state = if id % 2 == 0 { State::Succeeded } else { State::Cancelled };
        walk_to(&*store, id, state).await;
    }
    let (mut all, mut batches) = (Retired::default(), 0);
    loop {
        let retired = store.retire(OVER, STOPPED_UNTIL, 4).await.unwrap();
        let count = retired.stopped + retired.deleted;
        assert!(count <= 4 && (count < 4 || retired.has_more), "{retired:?}");
        if count == 0 {
            break;
        }
        all.stopped += retired.stopped;
        all.deleted += retired.deleted;
        batches += 1;
        super::balanced(&*store).await;
    }
    assert_eq!((all, batches), (Retired { stopped: 13, deleted: 12, has_more: false }, 7));
    assert_eq!(store.retire(STOPPED_OVER, STOPPED_UNTIL, 0).await.unwrap(), Retired::default());
}

pub async fn what_was_deleted_can_be_asked_for_again(store: Arc<dyn Store>) {
    let old = walk_to(&*store, 1, State::Cancelled).await;
    store.retire(OVER, STOPPED_UNTIL, 10).await.unwrap();
    let again = insert(&*store, version(1, 0)).await;
    assert_eq!((again.decision, again.task.attempt), (Decision::Create, 0));
    assert_ne!(again.task.place.id, old.place.id, "an old reference does not lead to another task");
    assert_eq!(find(&*store, old.place).await, None);
    let other = insert(&*store, ask(2)).await.task;
    let task = moved(&*store, &other, Change::Cancel { keep_until: NOW }, LATER).await;
    assert_eq!(
        store.retire(LATER, STOPPED_UNTIL, 10).await.unwrap(),
        Retired { stopped: 0, deleted: 1, has_more: false }
    );
    assert_eq!(find(&*store, task.place).await, None);
}
