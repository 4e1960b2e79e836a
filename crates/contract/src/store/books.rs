//! The account of all tasks (promise 6).

use punctual_domain::{name::QueueKey, state::State};

/// Accepted = the sum over `tallies` + deleted, at all times (promise 6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Rows ever created; a replacement creates none.
    pub accepted: i64,
    pub deleted: i64,
    /// Sorted by queue, then state; no zeros.
    pub tallies: Vec<Tally>,
    /// The payload bytes of tasks that wait, inside and outside of the store (`State::is_pending`). Sorted; no zeros.
    pub pending_bytes: Vec<PendingBytes>,
}

/// The payload bytes of a queue's waiting tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBytes {
    pub queue: QueueKey,
    pub bytes: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub queue: QueueKey,
    pub state: State,
    pub tasks: i64,
}

impl Books {
    /// Tasks that are in no state: 0, or something is broken.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        self.accepted - self.deleted - self.tallies.iter().map(|tally| tally.tasks).sum::<i64>()
    }
}
