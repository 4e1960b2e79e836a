//! The statements for operators of the complete cluster: events and samples in the catalog, heartbeats, the size of a
//! database, and the number of tasks due in the time ahead. Each statement is alone and idempotent: it can be sent
//! twice.

use super::{
    archive, hosted,
    moving::steps,
    ownership::statement::{Statement, apart},
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::LONG,
};
use crate::{Error, rows};
use async_trait::async_trait;
use punctual_contract::{
    ClusterStore, Error as CallError, Happened,
    cluster::{
        Database, DueCounts, DueLook, EVENT_KEY_MAX, Event, EventQuery, Move, Sample, SignOfLife, Slice,
        in_sample,
    },
    store::Applied,
};
use punctual_domain::{history::clip, name::QueueKey, time::Millis};
use sqlx::{Row as _, mysql::MySqlRow};
use std::sync::Arc;

/// The maximum length of engine names; longer ones are truncated, as in heartbeats.
const ENGINE_MAX: usize = 191;
/// The maximum number of reported engines, and of their steps.
const ENGINES_MAX: i64 = 1_000;
const SAMPLES_MAX: i64 = 100_000;
/// The number of samples that are deleted at one time.
const FORGET_SAMPLES: i64 = 10_000;

#[async_trait]
impl ClusterStore for MysqlStore {
    async fn append_event(&self, event: Event) -> Result<Applied, CallError> {
        let catalog = self.inner.catalog.clone();
        apart("append an event", Happened::Maybe, async move {
            let append = Statement::new(sql!(cluster, append_event)).int(event.at.0).text(event.kind.word());
            let append = append.text(clip(&event.key, EVENT_KEY_MAX));
            let append = append.text(clip(event.engine.as_deref().unwrap_or_default(), ENGINE_MAX));
            let append = append.text(&event.text).text(&event.details);
            let appended = append.execute(&catalog).await?;
            Ok(if appended > 0 { Applied::Moved } else { Applied::Lost })
        })
        .await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let kind = query.kind.map_or("", |kind| kind.word());
            let engine = query.engine.as_deref().unwrap_or_default();
            let asked = sqlx::query(sql!(cluster, list_events)).bind(query.before_id.unwrap_or(i64::MAX));
            let asked = asked.bind(kind).bind(kind).bind(engine).bind(engine);
            let asked = asked.bind(query.since.unwrap_or(Millis(i64::MIN)).0);
            let asked = asked.bind(query.until.unwrap_or(Millis::MAX).0).bind(most(query.limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::event).collect::<sqlx::Result<_>>()
        };
        self.reading("read events", work).await
    }

    async fn trim_events(&self, before: Millis, keep: usize, limit: usize) -> Result<usize, CallError> {
        let catalog = self.inner.catalog.clone();
        apart("trim events", Happened::Maybe, async move {
            let old = Statement::new(sql!(cluster, delete_old_events)).int(before.0).int(most(limit));
            let old = old.execute(&catalog).await?;
            let beyond = Statement::new(sql!(cluster, find_newest_beyond)).int(most(keep));
            let beyond = beyond.fetch(&catalog).await?;
            let Some(newest) = beyond.first() else { return Ok(count(old)) };
            let below = Statement::new(sql!(cluster, delete_events_up_to)).int(newest.try_get(0)?);
            let more = below.int(most(limit.saturating_sub(count(old)))).execute(&catalog).await?;
            Ok(count(old + more))
        })
        .await
    }

