//! All that holds the workspace together, in one binary: the suites on each back end, the simulation, the users' test clock, and the ratchets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod access;
mod admission_crashes;
mod ahead;
mod archive_storage;
mod asked;
mod bulk;
mod bus_away;
mod clocks;
mod conformance;
mod console;
mod counted;
mod counted_lately;
mod crash_points;
mod databases;
mod engine;
mod evaluations;
mod facts;
mod flow_plans;
mod for_later;
mod from_store;
mod housekeeping;
mod inbox;
mod kit;
mod large;
mod late_commits;
mod limits;
mod limits_failover;
mod limits_fresh;
mod limits_lost;
mod lost_signals;
mod mysql;
mod mysql_buckets;
mod mysql_moving;
mod mysql_ownership;
mod mysql_plans;
mod mysql_read_only;
mod namespaces;
mod objects;
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
mod room;
mod scan;
mod schedules;
mod servers;
mod shared;
mod shares;
mod simulation;
mod statements;
mod stored_limiter;
mod test_engine;
mod tls;
mod unanswered;
mod workflows;

/// As in the programs; a sixth of the simulation's time went into the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
