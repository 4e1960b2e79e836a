//! The last count of waiting tasks, the inserts since then, and whether a cap has room by both. Counts
//! nothing itself.

use crate::{quota::state::TooFast, settings::LoadedSettings};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::store::Books;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::Scope,
    state::State,
    task::{Content, NewTask},
};
use tokio::time::Instant;

/// Why a task is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    pub scope: Scope,
    /// The number of waiting tasks as of the last count, with the inserts since then.
    pub waiting: u64,
    pub max_waiting: u64,
}

/// Why a payload is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyBytes {
    pub scope: Scope,
    /// Bytes of waiting tasks, as of the last count, with the inserts since then.
    pub bytes: u64,
    pub max_payload_bytes: u64,
}

/// Why a namespace accepts no new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// All that it holds is being deleted.
    Deleting,
    /// It was not made, and namespaces must be.
    Unknown,
}

/// Why an insert is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Closed(Closed),
    TooFast(TooFast),
    Full(Full),
    TooManyBytes(TooManyBytes),
}

/// Why a waiting task may not be moved into another queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRefused {
    Full(Full),
    /// It demands versions of its handler, and any subscriber of a queue that is pushed may get any message.
    Versions(String),
}

impl std::fmt::Display for QueueRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(full) => {
                write!(f, "the queue is full: {} of {} tasks wait", full.waiting, full.max_waiting)
            }
            Self::Versions(versions) => {
                write!(f, "demands handler_versions {versions:?}, and the queue is pushed over the bus")
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Caps {
    pub(super) counts: Mutex<CapCounts>,
    pub(super) counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct CapCounts {
    pub(super) counted_at: Option<Instant>,
    /// The last count failed: a database is unavailable.
    pub(super) is_old: bool,
    everything: u64,
    namespaces: HashMap<Name, u64>,
    queues: HashMap<QueueKey, u64>,
    all_bytes: u64,
    bytes: HashMap<Name, u64>,
}

/// True if a task in this state has not been delivered.
pub(crate) fn is_waiting(state: State) -> bool {
    state.is_pending()
}

pub(super) fn bytes_of(payload: &Content) -> u64 {
    u64::try_from(payload.size()).unwrap_or(u64::MAX)
}

impl CapCounts {
    pub(super) fn of(books: &Books) -> Self {
        let mut counts = Self { counted_at: Some(Instant::now()), ..Self::default() };
        for tally in books.tallies.iter().filter(|tally| is_waiting(tally.state)) {
            let tasks = u64::try_from(tally.tasks).unwrap_or(0);
            counts.everything += tasks;
            *counts.namespaces.entry(tally.queue.namespace.clone()).or_default() += tasks;
            *counts.queues.entry(tally.queue.clone()).or_default() += tasks;
        }
        for pending_bytes in &books.pending_bytes {
            // Negative where tasks were inserted before bytes were counted, until an engine has counted them.
            counts.add_bytes(&pending_bytes.queue.namespace, u64::try_from(pending_bytes.bytes).unwrap_or(0));
        }
        counts
    }

    /// The narrowest scope that has no room for this many more bytes.
    pub(super) fn too_many_bytes(
        &self,
        known: &LoadedSettings,
        namespace: &Name,
        more: u64,
    ) -> Option<TooManyBytes> {
        let of_namespace = known.namespaces.get(namespace).and_then(|namespace| namespace.max_payload_bytes);
        let in_namespace = self.bytes.get(namespace).copied().unwrap_or(0);
        let scopes = [
            (of_namespace, in_namespace, Scope::Namespace(namespace.clone())),
            (known.everything.max_payload_bytes, self.all_bytes, Scope::Everything),
        ];
        let full = |(max, bytes, scope): (Option<u64>, u64, Scope)| {
            let max_payload_bytes = max.filter(|max| bytes.saturating_add(more) > *max)?;
            Some(TooManyBytes { scope, bytes, max_payload_bytes })
        };
        scopes.into_iter().find_map(full)
    }

    pub(super) fn add_bytes(&mut self, namespace: &Name, more: u64) {
        self.all_bytes = self.all_bytes.saturating_add(more);
        let of_namespace = self.bytes.entry(namespace.clone()).or_default();
        *of_namespace = of_namespace.saturating_add(more);
    }

    /// Reserves room for a task, or returns why there is none.
    pub(super) fn let_in(&mut self, known: &LoadedSettings, task: &NewTask) -> Option<Refused> {
        let (queue, bytes) = (&task.queue, bytes_of(&task.payload));
        let refused = self.full(known, queue).map(Refused::Full);
        let refused = refused
            .or_else(|| self.too_many_bytes(known, &queue.namespace, bytes).map(Refused::TooManyBytes));
        if refused.is_none() {
            self.add(queue);
            self.add_bytes(&queue.namespace, bytes);
        }
        refused
    }

    /// Room in the queue alone: of its namespace, and of everything, the task is one already.
    pub(super) fn let_into(
        &mut self,
        known: &LoadedSettings,
        from: &QueueKey,
        to: &QueueKey,
    ) -> Option<Full> {
        let waiting = self.queues.get(to).copied().unwrap_or(0);
        let max = known.queues.get(to).and_then(|queue| queue.max_waiting);
        if let Some(max_waiting) = max.filter(|max| waiting >= *max) {
            return Some(Full { scope: Scope::Queue(to.clone()), waiting, max_waiting });
        }
        *self.queues.entry(to.clone()).or_default() += 1;
        let left = self.queues.entry(from.clone()).or_default();
        *left = left.saturating_sub(1);
        None
    }

    /// The narrowest scope that has no room for one more.
    fn full(&self, known: &LoadedSettings, queue: &QueueKey) -> Option<Full> {
        let in_queue = known.queues.get(queue).and_then(|queue| queue.max_waiting);
        let in_namespace = known.namespaces.get(&queue.namespace).and_then(|namespace| namespace.max_waiting);
        let of_queue = self.queues.get(queue).copied().unwrap_or(0);
        let of_namespace = self.namespaces.get(&queue.namespace).copied().unwrap_or(0);
        let scopes = [
            (in_queue, of_queue, Scope::Queue(queue.clone())),
            (in_namespace, of_namespace, Scope::Namespace(queue.namespace.clone())),
            (known.everything.max_waiting, self.everything, Scope::Everything),
        ];
        let full = |(max, waiting, scope): (Option<u64>, u64, Scope)| {
            max.filter(|max| waiting >= *max).map(|max_waiting| Full { scope, waiting, max_waiting })
        };
        scopes.into_iter().find_map(full)
    }

    fn add(&mut self, queue: &QueueKey) {
        self.everything += 1;
        *self.namespaces.entry(queue.namespace.clone()).or_default() += 1;
        *self.queues.entry(queue.clone()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        settings::{QueueSettings, ScopeSettings},
        time::Millis,
    };
    use std::sync::Arc;

    #[test]
    fn the_narrowest_full_scope_is_named_and_what_is_let_in_counts() {
        let name = |namespace: &str| Name::new(namespace).unwrap();
        let queue = |text: &str| QueueKey { namespace: name("eu"), queue: name(text) };
        let capped = QueueSettings { max_waiting: Some(2), ..QueueSettings::default() };
        let mut known = LoadedSettings {
            everything: ScopeSettings { max_waiting: Some(4), ..ScopeSettings::default() },
            ..LoadedSettings::default()
        };
        known.queues.insert(queue("mail"), Arc::new(capped));
        let mut counts = CapCounts::default();
        let mut let_in = |text: &str| {
            let full = counts.full(&known, &queue(text));
            if full.is_none() {
                counts.add(&queue(text));
            }
            full.map(|full| (full.scope, full.waiting))
        };
        assert_eq!((let_in("mail"), let_in("mail")), (None, None));
        assert_eq!(let_in("mail"), Some((Scope::Queue(queue("mail")), 2)));
        assert_eq!((let_in("sms"), let_in("sms")), (None, None));
        assert_eq!(let_in("sms"), Some((Scope::Everything, 4)));
    }

    #[test]
    fn a_task_that_changes_its_queue_needs_room_there_alone_and_leaves_room_behind() {
        let name = |text: &str| Name::new(text).unwrap();
        let queue = |text: &str| QueueKey { namespace: name("eu"), queue: name(text) };
        let capped = |max| Arc::new(QueueSettings { max_waiting: Some(max), ..QueueSettings::default() });
        let mut known = LoadedSettings {
            everything: ScopeSettings { max_waiting: Some(3), ..ScopeSettings::default() },
            ..LoadedSettings::default()
        };
        known.queues.insert(queue("mail"), capped(3));
        known.queues.insert(queue("sms"), capped(1));
        let mut counts = CapCounts::default();
        (0..3).for_each(|_| counts.add(&queue("mail")));
        assert_eq!(
            counts.let_into(&known, &queue("mail"), &queue("sms")),
            None,
            "everything is full, and stays so"
        );
        let full = counts.let_into(&known, &queue("mail"), &queue("sms")).unwrap();
        assert_eq!((full.scope, full.waiting, full.max_waiting), (Scope::Queue(queue("sms")), 1, 1));
        assert_eq!((counts.queues[&queue("mail")], counts.everything), (2, 3));
    }

    #[test]
    fn payloads_are_let_in_up_to_the_bytes_that_are_allowed_and_short_ones_where_long_ones_are_not() {
        let name = |text: &str| Name::new(text).unwrap();
        let capped = |max| ScopeSettings { max_payload_bytes: Some(max), ..ScopeSettings::default() };
        let mut known = LoadedSettings { everything: capped(100), ..LoadedSettings::default() };
        known.namespaces.insert(name("eu"), capped(10));
        let mut counts = CapCounts::default();
        let mut let_in = |namespace: &str, bytes: usize| {
            let queue = QueueKey { namespace: name(namespace), queue: name("mail") };
            let payload = Content::binary(vec![0; bytes]);
            let task = NewTask { payload, ..NewTask::new(queue, name("send"), Millis(0)) };
            match counts.let_in(&known, &task) {
                None => None,
                Some(Refused::TooManyBytes(too_many_bytes)) => {
                    Some((too_many_bytes.scope, too_many_bytes.bytes))
                }
                Some(other) => panic!("{other:?}"),
            }
        };
        assert_eq!((let_in("eu", 4), let_in("eu", 5)), (None, None));
        assert_eq!(let_in("eu", 2), Some((Scope::Namespace(name("eu")), 9)));
        assert_eq!((let_in("eu", 1), let_in("eu", 0)), (None, None), "exactly full, and nothing more");
        assert_eq!((let_in("us", 90), let_in("us", 1)), (None, Some((Scope::Everything, 100))));
    }
}
