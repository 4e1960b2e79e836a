//! The deletion of what a namespace holds, batch by batch: along the index of callers' ids; and of single finished tasks.

use super::{lanes::Lane, lease, ledger::Ledger, row, state::SqliteStore, statements::sql, workflows};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, NamespaceStore,
    namespaces::{DeleteTasks, DeletedTask, DeletedTasks, FinishedTask, TaskPosition},
    store::Applied,
};
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef},
    state::State,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// The number of workflows of one batch: each may have ten thousand rows.
const WORKFLOWS_MAX: i64 = 20;

#[async_trait]
impl NamespaceStore for SqliteStore {
    async fn delete_tasks_in(
        &self,
        _only_part: usize,
        asked: DeleteTasks,
    ) -> Result<DeletedTasks, CallError> {
        let rows = asked.limit;
        let work = move |conn: &Connection, ledger: &mut Ledger| forget(conn, ledger, &asked);
        self.maintaining("delete tasks of a namespace", rows, work).await
    }

    async fn delete_traces(&self, namespace: &Name, limit: usize) -> Result<usize, CallError> {
        let (name, most) = (namespace.clone(), most(limit));
        let work = move |conn: &Connection, _: &mut Ledger| {
            let delete = |text| conn.prepare_cached(text)?.execute(params![name.as_str(), most]);
            Ok(delete(sql!(namespaces, delete_executors))?
                + delete(sql!(namespaces, delete_setting_changes))?
                + delete(sql!(namespaces, delete_schedules))?
                + delete(sql!(namespaces, delete_bulk_failures))?
                + delete(sql!(namespaces, delete_bulks))?
                + delete(sql!(namespaces, delete_evaluations))?
                + workflows::forget_namespace(conn, name.as_str(), most.min(WORKFLOWS_MAX))?)
        };
        self.maintaining("delete traces of a namespace", limit, work).await
    }

    async fn namespaces_with_schedules(&self) -> Result<Vec<Name>, CallError> {
        let work = |conn: &Connection| {
            let mut next = conn.prepare_cached(sql!(namespaces, find_next_with_schedules))?;
            let mut found: Vec<Name> = Vec::new();
            loop {
                let behind = found.last().map_or("", Name::as_str);
                match next.query_row([behind], |row| row::name(row, 0)).optional()? {
                    Some(name) => found.push(name),
                    None => return Ok(found),
                }
            }
        };
        self.reading("list namespaces with schedules", Lane::Urgent, work).await
    }

    async fn delete_finished(&self, tasks: Vec<FinishedTask>) -> Result<Vec<Applied>, CallError> {
        let rows = tasks.len();
        let work = move |conn: &Connection, ledger: &mut Ledger| {
            tasks.iter().map(|task| delete_finished(conn, ledger, task)).collect()
        };
        self.writing("delete finished tasks", rows, work).await
    }
}

fn delete_finished(
    conn: &Connection,
    ledger: &mut Ledger,
    finished_task: &FinishedTask,
) -> rusqlite::Result<Applied> {
    if !finished_task.state.is_finished() {
        return Ok(Applied::Lost);
    }
    let asked = params![finished_task.place.id, finished_task.fence, finished_task.state.code()];
    let slot = |row: &Row<'_>| Ok(ledger.slot(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?));
    let slot = conn.prepare_cached(sql!(retention, delete_as_read))?.query_row(asked, slot).optional()?;
    let Some(slot) = slot else { return Ok(Applied::Lost) };
    conn.prepare_cached(sql!(insert, delete_body))?.execute([finished_task.place.id])?;
    // The bytes of what is over are in no account.
    let place = finished_task.place;
    ledger.deleted((place.partition, place.id), slot, finished_task.state, 0);
    Ok(Applied::Moved)
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

struct NamespaceRow {
    task: DeletedTask,
    position: TaskPosition,
    queue: String,
    state: State,
    /// The size of the payload.
    bytes: i64,
    is_asked_to_stop: bool,
}

fn found(row: &Row<'_>) -> rusqlite::Result<NamespaceRow> {
    let state = row::state(row, 6)?;
    let partition = Partition(row.get(1)?);
    let place = TaskRef { partition, due_at: row::millis(row, 2)?, id: row.get(0)? };
    Ok(NamespaceRow {
        task: DeletedTask { place, fence: row.get(7)?, was_in_flight: state.is_in_flight() },
        // There is one part, in one order.
        position: TaskPosition { partition: Partition(0), task_id: row.get(3)?, task_version: row.get(4)? },
        queue: row.get(5)?,
        state,
        bytes: row.get::<_, Option<i64>>(8)?.unwrap_or(0),
        is_asked_to_stop: row.get(9)?,
    })
}

fn forget(conn: &Connection, ledger: &mut Ledger, asked: &DeleteTasks) -> rusqlite::Result<DeletedTasks> {
    let namespace = asked.namespace.as_str();
    let replies = conn
        .prepare_cached(sql!(namespaces, delete_replies))?
        .execute(params![namespace, most(asked.limit)])?;
    let from = asked.from.unwrap_or_else(|| TaskPosition::beginning_of(Partition(0)));
    let page = params![namespace, from.task_id, from.task_version, most(asked.limit + 1)];
    let page: Vec<NamespaceRow> = conn
        .prepare_cached(sql!(namespaces, list_tasks))?
        .query_map(page, found)?
        .collect::<Result<_, _>>()?;
    let next = page.get(asked.limit).map(|found| found.position);
    let mut done = DeletedTasks { replies, next, ..DeletedTasks::default() };
    for found in page.into_iter().take(asked.limit) {
        if found.task.was_in_flight && !asked.in_flight {
            if !found.is_asked_to_stop {
                lease::request_stop(conn, found.task.place, asked.now)?;
            }
            done.in_flight.push(found.task.place);
            continue;
        }
        conn.prepare_cached(sql!(namespaces, delete_task))?.execute([found.task.place.id])?;
        conn.prepare_cached(sql!(insert, delete_body))?.execute([found.task.place.id])?;
        let slot = ledger.slot(namespace, &found.queue);
        let place = found.task.place;
        ledger.deleted((place.partition, place.id), slot, found.state, found.bytes);
        done.deleted.push(found.task);
    }
    Ok(done)
}
