//! What the tests stand on is tested too: its clock, its faults, its suites. Here, since a second build of the library for them
//! alone would take longer than they do.

mod clock;
mod dials;
mod flaws;
mod listed;
mod order;
mod signals;
mod walk;
