//! Leases: the holder of a task, the end of the lease, and the calls that a former holder may still make.

use super::{
    sample::{
        self, EXECUTOR, KEEP, LATER, LEASE_END, NOW, apply, ask, beat, dispatch, grant, insert, moved,
        nowhere, read, result, step,
    },
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Applied, Beat, Change, Extended, Grant},
};
use punctual_domain::{
    log::{self, LogLine},
    state::{Event, State},
    task::{Content, Lease, NewTask, Task},
    time::Millis,
};
use std::sync::Arc;

fn held(lease_until: Millis) -> Extended {
    Extended::Held { lease_until, cancel_requested: false, has_begun: false }
}

/// Removes `has_begun`, which has a case of its own.
fn without_begin(extended: Extended) -> Extended {
    match extended {
        Extended::Held { lease_until, cancel_requested, .. } => {
            Extended::Held { lease_until, cancel_requested, has_begun: false }
        }
        Extended::Lost => Extended::Lost,
    }
}

async fn extend(store: &dyn Store, beat: Beat, now: Millis) -> Extended {
    without_begin(sample::extend(store, beat, now).await)
}

/// A task that was handed over at `NOW`, until `LEASE_END` or its timeout.
async fn dispatched(store: &dyn Store, ask: NewTask) -> Task {
    let task = insert(store, ask).await.task;
    let task = moved(store, &task, Change::Claim, NOW).await;
    assert!(dispatch(store, grant(&task, NOW), NOW).await.is_some());
    read(store, task.place).await
}

fn success() -> Change {
    Change::Succeed { result: result(Content::default()), keep_until: KEEP }
}

pub async fn a_beat_extends_the_lease(store: Arc<dyn Store>) {
    for state in [State::Dispatched, State::Running] {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        let until = LEASE_END.plus(60_000);
        assert_eq!(extend(&*store, beat(&task, until), LATER).await, held(until));
        let after = read(&*store, task.place).await;
        let lease = after.lease.unwrap();
        assert_eq!((lease.until, lease.since, lease.executor.as_str()), (until, NOW, EXECUTOR));
        assert_eq!((after.fence, after.attempt), (task.fence, 1), "the token stays good");
        let again = LEASE_END.plus(70_000);
        assert_eq!(
            extend(&*store, beat(&task, again), LEASE_END.plus(1)).await,
            held(again),
            "it was extended"
        );
    }
}

pub async fn a_beat_never_extends_beyond_the_timeout(store: Arc<dyn Store>) {
    let task = dispatched(&*store, NewTask { timeout_ms: Some(90_000), ..ask(1) }).await;
    let end = NOW.plus(90_000);
    assert_eq!(extend(&*store, beat(&task, NOW.plus(80_000)), LATER).await, held(NOW.plus(80_000)));
    assert_eq!(extend(&*store, beat(&task, NOW.plus(95_000)), NOW.plus(70_000)).await, held(end));
    assert_eq!(extend(&*store, beat(&task, Millis::MAX), end.plus(-1)).await, held(end));
    assert_eq!(extend(&*store, beat(&task, Millis::MAX), end).await, Extended::Lost, "the timeout is over");
    let endless = dispatched(&*store, NewTask { timeout_ms: Some(i64::MAX), ..ask(2) }).await;
    let far = LEASE_END.plus(1_000_000_000);
    assert_eq!(extend(&*store, beat(&endless, far), LATER).await, held(far), "no overflow");
}

pub async fn an_attempt_that_is_leased_ahead_begins_when_it_fires(store: Arc<dyn Store>) {
    for (id, is_claimed) in [(1, true), (2, false)] {
        let task = insert(&*store, NewTask { timeout_ms: Some(500), ..ask(id) }).await.task;
        let task = if is_claimed { moved(&*store, &task, Change::Claim, NOW).await } else { task };
        let fires_at = NOW.plus(80);
        let ahead = Grant { fired_at: fires_at, executor: Lease::ahead("e"), ..grant(&task, NOW) };
        let leased = dispatch(&*store, ahead, NOW).await.unwrap();
        assert_eq!((leased.fired_at, leased.lease_until), (fires_at, fires_at.plus(500)));
        let task = read(&*store, task.place).await;
        let lease = task.lease.as_ref().unwrap();
        assert!(lease.is_ahead() && task.updated_at == NOW);
        assert_eq!((lease.since, lease.until), (fires_at, fires_at.plus(500)));
        let line = task.history.last().unwrap();
        assert_eq!((line.event, line.at, line.attempt), (Some(Event::Dispatch), fires_at, 1));
    }
}

