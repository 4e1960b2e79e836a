//! The effects of each change besides the state.

use super::{
    sample::{KEEP, LATER, NEXT, NOW, apply, ask, dispatch, full, grant, insert, moved, read, result, step},
    walk::walk_to,
};
use punctual_contract::{
    Store,
    store::{Applied, Assignment, Change, Step},
};
use punctual_domain::{
    history::{ERROR_LEN_MAX, Entry, HISTORY_LEN_MAX, Note},
    retry::RetryPolicy,
    state::{Event, State},
    task::{Content, NewTask, Priority, Task, TaskResult},
};
use std::{collections::BTreeSet, sync::Arc};

pub async fn firing_sets_when_and_keeps_the_plan(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Dispatching).await;
    assert_eq!(task.fired_at, None);
    let task = moved(&*store, &task, Change::Fire { fired_at: NOW.plus(3) }, LATER).await;
    assert_eq!((task.fired_at, task.due_at, task.lateness_ms()), (Some(NOW.plus(3)), NOW, Some(3)));
}

pub async fn a_retry_sets_the_next_time_and_keeps_the_attempt(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    let said = result(Content::json("\"oops\""));
    let mut wanted = step(&task, Change::Retry { due_at: NEXT, result: Some(said.clone()) });
    wanted.note.error = Some("connection refused".to_owned());
    assert_eq!(apply(&*store, wanted, LATER).await, Applied::Moved);
    let task = read(&*store, task.place).await;
    assert_eq!((task.due_at, task.attempt, &task.lease), (NEXT, 1, &None));
    assert_eq!((task.result, task.last_error.as_deref()), (Some(said), Some("connection refused")));
    assert_eq!(task.ask.execute_at, NEXT, "the instant that is planned now");
}

pub async fn a_retry_or_a_snooze_does_not_move_the_deadline(store: Arc<dyn Store>) {
    let changes = [Change::Retry { due_at: NEXT, result: None }, Change::Snooze { due_at: NEXT }];
    for (id, change) in (1..).zip(changes) {
        let request = NewTask { deadline_ms: Some(500), execute_at: NOW, ..ask(id) };
        let task = insert(&*store, request).await.task;
        let task = moved(&*store, &task, Change::Claim, NOW).await;
        dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
        let task = read(&*store, task.place).await;
        let task = moved(&*store, &task, change, NOW).await;
        let deadline_at = task.ask.deadline_ms.map(|deadline_ms| task.ask.execute_at.plus(deadline_ms));
        assert_eq!((task.due_at, deadline_at), (NEXT, Some(NOW.plus(500))));
    }
}

pub async fn a_snooze_gives_the_attempt_back_and_sets_the_time(store: Arc<dyn Store>) {
    for state in [State::Dispatched, State::Running] {
        let task = walk_to(&*store, i64::from(state.code()), state).await;
        let task = moved(&*store, &task, Change::Snooze { due_at: NEXT }, LATER).await;
        assert_eq!((task.state, task.due_at, task.attempt, &task.lease), (State::Scheduled, NEXT, 0, &None));
    }
}

pub async fn a_release_gives_the_attempt_back_and_keeps_the_fence(store: Arc<dyn Store>) {
    let before = walk_to(&*store, 1, State::Dispatched).await;
    let task = moved(&*store, &before, Change::Release, LATER).await;
    assert_eq!((task.state, task.attempt, task.fence, &task.lease), (State::Ready, 0, before.fence, &None));
    assert_eq!(dispatch(&*store, grant(&task, NOW), LATER).await.unwrap().attempt, 1, "it goes to another");
}

pub async fn a_success_keeps_its_result(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    let said = result(Content::json("{\"id\":1}"));
    let change = Change::Succeed { result: said.clone(), keep_until: KEEP };
    let task = moved(&*store, &task, change, LATER).await;
    assert_eq!((&task.result, &task.lease, task.attempt), (&Some(said.clone()), &None, 1));
    let task = moved(&*store, &task, Change::Retire { keep_until: KEEP.plus(9) }, LATER).await;
    assert_eq!((task.result, task.keep_until), (Some(said), Some(KEEP.plus(9))));
}

