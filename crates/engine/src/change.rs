//! Changes that callers request: cancel, reschedule (also into another queue), run now, redrive. One atomic step decides each.
//! While a task waits in this engine's table or in the hot set, its withdrawal decides (`fired` xor `withdrawn`); otherwise the
//! store's conditional update does. A crash between withdrawal and update leaves the row unchanged and the call unanswered; the
//! refill loads the task again, and it fires. Preleased tasks (`pipeline::ahead`) likewise: after the withdrawal, one unit of
//! work returns the attempt and changes the task. A crash between leaves the lease to expire.

pub(crate) mod dead;
pub(crate) mod revoke;
mod what;

use crate::{
    answer::{Cancelled, Changed, Error},
    core::Core,
    for_later::{
        changed::{self, Changing},
        hand_over as without_store,
    },
    live::Withdrawal,
    long_payloads::{self, Owned, Put},
    pipeline::{entry::entry_of, intake, line},
};
use punctual_contract::{
    Happened,
    hot::{HotEntry, Withdrawn},
    store::{Applied, Change, Step},
};
use punctual_domain::{
    history::Note,
    place::TaskRef,
    state::{Event, State},
    task::{Lease, Task},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use what::what_changes;

/// The maximum number of tries of a change that others overtake. Then it fails with an error.
pub(crate) const TRIES: usize = 16;
/// The maximum number of reads of a changed task, before the caller learns that the outcome is unknown.
const READS: usize = 3;
/// An engine's own lease is shorter than this, so what it does with the task is decided by then.
const DECIDED_WITHIN: Duration = Duration::from_secs(4);
/// The pause between two reads of a task whose lease is undecided.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) async fn read(core: &Core, place: TaskRef) -> Result<Task, Error> {
    core.store.read(&[place]).await?.pop().flatten().ok_or(Error::NotFound)
}

/// The task to change.
#[derive(Debug)]
pub(crate) enum Subject {
    At(TaskRef),
    /// The task, as the caller has just read it together with many others. Its fence reveals a later change; then it
    /// is read again.
    Seen(Box<Task>),
}

impl Subject {
    const fn place(&self) -> TaskRef {
        match self {
            Self::At(place) => *place,
            Self::Seen(task) => task.place,
        }
    }

    /// The second time it is read.
    async fn look(&mut self, core: &Core) -> Result<Task, Error> {
        let place = self.place();
        match std::mem::replace(self, Self::At(place)) {
            Self::At(place) => {
                let task = read(core, place).await?;
                changed::read_as(core, entry_of(&task));
                Ok(task)
            }
            Self::Seen(task) => Ok(*task),
        }
    }
}

/// Reads a task that this call has changed. A broken connection is retried. If the task cannot be read, the error does not claim
/// that nothing was done.
async fn read_changed(core: &Core, place: TaskRef) -> Result<Task, Error> {
    let mut tries = 1;
    loop {
        match core.store.read(&[place]).await {
            Ok(mut found) => return found.pop().flatten().ok_or(Error::NotFound),
            Err(error) if tries == READS => return Err(error.after_a_change().into()),
            Err(_) => tries += 1,
        }
    }
}

/// States if the task can still be changed, decided atomically.
enum Hold {
    /// The task is taken out and cannot fire until it is put back. Or another engine may have it, and the store decides.
    Held,
    Fired,
}

/// A condition on the task as the caller has seen it: false refuses the change.
pub(crate) type Expected = dyn Fn(&Task) -> bool + Send + Sync;

/// The entries that one call has removed.
#[derive(Clone, Copy, Debug, Default)]
struct Removed {
    /// True if the call removed the task from the table or from the hot set. This decides nothing against a lease
    /// that was requested later, or by another engine, which may have read the task from the store.
    is_some: bool,
    /// The fence of an entry that was taken out of the table while this engine requested or held its lease. No executor gets that
    /// lease.
    leased: Option<i64>,
}

async fn hold(core: &Core, task: &Task, removed: &mut Removed) -> Result<Hold, Error> {
    let place = task.place;
    let is_ahead = is_ahead(core, task, *removed);
    // The entry is as it was before its lease.
    let fence = if is_ahead { task.fence - 1 } else { task.fence };
    if without_store::has_handed_over(core, place.id, fence) {
        // After a start, the table may not know this yet.
        return Ok(Hold::Fired);
    }
    let here = core.live.lock().withdraw(place.id, fence);
    match here {
        Withdrawal::Withdrawn { has_lease } => {
            removed.is_some = true;
            removed.leased = has_lease.then_some(fence).or(removed.leased);
            return Ok(Hold::Held);
        }
        Withdrawal::Fired => return Ok(Hold::Fired),
        Withdrawal::Unknown => {}
    }
    if is_ahead {
        // This engine may be about to hand it over.
        return Ok(if removed.leased == Some(fence) { Hold::Held } else { Hold::Fired });
    }
    // Without the hot set the store decides, as it does about tasks that another engine has drained.
    let is_in_hot_set = !core.store_fallback.is_away() && !core.settings.is_scanned(&task.ask.queue);
    removed.is_some |=
        is_in_hot_set && core.hot.withdraw(place.partition, place.id, fence).await? == Withdrawn::Removed;
    Ok(Hold::Held)
}

