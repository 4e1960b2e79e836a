//! The names of a task that callers use. The module does not read the store.

use punctual_contract::hot::HotEntry;
use punctual_domain::{name::Name, task::NewTask};

/// One version of a task, as callers name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    namespace: Name,
    task_id: i64,
    task_version: i64,
}

impl Identity {
    pub(super) fn of(entry: &HotEntry) -> Self {
        let HotEntry { queue, task_id, task_version, .. } = entry;
        Self { namespace: queue.namespace.clone(), task_id: *task_id, task_version: *task_version }
    }

    /// The names by which an insert may find a task: one for an id, two for a key, otherwise none.
    /// `partitions`: of the store.
    pub(super) fn all_of(task: &NewTask, partitions: u16) -> impl Iterator<Item = Self> + use<> {
        let namespace = task.queue.namespace.clone();
        let [first, second] = match &task.key {
            Some(key) => key.ids(&namespace, partitions).map(Some),
            None => [task.task_id, None],
        };
        let task_version = task.task_version;
        let of = move |task_id| Self { namespace: namespace.clone(), task_id, task_version };
        first.into_iter().chain(second).map(of)
    }
}
