//! Writes down each call about a task with its answer, for the checker of histories (`punctual-linear`): order by a
//! monotonic clock, due times by the true one. A call that was refused with "nothing was done" leaves no line. Decides
//! nothing about promises.

use super::{
    book::CallerAnswer,
    judge::{Circumstances, TaskEnd},
    tasks::{LANES, Lane, RETRY_MS, Spec, TaskChange, TaskDue},
};
use crate::{
    clock::{monotonic_us, now_us},
    wire::OutcomeStatus,
};
use punctual_linear::{
    AttemptEnd, ChangeAnswer, InsertAnswer, OpKind, OutcomeAnswer, ReadState, RecordedOp, Recording,
    history::LostWork,
};
use std::collections::HashMap;

/// A lease that an executor was given lasts at least so long: the engine asks for it before the executor's call ends, and one
/// that is made ahead lasts 3 s from the instant.
const LEASE_MIN_US: i64 = 2_000_000;

/// One instant on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    order: i64,
    pub(crate) clock_us: i64,
}

impl Stamp {
    pub(crate) fn now() -> Self {
        Self { order: monotonic_us(), clock_us: now_us() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    recording: Recording,
    /// Tokens of hand-overs are opaque: each gets a number as it is first seen.
    tokens: HashMap<String, i64>,
    /// Leases are not stored while a database is unavailable, and end when the engine says.
    pub(crate) leases_are_open: bool,
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn queue_of(lane: Lane) -> u32 {
    let nth = LANES.iter().position(|other| *other == lane).unwrap_or(LANES.len());
    u32::try_from(nth).unwrap_or(u32::MAX)
}

impl Recorder {
    fn push(&mut self, n: usize, called: Stamp, returned: Option<Stamp>, kind: OpKind) {
        self.recording.ops.push(RecordedOp {
            task: number(n),
            called: called.order,
            returned: returned.map(|stamp| stamp.order),
            from_us: called.clock_us,
            until_us: returned.map_or(i64::MAX, |stamp| stamp.clock_us),
            kind,
        });
    }

    /// `answer`: the word of the answer and when it came; None: none came.
    pub(crate) fn inserted(&mut self, n: usize, spec: &Spec, called: Stamp, answer: Option<(Stamp, &str)>) {
        let due_ms = match spec.due {
            TaskDue::AtMs(at_ms) => at_ms,
            TaskDue::AfterMs(delay_ms) => called.clock_us.div_euclid(1_000) + delay_ms,
        };
        let (queue, due_us, max_attempts) = (queue_of(spec.lane), due_ms * 1_000, spec.max_attempts);
        let returned = answer.map(|(stamp, _)| stamp);
        let answer = answer.map(|(_, word)| match word {
            "created" => InsertAnswer::Created,
            "replaced" => InsertAnswer::Replaced,
            _ => InsertAnswer::Existing,
        });
        let kind = OpKind::Insert { queue, due_us, deadline_us: None, max_attempts, answer };
        self.push(n, called, returned, kind);
    }

    pub(crate) fn changed(
        &mut self,
        n: usize,
        (change, to_ms): (TaskChange, Option<i64>),
        (called, returned): (Stamp, Stamp),
        answer: &CallerAnswer,
    ) {
        let answer = match answer {
            CallerAnswer::Confirmed { .. } => Some(ChangeAnswer::Done),
            CallerAnswer::Refused(code) if code == "task.not_found" => Some(ChangeAnswer::NotFound),
            CallerAnswer::Refused(code) if code.starts_with("task.") => Some(ChangeAnswer::Refused),
            CallerAnswer::Refused(_) => return,
            CallerAnswer::Unknown(_) => None,
        };
        let kind = match change {
            TaskChange::Cancel => OpKind::Cancel { withdraws: false, answer },
            TaskChange::Move { .. } => {
                OpKind::Reschedule { due_us: to_ms.map(|to_ms| to_ms * 1_000), answer }
            }
        };
        self.push(n, called, answer.map(|_| returned), kind);
    }

    /// Answers the number of the token.
    pub(crate) fn handed_over(
        &mut self,
        n: usize,
        (lane, attempt): (Lane, u32),
        (reference, token, lease_until_ms): (&str, &str, i64),
        (asked, received): (Stamp, Stamp),
    ) -> i64 {
        let next = number(self.tokens.len());
        // A token is of its task.
        let token = *self.tokens.entry(format!("{reference} {token}")).or_insert(next);
        let lease_until_us = match self.leases_are_open {
            true => i64::MIN,
            false => asked.clock_us.saturating_add(LEASE_MIN_US).min(lease_until_ms * 1_000),
        };
        let (queue, fired_us) = (queue_of(lane), received.clock_us);
        let kind = OpKind::Fire { queue, token, attempt, fired_us, lease_until_us };
        self.push(n, asked, Some(received), kind);
        token
    }

    pub(crate) fn lost_call(&mut self, lane: Lane, asked: Stamp, ended: Stamp) {
        let (from_us, until_us) = (asked.clock_us, ended.clock_us);
        self.recording.lost_calls.push(LostWork { queue: queue_of(lane), from_us, until_us });
    }

    /// One sending of an outcome. `status`: of this task in the answer, and when that came; None: none came.
    pub(crate) fn reported(
        &mut self,
        n: usize,
        (token, is_success): (i64, bool),
        called: Stamp,
        status: Option<(Stamp, OutcomeStatus)>,
    ) {
        let failed = AttemptEnd::Failed { retry_after_us: RETRY_MS * 1_000 };
        let end = if is_success { AttemptEnd::Succeeded } else { failed };
        let answer = match status {
            Some((_, OutcomeStatus::Accepted)) => Some(OutcomeAnswer::Accepted),
            Some((_, OutcomeStatus::Stale)) => Some(OutcomeAnswer::Stale),
            // Journalled, or its database is unavailable: it may count at any time.
            _ => None,
        };
        let returned = status.filter(|_| answer.is_some()).map(|(stamp, _)| stamp);
        self.push(n, called, returned, OpKind::Outcome { token, end, answer });
    }

    /// All that is there when all is quiet; then what engines' clocks were wrong by is taken into account, which is known by now.
    pub(crate) fn finished(
        &mut self,
        tasks: usize,
        ends: &HashMap<usize, TaskEnd>,
        around: &Circumstances,
    ) -> Recording {
        for n in 0..tasks {
            let (called, end) = (Stamp::now(), ends.get(&n));
            let kind = OpKind::Read { state: read_state(end.map(|end| end.state.as_str())) };
            self.push(n, called, Some(Stamp::now()), kind);
        }
        let mut recording = std::mem::take(&mut self.recording);
        let mut begun: HashMap<i64, i64> = HashMap::new();
        for op in &recording.ops {
            let from_us = begun.entry(op.task).or_insert(op.from_us);
            *from_us = op.from_us.min(*from_us);
        }
        for op in recording.ops.iter_mut().filter(|op| op.returned.is_some()) {
            let slack_us = around.slack_us(begun.get(&op.task).copied().unwrap_or(op.from_us), op.until_us);
            op.until_us += slack_us;
            if let OpKind::Fire { fired_us, lease_until_us, .. } = &mut op.kind {
                *fired_us += slack_us;
                *lease_until_us = lease_until_us.saturating_sub(slack_us);
            }
        }
        recording
    }
}

fn read_state(state: Option<&str>) -> ReadState {
    match state {
        None => ReadState::Absent,
        Some("dispatched" | "running") => ReadState::InHand,
        Some("succeeded" | "stopped") => ReadState::Succeeded,
        Some("dead") => ReadState::Dead,
        Some("cancelled") => ReadState::Cancelled,
        Some(_) => ReadState::Waiting,
    }
}