pub async fn whoever_was_handed_a_task_is_written_down_and_has_not_begun(store: Arc<dyn Store>) {
    let task = dispatched(&*store, NewTask { timeout_ms: Some(90_000), ..ask(1) }).await;
    let (fired_at, until) = (NOW.plus(3), NOW.plus(80_000));
    let reported = Beat { handed_over_at: Some(fired_at), executor: "bob".to_owned(), ..beat(&task, until) };
    assert_eq!(extend(&*store, reported, LATER).await, held(until));
    let after = read(&*store, task.place).await;
    let lease = after.lease.as_ref().unwrap();
    assert_eq!((lease.executor.as_str(), lease.until, lease.since), ("bob", until, NOW));
    assert_eq!((after.state, after.fired_at), (State::Dispatched, Some(fired_at)));
    assert_eq!(after.history, task.history);
    assert_eq!(extend(&*store, beat(&task, until), LATER).await, held(until));
    let begun = read(&*store, task.place).await;
    assert_eq!((begun.state, begun.fired_at), (State::Running, Some(fired_at)));
    assert_eq!(begun.lease.unwrap().executor, "bob", "a sign of life is not a hand-over");
    let sooner =
        Beat { handed_over_at: Some(fired_at), executor: "al".to_owned(), ..beat(&task, until.plus(-1)) };
    assert_eq!(extend(&*store, sooner, LATER).await, held(until), "told after the sign of life");
    let reported = read(&*store, task.place).await;
    let lease = reported.lease.unwrap();
    assert_eq!((reported.state, lease.executor.as_str(), lease.until), (State::Running, "al", until));
    let late = Beat { handed_over_at: Some(fired_at), executor: "eve".to_owned(), ..beat(&task, until) };
    assert_eq!(extend(&*store, late, until).await, Extended::Lost);
}

/// The outcome was reported to an engine that did not hand the task over.
pub async fn when_an_attempt_fired_is_told_after_its_end_too(store: Arc<dyn Store>) {
    let fired_at = NOW.plus(3);
    let reported = |task: &Task| Beat {
        handed_over_at: Some(fired_at),
        executor: "bob".to_owned(),
        ..beat(task, LEASE_END)
    };
    let task = dispatched(&*store, ask(1)).await;
    let ended = moved(&*store, &task, success(), LATER).await;
    assert_eq!(ended.fired_at, task.fired_at, "as it was planned");
    let other = Beat { fence: task.fence - 1, ..reported(&task) };
    assert_eq!(extend(&*store, other, LATER).await, Extended::Lost);
    assert_eq!(read(&*store, task.place).await, ended);
    assert_eq!(extend(&*store, reported(&task), LATER).await, Extended::Lost);
    assert_eq!(read(&*store, task.place).await, Task { fired_at: Some(fired_at), ..ended });

    let task = dispatched(&*store, ask(2)).await;
    let retries = moved(&*store, &task, Change::Retry { due_at: NOW.plus(9_000), result: None }, LATER).await;
    assert_eq!(extend(&*store, reported(&task), LATER).await, Extended::Lost);
    assert_eq!(read(&*store, task.place).await, retries, "its next attempt has not fired");
}

pub async fn a_lease_that_has_ended_is_lost(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Dispatched).await;
    let until = LEASE_END.plus(1);
    for now in [LEASE_END, LEASE_END.plus(1), Millis::MAX] {
        assert_eq!(extend(&*store, beat(&task, until), now).await, Extended::Lost, "{now}");
        assert_eq!(read(&*store, task.place).await, task, "an ended lease does not come back to life");
    }
    assert_eq!(extend(&*store, beat(&task, until), LEASE_END.plus(-1)).await, held(until));
}

