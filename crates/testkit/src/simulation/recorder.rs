//! Writes down each call of the simulated callers and executors with its answer, for the checker of histories
//! (`punctual-linear`). Calls are ordered by a counter; due times are those of the simulated clock. Must never look at
//! an engine or at the store.

use punctual_contract::store::{Assignment, Extended};
use punctual_domain::{state::State, time::Millis};
use punctual_engine::{Cancelled, Changed, Error, Reported};
use punctual_linear::{
    AttemptEnd, ChangeAnswer, InsertAnswer, LinearReport, OpKind, OutcomeAnswer, ReadState, RecordedOp,
    Recording, SpecRules, check, history::LostWork, report::STATES_MAX,
};
use std::collections::{HashMap, HashSet};

const QUEUE: u32 = 0;
const US_PER_MS: i64 = 1_000;
/// A lease that is made ahead ends so soon after the instant, if its engine dies before it has stored who has the task.
const LEASE_AHEAD_MS: i64 = 2_900;
/// What waits at its instant for an executor is given within this time.
const HANDED_OVER_MS: i64 = 100;
/// As the options of the engines say: the shortest of all retentions.
const KEPT_MS: i64 = 60_000;
/// As the options of the engines say (`ahead_ms`).
const AHEAD_MS: i64 = 500;
/// When a task is due that no answer has shown: any time.
const UNKNOWN: Millis = Millis(i64::MIN / US_PER_MS);
/// Of one task, more hand-overs than this get lost in no list of operations.
const UNSEEN_MAX: usize = 8;

/// A call that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallBegin {
    order: i64,
    at: Millis,
}

impl CallBegin {
    /// Unknown: it may have begun before everything else.
    const FIRST: Self = Self { order: 0, at: Millis::ZERO };
}

/// What a caller asked for about a task that it inserted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inserting {
    pub(super) id: Option<(i64, i64)>,
    pub(super) due_at: Millis,
    pub(super) has_deadline: bool,
    pub(super) max_attempts: u32,
    pub(super) retry_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Recorder {
    recording: Recording,
    order: i64,
    /// Each known task, by its place.
    tasks: HashMap<i64, Inserting>,
    has_unknown_inserts: bool,
    /// Hand-overs: task and fence.
    seen: HashSet<(i64, i64)>,
}

/// None: it may have happened.
const fn refusal(error: &Error) -> Option<ChangeAnswer> {
    match error {
        Error::NotFound => Some(ChangeAnswer::NotFound),
        _ => None,
    }
}

impl Recorder {
    fn next(&mut self) -> i64 {
        self.order += 1;
        self.order
    }

    pub(super) fn begin(&mut self, at: Millis) -> CallBegin {
        CallBegin { order: self.next(), at }
    }

    /// `until`: the furthest that the clock has been; None: no answer.
    fn push(&mut self, task: i64, call: CallBegin, until: Option<Millis>, kind: OpKind) {
        if !matches!(kind, OpKind::Insert { .. }) {
            self.know(task, u32::MAX);
        }
        let returned = until.map(|_| self.next());
        let until_us = until.map_or(i64::MAX, |until| until.0 * US_PER_MS);
        let (called, from_us) = (call.order, call.at.0 * US_PER_MS);
        self.recording.ops.push(RecordedOp { task, called, returned, from_us, until_us, kind });
    }

    pub(super) fn inserted(
        &mut self,
        task: i64,
        call: CallBegin,
        until: Millis,
        (inserting, answer): (Inserting, InsertAnswer),
    ) {
        if answer != InsertAnswer::Created {
            self.know(task, u32::MAX);
        }
        self.tasks.insert(task, inserting);
        self.push(task, call, Some(until), insert(call, inserting, Some(answer)));
    }

    /// It may have created a task that no caller knows, or replaced one of the same id.
    pub(super) fn insert_unanswered(&mut self, call: CallBegin, inserting: Inserting) {
        self.has_unknown_inserts = true;
        // Of a task that no answer has shown, the id is unknown.
        let may_be = |known: &Inserting| known.due_at == UNKNOWN || known.id == inserting.id;
        let same = self.tasks.iter().filter(|(_, known)| inserting.id.is_some() && may_be(known));
        let same: Vec<i64> = same.map(|(task, _)| *task).collect();
        for task in same {
            self.push(task, call, None, insert(call, inserting, None));
        }
    }

    /// A task that comes without an insert that was answered: one that was not may have made it.
    fn know(&mut self, task: i64, max_attempts: u32) {
        if self.has_unknown_inserts && !self.tasks.contains_key(&task) {
            let due_at = UNKNOWN;
            let inserting = Inserting { id: None, due_at, has_deadline: true, max_attempts, retry_ms: 0 };
            self.tasks.insert(task, inserting);
            self.push(task, CallBegin::FIRST, None, insert(CallBegin::FIRST, inserting, None));
        }
    }

    pub(super) fn unanswered_work(&mut self, at: Millis) {
        let (from_us, until_us) = (at.0 * US_PER_MS, i64::MAX);
        self.recording.lost_calls.push(LostWork { queue: QUEUE, from_us, until_us });
    }

    /// Messages and leases get lost at any time.
    pub(super) fn loses_work(&mut self) {
        (0..UNSEEN_MAX).for_each(|_| self.unanswered_work(Millis::ZERO));
    }

