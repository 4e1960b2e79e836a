//! How bulk operations are carried out; the defaults are what is documented.

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tasks of one batch: what a pause or a stop waits for at most, and what another engine looks at again.
    pub batch: usize,
    /// Tasks that are changed at one time.
    pub at_once: usize,
    /// Looks for matching tasks that a preview makes while its caller waits: each passes over 20,000 ids. Beyond them it is counted on.
    pub preview_looks: usize,
    pub sample: usize,
    /// For so long a preview can be confirmed.
    pub preview_good_ms: i64,
    /// A task that cannot be reached is tried so often before it counts as failed.
    pub tries: u32,
    /// How long operations that have ended are kept, and previews that nobody has confirmed.
    pub keep_ms: i64,
    /// Between two looks for those.
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
