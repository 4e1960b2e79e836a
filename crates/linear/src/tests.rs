//! Histories made by hand, one lie each; and histories of a real task in one place, seen by clients whose calls overlap
//! and whose answers are lost: those are never called wrong.

use crate::{
    AttemptEnd, ChangeAnswer, InsertAnswer, LinearReport, OpKind, OutcomeAnswer, ReadState, RecordedOp,
    Recording, SpecRules, check, history::LostWork, report::STATES_MAX,
};

const LEASE_US: i64 = 1_000;

fn op(called: i64, returned: i64, kind: OpKind) -> RecordedOp {
    RecordedOp { task: 7, called, returned: Some(returned), from_us: called, until_us: returned, kind }
}

fn lost(called: i64, kind: OpKind) -> RecordedOp {
    RecordedOp { returned: None, until_us: i64::MAX, ..op(called, called, kind) }
}

fn insert(due_us: i64, answer: InsertAnswer) -> OpKind {
    OpKind::Insert { queue: 1, due_us, deadline_us: None, max_attempts: 2, answer: Some(answer) }
}

fn cancel(answer: ChangeAnswer) -> OpKind {
    OpKind::Cancel { withdraws: false, answer: Some(answer) }
}

fn moved(due_us: i64, answer: ChangeAnswer) -> OpKind {
    OpKind::Reschedule { due_us: Some(due_us), answer: Some(answer) }
}

fn fire(fired_us: i64, token: i64, attempt: u32) -> OpKind {
    OpKind::Fire { queue: 1, token, attempt, fired_us, lease_until_us: fired_us + LEASE_US }
}

fn outcome(token: i64, end: AttemptEnd, answer: OutcomeAnswer) -> OpKind {
    OpKind::Outcome { token, end, answer: Some(answer) }
}

const fn read(state: ReadState) -> OpKind {
    OpKind::Read { state }
}

const FAILED: AttemptEnd = AttemptEnd::Failed { retry_after_us: 2_000 };

fn checked_by(ops: &[RecordedOp], rules: SpecRules) -> LinearReport {
    check(&Recording { ops: ops.to_vec(), lost_calls: Vec::new() }, rules, STATES_MAX)
}

#[track_caller]
fn good(ops: &[RecordedOp]) {
    let report = checked_by(ops, SpecRules::default());
    assert!(report.holds(), "{report}\n{}", report.violations[0]);
}

#[track_caller]
fn bad(ops: &[RecordedOp]) {
    let report = checked_by(ops, SpecRules::default());
    assert_eq!((report.violations.len(), report.undecided.len()), (1, 0), "{report}");
}

/// Inserted, fired, succeeded.
fn life() -> Vec<RecordedOp> {
    vec![
        op(0, 10, insert(100, InsertAnswer::Created)),
        op(50, 110, fire(105, 1, 1)),
        op(120, 130, outcome(1, AttemptEnd::Succeeded, OutcomeAnswer::Accepted)),
        op(200, 210, read(ReadState::Succeeded)),
    ]
}

fn life_and(more: impl IntoIterator<Item = RecordedOp>) -> Vec<RecordedOp> {
    life().into_iter().chain(more).collect()
}

#[test]
fn a_whole_life_is_linearizable_and_each_lie_about_it_is_not() {
    good(&life());
    let mut early = life();
    early[1] = op(50, 95, fire(95, 1, 1));
    bad(&early);
    let mut of_another_queue = life();
    of_another_queue[0] = op(
        0,
        10,
        OpKind::Insert {
            queue: 2,
            due_us: 100,
            deadline_us: None,
            max_attempts: 2,
            answer: Some(InsertAnswer::Created),
        },
    );
    bad(&of_another_queue);
    bad(&life()[1..]);
    let mut too_many = life();
    too_many[1] = op(50, 110, fire(105, 1, 3));
    bad(&too_many);
    let mut gone = life();
    gone[3] = op(200, 210, read(ReadState::Absent));
    bad(&gone);
}

