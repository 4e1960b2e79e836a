//! The checker against made-up histories: each breach is found, and a clean run is clean.

use super::*;
use crate::plan::{Frame, LoadShape};

const DUE_MS: i64 = 3_000;
const DUE_US: i64 = DUE_MS * 1_000;
const IN_TIME: Receipt = Receipt {
    at_us: DUE_US + 700,
    attempt: 1,
    execute_at_ms: DUE_MS,
    fired_at_ms: DUE_MS,
    is_payload_intact: true,
};
const ACCEPTED: Verdict = Verdict {
    at_us: DUE_US + 900,
    sent_us: DUE_US + 800,
    attempt: 1,
    status: OutcomeStatus::Accepted,
    is_repeat: false,
};
const STALE: Verdict = Verdict { status: OutcomeStatus::Stale, ..ACCEPTED };

/// Two tasks due at the same instant, both accepted by the server, the second one done.
fn one_left() -> Checker {
    let frame = Frame { start_ms: 0, ahead_ms: DUE_MS, batch: 1, seed: 1 };
    let mut checker = Checker::new(Arc::new(Plan::new(LoadShape::Burst { tasks: 2 }, frame)));
    checker.inserted(0, InsertOutcome::Created, 1_000);
    checker.inserted(1, InsertOutcome::Created, 2_000);
    checker.received(Some(1), IN_TIME);
    checker.reported(1, ACCEPTED);
    checker
}

fn done() -> Checker {
    let mut checker = one_left();
    checker.received(Some(0), IN_TIME);
    checker.reported(0, ACCEPTED);
    checker
}

fn broken(checker: &Checker) -> String {
    checker.judge().broken().join("; ")
}

#[test]
fn a_clean_run_is_clean() {
    let checker = done();
    assert_eq!(broken(&checker), "");
    let counts = checker.judge();
    assert_eq!((counts.inserted, counts.executions, counts.outcomes_accepted), (2, 2, 2));
    assert_eq!((checker.open(), counts.executed_again, counts.inserted_after_due), (0, 0, 0));
    assert_eq!(checker.measured.lateness.percentiles().max_ms, 0.7);
}

#[test]
fn a_task_without_an_accepted_outcome_is_lost() {
    let mut checker = one_left();
    assert_eq!((checker.open(), checker.open_tasks(9)), (1, vec![0]));
    assert!(broken(&checker).contains("1 lost"));
    checker.received(Some(0), IN_TIME);
    checker.reported(0, STALE);
    assert!(broken(&checker).contains("1 lost"), "a stale outcome is not an accepted one");
}

#[test]
fn a_task_that_was_never_accepted_is_not_lost() {
    let frame = Frame { start_ms: 0, ahead_ms: DUE_MS, batch: 1, seed: 1 };
    let mut checker = Checker::new(Arc::new(Plan::new(LoadShape::Burst { tasks: 2 }, frame)));
    checker.insert_refused();
    assert_eq!(checker.judge().lost, 0);
    assert!(broken(&checker).contains("1 refused"));
}

#[test]
fn early_is_found_by_either_clock_to_the_microsecond() {
    let by_executor = Receipt { at_us: DUE_US - 1, ..IN_TIME };
    let by_server = Receipt { fired_at_ms: DUE_MS - 1, ..IN_TIME };
    for receipt in [by_executor, by_server] {
        let mut checker = one_left();
        checker.received(Some(0), receipt);
        checker.reported(0, ACCEPTED);
        assert!(broken(&checker).contains("1 early"), "{receipt:?}");
    }
    let mut checker = one_left();
    checker.received(Some(0), Receipt { at_us: DUE_US, ..IN_TIME });
    assert_eq!(checker.judge().early, 0);
}

#[test]
fn a_second_execution_is_counted_and_allowed_a_second_completion_is_not() {
    let mut checker = one_left();
    checker.received(Some(0), IN_TIME);
    checker.received(Some(0), Receipt { attempt: 2, at_us: DUE_US + 9_000, ..IN_TIME });
    checker.reported(0, STALE);
    checker.reported(0, Verdict { attempt: 2, ..ACCEPTED });
    assert_eq!(broken(&checker), "");
    let counts = checker.judge();
    assert_eq!((counts.executed_again, counts.executions, counts.outcomes_stale), (1, 3, 1));
    assert_eq!(checker.measured.lateness.percentiles().count, 2, "only the first receipt is timed");
    checker.reported(0, ACCEPTED);
    assert!(broken(&checker).contains("1 completed twice"));
}

#[test]
fn a_task_handed_out_after_it_was_completed_is_found() {
    let mut checker = done();
    checker.received(Some(0), Receipt { attempt: 2, ..IN_TIME });
    assert!(broken(&checker).contains("1 handed out again after"));
}

#[test]
fn the_same_attempt_twice_is_counted() {
    let mut checker = one_left();
    checker.received(Some(0), IN_TIME);
    checker.received(Some(0), IN_TIME);
    assert_eq!(checker.judge().attempts_repeated, 1);
}

