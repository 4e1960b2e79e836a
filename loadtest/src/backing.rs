//! Private MariaDB and Redis for spawned engines, with the settings that the promises ask of a real installation. They
//! end with this process, however it ends. Must never be a server that another uses.

use crate::{
    options::{Hot, ServerOptions, Store},
    outage::cause::Cause,
    proc::Usage,
};
use anyhow::Context as _;
use punctual_test_servers::{MariaDb, Proxy, Redis, STATEMENT_LOG, Way};
use std::path::{Path, PathBuf};

/// A commit is on the disk before it is answered.
const DURABLE_MARIADB: &str = "--innodb-flush-log-at-trx-commit=1";
/// Room for a burst without a checkpoint in the middle of it.
const REDO_LOG: &str = "1G";
const BUFFER_POOL: &str = "2G";
const DURABLE_REDIS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];

#[derive(Debug, Default)]
pub(crate) struct Backing {
    mariadb: Option<MariaDb>,
    redis: Option<Redis>,
    /// One of them has been killed or paused by this run.
    is_away: bool,
    /// The environment of every engine.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Backing {
    pub(crate) async fn start(options: &ServerOptions) -> Self {
        let mut backing = Self::default();
        if options.store == Store::Mysql {
            let size = options.buffer_pool.as_deref().unwrap_or(BUFFER_POOL);
            let buffer_pool = format!("--innodb-buffer-pool-size={size}");
            let log = format!("--innodb-log-file-size={}", options.redo_log.as_deref().unwrap_or(REDO_LOG));
            let mut settings = vec![DURABLE_MARIADB, &log, &buffer_pool];
            settings.extend(STATEMENT_LOG.iter().filter(|_| options.is_counted));
            let mariadb = MariaDb::with(&settings).await;
            let mut urls = Vec::new();
            for _ in 0..options.databases() {
                urls.push(mariadb.fresh_database().await);
            }
            backing.environment.push(("PUNCTUAL_STORE_URL", urls.join(",")));
            if let Some(partitions) = options.partitions {
                backing.environment.push(("PUNCTUAL_STORE_PARTITIONS", partitions.to_string()));
            }
            backing.mariadb = Some(mariadb);
        }
        if options.hot == Hot::Redis {
            let redis = Redis::with(&DURABLE_REDIS).await;
            backing.environment.push(("PUNCTUAL_HOT_URL", redis.url()));
            backing.redis = Some(redis);
        }
        backing
    }

    /// The address of the bus for executors that subscribe.
    pub(crate) fn bus_url(&self) -> Option<String> {
        self.redis.as_ref().map(Redis::url)
    }

    /// Tells the engines to push a queue, with leases of this length.
    pub(crate) fn push(&mut self, queue: String, lease_ms: i64) {
        self.environment.push(("PUNCTUAL_QUEUES_PUSH", queue));
        self.environment.push(("PUNCTUAL_QUEUES_PUSH_LEASE_MS", lease_ms.to_string()));
    }

    /// An error with its log when one has died: what the engines did without it is no finding.
    pub(crate) fn check_alive(&self) -> anyhow::Result<()> {
        if self.is_away {
            return Ok(());
        }
        if let Some(mariadb) = self.mariadb.as_ref().filter(|mariadb| !mariadb.is_running()) {
            anyhow::bail!("MariaDB has died:\n{}", mariadb.log());
        }
        if let Some(redis) = self.redis.as_ref().filter(|redis| !redis.is_running()) {
            anyhow::bail!("Redis has died:\n{}", redis.log());
        }
        Ok(())
    }

    pub(crate) async fn begin(&mut self, what: Cause) -> anyhow::Result<()> {
        self.is_away = true;
        match what {
            Cause::RedisKill => self.redis()?.kill(),
            Cause::RedisPause => self.redis()?.pause(),
            Cause::RedisFlush => drop(self.redis()?.command(&["FLUSHALL"]).await),
            Cause::RedisEmpty => {
                self.redis()?.command(&["FLUSHALL"]).await;
                self.redis()?.kill();
            }
            Cause::RedisStale => {
                // What Redis has acknowledged is in its files.
                copy_files(&self.append_only()?, &self.older_copy()?)?;
            }
            Cause::RedisFull => {
                let limit = self.redis()?.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
                anyhow::ensure!(limit == "OK", "Redis did not take a limit of its memory: {limit}");
            }
            Cause::MysqlKill => self.mariadb()?.kill(),
            Cause::RedisSilent | Cause::RedisCutOne | Cause::MysqlSilent => {}
        }
        Ok(())
    }

    pub(crate) async fn end(&mut self, what: Cause) -> anyhow::Result<()> {
        match what {
            Cause::RedisKill | Cause::RedisEmpty => self.redis()?.start_again().await,
            Cause::RedisPause => self.redis()?.resume(),
            Cause::RedisStale => {
                self.redis()?.kill();
                let file = self.append_only()?;
                std::fs::remove_dir_all(&file).context("the append-only file of before")?;
                std::fs::rename(self.older_copy()?, file).context("the older copy")?;
                self.redis()?.start_again().await;
            }
            Cause::RedisFull => {
                let unlimited = self.redis()?.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
                anyhow::ensure!(unlimited == "OK", "Redis kept the limit of its memory: {unlimited}");
            }
            Cause::RedisFlush | Cause::RedisSilent | Cause::RedisCutOne | Cause::MysqlSilent => {}
            Cause::MysqlKill => self.mariadb()?.start_again().await,
        }
        self.is_away = false;
        Ok(())
    }

