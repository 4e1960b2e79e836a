//! Schedules and their runs, in the catalog. What is decided on a step is compared with it under a lock, in the transaction
//! that makes the change; the runs of an advance are in it.

use super::{
    background::to_its_end,
    ids::counted_by,
    ownership::statement::{Statement, apart},
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{WRITE, within},
};
use crate::{Error, rows, runs};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use punctual_contract::{
    Error as CallError, Happened, IdentityStore, ScheduleStore,
    schedules::{
        Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey,
        StoredSchedule, TakesBack,
    },
    store::Applied,
};
use punctual_domain::{identity::IdentitySecret, name::Name, schedule::Outcome, time::Millis};
use serde_json::json;
use sqlx::{Connection as _, MySqlConnection, Row as _};
use std::{collections::HashSet, sync::Arc};

const REVISION: &str = "schedules_revision";
/// Schedules of one transaction, and runs of one statement.
const ROWS_MAX: usize = 500;

#[async_trait]
impl IdentityStore for MysqlStore {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, CallError> {
        self.changing("keep the secret of ids", move |tx| Box::pin(secret(tx, offered))).await
    }
}

#[async_trait]
impl ScheduleStore for MysqlStore {
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, CallError> {
        let key = key.clone();
        let work =
            |inner: Arc<MySqlState>| async move { one(&mut *inner.catalog.acquire().await?, &key).await };
        self.reading("read a schedule", work).await
    }

