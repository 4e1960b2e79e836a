//! Where Redis is: one server, a Cluster, or whatever the Sentinels call the master. Every connection made here has
//! its time limits set and Nagle's algorithm off; the crate's own defaults (500 ms, on) are not for us.

use super::{
    problem::RedisProblem,
    tls::{IS_SILENT, Transport, way_in, way_out},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    TlsMode,
    aio::{MultiplexedConnection, PubSub},
    cluster::{ClusterClient, ClusterClientBuilder},
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use std::{fmt, time::Duration};
use tokio::{sync::Mutex, time::timeout};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// A server that can be connected to as one.
pub(crate) enum Master {
    Fixed(Client),
    /// Asked anew for each connection; whether over TLS.
    Sentinels(Mutex<SentinelClient>, bool),
}

pub(crate) enum Address {
    Master(Master),
    /// The nodes as given, for what one node alone can do; and the whole.
    Cluster(Vec<Master>, ClusterClient),
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Sentinels(..) => "Sentinels",
        })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(master) => master.fmt(f),
            Self::Cluster(..) => f.write_str("Cluster"),
        }
    }
}

impl Master {
    pub(crate) async fn connect(&self, limits: Limits) -> Result<MultiplexedConnection, RedisProblem> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limits.connect))
            .set_response_timeout(Some(limits.response));
        let client = self.client(limits).await?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config).boxed();
        within(limits, self.is_tls(), connecting).await
    }

    /// A connection that only listens.
    pub(crate) async fn listen(&self, limits: Limits) -> Result<PubSub, RedisProblem> {
        let client = self.client(limits).await?;
        within(limits, self.is_tls(), client.get_async_pubsub().boxed()).await
    }

    async fn client(&self, limits: Limits) -> Result<Client, RedisProblem> {
        match self {
            Self::Fixed(client) => Ok(client.clone()),
            Self::Sentinels(client, is_tls) => {
                within(limits, *is_tls, async { client.lock().await.async_get_client().await }.boxed()).await
            }
        }
    }

    /// Host and port. None: it is no network address.
    pub(crate) async fn host(&self, limits: Limits) -> Result<Option<(String, u16)>, RedisProblem> {
        Ok(match self.client(limits).await?.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host.clone(), *port))
            }
            _ => None,
        })
    }

    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Fixed(client) => {
                matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
            }
            Self::Sentinels(_, is_tls) => *is_tls,
        }
    }
}

/// Boxed: the crate's futures are large and deep, and every call would carry them.
async fn within<T>(
    limits: Limits,
    is_tls: bool,
    connecting: BoxFuture<'_, redis::RedisResult<T>>,
) -> Result<T, RedisProblem> {
    match timeout(limits.connect, connecting).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let said = format!("{error}{}", way_in(&error, is_tls));
            Err(if way_out(&error).is_empty() {
                RedisProblem::Unreachable(said)
            } else {
                RedisProblem::TurnedAway(said)
            })
        }
        Err(_) => {
            let hint = if is_tls { IS_SILENT } else { "" };
            Err(RedisProblem::Unreachable(format!("no answer within {:?}{hint}", limits.connect)))
        }
    }
}

impl Address {
    pub(crate) fn parse(url: &str, limits: Limits) -> Result<Self, RedisProblem> {
        let odd = || RedisProblem::Address("this is no address of Redis");
        let (scheme, rest) = url.split_once("://").ok_or_else(odd)?;
        let (kind, is_tls) = match (scheme.strip_prefix("rediss"), scheme.strip_prefix("redis")) {
            (Some(kind), _) => (kind, true),
            (None, Some(kind)) => (kind, false),
            (None, None) => return Err(odd()),
        };
        let (rest, transport) = Transport::taken_from(rest, is_tls)?;
        match kind {
            "" => Ok(Self::Master(Master::Fixed(client(rest, &transport)?))),
            "+cluster" => cluster(rest, &transport, limits),
            "+sentinel" => sentinels(rest, &transport),
            _ => Err(odd()),
        }
    }
}

/// `rest`: one server, `[user:password@]host[:port][/db]`.
fn info(rest: &str, transport: &Transport) -> Result<ConnectionInfo, RedisProblem> {
    let info = format!("{}://{rest}", transport.scheme()).into_connection_info();
    let info = info.map_err(|_| RedisProblem::Address("host, port, password or database cannot be read"))?;
    Ok(info.set_tcp_settings(tcp()))
}

fn client(rest: &str, transport: &Transport) -> Result<Client, RedisProblem> {
    transport.client(info(rest, transport)?).map_err(|_| refused(transport))
}

/// What the client refuses before it connects.
fn refused(transport: &Transport) -> RedisProblem {
    RedisProblem::Address(if transport.is_tls() {
        "the client does not take this address, or a file of tls_ca, tls_cert or tls_key holds no certificate or key"
    } else {
        "the client does not take this address"
    })
}

