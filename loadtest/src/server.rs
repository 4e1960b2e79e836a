//! The server under test: one that is running already, or one that is started here on a free port, killed in mid-run
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
    process::Stdio,
    time::Duration,
};
use tokio::process::{Child, Command};

/// From start to `GET /readyz` answering 200; a recovery of millions of tasks is in it.
const READY_LIMIT_US: i64 = 120_000_000;
const READY_POLL: Duration = Duration::from_millis(5);
const LOG_TAIL_BYTES: usize = 4_000;

#[derive(Debug)]
pub(crate) enum Server {
    Running { pid: Option<u32> },
    Started(Box<Started>),
}

impl Server {
    /// CPU time in all, killed processes included.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Self::Running { pid } => Usage::of((*pid)?),
            Self::Started(started) => started.usage(),
        }
    }

    /// A server that was started here is gone, and waited for, before its directory is removed.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Running { .. } => Ok(()),
            Self::Started(mut started) => started.kill().await,
        }
    }
}

/// A server that was started here.
#[derive(Debug)]
pub(crate) struct Started {
    program: PathBuf,
    data: PathBuf,
    port: u16,
    child: Child,
    /// Sum over the processes that were killed.
    before: Usage,
    /// Holds log and, unless another place was named, data; removed at the end.
    directory: tempfile::TempDir,
}

impl Started {
    /// `data`: None for a directory that goes away with the run.
    pub(crate) async fn start(program: &Path, data: Option<&Path>) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the server")?;
        let data = data.map_or_else(|| directory.path().join("data"), Path::to_path_buf);
        let port = free_port()?;
        let child = launch(program, &data, port, directory.path())?;
        let program = program.to_path_buf();
        let mut started = Self { program, data, port, child, before: Usage::default(), directory };
        started.wait_until_ready().await?;
        Ok(started)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.before = self.usage().unwrap_or(self.before);
        // SIGKILL: the server has no chance to finish anything.
        self.child.kill().await.context("killing the server")
    }

    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = launch(&self.program, &self.data, self.port, self.directory.path())?;
        self.wait_until_ready().await
    }

    /// An error with the end of its log when the server has ended by itself.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                anyhow::bail!("the server ended with {status}; its last words:\n{}", self.log_tail())
            }
        }
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.before.and_then(Usage::of(self.child.id()?)?))
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::new(Target::new(&self.url(), None, None)?);
        let until_us = now_us() + READY_LIMIT_US;
        loop {
            self.check_alive()?;
            let answer = connection.get("/readyz", Duration::from_secs(1)).await;
            if answer.is_ok_and(|it| it.is_success()) {
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

    fn log_tail(&self) -> String {
        let log = std::fs::read(log_path(self.directory.path())).unwrap_or_default();
        let tail = log.get(log.len().saturating_sub(LOG_TAIL_BYTES)..).unwrap_or_default();
        String::from_utf8_lossy(tail).into_owned()
    }
}

fn launch(program: &Path, data: &Path, port: u16, directory: &Path) -> anyhow::Result<Child> {
    let log =
        File::options().create(true).append(true).open(log_path(directory)).context("the server's log")?;
    Command::new(program)
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))
}

fn log_path(directory: &Path) -> PathBuf {
    directory.join("server.log")
}

/// Another process may take it before the server does; the server then says so and the run ends.
fn free_port() -> anyhow::Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// Where the server's binary is, unless told: named by `PUNCTUAL_BIN`, or beside this program.
pub(crate) fn find_program(told: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named = told.map(Path::to_path_buf).or_else(|| std::env::var_os("PUNCTUAL_BIN").map(PathBuf::from));
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

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("punctual");
        let script = "#!/bin/sh\necho \"cannot $1 on $3\" >&2\nexit 3\n";
        std::fs::write(&program, script).unwrap();
        make_executable(&program);
        let error = Started::start(&program, None).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("cannot serve on 127.0.0.1:"), "{error}");
    }

    #[test]
    fn a_missing_server_is_told_with_what_to_do() {
        let error = find_program(Some(Path::new("/nowhere/punctual"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/punctual") && error.contains("--server-bin"), "{error}");
    }

    fn make_executable(path: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
