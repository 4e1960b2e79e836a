//! The statements for operators of the cluster, which is one engine here: events, samples, the size of the file, and
//! the number of tasks due in the time ahead.

use super::{lanes::Lane, ledger::Ledger, state::SqliteStore, statements::sql};
use crate::rows;
use async_trait::async_trait;
use punctual_contract::{
    ClusterStore, Error as CallError,
    cluster::{Database, DueCounts, DueLook, Event, EventQuery, Move, Sample, SignOfLife, in_sample},
    store::Applied,
};
use punctual_domain::{name::QueueKey, time::Millis};
use rusqlite::{Connection, Row, params};

const SAMPLES_MAX: i64 = 100_000;

#[async_trait]
impl ClusterStore for SqliteStore {
    async fn append_event(&self, event: Event) -> Result<Applied, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let values = params![
                event.at.0,
                event.kind.word(),
                event.key,
                event.engine.as_deref().unwrap_or_default(),
                event.text,
                event.details
            ];
            let appended = conn.prepare_cached(sql!(cluster, append_event))?.execute(values)?;
            Ok(if appended > 0 { Applied::Moved } else { Applied::Lost })
        };
        self.maintaining("append an event", 1, work).await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![
                query.before_id.unwrap_or(i64::MAX),
                query.kind.map_or("", |kind| kind.word()),
                query.engine.as_deref().unwrap_or_default(),
                query.since.unwrap_or(Millis(i64::MIN)).0,
                query.until.unwrap_or(Millis::MAX).0,
                most(query.limit)
            ];
            conn.prepare_cached(sql!(cluster, list_events))?
                .query_map(asked, |row| rows::event(row))?
                .collect()
        };
        self.reading("read events", Lane::Bulk, work).await
    }

    async fn trim_events(&self, before: Millis, keep: usize, limit: usize) -> Result<usize, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let old = conn
                .prepare_cached(sql!(cluster, delete_old_events))?
                .execute(params![before.0, most(limit)])?;
            let left = most(limit.saturating_sub(old));
            Ok(old
                + conn
                    .prepare_cached(sql!(cluster, delete_events_beyond))?
                    .execute(params![most(keep), left])?)
        };
        self.maintaining("trim events", 1, work).await
    }

    async fn save_sample(&self, sample: Sample) -> Result<(), CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let values = params![sample.step_at.0, sample.engine, sample.body];
            conn.prepare_cached(sql!(cluster, save_sample))?.execute(values).map(drop)
        };
        self.maintaining("keep a sample", 1, work).await
    }

    async fn samples(&self, since: Millis) -> Result<Vec<Sample>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![since.0, SAMPLES_MAX];
            conn.prepare_cached(sql!(cluster, list_samples))?
                .query_map(asked, |row| rows::sample(row))?
                .collect()
        };
        self.reading("read samples", Lane::Bulk, work).await
    }

    async fn save_queue_sample(&self, sample: Sample) -> Result<(), CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let values = params![sample.step_at.0, sample.engine, sample.body];
            conn.prepare_cached(sql!(cluster, save_queue_sample))?.execute(values).map(drop)
        };
        self.maintaining("keep a sample of queues", 1, work).await
    }

    async fn queue_samples(&self, since: Millis, only: Option<&QueueKey>) -> Result<Vec<Sample>, CallError> {
        let path = only.map(|queue| format!("$.queues.\"{}\"", in_sample(queue)));
        let work = move |conn: &Connection| match path {
            Some(path) => {
                let asked = params![path, since.0, SAMPLES_MAX];
                conn.prepare_cached(sql!(cluster, list_samples_of_queue))?
                    .query_map(asked, |row| rows::sample(row))?
                    .collect()
            }
            None => {
                let asked = params![since.0, SAMPLES_MAX];
                conn.prepare_cached(sql!(cluster, list_queue_samples))?
                    .query_map(asked, |row| rows::sample(row))?
                    .collect()
            }
        };
        self.reading("read samples of queues", Lane::Bulk, work).await
    }

    async fn trim_samples(&self, before: Millis) -> Result<usize, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(cluster, delete_old_queue_samples))?.execute([before.0])?;
            conn.prepare_cached(sql!(cluster, delete_old_samples))?.execute([before.0])
        };
        self.maintaining("trim samples", 1, work).await
    }

    async fn signs_of_life(&self) -> Result<Vec<SignOfLife>, CallError> {
        Ok(Vec::new())
    }

    async fn database(&self, _part: usize) -> Result<Database, CallError> {
        let work = |conn: &Connection| {
            let bytes =
                conn.prepare_cached(sql!(cluster, read_file_size))?.query_row([], |value| value.get(0))?;
            let path = conn.path().filter(|path| !path.is_empty()).unwrap_or("(in memory)").to_owned();
            let name = path.rsplit(['/', '\\']).next().unwrap_or(&path).to_owned();
            Ok(Database {
                name,
                rows: None,
                bytes: Some(bytes),
                buckets: None,
                buckets_wide: None,
                axis: Vec::new(),
                archives: None,
            })
        };
        self.reading("read the size of the store", Lane::Bulk, work).await
    }

    async fn moves(&self) -> Result<Vec<Move>, CallError> {
        // There is one file.
        Ok(Vec::new())
    }

    async fn due_counts(&self, look: DueLook) -> Result<DueCounts, CallError> {
        let work = move |conn: &Connection| {
            let asked =
                params![look.partition.0, look.from.0, look.until.0, look.step_ms.max(1), most(look.limit)];
            let number = |row: &Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            let step =
                |row: &Row<'_>| Ok((usize::try_from(number(row, 0)?).unwrap_or(usize::MAX), number(row, 1)?));
            let mut due = conn.prepare_cached(sql!(cluster, count_due_by_step))?;
            let steps: Vec<(usize, u64)> = due.query_map(asked, step)?.collect::<rusqlite::Result<_>>()?;
            let passed: u64 = steps.iter().map(|step| step.1).sum();
            Ok(DueCounts { steps, is_cut: usize::try_from(passed).is_ok_and(|number| number >= look.limit) })
        };
        self.reading("count what is due", Lane::Bulk, work).await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
