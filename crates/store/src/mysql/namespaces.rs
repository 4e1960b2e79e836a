//! The deletion of what a namespace holds, batch by batch: through the registry, which has each task of a namespace in one
//! range of each partition; and of single finished tasks. What is between its bucket and the account (`buckets::cleanup`) is left to who settles it there.

use super::{
    calls::{CHUNK_ROWS, answered, push, spread},
    executors,
    job::{Job, JobKind, RefusedJob},
    lease,
    ledger::Ledger,
    line::WriterKind,
    moves::long_bytes,
    parameters::Rows,
    place, row,
    state::MysqlStore,
    statements::sql,
    workflows,
};
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
use sqlx::{MySqlConnection, Row as _};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// The number of workflows of one batch: each may have ten thousand rows.
const WORKFLOWS_MAX: usize = 20;

#[async_trait]
impl NamespaceStore for MysqlStore {
    async fn delete_tasks_in(&self, part: usize, asked: DeleteTasks) -> Result<DeletedTasks, CallError> {
        const DOING: &str = "delete tasks of a namespace";
        // Where inserts wait: leases and outcomes are not held up.
        let line = self
            .inner
            .members()
            .get(part)
            .and_then(|member| member.lines.get(WriterKind::Bulk as usize)?.first());
        let (caller, answer) = oneshot::channel();
        push(line, Job::new(DOING, JobKind::Forget(asked, caller)));
        match answered(DOING, answer).await {
            Ok(deleted) => Ok(deleted),
            Err(RefusedJob::Failed(error)) => Err(error),
            // It writes only where it may, so there is no such answer.
            Err(RefusedJob::Elsewhere((), _)) => Ok(DeletedTasks::default()),
        }
    }

    async fn delete_traces(&self, namespace: &Name, limit: usize) -> Result<usize, CallError> {
        let catalog = || self.inner.catalog.clone();
        let deleted = executors::forget_namespace(catalog(), namespace.clone(), limit).await?;
        let with_nodes = limit.min(WORKFLOWS_MAX);
        Ok(deleted + workflows::forget_namespace(catalog(), namespace.clone(), with_nodes).await?)
    }

    async fn delete_finished(&self, tasks: Vec<FinishedTask>) -> Result<Vec<Applied>, CallError> {
        let asked = ("delete finished tasks", WriterKind::Bulk, CHUNK_ROWS);
        spread(&self.inner, asked, tasks, |finished_task| finished_task.place.partition, JobKind::Delete)
            .await
            .all()
    }

    async fn namespaces_with_schedules(&self) -> Result<Vec<Name>, CallError> {
        executors::scheduling(self.inner.catalog.clone()).await
    }
}

/// One batch, in the partitions that are open here.
pub(crate) async fn forget(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    open: &BTreeSet<Partition>,
    asked: &DeleteTasks,
) -> sqlx::Result<DeletedTasks> {
    let most = i64::try_from(asked.limit).unwrap_or(i64::MAX);
    let replies = sqlx::query(sql!(namespaces, delete_replies)).bind(asked.namespace.as_str()).bind(most);
    let replies = replies.execute(&mut *conn).await?.rows_affected();
    let (places, next) = page(conn, open, asked).await?;
    let mut done =
        DeletedTasks { replies: usize::try_from(replies).unwrap_or(usize::MAX), next, ..Default::default() };
    let mut rows = Rows::default();
    for spotted in place::find(conn, sql!(retention, lock_expired), &places).await?.rows.into_iter().flatten()
    {
        let state: State = row::state(&spotted.row, 4)?;
        if state.is_in_flight() && !asked.in_flight {
            let is_asked_to_stop: bool = spotted.row.try_get(9)?;
            if !is_asked_to_stop {
                lease::stop(conn, spotted.place, asked.now).await?;
            }
            done.in_flight.push(spotted.place);
            continue;
        }
        rows.row(spotted.place);
        let bytes = match spotted.row.try_get(8)? {
            Some(bytes) => bytes,
            None if state.is_pending() => long_bytes(conn, spotted.place).await?,
            None => 0,
        };
        let names = (asked.namespace.as_str(), spotted.row.try_get(3)?);
        ledger.moved(names, Some(state), None, bytes);
        ledger.deleted(spotted.place.partition, 1);
        done.deleted.push(DeletedTask {
            place: spotted.place,
            fence: spotted.row.try_get(5)?,
            was_in_flight: state.is_in_flight(),
        });
    }
    if rows.len() > 0 {
        sqlx::query(sql!(namespaces, delete_tasks)).bind(rows.json()).execute(conn).await?;
    }
    Ok(done)
}

/// Returns the results in the order of the request.
pub(crate) async fn delete_finished(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    asked: &[FinishedTask],
) -> sqlx::Result<Vec<Applied>> {
    let places: Vec<TaskRef> = asked.iter().map(|finished_task| finished_task.place).collect();
    let (mut rows, mut gone) = (Rows::default(), BTreeSet::new());
    let mut answers = Vec::with_capacity(asked.len());
    for (asked, spotted) in
        asked.iter().zip(place::find(conn, sql!(retention, lock_expired), &places).await?.rows)
    {
        let Some(spotted) = spotted else {
            answers.push(Applied::Lost);
            continue;
        };
        let state: State = row::state(&spotted.row, 4)?;
        let existing = (state, spotted.row.try_get::<i64, _>(5)?) == (asked.state, asked.fence);
        // Named twice, it is deleted once.
        if !existing || !state.is_finished() || !gone.insert(spotted.place.id) {
            answers.push(Applied::Lost);
            continue;
        }
        rows.row(spotted.place);
        // The bytes of what is over are in no account.
        ledger.moved((spotted.row.try_get(2)?, spotted.row.try_get(3)?), Some(state), None, 0);
        ledger.deleted(spotted.place.partition, 1);
        answers.push(Applied::Moved);
    }
    if rows.len() > 0 {
        sqlx::query(sql!(namespaces, delete_tasks)).bind(rows.json()).execute(conn).await?;
    }
    Ok(answers)
}

/// The references of the next tasks, and where the page after them begins.
async fn page(
    conn: &mut MySqlConnection,
    open: &BTreeSet<Partition>,
    asked: &DeleteTasks,
) -> sqlx::Result<(Vec<TaskRef>, Option<TaskPosition>)> {
    let mut places = Vec::new();
    let first = asked.from.map_or(Partition(0), |position| position.partition);
    for partition in open.range(first..).copied() {
        let left = asked.limit - places.len();
        let from = asked.from.filter(|position| position.partition == partition);
        let from = from.unwrap_or_else(|| TaskPosition::beginning_of(partition));
        let look = sqlx::query(sql!(namespaces, list_tasks)).bind(row::partition_no(partition));
        let look = look.bind(asked.namespace.as_str()).bind(from.task_id).bind(from.task_id);
        let look = look.bind(from.task_version).bind(i64::try_from(left + 1).unwrap_or(i64::MAX));
        for (nth, row) in look.fetch_all(&mut *conn).await?.iter().enumerate() {
            if nth == left {
                let next =
                    TaskPosition { partition, task_id: row.try_get(0)?, task_version: row.try_get(1)? };
                return Ok((places, Some(next)));
            }
            places.push(TaskRef { partition, due_at: row::millis(row, 3)?, id: row.try_get(2)? });
        }
    }
    Ok((places, None))
}
