//! Reads that continue where the database ends: in a bucket that is being dropped, then in archive storage.
//! Everything is always in one of the three, in this order: a bucket's rows are archived, and the archives counted in
//! `meta`, before the first of them is settled. Must never write, and never answer "no such task" for a place that it
//! could not read.

mod place;
pub(super) mod state;

use super::{
    parameters::wanted,
    row, search,
    state::{MySqlState, MysqlStore},
    statements::sql,
};
use crate::{
    archive_storage::Error,
    archived::{self, fill, missing},
};
use punctual_contract::Error as CallError;
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef, partition_of},
    task::Task,
};
use sqlx::MySqlConnection;
use state::Archive;
use std::sync::Arc;

/// The contents of the databases in addition to `task`.
#[derive(Debug, Default)]
struct Gone {
    tasks: Vec<Task>,
    /// Database, and how often it published archives.
    published: Vec<(usize, i64)>,
}

impl Archive {
    /// Fills in what was not found.
    pub(super) async fn read(
        &self,
        store: &MysqlStore,
        places: &[TaskRef],
        mut found: Vec<Option<Task>>,
    ) -> Result<Vec<Option<Task>>, CallError> {
        const DOING: &str = "read archived tasks";
        let asked = missing(places, &found);
        let gone = store.reading(DOING, |inner| gone(inner, asked)).await?;
        let has_news = self.learn(DOING, &gone.published).await?;
        fill(places, &mut found, gone.tasks);
        let archived = archived::tasks(&self.archive_storage, missing(places, &found)).await;
        let archived = archived.map_err(|error| failed(DOING, error))?;
        fill(places, &mut found, archived);
        let left = missing(places, &found);
        if has_news && !left.is_empty() {
            // A bucket was dropped meanwhile: what had to stay was put back.
            let back = store.reading(DOING, |inner| search::read(inner, left)).await?;
            fill(places, &mut found, back.into_iter().flatten().collect());
        }
        Ok(found)
    }

    /// Adds archived versions to those that were found. Of one version, the task that is not archived counts.
    pub(super) async fn versions(
        &self,
        store: &MysqlStore,
        (namespace, task_id): (&Name, i64),
        version: Option<i64>,
        (limit, mut found): (usize, Vec<Task>),
    ) -> Result<Vec<Task>, CallError> {
        const DOING: &str = "read archived versions";
        if found.len() >= limit || (version.is_some() && !found.is_empty()) {
            return Ok(found);
        }
        let partition = partition_of(namespace, task_id, store.inner.cluster.partitions);
        let (asked, name) = (limit, namespace.clone());
        let work = |inner| gone_versions(inner, (partition, name, task_id), version, asked);
        let gone = store.reading(DOING, work).await?;
        self.learn(DOING, &gone.published).await?;
        found.extend(gone.tasks);
        let archive_storage =
            self.archive_storage.find(Some(partition), namespace, task_id, usize::MAX).await;
        found.extend(archive_storage.map_err(|error| failed(DOING, error))?);
        Ok(archived::versions(found, version, limit))
    }

    /// Lists the archives again if there are new ones.
    async fn learn(&self, doing: &'static str, published: &[(usize, i64)]) -> Result<bool, CallError> {
        let is_news =
            |(shard, count): &(usize, i64)| self.seen.lock().get(shard).is_none_or(|number| number < count);
        if !published.iter().any(is_news) {
            return Ok(false);
        }
        self.archive_storage.refresh().await.map_err(|error| failed(doing, error))?;
        let mut seen = self.seen.lock();
        for (shard, count) in published {
            let known = seen.entry(*shard).or_insert(*count);
            *known = (*known).max(*count);
        }
        Ok(true)
    }
}

fn failed(doing: &'static str, error: Error) -> CallError {
    CallError::did_not_happen(doing, error)
}

/// Rows of buckets that are being dropped, read before the count of archives: whatever is in neither then, is nowhere.
/// No bucket is being dropped while a partition changes its database, and the new one then says that there are new
/// archives: so it does not matter here which of the two is asked.
async fn gone(inner: Arc<MySqlState>, places: Vec<TaskRef>) -> sqlx::Result<Gone> {
    let (mut gone, placement) = (Gone::default(), inner.routing.placement());
    for (number, shard) in inner.members().iter().enumerate() {
        let here = |place: &TaskRef| placement.shard_of(place.partition) == number;
        let places: Vec<TaskRef> = places.iter().copied().filter(here).collect();
        if places.is_empty() {
            continue;
        }
        let mut conn = shard.readers.acquire().await?;
        for part in places.chunks(1_000) {
            let rows = sqlx::query(sql!(dropped_buckets, read_tasks))
                .bind(wanted(part))
                .fetch_all(&mut *conn)
                .await?;
            for row in &rows {
                gone.tasks.push(row::whole_task(row)?);
            }
        }
        gone.published.push((number, published(&mut conn).await?));
    }
    Ok(gone)
}

async fn gone_versions(
    inner: Arc<MySqlState>,
    (partition, namespace, task_id): (Partition, Name, i64),
    version: Option<i64>,
    limit: usize,
) -> sqlx::Result<Gone> {
    let number = inner.routing.placement().shard_of(partition);
    let shard = inner.shards.get(number).ok_or(sqlx::Error::PoolClosed)?;
    let mut conn = shard.readers.acquire().await?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (text, last) = match version {
        Some(version) => (sql!(dropped_buckets, read_version), version),
        None => (sql!(dropped_buckets, list_versions), limit),
    };
    let key = sqlx::query(text).bind(row::partition_no(partition)).bind(namespace.as_str()).bind(task_id);
    let rows = key.bind(last).fetch_all(&mut *conn).await?;
    let tasks = rows.iter().map(row::whole_task).collect::<sqlx::Result<_>>()?;
    Ok(Gone { tasks, published: vec![(number, published(&mut conn).await?)] })
}

pub(super) async fn published(conn: &mut MySqlConnection) -> sqlx::Result<i64> {
    let count: Option<i64> =
        sqlx::query_scalar(sql!(dropped_buckets, read_archive_generation)).fetch_optional(conn).await?;
    Ok(count.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::row::TASK_COLUMNS;

    #[test]
    fn whole_tasks_are_read_in_the_order_in_which_they_are_decoded() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [
            sql!(dropped_buckets, read_tasks),
            sql!(dropped_buckets, read_version),
            sql!(dropped_buckets, list_versions),
        ] {
            assert!(words(text).contains(&words(TASK_COLUMNS)), "{text}");
            assert!(text.contains("JOIN task_gone AS task FORCE"), "{text}");
        }
    }
}
