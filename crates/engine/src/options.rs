//! The options of an engine, with their defaults. Checked once, when an engine is built.

use crate::{evaluations::state::Probe, meters::ProcessMeters};
use punctual_domain::{access::SecretHash, name::QueueKey};
use std::sync::Arc;

/// All times are milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this engine in histories and logs, and among the engines that share a store. There it must be
    /// unique, and different at each start of a process. Two engines of one name would each believe that they
    /// own the other's partitions.
    pub name: String,
    /// The time before their instants at which tasks are loaded into the hot set.
    pub horizon_ms: i64,
    /// Most entries held in the hot set; beyond, the horizon shrinks and the rest waits in the store. Unless it is set, the hot
    /// set's memory alone decides.
    pub hot_entries_max: usize,
    /// The time before its instant at which a task is claimed and put on the wheel.
    pub lookahead_ms: i64,
    pub claim_interval_ms: u64,
    pub preload_interval_ms: u64,
    pub sweep_interval_ms: u64,
    pub lease_check_interval_ms: u64,
    /// How often the agendas of the databases are read: no change takes longer to be noticed.
    pub agenda_interval_ms: u64,
    pub mark_ready_interval_ms: u64,
    pub retire_interval_ms: u64,
    /// The interval of the comparison of the limiter with the attempts in flight; in full every 30 s.
    pub reconcile_interval_ms: u64,
    /// The interval of the check of unsent tasks for a retry.
    pub compensate_interval_ms: u64,
    /// The maximum number of them that are retried in one check.
    pub compensate_max: usize,
    /// A task that is overdue by this much, and that this engine does not know, is read again by the refill.
    pub overdue_after_ms: i64,
    /// The interval of the search of all partitions for long overdue tasks.
    pub overdue_look_interval_ms: u64,
    /// The time for which a success answers repeated requests, before it is stopped.
    pub keep_succeeded_ms: i64,
    /// The time for which a stopped task can be looked up before it is deleted.
    pub keep_stopped_ms: i64,
    pub keep_cancelled_ms: i64,
    pub keep_dead_ms: i64,
    /// Queues whose tasks are published to the bus; all others wait for executors that pull.
    pub push_queues: Vec<QueueKey>,
    /// Subscribers can reach the bus. Where they cannot, no queue is pushed, whatever is set: tasks would be published to where
    /// no reader reads them.
    pub can_push: bool,
    /// The time for which a subscriber has a task before it is delivered to another, unless it sends heartbeats.
    pub push_lease_ms: i64,
    /// The time before its due time at which a task is leased for a waiting caller; 0 is never. Cancelling or
    /// changing a task this late costs a few more steps, and the answer to a pause takes a little longer.
    pub ahead_ms: i64,
    /// An insert that would wait longer than this for the store is refused.
    pub insert_wait_max_ms: u64,
    /// The maximum deviation of the machine's wall clock from its steady clock, and from the database's. Beyond it
    /// the wall clock is not followed any more.
    pub clock_bound_ms: u64,
    /// This many tasks of a queue are preleased even if no caller waits for them.
    pub ahead_room_min: usize,
    /// The maximum size of a payload or result in the store. A longer one is stored outside, if there is a storage
    /// for it.
    pub inline_max_bytes: usize,
    /// The interval of the checks of a page of the stored objects for those that no task refers to.
    pub unused_interval_ms: u64,
    /// A token that may do everything and is in no store; callers need tokens as soon as there is one.
    pub admin_token: Option<SecretHash>,
    /// Namespaces must be made before they are used; but for `default`, which is always there.
    pub explicit_namespaces: bool,
    /// `None`, except in tests.
    pub probe: Option<Probe>,
    /// The retention of audit entries.
    pub keep_audit_ms: i64,
    /// The process's own counts, for display and alerts.
    pub process: Arc<ProcessMeters>,
}

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "engine".to_owned(),
            horizon_ms: HOUR_MS,
            hot_entries_max: usize::MAX,
            lookahead_ms: 1_000,
            claim_interval_ms: 250,
            preload_interval_ms: 5_000,
            sweep_interval_ms: 1_000,
            lease_check_interval_ms: 200,
            agenda_interval_ms: 200,
            mark_ready_interval_ms: 250,
            retire_interval_ms: 2_000,
            reconcile_interval_ms: 1_000,
            compensate_interval_ms: 10_000,
            compensate_max: 5_000,
            overdue_after_ms: 2_000,
            overdue_look_interval_ms: 10_000,
            keep_succeeded_ms: DAY_MS,
            keep_stopped_ms: HOUR_MS,
            keep_cancelled_ms: 7 * DAY_MS,
            keep_dead_ms: 30 * DAY_MS,
            push_queues: Vec::new(),
            can_push: true,
            push_lease_ms: 30_000,
            ahead_ms: 100,
            clock_bound_ms: 250,
            insert_wait_max_ms: 1_000,
            ahead_room_min: 0,
            inline_max_bytes: 65_536,
            unused_interval_ms: 60_000,
            admin_token: None,
            explicit_namespaces: false,
            probe: None,
            keep_audit_ms: 365 * DAY_MS,
            process: Arc::default(),
        }
    }
}

/// The maximum number of rows or entries of one bounded step.
pub(crate) const STEP_LIMIT: usize = 1_000;
