//! Schedules and their runs. A change and the step that it was decided on are compared in the statement that makes it;
//! the runs of an advance are in its transaction.

use super::{SqliteStore, chunks, lanes::Lane, ledger::Ledger, row, statements::sql};
use crate::runs;
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, IdentityStore, ScheduleStore,
    schedules::{
        Advance, OlderDocuments, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey, SettleRun,
        StoredSchedule, TakesBack,
    },
    store::Applied,
};
use punctual_domain::{identity::IdentitySecret, name::Name, schedule::Outcome, time::Millis};
use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};

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
            conn.prepare_cached(sql!(schedules, list))?.query_map(asked, stored)?.collect()
        };
        self.reading("list schedules", Lane::Bulk, work).await
    }

    async fn save_schedule(
        &self,
        it: SaveSchedule,
        now: Millis,
    ) -> Result<Option<StoredSchedule>, CallError> {
        self.writing("save a schedule", 1, move |conn, _: &mut Ledger| save(conn, &it, now)).await
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
            conn.prepare_cached(sql!(schedules, list_due))?.query_map(asked, stored)?.collect()
        };
        self.reading("look for due schedules", Lane::Urgent, work).await
    }

    async fn next_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |conn: &Connection| {
            conn.prepare_cached(sql!(schedules, find_next_wake))?
                .query_row([], |it| row::millis(it, 0))
                .optional()
        };
        self.reading("look for the next schedule", Lane::Urgent, work).await
    }

    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, CallError> {
        let mut answers = Vec::with_capacity(all.len());
        for some in chunks(all) {
            let work = move |conn: &Connection, _: &mut Ledger| {
                some.iter().map(|it| advance(conn, it, now)).collect::<rusqlite::Result<Vec<_>>>()
            };
            answers.extend(self.writing("move schedules on", super::CHUNK_ROWS, work).await?);
        }
        Ok(answers)
    }

    async fn settle_runs(&self, all: Vec<SettleRun>) -> Result<(), CallError> {
        for some in chunks(all) {
            let work = move |conn: &Connection, _: &mut Ledger| {
                let mut settle = conn.prepare_cached(sql!(schedules, settle_run))?;
                for SettleRun { key, task_ref, note } in &some {
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
            self.writing("settle runs", super::CHUNK_ROWS, work).await?;
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
            let both = |it: &Row<'_>| Ok((stored(it)?, run(it, COLUMNS)?));
            let (schedule, revision) = (of.map(|it| it.schedule), of.map(|it| it.revision));
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
            self.writing("put runs off", super::CHUNK_ROWS, work).await?;
        }
        Ok(())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError> {
        let query = *query;
        let work = move |conn: &Connection| {
            let asked =
                params![query.schedule, query.from.0, query.before.0, most(runs::fetched(query.limit))];
            let mut asking = conn.prepare_cached(sql!(schedules, list_runs))?;
            let all = asking.query_map(asked, |it| run(it, 0))?.collect::<rusqlite::Result<_>>()?;
            Ok(runs::page(all, query.limit))
        };
        self.reading("read the runs of a schedule", Lane::Bulk, work).await
    }

    async fn run_tasks(&self, all: Vec<RunKey>) -> Result<Vec<RunTask>, CallError> {
        let work = move |conn: &Connection| {
            let mut asking = conn.prepare_cached(sql!(schedules, read_run_task))?;
            let mut one = |it: &RunKey| {
                let key = params![it.schedule, it.at.0, it.kind.code(), it.revision];
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
    conn.prepare_cached(sql!(schedules, read))?.query_row(names, stored).optional()
}

fn save(conn: &Connection, it: &SaveSchedule, now: Millis) -> rusqlite::Result<Option<StoredSchedule>> {
    let revision: i64 = conn.prepare_cached(sql!(schedules, take_revision))?.query_row([], |it| it.get(0))?;
    let (namespace, name) = (it.key.namespace.as_str(), it.key.name.as_str());
    let (body, progress) = (runs::text(&it.schedule), runs::text(&it.progress));
    let wake_at = it.wake_at.map(|it| it.0);
    let saved = match it.expected {
        None => conn.prepare_cached(sql!(schedules, create))?.execute(params![
            namespace,
            name,
            it.key.slot(),
            revision,
            body,
            progress,
            wake_at,
            now.0,
            it.by
        ])?,
        Some(step) => conn
            .prepare_cached(sql!(schedules, replace))?
            .execute(params![namespace, name, step, revision, body, progress, wake_at, now.0, it.by])?,
    };
    if saved == 0 { Ok(None) } else { one(conn, &it.key) }
}

fn withdraw(conn: &Connection, all: &[RunKey], outcome: Outcome, reason: &str) -> rusqlite::Result<()> {
    let mut withdraw = conn.prepare_cached(sql!(schedules, withdraw_run))?;
    for it in all {
        let (kind, outcome) = (it.kind.code(), outcome.code());
        withdraw.execute(params![it.schedule, it.at.0, kind, it.revision, reason, outcome])?;
    }
    Ok(())
}

fn advance(conn: &Connection, it: &Advance, now: Millis) -> rusqlite::Result<Applied> {
    let moved = params![it.id, it.step, runs::text(&it.progress), it.wake_at.map(|it| it.0)];
    if conn.prepare_cached(sql!(schedules, advance))?.execute(moved)? == 0 {
        return Ok(Applied::Lost);
    }
    if let Some(TakesBack { runs, reason }) = &it.takes_back {
        withdraw(conn, runs, Outcome::Cancelled, reason)?;
    }
    let mut insert = conn.prepare_cached(sql!(schedules, insert_run))?;
    for run in &it.runs {
        insert.execute(params![
            it.id,
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

fn stored(it: &Row<'_>) -> rusqlite::Result<StoredSchedule> {
    let odd = |at: usize| {
        move |error: serde_json::Error| {
            rusqlite::Error::FromSqlConversionFailure(at, Type::Text, error.into())
        }
    };
    Ok(StoredSchedule {
        id: it.get(0)?,
        key: ScheduleKey { namespace: row::name(it, 1)?, name: row::name(it, 2)? },
        revision: it.get(3)?,
        step: it.get(4)?,
        schedule: serde_json::from_str(it.get_ref(5)?.as_str()?).map_err(odd(5))?,
        progress: serde_json::from_str(it.get_ref(6)?.as_str()?).map_err(odd(6))?,
        wake_at: it.get::<_, Option<i64>>(7)?.map(Millis),
        created_at: row::millis(it, 8)?,
        updated_at: row::millis(it, 9)?,
        updated_by: it.get(10)?,
    })
}

fn run(it: &Row<'_>, first: usize) -> rusqlite::Result<Run> {
    let column = |nth: usize| first + nth;
    let codes = (it.get(column(2))?, it.get(column(4))?);
    let odd =
        || rusqlite::Error::FromSqlConversionFailure(column(2), Type::Integer, "is no kind of run".into());
    let (kind, outcome) = runs::of_codes(codes).ok_or_else(odd)?;
    Ok(Run {
        key: RunKey {
            schedule: it.get(column(0))?,
            at: row::millis(it, column(1))?,
            kind,
            revision: it.get(column(3))?,
        },
        outcome,
        execute_at: row::millis(it, column(5))?,
        number: u64::try_from(it.get::<_, i64>(column(6))?).unwrap_or(0),
        reason: it.get(column(7))?,
        task_ref: it.get(column(8))?,
        is_settled: it.get::<_, Option<i64>>(column(9))?.is_none(),
        created_at: row::millis(it, column(10))?,
        version: it.get(column(11))?,
    })
}