pub async fn the_dead_keep_their_last_error(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    let said = result(Content::binary(vec![0, 1]));
    let mut wanted = step(&task, Change::Bury { result: Some(said.clone()), keep_until: KEEP });
    wanted.note.error = Some("out of attempts".to_owned());
    assert_eq!(apply(&*store, wanted, LATER).await, Applied::Moved);
    let task = read(&*store, task.place).await;
    assert_eq!((task.last_error.as_deref(), task.result), (Some("out of attempts"), Some(said)));
    let task =
        moved(&*store, &walk_to(&*store, 2, State::Ready).await, Change::Expire { keep_until: KEEP }, LATER)
            .await;
    assert_eq!((task.state, task.result), (State::Dead, None));
}

pub async fn a_finished_task_says_how_long_it_is_kept(store: Arc<dyn Store>) {
    let until = KEEP.plus(77);
    let ways = [
        (State::Running, Change::Succeed { result: result(Content::default()), keep_until: until }),
        (State::Running, Change::Bury { result: None, keep_until: until }),
        (State::Scheduled, Change::Expire { keep_until: until }),
        (State::Dispatching, Change::Cancel { keep_until: until }),
        (State::Ready, Change::Withdraw { keep_until: until }),
        (State::Dispatched, Change::Abort { keep_until: until }),
        (State::Succeeded, Change::Retire { keep_until: until }),
    ];
    for (id, (state, change)) in (0..).zip(ways) {
        let task = moved(&*store, &walk_to(&*store, id, state).await, change, LATER).await;
        assert_eq!(task.keep_until, Some(until), "{state:?}");
    }
}

/// The row of a preleased task has its due time as the firing time, until a report corrects it.
pub async fn the_last_outcome_says_when_its_attempt_fired(store: Arc<dyn Store>) {
    let ways = [
        Change::Succeed { result: result(Content::default()), keep_until: KEEP },
        Change::Bury { result: None, keep_until: KEEP },
        Change::Abort { keep_until: KEEP },
    ];
    let each =
        ways.iter().flat_map(|way| [State::Dispatched, State::Running].map(|state| (way.clone(), state)));
    for (id, (change, state)) in (0..).zip(each) {
        for (id, fired_at) in [(2 * id, None), (2 * id + 1, Some(NOW.plus(7)))] {
            let before = walk_to(&*store, id, state).await;
            let wanted = Step { fired_at, ..step(&before, change.clone()) };
            assert_eq!(apply(&*store, wanted, LATER).await, Applied::Moved);
            let after = read(&*store, before.place).await;
            assert_eq!(after.fired_at, fired_at.or(before.fired_at), "{change:?} of {state:?}");
            assert_eq!(
                after.lateness_ms(),
                after.fired_at.map(|fired_at| fired_at.since(after.ask.execute_at))
            );
        }
    }
    let retried = walk_to(&*store, 100, State::Running).await;
    let retry = Change::Retry { due_at: NEXT, result: None };
    let wanted = Step { fired_at: Some(NOW.plus(7)), ..step(&retried, retry) };
    assert_eq!(apply(&*store, wanted, LATER).await, Applied::Moved);
    assert_eq!(read(&*store, retried.place).await.fired_at, None, "it has yet to fire again");
}

/// One call has all cases: for some the firing time is known, for others the row has it; for one row, for few and for
/// many.
pub async fn each_of_many_outcomes_says_when_its_own_attempt_fired(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip([1_i64, 5, 40, 300]) {
        for (turn, late) in (0..).zip([|nth: i64| nth * 53 % 89, |_| 4]) {
            let due = |nth: i64| NOW.plus(-(nth * 37 % 101));
            let ask = |nth: i64| NewTask { execute_at: due(nth), ..ask(10_000 * round + 1_000 * turn + nth) };
            let inserted = store.insert((0..count).map(ask).collect(), "test", NOW.plus(-200)).await.unwrap();
            let grants =
                inserted.iter().map(|inserted| grant(&inserted.task, inserted.task.due_at)).collect();
            let leased = store.dispatch(grants, NOW).await.unwrap();
            let leased: Vec<_> = leased.into_iter().map(|dispatched| dispatched.made().unwrap()).collect();
            let is_known = |nth: i64| nth % 3 != 1;
            let outcome = |(nth, lease): (i64, &Assignment)| Step {
                place: lease.place,
                fence: Some(lease.fence),
                change: Change::Succeed { result: result(Content::default()), keep_until: KEEP },
                note: Note::default(),
                fired_at: is_known(nth).then(|| lease.due_at.plus(late(nth))),
                known: None,
            };
            let steps: Vec<Step> = (0..).zip(&leased).map(outcome).collect();
            let applied = store.apply(steps, LATER).await.unwrap();
            assert!(applied.iter().all(|stepped| *stepped == Applied::Moved), "{count}");
            for (nth, lease) in (0..).zip(&leased) {
                let after = read(&*store, lease.place).await;
                let late_ms = if is_known(nth) { late(nth) } else { 0 };
                assert_eq!(after.lateness_ms(), Some(late_ms), "{nth} of {count}");
                assert_eq!(after.state, State::Succeeded);
            }
        }
    }
}