pub async fn a_beat_with_another_fence_is_lost(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    for fence in [task.fence - 1, task.fence + 1] {
        let other = Beat { fence, progress: Some("1".to_owned()), ..beat(&task, LEASE_END.plus(9)) };
        assert_eq!(extend(&*store, other, LATER).await, Extended::Lost);
        assert_eq!(read(&*store, task.place).await, task);
    }
    let retried = moved(&*store, &task, Change::Retry { due_at: NOW, result: None }, LATER).await;
    let claimed = moved(&*store, &retried, Change::Claim, LATER).await;
    dispatch(&*store, grant(&claimed, LATER), LATER).await.unwrap();
    assert_eq!(extend(&*store, beat(&task, LEASE_END), LATER).await, Extended::Lost, "with another attempt");
}

pub async fn a_beat_for_a_finished_or_unknown_task_is_lost(store: Arc<dyn Store>) {
    for state in reachable().filter(|reachable| !reachable.is_in_flight()) {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        assert_eq!(extend(&*store, beat(&task, LEASE_END), NOW).await, Extended::Lost, "{state:?}");
        assert_eq!(read(&*store, task.place).await, task, "{state:?}");
        let unknown = Beat { place: nowhere(), ..beat(&task, LEASE_END) };
        assert_eq!(extend(&*store, unknown, NOW).await, Extended::Lost);
    }
}

pub async fn the_first_beat_starts_the_task_and_later_ones_do_not(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Dispatched).await;
    for begins in [true, false, false] {
        let extended = sample::extend(&*store, beat(&task, LEASE_END), LATER).await;
        assert!(matches!(extended, Extended::Held { has_begun, .. } if has_begun == begins), "{extended:?}");
    }
    let after = read(&*store, task.place).await;
    assert_eq!((after.state, after.history.len()), (State::Running, task.history.len() + 1));
    let line = after.history.last().unwrap();
    assert_eq!(
        (line.event, line.from, line.to),
        (Some(Event::Start), Some(State::Dispatched), State::Running)
    );
    assert_eq!((line.at, line.by.as_str(), line.attempt), (LATER, EXECUTOR, 1));
}

pub async fn progress_is_kept_until_there_is_new(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Dispatched).await;
    let table =
        [(Some("{\"done\":1}"), Some("{\"done\":1}")), (None, Some("{\"done\":1}")), (Some("2"), Some("2"))];
    for (said, kept) in table {
        let sign = Beat { progress: said.map(str::to_owned), ..beat(&task, LEASE_END) };
        assert_eq!(extend(&*store, sign, LATER).await, held(LEASE_END));
        assert_eq!(read(&*store, task.place).await.progress.as_deref(), kept);
    }
}

fn lines(nths: std::ops::Range<i64>, text: &str) -> Vec<LogLine> {
    let line = |nth| LogLine { at: Millis(nth), level: Some("info".to_owned()), text: text.to_owned() };
    nths.map(line).collect()
}

async fn say(store: &dyn Store, task: &Task, said: Vec<LogLine>) -> Extended {
    extend(store, Beat { log: log::encode(said), ..beat(task, LEASE_END) }, LATER).await
}

async fn log_of(store: &dyn Store, task: &Task) -> Vec<LogLine> {
    read(store, task.place).await.log.map_or_else(Vec::new, |log| log::decode(&log))
}

pub async fn what_a_handler_says_is_kept_with_the_task(store: Arc<dyn Store>) {
    let text = "a\nb 'c' \"d\" \\ é \u{1F980} \u{0}";
    for state in [State::Dispatched, State::Running] {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        assert_eq!(say(&*store, &task, lines(1..3, text)).await, held(LEASE_END));
        assert_eq!(say(&*store, &task, Vec::new()).await, held(LEASE_END));
        assert_eq!(say(&*store, &task, lines(3..4, "")).await, held(LEASE_END));
        let want = [lines(1..3, text), lines(3..4, "")].concat();
        assert_eq!(log_of(&*store, &task).await, want, "{state:?}");
        let stale = Task { fence: task.fence - 1, ..task.clone() };
        assert_eq!(say(&*store, &stale, lines(9..10, "stale")).await, Extended::Lost);
        assert_eq!(log_of(&*store, &task).await, want, "{state:?}");
        moved(&*store, &task, success(), LATER).await;
        assert_eq!(log_of(&*store, &task).await, want, "the outcome keeps it");
    }
}

