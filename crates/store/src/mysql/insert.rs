//! The insert job. What happens to a task that is there already is decided by `domain::insert`, inside the
//! transaction that inserts.

mod between;
mod create;
mod existing;
mod given;
mod replace;

use self::existing::Standing;
use super::{ids::Ids, late_commits::LateCommits, ledger::Ledger, lookup::Entries, pauses::Pauses};
use punctual_contract::store::Inserted;
use punctual_domain::{
    insert::{Decision, Existing, decide},
    place::{Partition, TaskRef, partition_of},
    task::{ENGINE_TASK_ID_BASE, NewTask, Task},
    time::Millis,
};
use sqlx::MySqlConnection;
use std::{collections::HashMap, sync::Arc};

/// A wish on its way, with what it was given at the door.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: i64,
    pub(crate) partition: Partition,
    /// The caller's, the first of its key, or the one that belongs to `id`.
    task_id: i64,
    /// The second of its key.
    second_id: Option<i64>,
    task: NewTask,
    by: Arc<str>,
    now: Millis,
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
const fn given_task_id(id: i64) -> i64 {
    ENGINE_TASK_ID_BASE.saturating_add(id)
}

/// What became of an ask.
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
            Self::Created { id, task_id } => create::reported(ask, id, task_id),
            Self::Stands(decision, task) => Inserted { decision, task: *task },
        }
    }
}

/// What all writers of a store share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) partitions: u16,
    pub(crate) ids: Ids,
    pub(crate) late: Arc<LateCommits>,
}

/// Where an ask is stored, if it is.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    /// Its number in the batch.
    nth: usize,
    ask: &'a Ask,
    id: i64,
    task_id: i64,
}

impl<'a> Row<'a> {
    fn place(&self) -> TaskRef {
        TaskRef { partition: self.ask.partition, due_at: self.ask.due_at(), id: self.id }
    }

    /// Where it is looked up besides, as this database enters it.
    fn entered(&self, entries: &mut Entries, pauses: &Pauses, place: TaskRef) {
        let task = &self.ask.task;
        if !task.labels.is_empty() {
            entries.labels(place, self.ask.namespace(), pauses.labels_of(&task.queue), &task.labels);
        }
    }

    /// The order of the registry: the caller that inserts the same at once, locks in the same order.
    fn key(&self) -> (Partition, &'a str, i64, i64) {
        (self.ask.partition, self.ask.namespace(), self.task_id, self.ask.task.task_version)
    }
}

/// In the order of what was asked. `RowNotFound`: another transaction was faster; to be run again.
pub(crate) async fn insert(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    (context, pauses): (&Context, &Pauses),
    asks: &[&Ask],
) -> sqlx::Result<Vec<InsertedRow>> {
    let numbered = asks.iter().enumerate();
    let mut rows: Vec<Row<'_>> =
        numbered.map(|(nth, ask)| Row { nth, ask, id: ask.id, task_id: ask.task_id }).collect();
    given::pass_over_taken(conn, context, &mut rows).await?;
    let mut insert_results: Vec<(usize, InsertedRow)> = Vec::with_capacity(asks.len());
    for round in rounds(&rows) {
        insert_results.extend(one_round(conn, ledger, pauses, round).await?);
    }
    insert_results.sort_unstable_by_key(|insert_result| insert_result.0);
    Ok(insert_results.into_iter().map(|insert_result| insert_result.1).collect())
}

/// Rows of one id stand in different rounds, in their order: versions in one batch see each other.
fn rounds<'a>(rows: &[Row<'a>]) -> Vec<Vec<Row<'a>>> {
    let mut rounds: Vec<Vec<Row<'_>>> = vec![Vec::with_capacity(rows.len())];
    let mut times: HashMap<(&str, i64), usize> = HashMap::new();
    for row in rows {
        let mut round = 0;
        // The engine's ids differ from each other and from all that stands.
        if !row.ask.task.is_anonymous() {
            let times = times.entry((row.ask.namespace(), row.task_id)).or_default();
            round = *times;
            *times += 1;
        }
        match rounds.get_mut(round) {
            Some(of) => of.push(*row),
            None => rounds.push(vec![*row]),
        }
    }
    rounds
}

async fn one_round(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    pauses: &Pauses,
    mut rows: Vec<Row<'_>>,
) -> sqlx::Result<Vec<(usize, InsertedRow)>> {
    rows.sort_unstable_by_key(Row::key);
    let mut existing = existing::existing(conn, &rows).await?;
    let (mut created, mut replaced, mut insert_results) =
        (Vec::new(), Vec::new(), Vec::with_capacity(rows.len()));
    for mut row in rows {
        let Standing { task_id, task: stored } = existing.remove(&row.nth).unwrap_or_default();
        row.task_id = task_id.unwrap_or(row.task_id);
        match (decided(&row, stored.as_ref()), stored) {
            (Decision::Create, _) | (_, None) => created.push(row),
            (Decision::Replace, Some(task)) => replaced.push((row, task)),
            (decision, Some(task)) => {
                insert_results.push((row.nth, InsertedRow::Stands(decision, Box::new(task))))
            }
        }
    }
    create::create(conn, ledger, pauses, &created).await?;
    insert_results.extend(
        created.iter().map(|row| (row.nth, InsertedRow::Created { id: row.id, task_id: row.task_id })),
    );
    for (row, task) in replace::replace(conn, ledger, pauses, replaced).await? {
        insert_results.push((row.nth, InsertedRow::Stands(Decision::Replace, Box::new(task))));
    }
    Ok(insert_results)
}

fn decided(row: &Row<'_>, stored: Option<&Task>) -> Decision {
    if stored.is_some_and(|task| task.ask.key != row.ask.task.key) {
        return Decision::Exists;
    }
    let version = row.ask.task.task_version;
    let highest_version = stored.map(|task| task.ask.task_version);
    let same_version = stored.filter(|task| task.ask.task_version == version).map(|task| task.state);
    row.ask.task.on_conflict.on(decide(version, Existing { same_version, highest_version }))
}
