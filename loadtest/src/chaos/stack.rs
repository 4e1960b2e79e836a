//! The installation that is broken: a private MariaDB and Redis, or nothing but a data directory, and engines that each
//! reach them by ways of their own. Must never leave a process behind, and must not decide what breaks.

use super::{disk::Disk, inbox::UserDatabase, log::LogPipe, plan::What, time::ChaosWallClock};
use crate::{
    chaos::ChaosOptions,
    engine::{EngineFiles, SpawnedEngine},
    options::{Hot, Store},
    server::find_program,
};
use anyhow::Context as _;
use punctual_test_servers::{MariaDb, Proxy, Redis};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// A commit is on the disk before it is answered; small, since the machine is shared with all of it.
const MARIADB: [&str; 3] =
    ["--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M", "--innodb-log-file-size=128M"];
const REDIS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];

/// Dropped in this order: engines before what they stand on.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) members: Vec<Member>,
    pub(crate) mariadb: Option<MariaDb>,
    pub(crate) redis: Option<Redis>,
    /// With an inbox; in the same MariaDB.
    pub(crate) user: Option<UserDatabase>,
    /// Why no disk can be filled, where that was wanted and cannot be.
    pub(crate) no_disk: Option<String>,
    pub(crate) directory: tempfile::TempDir,
}

/// An engine with all that is its own.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) engine: SpawnedEngine,
    /// The member's way to each database.
    pub(crate) databases: Vec<Proxy>,
    pub(crate) redis: Option<Proxy>,
    pub(crate) clock: Option<ChaosWallClock>,
    pub(crate) log: LogPipe,
    /// The disk of its data; only for the embedded engine.
    pub(crate) disk: Option<Disk>,
    /// The path of its log while that shares the disk with the data.
    pub(crate) log_on_disk: PathBuf,
    pub(crate) is_logging_to_disk: bool,
}

/// The settings of every engine of the installation.
struct Common {
    program: PathBuf,
    /// Names of the databases.
    databases: Vec<String>,
    has_clock: bool,
    disk_mib: Option<u32>,
}

impl Stack {
    pub(crate) async fn start(options: &ChaosOptions, whats: &[What]) -> anyhow::Result<Self> {
        let whats: HashSet<What> = whats.iter().copied().collect();
        let directory =
            tempfile::Builder::new().prefix("punctual-chaos-").tempdir().context("a directory")?;
        let program = find_program(options.server_bin.as_deref())?;
        let mut stack =
            Self { members: Vec::new(), mariadb: None, redis: None, user: None, no_disk: None, directory };
        let mut databases = Vec::new();
        if options.store == Store::Mysql {
            let mariadb = MariaDb::with(&MARIADB).await;
            for _ in 0..options.databases() {
                let url = mariadb.fresh_database().await;
                databases.push(url.rsplit('/').next().unwrap_or_default().to_owned());
            }
            stack.user = Some(UserDatabase::install(&mariadb, &program).await?);
            stack.mariadb = Some(mariadb);
        }
        if options.hot() == Hot::Redis {
            stack.redis = Some(Redis::with(&REDIS).await);
        }
        let common = Common {
            program,
            databases,
            has_clock: whats.contains(&What::Clock),
            disk_mib: whats.contains(&What::DiskFull).then(|| disk_mib(options)),
        };
        // One after the other: the first makes the tables.
        for n in 0..options.engines() {
            let mut member = stack.member(n, &common).await?;
            member.engine.wait_until_ready().await?;
            stack.members.push(member);
        }
        Ok(stack)
    }

