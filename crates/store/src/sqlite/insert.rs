//! The insert job. What happens to a task that is there already is decided by `domain::insert`, inside the
//! transaction that inserts.

use super::{
    ledger::{Ledger, Slot},
    moves::Moves,
    row,
    statements::sql,
};
use crate::{Error, created::created, extras};
use punctual_contract::store::Inserted;
use punctual_domain::{
    history::{self, Note},
    insert::{Decision, Existing, decide},
    place::{Partition, TaskRef, partition_of},
    state::State,
    task::{ENGINE_TASK_ID_BASE, NewTask},
    time::Millis,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

/// The data that all tasks of one call share.
pub(crate) struct InsertContext<'a> {
    pub(crate) partitions: u16,
    pub(crate) by: &'a str,
    pub(crate) now: Millis,
}

/// The highest version under an id.
struct Standing {
    id: i64,
    version: i64,
    state: State,
    /// It has another key, or the one has a key and the other none.
    is_anothers: bool,
}

fn decided(ask: &NewTask, existing: Option<&Standing>) -> Decision {
    let same_version =
        existing.filter(|existing| existing.version == ask.task_version).map(|existing| existing.state);
    let highest_version = existing.map(|existing| existing.version);
    ask.on_conflict.on(decide(ask.task_version, Existing { same_version, highest_version }))
}

pub(crate) fn insert(
    conn: &Connection,
    ledger: &mut Ledger,
    context: &InsertContext<'_>,
    tasks: Vec<NewTask>,
) -> rusqlite::Result<Vec<Inserted>> {
    are_in_time(conn, &tasks)?;
    let mut insert = Insert::prepare(conn, context)?;
    tasks.into_iter().map(|task| insert.one(ledger, task)).collect()
}

/// What follows it, up to the commit, is on the same thread and waits for nothing but the disk; no other process has this store.
fn are_in_time(conn: &Connection, tasks: &[NewTask]) -> rusqlite::Result<()> {
    let Some(earliest) = tasks.iter().filter_map(|task| task.insert_by).min() else { return Ok(()) };
    let now_ms: i64 = conn.prepare_cached(sql!(insert, read_clock))?.query_row([], |row| row.get(0))?;
    let is_late = now_ms > earliest.0;
    if is_late { Err(rusqlite::Error::ToSqlConversionFailure(Box::new(Error::InsertOver))) } else { Ok(()) }
}

struct Insert<'a> {
    conn: &'a Connection,
    context: &'a InsertContext<'a>,
    existing: CachedStatement<'a>,
    task: CachedStatement<'a>,
    /// The first history line of tasks that are due at an instant: batches often share it.
    line: Option<(Millis, String)>,
}

impl<'a> Insert<'a> {
    fn prepare(conn: &'a Connection, context: &'a InsertContext<'a>) -> rusqlite::Result<Self> {
        let existing = conn.prepare_cached(sql!(insert, find_highest_version))?;
        let task = conn.prepare_cached(sql!(insert, insert_task))?;
        Ok(Self { conn, context, existing, task, line: None })
    }

    fn one(&mut self, ledger: &mut Ledger, ask: NewTask) -> rusqlite::Result<Inserted> {
        if ask.is_anonymous() {
            let (id, task_id) = self.free_id(ledger, &ask)?;
            return self.create(ledger, id, task_id, ask);
        }
        let (task_id, existing) = self.identified(&ask)?;
        let decision = match &existing {
            Some(existing) if existing.is_anothers => Decision::Exists,
            _ => decided(&ask, existing.as_ref()),
        };
        match (decision, existing) {
            (Decision::Create, _) | (_, None) => {
                let id = ledger.next_id();
                self.create(ledger, id, task_id, ask)
            }
            (Decision::Replace, Some(existing)) => self.replace(ledger, existing.id, &ask),
            (Decision::ReturnExisting | Decision::Superseded | Decision::Exists, Some(existing)) => {
                self.stored(decision, existing.id)
            }
        }
    }

    /// The id that a task has by its own id or key, and what is stored there.
    fn identified(&mut self, ask: &NewTask) -> rusqlite::Result<(i64, Option<Standing>)> {
        let Some(key) = &ask.key else {
            let task_id = ask.task_id.unwrap_or_default();
            return Ok((task_id, self.existing(ask, task_id)?));
        };
        let [first, second] = key.ids(&ask.queue.namespace, self.context.partitions);
        match (self.existing(ask, first)?, self.existing(ask, second)?) {
            (Some(existing), _) if !existing.is_anothers => Ok((first, Some(existing))),
            (_, Some(existing)) if !existing.is_anothers => Ok((second, Some(existing))),
            (None, _) => Ok((first, None)),
            (_, existing) => Ok((second, existing)),
        }
    }

