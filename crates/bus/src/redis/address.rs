//! Reads the address of a Redis: one server, a Cluster, or Sentinels. Opens no connection.
//!
//! `redis://[user:password@]host[:port][/db]`, `redis+cluster://[user:password@]host[:port],host[:port]…`,
//! `redis+sentinel://[user:password@]host[:port],host[:port]…/master[/db]`. The user is the one of the Redis servers;
//! sentinels are asked without one. With `rediss` instead of `redis` all of it goes over TLS, and the end of the address may
//! say `?tls_ca=FILE&tls_cert=FILE&tls_key=FILE`; without an authority of its own, those that this machine trusts.

use crate::error::Error;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult,
    TlsCertificates, TlsMode,
    cluster::ClusterClient,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use std::{fs, time::Duration};

const SENTINEL_PORT: u16 = 26_379;

pub(crate) enum Topology {
    Single(Client),
    /// Asked for the master whenever a connection is made.
    Sentinel(tokio::sync::Mutex<SentinelClient>),
    Cluster {
        client: Box<ClusterClient>,
        /// Where direct connections begin to look for a node.
        seeds: Vec<ConnectionInfo>,
    },
}

/// The driver leaves Nagle's algorithm on, which costs up to 40 ms a command.
/// The kernel notices within seconds that a server is gone without closing: also on connections that only wait.
fn tcp() -> TcpSettings {
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(3)).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(alive.with_retries(3));
    #[cfg(target_os = "linux")]
    let tcp_settings = settings.set_user_timeout(Duration::from_secs(6));
    tcp_settings
}

fn refused(error: impl ToString) -> Error {
    Error::Address(error.to_string())
}

impl Topology {
    pub(crate) fn parse(url: &str, connect: Duration, response: Duration) -> Result<Self, Error> {
        let odd = || refused("use redis://, redis+cluster:// or redis+sentinel://, and rediss for TLS");
        let (scheme, rest) = url.split_once("://").ok_or_else(odd)?;
        let (kind, is_tls) = match (scheme.strip_prefix("rediss"), scheme.strip_prefix("redis")) {
            (Some(kind), _) => (kind, true),
            (None, Some(kind)) => (kind, false),
            (None, None) => return Err(odd()),
        };
        let (rest, tls) = transport(rest, is_tls)?;
        match kind {
            "" => Ok(Self::Single(client(rest, tls.as_ref())?)),
            "+cluster" => cluster(rest, tls.as_ref(), connect, response),
            "+sentinel" => sentinel(rest, tls.as_ref()),
            _ => Err(odd()),
        }
    }
}

/// The address without its parameters; None: not over TLS.
fn transport(rest: &str, is_tls: bool) -> Result<(&str, Option<TlsCertificates>), Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut root_cert, mut cert, mut key) = (None, None, None);
    for (name, path) in query.split('&').filter_map(|part| part.split_once('=')) {
        let place = match name {
            "tls_ca" => &mut root_cert,
            "tls_cert" => &mut cert,
            "tls_key" => &mut key,
            _ => return Err(refused("its parameters are tls_ca, tls_cert and tls_key")),
        };
        *place = Some(fs::read(path).map_err(|error| refused(format!("{name}: {path:?}: {error}")))?);
    }
    if !is_tls && !query.is_empty() {
        return Err(refused("files for TLS are named, and the address is a plain one"));
    }
    let client_tls = match (cert, key) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        _ => return Err(refused("tls_cert and tls_key go together")),
    };
    Ok((rest, is_tls.then_some(TlsCertificates { client_tls, root_cert })))
}

/// One server: `[user:password@]host[:port][/db]`.
fn client(rest: &str, tls: Option<&TlsCertificates>) -> Result<Client, Error> {
    let scheme = if tls.is_some() { "rediss" } else { "redis" };
    let info = format!("{scheme}://{rest}").into_connection_info().map_err(|error| plain(&error))?;
    open(info.set_tcp_settings(tcp()), tls).map_err(|error| plain(&error))
}

fn open(info: ConnectionInfo, tls: Option<&TlsCertificates>) -> RedisResult<Client> {
    match tls {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    }
}

/// Another server that is reached as this one.
pub(super) fn beside(info: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    info.clone().set_addr(addr)
}

/// Without its detail, which may repeat the address.
fn plain(error: &RedisError) -> Error {
    refused(error.category())
}

/// `user@`, then the hosts, then what follows the first slash.
fn split(rest: &str) -> (&str, Vec<&str>, &str) {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let at = authority.rfind('@').map_or(0, |authority| authority + 1);
    let (user, hosts) = authority.split_at(at);
    (user, hosts.split(',').collect(), path)
}

