//! The databases of one store, and how a cluster is founded and grows. The first of the list is the catalog, which knows
//! which database has which partition. A database of another cluster, or in another place of the list, is refused; one
//! that the cluster does not have yet is left alone until it is added.

pub(super) mod placement;

use super::{
    archive::state::{PLACE, place_of},
    migrate::{self, Locked},
    options::MysqlOptions,
    pauses, row,
    session::DatabaseAddress,
    state::MysqlStore,
    statements::{Many, bind, sql},
    timeouts::{elsewhere, lasting},
};
use crate::Error;
use placement::{CLUSTER, Cluster, MOVE_TERM, Placement, SHARD, SHARDS, read, version};
use sqlx::{Connection as _, MySqlConnection, Row as _, mysql::MySqlArguments};

static INSERT_PLACEMENT: Many = Many::new(sql!(shards, insert_placement));
static INSERT_HOSTED: Many = Many::new(sql!(hosted, insert_initial));

const PARTITIONS: &str = "partitions";
const PLACEMENT: &str = "placement";
/// 1: this database has its first partitions; since then only moves change them.
const HOSTED: &str = "hosted";

impl MysqlStore {
    /// Brings the schema of all databases up to date and answers the names of the migrations that were applied, once
    /// for each database.
    ///
    /// # Errors
    /// Fails like `open`.
    pub async fn migrate(urls: &[String], options: MysqlOptions) -> Result<Vec<String>, Error> {
        Ok(found_at(urls, options.partitions).await?.1.migrated)
    }

    /// Brings one database up to date, and makes it no member of anything: whatever is copied from it can become one.
    /// Answers the names of what it applied.
    ///
    /// # Errors
    /// Fails like `open`.
    pub async fn migrate_alone(url: &str) -> Result<Vec<String>, Error> {
        let address = DatabaseAddress::new(url)?;
        let addresses = std::slice::from_ref(&address);
        locked(addresses, async |database, _, _| migrate::migrate(database, &address).await).await
    }

    /// Makes the databases at the end of the list members of the cluster, which have none of its partitions yet. All
    /// engines should name them before. Answers how many databases there were, and how many there are.
    ///
    /// # Errors
    /// Fails like `open`, and if the first database is not the catalog of a cluster.
    pub async fn add_databases(urls: &[String]) -> Result<(usize, usize), Error> {
        let addresses: Vec<DatabaseAddress> =
            urls.iter().map(|url| DatabaseAddress::new(url)).collect::<Result<_, _>>()?;
        add(&addresses).await
    }
}

impl MysqlStore {
    /// The identity of this cluster: the random number of its foundation, and the address of its catalog.
    #[must_use]
    pub fn cluster(&self) -> (i64, String) {
        let at = self.inner.addresses.first().map_or_else(String::new, ToString::to_string);
        (self.inner.cluster.number, at)
    }
}

/// The databases of a list of addresses, founded as one cluster or found as one.
pub(crate) async fn found_at(
    urls: &[String],
    partitions: u16,
) -> Result<(Vec<DatabaseAddress>, Cluster), Error> {
    if partitions == 0 {
        return Err(Error::Partitions { found: 0 });
    }
    let addresses: Vec<DatabaseAddress> =
        urls.iter().map(|url| DatabaseAddress::new(url)).collect::<Result<_, _>>()?;
    let cluster = found(&addresses, partitions).await?;
    Ok((addresses, cluster))
}

/// Brings every database up to date, and creates the cluster if the first is new. One engine at a time.
async fn found(addresses: &[DatabaseAddress], partitions: u16) -> Result<Cluster, Error> {
    locked(addresses, async |catalog, others, joined| {
        let (first, _) = addresses.split_first().ok_or(Error::NoDatabase)?;
        prepared(catalog, first, others, joined, partitions).await
    })
    .await
}

