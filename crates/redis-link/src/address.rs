//! Reads the address of a Redis: one server, a Cluster, or Sentinels. Opens no connection.
//!
//! `redis://[user:password@]host[:port][/database]`,
//! `redis+cluster://[user:password@]host[:port],host[:port]…`,
//! `redis+sentinel://[user:password@]host[:port],host[:port]…/master[/database]`. The user is for the Redis
//! servers; Sentinels are asked without one. With `rediss` instead of `redis`, all connections use TLS, and
//! the address may end with `?tls_ca=FILE&tls_cert=FILE&tls_key=FILE`; without `tls_ca`, the machine's own
//! authorities are used.

use crate::{
    error::{LinkError, refused},
    server::{RedisServer, TimeLimits},
    tls,
};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates, TlsMode,
    cluster::{ClusterClient, ClusterClientBuilder},
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use std::time::Duration;

const SENTINEL_PORT: u16 = 26_379;
/// The maximum number of times that a Cluster's connection sends a call again that was refused or not answered.
const CLUSTER_RETRIES: u32 = 5;

const FORMS: &str = "use redis://host:port, redis+cluster://host:port,... or redis+sentinel://host:port,.../master, and \
                     rediss instead of redis for TLS";
const HOST: &str = "write host, host:port or [address]:port";

/// `None` if the connection has no TLS.
type Tls = Option<TlsCertificates>;

#[derive(Debug)]
pub(crate) struct Address {
    /// The one server, or the nodes of a Cluster as they are named.
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) cluster: Option<ClusterClient>,
}

/// The parts of an address after the scheme.
struct Parts<'a> {
    /// `user:password@` with the sign, or empty.
    login: &'a str,
    hosts: Vec<&'a str>,
    /// The parts after the hosts, split at slashes; the first is empty if there are none.
    path: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Self {
        let (login, rest) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self { login, hosts: hosts.split(',').map(str::trim).collect(), path: path.split('/').collect() }
    }

    /// `path`: without the name of a master.
    fn database(path: &[&str]) -> Result<i64, LinkError> {
        match path {
            [] | [""] => Ok(0),
            [number] if number.parse::<u16>().is_ok() => Ok(number.parse().unwrap_or(0)),
            odd => refused("database", &odd.join("/"), "is no number", "write /0 to /15, or nothing for 0"),
        }
    }

    fn info(&self, host: &str, database: i64, tls: &Tls) -> Result<ConnectionInfo, LinkError> {
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        let read = |host: &str| format!("{scheme}://{}{host}/{database}", self.login).into_connection_info();
        if read("localhost").is_err() {
            let way_out = "write user:password@host, and what is no letter or digit in them as %XX";
            return refused("user or password", "...", "cannot be read", way_out);
        }
        let reason = if host.is_empty() { "is missing" } else { "cannot be read" };
        match read(host) {
            Ok(info) if !host.is_empty() => Ok(info.set_tcp_settings(tcp())),
            _ => refused("host", host, reason, HOST),
        }
    }

    fn not_together<T>(&self) -> Result<T, LinkError> {
        refused("hosts", &self.hosts.join(","), "cannot be used together", FORMS)
    }

    fn client(&self, host: &str, database: i64, tls: &Tls) -> Result<Client, LinkError> {
        let info = self.info(host, database, tls)?;
        let reason = if tls.is_some() { "is not taken with these files" } else { "is not taken" };
        let way_out = "look whether each file of tls_ca, tls_cert and tls_key holds a certificate or key";
        let client = match tls {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        };
        client.or_else(|_| refused("host", host, reason, way_out))
    }
}