pub async fn a_reschedule_changes_what_is_given_and_only_that(store: Arc<dyn Store>) {
    let none = Change::Reschedule { execute_at: None, priority: None, payload: None, queue: None };
    let task = insert(&*store, NewTask { execute_at: NEXT, ..full(1) }).await.task;
    let same = moved(&*store, &task, none.clone(), LATER).await;
    assert_eq!((&same.ask, same.due_at), (&task.ask, NEXT), "nothing given, nothing changed");
    let (time, level, body) = (NEXT.plus(5), Priority::LOWEST, Content::binary(vec![9]));
    let all = Change::Reschedule {
        execute_at: Some(time),
        priority: Some(level),
        payload: Some(body.clone()),
        queue: None,
    };
    let all = moved(&*store, &same, all, LATER).await;
    let wanted = NewTask { execute_at: time, priority: level, payload: body, ..full(1) };
    assert_eq!((&all.ask, all.due_at, all.attempt), (&wanted, time, 0));
    let retrying = walk_to(&*store, 2, State::Retrying).await;
    let planned = moved(&*store, &retrying, none, LATER).await;
    assert_eq!((planned.state, planned.due_at, planned.attempt), (State::Scheduled, NEXT, 1));
}

pub async fn a_reschedule_into_the_past_is_due_now(store: Arc<dyn Store>) {
    let task = insert(&*store, NewTask { execute_at: NEXT, ..ask(1) }).await.task;
    let change = Change::Reschedule { execute_at: Some(NOW), priority: None, payload: None, queue: None };
    let task = moved(&*store, &task, change, LATER).await;
    assert_eq!((task.ask.execute_at, task.due_at), (NOW, LATER));
}

pub async fn a_dead_task_is_changed_where_it_stands_and_only_what_is_given(store: Arc<dyn Store>) {
    let nothing = |timeout_ms| Change::Amend {
        max_attempts: None,
        priority: None,
        payload: None,
        timeout_ms,
        retry: None,
    };
    let made = insert(&*store, full(1)).await.task;
    let dead = moved(&*store, &made, Change::DeadLetter { keep_until: KEEP }, LATER).await;
    let same = moved(&*store, &dead, nothing(None), NEXT).await;
    let stays =
        |task: &Task| (task.state, task.due_at, task.keep_until, task.attempt, task.last_error.clone());
    assert_eq!((&same.ask, stays(&same)), (&dead.ask, stays(&dead)), "nothing given, nothing changed");
    assert_eq!((same.fence, same.updated_at), (dead.fence + 1, NEXT));
    for payload in [Content::binary(vec![7; 200_000]), Content::json("{}"), Content::binary(vec![8; 9])] {
        let before = read(&*store, made.place).await;
        let all = Change::Amend {
            max_attempts: Some(77),
            priority: Some(Priority::LOWEST),
            payload: Some(payload.clone()),
            timeout_ms: Some(1_234),
            retry: Some(RetryPolicy::Fixed { delay_ms: 9 }),
        };
        let all = moved(&*store, &before, all, NEXT).await;
        let wanted = NewTask {
            max_attempts: 77,
            priority: Priority::LOWEST,
            payload,
            timeout_ms: Some(1_234),
            retry: RetryPolicy::Fixed { delay_ms: 9 },
            ..made.ask.clone()
        };
        assert_eq!((&all.ask, stays(&all)), (&wanted, stays(&dead)));
        let default = Change::Amend {
            max_attempts: None,
            priority: None,
            payload: None,
            timeout_ms: None,
            retry: Some(RetryPolicy::default()),
        };
        assert_eq!(moved(&*store, &all, default, NEXT).await.ask.retry, RetryPolicy::default());
    }
    let last = read(&*store, made.place).await;
    assert_eq!(
        last.history.last().map(|entry| (entry.event, entry.to)),
        Some((Some(Event::Amend), State::Dead))
    );
    let alive = moved(&*store, &last, Change::Redrive { execute_at: NEXT }, NEXT).await;
    assert_eq!((alive.ask.max_attempts, alive.ask.payload.bytes.len()), (77, 9));
    assert_eq!(apply(&*store, step(&last, nothing(Some(1))), NEXT).await, Applied::Lost, "an old fence");
    assert_eq!(
        apply(&*store, step(&alive, nothing(Some(1))), NEXT).await,
        Applied::Lost,
        "not dead any more"
    );
    let books = store.books().await.unwrap();
    assert_eq!(books, store.audit().await.unwrap(), "of the dead no bytes are counted");
}