#[test]
fn one_outcome_of_an_attempt_is_accepted() {
    let twice = op(140, 150, outcome(1, AttemptEnd::Succeeded, OutcomeAnswer::Accepted));
    bad(&life_and([twice]));
    good(&life_and([op(140, 150, outcome(1, AttemptEnd::Succeeded, OutcomeAnswer::Stale))]));
    // Refused although the attempt holds the task, before its lease can have ended.
    let mut refused = life();
    refused[2] = op(120, 130, outcome(1, AttemptEnd::Succeeded, OutcomeAnswer::Stale));
    bad(&refused[..3]);
    // An older attempt is refused once a newer one has the task.
    let second = [op(1_000, 1_200, fire(1_200, 2, 1))];
    let zombie = op(1_300, 1_310, outcome(1, AttemptEnd::Succeeded, OutcomeAnswer::Accepted));
    let begun = life()[..2].iter().cloned().chain(second).collect::<Vec<_>>();
    good(&begun);
    bad(&begun.into_iter().chain([zombie]).collect::<Vec<_>>());
}

#[test]
fn a_task_is_cancelled_or_fires() {
    let cancelled = op(20, 30, cancel(ChangeAnswer::Done));
    bad(&life_and([cancelled.clone()]));
    good(&[life()[0].clone(), cancelled.clone(), op(200, 210, read(ReadState::Cancelled))]);
    bad(&[life()[0].clone(), cancelled, op(200, 210, read(ReadState::Waiting))]);
    // Both at once: either order is possible, but not both answers.
    good(&life_and([op(90, 112, cancel(ChangeAnswer::Refused))]));
    bad(&life_and([op(90, 112, cancel(ChangeAnswer::Done))]));
    // "Already fired" before it can have fired.
    bad(&life_and([op(20, 30, cancel(ChangeAnswer::Refused))]));
    // A cancel without an answer may have happened, and then the task does not fire any more; or not.
    let unknown = lost(20, OpKind::Cancel { withdraws: false, answer: None });
    good(&[life()[0].clone(), unknown.clone(), op(200, 210, read(ReadState::Cancelled))]);
    good(&life_and([unknown]));
}

#[test]
fn what_fired_for_one_caller_has_fired_for_the_next() {
    let ops = [
        life()[0].clone(),
        op(120, 130, cancel(ChangeAnswer::Refused)),
        op(140, 150, cancel(ChangeAnswer::Done)),
    ];
    good(&ops);
    let rules = SpecRules { keeps_fired: true, ..SpecRules::default() };
    assert_eq!(checked_by(&ops, rules).violations.len(), 1);
}

#[test]
fn a_move_that_was_confirmed_sets_the_instant() {
    let ops = |answer| life_and([op(20, 30, moved(108, answer))]);
    bad(&ops(ChangeAnswer::Done));
    let mut later = ops(ChangeAnswer::Done);
    later[1] = op(50, 110, fire(108, 1, 1));
    good(&later);
    // One that overlaps the hand-over and fits either side.
    good(&life_and([op(90, 125, moved(90, ChangeAnswer::Done))]));
}

#[test]
fn a_second_hand_over_waits_for_the_lease_or_the_retry() {
    let again = |at| [life()[0].clone(), life()[1].clone(), op(at, at + 10, fire(at + 10, 2, 2))];
    bad(&again(500));
    good(&again(1_200));
    let failed = op(120, 130, outcome(1, FAILED, OutcomeAnswer::Accepted));
    let retried = |at| [life()[0].clone(), life()[1].clone(), failed.clone(), op(125, at, fire(at, 2, 2))];
    bad(&retried(1_999));
    good(&retried(2_000));
    // The attempt that failed is spent.
    let mut same = retried(2_000);
    same[3] = op(125, 2_000, fire(2_000, 2, 1));
    bad(&same);
}

#[test]
fn tokens_rise_where_the_rules_say_so() {
    let ops = [
        life()[0].clone(),
        op(50, 110, fire(105, 9, 1)),
        op(120, 130, outcome(9, FAILED, OutcomeAnswer::Accepted)),
        op(180, 2_190, fire(2_190, 5, 2)),
    ];
    good(&ops);
    let rules = SpecRules { tokens_rise: true, ..SpecRules::default() };
    assert_eq!(checked_by(&ops, rules).violations.len(), 1);
}

