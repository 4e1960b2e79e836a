//! Records in `meta` of each database that it has archives, and in which place. From then on no engine deletes there
//! what is not archived, also one that was started before; and none works on these databases with another place, or
//! with none.

use super::state::{Archive, PLACE, place_of};
use crate::{
    ArchiveStorage, Error,
    mysql::{
        parts::Shard,
        shards::placement::CLUSTER,
        state::MysqlStore,
        statements::sql,
        timeouts::{READ, WRITE, within},
    },
};
use sqlx::Row as _;
use std::sync::Arc;

impl MysqlStore {
    /// Tasks are archived before they are dropped with their buckets, and archived tasks can be read. All databases
    /// remember the place: from now on they are worked on with it alone.
    ///
    /// # Errors
    /// When they have archives elsewhere, or databases or storage fail.
    pub async fn with_archive(mut self, archive_storage: Arc<ArchiveStorage>) -> Result<Self, Error> {
        let mut places = Vec::new();
        for (nth, shard) in self.inner.members().iter().enumerate() {
            places.extend(known(nth, shard).await?.map(|known| (nth, known)));
        }
        // Looked for last: another engine that starts now takes the place before it says so to a database.
        let found = archive_storage.place().await?;
        if let Some((nth, _)) = places.into_iter().find(|place| Some(place.1) != found) {
            return Err(Error::OtherArchives { at: at(nth), found });
        }
        // Before any database says so; an engine that dies in between has only taken the place.
        let number = self.number().await.map_err(|error| failed(0, error))?;
        let place = archive_storage.take_place(number).await?;
        if place != number {
            return Err(Error::OtherArchives { at: at(0), found: Some(place) });
        }
        for (nth, shard) in self.inner.members().iter().enumerate() {
            keep(shard, place).await.map_err(|error| failed(nth, error))?;
        }
        self.archive = Some(Archive::new(archive_storage, place));
        Ok(self)
    }

    /// The number that all databases of this store share, and no other store has.
    pub(crate) async fn number(&self) -> sqlx::Result<i64> {
        let read = async || {
            let mut conn = self.inner.catalog.acquire().await?;
            sqlx::query(sql!(shards, read_meta)).bind(CLUSTER).fetch_one(&mut *conn).await?.try_get(0)
        };
        within(READ, read()).await
    }

    /// Checks, for a program that opens the store without archives, that it has none.
    ///
    /// # Errors
    /// When a database has archives, or does not answer.
    pub async fn has_no_archive(&self) -> Result<(), Error> {
        for (nth, shard) in self.inner.members().iter().enumerate() {
            if known(nth, shard).await?.is_some() {
                return Err(Error::NoArchives { at: at(nth) });
            }
        }
        Ok(())
    }
}

async fn known(nth: usize, shard: &Shard) -> Result<Option<i64>, Error> {
    let read = async { place_of(&mut *shard.readers.acquire().await?).await };
    within(READ, read).await.map_err(|error| failed(nth, error))
}

async fn keep(shard: &Shard, place: i64) -> sqlx::Result<()> {
    let keep = async {
        let mut conn = shard.readers.acquire().await?;
        sqlx::query(sql!(shards, insert_meta)).bind(PLACE).bind(place).execute(&mut *conn).await.map(drop)
    };
    within(WRITE, keep).await
}

fn at(nth: usize) -> String {
    format!("database {nth} of the store")
}

fn failed(nth: usize, source: sqlx::Error) -> Error {
    Error::Database { at: at(nth), source }
}
