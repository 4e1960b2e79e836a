//! How workflows are run; the defaults are what is documented.

use punctual_expressions::Pool;

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workflows that are looked at by one batch.
    pub batch: usize,
    /// A workflow is looked at so long after it opened nodes: what an engine has left undone is continued.
    pub first_look_ms: i64,
    /// Looks at tasks that wait for executors become rarer, up to this.
    pub look_max_ms: i64,
    /// How long one that is over is kept.
    pub keep_ms: i64,
    /// Between two looks for what is to be forgotten.
    pub forget_interval_ms: i64,
    /// Where documents are read and expressions evaluated.
    pub pool: &'static Pool,
}

impl Options {
    /// The same, but that expressions are evaluated by the callers: a simulation runs in the same way each time.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { pool: Pool::in_place(), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 200,
            first_look_ms: 5_000,
            look_max_ms: 300_000,
            keep_ms: 7 * 24 * 3_600_000,
            forget_interval_ms: 60_000,
            pool: Pool::shared(),
        }
    }
}