    async fn save_sample(&self, sample: Sample) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("keep a sample", Happened::Maybe, async move {
            let save = Statement::new(sql!(cluster, save_sample)).int(sample.step_at.0);
            save.text(clip(&sample.engine, ENGINE_MAX)).text(&sample.body).execute(&catalog).await?;
            Ok(())
        })
        .await
    }

    async fn samples(&self, since: Millis) -> Result<Vec<Sample>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(cluster, list_samples)).bind(since.0).bind(SAMPLES_MAX);
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::sample).collect::<sqlx::Result<_>>()
        };
        self.reading("read samples", work).await
    }

    async fn save_queue_sample(&self, sample: Sample) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("keep a sample of queues", Happened::Maybe, async move {
            let save = Statement::new(sql!(cluster, save_queue_sample)).int(sample.step_at.0);
            save.text(clip(&sample.engine, ENGINE_MAX)).text(&sample.body).execute(&catalog).await?;
            Ok(())
        })
        .await
    }

    async fn queue_samples(&self, since: Millis, only: Option<&QueueKey>) -> Result<Vec<Sample>, CallError> {
        let path = only.map(|queue| format!("$.queues.\"{}\"", in_sample(queue)));
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = match path {
                Some(path) => sqlx::query(sql!(cluster, list_samples_of_queue)).bind(path),
                None => sqlx::query(sql!(cluster, list_queue_samples)),
            };
            let asked = asked.bind(since.0).bind(SAMPLES_MAX);
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::sample).collect::<sqlx::Result<_>>()
        };
        self.reading("read samples of queues", work).await
    }

    async fn trim_samples(&self, before: Millis) -> Result<usize, CallError> {
        let catalog = self.inner.catalog.clone();
        apart("trim samples", Happened::Maybe, async move {
            let of_queues =
                Statement::new(sql!(cluster, delete_old_queue_samples)).int(before.0).int(FORGET_SAMPLES);
            of_queues.execute(&catalog).await?;
            let trim = Statement::new(sql!(cluster, delete_old_samples)).int(before.0).int(FORGET_SAMPLES);
            Ok(count(trim.execute(&catalog).await?))
        })
        .await
    }

    async fn signs_of_life(&self) -> Result<Vec<SignOfLife>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(cluster, list_engines)).bind(ENGINES_MAX);
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(sign).collect::<sqlx::Result<_>>()
        };
        self.reading("read signs of life", work).await
    }

    async fn database(&self, part: usize) -> Result<Database, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let Some(shard) = inner.members().get(part) else { return Err(Error::NoDatabase) };
            let mut conn = shard.readers.acquire().await?;
            let archives = Some(archive::published(&mut conn).await?).filter(|archive| *archive > 0);
            let sizes = sqlx::query(sql!(cluster, read_table_sizes)).fetch_one(&mut *conn).await?;
            let axis = sqlx::query(sql!(cluster, list_bucket_sizes)).fetch_all(&mut *conn).await?;
            let slice = |row: &MySqlRow| {
                Ok(Slice { until: row.try_get::<Option<i64>, _>(0)?.map(Millis), rows: row.try_get(1)? })
            };
            Ok(Database {
                name: sizes.try_get(0)?,
                rows: Some(sizes.try_get(1)?),
                bytes: Some(sizes.try_get(3)?),
                buckets: Some(sizes.try_get(4)?),
                buckets_wide: sizes.try_get(5)?,
                axis: axis.iter().map(slice).collect::<sqlx::Result<_>>()?,
                archives,
            })
        };
        self.reading("read the size of a database", work).await
    }

    async fn moves(&self) -> Result<Vec<Move>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let rows = steps::list(&mut *inner.catalog.acquire().await?).await?;
            let to_move = |row: steps::Row| Move { partition: row.partition, from: row.from, to: row.to };
            Ok::<Vec<Move>, sqlx::Error>(rows.into_iter().map(to_move).collect())
        };
        self.reading("read which partitions move", work).await
    }

    async fn due_counts(&self, look: DueLook) -> Result<DueCounts, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let Some(shard) = inner.shard(look.partition) else { return Err(Error::NoDatabase) };
            let (_permit, mut conn) = shard.long_reader().await?;
            let asked =
                sqlx::query(sql!(cluster, count_due_by_step)).bind(look.from.0).bind(look.step_ms.max(1));
            let asked = asked.bind(row::partition_no(look.partition)).bind(look.from.0).bind(look.until.0);
            let rows = asked.bind(most(look.limit)).fetch_all(&mut *conn).await?;
            if !hosted::missing(&mut conn, [look.partition]).await?.is_empty() {
                return Err(Error::NoDatabase);
            }
            let (mut steps, mut passed) = (Vec::new(), 0);
            for row in &rows {
                passed += usize::try_from(row.try_get::<i64, _>(1)?).unwrap_or(usize::MAX);
                let (step, tasks): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
                if tasks > 0 {
                    steps.push((usize::try_from(step).unwrap_or_default(), tasks.unsigned_abs()));
                }
            }
            Ok(DueCounts { steps, is_cut: passed >= look.limit })
        };
        self.reading_within(LONG, "count what is due", work).await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

/// Columns of `list_engines` in cluster.sql.
fn sign(found: &MySqlRow) -> sqlx::Result<SignOfLife> {
    Ok(SignOfLife {
        engine: found.try_get(0)?,
        alive_until: row::millis(found, 1)?,
        silent_ms: found.try_get(2)?,
        has_hot: found.try_get::<i8, _>(3)? != 0,
    })
}
