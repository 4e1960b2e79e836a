//! Authentication in one engine: all tokens are held in memory, so a request costs one hash and one look-up. The
//! engine reads the store a few times a second. While the store is unavailable, the known tokens stay valid. The
//! module must not depend on a request.

mod admitted;
pub(crate) mod state;
pub mod tokens;

pub use admitted::Admitted;
pub use state::{Identified, Identity};

use crate::{
    agenda::{self, state::Topic},
    answer::Error,
    core::Core,
    engine::Engine,
};
use punctual_contract::Error as BackendError;
use punctual_domain::{access::TokenId, time::Millis};
use std::{
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, SeqCst},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The engine checks for changed tokens this often. A revocation takes effect at every engine within a
/// second.
pub(crate) const PERIOD: Duration = Duration::from_millis(300);
/// The period in which the last uses of tokens are written.
const USED_PERIOD_MS: i64 = 60_000;
/// The minimum period between two queries for unknown tokens. All callers with unknown tokens share one query, so bad
/// tokens cost the store at most twenty queries a second.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Reads the tokens if they changed, and from time to time writes when they were last used. Returns the
/// number of reads.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, BackendError> {
    core.agendas.distrust(Topic::Access);
    run_when_changed(core).await
}

/// The same, and reads no tokens if they did not change by the agenda.
pub(crate) async fn run_when_changed(core: &Arc<Core>) -> Result<usize, BackendError> {
    // This precedes the store, which may be unavailable: tokens expire without it.
    core.callers.access.report_expired(core.now());
    let read = if agenda::has_nothing(core, Topic::Access) { 0 } else { look(core).await? };
    let (now, written_at) = (core.now(), core.callers.access.used_written_at.load(Relaxed));
    if now.since(Millis(written_at)).abs() >= USED_PERIOD_MS {
        core.callers.access.used_written_at.store(now.0, Relaxed);
        note_used(core).await?;
    }
    Ok(read)
}

async fn look(core: &Arc<Core>) -> Result<usize, BackendError> {
    let revision = core.store.access_revision().await?;
    if core.callers.access.is_current(revision) {
        return Ok(0);
    }
    core.callers.access.replace(core.store.tokens().await?);
    Ok(1)
}

/// Writes the last uses that the store does not know.
pub(crate) async fn note_used(core: &Arc<Core>) -> Result<(), BackendError> {
    let known = core.callers.access.known();
    let used = known.tokens.values().filter_map(|identity| {
        let token = identity.token.as_ref()?;
        let at = Some(Millis(identity.used_at.load(Relaxed))).filter(|at| at.0 > 0);
        at.filter(|at| token.used_at.is_none_or(|known| known < *at)).map(|at| (token.id.clone(), at))
    });
    let used: Vec<(TokenId, Millis)> = used.collect();
    if used.is_empty() { Ok(()) } else { core.store.note_tokens_used(used).await }
}

impl Engine {
    /// Identifies the caller by the token that it sent. Costs a hash and a look-up, and never waits.
    #[must_use]
    pub fn identify(&self, sent: Option<&str>) -> Identified {
        self.core.callers.access.identify(sent, self.core.now())
    }

    /// True if callers need a token, as far as this engine knows. The engine knows once [`Engine::access_is_known`]
    /// has answered.
    #[must_use]
    pub fn access_is_required(&self) -> bool {
        self.core.callers.access.is_required(self.core.now())
    }

    /// Returns immediately if the tokens were read since the start. Until then, no caller is admitted.
    ///
    /// # Errors
    /// A failing store.
    pub async fn access_is_known(&self) -> Result<(), Error> {
        if self.core.callers.access.is_loaded.load(SeqCst) {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(look(&core).await.map(drop)?) }).await
    }

    /// Reads tokens that other engines have just created. Callers that arrive during a read share it. A caller that
    /// arrives right after one causes no other.
    ///
    /// # Errors
    /// A failing store.
    pub async fn look_for_tokens(&self) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        self.run(async move {
            let came_at = Instant::now();
            let mut looked_at = core.callers.access.looked_at.lock().await;
            if looked_at.is_some_and(|looked_at| looked_at >= came_at || looked_at.elapsed() < LOOK_PERIOD) {
                return Ok(());
            }
            *looked_at = Some(Instant::now());
            look(&core).await?;
            Ok(())
        })
        .await
    }

    /// The reason why this caller would be refused now, as far as this engine knows. `None` if it would be admitted.
    /// Costs a look-up.
    #[must_use]
    pub fn refusal_of(&self, admitted: &Admitted) -> Option<&'static str> {
        self.core.callers.access.refusal(admitted, self.core.now())
    }

    /// Waits until this caller would be refused, and returns the reason. A revocation thus takes effect
    /// within a second.
    pub async fn until_refused(&self, admitted: &Admitted) -> &'static str {
        let mut changes = self.core.callers.access.changes.sender.subscribe();
        loop {
            if let Some(reason) = self.refusal_of(admitted) {
                return reason;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits like `until_refused`, for the token that a caller sent, or for a caller without a token.
    pub async fn until_not_identified(&self, sent: Option<&str>) {
        let admitted = match self.identify(sent) {
            Identified::As(admitted) => admitted,
            Identified::Anyone => Admitted::without_token(),
            Identified::Refused(_) => return,
        };
        self.until_refused(&admitted).await;
    }
}
