//! Moves the write-ahead log into the database, beside the writer, so that a commit never pays for it. Only when
//! the log has grown far beyond what the thread can catch up with does the writer stop for it.

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, hooks::Wal};
use std::{cell::Cell, ffi::c_int, time::Duration};

/// The thread looks at the log at least this often while there is something in it.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Growth that wakes the thread before that, in pages of 4 KiB: 16 MiB.
const WAKE_PAGES: u64 = 4_096;
/// Length at which the writer itself empties the log, in pages: 256 MiB.
pub(crate) const STOP_PAGES: u64 = 65_536;
/// After a stop that a long read made vain, the log may grow by this much before the next one: 64 MiB.
pub(crate) const STOP_AGAIN_PAGES: u64 = 16_384;

thread_local! {
    /// Pages in the log after this thread's last commit; a hook is a plain function and has nowhere else to put it.
    static LOG_PAGES: Cell<u64> = const { Cell::new(0) };
}

/// Counts the pages of the log on the connection that writes; replaces SQLite's own checkpoints.
pub(crate) fn count_pages(conn: &Connection) {
    fn hook(_: &Wal, pages: c_int) -> rusqlite::Result<()> {
        LOG_PAGES.set(u64::try_from(pages).unwrap_or_default());
        Ok(())
    }
    conn.wal_hook(Some(hook));
}

/// Pages in the log after the last commit of this thread.
pub(crate) fn pages() -> u64 {
    LOG_PAGES.get()
}

/// How the writer and the checkpoint thread know of each other.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    log: Mutex<Log>,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Log {
    pages: u64,
    /// As it was at the last checkpoint.
    seen: u64,
    closed: bool,
}

impl Watch {
    /// After a commit: the log has so many pages now.
    pub(crate) fn grown(&self, pages: u64) {
        let mut log = self.log.lock();
        if pages < log.seen {
            // It began anew.
            log.seen = 0;
        }
        log.pages = pages;
        if pages - log.seen >= WAKE_PAGES {
            self.wake.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.log.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits until there is something to do; false: closed.
    fn due(&self) -> bool {
        let mut log = self.log.lock();
        while !log.closed {
            let timed_out = self.wake.wait_for(&mut log, CHECKPOINT_INTERVAL).timed_out();
            let growth = log.pages.saturating_sub(log.seen);
            if !log.closed && (growth >= WAKE_PAGES || (timed_out && growth > 0)) {
                log.seen = log.pages;
                return true;
            }
        }
        false
    }
}

/// The checkpoint thread.
pub(crate) fn run(conn: &Connection, watch: &Watch) {
    while watch.due() {
        if let Err(error) = checkpoint(conn, "PASSIVE") {
            tracing::warn!(%error, "a checkpoint failed; the next one will do its work");
        }
    }
}

/// True: nothing of the log is left to move.
pub(crate) fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<bool> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (busy, log, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && log == moved)
    })
}
