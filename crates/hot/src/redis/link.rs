//! Calls to Redis, whatever it is made of. A call names keys of one hash tag only; calls of different tags go in one
//! pipeline to one server, and side by side to a Cluster.

use super::{
    address::{Address, Limits, Master},
    direct::{Direct, Silences},
    problem::{Failure, RedisProblem, checked, is_no_script},
    script::SCRIPTS,
};
use futures_util::{FutureExt as _, future::join_all};
use redis::{
    Cmd, RedisResult, Value,
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo},
};
use std::{fmt, sync::Arc};
use tokio::{sync::OnceCell, time::timeout};

pub(crate) enum Link {
    Direct(Box<Direct>),
    Cluster(Box<LazyCluster>),
}

/// A Cluster, connected to when it is first needed. Then it finds its nodes again by itself, and may send a call again that
/// was not answered: each can be repeated.
pub(crate) struct LazyCluster {
    place: Arc<RedisEndpoints>,
    client: redis::cluster::ClusterClient,
    connection: OnceCell<ClusterConnection>,
}

impl LazyCluster {
    async fn connection(&self) -> Result<&ClusterConnection, RedisProblem> {
        self.connection.get_or_try_init(|| self.connect().boxed()).await
    }

    async fn connect(&self) -> Result<ClusterConnection, RedisProblem> {
        let connecting = self.client.get_async_connection().boxed();
        let connection = match timeout(2 * self.place.limits.connect, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(self.place.why_not(error.to_string()).await),
            Err(_) => return Err(self.place.why_not("the Cluster does not answer".to_owned()).await),
        };
        load_scripts(&connection).await.map_err(RedisProblem::Command)?;
        Ok(connection)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(direct) => direct.fmt(f),
            Self::Cluster(_) => f.write_str("Cluster"),
        }
    }
}

/// Where Redis is, and as many connections to it as are asked for.
#[derive(Debug)]
pub(crate) struct RedisEndpoints {
    nodes: Vec<Arc<Master>>,
    whole: Option<redis::cluster::ClusterClient>,
    pub(crate) limits: Limits,
    silences: Arc<Silences>,
}

impl RedisEndpoints {
    pub(crate) fn new(address: Address, limits: Limits) -> Self {
        let (nodes, whole) = match address {
            Address::Master(master) => (vec![Arc::new(master)], None),
            Address::Cluster(nodes, whole) => (nodes.into_iter().map(Arc::new).collect(), Some(whole)),
        };
        Self { nodes, whole, limits, silences: Arc::default() }
    }

    /// A script may touch the keys of one slot only.
    pub(crate) const fn is_cluster(&self) -> bool {
        self.whole.is_some()
    }

    /// Any of these is good for what concerns no key.
    pub(crate) fn nodes(&self) -> &[Arc<Master>] {
        &self.nodes
    }

    /// Not connected yet: the first call does that.
    pub(crate) fn link(self: &Arc<Self>) -> Result<Link, RedisProblem> {
        match (&self.whole, self.nodes.first()) {
            (Some(client), _) => {
                let (place, client) = (Arc::clone(self), client.clone());
                Ok(Link::Cluster(Box::new(LazyCluster { place, client, connection: OnceCell::new() })))
            }
            (None, Some(master)) => {
                let silences = Arc::clone(&self.silences);
                Ok(Link::Direct(Box::new(Direct::new(Arc::clone(master), self.limits, silences))))
            }
            (None, None) => Err(RedisProblem::Address("no server is named")),
        }
    }

    /// A Cluster that cannot be used says little; a node of it that cannot be reached either says why.
    async fn why_not(&self, said: String) -> RedisProblem {
        for node in &self.nodes {
            if let Err(problem) = node.connect(self.limits).await {
                return problem;
            }
        }
        RedisProblem::Unreachable(said)
    }
}

impl Link {
    /// One answer a call, in order.
    pub(crate) async fn run(&self, calls: Vec<Cmd>) -> Vec<Result<Value, Failure>> {
        match self {
            Self::Direct(direct) => direct.run(calls).await,
            Self::Cluster(whole) => match whole.connection().await {
                Ok(connection) => run_in_cluster(connection, calls).boxed().await,
                Err(problem) => calls.iter().map(|_| Err(Failure::before(problem.clone()))).collect(),
            },
        }
    }

    pub(crate) async fn run_one(&self, call: Cmd) -> Result<Value, Failure> {
        self.run(vec![call]).await.pop().unwrap_or_else(|| Err(Failure::answer("one value")))
    }

    /// The same command to every master: an answer each.
    pub(crate) async fn run_everywhere(&self, call: Cmd) -> Result<Vec<Value>, Failure> {
        let Self::Cluster(whole) = self else { return Ok(vec![self.run_one(call).await?]) };
        let connection = whole.connection().await.map_err(Failure::before)?;
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answer = connection.clone().route_command(call, everywhere).await;
        match answer.and_then(checked).map_err(Failure::of)? {
            Value::Map(by_node) => Ok(by_node.into_iter().map(|(_, value)| value).collect()),
            Value::Array(all) => Ok(all),
            one => Ok(vec![one]),
        }
    }
}

async fn run_in_cluster(connection: &ClusterConnection, calls: Vec<Cmd>) -> Vec<Result<Value, Failure>> {
    let mut answers = join_all(calls.iter().map(|command| route(connection, command))).await;
    let unknown = |result: &RedisResult<Value>| matches!(result, Err(error) if is_no_script(error));
    if answers.iter().any(unknown) && load_scripts(connection).await.is_ok() {
        let again = answers.iter_mut().zip(&calls).filter(|(answer, _)| unknown(answer));
        join_all(again.map(async |(answer, call)| *answer = route(connection, call).await)).await;
    }
    answers.into_iter().map(|result| result.map_err(Failure::of)).collect()
}

async fn route(connection: &ClusterConnection, call: &Cmd) -> RedisResult<Value> {
    use redis::aio::ConnectionLike as _;
    connection.clone().req_packed_command(call).await.and_then(checked)
}

async fn load_scripts(connection: &ClusterConnection) -> RedisResult<()> {
    for script in SCRIPTS.all() {
        let masters = MultipleNodeRoutingInfo::AllMasters;
        let everywhere = RoutingInfo::MultiNode((masters, Some(ResponsePolicy::AllSucceeded)));
        connection.clone().route_command(script.load(), everywhere).await.and_then(checked)?;
    }
    Ok(())
}
