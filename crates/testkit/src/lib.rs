//! The base of tests: the suites that every back end must pass, a clock that a test controls, back ends that
//! fail on request. Only ever a dev-dependency; no part of the product may depend on it.

pub mod clock;
pub mod conformance;
mod decorators;
pub mod faults;
pub mod servers;
pub mod shared;
pub mod simulation;
pub mod test_engine;
pub mod twins;

pub use punctual_test_servers::{certificates, patience};