#[test]
fn the_dead_are_redriven_and_nothing_else_is() {
    let redrive = |answer| OpKind::Redrive { answer: Some(answer) };
    let dead = [
        life()[0].clone(),
        life()[1].clone(),
        op(120, 130, outcome(1, AttemptEnd::Rejected, OutcomeAnswer::Accepted)),
    ];
    let then = |more: &[RecordedOp]| [&dead[..], more].concat();
    bad(&then(&[op(140, 150, fire(150, 2, 1))]));
    good(&then(&[op(132, 135, redrive(ChangeAnswer::Done)), op(140, 150, fire(150, 2, 1))]));
    bad(&then(&[op(132, 135, redrive(ChangeAnswer::Refused))]));
    bad(&life_and([op(140, 150, redrive(ChangeAnswer::Done))]));
}

#[test]
fn a_task_dies_of_attempts_that_were_handed_over_and_of_no_others() {
    let one_attempt = OpKind::Insert {
        queue: 1,
        due_us: 100,
        deadline_us: None,
        max_attempts: 1,
        answer: Some(InsertAnswer::Created),
    };
    let ops = [op(0, 10, one_attempt), op(200, 210, read(ReadState::Dead))];
    bad(&ops);
    let lost_calls = vec![LostWork { queue: 1, from_us: 50, until_us: 120 }];
    let recording = Recording { ops: ops.to_vec(), lost_calls };
    assert!(check(&recording, SpecRules::default(), STATES_MAX).holds());
    let of_another_queue = vec![LostWork { queue: 2, from_us: 50, until_us: 120 }];
    let recording = Recording { ops: ops.to_vec(), lost_calls: of_another_queue };
    assert!(!check(&recording, SpecRules::default(), STATES_MAX).holds());
}

#[test]
fn an_insert_is_created_once_and_replaces_what_is_not_in_flight() {
    let again = |answer| life_and([op(300, 310, insert(400, answer))]);
    bad(&again(InsertAnswer::Created));
    bad(&again(InsertAnswer::Replaced));
    good(&again(InsertAnswer::Existing));
    let replaced = op(20, 30, insert(80, InsertAnswer::Replaced));
    good(&life_and([replaced]));
    bad(&life_and([op(115, 118, insert(80, InsertAnswer::Replaced))]));
    let kept = SpecRules { kept_us: Some(150), ..SpecRules::default() };
    assert!(checked_by(&again(InsertAnswer::Created), kept).holds());
}

#[test]
fn a_search_past_the_bound_is_undecided_and_not_passed() {
    let many: Vec<RecordedOp> = (0..20).map(|nth| lost(nth, moved(200 + nth, ChangeAnswer::Done))).collect();
    let ops: Vec<RecordedOp> =
        life_and([op(120, 130, cancel(ChangeAnswer::Done))]).into_iter().chain(many).collect();
    let report = check(&Recording { ops, lost_calls: Vec::new() }, SpecRules::default(), 50);
    assert_eq!((report.undecided.as_slice(), report.violations.len()), (&[7][..], 0));
    assert!(!report.holds() && report.to_string().contains("1 undecided"), "{report}");
}

/// Calls that are the same can change places: a long outage makes a search no longer.
#[test]
fn many_calls_that_are_the_same_and_were_not_answered_are_decided() {
    let unanswered = |nth| lost(nth, OpKind::Cancel { withdraws: false, answer: None });
    let report = checked_by(&life_and((0..40).map(unanswered)), SpecRules::default());
    assert!(report.holds() && report.states < 2_000, "{report}");
}

#[test]
fn a_violation_is_shown_by_the_shortest_beginning() {
    let after = (0..30).map(|nth| {
        let at = 1_000 + nth * 10;
        op(at, at + 5, read(ReadState::Succeeded))
    });
    let mut ops: Vec<RecordedOp> = life_and(after);
    ops[1] = op(50, 95, fire(95, 1, 1));
    let report = checked_by(&ops, SpecRules::default());
    let violation = &report.violations[0];
    assert_eq!(violation.ops.len(), 2, "{violation}");
    assert!(violation.text.contains("none fits of: fire"), "{violation}");
}

#[test]
fn lines_come_back_as_they_were_written() {
    let lost_calls = vec![LostWork { queue: 1, from_us: 50, until_us: 120 }];
    let ops = life_and([lost(20, OpKind::Cancel { withdraws: true, answer: None })]);
    let recording = Recording { ops, lost_calls };
    let back = Recording::from_lines(&recording.to_lines()).unwrap();
    assert_eq!((back.ops, back.lost_calls), (recording.ops, recording.lost_calls));
    assert!(Recording::from_lines("{\"task\":1}\n").is_err());
}

