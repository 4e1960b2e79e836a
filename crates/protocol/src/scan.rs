//! Queues whose due tasks are scanned in the database: their settings, and the answer of a manual scan.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, within};
use crate::limits::{SCAN_BATCH_MAX, SCAN_CONCURRENCY_MAX, SCAN_INTERVAL_MAX_MS, SCAN_INTERVAL_MIN_MS};

pub(crate) const DEFAULT: &str = "leave it out for the default";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Engines find due tasks in the hot set, into which they are loaded before their instants.
    Hot,
    /// Engines find due tasks by scans of the database.
    Store,
}

/// The result of a manual scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScanReport {
    /// Due tasks of the queue that no executor has.
    pub found: u64,
    /// The number of these that the scan has made ready. Executors lease at most `scan_concurrency` at one time. The
    /// others were ready before, or failed, or another engine was first.
    pub handed_over: u64,
    /// The number of these that could not be written. The next scan tries them again.
    pub failed: u64,
    pub took_ms: u64,
    /// False if a database could not be read, or if there was more than a manual scan reads. The next scan
    /// continues.
    #[serde(default)]
    pub is_complete: bool,
}

/// The scan settings of a queue.
pub(crate) struct Scan {
    pub(crate) source: Option<Source>,
    /// True if the queue's tasks are published to the bus.
    pub(crate) is_pushed: bool,
    pub(crate) interval_ms: Option<i64>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) batch: Option<u32>,
}

impl Scan {
    pub(crate) fn check(&self, checks: &mut Checks) {
        let intervals = SCAN_INTERVAL_MIN_MS..=SCAN_INTERVAL_MAX_MS;
        within(checks, "/scan_interval_ms", self.interval_ms, intervals, DEFAULT);
        within(checks, "/scan_concurrency", self.concurrency, 1..=SCAN_CONCURRENCY_MAX, DEFAULT);
        within(checks, "/scan_batch", self.batch, 1..=SCAN_BATCH_MAX, DEFAULT);
        if self.source == Some(Source::Store) && self.is_pushed {
            let detail = "cannot be `push` beside `\"source\": \"store\"`: the bus is in Redis, and a queue that is scanned does \
                          without. Leave `mode` out, and let executors ask for tasks; or leave `source` at `hot`";
            checks.refuse("/mode", detail);
        }
    }
}