impl Address {
    pub(crate) fn parse(url: &str, limits: TimeLimits) -> Result<Self, LinkError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (kind, is_tls) = match (scheme.strip_prefix("rediss"), scheme.strip_prefix("redis")) {
            (Some(kind), _) => (kind, true),
            (None, Some(kind)) => (kind, false),
            (None, None) => return refused("scheme", scheme, "is none of Redis", FORMS),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let tls = tls::read(query, is_tls)?;
        let parts = Parts::of(rest);
        match kind {
            "" => one(&parts, &tls),
            "+cluster" => cluster(&parts, &tls, limits),
            "+sentinel" => sentinels(&parts, &tls),
            _ => refused("scheme", scheme, "is none of Redis", FORMS),
        }
    }
}

fn one(parts: &Parts<'_>, tls: &Tls) -> Result<Address, LinkError> {
    let [host] = parts.hosts[..] else {
        return refused("host", &parts.hosts.join(","), "is more than one", FORMS);
    };
    let client = parts.client(host, Parts::database(&parts.path)?, tls)?;
    Ok(Address { servers: vec![RedisServer::Fixed(client)], cluster: None })
}

fn cluster(parts: &Parts<'_>, tls: &Tls, limits: TimeLimits) -> Result<Address, LinkError> {
    if Parts::database(&parts.path)? != 0 {
        let reason = "is none of a Cluster, which has only 0";
        return refused("database", &parts.path.join("/"), reason, "leave it out");
    }
    let clients: Vec<Client> =
        parts.hosts.iter().map(|host| parts.client(host, 0, tls)).collect::<Result<_, _>>()?;
    let infos = clients.iter().map(|client| client.get_connection_info().clone());
    let mut whole = ClusterClientBuilder::new(infos)
        .connection_timeout(limits.connect)
        .response_timeout(limits.response)
        .overall_response_timeout(Some(2 * limits.response))
        .tcp_settings(tcp())
        .retries(CLUSTER_RETRIES);
    if let Some(certificates) = tls.clone() {
        // For the nodes that these name, too.
        whole = whole.tls(TlsMode::Secure).certs(certificates);
    }
    let whole = whole.build().or_else(|_| parts.not_together())?;
    Ok(Address { servers: clients.into_iter().map(RedisServer::Fixed).collect(), cluster: Some(whole) })
}

fn sentinels(parts: &Parts<'_>, tls: &Tls) -> Result<Address, LinkError> {
    let (name, path) = parts.path.split_first().map_or(("", &[][..]), |(name, path)| (*name, path));
    if name.is_empty() {
        let way_out = "write redis+sentinel://host,host/master";
        return refused("name of the master", name, "is missing", way_out);
    }
    let database = Parts::database(path)?;
    // Sentinels listen on another port than servers, and are asked without a login.
    let asked = Parts { login: "", hosts: Vec::new(), path: Vec::new() };
    let mut addresses = Vec::with_capacity(parts.hosts.len());
    for host in &parts.hosts {
        let has_port = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
        let host =
            if has_port || host.is_empty() { (*host).to_owned() } else { format!("{host}:{SENTINEL_PORT}") };
        addresses.push(asked.client(&host, 0, tls)?.get_connection_info().addr().clone());
    }
    let login = parts.info("localhost", database, tls)?;
    let client = sentinel_client(addresses, name, &login, tls).or_else(|_| parts.not_together())?;
    let server = RedisServer::Sentinels(tokio::sync::Mutex::new(client), tls.is_some());
    Ok(Address { servers: vec![server], cluster: None })
}

/// The login is for the master.
fn sentinel_client(
    addresses: Vec<ConnectionAddr>,
    name: &str,
    login: &ConnectionInfo,
    tls: &Tls,
) -> redis::RedisResult<SentinelClient> {
    let login = login.redis_settings();
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
    if let Some(certificates) = tls.clone() {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates);
    }
    builder.build()
}

