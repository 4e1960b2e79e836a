//! The secret by which ids of runs and nodes are derived: read from the store once, and then in memory. Must not be
//! logged.

use crate::engine::Engine;
use punctual_contract::{Error as BackendError, IdentityStore};
use punctual_domain::identity::IdentitySecret;

impl Engine {
    /// Another task had the id that was derived for a run or a node.
    pub fn count_identity_conflict(&self) {
        self.core.meters.identity_conflict();
    }

    /// The secret of the cluster. The first engine that asks makes it.
    ///
    /// # Errors
    /// A failing store, or a machine without randomness.
    pub async fn identity_secret(&self, store: &dyn IdentityStore) -> Result<IdentitySecret, BackendError> {
        let secret = self.core.callers.identity_secret.get_or_try_init(|| async {
            let mut bytes = [0; IdentitySecret::BYTES];
            getrandom::fill(&mut bytes)
                .map_err(|error| BackendError::did_not_happen("make the secret of ids", error.to_string()))?;
            store.identity_secret(IdentitySecret::new(bytes)).await
        });
        secret.await.copied()
    }
}
