//! Hand-overs while the tasks' database does not answer, in queues that allow it (`while_store_is_away: hand_over`).
//! The executor gets its tasks from this engine's live table, which has everything a hand-over needs. Must not hand
//! over a task that the engine's journal has handed over, or one of a partition that another engine owns. Must not
//! decide what the store has.
//!
//! Order of steps, and what a crash, a hang or a cut between two of them leaves:
//!
//! 1. The store is asked for the lease, for up to a second. It refuses or does not answer: it is unavailable.
//!    Crash: as always, a lease that was made expires. The call continues by itself. A lease that it makes
//!    late has the fence, attempt and executor that step 2 writes: it is the same attempt.
//! 2. The table gets the attempt, as one that no executor has learned of, so that later steps on its record
//!    find it there. The lease is written to the journal and synced, with the fence and attempt that the
//!    store would assign. Crash before: no executor has the task. A journal that is unwritable or half full
//!    hands nothing over: the task waits, and outcomes keep their room.
//! 3. The table notes that the executor learns of the attempt, unless the store has the lease by then, and
//!    the executor gets it. Crash before: no executor has the task, and step 5 makes a lease that expires.
//!    Crash after: after a restart, the record keeps this engine from handing the task over before the store
//!    has the lease.
//! 4. Heartbeats are answered from the table. The outcome is written to the journal (`for_later`) after the
//!    lease. Crash: the lease lasts as long as step 2 has written, and the outcome is found again.
//! 5. The database returns: the ordinary conditional update makes the lease (`written`), and only then
//!    outcomes are applied. Crash before, or a lost answer: the lease is requested again, the fence refuses
//!    it, and the row shows who holds it.
//! 6. The record is done. Crash before: as 5.
//!
//! An engine that has lost its partition hands none of its tasks over: it checks after the sync. It learns of
//! the loss at the latest when the ownership back end answers again. Until then no other engine can have
//! taken the partition, unless the two were cut off from each other. Then the other engine leases the task by
//! the store, step 5 is refused, and the outcome is stale: at least once.

