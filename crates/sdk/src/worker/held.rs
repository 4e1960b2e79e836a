//! The leases in this worker's hands, from the lease to the receipt of the outcome. Heartbeats extend exactly these.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::task::Control;

/// A lease; dropped when its outcome has its receipt.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) reference: String,
    pub(crate) token: String,
    pub(crate) control: Control,
    /// The task is no longer ours.
    pub(crate) lost: CancellationToken,
    /// The end of the lease by this worker's monotonic clock, so that the server's wall clock may differ.
    until: Mutex<Instant>,
}

impl Lease {
    pub(crate) fn extend(&self, lease_ms: u64) {
        *lock(&self.until) = Instant::now() + Duration::from_millis(lease_ms);
    }

    /// The time since the lease ended, unless the server has received a heartbeat since; zero while it lasts.
    pub(crate) fn ended_for(&self) -> Duration {
        Instant::now().saturating_duration_since(*lock(&self.until))
    }
}

#[derive(Debug, Default)]
pub(crate) struct HeldLeases {
    // By a number of our own: the same task can be leased again while an attempt that was lost still winds down.
    leases: Mutex<HashMap<u64, Arc<Lease>>>,
    next: AtomicU64,
}

/// Keeps a lease among the held ones.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) lease: Arc<Lease>,
    pub(crate) number: u64,
}

impl HeldLeases {
    pub(crate) fn hold(&self, reference: String, token: String, lease_ms: u64) -> Holding {
        let until = Mutex::new(Instant::now() + Duration::from_millis(lease_ms));
        let (control, lost) = (Control::default(), CancellationToken::new());
        let lease = Arc::new(Lease { reference, token, control, lost, until });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.leases).insert(number, lease.clone());
        Holding { lease, number }
    }

    pub(crate) fn release(&self, holding: &Holding) {
        lock(&self.leases).remove(&holding.number);
    }

    /// The leases that this worker still holds as far as is known.
    pub(crate) fn alive(&self) -> Vec<Arc<Lease>> {
        lock(&self.leases).values().filter(|lease| !lease.lost.is_cancelled()).cloned().collect()
    }

    #[cfg(feature = "redis")]
    pub(crate) fn has(&self, reference: &str, token: &str) -> bool {
        lock(&self.leases).values().any(|lease| lease.reference == reference && lease.token == token)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.leases).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one of these is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
