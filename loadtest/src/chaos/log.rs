//! The pipe that an engine writes its log to, and the reader that reads it: the reader can end, so that every write
//! fails, or stop reading with the pipe full, so that every write waits. The reader writes the log to a file. Must
//! never stop for long unless that is requested: an engine would stop with it.

use anyhow::Context as _;
use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::{OpenOptions, Receiver, Sender},
    sync::watch,
    task::JoinSet,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineReader {
    Reads,
    /// Holds the pipe open.
    Stands,
    Gone,
}

#[derive(Debug)]
pub(crate) struct LogPipe {
    pub(crate) pipe: PathBuf,
    pub(crate) log: PathBuf,
    reader: watch::Sender<LineReader>,
    /// Keeps the pipe from ending while no engine runs, and fills it.
    writer: Sender,
    _reading: JoinSet<()>,
}

impl LogPipe {
    pub(crate) async fn make(pipe: PathBuf, log: PathBuf) -> anyhow::Result<Self> {
        let made = tokio::process::Command::new("mkfifo").arg(&pipe).status().await.context("mkfifo")?;
        anyhow::ensure!(made.success(), "mkfifo {}: {made}", pipe.display());
        let receiver = OpenOptions::new().open_receiver(&pipe).context("reading a pipe")?;
        let writer = OpenOptions::new().open_sender(&pipe).context("writing to a pipe")?;
        // Whether it can be written to is known only when that was waited for once.
        writer.writable().await.context("writing to a pipe")?;
        let file = File::options().create(true).append(true).open(&log).context("the log of an engine")?;
        let (reader, reported) = watch::channel(LineReader::Reads);
        let mut reading = JoinSet::new();
        reading.spawn(read(pipe.clone(), receiver, file, reported));
        Ok(Self { pipe, log, reader, writer, _reading: reading })
    }

    /// Every write fails from now on.
    pub(crate) fn close(&self) {
        self.reader.send_replace(LineReader::Gone);
    }

    /// Every write waits from now on.
    pub(crate) fn fill(&self) {
        self.reader.send_replace(LineReader::Stands);
        let line = "(chaos fills this pipe)\n".repeat(200);
        while self.writer.try_write(line.as_bytes()).is_ok() {}
        while self.writer.try_write(b"\n").is_ok() {}
    }

    pub(crate) fn mend(&self) {
        self.reader.send_replace(LineReader::Reads);
    }
}

async fn read(pipe: PathBuf, receiver: Receiver, mut file: File, mut reported: watch::Receiver<LineReader>) {
    let mut open = Some(receiver);
    let mut piece = vec![0; 64 * 1024];
    loop {
        let now = *reported.borrow_and_update();
        match now {
            LineReader::Gone => open = None,
            LineReader::Stands => {}
            LineReader::Reads => {
                open = open.or_else(|| reopened(&pipe));
                if let Some(receiver) = &mut open {
                    tokio::select! {
                        changed = reported.changed() => if changed.is_err() { return },
                        length = receiver.read(&mut piece) => {
                            // A log that cannot be kept is no reason to stop reading: the engine would stand still.
                            let _ = file.write_all(piece.get(..length.unwrap_or(0)).unwrap_or_default());
                        }
                    }
                    continue;
                }
            }
        }
        if reported.changed().await.is_err() {
            return;
        }
    }
}

fn reopened(pipe: &Path) -> Option<Receiver> {
    OpenOptions::new().open_receiver(pipe).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn until_read(log: &Path, text: &str) {
        while !std::fs::read_to_string(log).unwrap().contains(text) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn writes_arrive_then_wait_then_arrive_then_fail_then_arrive() {
        let directory = tempfile::tempdir().unwrap();
        let (pipe, log) = (directory.path().join("pipe"), directory.path().join("log"));
        let log_pipe = LogPipe::make(pipe.clone(), log.clone()).await.unwrap();
        let writer = OpenOptions::new().open_sender(&pipe).unwrap();
        writer.writable().await.unwrap();
        writer.try_write(b"one\n").unwrap();
        until_read(&log, "one").await;
        log_pipe.fill();
        assert_eq!(writer.try_write(b"two\n").unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        log_pipe.mend();
        writer.writable().await.unwrap();
        until_read(&log, "(chaos fills this pipe)").await;
        log_pipe.close();
        while writer.try_write(b"lost\n").is_ok() {
            tokio::task::yield_now().await;
        }
        log_pipe.mend();
        while writer.try_write(b"three\n").is_err() {
            tokio::task::yield_now().await;
        }
        until_read(&log, "three").await;
    }
}
