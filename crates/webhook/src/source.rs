//! What the dispatcher asks of an engine: its webhook queues, leases, and the record of outcomes. Holds no logic.

use async_trait::async_trait;
use punctual_domain::{name::QueueKey, settings::QueueSettings, time::Millis};
use punctual_protocol::{LeasedTask, Outcome};
use std::{fmt::Debug, sync::Arc};

/// A queue whose tasks are delivered. Its settings have a receiver.
#[derive(Clone, Debug)]
pub struct WebhookQueue {
    pub queue: Arc<QueueKey>,
    pub settings: Arc<QueueSettings>,
}

/// A lease that is to last `lease_ms` from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub r#ref: String,
    pub token: String,
    pub lease_ms: i64,
}

/// A lease after its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    Held,
    /// It is held, and its task is to stop.
    CancelRequested,
    Lost,
    /// The store did not answer.
    Unknown,
}

/// What became of a reported outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// It counts, or will when its database is back, or another one counted before.
    Done,
    /// It may count. It is reported again.
    Unknown(String),
}

/// Every answer about several leases or outcomes has their order and their number.
#[async_trait]
pub trait TaskSource: Debug + Send + Sync {
    fn now(&self) -> Millis;

    /// The queues whose mode is `webhook`.
    fn webhook_queues(&self) -> Vec<WebhookQueue>;

    /// Waits up to `wait_ms` for tasks, and leases at most `max` for `lease_ms`. The token of each is for its receiver: a
    /// heartbeat with it extends the lease by `lease_after_202_ms`, or by the longest time of the attempt. Dropping the
    /// future loses no task.
    async fn lease(&self, queue: &Arc<QueueKey>, lease: LeaseTerms) -> Result<Vec<LeasedTask>, String>;

    async fn extend(&self, leases: Vec<HeldLease>) -> Vec<LeaseState>;

    async fn record(&self, queue: &QueueKey, outcomes: Vec<Outcome>) -> Vec<RecordState>;

    /// No task of the queue starts after this, at any engine.
    async fn pause(&self, queue: &QueueKey, reason: String) -> Result<(), String>;

    /// Queues to which nothing is delivered now, each with the reason, in place of those before.
    fn report(&self, held_back: Vec<(Arc<QueueKey>, String)>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    pub max: usize,
    pub wait_ms: u64,
    pub lease_ms: i64,
    pub lease_after_202_ms: i64,
}