/// The driver leaves Nagle's algorithm on, which costs up to 40 ms per command. The kernel also notices a
/// server that is gone without closing, within seconds: on connections that only listen, and on those with
/// unconfirmed data.
fn tcp() -> TcpSettings {
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(3)).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(alive.with_retries(3));
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(6));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, LinkError> {
        let second = Duration::from_secs(1);
        Address::parse(
            url,
            TimeLimits { connect: second, response: second, doubt: second, rest: Duration::ZERO },
        )
    }

    fn info(server: &RedisServer) -> &ConnectionInfo {
        match server {
            RedisServer::Fixed(client) => client.get_connection_info(),
            RedisServer::Sentinels(..) => panic!("a server is named"),
        }
    }

    #[test]
    fn each_form_is_read() {
        for good in [
            "redis://localhost",
            "redis://user:secret@10.0.0.1:6380/2",
            "redis+cluster://a:1,b:2/0",
            "redis+cluster://user:secret@a:1,b/",
            "redis+sentinel://a:1,b:2/mymaster",
            "redis+sentinel://:secret@a,[::1]/mymaster/3",
            "rediss://user:secret@a/1",
            "rediss+cluster://user:secret@a:1,b",
            "rediss+sentinel://:secret@a,b/mymaster",
        ] {
            let address = parse(good).unwrap_or_else(|error| panic!("{good}: {error}"));
            assert_eq!(address.cluster.is_some(), good.contains("cluster"), "{good}");
            let shown = format!("{:?}", address.servers);
            assert!(!shown.contains("secret"), "{shown}");
        }
        let nodes = parse("redis+cluster://u:p%40@a:1,b,[::1]:3").unwrap().servers;
        let seen: Vec<String> = nodes.iter().map(|node| info(node).addr().to_string()).collect();
        assert_eq!(seen, ["a:1", "b:6379", "::1:3"]);
        assert!(nodes.iter().all(|node| info(node).redis_settings().password() == Some("p@")));
        assert_eq!(info(&parse("redis://h/7").unwrap().servers[0]).redis_settings().db(), 7);
        for node in parse("rediss+cluster://a:1,b").unwrap().servers {
            assert!(matches!(info(&node).addr(), ConnectionAddr::TcpTls { .. }));
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_field_value_and_way_out_and_without_the_password() {
        for (bad, said) in [
            ("", "the scheme \"\" in the address of Redis is none of Redis; use redis://host:port"),
            ("localhost:6379", "is none of Redis"),
            ("http://secret@a", "the scheme \"http\""),
            ("redissh://:secret@a", "the scheme \"redissh\""),
            ("rediss://:secret@a?tls_ca=/no/such/file", "the tls_ca \"/no/such/file\""),
            ("rediss://:secret@a?tls_ca", "the parameter \"tls_ca\""),
            ("redis://:secret@a?tls_ca=/no/such/file", "plain"),
            (
                "redis://:secret@a:port",
                "the host \"a:port\" in the address of Redis cannot be read; write host, ",
            ),
            ("redis://:secret@a:99999999/", "the host \"a:99999999\""),
            ("redis://:secret@", "the host \"\" in the address of Redis is missing"),
            ("redis://:secret@a/b", "the database \"b\" in the address of Redis is no number; "),
            ("redis://:secret@a/-1", "the database \"-1\""),
            ("redis://:secret@a,b", "the host \"a,b\" in the address of Redis is more than one"),
            ("redis+cluster://", "the host \"\""),
            ("redis+cluster://:secret@a,,b", "the host \"\""),
            (
                "redis+cluster://:secret@a/3",
                "the database \"3\" in the address of Redis is none of a Cluster",
            ),
            ("redis+sentinel://:secret@a,b", "the name of the master"),
            ("redis+sentinel:///mymaster", "the host \"\""),
            ("redis+sentinel://:secret@a/main/db", "the database \"db\""),
            ("redis://:sec?ret@a", "the parameter \"...\""),
            ("redis://:sec/ret@a", "the user or password \"...\""),
        ] {
            let error = parse(bad).map(drop).expect_err(bad).to_string();
            assert!(error.contains(said), "{bad}: {error}");
            assert!(!["secret", "ret@", "sec/"].iter().any(|part| error.contains(part)), "{error}");
        }
    }
}
