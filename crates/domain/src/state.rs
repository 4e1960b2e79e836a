//! The task state machine. `TRANSITIONS` is the only place where a move is written down; SQL and Lua
//! guards, the diagram in `docs/state-machine.md`, the API and the tests are checked against it.

use State::{
    Blocked, Cancelled, Dead, DispatchFailed, Dispatched, Dispatching, Ready, Retrying, Running, Scheduled,
    Stopped, Succeeded,
};
use serde::{Deserialize, Serialize};

/// The state of a task. Codes are stored: never renumber, never reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum State {
    /// Waits for its time.
    Scheduled = 1,
    /// Claimed by an owner; on its wheel, or fired this instant.
    Dispatching = 2,
    /// Fired; waits for a slot or for a free executor.
    Ready = 3,
    /// The task is on the bus, or leased.
    Dispatched = 4,
    /// The executor has begun.
    Running = 5,
    /// Could not be sent; the compensator will try again.
    DispatchFailed = 6,
    /// Failed; the next attempt has a time.
    Retrying = 7,
    /// The task succeeded. The outcome is stored until retention ends.
    Succeeded = 8,
    /// Attempts exhausted, refused, or timed out for good.
    Dead = 9,
    /// Withdrawn before it fired, or stopped on request.
    Cancelled = 10,
    /// Retention is over; may be deleted.
    Stopped = 11,
    /// Waits for parents in a workflow.
    Blocked = 12,
}

/// The general scheduler's five words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Pending,
    Processing,
    Success,
    Failed,
    Stopped,
}

/// Why a task moves. Codes are stored in histories by name: never rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The same id and version was inserted again, and replaces the task.
    Replace,
    /// All parents of a workflow step are done.
    Unblock,
    /// The partition's owner claims it shortly before it fires.
    Claim,
    /// A new owner takes over tasks that the last one claimed and did not hand over.
    Reclaim,
    /// The owner stops gracefully and returns unfired tasks.
    HandBack,
    /// It is due, and no executor takes it immediately.
    Fire,
    /// The task is delivered to an executor: the event uses an attempt and makes a new fence.
    Dispatch,
    /// Could not be sent.
    FailDispatch,
    /// The executor was gone before the hand-over reached it: the attempt is returned.
    Release,
    /// The executor's first sign of work.
    Start,
    /// The executor reports success.
    Succeed,
    /// The attempt failed or its lease ended, and another one has a time.
    Retry,
    /// The executor requests a later time; the attempt is returned.
    Snooze,
    /// The last attempt failed, or the executor refused for good.
    Bury,
    /// The task did not start by its deadline.
    Expire,
    /// Put among the dead by a caller, before an executor had it.
    DeadLetter,
    /// Withdrawn before it fired.
    Cancel,
    /// Withdrawn on request after it had fired, before an executor had it.
    Withdraw,
    /// Ended by its executor, which had been asked to stop.
    Abort,
    /// Time, payload or priority changed before it fired.
    Reschedule,
    /// A dead task's properties are changed before it is redriven.
    Amend,
    /// A dead task is given new attempts.
    Redrive,
    /// Retention of a success is over.
    Retire,
}

#[derive(Debug)]
pub struct Transition {
    pub event: Event,
    pub from: &'static [State],
    pub to: State,
}

const fn on(event: Event, from: &'static [State], to: State) -> Transition {
    Transition { event, from, to }
}

/// Every legal move, one row an event.
#[rustfmt::skip]
pub const TRANSITIONS: &[Transition] = &[
    on(Event::Replace,      &[Scheduled, Dispatching, Ready, DispatchFailed, Retrying, Dead, Cancelled, Stopped, Blocked], Scheduled),
    on(Event::Unblock,      &[Blocked],                                                     Scheduled),
    on(Event::Claim,        &[Scheduled, Retrying],                                         Dispatching),
    on(Event::Reclaim,      &[Dispatching, Ready, DispatchFailed],                          Dispatching),
    on(Event::HandBack,     &[Dispatching],                                                 Scheduled),
    on(Event::Fire,         &[Dispatching],                                                 Ready),
    on(Event::Dispatch,     &[Scheduled, Dispatching, Ready, DispatchFailed, Retrying],     Dispatched),
    on(Event::FailDispatch, &[Dispatching, Ready],                                          DispatchFailed),
    on(Event::Release,      &[Dispatched],                                                  Ready),
    on(Event::Start,        &[Dispatched],                                                  Running),
    on(Event::Succeed,      &[Dispatched, Running],                                         Succeeded),
    on(Event::Retry,        &[Dispatched, Running],                                         Retrying),
    on(Event::Snooze,       &[Dispatched, Running],                                         Scheduled),
    on(Event::Bury,         &[Dispatched, Running],                                         Dead),
    on(Event::Expire,       &[Scheduled, Dispatching, Ready, DispatchFailed, Retrying],     Dead),
    on(Event::DeadLetter,   &[Scheduled, Dispatching, Ready, DispatchFailed, Retrying, Blocked], Dead),
    on(Event::Cancel,       &[Scheduled, Dispatching, Retrying, Blocked],                   Cancelled),
    on(Event::Withdraw,     &[Dispatching, Ready, DispatchFailed],                          Cancelled),
    on(Event::Abort,        &[Dispatched, Running],                                         Cancelled),
    on(Event::Reschedule,   &[Scheduled, Dispatching, Retrying],                            Scheduled),
    on(Event::Amend,        &[Dead],                                                        Dead),
    on(Event::Redrive,      &[Dead],                                                        Scheduled),
    on(Event::Retire,       &[Succeeded],                                                   Stopped),
];

