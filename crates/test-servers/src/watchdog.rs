//! The shell beside the tests that owns the servers (`watchdog.sh`): it notices the end of this process
//! whatever its cause, which no code inside the process could. Must not know what it starts.

use parking_lot::Mutex;
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

const SCRIPT: &str = include_str!("watchdog.sh");

#[derive(Debug)]
pub(crate) struct Watchdog {
    pipes: Mutex<Pipes>,
    dir: PathBuf,
}

#[derive(Debug)]
struct Pipes {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Watchdog {
    pub(crate) fn start() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // In its own process group: Ctrl-C ends the tests, and the closed pipe ends the servers. A shell that
        // gets both would leave its directory.
        let mut shell = shell.process_group(0).spawn().expect("sh is everywhere");
        let answers = BufReader::new(shell.stdout.take().expect("it was piped"));
        let mut pipes = Pipes { shell, answers };
        let dir = PathBuf::from(pipes.answer());
        Self { pipes: Mutex::new(pipes), dir }
    }

    /// The directory of the servers' files; removed with them.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn is_root(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&self.dir).expect("the watchdog has just made it").uid() == 0
    }

    /// Runs a program to its end. Panics with its output unless it exits with 0.
    pub(crate) fn run(&self, words: &[String]) {
        let log = self.dir.join("run.log");
        let status = self.ask(&format!("run {} >{} 2>&1", quoted(words), quoted(&[shown(&log)])));
        assert_eq!(status, "0", "{words:?}: {}", read(&log));
    }

    /// Starts a program and answers its pid.
    pub(crate) fn begin(&self, words: &[String], log: &Path) -> u32 {
        let pid = self.ask(&format!("start {} >{} 2>&1", quoted(words), quoted(&[shown(log)])));
        pid.parse().expect("the watchdog answers with a pid")
    }

    pub(crate) fn signal(&self, name: &str, pid: u32) {
        assert_eq!(self.ask(&format!("signal {name} {pid}")), "0", "no process {pid} to send {name}");
    }

    /// kill -9; the process has ended when this returns.
    pub(crate) fn end(&self, pid: u32) {
        self.ask(&format!("end {pid}"));
    }

    fn ask(&self, request: &str) -> String {
        let mut pipes = self.pipes.lock();
        let stdin = pipes.shell.stdin.as_mut().expect("closed only by drop");
        writeln!(stdin, "{request}").expect("the watchdog lives as long as we do");
        pipes.answer()
    }
}

impl Pipes {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the watchdog writes text");
        assert!(line.ends_with('\n'), "the watchdog has died");
        line.trim_end().to_owned()
    }
}

/// The servers have ended when this returns. The shared ones of a process are never dropped: the system
/// closes their pipe.
impl Drop for Watchdog {
    fn drop(&mut self) {
        // Waiting closes standard input first. After a failure nothing is left to do, and a panic here would
        // abort.
        drop(self.pipes.get_mut().shell.wait());
    }
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_str().expect("a temporary directory with a name in UTF-8").to_owned()
}

pub(crate) fn read(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_else(|error| format!("({}: {error})", log.display()))
}

fn quoted(words: &[String]) -> String {
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}
