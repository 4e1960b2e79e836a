//! Connecting to one server, within a time limit. Every connection made here has its limits set and Nagle's algorithm off; the
//! driver's own defaults (500 ms, on) are not for us.

use crate::{
    error::LinkError,
    way_out::{IS_SILENT, way_in, way_out},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult,
    aio::{MultiplexedConnection, PubSub},
    sentinel::SentinelClient,
};
use std::{fmt, time::Duration};
use tokio::{sync::Mutex, time::timeout};

#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    pub connect: Duration,
    /// Longer than any command takes in Redis: a call that exceeds it may have been executed.
    pub response: Duration,
    /// An answer takes a millisecond; after this a shared connection is doubted, and another one is tried.
    pub doubt: Duration,
    /// The time after a failed connect for which callers get its error immediately: otherwise a caller that sends
    /// commands in sequence would wait for each. With zero, each call tries.
    pub rest: Duration,
}

/// A server that can be connected to as one.
pub enum RedisServer {
    Fixed(Client),
    /// Whichever is the master: asked anew for each connection; whether over TLS.
    Sentinels(Mutex<SentinelClient>, bool),
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Sentinels(..) => "Sentinels",
        })
    }
}

impl RedisServer {
    pub(crate) async fn connect(&self, limits: TimeLimits) -> Result<MultiplexedConnection, LinkError> {
        let client = self.client(limits).await?;
        within(limits, self.is_tls(), open(&client, Some(limits.response)).boxed()).await
    }

    /// A connection that only listens.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses these settings.
    pub async fn listen(&self, limits: TimeLimits) -> Result<PubSub, LinkError> {
        let client = self.client(limits).await?;
        within(limits, self.is_tls(), client.get_async_pubsub().boxed()).await
    }

    pub(crate) async fn client(&self, limits: TimeLimits) -> Result<Client, LinkError> {
        match self {
            Self::Fixed(client) => Ok(client.clone()),
            Self::Sentinels(client, is_tls) => {
                within(limits, *is_tls, async { client.lock().await.async_get_client().await }.boxed()).await
            }
        }
    }

    /// Host and port. `None` if it is no network address.
    ///
    /// # Errors
    /// The Sentinels do not answer.
    pub async fn host(&self, limits: TimeLimits) -> Result<Option<(String, u16)>, LinkError> {
        Ok(host_and_port(self.client(limits).await?.get_connection_info()))
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        match self {
            Self::Fixed(client) => {
                matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
            }
            Self::Sentinels(_, is_tls) => *is_tls,
        }
    }
}

pub(crate) fn host_and_port(info: &ConnectionInfo) -> Option<(String, u16)> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}

/// `response`: the time limit of each call. That of connecting is the caller's.
pub(crate) async fn open(client: &Client, response: Option<Duration>) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(response);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Boxed: the driver's futures are large and deep, and every call would carry them.
pub(crate) async fn within<T>(
    limits: TimeLimits,
    is_tls: bool,
    connecting: BoxFuture<'_, RedisResult<T>>,
) -> Result<T, LinkError> {
    match timeout(limits.connect, connecting).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let is_refusal = !way_out(&error).is_empty();
            let kind = if is_refusal { LinkError::TurnedAway } else { LinkError::Unreachable };
            Err(kind(format!("{error}{}", way_in(&error, is_tls))))
        }
        Err(_) => {
            let hint = if is_tls { IS_SILENT } else { "" };
            Err(LinkError::Unreachable(format!("no answer within {:?}{hint}", limits.connect)))
        }
    }
}
