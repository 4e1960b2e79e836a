//! Carries out bulk operations: what a filter finds is counted first and confirmed, and then changed a batch at a time, at a
//! bounded rate, by the same calls as change one task. The path of a task knows nothing of it; whoever dies, another continues.
//!
//! The order of steps, and what a crash between any two leaves: docs/consistency-tests.md, "Bulk operations".

mod error;
mod meters;
mod options;

mod calls;
mod ends;
mod preview;

mod act;
mod apart;
mod runner;

pub use calls::{Changed, FoundOf};
pub use error::Error;
pub use meters::Outcome;
pub use options::Options;
pub use preview::Previewed;
pub use runner::Runner;