    fn append_only(&self) -> anyhow::Result<PathBuf> {
        Ok(self.redis()?.dir().join("appendonlydir"))
    }

    fn older_copy(&self) -> anyhow::Result<PathBuf> {
        Ok(self.redis()?.dir().join("older-copy"))
    }

    pub(crate) fn redis(&self) -> anyhow::Result<&Redis> {
        self.redis.as_ref().context("there is a Redis")
    }

    pub(crate) fn mariadb(&self) -> anyhow::Result<&MariaDb> {
        self.mariadb.as_ref().context("there is a MariaDB")
    }

    /// Proxies of one engine's own before both, and the environment that names them.
    pub(crate) fn ways(&self) -> (Ways, Vec<(&'static str, String)>) {
        let mysql = self.mariadb.as_ref().map(|mariadb| (mariadb.port(), Proxy::before(mariadb.port())));
        let redis = self.redis.as_ref().map(|redis| (redis.port(), Proxy::before(redis.port())));
        let through = |url: &str| {
            [&mysql, &redis].into_iter().flatten().fold(url.to_owned(), |url, (port, proxy)| {
                url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", proxy.port()))
            })
        };
        let environment = self.environment.iter().map(|(name, value)| (*name, through(value))).collect();
        let ways = Ways { mysql: mysql.map(|(_, proxy)| proxy), redis: redis.map(|(_, proxy)| proxy) };
        (ways, environment)
    }

    pub(crate) fn mariadb_usage(&self) -> Option<Usage> {
        Usage::of(self.mariadb.as_ref()?.pid())
    }

    pub(crate) fn redis_usage(&self) -> Option<Usage> {
        Usage::of(self.redis.as_ref()?.pid())
    }
}

/// The ways of one engine to MariaDB and Redis.
#[derive(Debug)]
pub(crate) struct Ways {
    mysql: Option<Proxy>,
    redis: Option<Proxy>,
}

impl Ways {
    /// `is_first`: of the engine that an outage of one engine is about.
    pub(crate) fn begin(&self, what: Cause, is_first: bool) {
        match what {
            Cause::RedisSilent => self.redis.iter().for_each(|proxy| proxy.set_open(Way::Silent)),
            Cause::MysqlSilent => self.mysql.iter().for_each(|proxy| proxy.set_open(Way::Silent)),
            Cause::RedisCutOne if is_first => self.redis.iter().for_each(|proxy| proxy.set(Way::Cut)),
            _ => {}
        }
    }

    /// Connections that fell silent stay so: a firewall that forgot them does not remember them.
    pub(crate) fn end(&self, what: Cause, is_first: bool) {
        if what == Cause::RedisCutOne && is_first {
            self.redis.iter().for_each(|proxy| proxy.set(Way::Open));
        }
    }
}

/// The files of one directory, without those below it, into a new one.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name())).context("copying the append-only file")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> ServerOptions {
        crate::command::server(&format!("idle --spawn {words}"))
    }

    #[tokio::test]
    async fn the_servers_are_durable_and_named_to_the_engines() {
        let backing =
            Backing::start(&options("--store mysql --databases 2 --buffer-pool 1G --hot redis")).await;
        let [(store, urls), (hot, url)] = &*backing.environment else { panic!("{backing:?}") };
        assert_eq!((*store, *hot), ("PUNCTUAL_STORE_URL", "PUNCTUAL_HOT_URL"));
        let (mariadb, redis) = (backing.mariadb.as_ref().unwrap(), backing.redis.as_ref().unwrap());
        let urls: Vec<&str> = urls.split(',').collect();
        assert!(urls.len() == 2 && urls[0] != urls[1] && *url == redis.url(), "{urls:?} {url}");
        let asked = "select @@innodb_flush_log_at_trx_commit, @@innodb_buffer_pool_size >> 30";
        let database = urls[1].rsplit('/').next().unwrap();
        assert_eq!(mariadb.sql(database, asked).await, "1\t1");
        assert_eq!(redis.command(&["CONFIG", "GET", "appendonly"]).await, "appendonly\nyes");
        assert_eq!(redis.command(&["CONFIG", "GET", "appendfsync"]).await, "appendfsync\neverysec");
        if cfg!(target_os = "linux") {
            assert!(backing.mariadb_usage().is_some_and(|mariadb_usage| mariadb_usage.rss_kib > 0));
            assert!(backing.redis_usage().is_some_and(|redis_usage| redis_usage.rss_kib > 0));
        }
    }

    #[tokio::test]
    async fn the_embedded_default_needs_no_server() {
        let backing = Backing::start(&options("--store sqlite")).await;
        assert!(backing.environment.is_empty() && backing.mariadb.is_none() && backing.redis.is_none());
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_redis_that_dies_in_mid_run_is_told_with_its_log() {
        let backing = Backing::start(&options("--hot redis")).await;
        backing.check_alive().unwrap();
        let redis = backing.redis.as_ref().unwrap();
        redis.command(&["SHUTDOWN", "NOSAVE"]).await;
        while redis.is_running() {
            tokio::task::yield_now().await;
        }
        let error = backing.check_alive().unwrap_err().to_string();
        assert!(error.starts_with("Redis has died") && error.contains("User requested shutdown"), "{error}");
    }
}
