//! A worker's declaration in its calls, and how it applies its desired state.

use std::collections::BTreeSet;

use punctual_protocol::limits::{HOST_MAX_CHARS, LEASE_MAX};
use punctual_protocol::{HeartbeatRequest, LeaseBeat, LeaseRequest, Wish};

use super::WorkerContext;

/// Name of this machine, if it says it.
pub(super) fn host() -> Option<String> {
    let said = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let said =
        said.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok())?;
    let host: String = said.trim().chars().take(HOST_MAX_CHARS).collect();
    (!host.is_empty()).then_some(host)
}

impl WorkerContext {
    pub(super) fn lease_request(&self, max: usize, wait_ms: u64) -> LeaseRequest {
        let options = &self.options;
        LeaseRequest {
            max: u32::try_from(max).unwrap_or(LEASE_MAX).min(LEASE_MAX),
            queues: Vec::new(),
            wait_ms,
            lease_ms: options.lease_ms,
            executor: options.executor.clone(),
            version: options.version.clone(),
            host: options.host.clone(),
            concurrency: options.held,
            capacity: Some(self.capacity()),
            kinds: Some(self.handlers.kinds()),
            only_kinds: options.only_kinds,
            labels: Some(options.labels.clone()).filter(|labels| !labels.is_empty()),
        }
    }

    pub(super) fn beat_request(&self, leases: Vec<LeaseBeat>) -> HeartbeatRequest {
        HeartbeatRequest {
            executor: self.options.executor.clone(),
            capacity: Some(self.capacity()),
            version: self.options.version.clone(),
            host: self.options.host.clone(),
            queues: Some(self.queues.iter().map(|queue| queue.name.clone()).collect::<BTreeSet<_>>()),
            kinds: Some(self.handlers.kinds()),
            labels: Some(self.options.labels.clone()).filter(|labels| !labels.is_empty()),
            leaving: false,
            leases,
        }
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.options.concurrency).unwrap_or(u32::MAX)
    }

    /// A drain cannot be revoked: the worker is on its way out.
    pub(super) fn set_desired_state(&self, wish: Option<Wish>) {
        let changed = self.wish.send_if_modified(|known| {
            let changed = *known != wish;
            *known = wish;
            changed
        });
        if changed {
            let wish = match wish {
                Some(Wish::Quiet) => "no new tasks",
                Some(Wish::Drain) => "no new tasks, finish and end",
                None => "serve",
            };
            tracing::info!(executor = self.options.executor, wish, "an operator wishes");
        }
        if wish == Some(Wish::Drain) {
            self.stop.cancel();
        }
    }

    /// Waits while the worker must be quiet.
    #[cfg(feature = "redis")]
    pub(super) async fn served(&self) {
        // The sender lives as long as this value.
        let _ = self.wish.subscribe().wait_for(|wish| *wish != Some(Wish::Quiet)).await;
    }
}