fn node(user: &str, host: &str, db: &str, tls: Option<&TlsCertificates>) -> Result<ConnectionInfo, Error> {
    if host.is_empty() {
        return Err(refused("a host is missing"));
    }
    Ok(client(&format!("{user}{host}/{db}"), tls)?.get_connection_info().clone())
}

fn cluster(
    rest: &str,
    tls: Option<&TlsCertificates>,
    connect: Duration,
    response: Duration,
) -> Result<Topology, Error> {
    let (user, hosts, _) = split(rest);
    let seeds: Vec<ConnectionInfo> =
        hosts.into_iter().map(|host| node(user, host, "", tls)).collect::<Result<_, _>>()?;
    let mut builder = ClusterClient::builder(seeds.clone())
        .connection_timeout(connect)
        .response_timeout(response)
        .overall_response_timeout(Some(response * 2))
        .retries(3)
        .tcp_settings(tcp());
    if let Some(certificates) = tls {
        // For the nodes that the seeds name, too.
        builder = builder.tls(TlsMode::Secure).certs(certificates.clone());
    }
    let client = Box::new(builder.build().map_err(refused)?);
    Ok(Topology::Cluster { client, seeds })
}

fn sentinel(rest: &str, tls: Option<&TlsCertificates>) -> Result<Topology, Error> {
    let (user, hosts, path) = split(rest);
    let (master, db) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(refused("the name of the master is missing: redis+sentinel://host,host/name"));
    }
    let with_port = |text: &str| {
        let has = text.rsplit(']').next().is_some_and(|part| part.contains(':'));
        if has { text.to_owned() } else { format!("{text}:{SENTINEL_PORT}") }
    };
    let hosts: Vec<ConnectionInfo> =
        hosts.into_iter().map(|host| node(user, &with_port(host), db, tls)).collect::<Result<_, _>>()?;
    let addresses: Vec<_> = hosts.iter().map(|host| host.addr().clone()).collect();
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)
        .map_err(refused)?
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_sentinel_tcp_settings(tcp());
    if let Some(certificates) = tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone());
    }
    if let Some(settings) = hosts.first().map(ConnectionInfo::redis_settings) {
        builder = builder.set_client_to_redis_db(settings.db());
        if let Some(name) = settings.username() {
            builder = builder.set_client_to_redis_username(name);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_redis_password(password);
        }
    }
    Ok(Topology::Sentinel(tokio::sync::Mutex::new(builder.build().map_err(refused)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Topology, Error> {
        Topology::parse(url, Duration::from_secs(1), Duration::from_secs(1))
    }

    #[test]
    fn each_form_is_read() {
        assert!(matches!(parse("redis://u:p@h:1/2").unwrap(), Topology::Single(_)));
        let Topology::Cluster { seeds, .. } = parse("redis+cluster://u:p%40@a:1,b,[::1]:3").unwrap() else {
            panic!("a cluster")
        };
        let seen: Vec<String> = seeds.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!(seen, ["a:1", "b:6379", "::1:3"]);
        assert!(seeds.iter().all(|info| info.redis_settings().password() == Some("p@")));
        for url in
            ["redis+sentinel://a,b:1/main", "redis+sentinel://:p@[::1]/main/3", "rediss+sentinel://a/main"]
        {
            assert!(matches!(parse(url).unwrap(), Topology::Sentinel(_)), "{url}");
        }
    }

    #[test]
    fn what_a_tls_node_names_is_reached_over_tls() {
        let Topology::Single(client) = parse("rediss://u:p@h:1/2").unwrap() else { panic!("one server") };
        let other = beside(client.get_connection_info(), "n".to_owned(), 7);
        assert!(matches!(other.addr(), ConnectionAddr::TcpTls { host, port: 7, .. } if host == "n"));
        assert_eq!(other.redis_settings().password(), Some("p"));
        let Topology::Cluster { seeds, .. } = parse("rediss+cluster://a:1,b").unwrap() else {
            panic!("a cluster")
        };
        assert!(seeds.iter().all(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. })));
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_the_password() {
        for url in [
            "",
            "http://a",
            "rediss://:secret@a?tls_ca=/no/such/file",
            "redis://:secret@a?tls_ca=/no/such/file",
            "redisx://:secret@a",
            "redis://:secret@:99999999/",
            "redis+cluster://",
            "redis+cluster://:secret@a,,b",
            "redis+cluster://:secret@a:99999999",
            "redis+sentinel://:secret@a",
            "redis+sentinel://:secret@a/main/db",
        ] {
            let Err(error) = parse(url) else { panic!("{url}") };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
