//! The connection of one reader, which may block on it: connected by its first read, closed when a read failed or was dropped
//! in the middle, and connected anew by the next.

use crate::{
    endpoints::RedisEndpoints,
    error::{Answer, Failure, LinkError},
    server::{TimeLimits, host_and_port, open, within},
    shared::{all_fail, answers},
};
use futures_util::FutureExt as _;
use redis::{Client, ConnectionAddr, ConnectionInfo, Pipeline, aio::MultiplexedConnection};
use std::{fmt, future::Future, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// The time limit of a request to unblock a reader.
const UNBLOCK_LIMIT: Duration = Duration::from_secs(1);

/// Host and port of a Cluster's node.
pub type Node = (String, u16);

pub struct BlockingConnection {
    place: Arc<RedisEndpoints>,
    /// The node that another node named, or `None` means the address itself.
    node: Option<Node>,
    open: Option<OpenReader>,
}

struct OpenReader {
    connection: MultiplexedConnection,
    client_id: i64,
    client: Client,
}

impl fmt::Debug for BlockingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingConnection").field("node", &self.node).finish_non_exhaustive()
    }
}

impl BlockingConnection {
    #[must_use]
    pub fn new(place: &Arc<RedisEndpoints>) -> Self {
        Self { place: Arc::clone(place), node: None, open: None }
    }

    /// False if the next read connects first.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Sends a pipeline that blocks for at most a part of `limit`. When `given_up` completes first, Redis is
    /// asked to unblock it: what it has delivered by then is still read.
    pub async fn run(
        &mut self,
        pipeline: &mut Pipeline,
        limit: Duration,
        given_up: impl Future<Output = ()>,
    ) -> Vec<Answer> {
        pipeline.ignore_errors();
        // Taken out, so that a caller that is dropped while it reads leaves no connection with a pending
        // answer.
        let open = match self.open.take() {
            Some(open) => Ok(open),
            None => connect(&self.place, self.node.as_ref()).await,
        };
        let open = match open {
            Ok(open) => open,
            Err(problem) => return all_fail(pipeline, Failure::before(problem)),
        };
        let mut connection = open.connection.clone();
        let reading = timeout(limit, pipeline.query_async(&mut connection));
        tokio::pin!(reading);
        let unblocked = async {
            given_up.await;
            unblock(&open, self.place.limits).await;
        };
        let done = tokio::select! {
            biased;
            done = &mut reading => done,
            () = unblocked => reading.await,
        };
        let Ok(answered) = done else {
            return all_fail(pipeline, Failure::silent("no answer in time"));
        };
        let answers = answers(pipeline, answered);
        if answers.iter().all(|answer| answer.as_ref().err().is_none_or(|failure| failure.code().is_some())) {
            self.open = Some(open);
        }
        answers
    }

    /// The node that a redirection names (`host:port`); an omitted host is the connected one.
    #[must_use]
    pub fn named(&self, address: &str) -> Option<Node> {
        let own = self.open.as_ref().and_then(|open| host_and_port(open.client.get_connection_info()));
        node_of(address, own.map(|(host, _)| host))
    }

    /// The next read uses this node. `None` means the address itself.
    pub fn go_to(&mut self, node: Option<Node>) {
        if self.node != node {
            (self.node, self.open) = (node, None);
        }
    }
}

fn node_of(address: &str, own: Option<String>) -> Option<Node> {
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() { own? } else { host.trim_matches(['[', ']']).to_owned() };
    Some((host, port.parse().ok()?))
}

/// Connects to one server; in a Cluster, to the named node, or to any.
async fn connect(place: &RedisEndpoints, node: Option<&Node>) -> Result<OpenReader, LinkError> {
    let mut opened = Err(LinkError::Unreachable("no server is named".to_owned()));
    if let (Some((host, port)), [server, ..]) = (node, place.servers()) {
        let info = beside(server.client(place.limits).await?.get_connection_info(), host.clone(), *port);
        opened = connect_to(Client::open(info).map_err(LinkError::Command)?, place.limits).await;
    }
    for server in place.servers() {
        if opened.is_err() {
            opened = connect_to(server.client(place.limits).await?, place.limits).await;
        }
    }
    opened
}

/// Another server that is reached as this one.
fn beside(info: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    info.clone().set_addr(addr)
}

async fn connect_to(client: Client, limits: TimeLimits) -> Result<OpenReader, LinkError> {
    let is_tls = matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. });
    let opened = async {
        let mut connection = open(&client, None).await?;
        let client_id = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
        Ok((connection, client_id))
    };
    let (connection, client_id) = within(limits, is_tls, opened.boxed()).await?;
    Ok(OpenReader { connection, client_id, client })
}

/// If this fails, the reader unblocks by itself at the end of its time.
async fn unblock(reader: &OpenReader, limits: TimeLimits) {
    let asked = async {
        let mut connection = open(&reader.client, Some(UNBLOCK_LIMIT)).await?;
        let mut call = redis::cmd("CLIENT");
        call.arg("UNBLOCK").arg(reader.client_id);
        // 0: it does not block, or not yet: the earlier command on the other connection may be read after
        // this one.
        while call.query_async::<i64>(&mut connection).await? == 0 {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    };
    let limits = TimeLimits { connect: UNBLOCK_LIMIT, ..limits };
    if let Err(error) = within(limits, false, asked.boxed()).await {
        tracing::debug!(error = %error, "a blocked read could not be ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::IntoConnectionInfo as _;

    #[test]
    fn a_node_that_is_named_is_reached_as_the_one_that_names_it() {
        let info = "rediss://u:p@h:1/2".into_connection_info().unwrap();
        let other = beside(&info, "n".to_owned(), 7);
        assert!(matches!(other.addr(), ConnectionAddr::TcpTls { host, port: 7, .. } if host == "n"));
        assert_eq!(other.redis_settings().password(), Some("p"));
        assert_eq!(node_of("n:7", Some("h".to_owned())), Some(("n".to_owned(), 7)));
        assert_eq!(node_of(":7", Some("h".to_owned())), Some(("h".to_owned(), 7)));
        assert_eq!(node_of("[::1]:7", None), Some(("::1".to_owned(), 7)));
        assert_eq!(node_of("n", Some("h".to_owned())), None);
    }
}
