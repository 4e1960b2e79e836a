//! The options of bulk operations; the defaults are the documented ones.

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of tasks of one batch: the maximum that a pause or a stop waits for, and that another engine
    /// examines again.
    pub batch: usize,
    /// Tasks that are changed at one time.
    pub at_once: usize,
    /// Reads that a preview makes while its caller waits: each examines 20,000 ids. Beyond them, counting
    /// continues in the background.
    pub preview_looks: usize,
    pub sample: usize,
    /// The time for which a preview can be confirmed.
    pub preview_good_ms: i64,
    /// A task that cannot be reached is tried so often before it counts as failed.
    pub tries: u32,
    /// The retention of ended operations and unconfirmed previews.
    pub keep_ms: i64,
    /// The pause between two deletions of those.
    pub forget_interval_ms: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 200,
            at_once: 32,
            preview_looks: 10,
            sample: 10,
            preview_good_ms: 3_600_000,
            tries: 8,
            keep_ms: 30 * 24 * 3_600_000,
            forget_interval_ms: 60_000,
        }
    }
}
