//! The progress of an operation. Stored as JSON beside the document: a field is never renamed.

use super::Walk;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Progress {
    /// The number of tasks that the preview has counted.
    pub count: u64,
    /// False if `count` is a lower bound, because not all tasks were read.
    pub count_is_exact: bool,
    /// Tasks with this id or a higher one were counted, or `None` if counting has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counting_below: Option<i64>,
    /// The number of stored steps of the count: steps of the operation that are all the same preview.
    #[serde(skip_serializing_if = "is_zero")]
    pub counting_steps: u32,
    /// Tasks that were made later are not touched.
    pub previewed_at: Millis,
    /// Tasks with this id or a higher one were planned, or `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_id: Option<i64>,
    /// True if no task is left below `before_id`.
    pub is_through: bool,
    /// References of the next tasks, none of which is accounted for yet. An engine that continues begins with
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<String>,
    /// Grows with every batch.
    pub batch_number: u64,
    /// The number of times that the rest of the batch has failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The number of consecutive times that the database of the next tasks did not answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub waits: u32,
    /// The error of the last of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// It continues then.
    #[serde(skip_serializing_if = "is_no_time")]
    pub again_at: Millis,
    /// Separate walks of partitions whose database was unavailable when the others continued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Walk>,
    pub tally: Tally,
    /// It passes through its failures again.
    pub repeats: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// Up to where its rate has been used up.
    pub paced_until: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Who paused or stopped the operation, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_no_time(at: &Millis) -> bool {
    *at == Millis::ZERO
}

/// Counts of tasks by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    pub done: u64,
    /// Tasks that no longer matched when they were processed.
    pub skipped: u64,
    pub failed: u64,
}

/// Unused parts of the rate stay available for this long.
const BURST_MS: i64 = 1_000;

impl Progress {
    /// Accounts for `tasks` tasks at a rate in tasks per second.
    pub fn pace(&mut self, now: Millis, tasks: usize, rate: u32) {
        let ms = i64::try_from(tasks).unwrap_or(i64::MAX).saturating_mul(1_000);
        // Rounded up: never faster than requested.
        let ms = ms.saturating_add(i64::from(rate.max(1)) - 1) / i64::from(rate.max(1));
        self.paced_until = self.paced_until.max(now.plus(-BURST_MS)).plus(ms);
    }

    #[must_use]
    pub const fn accounted(&self) -> u64 {
        self.tally.done + self.tally.skipped + self.tally.failed
    }
}
