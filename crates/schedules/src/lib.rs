//! Makes the runs of schedules ahead of time, as ordinary tasks whose id and version are derived from
//! schedule and instant, so that every engine makes the same task. The path of a task does not know
//! schedules; nothing fires here.
//!
//! The order of steps, and what a crash between any two leaves: docs/consistency-tests.md, "Schedules".

mod allowance;
mod error;
mod evaluate;
mod options;
mod planner;

mod expressions;
mod look;
mod make;
mod marked;
mod recover;
mod revoke;

mod calls;
mod manual_runs;

pub use calls::{TakenBack, Upcoming};
pub use error::Error;
pub use manual_runs::Backfilled;
pub use options::Options;
pub use planner::Planner;