/// A server that is gone without closing is noticed by the kernel too, within seconds: on connections that only listen,
/// and on those that have sent what is never confirmed.
fn tcp() -> TcpSettings {
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(3)).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(alive.with_retries(3));
    #[cfg(target_os = "linux")]
    let tcp_settings = settings.set_user_timeout(Duration::from_secs(6));
    tcp_settings
}

/// `[user:password@]`, with the sign; the hosts; what follows a slash.
fn parts(rest: &str) -> (&str, Vec<&str>, &str) {
    let (hosts, path) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let (login, hosts) = hosts.rfind('@').map_or(("", hosts), |at| hosts.split_at(at + 1));
    (login, hosts.split(',').map(str::trim).filter(|text| !text.is_empty()).collect(), path)
}

fn cluster(rest: &str, transport: &Transport, limits: Limits) -> Result<Address, RedisProblem> {
    let (login, hosts, path) = parts(rest);
    if hosts.is_empty() || !(path.is_empty() || path == "0") {
        return Err(RedisProblem::Address("a Cluster has at least one node, and only database 0"));
    }
    let one_by_one: Vec<Client> =
        hosts.iter().map(|host| client(&format!("{login}{host}"), transport)).collect::<Result<_, _>>()?;
    let mut whole =
        ClusterClientBuilder::new(one_by_one.iter().map(|client| client.get_connection_info().clone()))
            .connection_timeout(limits.connect)
            .response_timeout(limits.response)
            .overall_response_timeout(Some(2 * limits.response))
            .tcp_settings(tcp())
            .retries(5);
    if let Some(certificates) = transport.certificates() {
        // For the nodes that these name, too.
        whole = whole.tls(TlsMode::Secure).certs(certificates);
    }
    let whole = whole
        .build()
        .map_err(|_| RedisProblem::Address("the nodes of the Cluster cannot be used together"))?;
    Ok(Address::Cluster(one_by_one.into_iter().map(Master::Fixed).collect(), whole))
}

fn sentinels(rest: &str, transport: &Transport) -> Result<Address, RedisProblem> {
    let (_, _, last) = parts(rest);
    // host,host/master or host,host/master/db
    let (rest, db) =
        if last.parse::<i64>().is_ok() { rest.rsplit_once('/').unwrap_or((rest, "0")) } else { (rest, "0") };
    let (login, hosts, name) = parts(rest);
    if hosts.is_empty() || name.is_empty() {
        return Err(RedisProblem::Address("the Sentinels or the master's name are missing"));
    }
    let login = info(&format!("{login}localhost/{db}"), transport)?;
    let addresses = hosts.iter().map(|host| sentinel(host, transport)).collect::<Result<Vec<_>, _>>()?;
    let client = sentinel_client(addresses, name, login.redis_settings(), transport);
    let client = client.map_err(|_| RedisProblem::Address("the Sentinels cannot be used together"))?;
    Ok(Address::Master(Master::Sentinels(Mutex::new(client), transport.is_tls())))
}

/// Sentinels listen on 26379 unless told otherwise.
fn sentinel(host: &str, transport: &Transport) -> Result<ConnectionAddr, RedisProblem> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let host = if has_port { host.to_owned() } else { format!("{host}:26379") };
    Ok(client(&host, transport)?.get_connection_info().addr().clone())
}

/// The login is for the master; Sentinels are asked without one, over the same transport.
fn sentinel_client(
    addresses: Vec<ConnectionAddr>,
    name: &str,
    login: &RedisConnectionInfo,
    transport: &Transport,
) -> redis::RedisResult<SentinelClient> {
    let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)?
        .set_client_to_redis_db(login.db())
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_sentinel_tcp_settings(tcp());
    if let Some(username) = login.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = login.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(certificates) = transport.certificates() {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { connect: Duration::from_secs(1), response: Duration::from_secs(1) };

    #[test]
    fn addresses_of_each_kind_are_understood() {
        for good in [
            "redis://localhost",
            "redis://user:secret@10.0.0.1:6380/2",
            "redis+cluster://a:1,b:2",
            "redis+cluster://user:secret@a:1,b",
            "redis+sentinel://a:1,b:2/mymaster",
            "redis+sentinel://:secret@a,b/mymaster/3",
            "rediss://user:secret@a/1",
            "rediss+cluster://user:secret@a:1,b",
            "rediss+sentinel://:secret@a,b/mymaster",
        ] {
            assert!(Address::parse(good, LIMITS).is_ok(), "{good}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_passwords_are_not_shown() {
        for bad in [
            "",
            "localhost:6379",
            "http://secret@a",
            "rediss://:secret@a?tls_ca=/no/such/file",
            "redissh://:secret@a",
            "redis://:secret@a?tls_ca=/no/such/file",
            "redis://:secret@a:port",
            "redis+cluster://",
            "redis+cluster://:secret@a/3",
            "redis+sentinel://:secret@a,b",
            "redis+sentinel:///mymaster",
        ] {
            let said = Address::parse(bad, LIMITS).unwrap_err().to_string();
            assert!(!said.contains("secret"), "{said}");
        }
        let shown = format!("{:?}", Address::parse("redis://:secret@a", LIMITS).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
