//! Schedules and their runs. A change and the step that it was decided on are compared in the statement that makes it;
//! the runs of an advance are in its transaction.

use super::{
    jobs::chunks, lanes::Lane, ledger::Ledger, options::CHUNK_ROWS, row, state::SqliteStore, statements::sql,
};
use crate::{rows, runs};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, IdentityStore, ScheduleStore,
    schedules::{
        Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey,
        StoredSchedule, TakesBack,
    },
    store::Applied,
};
use punctual_domain::{identity::IdentitySecret, name::Name, schedule::Outcome, time::Millis};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

#[async_trait]
impl IdentityStore for SqliteStore {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(schedules, offer_secret))?.execute([offered.bytes()])?;
            let secret =
                conn.prepare_cached(sql!(schedules, read_secret))?.query_row([], |row| row.get(0))?;
            Ok(IdentitySecret::new(secret))
        };
        self.writing("keep the secret of ids", 1, work).await
    }
}

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, CallError> {
        let key = key.clone();
        self.reading("read a schedule", Lane::Urgent, move |conn| one(conn, &key)).await
    }

    async fn schedules(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, CallError> {
        let (namespace, after) = (namespace.clone(), after.to_owned());
        let work = move |conn: &Connection| {
            let asked = params![namespace.as_str(), after, most(limit)];
            conn.prepare_cached(sql!(schedules, list))?.query_map(asked, |row| rows::schedule(row))?.collect()
        };
        self.reading("list schedules", Lane::Bulk, work).await
    }

    async fn save_schedule(
        &self,
        save_schedule: SaveSchedule,
        now: Millis,
    ) -> Result<Option<StoredSchedule>, CallError> {
        self.writing("save a schedule", 1, move |conn, _: &mut Ledger| save(conn, &save_schedule, now)).await
    }

    async fn remove_schedule(&self, id: i64, step: i64) -> Result<Applied, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            Ok(applied(conn.prepare_cached(sql!(schedules, delete))?.execute([id, step])?))
        };
        self.writing("forget a schedule", 1, work).await
    }

    async fn due_schedules(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![slots, now.0, most(limit)];
            conn.prepare_cached(sql!(schedules, list_due))?
                .query_map(asked, |row| rows::schedule(row))?
                .collect()
        };
        self.reading("look for due schedules", Lane::Urgent, work).await
    }

    async fn next_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |conn: &Connection| {
            conn.prepare_cached(sql!(schedules, find_next_wake))?
                .query_row([], |row| row::millis(row, 0))
                .optional()
        };
        self.reading("look for the next schedule", Lane::Urgent, work).await
    }

    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, CallError> {
        let mut answers = Vec::with_capacity(all.len());
        for some in chunks(all) {
            let work = move |conn: &Connection, _: &mut Ledger| {
                some.iter()
                    .map(|each_advance| advance(conn, each_advance, now))
                    .collect::<rusqlite::Result<Vec<_>>>()
            };
            answers.extend(self.writing("move schedules on", CHUNK_ROWS, work).await?);
        }
        Ok(answers)
    }

    async fn record_runs(&self, all: Vec<RecordRun>) -> Result<(), CallError> {
        for some in chunks(all) {
            let work = move |conn: &Connection, _: &mut Ledger| {
                let mut settle = conn.prepare_cached(sql!(schedules, settle_run))?;
                for RecordRun { key, task_ref, note } in &some {
                    settle.execute(params![
                        key.schedule,
                        key.at.0,
                        key.kind.code(),
                        key.revision,
                        task_ref,
                        note
                    ])?;
                }
                Ok(())
            };
            self.writing("settle runs", CHUNK_ROWS, work).await?;
        }
        Ok(())
    }

    async fn unsettled_runs(
        &self,
        of: Option<OlderDocuments>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<(StoredSchedule, Run)>, CallError> {
        let work = move |conn: &Connection| {
            let both = |row: &Row<'_>| Ok((rows::schedule(row)?, rows::run(row, COLUMNS)?));
            let (schedule, revision) = (of.map(|older| older.schedule), of.map(|older| older.revision));
            let asked = params![before.0, most(limit), schedule, revision];
            conn.prepare_cached(sql!(schedules, list_unsettled))?.query_map(asked, both)?.collect()
        };
        self.reading("look for unsettled runs", Lane::Urgent, work).await
    }

    async fn put_off_runs(&self, all: Vec<RunKey>, now: Millis) -> Result<(), CallError> {
        for some in chunks(all) {
            let work = move |conn: &Connection, _: &mut Ledger| {
                let mut put_off = conn.prepare_cached(sql!(schedules, postpone_run))?;
                for key in &some {
                    put_off.execute(params![key.schedule, key.at.0, key.kind.code(), key.revision, now.0])?;
                }
                Ok(())
            };
            self.writing("put runs off", CHUNK_ROWS, work).await?;
        }
        Ok(())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError> {
        let query = *query;
        let work = move |conn: &Connection| {
            let asked =
                params![query.schedule, query.from.0, query.before.0, most(runs::fetched(query.limit))];
            let mut asking = conn.prepare_cached(sql!(schedules, list_runs))?;
            let all =
                asking.query_map(asked, |value| rows::run(value, 0))?.collect::<rusqlite::Result<_>>()?;
            Ok(runs::page(all, query.limit))
        };
        self.reading("read the runs of a schedule", Lane::Bulk, work).await
    }

    async fn run_tasks(&self, all: Vec<RunKey>) -> Result<Vec<RunTask>, CallError> {
        let work = move |conn: &Connection| {
            let mut asking = conn.prepare_cached(sql!(schedules, read_run_task))?;
            let mut one = |run_key: &RunKey| {
                let key = params![run_key.schedule, run_key.at.0, run_key.kind.code(), run_key.revision];
                Ok(runs::task(asking.query_row(key, |row| row.get(0)).optional()?))
            };
            all.iter().map(&mut one).collect()
        };
        self.reading("read which tasks runs have", Lane::Urgent, work).await
    }

    async fn withdraw_runs(&self, all: Vec<RunKey>, outcome: Outcome, reason: &str) -> Result<(), CallError> {
        let reason = reason.to_owned();
        let work = move |conn: &Connection, _: &mut Ledger| withdraw(conn, &all, outcome, &reason);
        self.writing("withdraw runs", 1, work).await
    }

    async fn forget_runs(&self, created_before: Millis, limit: usize) -> Result<usize, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(schedules, delete_old_runs))?
                .execute(params![created_before.0, most(limit)])
        };
        self.maintaining("forget old runs", limit, work).await
    }
}

