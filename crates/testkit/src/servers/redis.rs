//! A private Redis that keeps nothing on disk and evicts nothing. Must not know a key of the product.

use super::{
    beside,
    process::{Process, program},
    watchdog::{Watchdog, shown},
};
use std::{path::Path, process::Command, sync::Arc};

const PACKAGE: &str = "redis-server";

#[derive(Debug)]
pub struct Redis {
    process: Arc<Process>,
}

impl Redis {
    /// One of the test's own, to kill and pause. Gone when it is dropped.
    pub async fn own() -> Self {
        beside(Self::start).await
    }

    /// One of the caller's own, with more settings, which win: `--appendonly`, `yes`.
    pub async fn with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|it| (*it).to_owned()).collect();
        beside(move || Self::under(&Arc::new(Watchdog::start()), "redis", &settings)).await
    }

    pub(super) fn start() -> Self {
        Self::under(&Arc::new(Watchdog::start()), "redis", &[])
    }

    /// One more under a watchdog, with more settings.
    pub(super) fn under(watchdog: &Arc<Watchdog>, name: &str, more: &[String]) -> Self {
        let mut words = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--dbfilename".to_owned(), format!("{name}.rdb")]);
        words.extend_from_slice(more);
        Self::set_up(watchdog, name, words)
    }

    /// One that watches others.
    pub(super) fn sentinel_under(watchdog: &Arc<Watchdog>, name: &str, config: String) -> Self {
        Self::set_up(watchdog, name, vec![config, "--sentinel".to_owned()])
    }

    fn set_up(watchdog: &Arc<Watchdog>, name: &str, settings: Vec<String>) -> Self {
        let (server, dir) = (program("redis-server", PACKAGE), shown(watchdog.dir()));
        let command = move |port: u16| {
            let mut words = vec![server.clone()];
            words.extend(settings.iter().cloned());
            words.extend(
                ["--bind", "127.0.0.1", "--dir", &dir, "--port", &port.to_string()].map(str::to_owned),
            );
            words
        };
        Self { process: Process::start(watchdog, name, command, answers) }
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// For the keys of one test: no other test has it.
    #[must_use]
    pub fn fresh_prefix(&self) -> String {
        format!("t{:016x}", fastrand::u64(..))
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where its log is; goes away with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.process.watchdog.dir()
    }

    /// One command; its answer as redis-cli writes it, without colours and quotes. Panics when it cannot be sent.
    pub async fn command(&self, words: &[&str]) -> String {
        let port = self.port();
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        let answer = beside(move || cli(port, &words)).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// False when it has died by itself: a test that goes on then tells nothing.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// All that it has written since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Connections stay open and nothing answers, until `resume`.
    pub fn pause(&self) {
        self.process.pause();
    }

    pub fn resume(&self) {
        self.process.resume();
    }

    /// kill -9; it is gone when this returns, and so is all it held.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// After `kill`: same port, empty, answering when this returns.
    pub async fn start_again(&self) {
        let process = Arc::clone(&self.process);
        beside(move || process.start_again()).await;
    }
}

/// The one of our pid: a stranger may have taken the port before it.
fn answers(process: &Process) -> bool {
    let own = format!("process_id:{}\r", process.pid());
    cli(process.port(), &["INFO".to_owned(), "server".to_owned()]).is_ok_and(|it| it.contains(&own))
}

pub(super) fn cli(port: u16, words: &[String]) -> Result<String, String> {
    let mut client = Command::new(program("redis-cli", "redis-tools"));
    let out = client.args(["-p", &port.to_string()]).args(words).output().map_err(|it| it.to_string())?;
    let written = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if out.status.success() { Ok(written(&out.stdout)) } else { Err(written(&out.stderr)) }
}