/// True if this engine has leased the task, and it has not fired, or cannot because this call has withdrawn it. A
/// lease of another engine is not revoked: only that engine knows whether it has delivered the task.
fn is_ahead(core: &Core, task: &Task, removed: Removed) -> bool {
    let is_own = |lease: &Lease| lease.executor == Lease::ahead(&core.options.name);
    task.state == State::Dispatched
        && task.lease.as_ref().is_some_and(is_own)
        && (task.due_at > core.now() || removed.leased == Some(task.fence - 1))
}

/// An engine holds the task's lease and has reported no holder. Either it is about to hand the task over, or another
/// call has withdrawn and is about to change it; the store soon says which. Waits briefly before the next read. False
/// if the lease is not an engine's, or has been undecided for longer than such a lease lasts.
async fn is_undecided(core: &Core, task: &Task, began: Instant) -> bool {
    let lease = task.lease.as_ref().filter(|_| task.state == State::Dispatched);
    let is_engines = lease.is_some_and(Lease::is_ahead);
    if !is_engines
        || core.live.lock().is_unreported(task.place.id, task.fence)
        || began.elapsed() > DECIDED_WITHIN
    {
        return false;
    }
    tokio::time::sleep(LOOK_AGAIN).await;
    true
}

/// The result of a cancel.
pub(crate) enum Cancel {
    /// This call has done it.
    Withdrawn,
    Was(Cancelled),
}

/// Cancels a task for a caller that needs the task after the cancel.
pub(crate) async fn cancel_and_read(
    core: &Arc<Core>,
    place: TaskRef,
    stop_if_fired: bool,
    by: &str,
    expected: &Expected,
) -> Result<Cancelled, Error> {
    match cancel(core, Subject::At(place), stop_if_fired, by, expected).await?.ok_or(Error::Contended)? {
        Cancel::Was(cancelled) => Ok(cancelled),
        Cancel::Withdrawn => Ok(Cancelled::Cancelled(Box::new(read_changed(core, place).await?))),
    }
}

/// `expected` guards against unseen changes, as with `reschedule`. Returns `None` if it refused the cancel.
pub(crate) async fn cancel(
    core: &Arc<Core>,
    subject: Subject,
    stop_if_fired: bool,
    by: &str,
    expected: &Expected,
) -> Result<Option<Cancel>, Error> {
    cancel_removed(core, subject, Removed::default(), stop_if_fired, by, expected).await
}

/// `removed`: what the caller has already taken out.
async fn cancel_removed(
    core: &Arc<Core>,
    mut subject: Subject,
    mut removed: Removed,
    stop_if_fired: bool,
    by: &str,
    expected: &Expected,
) -> Result<Option<Cancel>, Error> {
    let (mut tries, began) = (0, Instant::now());
    while tries < TRIES {
        let task = subject.look(core).await?;
        if !expected(&task) {
            put_back_unchanged(core, &task, removed).await;
            return Ok(None);
        }
        tries += 1;
        let is_ahead = is_ahead(core, &task, removed);
        let may_be_stopped =
            stop_if_fired && !without_store::is_with_executor(core, task.place.id, task.fence);
        let change = match task.state {
            State::Cancelled => return Ok(Some(Cancel::Was(Cancelled::Cancelled(Box::new(task))))),
            State::Scheduled | State::Dispatching | State::Retrying => {
                match hold(core, &task, &mut removed).await? {
                    Hold::Held => Event::Cancel,
                    Hold::Fired if may_be_stopped => Event::Withdraw,
                    Hold::Fired => return Ok(Some(Cancel::Was(Cancelled::AlreadyFired(Box::new(task))))),
                }
            }
            State::Dispatched if is_ahead && matches!(hold(core, &task, &mut removed).await?, Hold::Held) => {
                Event::Cancel
            }
            State::Blocked => Event::Cancel,
            State::Ready | State::DispatchFailed if may_be_stopped => Event::Withdraw,
            State::Dispatched | State::Running if stop_if_fired => {
                match core.store.request_stop(task.place, core.now()).await? {
                    Applied::Moved => return Ok(Some(Cancel::Was(Cancelled::StopRequested(Box::new(task))))),
                    Applied::Lost => continue,
                }
            }
            _ if is_undecided(core, &task, began).await => {
                tries -= 1;
                continue;
            }
            _ => return Ok(Some(Cancel::Was(Cancelled::AlreadyFired(Box::new(task))))),
        };
        if withdraw(core, &task, change, by, is_ahead).await? == Applied::Moved {
            core.meters.queue(&task.ask.queue).cancelled(1);
            return Ok(Some(Cancel::Withdrawn));
        }
    }
    Err(Error::Contended)
}