    fn existing(&mut self, ask: &NewTask, task_id: i64) -> rusqlite::Result<Option<Standing>> {
        let key = params![ask.queue.namespace.as_str(), task_id];
        let existing = |row: &rusqlite::Row<'_>| {
            let is_anothers = row::key(row, 3)? != ask.key;
            Ok(Standing { id: row.get(0)?, version: row.get(1)?, state: row::state(row, 2)?, is_anothers })
        };
        self.existing.query_row(key, existing).optional()
    }

    /// A row id and the task id that belongs to it; one that a caller has taken is passed over.
    fn free_id(&mut self, ledger: &mut Ledger, ask: &NewTask) -> rusqlite::Result<(i64, i64)> {
        loop {
            let id = ledger.next_id();
            let task_id = ENGINE_TASK_ID_BASE.saturating_add(id);
            if self.existing(ask, task_id)?.is_none() {
                return Ok((id, task_id));
            }
        }
    }

    fn create(
        &mut self,
        ledger: &mut Ledger,
        id: i64,
        task_id: i64,
        ask: NewTask,
    ) -> rusqlite::Result<Inserted> {
        let due_at = ask.execute_at.max(self.context.now);
        let partition = partition_of(&ask.queue.namespace, task_id, self.context.partitions);
        let place = TaskRef { partition, due_at, id };
        self.store(place, task_id, &ask)?;
        if row::inline(&ask.payload).is_none() {
            self.conn.prepare_cached(sql!(insert, insert_body))?.execute(params![id, ask.payload.bytes])?;
        }
        let slot = slot(ledger, &ask);
        ledger.enter_chunk(slot, &ask.kind, id);
        ledger.accepted((partition, id), slot, row::size(&ask.payload));
        Ok(created(place, task_id, ask, (self.context.by, self.context.now)))
    }

    fn store(&mut self, place: TaskRef, task_id: i64, ask: &NewTask) -> rusqlite::Result<()> {
        let InsertContext { by, now, .. } = self.context;
        let (Partition(partition), due_at) = (place.partition, place.due_at);
        let line = match &mut self.line {
            Some((of, line)) if *of == due_at => line,
            line => &mut line.insert((due_at, first_line(by, *now, due_at))).1,
        };
        self.task.execute(params![
            place.id,
            partition,
            ask.queue.namespace.as_str(),
            task_id,
            ask.task_version,
            ask.queue.queue.as_str(),
            ask.kind.as_str(),
            ask.priority.level(),
            ask.max_attempts,
            ask.execute_at.0,
            due_at.0,
            now.0,
            ask.timeout_ms,
            ask.deadline_ms,
            row::retry_text(&ask.retry),
            row::labels_text(&ask.labels),
            ask.traceparent,
            ask.payload.code(),
            row::inline(&ask.payload),
            line.as_str(),
            extras::text(ask),
        ])?;
        Ok(())
    }

    fn replace(&mut self, ledger: &mut Ledger, id: i64, ask: &NewTask) -> rusqlite::Result<Inserted> {
        let due_at = ask.execute_at.max(self.context.now);
        let note = Note { by: self.context.by.to_owned(), due_at: Some(due_at), ..Note::default() };
        let mut moves = Moves::prepare(self.conn, self.context.now)?;
        let moved = moves.replace(ledger, id, ask, &note)?;
        assert!(moved, "decide() and the table agree on what may be replaced");
        self.stored(Decision::Replace, id)
    }

    fn stored(&self, decision: Decision, id: i64) -> rusqlite::Result<Inserted> {
        let task = self.conn.prepare_cached(sql!(query, read_task))?.query_row([id], row::whole_task)?;
        Ok(Inserted { decision, task })
    }
}

pub(crate) fn slot(ledger: &mut Ledger, ask: &NewTask) -> Slot {
    ledger.slot(ask.queue.namespace.as_str(), ask.queue.queue.as_str())
}

fn first_line(by: &str, now: Millis, due_at: Millis) -> String {
    let note = Note { by: by.to_owned(), due_at: Some(due_at), ..Note::default() };
    let line = history::line(now, None, &note);
    format!("{}{},0{}", line.head, State::Scheduled.code(), line.tail)
}
