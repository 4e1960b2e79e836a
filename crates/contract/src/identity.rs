//! The secret by which ids of tasks are derived. Durable, the same for every engine of a cluster; knows nothing of what it is used
//! for.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::identity::IdentitySecret;
use std::fmt;

/// Promises:
/// - **One.** The first secret that was ever offered stays, whoever offers another, also at the same time.
/// - **Durable.** `Ok` means committed, and synced to the medium.
#[async_trait]
pub trait IdentityStore: Send + Sync + fmt::Debug + 'static {
    /// The secret; `offered`, if there is none yet.
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error>;
}
