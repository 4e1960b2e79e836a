//! The secret from which ids of tasks are derived. Durable, the same for every engine of a cluster; does not
//! know its use.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::identity::IdentitySecret;
use std::fmt;

/// Promises:
/// - **One.** The first secret that was ever offered stays, even if several engines offer one at the same
///   time.
/// - **Durable.** `Ok` means committed, and synced to the medium.
#[async_trait]
pub trait IdentityStore: Send + Sync + fmt::Debug + 'static {
    /// Returns the secret; stores and returns `offered` if there is none yet.
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error>;
}
