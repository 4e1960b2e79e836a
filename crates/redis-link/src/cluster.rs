//! A Cluster, connected to when it is first needed. Then the driver finds the nodes again by itself, and may send a call again
//! that was not answered: each can be repeated.

use crate::{
    endpoints::RedisEndpoints,
    error::{Answer, Failure, LinkError, checked, is_no_script, is_script},
    shared::{all_fail, answers},
};
use futures_util::{FutureExt as _, future::join_all};
use redis::{
    Cmd, Pipeline, RedisResult, Value,
    aio::ConnectionLike as _,
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo},
};
use std::sync::Arc;
use tokio::{sync::OnceCell, time::timeout};

pub(crate) struct RedisCluster {
    place: Arc<RedisEndpoints>,
    connection: OnceCell<ClusterConnection>,
}

impl RedisCluster {
    /// The first call connects.
    pub(crate) fn new(place: Arc<RedisEndpoints>) -> Self {
        Self { place, connection: OnceCell::new() }
    }

    /// Concurrently: each call uses the node that has its keys.
    pub(crate) async fn run(&self, calls: Vec<Cmd>) -> Vec<Answer> {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(problem) => return vec![Err(Failure::before(problem)); calls.len()],
        };
        let mut answers = join_all(calls.iter().map(|call| route(connection, call))).await;
        let is_unknown =
            |answer: &Answer| answer.as_ref().is_err_and(|failure| failure.redis().is_some_and(is_no_script));
        if answers.iter().any(is_unknown) && self.load_scripts(connection).await.is_ok() {
            let again = answers.iter_mut().zip(&calls).filter(|(answer, _)| is_unknown(answer));
            join_all(again.map(async |(answer, call)| *answer = route(connection, call).await)).await;
        }
        answers
    }

    /// Runs commands in one pipeline, on one node.
    pub(crate) async fn run_together(&self, pipeline: &mut Pipeline) -> Vec<Answer> {
        pipeline.ignore_errors();
        match self.connection().await {
            Ok(connection) => answers(pipeline, pipeline.query_async(&mut connection.clone()).await),
            Err(problem) => all_fail(pipeline, Failure::before(problem)),
        }
    }

    pub(crate) async fn run_everywhere(&self, call: Cmd) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection().await.map_err(Failure::before)?.clone();
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answer = connection.route_command(call.clone(), everywhere).await;
        match answer.map_err(|error| Failure::of(error, true)).and_then(|answer| checked(&call, answer))? {
            Value::Map(by_node) => Ok(by_node.into_iter().map(|(_, value)| value).collect()),
            Value::Array(all) => Ok(all),
            one => Ok(vec![one]),
        }
    }

    async fn connection(&self) -> Result<&ClusterConnection, LinkError> {
        self.connection.get_or_try_init(|| self.connect().boxed()).await
    }

    async fn connect(&self) -> Result<ClusterConnection, LinkError> {
        let client = self.place.cluster.as_ref().expect("the address is of a Cluster");
        let connecting = client.get_async_connection().boxed();
        let connection = match timeout(2 * self.place.limits.connect, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(self.why_not(error.to_string()).await),
            Err(_) => return Err(self.why_not("the Cluster does not answer".to_owned()).await),
        };
        self.load_scripts(&connection).await.map_err(LinkError::Command)?;
        Ok(connection)
    }

    /// An unusable Cluster reports little; an unreachable node of it may report the reason.
    async fn why_not(&self, said: String) -> LinkError {
        for node in self.place.servers() {
            if let Err(problem) = node.connect(self.place.limits).await {
                return problem;
            }
        }
        LinkError::Unreachable(said)
    }

    async fn load_scripts(&self, connection: &ClusterConnection) -> RedisResult<()> {
        for script in &self.place.scripts {
            let masters = MultipleNodeRoutingInfo::AllMasters;
            let everywhere = RoutingInfo::MultiNode((masters, Some(ResponsePolicy::AllSucceeded)));
            let loaded = connection.clone().route_command(script.load(), everywhere).await;
            loaded.and_then(Value::extract_error)?;
        }
        Ok(())
    }
}

async fn route(connection: &ClusterConnection, call: &Cmd) -> Answer {
    let answered = connection.clone().req_packed_command(call).await;
    answered.map_err(|error| Failure::of(error, is_script(call))).and_then(|value| checked(call, value))
}
