//! Made-up histories: one that keeps every promise, and the verdict about each single violation of it.

use super::{
    book::{AttemptReport, Book, CallerAnswer, ChangeCall, LostCall, Receipt},
    judge::{Circumstances, TaskEnd, judge},
    tasks::{CONCURRENCY, Lane, Spec, TaskDue},
};
use crate::wire::OutcomeStatus;
use std::collections::HashMap;

const SENT_US: i64 = 10_000_000;
const DUE_MS: i64 = 11_000;
const CAME_US: i64 = 11_000_000;

fn spec(lane: Lane, max_attempts: u32) -> Spec {
    let due = TaskDue::AtMs(DUE_MS);
    Spec { lane, due, priority: 3, max_attempts, fails: 0, work_ms: 0, change: None }
}

/// An acknowledged task.
fn inserted(lane: Lane, max_attempts: u32) -> Book {
    let mut book = Book::default();
    let n = book.planned(spec(lane, max_attempts));
    book.sent(n, SENT_US);
    book.acknowledged(n, SENT_US + 5_000, "t", true);
    book
}

fn came(book: &mut Book, attempt: u32, at_us: i64) -> usize {
    let (asked_us, executor) = (at_us - 500_000, "e".to_owned());
    book.received(0, Receipt { attempt, asked_us, at_us, executor, report: None }).unwrap()
}

fn said(book: &mut Book, nth: usize, is_success: bool, status: OutcomeStatus) {
    let at_us = book.tracks[0].receipts[nth].at_us + 10_000;
    book.reporting(0, nth, is_success, at_us);
    book.reported(0, nth, at_us + 1_000, (status, false));
}

/// Inserted, came in time, succeeded.
fn good() -> Book {
    let mut book = inserted(Lane::Plain, 100);
    let nth = came(&mut book, 1, CAME_US);
    said(&mut book, nth, true, OutcomeStatus::Accepted);
    book
}

fn around() -> Circumstances {
    Circumstances { clock_faults_us: Vec::new(), clock_bound_ms: 250, lease_ms: 5_000 }
}

fn end(state: &str, attempt: u32) -> HashMap<usize, TaskEnd> {
    HashMap::from([(0, TaskEnd { state: state.to_owned(), attempt, leases: Vec::new() })])
}

fn broken(book: &Book, ends: &HashMap<usize, TaskEnd>) -> Vec<&'static str> {
    judge(book, ends, &around()).into_iter().map(|broken| broken.promise).collect()
}

fn change(to_ms: Option<i64>, answer: CallerAnswer) -> ChangeCall {
    ChangeCall { to_ms, sent_us: SENT_US + 10_000, answered_us: SENT_US + 20_000, answer }
}

#[test]
fn what_came_in_time_and_succeeded_is_well() {
    assert_eq!(broken(&good(), &end("succeeded", 1)), [""; 0]);
}

#[test]
fn what_is_not_there_or_not_over_is_told() {
    assert_eq!(broken(&good(), &HashMap::new()), ["lost"]);
    assert_eq!(broken(&inserted(Lane::Plain, 100), &end("scheduled", 0)), ["unfinished"]);
    assert_eq!(broken(&inserted(Lane::Plain, 100), &end("succeeded", 1)), ["made up"]);
    assert_eq!(broken(&good(), &end("dispatched", 1)), ["lost success", "unfinished"]);
    let mut unknown = Book::default();
    let n = unknown.planned(spec(Lane::Plain, 1));
    unknown.sent(n, SENT_US);
    unknown.given_up(n);
    assert_eq!(broken(&unknown, &HashMap::new()), [""; 0]);
}

#[test]
fn what_comes_early_is_told_but_within_the_bound_of_a_wrong_clock() {
    let mut book = inserted(Lane::Plain, 100);
    let nth = came(&mut book, 1, CAME_US - 200_000);
    said(&mut book, nth, true, OutcomeStatus::Accepted);
    assert_eq!(broken(&book, &end("succeeded", 1)), ["early"]);
    let wrong = |from_us| Circumstances { clock_faults_us: vec![(from_us, from_us + 1)], ..around() };
    assert!(judge(&book, &end("succeeded", 1), &wrong(SENT_US + 100)).is_empty());
    assert_eq!(judge(&book, &end("succeeded", 1), &wrong(CAME_US + 100)).len(), 1);
}

#[test]
fn a_retry_waits_for_its_delay() {
    for (at_us, expected) in [(CAME_US + 100_000, vec!["early"]), (CAME_US + 400_000, vec![])] {
        let mut book = inserted(Lane::Failing, 6);
        let nth = came(&mut book, 1, CAME_US);
        said(&mut book, nth, false, OutcomeStatus::Accepted);
        let nth = came(&mut book, 2, at_us);
        said(&mut book, nth, true, OutcomeStatus::Accepted);
        assert_eq!(broken(&book, &end("succeeded", 2)), expected);
    }
}

