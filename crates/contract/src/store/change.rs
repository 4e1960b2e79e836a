//! The data of a move: its event, and the values written with it. Must not decide whether the move is legal:
//! the table of states does (`punctual_domain::state`).

use punctual_domain::{
    name::Name,
    retry::RetryPolicy,
    state::Event,
    task::{Content, Priority, TaskResult},
    time::Millis,
};

/// An event with its data. `keep_until`: when a finished task is deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Unblock,
    Claim,
    Reclaim,
    HandBack,
    Fire {
        fired_at: Millis,
    },
    FailDispatch,
    /// Returns the attempt; the lease is removed. Keeps the fence, so that an entry made from it is valid.
    Release,
    Start,
    Succeed {
        result: TaskResult,
        keep_until: Millis,
    },
    Retry {
        due_at: Millis,
        result: Option<TaskResult>,
    },
    /// Gives the attempt back.
    Snooze {
        due_at: Millis,
    },
    Bury {
        result: Option<TaskResult>,
        keep_until: Millis,
    },
    Expire {
        keep_until: Millis,
    },
    DeadLetter {
        keep_until: Millis,
    },
    Cancel {
        keep_until: Millis,
    },
    Withdraw {
        keep_until: Millis,
    },
    Abort {
        keep_until: Millis,
    },
    /// Makes a new fence. `None` means unchanged. With a new `execute_at` the task is due at the later of it and
    /// `now`. Another `queue` of its namespace takes over all the store's data of the task: account, bytes, declared
    /// labels.
    Reschedule {
        execute_at: Option<Millis>,
        priority: Option<Priority>,
        payload: Option<Content>,
        queue: Option<Name>,
    },
    /// Makes a new fence, and leaves the task dead. `None` means unchanged.
    Amend {
        max_attempts: Option<u32>,
        priority: Option<Priority>,
        payload: Option<Content>,
        timeout_ms: Option<i64>,
        retry: Option<RetryPolicy>,
    },
    /// Attempts start again at zero; makes a new fence.
    Redrive {
        execute_at: Millis,
    },
    Retire {
        keep_until: Millis,
    },
}

impl Change {
    #[must_use]
    pub const fn event(&self) -> Event {
        match self {
            Self::Unblock => Event::Unblock,
            Self::Claim => Event::Claim,
            Self::Reclaim => Event::Reclaim,
            Self::HandBack => Event::HandBack,
            Self::Fire { .. } => Event::Fire,
            Self::FailDispatch => Event::FailDispatch,
            Self::Release => Event::Release,
            Self::Start => Event::Start,
            Self::Succeed { .. } => Event::Succeed,
            Self::Retry { .. } => Event::Retry,
            Self::Snooze { .. } => Event::Snooze,
            Self::Bury { .. } => Event::Bury,
            Self::Expire { .. } => Event::Expire,
            Self::DeadLetter { .. } => Event::DeadLetter,
            Self::Cancel { .. } => Event::Cancel,
            Self::Withdraw { .. } => Event::Withdraw,
            Self::Abort { .. } => Event::Abort,
            Self::Reschedule { .. } => Event::Reschedule,
            Self::Amend { .. } => Event::Amend,
            Self::Redrive { .. } => Event::Redrive,
            Self::Retire { .. } => Event::Retire,
        }
    }

    /// The end of the retention of a task that the change finishes.
    #[must_use]
    pub const fn keep_until(&self) -> Option<Millis> {
        match self {
            Self::Succeed { keep_until, .. }
            | Self::Bury { keep_until, .. }
            | Self::Expire { keep_until }
            | Self::DeadLetter { keep_until }
            | Self::Cancel { keep_until }
            | Self::Withdraw { keep_until }
            | Self::Abort { keep_until }
            | Self::Retire { keep_until } => Some(*keep_until),
            _ => None,
        }
    }

    /// The payload that replaces the task's own.
    #[must_use]
    pub const fn payload(&self) -> Option<&Content> {
        match self {
            Self::Reschedule { payload, .. } | Self::Amend { payload, .. } => payload.as_ref(),
            _ => None,
        }
    }

    /// The queue that it puts the task into, whatever that is in now.
    #[must_use]
    pub const fn queue(&self) -> Option<&Name> {
        if let Self::Reschedule { queue, .. } = self { queue.as_ref() } else { None }
    }
}
