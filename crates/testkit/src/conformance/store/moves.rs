//! Moves of tasks: every pair of state and event through the public contract, fences, batches, races.

use super::{
    sample::{
        CALLER, ENGINE, KEEP, LATER, NEXT, NOW, apply, ask, dispatch, find, full, grant, insert, insert_at,
        moved, nowhere, read, step, version,
    },
    walk::{change, doer, push, reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Applied, Change, EndedAttempt, Step, Stepped},
};
use punctual_domain::{
    place::TaskRef,
    state::{Event, State, TRANSITIONS},
    task::Task,
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

fn pairs() -> impl Iterator<Item = (i64, State, Event)> {
    let all = reachable().flat_map(|state| TRANSITIONS.iter().map(move |row| (state, row.event)));
    (0..).zip(all).map(|(id, (state, event))| (id, state, event))
}

pub async fn every_legal_move_is_made_and_recorded(store: Arc<dyn Store>) {
    for (id, state, event) in pairs().filter(|(_, state, event)| state.after(*event).is_ok()) {
        let before = walk_to(&*store, id, state).await;
        assert_eq!(push(&*store, &before, event, LATER).await, Applied::Moved, "{event:?} from {state:?}");
        check_move(&before, &read(&*store, before.place).await, event);
    }
}

/// Whatever ended it, and also where one attempt is named twice.
pub async fn a_move_that_ends_an_attempt_says_whose_it_was(store: Arc<dyn Store>) {
    for (id, state, event) in pairs().filter(|(_, state, event)| state.after(*event).is_ok()) {
        let Some(change) = change(event, LATER) else { continue };
        let before = walk_to(&*store, id, state).await;
        let stepped = store.apply(vec![step(&before, change)], LATER).await.unwrap();
        let expected = before.lease.as_ref().map(|lease| EndedAttempt {
            queue: before.ask.queue.clone(),
            leased_since: lease.since,
            traceparent: before.ask.traceparent.clone(),
        });
        assert_eq!(
            stepped,
            [Stepped { applied: Applied::Moved, attempt: expected }],
            "{event:?} from {state:?}"
        );
    }
    let task = insert(&*store, full(1_000_001)).await.task;
    let task = moved(&*store, &task, Change::Claim, NOW).await;
    let leased = dispatch(&*store, grant(&task, NOW), LATER).await.unwrap();
    let succeed = change(Event::Succeed, LATER).unwrap();
    let at = Step { fence: Some(leased.fence), ..step(&task, succeed) };
    let stepped = store.apply(vec![at.clone(), at], LATER).await.unwrap();
    let queue = task.ask.queue.clone();
    let attempt = EndedAttempt { queue, leased_since: LATER, traceparent: task.ask.traceparent.clone() };
    assert_eq!(stepped, [Stepped { applied: Applied::Moved, attempt: Some(attempt) }, Stepped::LOST]);
}

fn check_move(before: &Task, after: &Task, event: Event) {
    let what = format!("{event:?} from {:?}", before.state);
    assert_eq!(Ok(after.state), before.state.after(event), "{what}");
    assert_eq!((after.place.id, after.place.partition), (before.place.id, before.place.partition), "{what}");
    assert_eq!((after.created_at, after.updated_at), (before.created_at, LATER), "{what}");
    assert_eq!(after.lease.is_some(), after.state.is_in_flight(), "{what}: the lease");
    assert_eq!(after.keep_until.is_some(), after.state.is_finished(), "{what}: keep_until");
    assert_eq!(after.attempt, attempt_after(before.attempt, event), "{what}: the attempt");
    check_fence(before.fence, after.fence, event, &what);
    check_plan(before, after, event, &what);
    let (last, earlier) = after.history.split_last().unwrap();
    assert_eq!(earlier, before.history, "{what}: one line more");
    assert_eq!((last.at, last.event, last.by.as_str()), (LATER, Some(event), doer(event)), "{what}");
    assert_eq!((last.from, last.to), (Some(before.state), after.state), "{what}");
    assert_eq!(last.attempt, after.attempt, "{what}: the attempt as the move leaves it");
}

fn attempt_after(before: u32, event: Event) -> u32 {
    match event {
        Event::Dispatch => before + 1,
        Event::Release | Event::Snooze => before - 1,
        Event::Replace | Event::Redrive => 0,
        _ => before,
    }
}

/// It grows with every hand-over and every change of plan, never shrinks, and keeps a hot entry good until then.
fn check_fence(before: i64, after: i64, event: Event, what: &str) {
    match event {
        Event::Dispatch | Event::Replace | Event::Reschedule | Event::Amend | Event::Redrive => {
            assert!(after > before, "{what}")
        }
        Event::Claim | Event::Reclaim | Event::HandBack | Event::Fire | Event::FailDispatch => {
            assert_eq!(after, before, "{what}");
        }
        Event::Release | Event::Start => assert_eq!(after, before, "{what}"),
        _ => assert!(after >= before, "{what}"),
    }
}

/// Only a caller changes the caller's request; and only some moves change the due time.
fn check_plan(before: &Task, after: &Task, event: Event, what: &str) {
    let plans_another_time =
        matches!(event, Event::Reschedule | Event::Redrive | Event::Retry | Event::Snooze);
    if plans_another_time {
        assert_eq!(after.ask.execute_at, NEXT, "{what}");
    } else {
        assert_eq!(after.ask, before.ask, "{what}: the caller's wish is the caller's");
    }
    match event {
        Event::Reschedule | Event::Redrive | Event::Retry | Event::Snooze => {
            assert_eq!(after.due_at, NEXT, "{what}")
        }
        Event::Replace => assert_eq!(after.due_at, before.ask.execute_at.max(LATER), "{what}"),
        _ => assert_eq!(after.due_at, before.due_at, "{what}"),
    }
}

pub async fn every_other_pair_is_lost_and_leaves_the_task_alone(store: Arc<dyn Store>) {
    for (id, state, event) in pairs().filter(|(_, state, event)| state.after(*event).is_err()) {
        let before = walk_to(&*store, id, state).await;
        assert_eq!(push(&*store, &before, event, LATER).await, Applied::Lost, "{event:?} from {state:?}");
        assert_eq!(read(&*store, before.place).await, before, "{event:?} from {state:?}");
    }
}

pub async fn a_fence_that_is_not_the_tasks_is_refused_for_every_move(store: Arc<dyn Store>) {
    for (id, row) in (0..).zip(TRANSITIONS.iter().filter(|transition| transition.event != Event::Replace)) {
        let Some(state) =
            row.from.iter().copied().find(|candidate| reachable().any(|state| state == *candidate))
        else {
            continue;
        };
        let task = walk_to(&*store, id, state).await;
        for fence in [task.fence - 1, task.fence + 1, i64::MIN, i64::MAX] {
            let believed = Task { fence, ..task.clone() };
            assert_eq!(push(&*store, &believed, row.event, LATER).await, Applied::Lost, "{:?}", row.event);
            assert_eq!(read(&*store, task.place).await, task, "{:?}", row.event);
        }
        assert_eq!(push(&*store, &task, row.event, LATER).await, Applied::Moved, "{:?}", row.event);
    }
}

pub async fn without_a_fence_any_is_accepted(store: Arc<dyn Store>) {
    for (id, row) in (0..).zip(TRANSITIONS) {
        let Some(change) = change(row.event, LATER) else { continue };
        let Some(state) =
            row.from.iter().copied().find(|candidate| reachable().any(|state| state == *candidate))
        else {
            continue;
        };
        let task = walk_to(&*store, id, state).await;
        let blind = Step { fence: None, ..step(&task, change) };
        assert_eq!(apply(&*store, blind, LATER).await, Applied::Moved, "{:?}", row.event);
        assert_eq!(read(&*store, task.place).await.state, row.to);
    }
}

pub async fn a_task_that_does_not_exist_is_lost(store: Arc<dyn Store>) {
    let task = insert(&*store, ask(1)).await.task;
    let missing = Task { place: nowhere(), ..task.clone() };
    for row in TRANSITIONS.iter().filter(|transition| transition.event != Event::Replace) {
        assert_eq!(push(&*store, &missing, row.event, LATER).await, Applied::Lost, "{:?}", row.event);
    }
    assert_eq!(store.request_stop(nowhere(), LATER).await.unwrap(), Applied::Lost);
    assert_eq!(find(&*store, nowhere()).await, None);
    assert_eq!(read(&*store, task.place).await, task);
}

pub async fn a_place_that_is_out_of_date_still_finds_its_task(store: Arc<dyn Store>) {
    let task = insert(&*store, ask(1)).await.task;
    let old = task.place;
    let change = Change::Reschedule { execute_at: Some(NEXT), priority: None, payload: None, queue: None };
    let rescheduled = moved(&*store, &task, change, NOW).await;
    for due_at in [old.due_at, NEXT, Millis::ZERO, Millis::MAX] {
        let place = TaskRef { due_at, ..old };
        assert_eq!(find(&*store, place).await, find(&*store, old).await, "{due_at}");
        for change in [Change::Claim, Change::HandBack] {
            let stale = Step { place, ..step(&rescheduled, change) };
            assert_eq!(apply(&*store, stale, NOW).await, Applied::Moved, "{due_at}");
        }
        assert_eq!(read(&*store, place).await.due_at, NEXT);
        assert_eq!(store.request_stop(place, NOW).await.unwrap(), Applied::Lost, "found, and not in flight");
    }
    let claimed = moved(&*store, &read(&*store, old).await, Change::Claim, NOW).await;
    let mut stale = grant(&claimed, NOW);
    stale.place.due_at = Millis(1);
    assert!(store.dispatch(vec![stale], NOW).await.unwrap().remove(0).made().is_some());
}

pub async fn results_of_steps_stand_in_their_order(store: Arc<dyn Store>) {
    let mut steps = Vec::new();
    let mut wanted = Vec::new();
    for id in 0..300 {
        let task = insert(&*store, ask(id)).await.task;
        let (change, applied) = match id % 3 {
            0 => (Change::Claim, Applied::Moved),
            1 => (Change::Start, Applied::Lost),
            _ => (Change::Cancel { keep_until: KEEP }, Applied::Moved),
        };
        steps.push(step(&task, change));
        wanted.push(applied);
    }
    fastrand::Rng::with_seed(3).shuffle(&mut steps[..]);
    fastrand::Rng::with_seed(3).shuffle(&mut wanted[..]);
    assert_eq!(store.apply(steps, LATER).await.unwrap(), wanted);
}

pub async fn one_task_twice_in_a_batch_moves_step_by_step(store: Arc<dyn Store>) {
    let task = insert(&*store, ask(1)).await.task;
    let changes =
        [Change::Claim, Change::Claim, Change::Fire { fired_at: NOW }, Change::Claim, Change::FailDispatch];
    let steps = changes.map(|change| step(&task, change)).to_vec();
    let (yes, no) = (Applied::Moved, Applied::Lost);
    assert_eq!(store.apply(steps, LATER).await.unwrap(), [yes, no, yes, no, yes]);
    let task = read(&*store, task.place).await;
    assert_eq!((task.state, task.history.len()), (State::DispatchFailed, 4));
}

pub async fn no_steps_are_nothing(store: Arc<dyn Store>) {
    assert!(store.apply(Vec::new(), NOW).await.unwrap().is_empty());
    assert_eq!(store.dispatch(Vec::new(), NOW).await.unwrap(), []);
    assert_eq!(store.extend(Vec::new(), NOW).await.unwrap(), []);
    assert_eq!(store.read(&[]).await.unwrap(), []);
}

pub async fn of_many_who_claim_one_task_one_gets_it(store: Arc<dyn Store>) {
    let task = insert(&*store, ask(1)).await.task;
    let mut owners = JoinSet::new();
    for _ in 0..64 {
        let (store, claim) = (Arc::clone(&store), step(&task, Change::Claim));
        owners.spawn(async move { apply(&*store, claim, LATER).await });
    }
    let got = owners.join_all().await;
    assert_eq!(got.iter().filter(|applied| **applied == Applied::Moved).count(), 1);
    assert_eq!(read(&*store, task.place).await.history.len(), 2, "the lost ones left no line");
}

/// Calls are dropped after more and more polls. A later call then shows the effect of each.
pub async fn an_abandoned_call_leaves_no_half(store: Arc<dyn Store>) {
    for round in 0..12_i64 {
        let ids = round * 100..(round + 1) * 100;
        let batch = ids.clone().map(ask).collect();
        let polls = Duration::from_micros(u64::try_from(round).unwrap() * 100);
        let call = store.insert(batch, CALLER, NOW);
        drop(tokio::time::timeout(polls, call).await);
    }
    let ids: Vec<i64> = (0..1_200).collect();
    let recorded = store.insert(ids.iter().map(|id| version(*id, 0)).collect(), CALLER, LATER).await.unwrap();
    for inserted in &recorded {
        let task = read(&*store, inserted.task.place).await;
        assert_eq!((task.state, &task.ask), (State::Scheduled, &version(task.task_id(), 0)));
        let lines: Vec<_> = task.history.iter().map(|entry| (entry.event, entry.at)).collect();
        let (new, replaced) = (vec![(None, LATER)], vec![(None, NOW), (Some(Event::Replace), LATER)]);
        assert!(lines == new || lines == replaced, "{lines:?}");
    }
    assert_eq!(store.books().await.unwrap().accepted, 1_200);
}

pub async fn the_given_time_is_the_only_clock(store: Arc<dyn Store>) {
    let task = insert_at(&*store, ask(1), Millis(5)).await.task;
    assert_eq!((task.created_at, task.updated_at), (Millis(5), Millis(5)));
    let far = Millis::MAX.plus(-10);
    let task = moved(&*store, &task, Change::Claim, far).await;
    assert_eq!((task.updated_at, task.history[1].at), (far, far));
    let task = moved(&*store, &task, Change::HandBack, Millis(7)).await;
    assert_eq!(task.history.iter().map(|entry| entry.at).collect::<Vec<_>>(), [Millis(5), far, Millis(7)]);
    assert_eq!((task.history[1].by.as_str(), task.updated_at), (ENGINE, Millis(7)), "clocks may go back");
}
