//! The settings as this engine knows them: read at every step, replaced whole when they have changed. The store has the
//! truth; what is here may be behind it by as long as a look takes, and no promise of a setting rests on it alone.

use hashbrown::HashMap;
use parking_lot::RwLock;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::{QueueSettings, ScopeSettings},
};
use std::sync::Arc;

/// All that is set, as of one revision.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) revision: i64,
    pub(crate) everything: ScopeSettings,
    pub(crate) namespaces: HashMap<Name, ScopeSettings>,
    pub(crate) queues: HashMap<QueueKey, Arc<QueueSettings>>,
}

#[derive(Debug, Default)]
pub(crate) struct Settings {
    known: RwLock<Arc<Known>>,
    /// What a queue has that nothing was set for.
    default: Arc<QueueSettings>,
}

impl Settings {
    pub(crate) fn queue(&self, queue: &QueueKey) -> Arc<QueueSettings> {
        Arc::clone(self.known.read().queues.get(queue).unwrap_or(&self.default))
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read())
    }

    /// Unless something newer is known.
    pub(crate) fn replace(&self, known: Known) {
        let mut it = self.known.write();
        if it.revision <= known.revision {
            *it = Arc::new(known);
        }
    }
}
