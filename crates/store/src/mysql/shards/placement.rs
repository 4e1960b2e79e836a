//! The placement of partitions in the databases of a cluster by the catalog, and the identity of a database by its
//! own table. Changes nothing.

use crate::{
    Error,
    mysql::{
        row,
        session::DatabaseAddress,
        statements::sql,
        timeouts::{READ, on_its_own},
    },
};
use punctual_domain::place::Partition;
use sqlx::{MySqlConnection, Row as _};

pub(crate) const CLUSTER: &str = "cluster";
pub(super) const SHARD: &str = "shard";
pub(super) const SHARDS: &str = "shards";
/// The last term that a mover got.
pub(crate) const MOVE_TERM: &str = "move_term";

/// The content of the catalog when the store was opened.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) partitions: u16,
    /// The random number that all databases of the cluster share.
    pub(crate) number: i64,
    pub(crate) placement: Placement,
    pub(crate) migrated: Vec<String>,
}

/// The placement of partitions in databases, as in the catalog at some time.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    pub(crate) version: i64,
    /// Databases that the cluster has: the first so many of the list.
    pub(crate) members: usize,
    /// The number of the database, by the number of the partition.
    pub(super) shard_of: Vec<usize>,
}

impl Placement {
    /// The database of a partition. A partition that the cluster does not have is searched where it could be, and
    /// nothing is found.
    pub(crate) fn shard_of(&self, partition: Partition) -> usize {
        self.shard_of.get(usize::from(partition.0)).copied().unwrap_or_default()
    }

    /// The partitions of one database.
    pub(crate) fn partitions(&self, shard_no: usize) -> impl Iterator<Item = Partition> {
        let all = self.shard_of.iter().zip(0_u16..);
        all.filter(move |pair| *pair.0 == shard_no).map(|pair| Partition(pair.1))
    }
}

/// Checks that a database is the one in the list, before it is used for the first time. Changes nothing.
pub(crate) async fn is_member(address: &DatabaseAddress, cluster: i64, number: usize) -> Result<(), Error> {
    let look = on_its_own(READ, address, async |conn| {
        let mut found = [None; 2];
        for (name, value) in [CLUSTER, SHARD].into_iter().zip(&mut found) {
            let read = sqlx::query(sql!(shards, read_meta)).bind(name).fetch_optional(&mut *conn).await?;
            *value = read.map(|row| row.try_get::<i64, _>(0)).transpose()?;
        }
        Ok::<_, sqlx::Error>(found)
    });
    match look.await.map_err(|error| address.failed(error))? {
        [Some(of), Some(nth)] if of == cluster && usize::try_from(nth) == Ok(number) => Ok(()),
        [Some(of), Some(found)] if of == cluster => {
            let named = i64::try_from(number).unwrap_or(i64::MAX);
            Err(Error::WrongPlace { at: address.to_string(), found, named })
        }
        _ => Err(Error::OtherCluster { at: address.to_string() }),
    }
}

/// The version of the current placement, and the number of databases, which never shrinks.
pub(crate) async fn version(catalog: &mut MySqlConnection) -> sqlx::Result<(i64, usize)> {
    let (mut version, mut members) = (0, 0);
    for rows in sqlx::query(sql!(shards, read_members)).fetch_all(catalog).await? {
        match rows.try_get(0)? {
            SHARDS => members = row::small(&rows, 1)?,
            _ => version = rows.try_get(1)?,
        }
    }
    Ok((version, members))
}

/// What an engine watches, as the catalog says it in one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) version: i64,
    pub(crate) members: usize,
    pub(crate) pauses_revision: i64,
    /// A partition is being moved.
    pub(crate) moves: bool,
}

pub(crate) async fn watched(catalog: &mut MySqlConnection) -> sqlx::Result<Watched> {
    let row = sqlx::query(sql!(shards, read_watched)).fetch_one(catalog).await?;
    Ok(Watched {
        members: row::small(&row, 0)?,
        version: row.try_get(1)?,
        pauses_revision: row.try_get(2)?,
        moves: row.try_get::<i64, _>(3)? != 0,
    })
}

/// The placement, which is no older than the version that was read before. `None` if it is incomplete.
pub(crate) async fn read(
    catalog: &mut MySqlConnection,
    version: i64,
    members: usize,
) -> sqlx::Result<Option<Placement>> {
    let rows = sqlx::query(sql!(shards, list_placement)).fetch_all(catalog).await?;
    let mut shard_of = Vec::with_capacity(rows.len());
    for (nth, row) in rows.iter().enumerate() {
        let shard: usize = row::small(row, 1)?;
        if row::small::<usize>(row, 0)? != nth || shard >= members {
            return Ok(None);
        }
        shard_of.push(shard);
    }
    Ok(Some(Placement { version, members, shard_of }))
}