/// A move that the table does not have. In a race this is an answer ("lost"), not a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} does not leave {from:?}")]
pub struct IllegalTransition {
    pub from: State,
    pub event: Event,
}

impl State {
    pub const ALL: [Self; 12] = [
        Scheduled,
        Dispatching,
        Ready,
        Dispatched,
        Running,
        DispatchFailed,
        Retrying,
        Succeeded,
        Dead,
        Cancelled,
        Stopped,
        Blocked,
    ];

    /// The state after `event`. Total: everything that is not in the table is an error.
    ///
    /// # Errors
    /// When the table has no such move.
    pub fn after(self, event: Event) -> Result<Self, IllegalTransition> {
        let row = event.row();
        if row.from.contains(&self) { Ok(row.to) } else { Err(IllegalTransition { from: self, event }) }
    }

    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The general scheduler's word. A blocked task is pending: it is accepted and has not begun.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self {
            Scheduled | Dispatching | Ready | DispatchFailed | Retrying | Blocked => Phase::Pending,
            Dispatched | Running => Phase::Processing,
            Succeeded => Phase::Success,
            Dead => Phase::Failed,
            Cancelled | Stopped => Phase::Stopped,
        }
    }

    /// It has not fired for its next attempt.
    #[must_use]
    pub const fn waits_for_its_time(self) -> bool {
        matches!(self, Scheduled | Dispatching | Retrying)
    }

    /// The engine still owes this task a firing or a hand-over.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        matches!(self, Scheduled | Dispatching | Ready | DispatchFailed | Retrying)
    }

    /// True if the task has neither been delivered nor ended: quotas of waiting tasks count it.
    #[must_use]
    pub const fn is_pending(self) -> bool {
        !self.is_finished() && !self.is_in_flight()
    }

    /// An executor has it.
    #[must_use]
    pub const fn is_in_flight(self) -> bool {
        matches!(self, Dispatched | Running)
    }

    /// It does not change any more by itself, except that it is finally deleted.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Succeeded | Dead | Cancelled | Stopped)
    }

    /// The final state of a finished task: succeeded, dead or cancelled. The end of retention does not hide it: only
    /// a success becomes stopped.
    #[must_use]
    pub const fn ended_as(self) -> Option<Self> {
        match self {
            Succeeded | Stopped => Some(Succeeded),
            Dead | Cancelled => Some(self),
            _ => None,
        }
    }

    /// The word of APIs, logs and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Scheduled => "scheduled",
            Dispatching => "dispatching",
            Ready => "ready",
            Dispatched => "dispatched",
            Running => "running",
            DispatchFailed => "dispatch_failed",
            Retrying => "retrying",
            Succeeded => "succeeded",
            Dead => "dead",
            Cancelled => "cancelled",
            Stopped => "stopped",
            Blocked => "blocked",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

impl Phase {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl Event {
    fn row(self) -> &'static Transition {
        TRANSITIONS
            .iter()
            .find(|transition| transition.event == self)
            .expect("a test holds one row for each event")
    }

    /// The states that a guarded statement for this event must accept: exactly these, no more.
    #[must_use]
    pub fn sources(self) -> &'static [State] {
        self.row().from
    }

    #[must_use]
    pub fn target(self) -> State {
        self.row().to
    }

    /// True if this event revives a finished task. Only a caller can do that.
    #[must_use]
    pub const fn revives(self) -> bool {
        matches!(self, Self::Replace | Self::Redrive)
    }

    /// The word in histories and logs, as serde writes it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Unblock => "unblock",
            Self::Claim => "claim",
            Self::Reclaim => "reclaim",
            Self::HandBack => "hand_back",
            Self::Fire => "fire",
            Self::Dispatch => "dispatch",
            Self::FailDispatch => "fail_dispatch",
            Self::Release => "release",
            Self::Start => "start",
            Self::Succeed => "succeed",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Bury => "bury",
            Self::Expire => "expire",
            Self::DeadLetter => "dead_letter",
            Self::Cancel => "cancel",
            Self::Withdraw => "withdraw",
            Self::Abort => "abort",
            Self::Reschedule => "reschedule",
            Self::Amend => "amend",
            Self::Redrive => "redrive",
            Self::Retire => "retire",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        TRANSITIONS.iter().map(|transition| transition.event).find(|event| event.word() == word)
    }
}

/// Mermaid text for `docs/state-machine.md`.
#[must_use]
pub fn mermaid() -> String {
    use std::fmt::Write as _;
    let mut out = String::from("stateDiagram-v2\n    [*] --> scheduled: insert\n");
    for transition in TRANSITIONS {
        for from in transition.from {
            let _ = writeln!(
                out,
                "    {} --> {}: {}",
                from.word(),
                transition.to.word(),
                transition.event.word()
            );
        }
    }
    for state in [Dead, Cancelled, Stopped] {
        let _ = writeln!(out, "    {} --> [*]: delete", state.word());
    }
    out
}

#[cfg(test)]
mod tests;
