//! The leases that a queue's deliveries hold. Must not send anything.

use crate::source::{HeldLease, LeaseState};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A lease of the dispatcher itself. Its heartbeats come three times within it.
pub(crate) const LEASE_MS: i64 = 30_000;

#[derive(Debug)]
struct Held {
    token: String,
    /// The receiver has answered 202: its lease is extended separately.
    is_accepted: bool,
    given_up: CancellationToken,
}

#[derive(Debug, Default)]
pub(crate) struct HeldLeases {
    leases: Mutex<HashMap<String, Held>>,
    freed: Notify,
}

impl HeldLeases {
    /// Returns the signal that the delivery is to be given up.
    pub(crate) fn add(&self, r#ref: &str, token: &str) -> CancellationToken {
        let given_up = CancellationToken::new();
        let held = Held { token: token.to_owned(), is_accepted: false, given_up: given_up.clone() };
        self.leases.lock().insert(r#ref.to_owned(), held);
        given_up
    }

    pub(crate) fn accepted(&self, r#ref: &str) {
        if let Some(held) = self.leases.lock().get_mut(r#ref) {
            held.is_accepted = true;
        }
    }

    /// The delivery is over. A later attempt of the same task keeps its lease.
    pub(crate) fn remove(&self, r#ref: &str, token: &str) {
        let mut leases = self.leases.lock();
        if leases.get(r#ref).is_some_and(|held| held.token == token) {
            leases.remove(r#ref);
        }
        drop(leases);
        self.freed.notify_one();
    }

    pub(crate) fn count(&self) -> usize {
        self.leases.lock().len()
    }

    /// Waits until a delivery has ended since the last call.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// The leases for which heartbeats are due.
    pub(crate) fn beating(&self) -> Vec<HeldLease> {
        let leases = self.leases.lock();
        let beating = leases.iter().filter(|(_, held)| !held.is_accepted);
        let lease = |(r#ref, held): (&String, &Held)| HeldLease {
            r#ref: r#ref.clone(),
            token: held.token.clone(),
            lease_ms: LEASE_MS,
        };
        beating.map(lease).collect()
    }

    pub(crate) fn beaten(&self, beaten: &[HeldLease], states: Vec<LeaseState>) {
        let leases = self.leases.lock();
        for (lease, state) in beaten.iter().zip(states) {
            let held = leases.get(&lease.r#ref).filter(|held| held.token == lease.token);
            if matches!(state, LeaseState::Lost | LeaseState::CancelRequested)
                && let Some(held) = held
            {
                held.given_up.cancel();
            }
        }
    }
}
