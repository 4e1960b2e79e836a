//! The tests' own base is tested too: its clock, its faults, its suites. Here, because a second build of the
//! library for these tests alone would take longer than they do.

mod clock;
mod dials;
mod flaws;
mod listed;
mod order;
mod signals;
mod walk;
