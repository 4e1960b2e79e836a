//! Connections to Redis. A `Link` is one shared connection that is made when it is first needed, and made again after
//! it broke, or fell silent while the server answers on another one; it never repeats a command by itself. A `Direct` is a connection of one blocking reader.

use crate::{
    error::Error,
    redis::address::{Topology, beside},
};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisError,
    RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection, cluster_async::ClusterConnection,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

/// After a failed connect, callers are told so at once for this long: they queue up behind each other otherwise.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// An answer takes a millisecond; after this the connection is doubted, and another one is made.
const DOUBT_AFTER: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) connect: Duration,
    /// Longer than any command here takes in Redis: what ends by it may have happened all the same.
    pub(crate) response: Duration,
}

pub(crate) struct Link {
    topology: Arc<Topology>,
    patience: Patience,
    line: Mutex<ConnectionSlot>,
    /// Held by the one of all who makes a connection: the executor that has an answer does not wait for it.
    connecting: Mutex<()>,
}

#[derive(Default)]
struct ConnectionSlot {
    wire: Option<RedisConnection>,
    /// Which wire this is: one that broke is thrown away once, not by everyone who used it.
    number: u64,
    refused_at: Option<Instant>,
}

impl ConnectionSlot {
    fn wire(&self) -> Option<(RedisConnection, u64)> {
        Some((self.wire.clone()?, self.number))
    }
}

