//! How a cluster is watched; the defaults are what is documented.

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    pub keep_events_ms: i64,
    /// Events that are kept at most, however young.
    pub events_max: usize,
    /// What was counted is told this often; steps are minutes.
    pub sample_every_ms: i64,
    /// An engine that fell silent is an alert for so long, unless it comes back.
    pub alert_lost_ms: i64,
    /// Answers about sizes and about what falls due are this old at most.
    pub cached_ms: i64,
    /// Tasks that one count of what falls due passes over, in all partitions together.
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