/// Makes the databases of the list members that the cluster does not have yet, without partitions. Answers how many it
/// had and has.
pub(crate) async fn add(addresses: &[DatabaseAddress]) -> Result<(usize, usize), Error> {
    locked(addresses, async |catalog, others, joined| {
        let (first, _) = addresses.split_first().ok_or(Error::NoDatabase)?;
        let failed = |error| first.failed(error);
        let had = known(catalog).await.map_err(failed)?.ok_or(Error::NoCluster)?;
        if addresses.len() < had {
            return Err(Error::DatabaseCount { named: addresses.len(), known: had });
        }
        let cluster = member(catalog, first, None, 0).await?;
        let archives = place_of(catalog).await.map_err(failed)?;
        for (address, number) in others.iter().zip(1..).skip(had - 1) {
            let conn = join(joined, address, cluster, number).await?.0;
            kept(conn, HOSTED, 1).await.map_err(|error| address.failed(error))?;
            if let Some(place) = archives {
                // From its first task on, nothing is deleted there unarchived.
                kept(conn, PLACE, place).await.map_err(|error| address.failed(error))?;
            }
            let grown = sqlx::query(sql!(shards, add_database)).bind(number + 1).bind(number);
            grown.execute(&mut *catalog).await.map_err(failed)?;
        }
        // Before a partition can come to them.
        elsewhere(pauses::spread(addresses)).await?;
        Ok((had, addresses.len()))
    })
    .await
}

/// Work under the lock of the catalog. What it locks besides is freed with it.
async fn locked<A>(
    addresses: &[DatabaseAddress],
    work: impl AsyncFnOnce(&mut MySqlConnection, &[DatabaseAddress], &mut Vec<Locked>) -> Result<A, Error>,
) -> Result<A, Error> {
    let Some((first, others)) = addresses.split_first() else { return Err(Error::NoDatabase) };
    lasting(Box::pin(async {
        let mut catalog = Locked::wait(first).await?;
        let mut joined = Vec::new();
        let done = work(&mut catalog.conn, others, &mut joined).await;
        for locked in joined {
            locked.free().await;
        }
        catalog.free().await;
        done
    }))
    .await
}

async fn prepared(
    catalog: &mut MySqlConnection,
    first: &DatabaseAddress,
    others: &[DatabaseAddress],
    joined: &mut Vec<Locked>,
    partitions: u16,
) -> Result<Cluster, Error> {
    let failed = |error| first.failed(error);
    let mut migrated = migrate::migrate(catalog, first).await?;
    let named = others.len() + 1;
    // Before any other database is made a member.
    let members = known(catalog).await.map_err(failed)?.unwrap_or(named);
    if named < members {
        return Err(Error::DatabaseCount { named, known: members });
    }
    let number = member(catalog, first, None, 0).await?;
    let others = others.get(..members - 1).unwrap_or_default();
    for (address, nth) in others.iter().zip(1..) {
        migrated.extend(join(joined, address, number, nth).await?.1);
    }
    create(catalog, partitions, members).await.map_err(failed)?;
    let (partitions, placement) = whole_placement(catalog, first).await?;
    host(catalog, &placement, 0).await.map_err(failed)?;
    for ((other, address), nth) in joined.iter_mut().zip(others).zip(1..) {
        host(&mut other.conn, &placement, nth).await.map_err(|error| address.failed(error))?;
    }
    Ok(Cluster { partitions, number, placement, migrated })
}

/// Locks a database, brings it up to date and makes it a member.
async fn join<'l>(
    joined: &'l mut Vec<Locked>,
    address: &DatabaseAddress,
    cluster: i64,
    number: i64,
) -> Result<(&'l mut MySqlConnection, Vec<String>), Error> {
    joined.push(Locked::wait(address).await?);
    let conn = &mut joined.last_mut().ok_or(Error::NoDatabase)?.conn;
    let migrated = migrate::migrate(conn, address).await?;
    member(conn, address, Some(cluster), number).await?;
    Ok((conn, migrated))
}

/// The number of databases of the cluster. `None` if there is no cluster yet.
async fn known(catalog: &mut MySqlConnection) -> sqlx::Result<Option<usize>> {
    let known = sqlx::query(sql!(shards, read_meta)).bind(SHARDS).fetch_optional(catalog).await?;
    known.map(|row| row::small(&row, 0)).transpose()
}