use super::{identity::Identity, lease::JournalledLease};
use crate::{core::Core, live::ForLaterLease, parts, pipeline::request::LeaseRequest};
use futures_util::FutureExt as _;
use punctual_contract::{
    Error, Journal,
    hot::HotEntry,
    journal::{AppendResult, AttemptKey, NewRecord},
    store::{Assignment, Beat, Dispatched, Extended, Facts, Grant},
};
use punctual_domain::{name::QueueKey, place::TaskRef, state::State, task::Priority, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// A database that has not made a lease by then is unavailable.
const LEASES_WITHIN: Duration = Duration::from_secs(1);
const DOING: &str = "lease tasks";

/// Executors of the queue get preloaded tasks while its database is unavailable.
pub(crate) fn is_allowed(core: &Core, queue: &QueueKey) -> bool {
    core.maintenance.for_later.journal().is_some()
        && core.settings.queue(queue).hands_over_while_away()
        && !core.pushes(queue)
}

/// True if the journal has handed this task over: no other executor gets it before the store has the lease.
pub(crate) fn is_handed_over(core: &Core, entry: &HotEntry) -> bool {
    has_handed_over(core, entry.place.id, entry.fence)
}

/// The same, for a task as stored.
pub(crate) fn has_handed_over(core: &Core, task: i64, fence: i64) -> bool {
    is_for_later(core, AttemptKey { task, fence: fence + 1 })
}

/// The same, or it is about to be: its lease is not durable yet.
pub(crate) fn is_with_executor(core: &Core, task: i64, fence: i64) -> bool {
    let table = core.live.lock();
    let is_to_be_written =
        table.for_later(task, fence + 1).is_some_and(|lease| lease.written_until.is_none());
    drop(table);
    is_to_be_written || has_handed_over(core, task, fence)
}

/// An attempt that has ended in the store, as a table entry. It refuses late results of earlier reads, which nothing
/// else would refuse in a queue that hands over without its database. `None` if this queue does not.
pub(crate) fn entry_of_ended(core: &Core, queue: &QueueKey, place: TaskRef, fence: i64) -> Option<HotEntry> {
    is_allowed(core, queue).then(|| HotEntry {
        place,
        due_at: place.due_at,
        fence,
        queue: Arc::new(queue.clone()),
        priority: Priority::default(),
        task_id: place.id,
        task_version: 0,
        deadline_at: Millis::MAX,
        state: State::Dispatched,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::default(),
    })
}

/// Keeps the entries that the journal has not handed over.
pub(crate) fn keep_free(core: &Core, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
    if core.maintenance.for_later.waiting() == 0 {
        return entries;
    }
    entries.retain(|entry| !is_handed_over(core, entry));
    entries
}

/// Keeps the entries that can be handed over, if their databases are known to make no leases. The others are set
/// aside, before they take slots that later tasks need.
pub(crate) fn keep_those_that_can_go(core: &Core, entries: Vec<HotEntry>) -> Vec<HotEntry> {
    let state = &core.maintenance.for_later;
    let waits = |entry: &HotEntry| {
        state.leases_nothing(core.store.part_of(entry.place.partition))
            && is_allowed(core, &entry.queue)
            && !is_complete(core, entry)
    };
    let (waiting, able): (Vec<HotEntry>, Vec<HotEntry>) = entries.into_iter().partition(waits);
    if !waiting.is_empty() {
        parts::set_aside(core, &waiting);
    }
    able
}

/// Requests leases of one queue from the store. The call does not wait for the store where tasks are handed over
/// without it.
pub(crate) async fn ask(
    core: &Arc<Core>,
    part: usize,
    queue: &QueueKey,
    grants: Vec<Grant>,
    now: Millis,
) -> Result<Vec<Dispatched>, Error> {
    if !is_allowed(core, queue) {
        return core.store.dispatch(grants, now).await;
    }
    let state = &core.maintenance.for_later;
    if state.leases_nothing(part) {
        return Err(Error::did_not_happen(DOING, "the database did not answer a moment ago"));
    }
    let asking = Arc::clone(core);
    let mut asked = async move { asking.store.dispatch(grants, now).await }.boxed();
    let answer = timeout(LEASES_WITHIN, &mut asked).await.unwrap_or_else(|_| {
        // A late lease belongs to the executor that has got the task meanwhile, or is in doubt.
        core.work.detach(async move { drop(asked.await) });
        Err(Error::may_have_happened(DOING, "the database has not answered in time"))
    });
    if answer.is_err() {
        state.stops_leasing(part);
    }
    answer
}

/// Handles leases that the store has not made, or for which that is unknown. The leases begin at `asked_at`, as the
/// store would make them. Returns the tasks that are handed over without the store, and the rest.
pub(crate) async fn hand_over(
    core: &Core,
    request: &LeaseRequest,
    entries: Vec<HotEntry>,
    asked_at: Millis,
) -> (Vec<Assignment>, Vec<HotEntry>) {
    let is_open = is_allowed(core, &request.queue) && !core.settings.is_paused(&request.queue);
    let Some(journal) =
        core.maintenance.for_later.journal().filter(|journal| is_open && has_room(&***journal))
    else {
        return (Vec::new(), entries);
    };
    let _until_they_are_kept = core.maintenance.for_later.hands_over();
    let now = core.now();
    let lease =
        |entry: &HotEntry| lease_of(entry, request, asked_at, now).filter(|_| is_complete(core, entry));
    let (mut reserved, mut rest) = (Vec::new(), Vec::new());
    for entry in entries {
        match lease(&entry).and_then(|lease| Reserved::new(core, entry.clone(), lease, &request.executor)) {
            Some(reservation) => reserved.push(reservation),
            None => rest.push(entry),
        }
    }
    if reserved.is_empty() {
        return (Vec::new(), rest);
    }
    let records = reserved.iter().map(|reservation| reservation.record.clone()).collect();
    let kept = match journal.keep(records).await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::warn!(%error, tasks = reserved.len(), "tasks are not handed over while their database is unavailable");
            rest.extend(reserved.into_iter().map(|reservation| reservation.give_up(core)));
            return (Vec::new(), rest);
        }
    };
    let given: Vec<Assignment> = reserved
        .into_iter()
        .zip(kept)
        .filter_map(|(reservation, kept)| reservation.give(core, kept))
        .collect();
    if !given.is_empty() {
        core.maintenance.for_later.count_handed_over(given.len());
        tracing::info!(tasks = given.len(), queue = %request.queue.queue, "tasks are handed over while their database is unavailable");
    }
    (given, rest)
}

/// The table has the attempt, as one that no executor has learned of, so that later steps on its record find
/// it there.
struct Reserved {
    entry: HotEntry,
    lease: Assignment,
    record: NewRecord,
}

impl Reserved {
    /// Returns `None` if the table has a newer fence of the task, its lease is in doubt, or a running insert names
    /// it.
    fn new(core: &Core, entry: HotEntry, lease: Assignment, executor: &str) -> Option<Self> {
        let written = JournalledLease::of(&lease, entry.demands(), executor, longest(&lease));
        let record = written.record()?;
        let identity = Identity::of(&entry);
        let mut table = core.live.lock();
        let unheard = ForLaterLease { is_unheard: true, ..lease_in_table(&written) };
        // Under the lock: the insert is noted before it looks into the table.
        let is_free = !core.maintenance.for_later.is_being_inserted(&identity);
        let is_reserved = is_free
            // No other call has taken it out since.
            && table.knows(&entry)
            && !table.is_doubtful(entry.place.id)
            && table.hand_over_for_later(written.entry(), unheard);
        is_reserved.then_some(Self { entry, lease, record })
    }

