//! One engine that was started here: a process on a free port, that can be killed, paused, stopped as an operator does,
//! and started again on the same data. Must never leave a process behind.

use crate::{
    clock::now_us,
    http::{Connection, Target},
    proc::Usage,
};
use anyhow::Context as _;
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::process::{Child, Command};

/// The time limit from start to `GET /readyz` answering 200; a recovery of millions of tasks is included.
const READY_LIMIT_US: i64 = 120_000_000;
const READY_POLL: Duration = Duration::from_millis(5);
/// An engine that says within this time that it cannot start has not begun to work.
const STARTS_WITHIN_US: i64 = 30_000_000;
/// With this status `serve` refuses to start what a supervisor may start again, as the systemd unit does.
const REFUSED: i32 = 1;
const LOG_TAIL_BYTES: usize = 4_000;
/// The variables of the caller's shell that are removed; the run alone decides the engine's settings.
const FORGOTTEN: [&str; 5] =
    ["PUNCTUAL_STORE_URL", "PUNCTUAL_HOT_URL", "PUNCTUAL_INBOX_URL", "PUNCTUAL_DATA", "PUNCTUAL_CONFIG"];

/// The command line of an engine, the same at every start.
#[derive(Debug)]
struct Launch {
    program: PathBuf,
    data: PathBuf,
    port: Port,
    environment: Vec<(&'static str, String)>,
    /// The path to which it writes: a file, or a pipe that a reader reads.
    output: PathBuf,
    /// The path where that can be read.
    log: PathBuf,
}

/// The paths of an engine's data and log.
#[derive(Debug)]
pub(crate) struct EngineFiles {
    pub(crate) data: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) log: PathBuf,
}

#[derive(Debug)]
pub(crate) struct SpawnedEngine {
    launch: Launch,
    child: Child,
    begun_us: i64,
    /// Sum over the processes that have ended.
    before: Usage,
    /// It was stopped on purpose: its end is no failure.
    is_ending: bool,
    /// Holds log and, unless another place was named, data; removed at the end. `None` if they are the caller's.
    _directory: Option<tempfile::TempDir>,
}

impl SpawnedEngine {
    /// Starts an engine. `data` is `None` for a directory that is removed with the run.
    pub(crate) async fn start(
        program: &Path,
        data: Option<&Path>,
        environment: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the server")?;
        let data = data.map_or_else(|| directory.path().join("data"), Path::to_path_buf);
        let log = directory.path().join("server.log");
        let place = EngineFiles { data, output: log.clone(), log };
        let mut engine = Self::at(program, place, environment)?;
        engine._directory = Some(directory);
        engine.wait_until_ready().await?;
        Ok(engine)
    }

    /// Creates an engine that is not ready yet.
    pub(crate) fn at(
        program: &Path,
        place: EngineFiles,
        environment: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        let (program, port, environment) = (program.to_path_buf(), Port::free()?, environment.to_vec());
        let EngineFiles { data, output, log } = place;
        let launch = Launch { program, data, port, environment, output, log };
        let child = launch.child()?;
        let (begun_us, before) = (now_us(), Usage::default());
        Ok(Self { launch, child, begun_us, before, is_ending: false, _directory: None })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.launch.port.number)
    }

    /// SIGKILL: it has no chance to finish anything. It is gone when this returns.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        self.end_of_process();
        self.child.kill().await.context("killing the server")
    }

    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        self.begin_again()?;
        self.wait_until_ready().await
    }

    /// The same without waiting for it to be ready.
    pub(crate) fn begin_again(&mut self) -> anyhow::Result<()> {
        self.child = self.launch.child()?;
        (self.begun_us, self.is_ending) = (now_us(), false);
        Ok(())
    }

    /// It has ended, and said so early that it was still starting.
    pub(crate) fn has_refused_to_start(&mut self) -> anyhow::Result<bool> {
        let is_early = now_us() < self.begun_us + STARTS_WITHIN_US;
        Ok(is_early && self.ended()?.is_some_and(|status| status.code() == Some(REFUSED)))
    }

    /// Changes the paths from the next start on.
    pub(crate) fn write_to(&mut self, output: PathBuf, log: PathBuf) {
        (self.launch.output, self.launch.log) = (output, log);
    }

    /// SIGTERM; its end is seen by `ended`.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal("TERM").await?;
        self.end_of_process();
        Ok(())
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub(crate) async fn pause(&self) -> anyhow::Result<()> {
        self.signal("STOP").await
    }

    /// SIGCONT: it continues as if no time had passed.
    pub(crate) async fn resume(&self) -> anyhow::Result<()> {
        self.signal("CONT").await
    }

    async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.child.id().context("the server has ended already")?;
        let script = format!("kill -s {name} {pid}");
        let status = Command::new("sh").args(["-c", &script]).status().await.context("starting sh")?;
        anyhow::ensure!(status.success(), "{script}: {status}");
        Ok(())
    }

    /// Returns `None` while it runs.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("looking after the server")
    }

    /// An error with the end of its log when it has ended by itself.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.ended()? {
            Some(status) if !self.is_ending => {
                anyhow::bail!("the server ended with {status}; its last words:\n{}", self.log_tail())
            }
            _ => Ok(()),
        }
    }

    /// Counts the use up to here; the use while the process ends is not measured.
    fn end_of_process(&mut self) {
        self.before = self.usage().unwrap_or(self.before);
        self.is_ending = true;
    }

    /// CPU time in all, ended processes included.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if self.is_ending {
            return Some(self.before);
        }
        Some(self.before.and_then(Usage::of(self.child.id()?)?))
    }

    pub(crate) async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::new(Target::new(&self.url(), None, None)?);
        let until_us = now_us() + READY_LIMIT_US;
        loop {
            self.check_alive()?;
            let answer = connection.get("/readyz", Duration::from_secs(1)).await;
            if answer.is_ok_and(|answer| answer.is_success()) {
                return Ok(());
            }
            anyhow::ensure!(
                now_us() < until_us,
                "the server did not get ready; its log:\n{}",
                self.log_tail()
            );
            tokio::time::sleep(READY_POLL).await;
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.launch.log).unwrap_or_default();
        let tail = log.get(log.len().saturating_sub(LOG_TAIL_BYTES)..).unwrap_or_default();
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Launch {
    fn child(&self) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(&self.output).context("the server's log")?;
        let mut command = Command::new(&self.program);
        for name in FORGOTTEN {
            command.env_remove(name);
        }
        command
            .args(["serve", "--listen", &format!("127.0.0.1:{}", self.port.number), "--data"])
            .arg(&self.data)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))
    }
}