/// Columns of a schedule.
const COLUMNS: usize = 11;

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

const fn applied(rows: usize) -> Applied {
    if rows == 0 { Applied::Lost } else { Applied::Moved }
}

fn one(conn: &Connection, key: &ScheduleKey) -> rusqlite::Result<Option<StoredSchedule>> {
    let names = [key.namespace.as_str(), key.name.as_str()];
    conn.prepare_cached(sql!(schedules, read))?.query_row(names, |row| rows::schedule(row)).optional()
}

fn save(conn: &Connection, save: &SaveSchedule, now: Millis) -> rusqlite::Result<Option<StoredSchedule>> {
    let revision: i64 =
        conn.prepare_cached(sql!(schedules, take_revision))?.query_row([], |value| value.get(0))?;
    let (namespace, name) = (save.key.namespace.as_str(), save.key.name.as_str());
    let (body, progress) = (runs::text(&save.schedule), runs::text(&save.progress));
    let wake_at = save.wake_at.map(|wake_at| wake_at.0);
    let saved = match save.expected {
        None => conn.prepare_cached(sql!(schedules, create))?.execute(params![
            namespace,
            name,
            save.key.slot(),
            revision,
            body,
            progress,
            wake_at,
            now.0,
            save.by
        ])?,
        Some(step) => conn
            .prepare_cached(sql!(schedules, replace))?
            .execute(params![namespace, name, step, revision, body, progress, wake_at, now.0, save.by])?,
    };
    if saved == 0 { Ok(None) } else { one(conn, &save.key) }
}

fn withdraw(conn: &Connection, all: &[RunKey], outcome: Outcome, reason: &str) -> rusqlite::Result<()> {
    let mut withdraw = conn.prepare_cached(sql!(schedules, withdraw_run))?;
    for key in all {
        let (kind, outcome) = (key.kind.code(), outcome.code());
        withdraw.execute(params![key.schedule, key.at.0, kind, key.revision, reason, outcome])?;
    }
    Ok(())
}

fn advance(conn: &Connection, this_advance: &Advance, now: Millis) -> rusqlite::Result<Applied> {
    let moved = params![
        this_advance.id,
        this_advance.step,
        runs::text(&this_advance.progress),
        this_advance.wake_at.map(|wake_at| wake_at.0)
    ];
    if conn.prepare_cached(sql!(schedules, advance))?.execute(moved)? == 0 {
        return Ok(Applied::Lost);
    }
    if let Some(TakesBack { runs, reason }) = &this_advance.takes_back {
        withdraw(conn, runs, Outcome::Cancelled, reason)?;
    }
    let mut insert = conn.prepare_cached(sql!(schedules, insert_run))?;
    for run in &this_advance.runs {
        insert.execute(params![
            this_advance.id,
            run.at.0,
            run.kind.code(),
            run.revision,
            run.outcome.code(),
            run.execute_at.0,
            i64::try_from(run.number).unwrap_or(i64::MAX),
            run.reason,
            runs::unsettled_at(run, now),
            now.0,
            run.version
        ])?;
    }
    Ok(Applied::Moved)
}
