//! Several Redis servers as one: a Cluster of three masters, and a master with its replica under three
//! sentinels. One watchdog owns each set. Must not decide which server has a key.

use super::{
    beside,
    process::until,
    redis::{Redis, cli},
    tls::TlsKeyPair,
    watchdog::{Watchdog, shown},
};
use std::sync::Arc;

/// Three masters with a third of the slots each, no replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// One of the test's own.
    pub async fn own() -> Self {
        beside(Self::start).await
    }

    /// Starts a cluster for one test alone, with TLS only, also between its nodes.
    pub async fn over_tls(identity: &TlsKeyPair) -> Self {
        let identity = identity.clone();
        beside(move || Self::start_with(Some(&identity))).await
    }

    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    fn start_with(identity: Option<&TlsKeyPair>) -> Self {
        let watchdog = Arc::new(Watchdog::start());
        if let Some(identity) = identity {
            identity.write_to(watchdog.dir());
        }
        let node = |n: u8| {
            let name = format!("node-{n}");
            let more =
                ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file"];
            let mut more = more.map(str::to_owned).to_vec();
            more.push(format!("{name}.conf"));
            if identity.is_some() {
                more.extend(["--tls-cluster", "yes"].map(str::to_owned));
            }
            Redis::under(&watchdog, &name, &more)
        };
        let nodes: Vec<Redis> = (1..=3).map(node).collect();
        let mut create = vec!["--cluster".to_owned(), "create".to_owned()];
        create.extend(nodes.iter().map(address));
        create.push("--cluster-yes".to_owned());
        words_to(&nodes, &create).expect("three empty nodes form a cluster");
        let is_ok = |redis: &Redis| said(redis, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
        assert!(until(|| nodes.iter().all(is_ok)), "the cluster does not come to be ok");
        Self { nodes }
    }

    /// `redis+cluster://` and all three nodes.
    #[must_use]
    pub fn url(&self) -> String {
        url("+cluster", &self.nodes, "")
    }

    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }
}

/// The master is called `mymaster`; silent for a second, it is replaced.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Redis>,
    master: Redis,
    replica: Redis,
}

impl Sentinels {
    /// One set of the test's own.
    pub async fn own() -> Self {
        beside(Self::start).await
    }

    /// Starts a set for one test alone, with TLS only.
    pub async fn over_tls(identity: &TlsKeyPair) -> Self {
        let identity = identity.clone();
        beside(move || Self::start_with(Some(&identity))).await
    }

    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    fn start_with(identity: Option<&TlsKeyPair>) -> Self {
        let watchdog = Arc::new(Watchdog::start());
        if let Some(identity) = identity {
            identity.write_to(watchdog.dir());
        }
        let master = Redis::under(&watchdog, "master", &[]);
        let of = ["--replicaof", "127.0.0.1", &master.port().to_string()].map(str::to_owned);
        let replica = Redis::under(&watchdog, "replica", &of);
        let sentinels: Vec<Redis> = (1..=3).map(|n| sentinel(&watchdog, n, master.port())).collect();
        let sentinels = Self { sentinels, master, replica };
        assert!(
            until(|| sentinels.sentinels.iter().all(knows_the_others)),
            "the sentinels do not find each other"
        );
        sentinels
    }

    /// `redis+sentinel://`, all three sentinels and the master's name.
    #[must_use]
    pub fn url(&self) -> String {
        url("+sentinel", &self.sentinels, "/mymaster")
    }

    #[must_use]
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The one that began as master.
    #[must_use]
    pub fn master(&self) -> &Redis {
        &self.master
    }

    /// The server that takes over when the master is silent.
    #[must_use]
    pub fn replica(&self) -> &Redis {
        &self.replica
    }
}

/// A sentinel rewrites its file, so that its knowledge survives a restart.
fn sentinel(watchdog: &Arc<Watchdog>, n: u8, master: u16) -> Redis {
    let (name, path) = (format!("sentinel-{n}"), watchdog.dir().join(format!("sentinel-{n}.conf")));
    let text = format!(
        "sentinel monitor mymaster 127.0.0.1 {master} 2\nsentinel down-after-milliseconds mymaster 1000\n\
         sentinel failover-timeout mymaster 5000\n"
    );
    std::fs::write(&path, text).expect("the watchdog's directory is ours");
    Redis::sentinel_under(watchdog, &name, shown(&path))
}

fn knows_the_others(sentinel: &Redis) -> bool {
    let said = said(sentinel, &["SENTINEL", "MASTER", "mymaster"]);
    let lines: Vec<&str> = said.lines().collect();
    let has = |key: &str, value: &str| lines.windows(2).any(|pair| pair == [key, value]);
    has("num-other-sentinels", "2") && has("num-slaves", "1")
}

fn url(kind: &str, nodes: &[Redis], end: &str) -> String {
    let hosts = nodes.iter().map(address).collect::<Vec<_>>().join(",");
    nodes.first().expect("a set has nodes").url_of(kind, &format!("{hosts}{end}"))
}

fn address(node: &Redis) -> String {
    format!("127.0.0.1:{}", node.port())
}

fn said(node: &Redis, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    cli(node.dir(), node.port(), &words).unwrap_or_default()
}

fn words_to(nodes: &[Redis], words: &[String]) -> Result<String, String> {
    let first = nodes.first().ok_or("no node")?;
    cli(first.dir(), first.port(), words)
}