async fn withdraw(
    core: &Arc<Core>,
    task: &Task,
    event: Event,
    by: &str,
    is_ahead: bool,
) -> Result<Applied, Error> {
    let keep_until = core.now().plus(core.keep(Some(&task.ask.queue)).cancelled_ms);
    let change =
        if event == Event::Cancel { Change::Cancel { keep_until } } else { Change::Withdraw { keep_until } };
    let applied = apply(core, task, change, &note(by), is_ahead).await?;
    if applied == Applied::Moved {
        core.ends.ended(task.place);
        if event == Event::Withdraw {
            drop_finished(core, task);
        }
    }
    Ok(applied)
}

/// The task had fired and waited for an executor. No executor may get it now, with or without its database.
fn drop_finished(core: &Arc<Core>, task: &Task) {
    core.live.lock().forget_fired(task.place.id, task.fence);
    line::discard(core, &[entry_of(task)]);
}

fn note(by: &str) -> Note {
    Note { by: by.to_owned(), ..Note::default() }
}

/// Applies a change to a task that is held out of the hot set. If the store fails, the entry is put back; a preleased task is
/// ready again when its lease expires.
async fn apply(
    core: &Arc<Core>,
    task: &Task,
    change: Change,
    note: &Note,
    is_ahead: bool,
) -> Result<Applied, Error> {
    let step = |change| Step {
        place: task.place,
        fence: Some(task.fence),
        change,
        note: note.clone(),
        fired_at: None,
        known: None,
    };
    let changing = if is_ahead {
        Some(Changing::unmarked(core))
    } else {
        let is_taken_out = matches!(change, Change::Withdraw { .. });
        let has_fired = matches!(task.state, State::Ready | State::DispatchFailed);
        changed::begin(core, entry_of(task), is_taken_out || has_fired)
    };
    let Some(changing) = changing else { return Ok(Applied::Lost) };
    let mut steps = if is_ahead { vec![step(Change::Release), step(Change::Reclaim)] } else { Vec::new() };
    if matches!(change, Change::Withdraw { .. }) && task.state.after(Event::Claim).is_ok() {
        // The task has fired without a mark: the lease that was to follow immediately has not been made yet.
        steps.push(step(Change::Claim));
    }
    steps.push(step(change));
    match core.store.apply(steps, core.now()).await {
        Ok(applied) => {
            let applied = applied.last().map_or(Applied::Lost, |last| last.applied);
            if applied == Applied::Moved {
                changing.made().await;
            }
            Ok(applied)
        }
        Err(error) => {
            if !is_ahead {
                load_again(core, vec![(entry_of(task), changing)], &error).await;
            }
            Err(error.into())
        }
    }
}

/// The store refused the change, or its result is unknown. In queues that hand over without the store, possibly changed tasks are
/// loaded again when the store can be read.
async fn load_again(
    core: &Arc<Core>,
    entries: Vec<(HotEntry, Changing<'_>)>,
    error: &punctual_contract::Error,
) {
    let is_unsure = |(entry, _): &(HotEntry, Changing<'_>)| {
        error.happened == Happened::Maybe && without_store::is_allowed(core, &entry.queue)
    };
    let (unsure, unchanged): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_unsure);
    for (entry, _) in &unsure {
        core.filling.gaps.note_entries(std::iter::once(entry));
        core.store_fallback.watermarks.lower(entry.place.partition, entry.due_at);
    }
    drop(unsure);
    put_back_held(core, unchanged).await;
}

