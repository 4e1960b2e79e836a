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

    /// Nothing is set for the queue, or for anything that it is a part of.
    pub(crate) fn is_plain(&self, queue: &QueueKey) -> bool {
        let known = self.known.read();
        let is_free = |it: &ScopeSettings| it.concurrency.is_none();
        !known.queues.contains_key(queue)
            && is_free(&known.everything)
            && known.namespaces.get(&queue.namespace).is_none_or(is_free)
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