pub async fn a_redriven_task_starts_its_attempts_again(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    let dead = moved(&*store, &task, Change::Bury { result: None, keep_until: KEEP }, LATER).await;
    assert_eq!(dead.attempt, 1);
    let task = moved(&*store, &dead, Change::Redrive { execute_at: NEXT }, LATER).await;
    assert_eq!((task.attempt, task.due_at, task.keep_until), (0, NEXT, None));
    assert!(task.fence > dead.fence);
    let task = moved(&*store, &task, Change::Claim, NEXT).await;
    assert_eq!(dispatch(&*store, grant(&task, NEXT), NEXT).await.unwrap().attempt, 1);
}

/// Each line leaves where the one before it arrived, by a move that the table has.
fn assert_chained(history: &[Entry]) {
    for pair in history.windows(2) {
        let (left, entered) = (&pair[0], &pair[1]);
        assert_eq!(entered.from, Some(left.to), "{history:?}");
        assert_eq!(entered.from.unwrap().after(entered.event.unwrap()), Ok(entered.to), "{history:?}");
    }
}

pub async fn histories_chain_from_the_insert_to_the_present(store: Arc<dyn Store>) {
    let task = a_long_life(&*store, 1).await;
    let events: Vec<_> = task.history.iter().map(|entry| entry.event).collect();
    let lived = [
        Event::Claim,
        Event::Dispatch,
        Event::Start,
        Event::Retry,
        Event::Claim,
        Event::Fire,
        Event::Dispatch,
        Event::Bury,
        Event::Redrive,
    ];
    assert_eq!(events, [None].into_iter().chain(lived.map(Some)).collect::<Vec<_>>());
    assert_chained(&task.history);
    assert_eq!(task.history.last().unwrap().to, task.state);
    let attempts: Vec<u32> = task.history.iter().map(|entry| entry.attempt).collect();
    assert_eq!(attempts, [0, 0, 1, 1, 1, 1, 1, 2, 2, 0]);
}

async fn a_long_life(store: &dyn Store, id: i64) -> Task {
    let task = walk_to(store, id, State::Dispatching).await;
    dispatch(store, grant(&task, NOW), NOW).await.unwrap();
    let task = moved(store, &read(store, task.place).await, Change::Start, NOW).await;
    let task = moved(store, &task, Change::Retry { due_at: NEXT, result: None }, LATER).await;
    let task = moved(store, &task, Change::Claim, NEXT).await;
    let task = moved(store, &task, Change::Fire { fired_at: NEXT }, NEXT).await;
    dispatch(store, grant(&task, NEXT), NEXT).await.unwrap();
    let task = read(store, task.place).await;
    let task = moved(store, &task, Change::Bury { result: None, keep_until: KEEP }, NEXT).await;
    moved(store, &task, Change::Redrive { execute_at: NEXT }, NEXT).await
}

pub async fn a_line_says_by_whom_why_and_with_what_error(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Running).await;
    let mut wanted = step(&task, Change::Retry { due_at: NEXT, result: None });
    wanted.note = Note {
        by: "executor-9".to_owned(),
        due_at: Some(NEXT),
        reason: Some("timed_out".to_owned()),
        error: Some("line one\nline \"two\"".to_owned()),
    };
    assert_eq!(apply(&*store, wanted.clone(), LATER).await, Applied::Moved);
    let last = read(&*store, task.place).await.history.last().unwrap().clone();
    let said = Note { by: last.by, due_at: last.due_at, reason: last.reason, error: last.error };
    assert_eq!((said, last.attempt, last.at), (wanted.note, 1, LATER));
}

