//! The options of the planner; the defaults are the documented ones.

use punctual_expressions::Pool;

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time by which a run is created before its instant.
    pub lead_ms: i64,
    /// The number of schedules of one transaction, and of runs of one recovery step.
    pub batch: usize,
    /// A run without a task for this long is made by any engine that finds it.
    pub recover_after_ms: i64,
    /// The retention of the history of runs.
    pub keep_runs_ms: i64,
    /// The pause between two recovery steps.
    pub recover_interval_ms: i64,
    /// The pool where instants and payloads are computed.
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
