//! The endpoints of Redis: an address with its limits, and the state that all connections to it share. Opens no
//! connection.

use crate::{
    address::Address,
    error::LinkError,
    script::Script,
    server::{RedisServer, TimeLimits},
};
use redis::cluster::ClusterClient;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The number of times that a connection to one server has fallen silent, whichever it was.
#[derive(Debug, Default)]
pub(crate) struct Silences(AtomicU64);

impl Silences {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// A connection that was opened at this count is silent. Those of the same count are counted once: later
    /// connections are not doubted for it.
    pub(crate) fn of_one_made_at(&self, silences: u64) -> u64 {
        match self.0.compare_exchange(silences, silences + 1, Relaxed, Relaxed) {
            Ok(_) => silences + 1,
            Err(now) => now,
        }
    }
}

pub struct RedisEndpoints {
    servers: Vec<Arc<RedisServer>>,
    pub(crate) cluster: Option<ClusterClient>,
    pub limits: TimeLimits,
    pub(crate) scripts: Vec<&'static Script>,
    pub(crate) silences: Silences,
}

impl fmt::Debug for RedisEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEndpoints").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl RedisEndpoints {
    /// `scripts`: those that are called by their hash.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn new(
        url: &str,
        limits: TimeLimits,
        scripts: impl IntoIterator<Item = &'static Script>,
    ) -> Result<Arc<Self>, LinkError> {
        let Address { servers, cluster } = Address::parse(url, limits)?;
        let servers = servers.into_iter().map(Arc::new).collect();
        let (scripts, silences) = (scripts.into_iter().collect(), Silences::default());
        Ok(Arc::new(Self { servers, cluster, limits, scripts, silences }))
    }

    /// A script may touch the keys of one slot only.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Any of these serves calls without keys.
    #[must_use]
    pub fn servers(&self) -> &[Arc<RedisServer>] {
        &self.servers
    }
}
