//! The server under test: engines that run already, or engines that are started here with all they stand on. Must never
//! leave a process behind.

use crate::{
    backing::{Backing, Ways},
    count::Counter,
    engine::SpawnedEngine,
    options::ServerOptions,
    outage::cause::Cause,
    proc::Usage,
    report::CountReport,
};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) enum Server {
    Running { pid: Option<u32> },
    Started(Box<Started>),
}

/// The use of the server's parts so far. `None` for a part that does not exist or cannot be measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// The engines together.
    pub(crate) engines: Option<Usage>,
    pub(crate) mariadb: Option<Usage>,
    pub(crate) redis: Option<Usage>,
}

impl Server {
    /// CPU time in all, killed processes included.
    pub(crate) fn used(&self) -> Used {
        match self {
            Self::Running { pid } => Used { engines: pid.and_then(Usage::of), ..Used::default() },
            Self::Started(started) => started.used(),
        }
    }

    /// The counter of calls to MariaDB and Redis from now on.
    pub(crate) async fn counter(&self) -> anyhow::Result<Counter> {
        let Self::Started(started) = self else {
            anyhow::bail!("only servers that are started here are counted")
        };
        Counter::begin(started.backing.mariadb()?, started.backing.redis()?).await
    }

    pub(crate) async fn counted(&self, counter: Counter, tasks: u64) -> anyhow::Result<CountReport> {
        let Self::Started(started) = self else {
            anyhow::bail!("only servers that are started here are counted")
        };
        counter.end(started.backing.mariadb()?, started.backing.redis()?, tasks).await
    }

    pub(crate) fn bus_url(&self) -> Option<String> {
        match self {
            Self::Running { .. } => None,
            Self::Started(started) => started.backing.bus_url(),
        }
    }

    /// The engines that were started here.
    pub(crate) fn engines(&mut self) -> &mut [SpawnedEngine] {
        match self {
            Self::Running { .. } => &mut [],
            Self::Started(started) => &mut started.engines,
        }
    }

    /// An error when something has ended by itself.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        let Self::Started(started) = self else { return Ok(()) };
        started.backing.check_alive()?;
        started.engines.iter_mut().try_for_each(SpawnedEngine::check_alive)
    }

    /// Begins an outage of a server that was started here.
    pub(crate) async fn begin_outage(&mut self, what: Cause) -> anyhow::Result<()> {
        match self {
            Self::Running { .. } => anyhow::bail!("an outage is of servers that are started here"),
            Self::Started(started) => started.begin(what).await,
        }
    }

    pub(crate) async fn end_outage(&mut self, what: Cause) -> anyhow::Result<()> {
        match self {
            Self::Running { .. } => anyhow::bail!("an outage is of servers that are started here"),
            Self::Started(started) => started.end(what).await,
        }
    }

    /// Ends the server. Engines that were started here end, and are waited for, before the servers that they use.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        for engine in self.engines() {
            engine.kill().await?;
        }
        Ok(())
    }
}

/// A queue that the engines publish to the bus.
#[derive(Debug)]
pub(crate) struct Push {
    /// `namespace/queue`.
    pub(crate) queue: String,
    pub(crate) lease_ms: i64,
}

/// Engines that were started here, dropped before what they stand on.
#[derive(Debug)]
pub(crate) struct Started {
    engines: Vec<SpawnedEngine>,
    /// The ways of each engine, if the run requested proxies.
    ways: Vec<Ways>,
    backing: Backing,
}

impl Started {
    /// `admin`: what an admin's token is, or `None` if there are no tokens.
    pub(crate) async fn start(
        options: &ServerOptions,
        push: Option<Push>,
        admin: Option<&str>,
    ) -> anyhow::Result<Self> {
        let program = find_program(options.server_bin.as_deref())?;
        let mut started = Self::without_engines(options).await;
        if let Some(push) = push {
            started.backing.push(push.queue, push.lease_ms);
        }
        if let Some(admin) = admin {
            started.backing.environment.push(("PUNCTUAL_AUTH_ADMIN_TOKEN", admin.to_owned()));
        }
        // One after the other: the first makes the tables.
        for _ in 0..options.engines() {
            let environment = if options.proxied {
                let (ways, environment) = started.backing.ways();
                started.ways.push(ways);
                environment
            } else {
                started.backing.environment.clone()
            };
            started
                .engines
                .push(SpawnedEngine::start(&program, options.data.as_deref(), &environment).await?);
        }
        Ok(started)
    }

    /// Starts the servers for the engines.
    pub(crate) async fn without_engines(options: &ServerOptions) -> Self {
        Self { engines: Vec::new(), ways: Vec::new(), backing: Backing::start(options).await }
    }

    pub(crate) async fn begin(&mut self, what: Cause) -> anyhow::Result<()> {
        self.backing.begin(what).await?;
        self.ways.iter().enumerate().for_each(|(nth, ways)| ways.begin(what, nth == 0));
        Ok(())
    }

    pub(crate) async fn end(&mut self, what: Cause) -> anyhow::Result<()> {
        self.ways.iter().enumerate().for_each(|(nth, ways)| ways.end(what, nth == 0));
        self.backing.end(what).await
    }

    #[cfg(test)]
    pub(crate) async fn redis_answers(&self, words: &[&str]) -> String {
        self.backing.redis().unwrap().command(words).await
    }

    /// The addresses of all engines, with commas.
    pub(crate) fn urls(&self) -> String {
        self.engines.iter().map(SpawnedEngine::url).collect::<Vec<_>>().join(",")
    }

    fn used(&self) -> Used {
        let together = |sum: Option<Usage>, engine: &SpawnedEngine| Some(sum?.beside(engine.usage()?));
        Used {
            engines: self.engines.iter().fold(Some(Usage::default()), together),
            mariadb: self.backing.mariadb_usage(),
            redis: self.backing.redis_usage(),
        }
    }
}

/// The path of the server's binary, unless an option sets it: named by `PUNCTUAL_BIN`, or beside this program.
pub(crate) fn find_program(reported: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named =
        reported.map(Path::to_path_buf).or_else(|| std::env::var_os("PUNCTUAL_BIN").map(PathBuf::from));
    let program = match named {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("punctual"),
    };
    let hint = "build it (cargo build --release), or name it with --server-bin or PUNCTUAL_BIN";
    anyhow::ensure!(program.is_file(), "no server at {}: {hint}", program.display());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_told_with_what_to_do() {
        let error = find_program(Some(Path::new("/nowhere/punctual"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/punctual") && error.contains("--server-bin"), "{error}");
    }
}
