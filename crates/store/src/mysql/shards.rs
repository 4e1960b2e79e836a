//! The databases of one store: which has which partition. The first of the list is the catalog, that knows it. Fixed
//! when the cluster is created; a database of another cluster, or in another place of the list, is refused.

use super::{
    migrate::{self, Locked},
    row,
    session::Door,
    statements::{self as sql, bind},
};
use crate::Error;
use punctual_domain::place::Partition;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlArguments};

const PARTITIONS: &str = "partitions";
pub(super) const CLUSTER: &str = "cluster";
const SHARD: &str = "shard";
const SHARDS: &str = "shards";

/// What the catalog says.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) partitions: u16,
    /// The number of the database, by the number of the partition.
    placement: Vec<usize>,
    pub(crate) migrated: Vec<String>,
}

impl Cluster {
    /// A partition that the cluster does not have is looked for where it could be, and nothing is found.
    pub(crate) fn shard_of(&self, partition: Partition) -> usize {
        self.placement.get(usize::from(partition.0)).copied().unwrap_or_default()
    }
}

/// Brings every database up to date, and creates the cluster if the first is new. One engine at a time.
pub(crate) async fn found(doors: &[Door], partitions: u16) -> Result<Cluster, Error> {
    let Some((first, others)) = doors.split_first() else { return Err(Error::NoDatabase) };
    let mut catalog = Locked::wait(first).await?;
    let cluster = prepared(&mut catalog.conn, first, others, partitions).await;
    catalog.free().await;
    cluster
}

async fn prepared(
    catalog: &mut MySqlConnection,
    first: &Door,
    others: &[Door],
    partitions: u16,
) -> Result<Cluster, Error> {
    let mut migrated = migrate::migrate(catalog, first).await?;
    let shards = others.len() + 1;
    // Before any other database is made a member.
    counted(catalog, first, shards).await?;
    let cluster = member(catalog, first, None, 0).await?;
    for (door, number) in others.iter().zip(1..) {
        let mut other = Locked::wait(door).await?;
        let done = joined(&mut other.conn, door, cluster, number).await;
        other.free().await;
        migrated.extend(done?);
    }
    create(catalog, partitions, shards).await.map_err(|it| first.failed(it))?;
    let (partitions, placement) = placement(catalog, first, shards).await?;
    Ok(Cluster { partitions, placement, migrated })
}

async fn joined(
    conn: &mut MySqlConnection,
    door: &Door,
    cluster: i64,
    number: i64,
) -> Result<Vec<String>, Error> {
    let migrated = migrate::migrate(conn, door).await?;
    member(conn, door, Some(cluster), number).await?;
    Ok(migrated)
}

/// A cluster that stands has all its databases named.
async fn counted(catalog: &mut MySqlConnection, first: &Door, named: usize) -> Result<(), Error> {
    let failed = |it| first.failed(it);
    let known = sqlx::query(sql::META_READ).bind(SHARDS).fetch_optional(catalog).await.map_err(failed)?;
    let Some(known) = known else { return Ok(()) };
    let known = row::small(&known, 0).map_err(failed)?;
    if known == named { Ok(()) } else { Err(Error::DatabaseCount { named, known }) }
}

/// Makes a new database a member of a cluster, or looks whether it is one. Answers the number of the cluster.
async fn member(conn: &mut MySqlConnection, door: &Door, of: Option<i64>, number: i64) -> Result<i64, Error> {
    let failed = |it| door.failed(it);
    let shard = kept(conn, SHARD, number).await.map_err(failed)?;
    if shard != number {
        return Err(Error::WrongPlace { at: door.to_string(), found: shard, named: number });
    }
    let cluster = match of {
        Some(it) => it,
        None => fresh(conn).await.map_err(failed)?,
    };
    let stands = kept(conn, CLUSTER, cluster).await.map_err(failed)?;
    match of {
        Some(it) if it != stands => Err(Error::OtherCluster { at: door.to_string() }),
        _ => Ok(stands),
    }
}

/// A random number for a new cluster.
async fn fresh(conn: &mut MySqlConnection) -> sqlx::Result<i64> {
    sqlx::query(sql::FRESH).fetch_one(conn).await?.try_get(0)
}

/// What is not set yet is set; what stands wins, and is answered.
async fn kept(conn: &mut MySqlConnection, name: &'static str, value: i64) -> sqlx::Result<i64> {
    sqlx::query(sql::META_KEEP).bind(name).bind(value).execute(&mut *conn).await?;
    sqlx::query(sql::META_READ).bind(name).fetch_one(conn).await?.try_get(0)
}

/// Each step can be run again: an engine that died in between left a beginning that the next one completes, with the
/// numbers that were written first.
async fn create(conn: &mut MySqlConnection, partitions: u16, shards: usize) -> sqlx::Result<()> {
    for counter in ["last_id", "slots"] {
        kept(conn, counter, 0).await?;
    }
    let partitions = kept(conn, PARTITIONS, i64::from(partitions)).await?;
    let shards = kept(conn, SHARDS, i64::try_from(shards).unwrap_or(i64::MAX)).await?;
    let places: Vec<(i64, i64)> = (0..partitions).map(|it| (it, it % shards.max(1))).collect();
    let placed: i64 = sqlx::query(sql::PLACED).fetch_one(&mut *conn).await?.try_get(0)?;
    if placed == partitions {
        return Ok(());
    }
    for (part, text) in sql::PLACE.parts(&places) {
        let mut values = MySqlArguments::default();
        for (partition, shard) in part {
            bind!(values, *partition, *shard);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

async fn placement(
    conn: &mut MySqlConnection,
    door: &Door,
    shards: usize,
) -> Result<(u16, Vec<usize>), Error> {
    let failed = |it| door.failed(it);
    let partitions = kept(conn, PARTITIONS, 0).await.map_err(failed)?;
    let broken = |problem: String| Error::Placement { at: door.to_string(), problem };
    let partitions = u16::try_from(partitions).ok().filter(|it| *it > 0);
    let partitions =
        partitions.ok_or_else(|| broken("the number of partitions is out of range".to_owned()))?;
    let rows = sqlx::query(sql::PLACEMENT).fetch_all(conn).await.map_err(failed)?;
    let mut placement = Vec::with_capacity(rows.len());
    for (nth, it) in rows.iter().enumerate() {
        let of: usize = row::small(it, 0).map_err(failed)?;
        let shard: usize = row::small(it, 1).map_err(failed)?;
        if of != nth || shard >= shards {
            return Err(broken(format!("partition {of} is in database {shard}")));
        }
        placement.push(shard);
    }
    if placement.len() != usize::from(partitions) {
        return Err(broken(format!("{} of {partitions} partitions are placed", placement.len())));
    }
    Ok((partitions, placement))
}
