//! Who calls this engine: by which token, with what in the audit, and which of them run tasks. Holds what is known of them; the
//! rules stand in the modules of its fields.

use crate::{access::state::Access, audit::state::Audit, executors::state::Roster};
use punctual_domain::{access::SecretHash, identity::IdentitySecret};
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(crate) struct Callers {
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    /// Of executors.
    pub(crate) roster: Roster,
    /// Keys the ids that are computed from what a caller says.
    pub(crate) identity_secret: OnceCell<IdentitySecret>,
}

impl Callers {
    pub(crate) fn new(admin_token: Option<SecretHash>) -> Self {
        Self {
            access: Access::new(admin_token),
            audit: Audit::default(),
            roster: Roster::default(),
            identity_secret: OnceCell::new(),
        }
    }
}