/// An outcome from a journal may be minutes old when it is applied. Scans for overdue tasks depend on this.
pub async fn the_next_attempt_is_due_no_earlier_than_the_change(store: Arc<dyn Store>) {
    for (id, change) in
        [(1, Change::Retry { due_at: NOW, result: None }), (2, Change::Snooze { due_at: NOW })]
    {
        let task = walk_to(&*store, id, State::Running).await;
        let next = moved(&*store, &task, change, LATER).await;
        assert_eq!(next.due_at, LATER, "{:?}", next.state);
    }
}

/// Three attempts fail with errors of the longest stored length, and one with a longer error.
pub async fn errors_of_64_kib_are_kept_whole_and_longer_ones_say_that_they_were_cut(store: Arc<dyn Store>) {
    let mut task = walk_to(&*store, 1, State::Running).await;
    let long = |nth: usize, len: usize| format!("{nth}{}", "é\n".repeat(len / 3));
    for nth in 1..=3 {
        let mut retry = step(&task, Change::Retry { due_at: NOW, result: None });
        let error: String = long(nth, ERROR_LEN_MAX - 1);
        assert!(error.len() <= ERROR_LEN_MAX);
        retry.note.error = Some(error.clone());
        assert_eq!(apply(&*store, retry, NOW).await, Applied::Moved);
        task = read(&*store, task.place).await;
        let newest = task.history.iter().rev().find_map(|entry| entry.error.clone());
        assert_eq!((newest.as_ref(), task.last_error.as_ref()), (Some(&error), Some(&error)), "whole");
        task = moved(&*store, &task, Change::Claim, NOW).await;
        dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
        task = read(&*store, task.place).await;
    }
    let result = TaskResult { status_code: 1, status_msg: long(9, ERROR_LEN_MAX - 1), content: None };
    let mut bury = step(&task, Change::Bury { result: Some(result.clone()), keep_until: LATER });
    let error = long(9, 3 * ERROR_LEN_MAX);
    bury.note.error = Some(error.clone());
    assert_eq!(
        apply(&*store, bury, NOW).await,
        Applied::Moved,
        "it is no reason to refuse what became of it"
    );
    let dead = read(&*store, task.place).await;
    let kept = dead.last_error.unwrap();
    assert_eq!(dead.history.last().unwrap().error.as_ref(), Some(&kept));
    assert!(kept.len() > ERROR_LEN_MAX - 4 && kept.len() <= ERROR_LEN_MAX);
    assert!(
        kept.ends_with(&format!("(cut: the beginning of {} bytes)", error.len())),
        "{}",
        &kept[kept.len() - 60..]
    );
    assert_eq!(dead.result, Some(result));
}

pub async fn a_long_history_keeps_its_first_line_and_says_how_many_it_has_lost(store: Arc<dyn Store>) {
    let mut task = walk_to(&*store, 1, State::Scheduled).await;
    let (first, mut made) = (task.history[0].clone(), task.history.len());
    let mut counts = BTreeSet::new();
    for round in 0..120 {
        task = moved(&*store, &task, Change::Claim, NOW.plus(round)).await;
        let mut back = step(&task, Change::HandBack);
        // Not all of it is as many bytes as characters.
        back.note.error = Some(format!("{round:é>3000}"));
        assert_eq!(apply(&*store, back, NOW.plus(round)).await, Applied::Moved);
        task = read(&*store, task.place).await;
        made += 2;
        assert_eq!(task.history.last().unwrap().at, NOW.plus(round), "the newest line is always there");
        let (kept, others) = task.history.split_first().unwrap();
        assert_chained(others);
        let left_out = made - task.history.len();
        let said = (left_out > 0).then(|| format!("{left_out} changes after this one are left out"));
        assert_eq!(*kept, Entry { reason: said, ..first.clone() }, "the insert");
        counts.insert(left_out);
        let errors = others.iter().filter_map(|entry| entry.error.as_ref());
        assert!(errors.clone().all(|error| error.chars().count() == 3_000), "whole lines");
        assert!(errors.map(String::len).sum::<usize>() <= HISTORY_LEN_MAX + 2 * ERROR_LEN_MAX);
    }
    assert!(counts.len() > 3, "it was cut again and again: {counts:?}");
    assert!(task.history.len() > 8, "half of them stay");
}
