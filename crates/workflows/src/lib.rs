//! Runs workflows: what follows from what has ended is decided by `domain::workflow`, committed as one step, and then made:
//! ordinary tasks, whose ids come from workflow, node, item and attempt, so that whoever makes one makes the same. The path of a
//! task knows nothing of workflows; here nothing fires.
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