    /// `call`: None, if the call for it began long ago.
    pub(super) fn handed_over(&mut self, lease: &Assignment, call: Option<CallBegin>, until: Millis) {
        let task = lease.place.id;
        // A bus may deliver a message again.
        if !self.seen.insert((task, lease.fence)) && call.is_none() {
            return;
        }
        let call = call.unwrap_or(CallBegin::FIRST);
        let given_at = lease.fired_at.max(until.plus(-HANDED_OVER_MS));
        let lease_until = lease.lease_until.min(given_at.plus(LEASE_AHEAD_MS));
        let (token, attempt, fired_us) = (lease.fence, lease.attempt, lease.fired_at.0 * US_PER_MS);
        let lease_until_us = lease_until.0 * US_PER_MS;
        let kind = OpKind::Fire { queue: QUEUE, token, attempt, fired_us, lease_until_us };
        self.push(task, call, Some(until), kind);
    }

    pub(super) fn extended(
        &mut self,
        lease: &Assignment,
        call: CallBegin,
        until: Millis,
        answer: Option<Extended>,
    ) {
        let (held, lease_until_us) = match answer {
            Some(Extended::Held { lease_until, .. }) => (Some(true), lease_until.0 * US_PER_MS),
            Some(Extended::Lost) => (Some(false), i64::MIN),
            None => (None, i64::MIN),
        };
        let kind = OpKind::Extend { token: lease.fence, lease_until_us, held };
        self.push(lease.place.id, call, held.map(|_| until), kind);
    }

    pub(super) fn reported(
        &mut self,
        (lease, end): (&Assignment, AttemptEnd),
        call: CallBegin,
        until: Millis,
        answer: &Result<Reported, Error>,
    ) {
        let task = lease.place.id;
        let end = match end {
            AttemptEnd::Failed { .. } => {
                let retry_ms = self.tasks.get(&task).map_or(0, |known| known.retry_ms);
                AttemptEnd::Failed { retry_after_us: retry_ms * US_PER_MS }
            }
            other => other,
        };
        let answer = match answer {
            Ok(Reported::Accepted) => Some(OutcomeAnswer::Accepted),
            Ok(Reported::Stale) => Some(OutcomeAnswer::Stale),
            Ok(Reported::ForLater) | Err(_) => None,
        };
        let kind = OpKind::Outcome { token: lease.fence, end, answer };
        self.push(task, call, answer.map(|_| until), kind);
    }

    pub(super) fn cancelled(
        &mut self,
        (task, withdraws): (i64, bool),
        call: CallBegin,
        until: Millis,
        answer: Option<&Result<Cancelled, Error>>,
    ) {
        let answer = match answer {
            Some(Ok(Cancelled::Cancelled(_))) => Some(ChangeAnswer::Done),
            Some(Ok(Cancelled::AlreadyFired(_))) => Some(ChangeAnswer::Refused),
            Some(Ok(Cancelled::StopRequested(_))) => Some(ChangeAnswer::StopRequested),
            Some(Err(error)) => refusal(error),
            None => None,
        };
        self.push(task, call, answer.map(|_| until), OpKind::Cancel { withdraws, answer });
    }

    pub(super) fn rescheduled(
        &mut self,
        (task, due_at): (i64, Option<Millis>),
        call: CallBegin,
        until: Millis,
        answer: &Result<Option<Changed>, Error>,
    ) {
        let answer = match answer {
            Ok(Some(Changed::Changed(_))) => Some(ChangeAnswer::Done),
            Ok(Some(Changed::Refused(_))) => Some(ChangeAnswer::Refused),
            Ok(None) => return,
            Err(error) => refusal(error),
        };
        let due_us = due_at.map(|due_at| due_at.0 * US_PER_MS);
        self.push(task, call, answer.map(|_| until), OpKind::Reschedule { due_us, answer });
    }

    pub(super) fn redriven(
        &mut self,
        task: i64,
        call: CallBegin,
        until: Millis,
        answer: &Result<Changed, Error>,
    ) {
        let answer = match answer {
            Ok(Changed::Changed(_)) => Some(ChangeAnswer::Done),
            Ok(Changed::Refused(_)) => Some(ChangeAnswer::Refused),
            Err(error) => refusal(error),
        };
        self.push(task, call, answer.map(|_| until), OpKind::Redrive { answer });
    }

    /// Tasks that the recorder knows.
    pub(super) fn tasks(&self) -> Vec<i64> {
        self.tasks.keys().copied().collect()
    }

    pub(super) fn read(&mut self, task: i64, until: Millis, state: Option<State>) {
        let call = self.begin(until);
        let state = match state {
            None => ReadState::Absent,
            Some(State::Dispatched | State::Running) => ReadState::InHand,
            Some(State::Succeeded | State::Stopped) => ReadState::Succeeded,
            Some(State::Dead) => ReadState::Dead,
            Some(State::Cancelled) => ReadState::Cancelled,
            Some(
                State::Scheduled
                | State::Dispatching
                | State::Ready
                | State::DispatchFailed
                | State::Retrying
                | State::Blocked,
            ) => ReadState::Waiting,
        };
        self.push(task, call, Some(until), OpKind::Read { state });
    }

    pub(super) fn verdict(&self) -> LinearReport {
        let rules = SpecRules {
            tokens_rise: true,
            keeps_fired: false,
            ahead_us: AHEAD_MS * US_PER_MS,
            kept_us: Some(KEPT_MS * US_PER_MS),
        };
        check(&self.recording, rules, STATES_MAX)
    }
}

fn insert(call: CallBegin, inserting: Inserting, answer: Option<InsertAnswer>) -> OpKind {
    let due_us = inserting.due_at.0 * US_PER_MS;
    let deadline_us = inserting.has_deadline.then_some(call.at.0 * US_PER_MS);
    let max_attempts = inserting.max_attempts;
    OpKind::Insert { queue: QUEUE, due_us, deadline_us, max_attempts, answer }
}