#[test]
fn strange_tasks_times_and_payloads_are_found() {
    let mut checker = one_left();
    checker.received(None, IN_TIME);
    checker.received(Some(2), IN_TIME);
    checker.received(Some(0), Receipt { execute_at_ms: DUE_MS + 1, is_payload_intact: false, ..IN_TIME });
    let told = broken(&checker);
    for breach in ["2 handed out although", "another execute_at", "another payload"] {
        assert!(told.contains(breach), "{breach} in {told}");
    }
}

#[test]
fn a_repeated_insert_counts_once() {
    let mut checker = one_left();
    checker.inserts_repeated(1);
    checker.inserted(0, InsertOutcome::Existing, DUE_US + 1);
    let counts = checker.judge();
    assert_eq!((counts.inserted, counts.existing, counts.inserts_repeated, checker.open()), (2, 1, 1, 1));
    assert_eq!(counts.inserted_after_due, 1);
}

#[test]
fn an_outcome_before_the_answer_to_the_insert_leaves_nothing_open() {
    let frame = Frame { start_ms: 0, ahead_ms: DUE_MS, batch: 1, seed: 1 };
    let mut checker = Checker::new(Arc::new(Plan::new(LoadShape::Burst { tasks: 1 }, frame)));
    checker.received(Some(0), IN_TIME);
    checker.reported(0, ACCEPTED);
    checker.inserted(0, InsertOutcome::Existing, DUE_US + 5_000);
    assert_eq!((checker.open(), broken(&checker)), (0, String::new()));
}

#[test]
fn a_lost_answer_leaves_doubt_until_the_server_is_asked_or_the_task_comes_again() {
    let mut checker = one_left();
    checker.received(Some(0), IN_TIME);
    checker.reported(0, STALE);
    assert_eq!(checker.open_doubtful(), 0, "stale at the first try is plainly not accepted");
    checker.reported(0, Verdict { is_repeat: true, ..STALE });
    assert_eq!((checker.open(), checker.open_doubtful()), (1, 1));
    checker.received(Some(0), Receipt { attempt: 2, ..IN_TIME });
    assert_eq!((checker.open(), checker.open_doubtful()), (1, 0));
    checker.reported(0, Verdict { is_repeat: true, attempt: 2, ..STALE });
    checker.settled(0, DUE_US + 850);
    assert_eq!((checker.open(), checker.open_doubtful()), (0, 0));
    assert_eq!((checker.judge().settled_by_asking, broken(&checker)), (1, String::new()));
    checker.reported(0, Verdict { attempt: 2, sent_us: DUE_US + 860, ..ACCEPTED });
    assert!(broken(&checker).contains("completed twice"), "it was sent after the server had said success");
}

#[test]
fn a_question_that_overtakes_the_answer_to_a_report_is_no_second_completion() {
    let mut checker = one_left();
    checker.received(Some(0), IN_TIME);
    checker.settled(0, ACCEPTED.sent_us + 10);
    checker.reported(0, ACCEPTED);
    assert_eq!((checker.open(), broken(&checker)), (0, String::new()));
    checker.reported(0, ACCEPTED);
    assert!(broken(&checker).contains("1 completed twice"), "the next one is");
}

#[test]
fn the_first_receipt_after_a_restart_is_remembered() {
    let mut checker = one_left();
    checker.watch_aftermath(DUE_US + 1_000);
    checker.received(Some(0), IN_TIME);
    assert_eq!(checker.aftermaths()[0].first_after_us(), None);
    checker.received(Some(0), Receipt { at_us: DUE_US + 1_500, attempt: 2, ..IN_TIME });
    checker.received(Some(0), Receipt { at_us: DUE_US + 1_600, attempt: 3, ..IN_TIME });
    assert_eq!(checker.aftermaths()[0].first_after_us(), Some(500));
}

#[test]
fn gaps_and_late_tasks_are_told_of_the_whole_run_and_after_each_event() {
    let frame = Frame { start_ms: 0, ahead_ms: DUE_MS, batch: 1, seed: 1 };
    let mut checker = Checker::new(Arc::new(Plan::new(LoadShape::Burst { tasks: 4 }, frame)));
    let at = |after_due_us| Receipt { at_us: DUE_US + after_due_us, ..IN_TIME };
    checker.received(Some(0), at(5_000));
    checker.watch_aftermath(DUE_US + 10_000);
    checker.received(Some(1), at(250_000));
    checker.received(Some(2), at(300_000));
    checker.watch_aftermath(DUE_US + 310_000);
    checker.received(Some(3), at(320_000));
    // Again, late as it is: first executions show what a fault held up.
    checker.received(Some(0), at(900_000));
    let [first, second] = checker.aftermaths() else { panic!("{checker:?}") };
    assert_eq!((first.longest_gap_us, first.late_until_us()), (240_000, Some(290_000)));
    assert_eq!((second.longest_gap_us, second.late_until_us()), (580_000, Some(10_000)));
    assert_eq!(checker.longest_gap_us(), 580_000);
}