    async fn member(&mut self, n: usize, common: &Common) -> anyhow::Result<Member> {
        let own = self.directory.path().join(format!("engine-{n}"));
        std::fs::create_dir(&own).context("an engine's directory")?;
        let small = own.join("disk");
        std::fs::create_dir(&small).context("an engine's directory")?;
        let disk = match common.disk_mib {
            Some(size_mib) => Disk::mount(&small, size_mib)
                .await
                .map_err(|error| self.no_disk = Some(error.to_string()))
                .ok(),
            None => None,
        };
        let log = LogPipe::make(own.join("pipe"), self.log_of(n)).await?;
        let mut environment = Vec::new();
        let databases: Vec<Proxy> = match &self.mariadb {
            Some(mariadb) => common.databases.iter().map(|_| Proxy::before(mariadb.port())).collect(),
            None => Vec::new(),
        };
        if !databases.is_empty() {
            let url = |(name, way): (&String, &Proxy)| format!("mysql://t:t@127.0.0.1:{}/{name}", way.port());
            let urls: Vec<String> = common.databases.iter().zip(&databases).map(url).collect();
            environment.push(("PUNCTUAL_STORE_URL", urls.join(",")));
        }
        if let Some((user, way)) = self.user.as_ref().zip(databases.first()) {
            let url = format!("inbox=mysql://t:t@127.0.0.1:{}/{}", way.port(), user.name);
            environment.push(("PUNCTUAL_INBOX_URL", url));
        }
        let redis = self.redis.as_ref().map(|redis| Proxy::before(redis.port()));
        if let Some(way) = &redis {
            environment.push(("PUNCTUAL_HOT_URL", format!("redis://127.0.0.1:{}", way.port())));
        }
        let clock = common.has_clock.then(|| ChaosWallClock::new(own.join("clock"))).transpose()?;
        environment.extend(clock.iter().flat_map(ChaosWallClock::environment));
        let place = EngineFiles { data: small.join("data"), output: log.pipe.clone(), log: log.log.clone() };
        let engine = SpawnedEngine::at(&common.program, place, &environment)?;
        let log_on_disk = small.join("log");
        Ok(Member { engine, databases, redis, clock, log, disk, log_on_disk, is_logging_to_disk: false })
    }

    fn log_of(&self, n: usize) -> PathBuf {
        self.directory.path().join(format!("engine-{n}.log"))
    }

    /// The addresses of all engines, with commas.
    pub(crate) fn urls(&self) -> String {
        self.members.iter().map(|member| member.engine.url()).collect::<Vec<_>>().join(",")
    }

    /// Before the run is over everything that tells what happened is copied to where it stays.
    pub(crate) fn keep_logs(&self) -> anyhow::Result<()> {
        for (n, member) in self.members.iter().enumerate() {
            if member.log_on_disk.is_file() {
                std::fs::copy(
                    &member.log_on_disk,
                    self.directory.path().join(format!("engine-{n}.disk.log")),
                )?;
            }
        }
        let write = |name: &str, text: String| std::fs::write(self.directory.path().join(name), text);
        if let Some(mariadb) = &self.mariadb {
            write("mariadb.log", mariadb.log())?;
        }
        if let Some(redis) = &self.redis {
            write("redis.log", redis.log())?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Ends the stack. The engines end, and are waited for, before the servers that they use.
    pub(crate) async fn end(mut self, is_kept: bool) -> anyhow::Result<Option<PathBuf>> {
        for member in &mut self.members {
            member.engine.kill().await?;
        }
        if is_kept {
            self.keep_logs()?;
        }
        for member in self.members.drain(..) {
            if let Some(disk) = member.disk {
                disk.unmount().await?;
            }
        }
        let Self { directory, .. } = self;
        Ok(is_kept.then(|| directory.keep()))
    }
}

impl Member {
    /// Moves the log, from the next start on, to the disk with the data, or to the pipe.
    pub(crate) fn log_to_disk(&mut self, is_on_disk: bool) {
        self.is_logging_to_disk = is_on_disk;
        let (output, log) = if is_on_disk {
            (self.log_on_disk.clone(), self.log_on_disk.clone())
        } else {
            (self.log.pipe.clone(), self.log.log.clone())
        };
        self.engine.write_to(output, log);
    }
}

/// Room for all that the load leaves, and some.
fn disk_mib(options: &ChaosOptions) -> u32 {
    let tasks = options.minutes * 60.0 * f64::from(options.rate);
    let mib = 96.0 + tasks * 4.0 / 1_024.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let mib = mib.clamp(96.0, 4_096.0) as u32;
    mib
}
