//! What the deliveries of all queues share. Must not start one.

use crate::{
    breaker::Breakers, client::GuardedClient, guard::checked_url, numbers::Numbers, source::TaskSource,
};
use punctual_domain::settings::Webhook;
use std::sync::Arc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) source: Arc<dyn TaskSource>,
    pub(super) client: GuardedClient,
    pub(super) breakers: Breakers,
    pub(super) numbers: Numbers,
    /// No delivery begins.
    pub(super) stopping: CancellationToken,
    /// Deliveries without an answer are given up.
    pub(super) cut_off: CancellationToken,
    pub(super) work: TaskTracker,
}

impl Shared {
    pub(super) fn over(source: Arc<dyn TaskSource>) -> Self {
        Self {
            source,
            client: GuardedClient::default(),
            breakers: Breakers::default(),
            numbers: Numbers::default(),
            stopping: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            work: TaskTracker::new(),
        }
    }
}

/// The receiver, by which its failures are counted: scheme, host and port.
pub(super) fn host_of(webhook: &Webhook) -> String {
    checked_url(&webhook.url, true).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}
