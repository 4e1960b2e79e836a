//! A task to insert on its way to its writer, the row that it becomes, and what all writers of a store share. Must not read or
//! write a database.

use crate::{
    created::created,
    mysql::{ids::Ids, late_commits::LateCommits, lookup::Entries, pauses::Pauses},
};
use punctual_contract::store::Inserted;
use punctual_domain::{
    insert::Decision,
    place::{Partition, TaskRef, partition_of},
    task::{ENGINE_TASK_ID_BASE, NewTask, Task},
    time::Millis,
};
use std::sync::Arc;

/// A task to insert on its way, with the ids and the time that it was given.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: i64,
    pub(crate) partition: Partition,
    /// The caller's, the first of its key, or the one that belongs to `id`.
    pub(super) task_id: i64,
    /// The second of its key.
    pub(super) second_id: Option<i64>,
    pub(super) task: NewTask,
    pub(super) by: Arc<str>,
    pub(super) now: Millis,
}

impl Ask {
    pub(crate) fn new(id: i64, task: NewTask, by: Arc<str>, now: Millis, partitions: u16) -> Self {
        let of_key = task.key.as_ref().map(|key| key.ids(&task.queue.namespace, partitions));
        let given = || task.task_id.unwrap_or_else(|| given_task_id(id));
        let task_id = of_key.map_or_else(given, |[first, _]| first);
        let second_id = of_key.map(|[_, second]| second);
        let partition = partition_of(&task.queue.namespace, task_id, partitions);
        Self { id, partition, task_id, second_id, task, by, now }
    }

    pub(crate) fn due_at(&self) -> Millis {
        self.task.execute_at.max(self.now)
    }

    pub(crate) const fn task(&self) -> &NewTask {
        &self.task
    }

    pub(crate) fn namespace(&self) -> &str {
        self.task.queue.namespace.as_str()
    }
}

/// The task id that belongs to a row id.
pub(super) const fn given_task_id(id: i64) -> i64 {
    ENGINE_TASK_ID_BASE.saturating_add(id)
}

/// The result of an insert.
#[derive(Debug)]
pub(crate) enum InsertedRow {
    /// Stored under these.
    Created {
        id: i64,
        task_id: i64,
    },
    Stands(Decision, Box<Task>),
}

impl InsertedRow {
    /// The answer to a caller.
    pub(crate) fn reported(self, ask: Ask) -> Inserted {
        match self {
            Self::Created { id, task_id } => {
                let place = TaskRef { partition: ask.partition, due_at: ask.due_at(), id };
                created(place, task_id, ask.task, (&ask.by, ask.now))
            }
            Self::Stands(decision, task) => Inserted { decision, task: *task },
        }
    }
}

/// The state that all writers of a store share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) partitions: u16,
    pub(crate) ids: Ids,
    pub(crate) late: Arc<LateCommits>,
}

/// The place where an insert is stored, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// The index of the row in the batch.
    pub(super) nth: usize,
    pub(super) ask: &'a Ask,
    pub(super) id: i64,
    pub(super) task_id: i64,
}

impl<'a> Row<'a> {
    pub(super) fn place(&self) -> TaskRef {
        TaskRef { partition: self.ask.partition, due_at: self.ask.due_at(), id: self.id }
    }

    /// Adds the entries of the task's lookups, as this database declares them.
    pub(super) fn entered(&self, entries: &mut Entries, pauses: &Pauses, place: TaskRef) {
        let task = &self.ask.task;
        if !task.labels.is_empty() {
            entries.labels(place, self.ask.namespace(), pauses.labels_of(&task.queue), &task.labels);
        }
    }

    /// The order of the registry: the caller that inserts the same at once, locks in the same order.
    pub(super) fn key(&self) -> (Partition, &'a str, i64, i64) {
        (self.ask.partition, self.ask.namespace(), self.task_id, self.ask.task.task_version)
    }
}
