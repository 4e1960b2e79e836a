//! Opens a store: finds or founds its cluster, starts the writers of each database and the polling of the placement.
//! Must not serve a call.

use super::{
    background::spawn,
    floor::Floors,
    ids::{Ids, counted},
    insert::ask::Context,
    job::Job,
    line::{self, JobQueue, WriterKind, writers_in_all},
    options::MysqlOptions,
    parts::Shard,
    pauses::Spread,
    routing::{keep, state::Routing},
    session::DatabaseAddress,
    shards::found_at,
    state::{MySqlState, MysqlStore},
    writer::Writer,
};
use crate::Error;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::{sync::Semaphore, task::JoinHandle};

/// Writers with different numbers never touch the same row of the account. The numbers go round.
const SLOTS: i64 = 64;
/// Connections to the catalog besides those of its tasks: ids, settings, executors.
const CATALOG_CONNECTIONS: u32 = 2;
/// Connections to the catalog for tokens and the audit: a flood of changes by callers delays no ids.
const ACCESS_CONNECTIONS: u32 = 2;

impl MysqlStore {
    /// Opens the databases of a cluster, the catalog first; creates it if they are empty, and brings their schema up
    /// to date. Databases at the end of the list that the cluster does not have are left alone until they are added:
    /// then they are used without opening it again. Needs a runtime, and lives in it.
    ///
    /// # Errors
    /// When one cannot be reached, is no database of ours or of another cluster, or is newer than this program.
    pub fn open<'a>(urls: &'a [String], options: MysqlOptions) -> BoxFuture<'a, Result<Self, Error>> {
        Box::pin(async move {
            let (addresses, mut cluster) = found_at(urls, options.partitions).await?;
            let placement = std::mem::take(&mut cluster.placement);
            let first = addresses.first().ok_or(Error::NoDatabase)?;
            let catalog = first.connections(CATALOG_CONNECTIONS);
            let access_connections = first.connections(ACCESS_CONNECTIONS);
            let writers = options.writers_per_database.clamp(1, 8);
            // Each database has the same numbers.
            let slots = writers_in_all(writers);
            let mut slot = counted(&catalog, "slots", slots).await.map_err(|error| first.failed(error))?;
            slot -= slots;
            let ids = Ids::new(catalog.clone());
            let context = Arc::new(Context { partitions: cluster.partitions, ids, late: Arc::default() });
            let mut running = Vec::new();
            let shards =
                addresses.iter().map(|address| start(address, &options, slot, &context, &mut running));
            let shards: Vec<Shard> = shards.collect();
            let migrated = std::mem::take(&mut cluster.migrated);
            let routing = Arc::new(Routing::new(cluster.number, placement));
            let inner = Arc::new(MySqlState {
                cluster,
                routing: Arc::clone(&routing),
                shards,
                addresses,
                access: access_connections,
                catalog,
                floors: Floors::new(Arc::clone(&context.late)),
                context,
                spread: Spread::default(),
                pruning: parking_lot::Mutex::default(),
            });
            running.push(spawn(keep(Arc::downgrade(&inner), routing)));
            Ok(Self { inner, migrated, running: parking_lot::Mutex::new(running), archive: None })
        })
    }
}

/// Starts the writers of one database.
fn start(
    address: &DatabaseAddress,
    options: &MysqlOptions,
    mut slot: i64,
    context: &Arc<Context>,
    running: &mut Vec<JoinHandle<()>>,
) -> Shard {
    let mut started = |lane: WriterKind, (line, writers): (Arc<JobQueue<Job>>, usize)| {
        for _ in 0..writers {
            slot += 1;
            let writer_slot = i32::try_from(slot.rem_euclid(SLOTS)).unwrap_or_default();
            let writer = Writer::new(address, (lane, Arc::clone(&line)), context, writer_slot);
            running.push(spawn(writer.run()));
        }
        line
    };
    let writers = options.writers_per_database.clamp(1, 8);
    let lines =
        WriterKind::ALL.map(|lane| line::lines(lane, writers).map(|line| started(lane, line)).collect());
    let readers = options.readers_per_database.max(2);
    let long = Arc::new(Semaphore::new(usize::try_from(readers / 2).unwrap_or(1)));
    Shard { lines, readers: address.connections(readers), long }
}