#[derive(Clone)]
enum RedisConnection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl RedisConnection {
    async fn run(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        match self {
            Self::One(connection) => commands.query_async(connection).await,
            Self::Cluster(connection) => commands.query_async(connection).await,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(topology: Arc<Topology>, patience: Patience) -> Self {
        Self { topology, patience, line: Mutex::default(), connecting: Mutex::default() }
    }

    /// Every key of it has the same hash tag. One answer a command; a refusal of one is in its place and stops
    /// no other.
    pub(crate) async fn run(&self, commands: &mut Pipeline) -> Result<Vec<Value>, Error> {
        commands.ignore_errors();
        let (mut wire, number) = self.wire().await?;
        match self.answers(&mut wire, number, commands).await {
            Ok(answers) => {
                if answers.iter().any(is_demoted) {
                    self.discard(number).await;
                }
                Ok(answers)
            }
            Err(error) => {
                if is_broken(&error) {
                    self.discard(number).await;
                }
                Err(Error::from_redis(error))
            }
        }
    }

    async fn answers(
        &self,
        wire: &mut RedisConnection,
        number: u64,
        commands: &Pipeline,
    ) -> RedisResult<Vec<Value>> {
        let is_one = matches!(wire, RedisConnection::One(_));
        let mut running = Box::pin(wire.run(commands));
        if !is_one {
            // A Cluster's connections are its own business.
            return running.await;
        }
        if let Ok(answered) = timeout(DOUBT_AFTER, &mut running).await {
            return answered;
        }
        tokio::select! {
            biased;
            answered = &mut running => answered,
            () = self.is_replaced(number) => {
                Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the connection fell silent").into())
            }
        }
    }

    /// Until another wire has taken the place of this one, because the server answers there; for as long as it does not,
    /// the server is slow or away, and a caller that waits continues until its limit.
    async fn is_replaced(&self, number: u64) {
        loop {
            let connecting = self.connecting.lock().await;
            let is_this = |line: &ConnectionSlot| line.number == number && line.wire.is_some();
            if !is_this(&*self.line.lock().await) {
                return;
            }
            let answering = async {
                let mut wire = self.connect().await?;
                wire.run(redis::pipe().cmd("PING")).await?;
                Ok(wire)
            };
            if let Ok(wire) = in_time(self.patience.connect, answering).await {
                let mut line = self.line.lock().await;
                if is_this(&line) {
                    *line = ConnectionSlot { wire: Some(wire), number: number + 1, refused_at: None };
                }
                return;
            }
            drop(connecting);
            sleep(DOUBT_AFTER).await;
        }
    }

    /// True: keys of several tags may stand in one pipeline.
    pub(crate) fn is_one_server(&self) -> bool {
        !matches!(*self.topology, Topology::Cluster { .. })
    }

    async fn wire(&self) -> Result<(RedisConnection, u64), Error> {
        if let Some(wire) = self.line.lock().await.wire() {
            return Ok(wire);
        }
        let _connecting = self.connecting.lock().await;
        {
            let line = self.line.lock().await;
            if let Some(wire) = line.wire() {
                return Ok(wire);
            }
            if line.refused_at.is_some_and(|at| at.elapsed() < REST_AFTER_REFUSAL) {
                return Err(Error::ConnectTimeout);
            }
        }
        let connected = in_time(self.patience.connect, self.connect()).await;
        let mut line = self.line.lock().await;
        match connected {
            Ok(wire) => {
                *line =
                    ConnectionSlot { wire: Some(wire.clone()), number: line.number + 1, refused_at: None };
                Ok((wire, line.number))
            }
            Err(error) => {
                line.refused_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    async fn discard(&self, number: u64) {
        let mut line = self.line.lock().await;
        if line.number == number {
            line.wire = None;
        }
    }

    async fn connect(&self) -> RedisResult<RedisConnection> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.patience.response));
        match &*self.topology {
            Topology::Cluster { client, .. } => {
                Ok(RedisConnection::Cluster(client.get_async_connection().await?))
            }
            Topology::Single(client) => open(client, &config).await.map(RedisConnection::One),
            Topology::Sentinel(client) => {
                let client = client.lock().await.async_get_client().await?;
                open(&client, &config).await.map(RedisConnection::One)
            }
        }
    }
}

async fn open(client: &Client, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    client.get_multiplexed_async_connection_with_config(config).await
}

/// Asks for a connection; the time is over all its steps.
async fn in_time<T>(connect: Duration, work: impl Future<Output = RedisResult<T>>) -> Result<T, Error> {
    timeout(connect, work).await.map_err(|_| Error::ConnectTimeout)?.map_err(Error::Connect)
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error() || is_read_only(error)
}

fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

/// A master that has become a replica continues answering, with refusals.
fn is_demoted(answer: &Value) -> bool {
    match answer {
        Value::ServerError(error) => is_read_only(&error.clone().into()),
        _ => false,
    }
}

/// The connection of one reader, which may block on it. Drop it when a read failed.
pub(crate) struct Direct {
    connection: MultiplexedConnection,
    client_id: i64,
    info: ConnectionInfo,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// `host:port` of a Cluster's node.
pub(crate) type Node = (String, u16);

impl Direct {
    /// `at`: the node that another one named; else where the address says.
    pub(crate) async fn connect(link: &Link, at: Option<&Node>) -> Result<Self, Error> {
        match &*link.topology {
            Topology::Single(client) => Self::to(client.get_connection_info().clone(), link.patience).await,
            Topology::Sentinel(client) => {
                let asked = async { client.lock().await.async_get_client().await };
                let client = in_time(link.patience.connect, asked).await?;
                Self::to(client.get_connection_info().clone(), link.patience).await
            }
            Topology::Cluster { seeds, .. } => Self::to_node(seeds, at, link.patience).await,
        }
    }

    async fn to_node(seeds: &[ConnectionInfo], at: Option<&Node>, patience: Patience) -> Result<Self, Error> {
        let named = at.zip(seeds.first()).map(|((host, port), seed)| beside(seed, host.clone(), *port));
        let mut failed = Error::ConnectTimeout;
        for info in named.into_iter().chain(seeds.iter().cloned()) {
            match Self::to(info, patience).await {
                Ok(direct) => return Ok(direct),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn to(info: ConnectionInfo, patience: Patience) -> Result<Self, Error> {
        let opened = async {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let mut connection = open(&Client::open(info.clone())?, &config).await?;
            let client_id = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
            Ok((connection, client_id))
        };
        let (connection, client_id) = in_time(patience.connect, opened).await?;
        Ok(Self { connection, client_id, info })
    }

    /// The node it is connected to, with another port or host as a redirection says; a host that is not said is the same.
    pub(crate) fn redirected(&self, address: &str) -> Option<Node> {
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        match (host, self.info.addr()) {
            ("", ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. }) => {
                Some((own.clone(), port))
            }
            _ => Some((host.trim_matches(['[', ']']).to_owned(), port)),
        }
    }

    /// Sends a pipeline that blocks for at most `block`. When `given_up` comes first, Redis is asked to let go: what
    /// it has handed over by then is still read.
    pub(crate) async fn run(
        &mut self,
        commands: &mut Pipeline,
        limit: Duration,
        given_up: impl Future<Output = ()>,
    ) -> Result<Vec<Value>, Error> {
        commands.ignore_errors();
        let (info, client_id) = (self.info.clone(), self.client_id);
        let work = timeout(limit, commands.query_async(&mut self.connection));
        tokio::pin!(work);
        let done = tokio::select! {
            biased;
            done = &mut work => done,
            () = given_up => tokio::select! {
                biased;
                done = &mut work => done,
                () = unblock(info, client_id) => work.await,
            },
        };
        done.map_err(|_| Error::Timeout)?.map_err(Error::from_redis)
    }
}

/// If it cannot be done the reader lets go by itself, at the end of its time.
async fn unblock(info: ConnectionInfo, client_id: i64) {
    let asked = async {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(1)));
        let mut connection = open(&Client::open(info)?, &config).await?;
        // 0: it does not block, or not yet: what we sent before, on the other connection, may be read after this.
        while redis::cmd("CLIENT").arg("UNBLOCK").arg(client_id).query_async::<i64>(&mut connection).await?
            == 0
        {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    };
    if let Err(error) = in_time(Duration::from_secs(1), asked).await {
        tracing::debug!(error = %error, "a blocked read could not be ended early");
    }
}
