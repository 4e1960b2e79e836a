//! Runs workflows: `domain::workflow` decides what follows from ended tasks, one step commits it, and then
//! the tasks are made. They are ordinary tasks whose ids are derived from workflow, node, item and attempt,
//! so that every engine makes the same task. The path of a task does not know workflows; nothing fires here.
//!
//! The order of steps, and what a crash between any two leaves: docs/consistency-tests.md, "Workflows".

mod error;
mod options;
mod plan;

mod runner;

mod marks;
mod task_ends;

mod advance;
mod decide;
mod evaluate;
mod fill;
mod look;
mod make;
mod marked;
mod stop;
mod values;

mod calls;
mod draw;

pub use advance::MovedRows;
pub use calls::{Submission, View};
pub use draw::{dot, mermaid};
pub use error::Error;
pub use make::workflow_of;
pub use marks::Expected;
pub use options::Options;
pub use plan::Plan;
pub use runner::Runner;