/// Tells a database which partitions it has; only once, because from then on moves do.
async fn host(conn: &mut MySqlConnection, placement: &Placement, shard_no: usize) -> sqlx::Result<()> {
    if kept(conn, HOSTED, 0).await? != 0 {
        return Ok(());
    }
    let here: Vec<i32> = placement.partitions(shard_no).map(row::partition_no).collect();
    let mut tx = conn.begin().await?;
    for (part, text) in INSERT_HOSTED.parts(&here) {
        let mut values = MySqlArguments::default();
        for number in part {
            bind!(values, *number);
        }
        sqlx::query_with(text, values).execute(&mut *tx).await?;
    }
    sqlx::query(sql!(shards, set_meta)).bind(1_i64).bind(HOSTED).execute(&mut *tx).await?;
    tx.commit().await
}

/// Makes a new database a member of a cluster, or checks that it is one. Returns the number of the cluster.
async fn member(
    conn: &mut MySqlConnection,
    address: &DatabaseAddress,
    of: Option<i64>,
    number: i64,
) -> Result<i64, Error> {
    let failed = |error| address.failed(error);
    let shard = kept(conn, SHARD, number).await.map_err(failed)?;
    if shard != number {
        return Err(Error::WrongPlace { at: address.to_string(), found: shard, named: number });
    }
    let cluster = match of {
        Some(number) => number,
        None => fresh(conn).await.map_err(failed)?,
    };
    let existing = kept(conn, CLUSTER, cluster).await.map_err(failed)?;
    match of {
        Some(number) if number != existing => Err(Error::OtherCluster { at: address.to_string() }),
        _ => Ok(existing),
    }
}

/// A random number for a new cluster.
async fn fresh(conn: &mut MySqlConnection) -> sqlx::Result<i64> {
    sqlx::query(sql!(shards, draw_number)).fetch_one(conn).await?.try_get(0)
}

/// Stores a value unless one is stored. Returns the stored value.
async fn kept(conn: &mut MySqlConnection, name: &'static str, value: i64) -> sqlx::Result<i64> {
    sqlx::query(sql!(shards, insert_meta)).bind(name).bind(value).execute(&mut *conn).await?;
    sqlx::query(sql!(shards, read_meta)).bind(name).fetch_one(conn).await?.try_get(0)
}

/// Each step can be run again: an engine that died in between left a beginning that the next one completes, with the
/// numbers that were written first.
async fn create(conn: &mut MySqlConnection, partitions: u16, shards: usize) -> sqlx::Result<()> {
    for counter in ["last_id", "slots", PLACEMENT, MOVE_TERM] {
        kept(conn, counter, 0).await?;
    }
    let partitions = kept(conn, PARTITIONS, i64::from(partitions)).await?;
    let shards = kept(conn, SHARDS, i64::try_from(shards).unwrap_or(i64::MAX)).await?;
    let places: Vec<(i64, i64)> = (0..partitions).map(|nth| (nth, nth % shards.max(1))).collect();
    let placed: i64 = sqlx::query(sql!(shards, count_placed)).fetch_one(&mut *conn).await?.try_get(0)?;
    if placed == partitions {
        return Ok(());
    }
    for (part, text) in INSERT_PLACEMENT.parts(&places) {
        let mut values = MySqlArguments::default();
        for (partition, shard) in part {
            bind!(values, *partition, *shard);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The placement in its current state, and with it the number of partitions.
async fn whole_placement(
    conn: &mut MySqlConnection,
    address: &DatabaseAddress,
) -> Result<(u16, Placement), Error> {
    let failed = |error| address.failed(error);
    let partitions = kept(conn, PARTITIONS, 0).await.map_err(failed)?;
    let found = u16::try_from(partitions).ok().filter(|partitions| *partitions > 0);
    let problem = || "the number of partitions is out of range".to_owned();
    let partitions = found.ok_or_else(|| Error::Placement { at: address.to_string(), problem: problem() })?;
    let (version, members) = version(conn).await.map_err(failed)?;
    let placement = read(conn, version, members).await.map_err(failed)?;
    let problem = match placement {
        Some(placement) if placement.shard_of.len() == usize::from(partitions) => {
            return Ok((partitions, placement));
        }
        Some(placement) => format!("{} of {partitions} partitions are placed", placement.shard_of.len()),
        None => "a partition is missing, or in a database that there is not".to_owned(),
    };
    Err(Error::Placement { at: address.to_string(), problem })
}
