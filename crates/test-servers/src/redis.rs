//! A private Redis without persistence and eviction. Must not know a key of the product.

use super::{
    beside,
    process::{Process, program},
    tls::{self, TlsKeyPair},
    watchdog::{Watchdog, shown},
};
use std::{path::Path, process::Command, sync::Arc};

const PACKAGE: &str = "redis-server";

#[derive(Debug)]
pub struct Redis {
    process: Arc<Process>,
}

impl Redis {
    /// Starts a server for one test alone, which may kill and pause it. Ends when it is dropped.
    pub async fn own() -> Self {
        beside(Self::start).await
    }

    /// One of the caller's own, with more settings, which win: `--appendonly`, `yes`.
    pub async fn with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        beside(move || Self::under(&Arc::new(Watchdog::start()), "redis", &settings)).await
    }

    /// Starts a server for one test alone, with TLS only, and further settings.
    pub async fn over_tls(identity: &TlsKeyPair, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let identity = identity.clone();
        let start = move || {
            let watchdog = Arc::new(Watchdog::start());
            identity.write_to(watchdog.dir());
            Self::under(&watchdog, "redis", &settings)
        };
        beside(start).await
    }

    pub(crate) fn start() -> Self {
        Self::under(&Arc::new(Watchdog::start()), "redis", &[])
    }

    /// One more under a watchdog, with more settings.
    pub(crate) fn under(watchdog: &Arc<Watchdog>, name: &str, more: &[String]) -> Self {
        let mut words = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--dbfilename".to_owned(), format!("{name}.rdb")]);
        words.extend_from_slice(more);
        Self::set_up(watchdog, name, words)
    }

    /// One that watches others.
    pub(crate) fn sentinel_under(watchdog: &Arc<Watchdog>, name: &str, config: String) -> Self {
        Self::set_up(watchdog, name, vec![config, "--sentinel".to_owned()])
    }

    fn set_up(watchdog: &Arc<Watchdog>, name: &str, settings: Vec<String>) -> Self {
        let (server, dir) = (program("redis-server", PACKAGE), shown(watchdog.dir()));
        let over_tls = over_tls(watchdog.dir(), &settings);
        let command = move |port: u16| {
            let mut words = vec![server.clone()];
            words.extend(settings.iter().cloned());
            words.extend(["--bind", "127.0.0.1", "--dir", &dir].map(str::to_owned));
            words.extend(over_tls.iter().flatten().cloned());
            let option = if over_tls.is_some() { "--tls-port" } else { "--port" };
            words.extend([option.to_owned(), port.to_string()]);
            words
        };
        Self { process: Process::start(watchdog, name, command, answers) }
    }

    /// `redis://`, or `rediss://` with the file of the authority.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("", &format!("127.0.0.1:{}", self.port()))
    }

    /// The URL of one or several hosts, of a kind such as `+cluster`.
    pub(crate) fn url_of(&self, kind: &str, hosts: &str) -> String {
        match tls::authority_in(self.dir()) {
            Some(ca) => format!("rediss{kind}://{hosts}?tls_ca={}", shown(&ca)),
            None => format!("redis{kind}://{hosts}"),
        }
    }

    /// A prefix for the keys of one test: no other test gets it.
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

    /// The directory of its log; removed with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.process.watchdog.dir()
    }

    /// One command; its answer as redis-cli writes it, without colours and quotes. Panics when it cannot be sent.
    pub async fn command(&self, words: &[&str]) -> String {
        let (dir, port) = (self.dir().to_owned(), self.port());
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = beside(move || cli(&dir, port, &words)).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// False if it has died by itself: then the test's result is meaningless.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// All that it has written since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Connections stay open without any answer, until `resume`.
    pub fn pause(&self) {
        self.process.pause();
    }

    pub fn resume(&self) {
        self.process.resume();
    }

    /// kill -9; the process and its data are gone when this returns.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts again after `kill`: same port, empty, answering when this returns.
    pub async fn start_again(&self) {
        let process = Arc::clone(&self.process);
        beside(move || process.start_again()).await;
    }
}

/// If the directory has certificates. Peers of a set must show theirs, clients need not, unless the settings
/// say so.
fn over_tls(dir: &Path, settings: &[String]) -> Option<Vec<String>> {
    const CLIENTS: &str = "--tls-auth-clients";
    tls::authority_in(dir)?;
    let files = [
        ("--tls-ca-cert-file", "ca.pem"),
        ("--tls-cert-file", "server.pem"),
        ("--tls-key-file", "server.key"),
        ("--tls-client-cert-file", "client.pem"),
        ("--tls-client-key-file", "client.key"),
    ];
    let mut words: Vec<String> =
        files.iter().flat_map(|(option, name)| [(*option).to_owned(), tls::file(dir, name)]).collect();
    words.extend(["--port", "0", "--tls-replication", "yes"].map(str::to_owned));
    if !settings.iter().any(|setting| setting == CLIENTS) {
        words.extend([CLIENTS, "no"].map(str::to_owned));
    }
    Some(words)
}

/// The server with our pid: another process may have taken the port first.
fn answers(process: &Process) -> bool {
    let own = format!("process_id:{}\r", process.pid());
    let info = ["INFO".to_owned(), "server".to_owned()];
    cli(process.watchdog.dir(), process.port(), &info).is_ok_and(|cli| cli.contains(&own))
}

/// Runs the command line client, over TLS if the directory has certificates; good or bad ones, since only a test uses
/// this for its own server.
pub(crate) fn cli(dir: &Path, port: u16, words: &[String]) -> Result<String, String> {
    let mut client = Command::new(program("redis-cli", "redis-tools"));
    if tls::authority_in(dir).is_some() {
        client.args(["--tls", "--insecure"]);
        client.args(["--cert", &tls::file(dir, "client.pem"), "--key", &tls::file(dir, "client.key")]);
    }
    let out =
        client.args(["-p", &port.to_string()]).args(words).output().map_err(|error| error.to_string())?;
    let written = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if out.status.success() { Ok(written(&out.stdout)) } else { Err(written(&out.stderr)) }
}
