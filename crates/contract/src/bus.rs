//! Carries dispatched tasks to executors that subscribe. It may deliver twice and late; the fence in each message
//! makes that harmless. It never decides anything about a task.

use crate::{error::Error, store::Assignment};
use async_trait::async_trait;
use punctual_domain::{name::QueueKey, time::Millis};
use std::{fmt, time::Duration};

/// Promises:
/// - **At least once.** A published message is delivered until it is acknowledged.
/// - **One at a time.** While a consumer has a message, no other consumer gets it, unless `reclaim` assigns it to
///   another one.
/// - **Per message.** One message that cannot be published does not prevent the others of its batch.
#[async_trait]
pub trait Bus: Send + Sync + fmt::Debug + 'static {
    /// One result a message, in order.
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>>;

    /// Waits up to `wait` for the first message, then returns the available messages, at most `limit`.
    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, Error>;

    /// These are done with. An id that is unknown is passed over.
    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), Error>;

    /// Makes messages that were delivered before `before` and not acknowledged deliverable again.
    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, Error>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Unique in its queue.
    pub id: u64,
    /// The number of deliveries of the message, including this one.
    pub times: u32,
    pub message: Assignment,
}
