//! One server program under the watchdog: started until it answers, paused, killed, restarted with the same
//! arguments. Its caller defines the program and the check for an answer.

use super::{
    port::free_port,
    watchdog::{Watchdog, read},
};
use crate::patience::HANG_LIMIT;
use parking_lot::Mutex;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

/// Another process may take a port between our check and the server's bind.
const PORTS_TRIED: usize = 5;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Process {
    pub(crate) watchdog: Arc<Watchdog>,
    /// Unique in the watchdog's directory.
    pub(crate) name: String,
    /// The command line for a port.
    pub(crate) command: Box<dyn Fn(u16) -> Vec<String> + Send + Sync>,
    /// Checks that the server at this port answers, and that it is the one of this pid.
    pub(crate) answers: fn(&Process) -> bool,
    pub(crate) port: AtomicU16,
    pub(crate) pid: AtomicU32,
    /// Held while it is being started or ended, so that two callers do not do both.
    pub(crate) turn: Mutex<()>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (port {}, pid {})", self.name, self.port(), self.pid())
    }
}

impl Process {
    pub(crate) fn start(
        watchdog: &Arc<Watchdog>,
        name: &str,
        command: impl Fn(u16) -> Vec<String> + Send + Sync + 'static,
        answers: fn(&Self) -> bool,
    ) -> Arc<Self> {
        let process = Self {
            watchdog: Arc::clone(watchdog),
            name: name.to_owned(),
            command: Box::new(command),
            answers,
            port: AtomicU16::default(),
            pid: AtomicU32::default(),
            turn: Mutex::default(),
        };
        let begun = (0..PORTS_TRIED).any(|_| {
            process.port.store(free_port(), SeqCst);
            process.begin()
        });
        assert!(begun, "{process:?} does not start: {}", process.log());
        Arc::new(process)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.load(SeqCst)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(SeqCst)
    }

    /// kill -9.
    pub(crate) fn kill(&self) {
        let _turn = self.turn.lock();
        self.watchdog.end(self.pid());
    }

    /// Starts again after `kill`, on the same port and data; the server answers when this returns.
    pub(crate) fn start_again(&self) {
        let _turn = self.turn.lock();
        assert!(self.begin(), "{self:?} does not start again: {}", self.log());
    }

    pub(crate) fn pause(&self) {
        self.watchdog.signal("STOP", self.pid());
    }

    pub(crate) fn resume(&self) {
        self.watchdog.signal("CONT", self.pid());
    }

    /// Starts the process. Returns true if it answered, and false if it ended instead.
    fn begin(&self) -> bool {
        let pid = self.watchdog.begin(&(self.command)(self.port()), &self.log_path());
        self.pid.store(pid, SeqCst);
        let answered = until(|| (self.answers)(self) || has_ended(pid)) && !has_ended(pid);
        if !answered {
            self.watchdog.end(pid);
        }
        answered
    }

    pub(crate) fn is_running(&self) -> bool {
        !has_ended(self.pid())
    }

    fn log_path(&self) -> PathBuf {
        self.watchdog.dir().join(format!("{}.log", self.name))
    }

    pub(crate) fn log(&self) -> String {
        read(&self.log_path())
    }
}

/// Ended and not yet waited for; without such a file, only the time limit applies.
fn has_ended(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|state| state.contains(") Z "))
}

/// Asks again and again until the answer is yes; false after [`HANG_LIMIT`].
#[expect(
    clippy::disallowed_methods,
    reason = "another process gives no signal when it is ready; no test waits here for its own code"
)]
pub(crate) fn until(mut so: impl FnMut() -> bool) -> bool {
    let polls_max = HANG_LIMIT.as_millis() / POLL_INTERVAL.as_millis();
    (0..polls_max).any(|_| {
        let now = so();
        if !now {
            std::thread::sleep(POLL_INTERVAL);
        }
        now
    })
}

/// Panics, naming the package, when a program is missing: a test without its server must fail, not pass.
pub(crate) fn program(name: &str, package: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    // Debian installs servers outside the search path of ordinary users.
    let places = path.split(':').chain(["/usr/sbin", "/usr/local/sbin", "/sbin"]);
    let found = places.map(|place| PathBuf::from(place).join(name)).find(|path| path.is_file());
    let found = found.unwrap_or_else(|| {
        panic!(
            "{name} is missing: apt-get install {package} (scripts/test does it; its service need not run)"
        )
    });
    crate::watchdog::shown(&found)
}
