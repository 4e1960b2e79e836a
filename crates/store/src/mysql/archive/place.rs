//! Which place of archives the databases belong to: its number stands in `meta` of each. From then on no engine deletes
//! there what is not archived, also one that was started before; and none works on them with another place, or with none.

use super::{Archive, PLACE};
use crate::{
    ColdStorage, Error,
    mysql::{MysqlStore, Shard, statements as sql},
};
use sqlx::{MySqlConnection, Row as _};
use std::sync::Arc;

/// The number of a database's archives, if it has any.
pub(in crate::mysql) async fn of(conn: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
    let found = sqlx::query(sql::META_READ).bind(PLACE).fetch_optional(conn).await?;
    found.map(|it| it.try_get(0)).transpose()
}

impl MysqlStore {
    /// Tasks are archived before they are dropped with their buckets, and archived tasks can be read. All databases
    /// remember the place: from now on they are worked on with it alone.
    ///
    /// # Errors
    /// When they have archives elsewhere, or databases or storage fail.
    pub async fn with_archive(mut self, cold: Arc<ColdStorage>) -> Result<Self, Error> {
        let found = cold.place().await?;
        for (nth, shard) in self.inner.shards.iter().enumerate() {
            if let Some(known) = known(nth, shard).await?
                && Some(known) != found
            {
                return Err(other(nth, known, found));
            }
        }
        // An engine that dies here has named some of them; the next names the others.
        let place = cold.make_place().await?;
        for (nth, shard) in self.inner.shards.iter().enumerate() {
            let stands = keep(shard, place).await.map_err(|it| failed(nth, it))?;
            if stands != place {
                return Err(other(nth, stands, Some(place)));
            }
        }
        self.archive = Some(Archive::new(cold, place));
        Ok(self)
    }

    /// For whoever opens the store without archives.
    ///
    /// # Errors
    /// When a database has archives, or does not answer.
    pub async fn has_no_archive(&self) -> Result<(), Error> {
        for (nth, shard) in self.inner.shards.iter().enumerate() {
            if let Some(known) = known(nth, shard).await? {
                return Err(Error::NoArchives { at: at(nth), known });
            }
        }
        Ok(())
    }
}

async fn known(nth: usize, shard: &Shard) -> Result<Option<i64>, Error> {
    let mut conn = shard.readers.acquire().await.map_err(|it| failed(nth, it))?;
    of(&mut conn).await.map_err(|it| failed(nth, it))
}

/// What stands wins, and is answered.
async fn keep(shard: &Shard, place: i64) -> sqlx::Result<i64> {
    let mut conn = shard.readers.acquire().await?;
    sqlx::query(sql::META_KEEP).bind(PLACE).bind(place).execute(&mut *conn).await?;
    sqlx::query(sql::META_READ).bind(PLACE).fetch_one(&mut *conn).await?.try_get(0)
}

fn at(nth: usize) -> String {
    format!("database {nth} of the store")
}

fn failed(nth: usize, source: sqlx::Error) -> Error {
    Error::Database { at: at(nth), source }
}

fn other(nth: usize, known: i64, found: Option<i64>) -> Error {
    let found = found.map_or_else(|| "which was never used".to_owned(), |it| it.to_string());
    Error::OtherArchives { at: at(nth), known, found }
}
