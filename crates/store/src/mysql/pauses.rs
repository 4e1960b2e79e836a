//! Pauses, which every database holds to by itself: a transaction that hands tasks over share-locks the database's epoch until it
//! ends, and reads the paused queues when it is not the one it knows. What an engine knows decides nothing. So it is
//! with the labels that queues declare, and a transaction that stores tasks with labels: they have the same epoch.
//!
//! | step of a pause, a resume, or another declaration of labels | after a crash |
//! |---|---|
//! | 1 the setting, its line of history and `pauses_revision`: one transaction in the catalog | engines spread it within a second |
//! | 2 in each database, one after the other: the epoch, exclusively (waits for hand-overs under way), and the list | as 1: the rest is spread |
//! | 3 the answer | it holds everywhere |
//!
//! A revision represents one list, and a database only ever turns to a later one: an engine that is late with an older list
//! changes nothing. A database that joins, or gets a partition, is spread to before it can hand anything over.

use super::{
    connections::Connections,
    labels::declared,
    session::DatabaseAddress,
    shards::placement,
    statements::{Many, bind, sql},
    timeouts::{READ, within},
};
use crate::Error;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_domain::name::QueueKey;
use sqlx::{
    Connection as _, MySqlConnection, Row as _,
    mysql::{MySqlArguments, MySqlRow},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::timeout;

/// The name in the catalog of the revision of the last change that paused or resumed a queue.
pub(super) const PAUSES_REVISION: &str = "pauses_revision";
/// The time limit for one database before the others are notified; more than the wait for a lock.
const PATIENCE: Duration = Duration::from_secs(15);

static ADD: Many = Many::new(sql!(settings, insert_paused));

/// The paused queues of one database and the labels that it enters, as of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The epoch of the last read. `None` if there was none.
    epoch: Option<i64>,
    queues: HashSet<QueueKey>,
    labels: HashMap<QueueKey, Vec<String>>,
}

impl Pauses {
    /// Reads the pauses in a transaction that holds the epoch: they are of that epoch, and stay so until it ends.
    pub(crate) async fn look(&mut self, conn: &mut MySqlConnection, epoch: i64) -> sqlx::Result<()> {
        if self.epoch != Some(epoch) {
            let rows = sqlx::query(sql!(settings, list_paused)).fetch_all(&mut *conn).await?;
            self.queues = rows.iter().map(queue).collect::<sqlx::Result<_>>()?;
            self.labels.clear();
            for (queue, label) in declared::declared(conn).await? {
                self.labels.entry(queue).or_default().push(label);
            }
            self.epoch = Some(epoch);
        }
        Ok(())
    }

    /// The labels of a queue that this database enters.
    pub(crate) fn labels_of(&self, queue: &QueueKey) -> &[String] {
        self.labels.get(queue).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has(&self, queue: &QueueKey) -> bool {
        !self.queues.is_empty() && self.queues.contains(queue)
    }
}

fn queue(row: &MySqlRow) -> sqlx::Result<QueueKey> {
    super::row::queue_key(row, 0, 1)
}

/// The state that this process knows to be in every database: the revision of the pauses, and the number of
/// databases.
#[derive(Debug, Default)]
pub(crate) struct Spread(Mutex<Option<(i64, usize)>>);

impl Spread {
    /// This process has seen that it holds everywhere.
    pub(crate) fn is_current(&self, revision: i64, databases: usize) -> bool {
        *self.0.lock() == Some((revision, databases))
    }

    /// Sees that what is in the catalog holds everywhere. Cheap when this process has seen that it does.
    pub(crate) async fn mend(
        &self,
        catalog: &Connections,
        addresses: &[DatabaseAddress],
    ) -> Result<(), Error> {
        let look = async {
            let mut conn = catalog.acquire().await?;
            let revision = sqlx::query(sql!(shards, read_meta)).bind(PAUSES_REVISION);
            let revision: i64 = revision.fetch_one(&mut *conn).await?.try_get(0)?;
            Ok::<_, sqlx::Error>((revision, placement::version(&mut conn).await?.1))
        };
        let existing = within(READ, look).await?;
        if *self.0.lock() != Some(existing) {
            let spread = spread(addresses).await?;
            *self.0.lock() = Some(spread);
        }
        Ok(())
    }
}

/// Brings the pauses of the catalog to every database of the cluster. Answers what holds now: revision, databases.
pub(crate) async fn spread(addresses: &[DatabaseAddress]) -> Result<(i64, usize), Error> {
    let first = addresses.first().ok_or(Error::NoDatabase)?;
    let look = async {
        let mut catalog = first.writer().await?.conn;
        let wanted = wanted(&mut catalog).await?;
        drop(catalog.close().await);
        Ok(wanted)
    };
    let silent = || Err(Error::Silent { at: first.to_string() });
    let wanted = timeout(PATIENCE, look)
        .await
        .map_or_else(|_| silent(), |result| result.map_err(|error| first.failed(error)))?;
    let members = wanted.members;
    let too_few = members > addresses.len();
    let mut failed = too_few.then(|| Error::DatabaseCount { named: addresses.len(), known: members });
    for address in addresses.iter().take(members) {
        // One database that is unavailable must not keep the others from holding to it.
        match timeout(PATIENCE, turn(address, &wanted)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed = Some(address.failed(error)),
            Err(_) => failed = Some(Error::Silent { at: address.to_string() }),
        }
    }
    failed.map_or(Ok((wanted.revision, members)), Err)
}

/// The current pauses and labels: read together, of one revision, hence of one list.
struct DesiredPauses {
    revision: i64,
    members: usize,
    queues: Vec<QueueKey>,
    labels: BTreeSet<(QueueKey, String)>,
}

async fn wanted(catalog: &mut MySqlConnection) -> sqlx::Result<DesiredPauses> {
    let mut tx = catalog.begin().await?;
    let revision = sqlx::query(sql!(settings, lock_pauses_revision)).fetch_one(&mut *tx).await?.try_get(0)?;
    let members = placement::version(&mut tx).await?.1;
    let rows = sqlx::query(sql!(settings, list_wanted_pauses)).fetch_all(&mut *tx).await?;
    let queues = rows.iter().map(queue).collect::<sqlx::Result<_>>()?;
    let labels = declared::wanted(&mut tx).await?;
    tx.rollback().await?;
    Ok(DesiredPauses { revision, members, queues, labels })
}

/// One database holds to these from its commit on.
async fn turn(address: &DatabaseAddress, wanted: &DesiredPauses) -> sqlx::Result<()> {
    let mut conn = address.writer().await?.conn;
    let mut tx = conn.begin().await?;
    let turn = sqlx::query(sql!(settings, advance_pause_epoch)).bind(wanted.revision).bind(wanted.revision);
    if turn.execute(&mut *tx).await?.rows_affected() > 0 {
        sqlx::query(sql!(settings, delete_paused)).execute(&mut *tx).await?;
        for (part, text) in ADD.parts(&wanted.queues) {
            let mut values = MySqlArguments::default();
            for queue in part {
                bind!(values, queue.namespace.as_str(), queue.queue.as_str());
            }
            sqlx::query_with(text, values).execute(&mut *tx).await?;
        }
        declared::declare(&mut tx, &wanted.labels).await?;
    }
    tx.commit().await?;
    drop(conn.close().await);
    Ok(())
}
