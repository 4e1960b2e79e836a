//! The options of the cluster's watcher; the defaults are the documented ones.

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    pub keep_events_ms: i64,
    /// The maximum number of stored events, however young.
    pub events_max: usize,
    /// The interval in which counts are stored; steps are minutes.
    pub sample_every_ms: i64,
    /// The time for which a silent engine is an alert, unless it returns.
    pub alert_lost_ms: i64,
    /// The maximum age of answers about sizes and due tasks.
    pub cached_ms: i64,
    /// Rows that one count of due tasks reads, in all partitions together.
    pub due_looks_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_events_ms: 30 * 24 * 3_600_000,
            events_max: 10_000,
            sample_every_ms: 10_000,
            alert_lost_ms: 10 * 60_000,
            cached_ms: 15_000,
            due_looks_max: 200_000,
        }
    }
}