pub async fn a_long_log_loses_its_oldest_lines_only(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    for nth in 0..40 {
        assert_eq!(
            say(&*store, &task, lines(nth * 10..nth * 10 + 10, &"é".repeat(40))).await,
            held(LEASE_END)
        );
    }
    let kept = log_of(&*store, &task).await;
    assert_eq!(kept, lines(400 - i64::try_from(kept.len()).unwrap()..400, &"é".repeat(40)));
    let bytes = read(&*store, task.place).await.log.unwrap().len();
    let whole = log::LOG_LEN_MAX - 200..=log::LOG_LEN_MAX;
    assert!(whole.contains(&bytes), "{bytes}");
    say(&*store, &task, lines(0..100, &"x".repeat(log::LOG_LEN_MAX / 100 - 40))).await;
    assert!(log_of(&*store, &task).await.len() >= 100, "as much as fits in one beat");
}

pub async fn a_replacement_begins_a_new_log(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    say(&*store, &task, lines(1..2, "x")).await;
    let dead = moved(&*store, &task, Change::Bury { result: None, keep_until: KEEP }, LATER).await;
    assert!(dead.log.is_some());
    let again = NewTask { task_version: dead.ask.task_version, ..ask(dead.task_id()) };
    let again = insert(&*store, again).await;
    assert_eq!((again.task.place.id, again.task.log), (dead.place.id, None));
}

pub async fn beats_are_answered_in_their_order(store: Arc<dyn Store>) {
    let mut beats = Vec::new();
    let mut wanted = Vec::new();
    for id in 0..100 {
        let task = dispatched(&*store, ask(id)).await;
        let stale = id % 3 == 0;
        let until = LEASE_END.plus(id);
        beats.push(Beat { fence: task.fence - i64::from(stale), ..beat(&task, until) });
        wanted.push(if stale { Extended::Lost } else { held(until) });
    }
    let twice = (beats[50].clone(), wanted[50]);
    beats.push(twice.0);
    wanted.push(twice.1);
    let extended = store.extend(beats, LATER).await.unwrap();
    assert_eq!(extended.into_iter().map(without_begin).collect::<Vec<_>>(), wanted);
}

pub async fn an_outcome_after_the_lease_is_accepted_while_the_fence_holds(store: Arc<dyn Store>) {
    for state in [State::Dispatched, State::Running] {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        let task = moved(&*store, &task, success(), LEASE_END.plus(1_000)).await;
        assert_eq!(task.state, State::Succeeded);
    }
}

pub async fn an_outcome_of_an_earlier_attempt_is_refused(store: Arc<dyn Store>) {
    let first = walk_to(&*store, 1, State::Running).await;
    let task = moved(&*store, &first, Change::Retry { due_at: LATER, result: None }, LATER).await;
    let claimed = moved(&*store, &task, Change::Claim, LATER).await;
    dispatch(&*store, grant(&claimed, LATER), LATER).await.unwrap();
    let second = read(&*store, task.place).await;
    let late = [
        success(),
        Change::Retry { due_at: NOW, result: None },
        Change::Snooze { due_at: NOW },
        Change::Bury { result: None, keep_until: KEEP },
        Change::Abort { keep_until: KEEP },
    ];
    for change in late {
        assert_eq!(apply(&*store, step(&first, change.clone()), LATER).await, Applied::Lost, "{change:?}");
        assert_eq!(read(&*store, task.place).await, second, "{change:?}");
    }
    assert_eq!(apply(&*store, step(&second, success()), LATER).await, Applied::Moved);
    assert_eq!(
        apply(&*store, step(&second, success()), LATER).await,
        Applied::Lost,
        "one outcome an attempt"
    );
}

