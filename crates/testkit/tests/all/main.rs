//! All that holds the workspace together, in one binary: the suites on each back end, the simulation, the users' test clock, and the ratchets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod conformance;
mod engine;
mod ratchets;
mod simulation;
mod test_engine;
