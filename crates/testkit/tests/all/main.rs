//! All that holds the workspace together, in one binary: the suites on each back end, the simulation, the users' test clock, and the ratchets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod admission_crashes;
mod ahead;
mod bus_away;
mod clocks;
mod cold;
mod conformance;
mod counted;
mod crash_points;
mod databases;
mod engine;
mod large;
mod late_commits;
mod limits;
mod limits_failover;
mod lost_signals;
mod mysql;
mod mysql_buckets;
mod mysql_moving;
mod mysql_ownership;
mod mysql_plans;
mod mysql_read_only;
mod outages;
mod overdue;
mod parts_fail;
mod pausing;
mod queue_mode;
mod ratchets;
mod redis_bus;
mod redis_hot;
mod redis_limiter;
mod redis_worker;
mod servers;
mod shared;
mod simulation;
mod test_engine;