    /// It is not journalled.
    fn give_up(self, core: &Core) -> HotEntry {
        core.live.lock().record_for_later(self.lease.place.id, self.lease.fence);
        self.entry
    }

    /// Delivers a lease whose record is durable. Returns `None` if another call has handed the task over, the store
    /// already has the lease, or another engine has the partition: no executor learns of it.
    fn give(self, core: &Core, kept: AppendResult) -> Option<Assignment> {
        let (id, fence) = (self.lease.place.id, self.lease.fence);
        if kept != AppendResult::New {
            core.live.lock().record_for_later(id, fence);
            return None;
        }
        let is_owned = core.holdings.tenure(self.lease.place.partition).is_some();
        (is_owned && core.live.lock().heard_for_later(id, fence)).then_some(self.lease)
    }
}

pub(super) fn lease_in_table(lease: &JournalledLease) -> ForLaterLease {
    ForLaterLease {
        executor: lease.executor.clone(),
        until: lease.until,
        longest: lease.longest,
        has_begun: false,
        is_unheard: false,
        is_refused: false,
        written_until: None,
        is_change: false,
    }
}

/// The other half is for outcomes.
fn has_room(journal: &dyn Journal) -> bool {
    let size = journal.size();
    size.bytes.saturating_mul(2) <= size.bytes_max
}

/// True if the entry has all that its executor needs, belongs to a partition of this engine, and was not handed over
/// before.
fn is_complete(core: &Core, entry: &HotEntry) -> bool {
    let is_here = |facts: Facts| facts.may_go() && !facts.ask.payload.is_outside;
    core.holdings.tenure(entry.place.partition).is_some()
        && Facts::of(entry).is_some_and(is_here)
        && !is_handed_over(core, entry)
}

/// The lease, as the store would make it.
fn lease_of(entry: &HotEntry, request: &LeaseRequest, asked_at: Millis, now: Millis) -> Option<Assignment> {
    let Facts { place, queue, task_id, task_version, priority, attempt, kind, ask, .. } = Facts::of(entry)?;
    let since = asked_at.max(entry.fired_at);
    let longest = ask.timeout_ms.map_or(Millis::MAX, |timeout_ms| since.plus(timeout_ms));
    let lease_until = asked_at.plus(request.lease_ms).max(now).min(longest);
    Some(Assignment {
        place,
        queue: (*queue).clone(),
        task_id,
        task_version,
        fence: entry.fence + 1,
        attempt: attempt + 1,
        max_attempts: ask.max_attempts,
        kind,
        priority,
        payload: ask.payload.clone(),
        execute_at: ask.execute_at,
        due_at: entry.due_at,
        fired_at: entry.fired_at,
        leased_since: since,
        lease_until,
        timeout_ms: ask.timeout_ms,
        labels: ask.labels.clone(),
        traceparent: ask.traceparent.clone(),
    })
}

fn longest(lease: &Assignment) -> Millis {
    lease.timeout_ms.map_or(Millis::MAX, |timeout_ms| lease.leased_since.plus(timeout_ms))
}

/// Among leases that never reached their executors, returns those that the store has. The others are returned once
/// the store has them.
pub(crate) fn keep_stored(core: &Core, mut leases: Vec<Assignment>) -> Vec<Assignment> {
    let mut table = core.live.lock();
    leases.retain(|lease| !table.unheard_for_later(lease.place.id, lease.fence));
    leases
}

/// Answers a heartbeat of an attempt that the store does not know. `None` if the store must be asked. Progress and
/// log lines are discarded.
pub(super) fn extended(core: &Core, beat: &Beat) -> Option<Extended> {
    let now = core.now();
    core.live.lock().extend_for_later(beat.place.id, beat.fence, beat.lease_until, now)
}

/// The store does not have the lease of this attempt, and is not to be asked about it.
pub(super) fn is_for_later(core: &Core, key: AttemptKey) -> bool {
    let journal = core.maintenance.for_later.journal();
    journal.is_some_and(|journal| journal.digest_of(key.of_hand_over()).is_some())
}

/// The store has refused the lease of this attempt.
pub(super) fn is_refused(core: &Core, key: AttemptKey) -> bool {
    core.live.lock().for_later(key.task, key.fence).is_some_and(|lease| lease.is_refused)
}