/// Below those that the system gives to outgoing connections, and beside those of the private servers: an engine that is
/// started again must find its port free.
const PORTS: std::ops::Range<u16> = 30_000..32_700;

/// An engine's, from before its first start until after its end. No two load tests of a machine take the same one: an engine that
/// could not listen would end, and its run would continue with another's. Its user holds the UDP port of this number.
#[derive(Debug)]
struct Port {
    number: u16,
    _claim: std::net::UdpSocket,
}

impl Port {
    /// A program that does not claim it may still be faster; the server then says so and the run ends.
    fn free() -> anyhow::Result<Self> {
        let mut tried = std::iter::repeat_with(|| fastrand::u16(PORTS)).take(1_000);
        tried.find_map(Self::claim).context("no port is free")
    }

    fn claim(number: u16) -> Option<Self> {
        let address = ("127.0.0.1", number);
        let _claim = std::net::UdpSocket::bind(address).ok()?;
        std::net::TcpListener::bind(address).ok().map(|_| Self { number, _claim })
    }
}

#[cfg(test)]
impl SpawnedEngine {
    /// Any process in an engine's place: a script that says a word when it is there, and then waits.
    pub(crate) async fn of_script(script: &str) -> Self {
        use tokio::io::AsyncReadExt as _;
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("server.log");
        let launch = Launch {
            program: "sh".into(),
            data: "".into(),
            port: Port::free().unwrap(),
            environment: Vec::new(),
            output: log.clone(),
            log,
        };
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        assert!(child.stdout.as_mut().unwrap().read_u8().await.is_ok(), "{script}");
        let (begun_us, before) = (now_us(), Usage::default());
        Self { launch, child, begun_us, before, is_ending: false, _directory: Some(directory) }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("punctual");
        let script = "#!/bin/sh\necho \"cannot $1 on $3, $PUNCTUAL_HOT_URL\" >&2\nexit 3\n";
        std::fs::write(&program, script).unwrap();
        make_executable(&program);
        let environment = [("PUNCTUAL_HOT_URL", "redis://x".to_owned())];
        let error = SpawnedEngine::start(&program, None, &environment).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("cannot serve on 127.0.0.1:"), "{error}");
        assert!(error.contains("redis://x"), "{error}");
    }

    #[tokio::test]
    async fn only_who_ends_early_and_with_one_has_refused_to_start() {
        for (script, has_refused) in
            [("exit 1", true), ("exit 101", false), ("exit 0", false), ("exec sleep 60", false)]
        {
            let mut engine = SpawnedEngine::of_script(&format!("echo; {script}")).await;
            if !script.contains("sleep") {
                engine.child.wait().await.unwrap();
            }
            assert_eq!(engine.has_refused_to_start().unwrap(), has_refused, "{script}");
            engine.begun_us -= STARTS_WITHIN_US;
            assert!(!engine.has_refused_to_start().unwrap(), "{script}");
        }
    }

    #[test]
    fn a_port_is_one_engine_s_until_that_is_gone() {
        let port = Port::free().unwrap();
        let number = port.number;
        assert!(Port::claim(number).is_none());
        drop(port);
        // A child that another test has just forked has the socket, too, until it runs its program.
        let mut tries = std::iter::repeat_with(std::thread::yield_now).take(1_000_000);
        assert!(tries.any(|()| Port::claim(number).is_some()));
    }

    fn make_executable(path: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
