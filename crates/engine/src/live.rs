//! The live table: each task of this engine exactly once, with its stage. It has tasks on the wheel,
//! preleased tasks, fired tasks that the store has not acknowledged, and recently handed over ones. Pure: no
//! clock, no I/O and no `Core`; the present is an argument, and the caller's next steps are answers. Every
//! call is a batch under one lock. Nothing here must outlive the process: the store has everything.
//!
//! Reading order: `stage` (the place of a task), `steps` (the one table of legal moves), `table` (the tasks), `index`
//! (the look-up of tasks), `waiting` (unfired tasks), `leases` (preleased tasks), `kept` (fired tasks), `line` and
//! `served` (the lines where they wait for executors), `passed` (tasks given to other engines), `unpersisted` (fired
//! tasks that the store does not know), `doubt` (leases whose answer was lost), `handed_over` (attempts at
//! executors), `for_later` (attempts whose database is unavailable), `fired` (the answers when a task is due).

mod doubt;
mod fired;
mod for_later;
mod handed_over;
mod index;
mod kept;
mod line;
mod passed;
mod preleases;
mod served;
mod stage;
mod steps;
mod table;
mod unpersisted;
mod waiting;

#[cfg(test)]
pub(crate) mod model;

pub(crate) use doubt::DoubtfulLease;
pub(crate) use fired::{Fired, Granted, Ready};
pub(crate) use for_later::ForLaterLease;
pub(crate) use handed_over::{EndedAttempts, Unreported, leased_entry};
pub(crate) use kept::Overdue;
pub(crate) use passed::PASSED_MS;
pub(crate) use waiting::{Loaded, Withdrawal};

use parking_lot::{Mutex, MutexGuard};
use punctual_contract::hot::HotEntry;
use table::Table;

/// The table of one engine, behind its lock.
#[derive(Debug)]
pub(crate) struct Live(Mutex<Table>);

impl Live {
    /// `are_open`: this engine works on all partitions from the start.
    pub(crate) fn new(partitions: u16, are_open: bool) -> Self {
        Self(Mutex::new(Table::new(usize::from(partitions), are_open)))
    }

    /// Begins a request to the store for an executor's leases. Until the returned value is dropped, however
    /// the work ends, no other call offers these tasks.
    pub(crate) fn grants(&self, entries: &[HotEntry]) -> Grants<'_> {
        Grants { live: self, begun: self.lock().begin_grants(entries) }
    }

    /// Must not be held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }
}

/// Leases that the store is being asked for.
#[derive(Debug)]
pub(crate) struct Grants<'a> {
    live: &'a Live,
    begun: Vec<(i64, i64)>,
}

impl Drop for Grants<'_> {
    fn drop(&mut self) {
        self.live.lock().end_grants(&self.begun);
    }
}