/// A task in one place, written apart from the specification.
#[derive(Default)]
struct RealTask {
    state: Option<ReadState>,
    due_us: i64,
    attempt: u32,
    tokens: i64,
    lease_until_us: i64,
}

impl RealTask {
    fn answer(&mut self, rng: &mut fastrand::Rng, at_us: i64) -> Option<OpKind> {
        if self.state == Some(ReadState::InHand) && self.lease_until_us <= at_us {
            self.state = Some(if self.attempt >= 2 { ReadState::Dead } else { ReadState::Waiting });
        }
        let is_waiting = self.state == Some(ReadState::Waiting);
        Some(match rng.u8(..8) {
            0 => match self.state {
                Some(ReadState::InHand | ReadState::Succeeded) => insert(at_us + 5, InsertAnswer::Existing),
                state => {
                    let tokens = self.tokens;
                    let (due_us, state_after) = (at_us + 5, Some(ReadState::Waiting));
                    *self = Self { state: state_after, due_us, tokens, ..Self::default() };
                    let is_new = state.is_none();
                    insert(due_us, if is_new { InsertAnswer::Created } else { InsertAnswer::Replaced })
                }
            },
            1 if is_waiting => {
                self.state = Some(ReadState::Cancelled);
                cancel(ChangeAnswer::Done)
            }
            2 if is_waiting => {
                self.due_us = at_us + 9;
                moved(at_us + 9, ChangeAnswer::Done)
            }
            1 | 2 if self.state == Some(ReadState::InHand) => cancel(ChangeAnswer::Refused),
            3 | 4 if is_waiting && self.due_us <= at_us => {
                self.state = Some(ReadState::InHand);
                (self.attempt, self.tokens) = (self.attempt + 1, self.tokens + 1);
                self.lease_until_us = at_us + LEASE_US;
                fire(at_us, self.tokens, self.attempt)
            }
            5 if self.state == Some(ReadState::InHand) && rng.bool() => {
                self.state = Some(ReadState::Succeeded);
                outcome(self.tokens, AttemptEnd::Succeeded, OutcomeAnswer::Accepted)
            }
            5 | 6 if self.state == Some(ReadState::InHand) => {
                self.due_us = at_us;
                self.state = Some(if self.attempt >= 2 { ReadState::Dead } else { ReadState::Waiting });
                let end = AttemptEnd::Failed { retry_after_us: 0 };
                outcome(self.tokens, end, OutcomeAnswer::Accepted)
            }
            7 => read(self.state.unwrap_or(ReadState::Absent)),
            _ => return None,
        })
    }
}

/// Each call takes effect at one instant between its call and its answer; one answer in six is lost.
fn seen_by_clients(seed: u64) -> Vec<RecordedOp> {
    let (mut rng, mut task) = (fastrand::Rng::with_seed(seed), RealTask::default());
    let mut ops = Vec::new();
    for at_us in (0..30).map(|nth| nth * 10) {
        let Some(kind) = task.answer(&mut rng, at_us) else { continue };
        let called = at_us - rng.i64(0..40);
        let has_returned = rng.u8(..6) > 0 || matches!(kind, OpKind::Fire { .. } | OpKind::Read { .. });
        let mut recorded = if has_returned {
            op(called, at_us + rng.i64(0..40), kind)
        } else {
            let mut unanswered = lost(called, kind);
            crate::report::forget_answer(&mut unanswered.kind);
            unanswered
        };
        // What a client knows of an earliest instant counts from its call.
        match &mut recorded.kind {
            OpKind::Insert { due_us, .. } => *due_us += called - at_us,
            OpKind::Fire { fired_us, lease_until_us, .. } => {
                *fired_us = recorded.until_us;
                *lease_until_us = called + LEASE_US;
            }
            _ => {}
        }
        ops.push(recorded);
    }
    ops
}

#[test]
fn what_one_task_in_one_place_did_is_never_called_wrong() {
    for seed in 0..1_000 {
        let ops = seen_by_clients(seed);
        let report = checked_by(&ops, SpecRules::default());
        assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
        assert!(report.undecided.is_empty(), "seed {seed}: {report}");
    }
}
