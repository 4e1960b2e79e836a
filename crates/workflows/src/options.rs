//! The options of workflows; the defaults are the documented ones.

use punctual_expressions::Pool;

/// All times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of workflows that one batch checks.
    pub batch: usize,
    /// The delay of the check after a workflow has opened nodes: it continues work that an engine left undone.
    pub first_look_ms: i64,
    /// The longest interval between checks of tasks that wait for executors.
    pub look_max_ms: i64,
    /// The retention of a workflow that is over.
    pub keep_ms: i64,
    /// The pause between two deletions of old workflows.
    pub forget_interval_ms: i64,
    /// The pool where documents are read and expressions evaluated.
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
