//! The connections of blocking readers, from a pool for each node. Remembers which node of a Cluster has a stream, so that a reader
//! does not ask another one first. Decides nothing about a stream.

use super::streams::Stream;
use parking_lot::Mutex;
use punctual_redis_link::{BlockingConnection, ConnectionPool, Failure, Lent, Node, RedisEndpoints};
use std::{collections::HashMap, sync::Arc};

/// Readers that block at the same time on one node: one a stream that is waited at.
const READERS_MAX: u32 = 4_096;
/// Streams whose node is remembered.
const HOMES_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct Readers {
    place: Arc<RedisEndpoints>,
    /// The pools by node. `None` is the address itself.
    by_node: Mutex<HashMap<Option<Node>, Arc<ConnectionPool<BlockingConnection>>>>,
    /// The nodes by the stream's key.
    homes: Mutex<HashMap<String, Node>>,
}

impl Readers {
    pub(super) fn new(place: &Arc<RedisEndpoints>) -> Self {
        Self { place: Arc::clone(place), by_node: Mutex::default(), homes: Mutex::default() }
    }

    pub(super) async fn lend(&self, stream: &Stream) -> Result<Lent<BlockingConnection>, Failure> {
        let home = self.homes.lock().get(&stream.key).cloned();
        let pool = Arc::clone(
            self.by_node
                .lock()
                .entry(home.clone())
                .or_insert_with(|| Arc::new(ConnectionPool::of_readers(&self.place, READERS_MAX))),
        );
        let mut connection = pool.lend().await?;
        connection.go_to(home);
        Ok(connection)
    }

    /// A node has answered that another node has the stream.
    pub(super) fn moved(&self, stream: &Stream, node: Node) {
        let mut homes = self.homes.lock();
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.insert(stream.key.clone(), node);
    }
}