/// The store has not changed these.
async fn put_back_held(core: &Arc<Core>, held: Vec<(HotEntry, Changing<'_>)>) {
    let mut entries = Vec::with_capacity(held.len());
    for (entry, changing) in held {
        changing.undone();
        entries.push(entry);
    }
    intake::admit(core, entries).await;
}

/// `change` is a `Reschedule`. `expected` guards against changes that the caller has not seen: it gets the task, and false
/// refuses the change.
pub(crate) async fn reschedule(
    core: &Arc<Core>,
    subject: Subject,
    mut change: Change,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let put = put_payload(core, subject.place(), &mut change).await?;
    let changed = try_reschedule(core, subject, &change, by, expected).await;
    // After an error the row may contain it.
    if matches!(&changed, Ok(None | Some(Changed::Refused(_)))) {
        long_payloads::delete_soon(core, long_payloads::keys(put));
    }
    changed
}

/// A long payload is stored outside the database before the task is taken out, because that may take long.
async fn put_payload(core: &Arc<Core>, place: TaskRef, change: &mut Change) -> Result<Put, Error> {
    let (Change::Reschedule { payload: Some(content), .. } | Change::Amend { payload: Some(content), .. }) =
        change
    else {
        return Ok(Put::new());
    };
    if !core.is_long(content) {
        return Ok(Put::new());
    }
    let task = read(core, place).await?;
    let (namespace, task_id, task_version) =
        (&task.ask.queue.namespace, task.task_id(), task.ask.task_version);
    let owned = Owned { nth: 0, namespace, task_id, task_version, content };
    Ok(long_payloads::put(core, vec![owned]).await?)
}

async fn try_reschedule(
    core: &Arc<Core>,
    mut subject: Subject,
    change: &Change,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let (mut removed, mut tries, began) = (Removed::default(), 0, Instant::now());
    while tries < TRIES {
        let task = subject.look(core).await?;
        if !expected(&task) {
            put_back_unchanged(core, &task, removed).await;
            return Ok(None);
        }
        let is_ahead = is_ahead(core, &task, removed);
        let waits = is_ahead || task.state.after(Event::Reschedule).is_ok();
        if !waits || matches!(hold(core, &task, &mut removed).await?, Hold::Fired) {
            if is_undecided(core, &task, began).await {
                continue;
            }
            return Ok(Some(Changed::Refused(Box::new(task))));
        }
        tries += 1;
        let note = Note { reason: what_changes(&task, change), ..note(by) };
        if apply(core, &task, change.clone(), &note, is_ahead).await? == Applied::Moved {
            if matches!(change, Change::Reschedule { payload: Some(_), .. }) {
                long_payloads::delete_soon(
                    core,
                    long_payloads::key_of(&task.ask.payload).into_iter().collect(),
                );
            }
            return Ok(Some(Changed::Changed(Box::new(put_back(core, task.place).await?))));
        }
    }
    Err(Error::Contended)
}

/// Only a task that no executor has is buried. Decided as a cancel: while it is in the hot set, by the withdrawal from it.
pub(crate) async fn bury(
    core: &Arc<Core>,
    mut subject: Subject,
    reason: Option<String>,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let why = reason.unwrap_or_else(|| "buried manually".to_owned());
    let note = Note { error: Some(why), ..note(by) };
    let (mut removed, mut tries, began) = (Removed::default(), 0, Instant::now());
    while tries < TRIES {
        let task = subject.look(core).await?;
        if !expected(&task) {
            put_back_unchanged(core, &task, removed).await;
            return Ok(None);
        }
        let is_ahead = is_ahead(core, &task, removed);
        let is_free = match task.state {
            State::Ready | State::DispatchFailed => {
                !without_store::is_with_executor(core, task.place.id, task.fence)
            }
            State::Blocked => true,
            State::Scheduled | State::Dispatching | State::Retrying => {
                matches!(hold(core, &task, &mut removed).await?, Hold::Held)
            }
            State::Dispatched if is_ahead && matches!(hold(core, &task, &mut removed).await?, Hold::Held) => {
                true
            }
            _ => false,
        };
        if !is_free {
            if is_undecided(core, &task, began).await {
                continue;
            }
            return Ok(Some(Changed::Refused(Box::new(task))));
        }
        tries += 1;
        let keep_until = core.now().plus(core.keep(Some(&task.ask.queue)).dead_ms);
        let change = Change::DeadLetter { keep_until };
        if apply(core, &task, change, &note, is_ahead).await? == Applied::Moved {
            if matches!(task.state, State::Ready | State::DispatchFailed) {
                drop_finished(core, &task);
            }
            core.meters.queue(&task.ask.queue).dead(1);
            core.ends.ended(task.place);
            return Ok(Some(Changed::Changed(Box::new(read_changed(core, task.place).await?))));
        }
    }
    Err(Error::Contended)
}

/// Restores a task that an earlier try removed and that is not changed after all. Otherwise it waits for the refill.
async fn put_back_unchanged(core: &Arc<Core>, task: &Task, removed: Removed) {
    if removed.is_some && task.state.is_waiting() {
        intake::admit(core, vec![entry_of(task)]).await;
    }
}

async fn put_back(core: &Arc<Core>, place: TaskRef) -> Result<Task, Error> {
    let task = read_changed(core, place).await?;
    if task.state.is_waiting() {
        intake::admit(core, vec![entry_of(&task)]).await;
    }
    Ok(task)
}
