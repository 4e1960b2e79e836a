//! Inserts of tasks by id or key, while executors have attempts that the database does not know
//! (`hand_over`). The database would replace such a task as waiting. But its attempt is running, and that is
//! the insert's answer (A2). Must not decide about an existing task: the store does, once it has the lease.
//!
//! Order of steps, and what a crash, a hang or a cut between two of them leaves:
//!
//! 1. The names of the insert are noted: while it runs, no task with such a name is handed over without the database.
//!    Crash: the insert is lost as well. An insert whose answer is lost no longer counts as running; if it commits
//!    later, the lease is refused.
//! 2. Leases of such tasks in the journal are written, then their outcomes, as always (`pass`); the insert
//!    waits for that. If a lease cannot be written in time, the insert of that task alone is refused: nothing
//!    has happened, and it may be repeated.
//! 3. The store decides, as always: the attempt is running, or has ended.

use super::{identity::Identity, patience::STORE_ANSWERS_WITHIN};
use crate::core::Core;
use hashbrown::HashSet;
use punctual_contract::{Error, store::Inserted};
use punctual_domain::task::NewTask;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The pause between two checks for a lease that the next run over the journal is about to write.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An insert that is under way.
pub(crate) struct Begun<'c> {
    _noted: Option<super::state::Inserting<'c>>,
    /// The refused tasks, by their index in the batch.
    refused: HashSet<usize>,
}

/// Tasks whose insert is refused, by their numbers in the batch.
pub(crate) struct Refused(HashSet<usize>);

/// Notes it, and waits until leases are written that it would replace.
pub(crate) async fn begin<'c>(core: &'c Arc<Core>, tasks: &[NewTask]) -> Begun<'c> {
    let state = &core.maintenance.for_later;
    let hands_over = || core.settings.known().hands_over;
    let is_named = tasks.iter().any(|task| !task.is_anonymous());
    if !is_named || state.journal().is_none() || !(hands_over() || state.may_have_leases()) {
        return Begun { _noted: None, refused: HashSet::new() };
    }
    let named: Vec<Vec<Identity>> =
        tasks.iter().map(|task| Identity::all_of(task, core.store.partitions()).collect()).collect();
    let noted = state.begin_insert(named.concat());
    let end = Instant::now() + STORE_ANSWERS_WITHIN;
    loop {
        let refused = with_executors(core, &named);
        let is_known = !state.may_have_leases() || state.has_read_all(core.store.parts());
        if refused.is_empty() && is_known || Instant::now() >= end {
            return Begun { _noted: Some(noted), refused };
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Numbers of the inserts that would replace an attempt that the store does not know.
fn with_executors(core: &Core, named: &[Vec<Identity>]) -> HashSet<usize> {
    if !core.maintenance.for_later.may_have_leases() {
        return HashSet::new();
    }
    let wanted: HashSet<&Identity> = named.iter().flatten().collect();
    let table = core.live.lock();
    let found: HashSet<Identity> = table
        .unwritten()
        .map(|(entry, _)| Identity::of(entry))
        .filter(|found| wanted.contains(found))
        .collect();
    drop(table);
    let is_with_executor = |named: &Vec<Identity>| named.iter().any(|identity| found.contains(identity));
    named.iter().enumerate().filter(|(_, named)| is_with_executor(named)).map(|(nth, _)| nth).collect()
}

impl Begun<'_> {
    /// Leaves those that may be inserted.
    pub(crate) fn take_refused(&self, tasks: &mut Vec<NewTask>) -> Refused {
        if !self.refused.is_empty() {
            tracing::warn!(
                tasks = self.refused.len(),
                "inserts are refused: executors have their tasks, and the database has not heard of it yet"
            );
            let mut nth = 0..;
            tasks.retain(|_| nth.next().is_some_and(|nth| !self.refused.contains(&nth)));
        }
        Refused(self.refused.clone())
    }
}

impl Refused {
    /// The answers of all, in their order.
    pub(crate) fn among(self, inserted: Vec<Result<Inserted, Error>>) -> Vec<Result<Inserted, Error>> {
        let count = inserted.len() + self.0.len();
        let mut inserted = inserted.into_iter();
        let refused = || {
            let why = "an executor has this task, and its database has not heard of it yet; insert again";
            Error::did_not_happen("insert tasks", why)
        };
        let answer = |nth| {
            if self.0.contains(&nth) { Some(Err(refused())) } else { inserted.next() }
        };
        (0..count).filter_map(answer).collect()
    }
}
