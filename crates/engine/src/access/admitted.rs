//! Admitted callers, for as long as they stay. A waiting call and a streamed answer end when their caller
//! would no longer be admitted. Waiting callers are woken when changed tokens are read, and when a secret
//! expires. One loop checks the expiries, so no waiter needs a timer.

use super::state::{Access, Identity, NO_TOKEN, UNKNOWN};
use punctual_domain::{access::SecretHash, time::Millis};
use std::sync::{Arc, atomic::Ordering::SeqCst};
use tokio::sync::watch;

/// An admitted caller, and what admitted it.
#[derive(Clone, Debug)]
pub struct Admitted(By);

#[derive(Clone, Debug)]
enum By {
    /// There were no tokens.
    NoToken,
    /// A token has two secrets for a while: the one that was sent may end before the other.
    Secret { of: Arc<Identity>, sent: SecretHash },
}

impl Admitted {
    /// Admitted because no token was required.
    #[must_use]
    pub const fn without_token() -> Self {
        Self(By::NoToken)
    }

    pub(super) const fn with(of: Arc<Identity>, sent: SecretHash) -> Self {
        Self(By::Secret { of, sent })
    }

    /// `None` if no token was required.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        match &self.0 {
            By::NoToken => None,
            By::Secret { of, .. } => Some(of),
        }
    }
}

/// Wakes the waiters when the admitted tokens change.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) sender: watch::Sender<()>,
    /// Waiters were notified of all secrets that expired up to this instant.
    reported_until: std::sync::atomic::AtomicI64,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self { sender: watch::Sender::new(()), reported_until: i64::MIN.into() }
    }

    pub(super) fn notify(&self) {
        self.sender.send_replace(());
    }
}

impl Access {
    /// Returns `None` if the caller would be admitted now. Costs a look-up.
    pub(super) fn refusal(&self, admitted: &Admitted, now: Millis) -> Option<&'static str> {
        match &admitted.0 {
            By::NoToken => self.is_required(now).then_some(NO_TOKEN),
            By::Secret { of, sent } => {
                let id = of.id.as_ref()?;
                let found = self.known.read().tokens.get(id.as_str()).map(Arc::clone);
                found.map_or(Some(UNKNOWN), |identity| identity.refusal(sent, now))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn changes_seen(&self) -> watch::Receiver<()> {
        self.changes.sender.subscribe()
    }

    /// Notifies the waiters if a secret has expired since the last call.
    pub(super) fn report_expired(&self, now: Millis) {
        let since = self.changes.reported_until.swap(now.0, SeqCst);
        let has_ended = |at: Millis| since < at.0 && at <= now;
        // If the clock steps back, an expired secret is valid again. No caller waits for that.
        let ends = |identity: &Arc<Identity>| {
            let token = identity.token.as_ref();
            let previous = token.and_then(|token| token.previous.as_ref()).map(|previous| previous.until);
            [identity.expires_at(), previous].into_iter().flatten().any(has_ended)
        };
        let known = self.known();
        if known.required_at.is_some_and(has_ended) || known.tokens.values().any(ends) {
            self.changes.notify();
        }
    }
}