    async fn schedules(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, CallError> {
        let (namespace, after) = (namespace.clone(), after.to_owned());
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(schedules, list)).bind(namespace.as_str()).bind(after);
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::schedule).collect::<sqlx::Result<_>>()
        };
        self.reading("list schedules", work).await
    }

    async fn save_schedule(
        &self,
        save_schedule: SaveSchedule,
        now: Millis,
    ) -> Result<Option<StoredSchedule>, CallError> {
        self.changing("save a schedule", move |tx| Box::pin(save(tx, save_schedule, now))).await
    }

    async fn remove_schedule(&self, id: i64, step: i64) -> Result<Applied, CallError> {
        let catalog = self.inner.catalog.clone();
        // Sent twice, the second finds nothing: then it is looked at again by the caller that asked.
        apart("forget a schedule", Happened::Maybe, async move {
            let remove = Statement::new(sql!(schedules, delete)).int(id).int(step);
            Ok(if remove.execute(&catalog).await? == 0 { Applied::Lost } else { Applied::Moved })
        })
        .await
    }

    async fn due_schedules(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(schedules, list_due)).bind(now.0).bind(i64::from(slots));
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::schedule).collect::<sqlx::Result<_>>()
        };
        self.reading("look for due schedules", work).await
    }

    async fn next_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let next = sqlx::query(sql!(schedules, find_next_wake));
            let next = next.fetch_optional(&mut *inner.catalog.acquire().await?).await?;
            next.map(|row| row::millis(&row, 0)).transpose()
        };
        self.reading("look for the next schedule", work).await
    }

    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, CallError> {
        let mut answers = Vec::with_capacity(all.len());
        for some in all.chunks(ROWS_MAX) {
            let some = some.to_vec();
            let work = self.changing("move schedules on", move |tx| Box::pin(advance(tx, some, now)));
            answers.extend(work.await?);
        }
        Ok(answers)
    }

    async fn record_runs(&self, all: Vec<RecordRun>) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("settle runs", Happened::Maybe, async move {
            for some in all.chunks(ROWS_MAX) {
                let one = |RecordRun { key, task_ref, note }: &RecordRun| {
                    json!([key.schedule, key.at.0, key.kind.code(), key.revision, task_ref, note])
                };
                let rows = runs::text(&some.iter().map(one).collect::<Vec<_>>());
                Statement::new(sql!(schedules, record_runs)).text(&rows).execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn unsettled_runs(
        &self,
        of: Option<OlderDocuments>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<(StoredSchedule, Run)>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let (schedule, revision) = (of.map(|older| older.schedule), of.map(|older| older.revision));
            let asked = sqlx::query(sql!(schedules, list_unsettled)).bind(before.0);
            let asked = asked.bind(schedule).bind(schedule).bind(revision).bind(most(limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter()
                .map(|row| Ok((rows::schedule(row)?, rows::run(row, COLUMNS)?)))
                .collect::<sqlx::Result<_>>()
        };
        self.reading("look for unsettled runs", work).await
    }

    async fn put_off_runs(&self, all: Vec<RunKey>, now: Millis) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("put runs off", Happened::Maybe, async move {
            for some in all.chunks(ROWS_MAX) {
                let put_off = Statement::new(sql!(schedules, postpone_runs)).text(&keys(some)).int(now.0);
                put_off.execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError> {
        let query = *query;
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(schedules, list_runs)).bind(query.schedule).bind(query.from.0);
            let asked = asked.bind(query.before.0).bind(most(runs::fetched(query.limit)));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            let all = rows.iter().map(|row| rows::run(row, 0)).collect::<sqlx::Result<_>>()?;
            Ok::<_, sqlx::Error>(runs::page(all, query.limit))
        };
        self.reading("read the runs of a schedule", work).await
    }

    async fn run_tasks(&self, all: Vec<RunKey>) -> Result<Vec<RunTask>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let mut refs = Vec::with_capacity(all.len());
            for some in all.chunks(ROWS_MAX) {
                let asked = sqlx::query(sql!(schedules, read_run_tasks)).bind(keys(some));
                let mut found = vec![RunTask::Unknown; some.len()];
                for rows in asked.fetch_all(&mut *inner.catalog.acquire().await?).await? {
                    // Counted from 1.
                    let nth = usize::try_from(rows.try_get::<i64, _>(0)? - 1).unwrap_or(usize::MAX);
                    if let Some(place) = found.get_mut(nth) {
                        *place = runs::task(Some(rows.try_get(1)?));
                    }
                }
                refs.extend(found);
            }
            Ok::<_, sqlx::Error>(refs)
        };
        self.reading("read which tasks runs have", work).await
    }

    async fn withdraw_runs(&self, all: Vec<RunKey>, outcome: Outcome, reason: &str) -> Result<(), CallError> {
        let (catalog, reason) = (self.inner.catalog.clone(), reason.to_owned());
        apart("withdraw runs", Happened::Maybe, async move {
            for some in all.chunks(ROWS_MAX) {
                let withdraw = Statement::new(sql!(schedules, withdraw_runs)).text(&keys(some));
                withdraw.int(i64::from(outcome.code())).text(&reason).execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn forget_runs(&self, created_before: Millis, limit: usize) -> Result<usize, CallError> {
        let catalog = self.inner.catalog.clone();
        apart("forget old runs", Happened::Maybe, async move {
            let forget =
                Statement::new(sql!(schedules, delete_old_runs)).int(created_before.0).int(most(limit));
            Ok(usize::try_from(forget.execute(&catalog).await?).unwrap_or(usize::MAX))
        })
        .await
    }
}

/// Columns of a schedule.
const COLUMNS: usize = 11;

fn keys(some: &[RunKey]) -> String {
    let one = |key: &RunKey| json!([key.schedule, key.at.0, key.kind.code(), key.revision]);
    runs::text(&some.iter().map(one).collect::<Vec<_>>())
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl MysqlStore {
    /// One transaction in the catalog, in a task of its own: a caller that hangs up does not leave one open.
    pub(super) async fn changing<T, F>(&self, doing: &'static str, work: F) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut MySqlConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        let changed = to_its_end(change(Arc::clone(&self.inner), doing, work)).await;
        changed.map_err(|error| CallError::may_have_happened(doing, Error::Panicked(error.to_string())))?
    }
}

/// Why a transaction did not come to its end, and whether its commit was sent.
struct Broken {
    error: sqlx::Error,
    is_sent: bool,
}

/// Given up while it was under way.
impl From<sqlx::Error> for Broken {
    fn from(error: sqlx::Error) -> Self {
        Self { error, is_sent: true }
    }
}

fn unsent(error: sqlx::Error) -> Broken {
    Broken { error, is_sent: false }
}

async fn change<T: Send, F>(inner: Arc<MySqlState>, doing: &'static str, work: F) -> Result<T, CallError>
where
    F: for<'c> FnOnce(&'c mut MySqlConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send,
{
    let address = inner.address(0).map_err(|error| CallError::did_not_happen(doing, error))?;
    let done = within(WRITE, async {
        let mut catalog = inner.catalog.writers().acquire().await.map_err(unsent)?;
        let done = commit(&mut catalog, work).await;
        if done.is_err() {
            catalog.close_on_drop();
        }
        done
    });
    done.await.map_err(|Broken { error, is_sent }| match is_sent {
        true => CallError::may_have_happened(doing, address.failed(error)),
        false => CallError::did_not_happen(doing, address.failed(error)),
    })
}

async fn commit<T, F>(catalog: &mut MySqlConnection, work: F) -> Result<T, Broken>
where
    F: for<'c> FnOnce(&'c mut MySqlConnection) -> BoxFuture<'c, sqlx::Result<T>>,
{
    let mut tx = catalog.begin().await.map_err(unsent)?;
    let done = work(&mut tx).await.map_err(unsent)?;
    tx.commit().await?;
    Ok(done)
}

async fn secret(tx: &mut MySqlConnection, offered: IdentitySecret) -> sqlx::Result<IdentitySecret> {
    let offer = sqlx::query(sql!(schedules, offer_secret)).bind(offered.bytes().as_slice());
    offer.execute(&mut *tx).await?;
    let found = sqlx::query(sql!(schedules, read_secret)).fetch_one(&mut *tx).await?;
    let bytes: Vec<u8> = found.try_get(0)?;
    let bytes = bytes.try_into().map_err(|_| row::odd(0, "has another length"))?;
    Ok(IdentitySecret::new(bytes))
}

async fn one(catalog: &mut MySqlConnection, key: &ScheduleKey) -> sqlx::Result<Option<StoredSchedule>> {
    let asked = sqlx::query(sql!(schedules, read)).bind(key.namespace.as_str()).bind(key.name.as_str());
    asked.fetch_optional(catalog).await?.map(|row| rows::schedule(&row)).transpose()
}

async fn save(
    tx: &mut MySqlConnection,
    save: SaveSchedule,
    now: Millis,
) -> sqlx::Result<Option<StoredSchedule>> {
    // First: any other that saves waits here.
    let revision = counted_by(tx, REVISION, 1).await?;
    let (namespace, name) = (save.key.namespace.as_str(), save.key.name.as_str());
    let (body, progress) = (runs::text(&save.schedule), runs::text(&save.progress));
    let wake_at = save.wake_at.map(|wake_at| wake_at.0);
    let saved = match save.expected {
        None => {
            let create = sqlx::query(sql!(schedules, create)).bind(namespace).bind(name);
            let create = create.bind(i32::from(save.key.slot())).bind(revision).bind(body).bind(progress);
            create.bind(wake_at).bind(now.0).bind(now.0).bind(&save.by).execute(&mut *tx).await?
        }
        Some(step) => {
            let replace = sqlx::query(sql!(schedules, replace)).bind(revision).bind(body).bind(progress);
            let replace = replace.bind(wake_at).bind(now.0).bind(&save.by);
            replace.bind(namespace).bind(name).bind(step).execute(&mut *tx).await?
        }
    };
    if saved.rows_affected() == 0 { Ok(None) } else { one(tx, &save.key).await }
}

async fn advance(tx: &mut MySqlConnection, all: Vec<Advance>, now: Millis) -> sqlx::Result<Vec<Applied>> {
    let mut wanted: Vec<(i64, i64)> = all.iter().map(|advance| (advance.id, advance.step)).collect();
    // Another engine that moves the same at once locks in the same order.
    wanted.sort_unstable();
    let existing = sqlx::query(sql!(schedules, lock_steps)).bind(runs::text(&wanted));
    let existing = existing.fetch_all(&mut *tx).await?;
    let mut existing: HashSet<i64> =
        existing.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    // One that is named twice is moved once.
    let moved: Vec<(&Advance, bool)> =
        all.iter().map(|advance| (advance, existing.remove(&advance.id))).collect();
    let moving = || moved.iter().filter(|pair| pair.1).map(|pair| pair.0);
    let rows: Vec<_> = moving()
        .map(|advance| {
            json!([advance.id, runs::text(&advance.progress), advance.wake_at.map(|wake_at| wake_at.0)])
        })
        .collect();
    if !rows.is_empty() {
        sqlx::query(sql!(schedules, advance)).bind(runs::text(&rows)).execute(&mut *tx).await?;
    }
    for TakesBack { runs, reason } in moving().filter_map(|advance| advance.takes_back.as_ref()) {
        for some in runs.chunks(ROWS_MAX) {
            let withdraw = sqlx::query(sql!(schedules, withdraw_runs)).bind(keys(some));
            let withdraw = withdraw.bind(i32::from(Outcome::Cancelled.code())).bind(reason);
            withdraw.execute(&mut *tx).await?;
        }
    }
    let made = |advance: &Advance| -> Vec<serde_json::Value> {
        let id = advance.id;
        let one = |run: &punctual_contract::schedules::NewRun| {
            let (kind, outcome) = (run.kind.code(), run.outcome.code());
            let unsettled_at = runs::unsettled_at(run, now);
            let (at, execute_at) = (run.at.0, run.execute_at.0);
            json!([
                id,
                at,
                kind,
                run.revision,
                outcome,
                execute_at,
                run.number,
                run.reason,
                unsettled_at,
                now.0,
                run.version
            ])
        };
        advance.runs.iter().map(one).collect()
    };
    let rows: Vec<_> = moving().flat_map(made).collect();
    for some in rows.chunks(ROWS_MAX) {
        sqlx::query(sql!(schedules, insert_runs)).bind(runs::text(&some)).execute(&mut *tx).await?;
    }
    let answer = |pair: &(&Advance, bool)| if pair.1 { Applied::Moved } else { Applied::Lost };
    Ok(moved.iter().map(answer).collect())
}
