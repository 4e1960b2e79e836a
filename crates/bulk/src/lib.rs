//! Runs bulk operations: the matching tasks are counted first, and, after a confirmation, changed batch by
//! batch at a bounded rate, by the same calls that change one task. The path of a task does not know this
//! crate; if an engine dies, another continues.
//!
//! The order of steps, and what a crash between any two leaves: docs/consistency-tests.md, "Bulk operations".

mod error;
mod meters;
mod options;
mod state;

mod calls;
mod ends;
mod preview;

mod act;
mod apart;
mod batch;
mod runner;

pub use calls::{Changed, FoundOf};
pub use error::Error;
pub use meters::Outcome;
pub use options::Options;
pub use preview::Previewed;
pub use runner::Runner;
