//! A command with all its children: one process group, which ends as one. It never outlives its owner unasked: dropped
//! while it runs, it gets SIGTERM, and is killed if it does not end.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{io, process::ExitStatus, time::Duration};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub(super) struct Group {
    /// `None` if it has ended.
    child: Option<Child>,
    kill_after: Duration,
    /// Runs what waits for the end of a dropped group.
    stopping: TaskTracker,
}

impl Group {
    /// `command` with its pipes set.
    pub(super) fn start(
        command: &mut Command,
        kill_after: Duration,
        stopping: TaskTracker,
    ) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        Ok(Self { child: Some(child), kill_after, stopping })
    }

    pub(super) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let Some(child) = &mut self.child else { return (None, None, None) };
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    /// Waits until its first process has ended; may be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let Some(child) = &mut self.child else { return Err(io::ErrorKind::NotFound.into()) };
        let status = child.wait().await?;
        self.child = None;
        Ok(status)
    }

    /// SIGTERM, and SIGKILL when that was not enough.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        self.child.iter().for_each(|child| signal(child, Signal::TERM));
        if let Ok(ended) = timeout(self.kill_after, self.wait()).await {
            return ended;
        }
        self.child.iter().for_each(|child| signal(child, Signal::KILL));
        self.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // At once: the runtime may be about to end.
        signal(&child, Signal::TERM);
        let stopping = TaskTracker::new();
        let mut rest = Self { child: Some(child), kill_after: self.kill_after, stopping };
        self.stopping.spawn(async move {
            if let Err(error) = rest.end().await {
                tracing::warn!(%error, "a command could not be waited for");
            }
        });
    }
}

/// Signals the complete group of a child whose status was not read yet, so that its number is still its own.
fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| kill_process_group(pid, signal)) {
        tracing::debug!(%error, "the group is gone already");
    }
}
