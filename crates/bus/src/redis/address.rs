//! Reads the address of a Redis: one server, a Cluster, or Sentinels. Opens no connection.
//!
//! `redis://[user:password@]host[:port][/db]`, `redis+cluster://[user:password@]host[:port],host[:port]…`,
//! `redis+sentinel://[user:password@]host[:port],host[:port]…/master[/db]`. The user is the one of the Redis servers;
//! sentinels are asked without one.

use crate::error::Error;
use redis::{
    Client, ConnectionInfo, IntoConnectionInfo, RedisError,
    cluster::ClusterClient,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use std::time::Duration;

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
    let it = TcpSettings::default().set_nodelay(true).set_keepalive(alive.with_retries(3));
    #[cfg(target_os = "linux")]
    let it = it.set_user_timeout(Duration::from_secs(6));
    it
}

fn refused(error: impl ToString) -> Error {
    Error::Address(error.to_string())
}

impl Topology {
    pub(crate) fn parse(url: &str, connect: Duration, response: Duration) -> Result<Self, Error> {
        if let Some(rest) = url.strip_prefix("redis+cluster://") {
            return cluster(rest, connect, response);
        }
        if let Some(rest) = url.strip_prefix("redis+sentinel://") {
            return sentinel(rest);
        }
        if !url.starts_with("redis://") {
            return Err(refused("use redis://, redis+cluster:// or redis+sentinel://"));
        }
        let info = url.into_connection_info().map_err(plain)?.set_tcp_settings(tcp());
        Ok(Self::Single(Client::open(info).map_err(refused)?))
    }
}

/// Without its detail, which may repeat the address.
fn plain(error: RedisError) -> Error {
    refused(error.category())
}

/// `user@`, then the hosts, then what follows the first slash.
fn split(rest: &str) -> (&str, Vec<&str>, &str) {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let at = authority.rfind('@').map_or(0, |it| it + 1);
    let (user, hosts) = authority.split_at(at);
    (user, hosts.split(',').collect(), path)
}

fn node(user: &str, host: &str, db: &str) -> Result<ConnectionInfo, Error> {
    if host.is_empty() {
        return Err(refused("a host is missing"));
    }
    let info = format!("redis://{user}{host}/{db}").into_connection_info().map_err(plain)?;
    Ok(info.set_tcp_settings(tcp()))
}

fn cluster(rest: &str, connect: Duration, response: Duration) -> Result<Topology, Error> {
    let (user, hosts, _) = split(rest);
    let seeds: Vec<ConnectionInfo> =
        hosts.into_iter().map(|it| node(user, it, "")).collect::<Result<_, _>>()?;
    let builder = ClusterClient::builder(seeds.clone())
        .connection_timeout(connect)
        .response_timeout(response)
        .overall_response_timeout(Some(response * 2))
        .retries(3)
        .tcp_settings(tcp());
    let client = Box::new(builder.build().map_err(refused)?);
    Ok(Topology::Cluster { client, seeds })
}

fn sentinel(rest: &str) -> Result<Topology, Error> {
    let (user, hosts, path) = split(rest);
    let (master, db) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(refused("the name of the master is missing: redis+sentinel://host,host/name"));
    }
    let with_port = |it: &str| {
        let has = it.rsplit(']').next().is_some_and(|it| it.contains(':'));
        if has { it.to_owned() } else { format!("{it}:{SENTINEL_PORT}") }
    };
    let hosts: Vec<ConnectionInfo> =
        hosts.into_iter().map(|it| node(user, &with_port(it), db)).collect::<Result<_, _>>()?;
    let addresses: Vec<_> = hosts.iter().map(|it| it.addr().clone()).collect();
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)
        .map_err(refused)?
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_sentinel_tcp_settings(tcp());
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
        let seen: Vec<String> = seeds.iter().map(|it| it.addr().to_string()).collect();
        assert_eq!(seen, ["a:1", "b:6379", "::1:3"]);
        assert!(seeds.iter().all(|it| it.redis_settings().password() == Some("p@")));
        for url in ["redis+sentinel://a,b:1/main", "redis+sentinel://:p@[::1]/main/3"] {
            assert!(matches!(parse(url).unwrap(), Topology::Sentinel(_)), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_the_password() {
        for url in [
            "",
            "http://a",
            "rediss://:secret@a",
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
