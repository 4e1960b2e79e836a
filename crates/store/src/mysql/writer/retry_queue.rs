//! Jobs of a writer that lost their races, and the pauses before they are tried again.

use crate::mysql::job::Job;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// A lost race is run again after this, longer each time: the winner is done by then.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Jobs that are tried again while others continue.
#[derive(Debug, Default)]
pub(crate) struct RetryQueue(BTreeMap<(Instant, u64), (Job, u32)>, u64);

impl RetryQueue {
    pub(super) fn push(&mut self, job: Job, tries: u32) {
        self.1 += 1;
        self.0.insert((Instant::now() + pause(tries), self.1), (job, tries));
    }

    pub(super) fn first_at(&self) -> Option<Instant> {
        self.0.first_key_value().map(|aside| aside.0.0)
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<(Job, u32)> {
        self.first_at().filter(|first_at| *first_at <= now)?;
        self.pop()
    }

    /// The first, due or not.
    pub(super) fn pop(&mut self) -> Option<(Job, u32)> {
        self.0.pop_first().map(|aside| aside.1)
    }
}

pub(super) fn pause(tries: u32) -> Duration {
    AGAIN_AFTER * (tries - 1).pow(2)
}
