//! The insert job. What happens to a task that is there already is decided by `domain::insert`, inside the
//! transaction that inserts.

mod create;
mod given;
mod replace;

use super::{
    density::Density,
    ids::Ids,
    leased::Leased,
    ledger::Ledger,
    query::{self, Hold},
    row, statements as sql,
};
use punctual_contract::store::Inserted;
use punctual_domain::{
    insert::{Decision, Existing, decide},
    place::{Partition, TaskRef, partition_of},
    task::{ENGINE_TASK_ID_BASE, NewTask, Task},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::HashMap, fmt::Write as _, sync::Arc};

/// A wish on its way, with what it was given at the door.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: i64,
    pub(crate) partition: Partition,
    /// The caller's, or the one that belongs to `id`.
    task_id: i64,
    task: NewTask,
    by: Arc<str>,
    now: Millis,
}

impl Ask {
    pub(crate) fn new(id: i64, task: NewTask, by: Arc<str>, now: Millis, partitions: u16) -> Self {
        let task_id = task.task_id.unwrap_or_else(|| given_task_id(id));
        let partition = partition_of(&task.queue.namespace, task_id, partitions);
        Self { id, partition, task_id, task, by, now }
    }

    fn due_at(&self) -> Millis {
        self.task.execute_at.max(self.now)
    }

    fn namespace(&self) -> &str {
        self.task.queue.namespace.as_str()
    }
}

/// The task id that belongs to a row id.
const fn given_task_id(id: i64) -> i64 {
    ENGINE_TASK_ID_BASE.saturating_add(id)
}

/// What became of an ask.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Stored under these.
    Created {
        id: i64,
        task_id: i64,
    },
    Stands(Decision, Box<Task>),
}

impl Fate {
    /// The answer to a caller.
    pub(crate) fn told(self, ask: Ask) -> Inserted {
        match self {
            Self::Created { id, task_id } => create::told(ask, id, task_id),
            Self::Stands(decision, task) => Inserted { decision, task: *task },
        }
    }
}

/// What all writers of a store share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) partitions: u16,
    pub(crate) ids: Ids,
    pub(crate) leased: Leased,
    pub(crate) density: Density,
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

    /// The order of the registry: whoever inserts the same at once, locks in the same order.
    fn key(&self) -> (Partition, &'a str, i64, i64) {
        (self.ask.partition, self.ask.namespace(), self.task_id, self.ask.task.task_version)
    }
}

/// In the order of what was asked. `RowNotFound`: another transaction was faster; to be run again.
pub(crate) async fn insert(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    context: &Context,
    asks: &[&Ask],
) -> sqlx::Result<Vec<Fate>> {
    let numbered = asks.iter().enumerate();
    let mut rows: Vec<Row<'_>> =
        numbered.map(|(nth, it)| Row { nth, ask: it, id: it.id, task_id: it.task_id }).collect();
    given::pass_over_taken(conn, context, &mut rows).await?;
    let mut fates: Vec<(usize, Fate)> = Vec::with_capacity(asks.len());
    for round in rounds(&rows) {
        fates.extend(one_round(conn, ledger, round).await?);
    }
    fates.sort_unstable_by_key(|it| it.0);
    Ok(fates.into_iter().map(|it| it.1).collect())
}

/// Rows of one id stand in different rounds, in their order: versions in one batch see each other.
fn rounds<'a>(rows: &[Row<'a>]) -> Vec<Vec<Row<'a>>> {
    let mut rounds: Vec<Vec<Row<'_>>> = vec![Vec::with_capacity(rows.len())];
    let mut times: HashMap<(&str, i64), usize> = HashMap::new();
    for it in rows {
        let mut round = 0;
        // The engine's ids differ from each other and from all that stands.
        if it.ask.task.task_id.is_some() {
            let times = times.entry((it.ask.namespace(), it.task_id)).or_default();
            round = *times;
            *times += 1;
        }
        match rounds.get_mut(round) {
            Some(of) => of.push(*it),
            None => rounds.push(vec![*it]),
        }
    }
    rounds
}

