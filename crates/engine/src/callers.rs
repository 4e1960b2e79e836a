//! Callers of this engine: their tokens, their audit entries, and which of them are executors. Holds state only; the rules are
//! in the modules of its fields.

use crate::{access::state::Access, audit::state::Audit, executors::state::ExecutorRegistry};
use punctual_domain::{access::SecretHash, identity::IdentitySecret};
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(crate) struct Callers {
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    /// The registered executors.
    pub(crate) executor_registry: ExecutorRegistry,
    /// The key of the ids that are computed from callers' input.
    pub(crate) identity_secret: OnceCell<IdentitySecret>,
}

impl Callers {
    pub(crate) fn new(admin_token: Option<SecretHash>) -> Self {
        Self {
            access: Access::new(admin_token),
            audit: Audit::default(),
            executor_registry: ExecutorRegistry::default(),
            identity_secret: OnceCell::new(),
        }
    }
}
