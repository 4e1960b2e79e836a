//! The settings as this engine knows them: read at every step, replaced entirely when they have changed. The store
//! has the truth; this copy may lag behind it by one polling interval, and no promise of a setting depends on it
//! alone.

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use punctual_contract::settings;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::{Deletion, QueueSettings, Scope, ScopeSettings, Setting},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::sync::Notify;

/// All that is set, as of one revision.
#[derive(Debug, Default)]
pub(crate) struct LoadedSettings {
    pub(crate) revision: i64,
    pub(crate) everything: ScopeSettings,
    pub(crate) namespaces: HashMap<Name, ScopeSettings>,
    pub(crate) queues: HashMap<QueueKey, Arc<QueueSettings>>,
    pub(crate) keeps_successes: bool,
    /// Some queue hands over while its database is unavailable.
    pub(crate) hands_over: bool,
    /// Queues whose due tasks are scanned for in the store.
    pub(crate) scanned: Vec<Arc<QueueKey>>,
}

#[derive(Debug, Default)]
pub(crate) struct Settings {
    known: RwLock<Arc<LoadedSettings>>,
    /// The settings of a queue without settings of its own.
    default: Arc<QueueSettings>,
    is_loaded: AtomicBool,
    /// Queues that the store reported as paused before this engine knew: nothing is tried there until the next poll
    /// of the settings.
    refused: Mutex<HashSet<QueueKey>>,
    /// Services that do nothing unless something is set are asked to run when anything has changed.
    pub(crate) changed: SettingsChanged,
}

/// One for each such service: what is notified while it runs is not lost.
#[derive(Debug, Default)]
pub(crate) struct SettingsChanged {
    pub(crate) push: Notify,
    pub(crate) scan: Notify,
    pub(crate) deletion: Notify,
}

impl LoadedSettings {
    /// Somewhere the number of waiting tasks, or the bytes of their payloads, are bounded.
    pub(crate) fn has_caps(&self) -> bool {
        self.caps_bytes()
            || self.everything.max_waiting.is_some()
            || self.namespaces.values().any(|namespace| namespace.max_waiting.is_some())
            || self.queues.values().any(|queue| queue.max_waiting.is_some())
    }

    pub(crate) fn caps_bytes(&self) -> bool {
        self.everything.max_payload_bytes.is_some()
            || self.namespaces.values().any(|namespace| namespace.max_payload_bytes.is_some())
    }

    /// `None` if the namespace is not being deleted.
    pub(crate) fn deletion(&self, namespace: &Name) -> Option<&Deletion> {
        self.namespaces.get(namespace)?.deletion.as_deref()
    }

    pub(crate) fn of(settings: settings::Settings) -> Self {
        let mut known = Self { revision: settings.revision, ..Self::default() };
        for standing in settings.all {
            match (standing.scope, standing.setting) {
                (Scope::Everything, Setting::Scope(each_settings)) => known.everything = each_settings,
                (Scope::Namespace(namespace), Setting::Scope(each_settings)) => {
                    known.namespaces.insert(namespace, each_settings);
                }
                (Scope::Queue(queue), Setting::Queue(each_settings)) => {
                    known.keeps_successes |= each_settings.keep.succeeded_ms.is_some();
                    known.hands_over |= each_settings.hands_over_while_away();
                    known.scanned.extend(each_settings.is_scanned().then(|| Arc::new(queue.clone())));
                    known.queues.insert(queue, Arc::new(*each_settings));
                }
                (scope, _) => {
                    let scope = match scope {
                        Scope::Everything => "everything".to_owned(),
                        Scope::Namespace(namespace) => namespace.to_string(),
                        Scope::Queue(QueueKey { namespace, queue }) => format!("{namespace}/{queue}"),
                    };
                    tracing::error!(scope, "settings of another kind of scope");
                }
            }
        }
        known.scanned.sort_unstable();
        known
    }

    pub(crate) fn is_scanned(&self, queue: &QueueKey) -> bool {
        !self.scanned.is_empty() && self.queues.get(queue).is_some_and(|settings| settings.is_scanned())
    }
}

impl Settings {
    pub(crate) fn queue(&self, queue: &QueueKey) -> Arc<QueueSettings> {
        Arc::clone(self.known.read().queues.get(queue).unwrap_or(&self.default))
    }

    /// True if no setting limits or orders the starts of the queue, neither its own nor one of a wider scope.
    pub(crate) fn is_plain(&self, queue: &QueueKey) -> bool {
        if !self.is_loaded() || self.refused.lock().contains(queue) {
            return false;
        }
        let known = self.known.read();
        known.queues.get(queue).is_none_or(|settings| settings.lets_all_start())
            && known.everything.lets_all_start()
            && known.namespaces.get(&queue.namespace).is_none_or(ScopeSettings::lets_all_start)
    }

    /// True if any queue has another retention of its successes than the engine's default: only then does the engine
    /// need to know the queue of a success.
    pub(crate) fn keeps_successes(&self) -> bool {
        self.known.read().keeps_successes
    }

    /// True if the queue's due tasks are scanned in the store, and none of them is loaded into the hot set.
    pub(crate) fn is_scanned(&self, queue: &QueueKey) -> bool {
        self.known.read().is_scanned(queue)
    }

    pub(crate) fn known(&self) -> Arc<LoadedSettings> {
        Arc::clone(&self.known.read())
    }

    /// Unless something newer is known.
    pub(crate) fn replace(&self, known: LoadedSettings) {
        let mut this_known = self.known.write();
        if this_known.revision <= known.revision {
            *this_known = Arc::new(known);
        }
        drop(this_known);
        self.is_loaded.store(true, SeqCst);
        let SettingsChanged { push, scan, deletion } = &self.changed;
        [push, scan, deletion].into_iter().for_each(Notify::notify_one);
    }

    /// True once the settings are known. Until then nothing may be handed over.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded.load(SeqCst)
    }

    /// True if none of the queue's tasks may be tried now.
    pub(crate) fn is_paused(&self, queue: &QueueKey) -> bool {
        let known = self.known.read();
        let is_set = known.queues.get(queue).is_some_and(|queue| queue.pause.is_some());
        let is_going = known.deletion(&queue.namespace).is_some();
        drop(known);
        is_set || is_going || self.refused.lock().contains(queue)
    }

    /// All that the namespace holds is being deleted.
    pub(crate) fn is_deleting(&self, namespace: &Name) -> bool {
        self.known.read().deletion(namespace).is_some()
    }

    /// The store refused to hand over its tasks.
    pub(crate) fn refused(&self, queue: &QueueKey) {
        self.refused.lock().insert(queue.clone());
    }

    pub(crate) fn try_again(&self) {
        self.refused.lock().clear();
    }
}