async fn one_round(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    mut rows: Vec<Row<'_>>,
) -> sqlx::Result<Vec<(usize, Fate)>> {
    rows.sort_unstable_by_key(Row::key);
    let mut standing = standing(conn, &rows).await?;
    let (mut created, mut replaced, mut fates) = (Vec::new(), Vec::new(), Vec::with_capacity(rows.len()));
    for it in rows {
        let stands = standing.remove(&it.nth);
        match (decided(&it, stands.as_ref()), stands) {
            (Decision::Create, _) | (_, None) => created.push(it),
            (Decision::Replace, Some(task)) => replaced.push((it, task)),
            (decision, Some(task)) => fates.push((it.nth, Fate::Stands(decision, Box::new(task)))),
        }
    }
    create::create(conn, ledger, &created).await?;
    fates.extend(created.iter().map(|it| (it.nth, Fate::Created { id: it.id, task_id: it.task_id })));
    for (row, task) in replace::replace(conn, ledger, replaced).await? {
        fates.push((row.nth, Fate::Stands(Decision::Replace, Box::new(task))));
    }
    Ok(fates)
}

fn decided(row: &Row<'_>, stands: Option<&Task>) -> Decision {
    let version = row.ask.task.task_version;
    let highest_version = stands.map(|it| it.ask.task_version);
    let same_version = stands.filter(|it| it.ask.task_version == version).map(|it| it.state);
    decide(version, Existing { same_version, highest_version })
}

/// The highest version that stands under each caller's id, unless it is lower than the one that is asked for: then
/// it makes no difference. Locked.
async fn standing(conn: &mut MySqlConnection, rows: &[Row<'_>]) -> sqlx::Result<HashMap<usize, Task>> {
    let mut highest: HashMap<usize, (i64, TaskRef)> = HashMap::new();
    let callers: Vec<Row<'_>> = rows.iter().filter(|it| it.ask.task.task_id.is_some()).copied().collect();
    let mut namespaces: Vec<&str> = callers.iter().map(|it| it.ask.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    for namespace in namespaces {
        let of: Vec<_> = callers.iter().filter(|it| it.ask.namespace() == namespace).copied().collect();
        let look = sqlx::query(sql::WANTED).bind(wanted(&of)).bind(namespace);
        for it in look.fetch_all(&mut *conn).await? {
            let (nth, version) = (row::small::<u32>(&it, 0)? as usize, it.try_get(1)?);
            let Some(row) = of.iter().find(|it| it.nth == nth) else { continue };
            let due_at = row::millis(&it, 3)?;
            let place = TaskRef { partition: row.ask.partition, due_at, id: it.try_get(2)? };
            let known = highest.entry(nth).or_insert((version, place));
            if known.0 < version {
                *known = (version, place);
            }
        }
    }
    whole(conn, highest.into_iter().map(|(nth, (_, place))| (nth, place)).collect()).await
}

/// The tasks themselves, locked. One that has gone or moved since the registry was read is found when the
/// transaction is run again.
async fn whole(
    conn: &mut MySqlConnection,
    mut places: Vec<(usize, TaskRef)>,
) -> sqlx::Result<HashMap<usize, Task>> {
    if places.is_empty() {
        return Ok(HashMap::new());
    }
    places.sort_unstable_by_key(|it| it.1);
    let refs: Vec<TaskRef> = places.iter().map(|it| it.1).collect();
    let tasks = query::read(conn, &refs, Hold::Locked).await?;
    let found =
        places.iter().zip(tasks).map(|((nth, _), task)| Ok((*nth, task.ok_or(sqlx::Error::RowNotFound)?)));
    found.collect()
}

/// Rows as one parameter: `[[number in the batch, partition, task_id, task_version], ...]`.
fn wanted(rows: &[Row<'_>]) -> String {
    let mut json = String::with_capacity(rows.len() * 40 + 2);
    for it in rows {
        let comma = if json.is_empty() { '[' } else { ',' };
        let (Partition(partition), _, task_id, version) = it.key();
        let _ = write!(json, "{comma}[{},{partition},{task_id},{version}]", it.nth);
    }
    json.push(']');
    json
}