pub async fn a_stop_request_reaches_the_executor_at_its_next_beat(store: Arc<dyn Store>) {
    for state in [State::Dispatched, State::Running] {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        for _ in 0..2 {
            assert_eq!(store.request_stop(task.place, LATER).await.unwrap(), Applied::Moved);
        }
        let marked = read(&*store, task.place).await;
        assert!(marked.lease.as_ref().unwrap().cancel_requested);
        assert_eq!(
            (marked.state, marked.fence, &marked.history),
            (state, task.fence, &task.history),
            "no move"
        );
        let reported = Extended::Held { lease_until: LEASE_END, cancel_requested: true, has_begun: false };
        assert_eq!(extend(&*store, beat(&task, LEASE_END), LATER).await, reported);
        assert_eq!(extend(&*store, beat(&task, LEASE_END), LATER).await, reported, "again, until it stops");
        let stopped = moved(&*store, &task, Change::Abort { keep_until: KEEP }, LATER).await;
        assert_eq!(stopped.state, State::Cancelled);
    }
}

pub async fn only_a_task_in_flight_can_be_asked_to_stop(store: Arc<dyn Store>) {
    for state in reachable().filter(|reachable| !reachable.is_in_flight()) {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        assert_eq!(store.request_stop(task.place, LATER).await.unwrap(), Applied::Lost, "{state:?}");
        assert_eq!(read(&*store, task.place).await, task, "{state:?}");
    }
}

pub async fn a_new_attempt_has_not_been_asked_to_stop(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Dispatched).await;
    assert_eq!(store.request_stop(task.place, NOW).await.unwrap(), Applied::Moved);
    let task = moved(&*store, &task, Change::Retry { due_at: NOW, result: None }, NOW).await;
    let task = moved(&*store, &task, Change::Claim, NOW).await;
    dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
    let task = read(&*store, task.place).await;
    assert_eq!(extend(&*store, beat(&task, LEASE_END), NOW).await, held(LEASE_END));
}

pub async fn ended_leases_are_found_the_longest_ended_first(store: Arc<dyn Store>) {
    let ends = [30, 10, 50, 20, 40];
    for (id, seconds) in (0..).zip(ends) {
        dispatched(&*store, NewTask { timeout_ms: Some(seconds * 1_000), ..ask(id) }).await;
    }
    let at = |seconds: i64| NOW.plus(seconds * 1_000);
    let found = store.leases_ended(at(40), 10).await.unwrap();
    let until: Vec<Millis> = found.iter().map(|task| task.lease.as_ref().unwrap().until).collect();
    assert_eq!(until, [at(10), at(20), at(30), at(40)], "at or before now");
    assert!(found.iter().all(|task| task.history.is_empty() && task.state == State::Dispatched));
    let whole = read(&*store, found[0].place).await;
    assert_eq!(Task { history: Vec::new(), ..whole }, found[0], "all but the history");
    let first = store.leases_ended(at(40), 2).await.unwrap();
    assert_eq!(first, found[..2]);
    assert_eq!(store.leases_ended(at(10).plus(-1), 10).await.unwrap(), []);
}

pub async fn all_that_is_in_flight_is_found_page_by_page(store: Arc<dyn Store>) {
    let mut all = Vec::new();
    for (id, seconds) in (0..).zip([30, 10, 50, 10, 40, 10]) {
        all.push(dispatched(&*store, NewTask { timeout_ms: Some(seconds * 1_000), ..ask(id) }).await.place);
    }
    let ended = dispatched(&*store, ask(99)).await;
    moved(&*store, &ended, Change::Retry { due_at: NOW, result: None }, NOW).await;
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let (tasks, next) = store.in_flight(after, 2).await.unwrap();
        assert!(tasks.iter().all(|task| task.state == State::Dispatched && task.history.is_empty()));
        found.extend(tasks.into_iter().map(|task| task.place));
        (after, pages) = (next, pages + 1);
        if after.is_none() {
            break;
        }
        assert!(pages < 20, "it comes to an end");
    }
    found.sort_unstable();
    all.sort_unstable();
    assert_eq!(found, all, "each once, since nothing was extended meanwhile");
}

pub async fn leases_that_were_given_back_are_not_found(store: Arc<dyn Store>) {
    for state in reachable() {
        walk_to(&*store, i64::from(state.code()), state).await;
    }
    let found = store.leases_ended(Millis::MAX, 100).await.unwrap();
    let mut states: Vec<State> = found.iter().map(|task| task.state).collect();
    states.sort_unstable();
    assert_eq!(states, [State::Dispatched, State::Running]);
}
