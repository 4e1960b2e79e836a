//! Takes a fresh task to any state by legal moves of the public contract only, and causes any event by the
//! contract's method for it.

use super::sample::{
    ENGINE, KEEP, NEXT, NOW, apply, dispatch, grant, insert, insert_at, read, result, step, version,
};
use punctual_contract::{
    Store,
    store::{Applied, Change},
};
use punctual_domain::{
    insert::Decision,
    state::{Event, State, TRANSITIONS},
    task::{Content, Task},
    time::Millis,
};

/// The exceptions: states that no call of the contract leads to. Only workflows will block a task; until then the
/// event `Unblock` can only be lost, and no test pretends otherwise.
pub const UNREACHABLE: [State; 1] = [State::Blocked];

pub(super) fn reachable() -> impl Iterator<Item = State> {
    State::ALL.into_iter().filter(|state| !UNREACHABLE.contains(state))
}

/// A new task, version 0, taken to `goal` by the shortest way.
pub(super) async fn walk_to(store: &dyn Store, task_id: i64, goal: State) -> Task {
    let place = insert(store, version(task_id, 0)).await.task.place;
    for event in path_to(goal).unwrap() {
        let task = read(store, place).await;
        assert_eq!(push(store, &task, event, NOW).await, Applied::Moved, "{event:?} on the way to {goal:?}");
    }
    let task = read(store, place).await;
    assert_eq!(task.state, goal);
    task
}

/// Makes one event happen to a task, believing in its fence.
pub(super) async fn push(store: &dyn Store, task: &Task, event: Event, now: Millis) -> Applied {
    let happened = match event {
        Event::Replace => insert_at(store, task.ask.clone(), now).await.decision == Decision::Replace,
        Event::Dispatch => dispatch(store, grant(task, now), now).await.is_some(),
        _ => return apply(store, step(task, change(event, now).unwrap()), now).await,
    };
    if happened { Applied::Moved } else { Applied::Lost }
}

/// The change that makes an event; None for the two that have a method of their own.
pub fn change(event: Event, now: Millis) -> Option<Change> {
    let some_result = Some(result(Content::json("1")));
    Some(match event {
        Event::Replace | Event::Dispatch => return None,
        Event::Unblock => Change::Unblock,
        Event::Claim => Change::Claim,
        Event::Reclaim => Change::Reclaim,
        Event::HandBack => Change::HandBack,
        Event::Fire => Change::Fire { fired_at: now },
        Event::FailDispatch => Change::FailDispatch,
        Event::Release => Change::Release,
        Event::Start => Change::Start,
        Event::Succeed => Change::Succeed { result: result(Content::json("2")), keep_until: KEEP },
        Event::Retry => Change::Retry { due_at: NEXT, result: some_result },
        Event::Snooze => Change::Snooze { due_at: NEXT },
        Event::Bury => Change::Bury { result: some_result, keep_until: KEEP },
        Event::Expire => Change::Expire { keep_until: KEEP },
        Event::DeadLetter => Change::DeadLetter { keep_until: KEEP },
        Event::Cancel => Change::Cancel { keep_until: KEEP },
        Event::Withdraw => Change::Withdraw { keep_until: KEEP },
        Event::Abort => Change::Abort { keep_until: KEEP },
        Event::Reschedule => {
            Change::Reschedule { execute_at: Some(NEXT), priority: None, payload: None, queue: None }
        }
        Event::Amend => {
            let (max_attempts, priority, payload) = (None, None, None);
            Change::Amend { max_attempts, priority, payload, timeout_ms: None, retry: None }
        }
        Event::Redrive => Change::Redrive { execute_at: NEXT },
        Event::Retire => Change::Retire { keep_until: KEEP.plus(1) },
    })
}

/// The recorded author of a move by `push`, or `None` if the contract does not say.
pub(super) fn doer(event: Event) -> &'static str {
    match event {
        Event::Replace => super::sample::CALLER,
        Event::Dispatch => super::sample::EXECUTOR,
        _ => ENGINE,
    }
}

/// The shortest way from a new task: breadth first over the table.
pub fn path_to(goal: State) -> Option<Vec<Event>> {
    let mut found = vec![(State::Scheduled, Vec::new())];
    let mut next = 0;
    while let Some((state, path)) = found.get(next).cloned() {
        if state == goal {
            return Some(path);
        }
        for row in TRANSITIONS.iter().filter(|transition| transition.from.contains(&state)) {
            if found.iter().all(|(seen, _)| *seen != row.to) {
                let longer = path.iter().copied().chain([row.event]).collect();
                found.push((row.to, longer));
            }
        }
        next += 1;
    }
    None
}
