//! The hot set in Redis, shared by many engines: one server, a Cluster, or a master under Sentinels. Each
//! step is a script (`lua/`), atomic in one slot; all except `drain` can be repeated safely. Never waits
//! inside Redis, and never keeps it busy for more than a few milliseconds: batches are split into calls of at
//! most `CALL_MAX` entries.
//!
//! In reading order: `script`, `identity` (the owning cluster), `keys`, `codec` (names and bytes),
//! `partition` (due tasks), `signals` (messages between engines). Connections are those of
//! `punctual-redis-link`.

mod problem;

mod codec;
mod identity;
mod keys;
mod message;
mod script;

mod limiter;
mod partition;

mod doctor;
mod server;
mod signals;

pub use self::{
    doctor::{Marker, RedisDoctor, RedisServer, ScriptLooks},
    identity::ClusterName,
    limiter::{RateClock, RedisLimiter},
    problem::RedisProblem,
    server::MemoryUse,
    signals::RedisSignals,
};

use self::{
    identity::{Guarded, Identity},
    keys::{Keys, PartitionKeys},
    script::SCRIPTS,
    server::Info,
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use punctual_contract::{
    Error, Hot,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use punctual_redis_link::{RedisEndpoints, TimeLimits};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// The maximum number of entries in one call of a script that reads or moves them: about 4 ms of Redis.
const CALL_MAX: usize = 1_000;
/// Connections for bulk, besides the one for urgent calls.
const BULK_CONNECTIONS: usize = 2;
/// Well below the time after which an engine considers the hot set unavailable: by then another connection
/// has been opened.
const DOUBT_AFTER: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// The number of partitions, as in the store; 1 at least.
    pub partitions: u16,
    /// The prefix of every key: engines with the same prefix share one hot set.
    pub prefix: String,
    /// The cluster that owns these keys. The first engine writes its name beside them, and later engines compare it.
    /// `None` means not checked.
    pub cluster: Option<ClusterName>,
    /// The memory that the preloader may fill, or `None` means the servers' `maxmemory`, if set.
    pub memory_budget_bytes: Option<u64>,
    pub connect_timeout: Duration,
    /// The time limit of one batch of calls. A batch that takes longer may have been executed.
    pub response_timeout: Duration,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            partitions: 64,
            prefix: "punctual".to_owned(),
            cluster: None,
            memory_budget_bytes: None,
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub struct RedisHot {
    keys: Keys,
    identity: Arc<Identity>,
    place: Arc<RedisEndpoints>,
    /// The connection for calls that a caller waits for: small, and not queued behind large ones.
    quick: Arc<Guarded>,
    bulk: Vec<Guarded>,
    next_bulk: AtomicUsize,
    memory_budget_bytes: Option<u64>,
}

impl RedisHot {
    /// `url`: `redis://[user:password@]host:port[/db]`, `redis+cluster://[user:password@]host:port,...` or
    /// `redis+sentinel://[user:password@]host:port,.../master[/db]`; with `rediss` instead of `redis` over
    /// TLS, and `?tls_ca=FILE&tls_cert=FILE&tls_key=FILE` at the end, unless the machine's own authorities
    /// are used.
    ///
    /// # Errors
    /// When the address is invalid, no server answers there, a server is too old or set to evict keys, or the
    /// keys of this prefix belong to another cluster.
    pub fn connect<'a>(url: &'a str, options: RedisOptions) -> BoxFuture<'a, Result<Self, Error>> {
        Box::pin(async move {
            match Self::begin(url, options).await? {
                (hot, None) => Ok(hot),
                (_, Some(away)) => Err(away),
            }
        })
    }

    /// The same, but an unavailable Redis is no error. Until it answers, every call fails and does nothing; the first
    /// `is_whole` that it answers checks it as `connect` does. A Redis that `connect` would refuse is not used then
    /// or later. Returns why it was not reached, or `None` if it was.
    ///
    /// # Errors
    /// Fails like `connect`, except if Redis does not answer.
    pub fn begin<'a>(
        url: &'a str,
        options: RedisOptions,
    ) -> BoxFuture<'a, Result<(Self, Option<Error>), Error>> {
        Box::pin(async move {
            let opened = Self::open(url, options);
            let hot = opened.map_err(|problem| Error::did_not_happen("connect to Redis", problem))?;
            match hot.identity.look(&hot.quick).await {
                Ok(()) => Ok((hot, None)),
                Err(failure) if failure.problem.is_away() => {
                    Ok((hot, Some(failure.into_error("connect to Redis"))))
                }
                Err(failure) => Err(failure.into_error("connect to Redis")),
            }
        })
    }

    fn open(url: &str, options: RedisOptions) -> Result<Self, RedisProblem> {
        let (connect, response) = (options.connect_timeout, options.response_timeout);
        let limits = TimeLimits { connect, response, doubt: DOUBT_AFTER, rest: Duration::ZERO };
        let keys = Keys::new(&options.prefix, options.partitions)?;
        let place = RedisEndpoints::new(url, limits, SCRIPTS.all())?;
        let mut bulk = Vec::new();
        let identity = Arc::new(Identity::new(&keys, &options.prefix, options.cluster));
        for _ in 0..BULK_CONNECTIONS {
            bulk.push(Guarded::new(place.router(), &identity));
        }
        Ok(Self {
            keys,
            quick: Arc::new(Guarded::new(place.router(), &identity)),
            identity,
            place,
            bulk,
            next_bulk: AtomicUsize::new(0),
            memory_budget_bytes: options.memory_budget_bytes,
        })
    }

    /// The signals between engines of this prefix. Listens from now on, or from when Redis answers; the
    /// caller must also read it.
    ///
    /// # Errors
    /// When a server answers and refuses.
    pub fn signals(&self) -> BoxFuture<'_, Result<RedisSignals, Error>> {
        Box::pin(async move {
            RedisSignals::new(Arc::clone(&self.place), Arc::clone(&self.quick), self.keys.signals()).await
        })
    }

    /// The fill level of the servers: near the budget, the preloader shortens its horizon.
    ///
    /// # Errors
    /// When a server does not answer.
    pub async fn memory(&self) -> Result<MemoryUse, Error> {
        let infos = self.infos("look at Redis's memory").await?;
        if let Some(policy) = infos.iter().find_map(Info::evicts) {
            tracing::error!(policy, "maxmemory-policy lets Redis throw tasks away; set it to noeviction");
        }
        Ok(server::memory(&infos, self.memory_budget_bytes))
    }

    /// Logs a reason not to use this Redis once, when it is found.
    async fn look_whose_it_is(&self) -> Result<(), Error> {
        let said = || self.identity.refusal().map(|problem| problem.to_string());
        let before = said();
        let Err(failure) = self.identity.look(&self.quick).await else { return Ok(()) };
        if failure.problem.is_of_servers() && said() != before {
            tracing::error!(problem = %failure.problem, "this Redis must not be used, and nothing is written to it");
        }
        Err(failure.into_error("look whose the keys in Redis are"))
    }

    async fn infos(&self, doing: &'static str) -> Result<Vec<Info>, Error> {
        let answers = self
            .bulk()
            .run_everywhere(redis::cmd("INFO"))
            .await
            .map_err(|failure| failure.into_error(doing))?;
        server::read(answers)
            .ok_or_else(|| Error::did_not_happen(doing, RedisProblem::answer("INFO as text")))
    }

    /// Round robin, so that one call does not queue behind another.
    fn bulk(&self) -> &Guarded {
        let turn = self.next_bulk.fetch_add(1, Relaxed);
        self.bulk.get(turn % self.bulk.len().max(1)).unwrap_or(&self.quick)
    }

    fn keys_of(&self, doing: &'static str, partition: Partition) -> Result<&PartitionKeys, Error> {
        self.keys.partitions().get(usize::from(partition.0)).ok_or_else(|| {
            let problem = format!(
                "partition {} does not exist: there are {}",
                partition.0,
                self.keys.partitions().len()
            );
            Error::did_not_happen(doing, problem)
        })
    }
}

#[async_trait]
impl Hot for RedisHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.load_into_due(entries).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        self.drain_due(tenures, until, limit).await
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.withdraw_from_due(partition, id, fence).await
    }

    async fn count_due(&self) -> Result<usize, Error> {
        self.due_in_all().await
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.look_whose_it_is().await?;
        self.are_whole(tenures).await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.clear_partition(tenure).await
    }

    fn stranger(&self) -> Option<String> {
        self.identity.stranger()
    }

    fn refusal(&self) -> Option<String> {
        self.identity.refusal().map(|problem| problem.to_string())
    }

    async fn fullness(&self) -> Result<u32, Error> {
        let infos = self.infos("look at Redis's memory").await?;
        Ok(server::fullness(&infos, self.memory_budget_bytes))
    }
}
