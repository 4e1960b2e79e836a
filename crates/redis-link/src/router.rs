//! Calls to Redis in any topology. A call names keys of one hash tag only; calls of different tags share one pipeline to a
//! single server, and are sent concurrently to a Cluster.

use crate::{
    cluster::RedisCluster,
    endpoints::RedisEndpoints,
    error::{Answer, Failure},
    shared::SharedConnection,
};
use futures_util::FutureExt as _;
use redis::{Cmd, Pipeline, Value};
use std::{fmt, sync::Arc};

/// The maximum number of calls in one pipeline: each is bounded, and so is the sum.
const CALLS_MAX: usize = 64;

/// Sends calls to the server that has their keys, over one connection to each, for many callers.
pub struct Router(Connections);

enum Connections {
    One(Box<SharedConnection>),
    Cluster(Box<RedisCluster>),
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Connections::One(connection) => connection.fmt(f),
            Connections::Cluster(_) => f.write_str("Cluster"),
        }
    }
}

impl RedisEndpoints {
    /// Creates a router, which is not connected yet: the first call connects.
    #[must_use]
    pub fn router(self: &Arc<Self>) -> Router {
        let place = Arc::clone(self);
        Router(match self.cluster {
            None => Connections::One(Box::new(SharedConnection::new(place))),
            Some(_) => Connections::Cluster(Box::new(RedisCluster::new(place))),
        })
    }
}

impl Router {
    /// One answer a call, in order; each call by itself.
    pub async fn run(&self, calls: Vec<Cmd>) -> Vec<Answer> {
        let connection = match &self.0 {
            Connections::One(connection) => connection,
            Connections::Cluster(cluster) => return cluster.run(calls).boxed().await,
        };
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            let mut pipeline = Pipeline::with_capacity(CALLS_MAX);
            for call in calls.by_ref().take(CALLS_MAX) {
                pipeline.add_command(call);
            }
            answers.extend(connection.run(&mut pipeline).await);
        }
        answers
    }

    /// # Errors
    /// The call was refused, or not sent, or not answered.
    pub async fn run_one(&self, call: Cmd) -> Answer {
        self.run(vec![call]).await.pop().unwrap_or_else(|| Err(Failure::answer("one value")))
    }

    /// Sends all in one pipeline, which may be a transaction: all keys must have the same hash tag, unless
    /// there is only one server. One answer per command; a refused command does not stop the others.
    pub async fn run_together(&self, pipeline: &mut Pipeline) -> Vec<Answer> {
        match &self.0 {
            Connections::One(connection) => connection.run(pipeline).await,
            Connections::Cluster(cluster) => cluster.run_together(pipeline).boxed().await,
        }
    }

    /// The same command to every master: an answer each.
    ///
    /// # Errors
    /// A master did not accept it.
    pub async fn run_everywhere(&self, call: Cmd) -> Result<Vec<Value>, Failure> {
        match &self.0 {
            Connections::One(_) => Ok(vec![self.run_one(call).await?]),
            Connections::Cluster(cluster) => cluster.run_everywhere(call).await,
        }
    }
}
