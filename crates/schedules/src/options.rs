//! How the planner works; the defaults are the documented ones.

use punctual_expressions::Pool;

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long before its instant a run is made.
    pub lead_ms: i64,
    /// Schedules of one transaction, and runs of one recovery look.
    pub batch: usize,
    /// A run without a task for this long is made by any engine that finds it.
    pub recover_after_ms: i64,
    /// How long the history of runs is kept.
    pub keep_runs_ms: i64,
    /// Between two recovery looks.
    pub recover_interval_ms: i64,
    /// Where instants and payloads are computed.
    pub pool: &'static Pool,
}

impl Options {
    /// The same, but that instants are computed by the callers: a simulation runs in the same way each time.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { pool: Pool::in_place(), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lead_ms: 60_000,
            batch: 500,
            recover_after_ms: 10_000,
            keep_runs_ms: 7 * 24 * 3_600_000,
            recover_interval_ms: 5_000,
            pool: Pool::shared(),
        }
    }
}