#[test]
fn an_attempt_counts_once_and_nothing_runs_after_a_success() {
    let mut book = good();
    let nth = came(&mut book, 1, CAME_US + 1_000);
    said(&mut book, nth, true, OutcomeStatus::Stale);
    assert_eq!(broken(&book, &end("succeeded", 1)), [""; 0], "a second receipt whose outcome is refused");
    let nth = came(&mut book, 1, CAME_US + 2_000);
    said(&mut book, nth, true, OutcomeStatus::Accepted);
    assert_eq!(broken(&book, &end("succeeded", 1)), ["accepted twice"]);
    let mut book = good();
    came(&mut book, 2, CAME_US + 1_000);
    assert_eq!(broken(&book, &end("succeeded", 1)), ["run after success"]);
}

#[test]
fn what_is_cancelled_never_runs_and_what_was_refused_was_not_done() {
    let cancelled = |answer| {
        let mut book = inserted(Lane::Plain, 100);
        book.changing += 1;
        book.changed(0, change(None, answer));
        book
    };
    let mut confirmed = cancelled(CallerAnswer::Confirmed { attempt: 0 });
    assert_eq!(broken(&confirmed, &end("cancelled", 0)), [""; 0]);
    assert_eq!(broken(&confirmed, &end("dead", 100)).last(), Some(&"answer"));
    came(&mut confirmed, 1, CAME_US);
    assert_eq!(broken(&confirmed, &end("cancelled", 0)), ["run after cancel"]);
    let refused = cancelled(CallerAnswer::Refused("store.unavailable".into()));
    assert_eq!(broken(&refused, &end("cancelled", 0)), ["answer"]);
    assert_eq!(broken(&cancelled(CallerAnswer::Unknown("?".into())), &end("cancelled", 0)), [""; 0]);
    assert_eq!(broken(&inserted(Lane::Plain, 100), &end("cancelled", 0)), ["made up"]);
}

#[test]
fn what_is_moved_keeps_its_new_time() {
    for (answer, expected) in [
        (CallerAnswer::Confirmed { attempt: 0 }, vec!["early"]),
        (CallerAnswer::Unknown("?".into()), vec![]),
        (CallerAnswer::Refused("overload".into()), vec![]),
    ] {
        let mut book = good();
        book.changing += 1;
        book.changed(0, change(Some(DUE_MS + 5_000), answer));
        assert_eq!(broken(&book, &end("succeeded", 1)), expected);
    }
}

#[test]
fn what_came_at_its_new_time_before_the_answer_to_its_move_is_not_early() {
    for (answered_us, expected) in [(CAME_US + 200, vec![]), (CAME_US - 1_001_000, vec!["early"])] {
        let mut book = inserted(Lane::Plain, 100);
        let nth = came(&mut book, 1, CAME_US - 1_000_000);
        said(&mut book, nth, true, OutcomeStatus::Accepted);
        book.changing += 1;
        let sent_us = CAME_US - 1_100_000;
        let to_ms = Some((CAME_US - 1_050_000) / 1_000);
        let answer = CallerAnswer::Confirmed { attempt: 1 };
        book.changed(0, ChangeCall { to_ms, sent_us, answered_us, answer });
        assert_eq!(broken(&book, &end("succeeded", 1)), expected);
    }
}

#[test]
fn the_dead_had_each_of_their_attempts_with_an_executor_or_on_the_way_to_one() {
    let mut book = inserted(Lane::Once, 1);
    assert_eq!(broken(&book, &end("dead", 1)), ["dead unseen"]);
    assert_eq!(broken(&book, &end("dead", 0)), ["dead"]);
    let leases = vec![(1, CAME_US / 1_000)];
    let leased = HashMap::from([(0, TaskEnd { state: "dead".into(), attempt: 1, leases })]);
    assert_eq!(broken(&book, &leased), ["dead unseen"]);
    let (queue, executor) = (Lane::Once.queue(), "e".to_owned());
    book.lost_calls.push(LostCall { queue, executor, sent_us: CAME_US - 100, ended_us: CAME_US + 100 });
    assert_eq!(broken(&book, &leased), [""; 0]);
    let mut seen = inserted(Lane::Once, 1);
    let nth = came(&mut seen, 1, CAME_US);
    said(&mut seen, nth, true, OutcomeStatus::Stale);
    assert_eq!(broken(&seen, &end("dead", 1)), [""; 0], "its executor was too slow");
}

#[test]
fn a_limit_is_counted_by_leases() {
    let with = |many: usize, report: Option<AttemptReport>| {
        let mut book = Book::default();
        for n in 0..many {
            book.planned(spec(Lane::Limited, 100));
            book.sent(n, SENT_US);
            book.acknowledged(n, SENT_US, "t", true);
            let at_us = CAME_US + i64::try_from(n).unwrap() * 1_000;
            let (attempt, asked_us, executor) = (1, CAME_US, "e".to_owned());
            book.received(n, Receipt { attempt, asked_us, at_us, executor, report });
        }
        let ends = (0..many).map(|n| (n, TaskEnd { state: "dead".into(), attempt: 100, leases: Vec::new() }));
        let broken = judge(&book, &ends.collect(), &around());
        broken.iter().any(|broken| broken.promise == "limit")
    };
    assert!(!with(CONCURRENCY, None));
    assert!(with(CONCURRENCY + 1, None));
    let short = AttemptReport {
        is_success: true,
        sent_us: CAME_US + 500,
        answered_us: None,
        status: None,
        is_repeat: false,
    };
    assert!(!with(CONCURRENCY + 1, Some(short)), "the first was over before the second came");
}
