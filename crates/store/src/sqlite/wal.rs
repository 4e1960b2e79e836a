//! Moves the write-ahead log into the database, beside the writer, so that a commit never pays for it, and keeps the
//! log short, so that it is written over in place: a log that grows costs a journal entry of the file system with
//! every commit.
//!
//! 1. The thread moves what there is (`PASSIVE`) and syncs the database file itself: SQLite does not where the log
//!    continued growing meanwhile.
//! 2. The writer, when only a few pages are left, moves those; its next transaction then begins the log anew.
//! 3. Only when the log has grown far beyond what the thread can catch up with does the writer stop for it.
//!
//! A crash anywhere between leaves a longer log, which the next opening reads.

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, hooks::Wal};
use std::{cell::Cell, ffi::c_int, fs::File, time::Duration};

/// The minimum interval at which the thread checks the log while there is something in it.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Growth that wakes the thread before that, in pages of 4 KiB: 8 MiB.
const WAKE_PAGES: u64 = 2_048;
/// The maximum number of pages that the writer moves by itself to begin the log anew: 8 MiB.
const FEW_PAGES: u64 = 2_048;
/// The thread continues while more than this was written during its last pass: 1 MiB, a millisecond or two of the
/// writer's.
const FEWER_PAGES: u64 = 256;
/// The maximum number of passes: if writing is as fast as moving, it would never end.
const PASSES: usize = 6;
/// A shorter log is not worth beginning anew: 4 MiB.
const SHORT_PAGES: u64 = 1_024;
/// Length at which the writer itself empties the log, in pages: 256 MiB.
pub(crate) const STOP_PAGES: u64 = 65_536;
/// The growth of the log after a stop that a long read made vain, before the next one: 64 MiB.
pub(crate) const STOP_AGAIN_PAGES: u64 = 16_384;

thread_local! {
    /// Pages in the log after this thread's last commit; a hook is a plain function and has nowhere else to put it.
    static LOG_PAGES: Cell<u64> = const { Cell::new(0) };
}

/// Counts the pages of the log on the connection that writes; replaces SQLite's own checkpoints.
pub(crate) fn count_pages(conn: &mut Connection) -> rusqlite::Result<()> {
    fn hook(_: &mut Wal, pages: c_int) -> rusqlite::Result<()> {
        LOG_PAGES.set(u64::try_from(pages).unwrap_or_default());
        Ok(())
    }
    conn.wal_hook(Some(hook))
}

/// Pages in the log after the last commit of this thread.
pub(crate) fn pages() -> u64 {
    LOG_PAGES.get()
}

/// The shared state of the writer and the checkpoint thread.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    log: Mutex<WalState>,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct WalState {
    pages: u64,
    /// The length of the log at the last checkpoint.
    seen: u64,
    /// The number of pages in the database and synced; 0 while the thread is at work.
    moved: u64,
    closed: bool,
}

impl Watch {
    /// Records after a commit that the log has this many pages now.
    pub(crate) fn grown(&self, pages: u64) {
        let mut log = self.log.lock();
        if pages < log.seen {
            // It began anew.
            (log.seen, log.moved) = (0, 0);
        }
        log.pages = pages;
        if pages - log.seen >= WAKE_PAGES {
            self.wake.notify_one();
        }
    }

    /// The log is long, the thread is idle, and it has left only a few pages: a good moment to begin anew.
    pub(crate) fn is_nearly_moved(&self) -> bool {
        let log = self.log.lock();
        log.moved > 0 && log.pages >= SHORT_PAGES && log.pages.saturating_sub(log.moved) <= FEW_PAGES
    }

    fn pages(&self) -> u64 {
        self.log.lock().pages
    }

    fn has_moved(&self, pages: u64) {
        self.log.lock().moved = pages;
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
                (log.seen, log.moved) = (log.pages, 0);
                return true;
            }
        }
        false
    }
}

/// The checkpoint thread. `database` is the file of `conn`, opened once more for syncing. Closing it takes the
/// locks of all connections of this process along (POSIX), so it must outlive them.
pub(crate) fn run(conn: &Connection, database: &File, watch: &Watch) {
    while watch.due() {
        match (move_most(conn, watch), database.sync_data()) {
            (Ok(moved), Ok(())) => watch.has_moved(moved.pages),
            (Err(error), _) => tracing::warn!(%error, "a checkpoint failed; the next one will do its work"),
            (_, Err(error)) => tracing::warn!(%error, "the database could not be synced; the log is kept"),
        }
    }
}

/// Each pass leaves the pages that were written during it, which are fewer than those of the preceding pass.
fn move_most(conn: &Connection, watch: &Watch) -> rusqlite::Result<Moved> {
    let mut moved = checkpoint(conn, "PASSIVE")?;
    for _ in 1..PASSES {
        if watch.pages().saturating_sub(moved.pages) <= FEWER_PAGES {
            break;
        }
        moved = checkpoint(conn, "PASSIVE")?;
    }
    Ok(moved)
}

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Pages of the log that are in the database.
    pub(crate) pages: u64,
    /// True if nothing of the log is left to move.
    pub(crate) all: bool,
}

pub(crate) fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<Moved> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (busy, log, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Moved { pages: u64::try_from(moved).unwrap_or_default(), all: busy == 0 && log == moved })
    })
}
