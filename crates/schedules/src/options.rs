//! How the planner works; the defaults are what is documented.

use punctual_expressions::Pool;

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long before its instant a run is made.
    pub lead_ms: i64,
    /// Schedules of one transaction, and runs of one look at what was left behind.
    pub batch: usize,
    /// A run whose task was not made for so long is made by whoever finds it.
    pub recover_after_ms: i64,
    /// How long the history of runs is kept.
    pub keep_runs_ms: i64,
    /// Between two looks for what was left behind.
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
