//! Steps 5 and 6, preleased: if executors wait, and no limit or order applies, leases are committed shortly
//! before the tasks fire, many in one transaction. When a task fires, the store need not be asked. The table
//! decides what fires: a withdrawn task is never handed over. Order of steps, and what a crash between two of
//! them leaves:
//!
//! 1. The lease is committed in the engine's name (`Lease::ahead`), for a short time. Crash: it expires, the
//!    attempt is returned, and the task is ready.
//! 2. The table fires the task when it is due. Crash: the same.
//! 3. The task is given to a waiting caller, or waits briefly for one. Crash: the same, or an executor has
//!    it: then it runs again, and the outcome of the first attempt is refused.
//! 4. The store gets the holder, and the end of the lease. Crash before: as 3. An attempt that ends sooner is not
//!    reported.
//!
//! Never hands over an unfired task, nor one that was leased too long ago: meanwhile a caller may have been
//! promised that no task starts any more.

use crate::{
    arrivals::state::{GOOD_FOR, Preleased, QueueWaiters},
    core::Core,
    for_later::hand_over as without_store,
    live::{Granted, Ready, Unreported, leased_entry},
    long_payloads, parts,
    pipeline::{
        fire,
        hand_over::{grants::was_handed_over, release::give_back},
        line,
        request::LeaseRequest,
        store_fallback,
    },
};
use hashbrown::HashMap;
use punctual_contract::{
    Error, Happened,
    hot::HotEntry,
    store::{Assignment, Beat, Dispatched, Facts, Grant},
};
use punctual_domain::{
    name::QueueKey,
    task::{Lease, Priority},
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

pub(crate) mod pace;
mod remote_leases;
pub(crate) mod wanted;

/// The interval of preleasing: tasks that become due in this time share a transaction.
const TICK: Duration = Duration::from_millis(20);
/// A task that is due sooner could fire before its lease is made: it is leased when it fires.
const TOO_LATE_MS: i64 = 10;
/// The duration of a lease in the engine's name beyond the due time. It suffices to record the executor that has the
/// task, and it soon frees the task of an engine that died.
const LEASE_MS: i64 = 3_000;
/// A task that has not fired this long after its due time will not fire.
const UNFIRED_MS: i64 = 2_500;
/// The time for which a preleased task that fired without a caller waits here for an executor.
const PRELEASED_MS: i64 = 20;
/// The time for which a queue gets no preleases after a preleased task found no executor.
const BACK_OFF_MS: i64 = 1_000;
/// A hand-over without an outcome within this time is reported to the store.
const REPORTED_AFTER_MS: i64 = 200;
/// Executors that requested tasks within this time are at work, and will ask again.
const ASKED_LATELY_MS: i64 = 1_000;

/// The reason for returning a lease that may have ended.
pub(crate) const TOO_LATE: &str = "too_late_for_its_lease";

pub(crate) fn may_be_leased(core: &Core, entry: &HotEntry) -> bool {
    core.options.ahead_ms > 0 && is_leasable(entry)
}

fn is_leasable(entry: &HotEntry) -> bool {
    entry.demands().is_none() && entry.deadline_at > entry.due_at.plus(LEASE_MS)
}

/// An executor of the queue is waiting, or has just requested tasks and will do so again.
pub(crate) fn is_worked_on(core: &Core, queue: &Arc<QueueKey>, now: Millis) -> bool {
    core.arrivals.of(queue).is_asked_since(now.plus(-ASKED_LATELY_MS))
}

/// The number of tasks of a queue that may be preleased.
fn room(core: &Core, queue: &Arc<QueueKey>, now: Millis) -> usize {
    if !core.settings.is_plain(queue) {
        return 0;
    }
    let waiters = core.arrivals.of(queue);
    let would_overtake = line::would_be_superseded(core, queue, now);
    waiters.room(now, would_overtake).max(core.options.ahead_room_min)
}

/// Runs while there is something to prelease. Returns the number of preleases.
pub(crate) async fn run(core: Arc<Core>) -> Result<usize, Error> {
    if core.options.ahead_ms == 0 {
        core.work.stopping.cancelled().await;
        return Ok(0);
    }
    let mut count = 0;
    while !core.work.stopping.is_cancelled() {
        if core.firing.ahead.has_no_shelves() && core.live.lock().is_ahead_idle() {
            tokio::select! {
                () = core.firing.ahead.something.notified() => {}
                () = core.work.stopping.cancelled() => break,
            }
        }
        count += run_once(&core).await?;
        tokio::time::sleep(TICK).await;
    }
    Ok(count)
}

/// Preleases candidates, returns leases that found no executor, and reports holders to the store.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let now = core.now();
    // New preleases do not wait for these.
    let old = core.live.lock().begin_reports(now.plus(-REPORTED_AFTER_MS));
    if !old.is_empty() {
        let its = Arc::clone(core);
        core.work.detach_claim(async move { report_holders(&its, old).await });
    }
    let found_no_waiter = clear_shelves(core, now);
    if !found_no_waiter.is_empty() {
        let its = Arc::clone(core);
        core.work.detach_claim(async move { give_back(&its, found_no_waiter, "nobody_waited").await });
    }
    // These are past due, and did not fire. No executor had them, and that is recorded before their leases
    // expire, because an expiry in the engine's name is counted.
    let (unfired, _) = core.live.lock().drop_leases(|entry| entry.due_at < now.plus(-UNFIRED_MS));
    if !unfired.is_empty() {
        let its = Arc::clone(core);
        core.work.detach_claim(async move { give_back(&its, unfired, "not_fired").await });
    }
    if core.options.ahead_ms == 0 || core.work.stopping.is_cancelled() {
        return Ok(0);
    }
    let mut near = core.live.lock().take_candidates(now.plus(core.options.ahead_ms));
    near.retain(|entry| entry.due_at >= now.plus(TOO_LATE_MS));
    if near.is_empty() {
        return Ok(0);
    }
    let near = remote_leases::pass_on(core, near, |queue| is_worked_on(core, queue, now));
    let mut near = parts::split(core, near, |entry| entry.place.partition);
    near.retain(|pair| !core.firing.ahead.is_too_slow(pair.0, now) && !parts::is_doubtful(core, pair.0));
    let chosen = choose(core, near.into_iter().flat_map(|pair| pair.1).collect(), now);
    let chosen = core.live.lock().begin_leases(chosen, core.steady_reading());
    let count = chosen.len();
    for (part, some) in parts::split(core, chosen, |entry| entry.place.partition) {
        let its = Arc::clone(core);
        core.work.detach_claim(async move { lease(&its, part, some, now).await });
    }
    Ok(count)
}

/// Chooses the earliest tasks of each queue, as many as will probably find an executor when they fire. If
/// they differ in priority, or have versions, and not all of them find a waiting executor, none is chosen.
/// They are selected among all fired tasks instead.
fn choose(core: &Core, mut near: Vec<HotEntry>, now: Millis) -> Vec<HotEntry> {
    // After a start the journal may know more than the table.
    near.retain(|entry| !without_store::is_handed_over(core, entry));
    let leased = {
        let table = core.live.lock();
        near.retain(|entry| table.holds(entry));
        table.leases_by_queue()
    };
    let mut queues: HashMap<Arc<QueueKey>, Candidates> = HashMap::new();
    for entry in &near {
        let new = || {
            let before = leased.get(&entry.queue).copied().unwrap_or_default();
            let waiting = core.arrivals.of(&entry.queue).idle_places();
            Candidates {
                room: room(core, &entry.queue, now).saturating_sub(before),
                idle: waiting.saturating_sub(before),
                priority: entry.priority,
                are_alike: true,
                count: 0,
            }
        };
        queues.entry(Arc::clone(&entry.queue)).or_insert_with(new).add(entry);
    }
    near.retain(|entry| queues.get_mut(&entry.queue).is_some_and(Candidates::take));
    near
}

/// Candidates of one queue.
struct Candidates {
    /// The number of further tasks that may be preleased, and of those that find an executor that already waits.
    room: usize,
    idle: usize,
    priority: Priority,
    are_alike: bool,
    count: usize,
}

impl Candidates {
    fn add(&mut self, entry: &HotEntry) {
        self.are_alike &= entry.priority == self.priority && entry.task_version == 0;
        self.count += 1;
    }

    /// True if the next candidate, by time, is leased.
    fn take(&mut self) -> bool {
        let may_be = self.room > 0 && (self.are_alike || self.count <= self.idle);
        self.room = self.room.saturating_sub(1);
        may_be
    }
}

/// Leases the candidates of one part.
async fn lease(core: &Arc<Core>, part: usize, entries: Vec<HotEntry>, now: Millis) {
    // One for all, so that they are one statement.
    let last = entries.iter().map(|entry| entry.due_at).max().unwrap_or(now);
    let grant = |entry: &HotEntry| Grant {
        place: entry.row(),
        fence: entry.fence,
        fired_at: entry.due_at,
        lease_until: last.plus(LEASE_MS),
        executor: Lease::ahead(&core.options.name),
        namespace: entry.queue.namespace.clone(),
        has_begun: false,
        known: Facts::of(entry),
    };
    let grants = entries.iter().map(grant).collect();
    let asked = Instant::now();
    let answer = parts::leasing(core, part, parts::PATIENCE, core.store.dispatch(grants, now)).await;
    let took_ms = i64::try_from(asked.elapsed().as_millis()).unwrap_or(i64::MAX);
    core.firing.ahead.answered(part, took_ms <= core.options.ahead_ms, core.now());
    let dispatched = match answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "leases could not be made ahead of their time");
            core.parts.failed(part);
            if error.happened == Happened::No {
                return go_on_without(core, &entries).await;
            }
            // Whether they are leased in this engine's name the store says (`unknown`).
            let (name, until) = (Lease::ahead(&core.options.name), last.plus(LEASE_MS));
            let fired = core.live.lock().lease_unanswered(&entries, &name, until, core.now());
            fire::offer(core, fired);
            return;
        }
    };
    let (mut made, mut not_made) = (Vec::with_capacity(entries.len()), Vec::new());
    for (entry, dispatched) in entries.into_iter().zip(dispatched) {
        match dispatched {
            Dispatched::Made(lease) => made.push(lease),
            Dispatched::Paused => {
                core.settings.refused(&entry.queue);
                not_made.push(entry);
            }
            Dispatched::Lost => not_made.push(entry),
        }
    }
    go_on_without(core, &not_made).await;
    let asked: Vec<i64> = made.iter().map(|lease| lease.place.id).collect();
    let made = long_payloads::fetch(core, made).await;
    if made.len() < asked.len() {
        // A task whose payload cannot be read has been marked; another service retries it.
        let good: Vec<i64> = made.iter().map(|lease| lease.place.id).collect();
        let is_bad = |id: i64| asked.contains(&id) && !good.contains(&id);
        core.live.lock().drop_leases(|entry| is_bad(entry.place.id));
    }
    let (mut ready, mut unwanted) = (Vec::new(), Vec::new());
    for granted in core.live.lock().granted(made) {
        match granted {
            Granted::Kept => {}
            Granted::Fired(fired) => ready.push(*fired),
            Granted::Unwanted(lease) => unwanted.push(*lease),
        }
    }
    give_back(core, unwanted, "handed_back").await;
    deliver(core, ready).await;
}

/// These were not leased: those that fired meanwhile are leased in the ordinary way.
async fn go_on_without(core: &Arc<Core>, entries: &[HotEntry]) {
    let fired = core.live.lock().not_granted(entries);
    fire::offer(core, fired);
}

/// Gives fired tasks to the waiters.
pub(crate) async fn deliver(core: &Arc<Core>, ready: Vec<Ready>) {
    if ready.is_empty() {
        return;
    }
    let current_time = core.current_time();
    let now = current_time.now;
    let (mut late, mut good) = (Vec::new(), HashMap::<Arc<QueueKey>, Vec<Preleased>>::new());
    let mut handed_over = Vec::new();
    for Ready { entry, assignment, asked } in ready {
        if !fire::has_fired(&entry) {
            core.meters.queue(&entry.queue).fired(&[now.since(entry.due_at)]);
            store_fallback::count_fired(core, [&entry].into_iter());
        }
        if asked.age(current_time) > GOOD_FOR || core.settings.is_paused(&entry.queue) {
            late.push(assignment);
            continue;
        }
        let assignment = Assignment { fired_at: now, ..assignment };
        good.entry(Arc::clone(&entry.queue)).or_default().push(Preleased { assignment, asked, since: now });
        handed_over.push(entry);
    }
    for (queue, leased) in good {
        offer_preleased(core, &core.arrivals.of(&queue), leased);
    }
    core.live.lock().persisted(&handed_over);
    give_back(core, late, TOO_LATE).await;
}

/// Offers preleased tasks to a caller that waits, or to the next one.
pub(crate) fn offer_preleased(core: &Core, waiters: &Arc<QueueWaiters>, leased: Vec<Preleased>) {
    if !waiters.hand(leased, core.current_time()) {
        return;
    }
    let mut shelves = core.firing.ahead.shelves.lock();
    if !shelves.iter().any(|known| Arc::ptr_eq(known, waiters)) {
        shelves.push(Arc::clone(waiters));
    }
    drop(shelves);
    core.firing.ahead.something.notify_one();
}

/// An executor gets these now: from here on, the leases are its own. Leases from before a clock discontinuity
/// may have ended; those are returned.
pub(crate) fn handed_over(
    core: &Arc<Core>,
    request: &LeaseRequest,
    given: Vec<Preleased>,
) -> Vec<Assignment> {
    if given.is_empty() {
        return Vec::new();
    }
    let current_time = core.current_time();
    let now = current_time.now;
    let (given, late): (Vec<_>, Vec<_>) =
        given.into_iter().partition(|preleased| preleased.asked.age(current_time) < Duration::MAX);
    if !late.is_empty() {
        let its = Arc::clone(core);
        let late = late.into_iter().map(|preleased| preleased.assignment).collect();
        core.work.detach(async move { give_back(&its, late, TOO_LATE).await });
    }
    let mut table = core.live.lock();
    if table.is_all_reported() {
        core.firing.ahead.something.notify_one();
    }
    let leased: Vec<Assignment> = given
        .into_iter()
        .map(|Preleased { assignment, .. }| {
            let longest =
                assignment.timeout_ms.map_or(Millis::MAX, |timeout_ms| assignment.due_at.plus(timeout_ms));
            let lease_until = now.plus(request.lease_ms).min(longest);
            let beat = Beat {
                place: assignment.place,
                fence: assignment.fence,
                lease_until,
                progress: None,
                log: None,
                executor: request.executor.clone(),
                handed_over_at: Some(assignment.fired_at),
            };
            table.hand_over(Unreported {
                entry: leased_entry(&assignment, &request.queue),
                since: now,
                beat,
            });
            Assignment { lease_until, ..assignment }
        })
        .collect();
    drop(table);
    was_handed_over(core, request, &leased, now);
    core.meters.queue(&request.queue).dispatched(leased.len());
    leased
}

/// These did not reach their executor: their holder is not reported.
pub(crate) fn was_not_handed_over(core: &Core, leased: &[Assignment]) {
    drop(core.live.lock().ended(leased.iter().map(|lease| (lease.place.id, lease.fence)), core.now()));
}

/// Reports to the store which executors have which tasks, each database separately.
async fn report_holders(core: &Arc<Core>, old: Vec<Beat>) {
    parts::apart(core, old, |beat| beat.place.partition, report_holders_in).await;
}

async fn report_holders_in(core: Arc<Core>, old: Vec<Beat>) {
    match core.store.extend(old.clone(), core.now()).await {
        Ok(_) => core.live.lock().reported(&old),
        Err(error) => {
            tracing::warn!(%error, tasks = old.len(), "who has these tasks could not be written down; it will be repeated");
            core.live.lock().not_reported(&old, core.now().plus(-LEASE_MS));
        }
    }
}

/// Takes preleased tasks that found no executor. Their queue is leased in the ordinary way for a while.
fn clear_shelves(core: &Core, now: Millis) -> Vec<Assignment> {
    let mut found_no_waiter = Vec::new();
    core.firing.ahead.shelves.lock().retain(|waiters| {
        found_no_waiter.extend(waiters.take_old(now.plus(-PRELEASED_MS), now.plus(BACK_OFF_MS)));
        waiters.has_some_here()
    });
    found_no_waiter
}

/// Returns all preleases. No preleased task is handed over from here on.
pub(crate) async fn give_up(core: &Arc<Core>) {
    let (made, fired) = core.live.lock().drop_all_leases();
    core.live.lock().hold_back(&fired);
    give_back(core, made, "handed_back").await;
}

/// Returns all preleases.
pub(crate) async fn clear(core: &Arc<Core>) {
    give_up(core).await;
    give_back(core, clear_shelves(core, Millis::MAX), "handed_back").await;
    let unreported = core.live.lock().begin_reports(Millis::MAX);
    if !unreported.is_empty() {
        report_holders(core, unreported).await;
    }
}

/// Returns preleases, and removes requests in the future, after the clock was set back.
pub(crate) async fn begin_anew(core: &Arc<Core>) {
    clear(core).await;
    core.firing.ahead.begin_anew();
    core.arrivals.each(QueueWaiters::begin_anew);
}

/// Waits until no earlier prelease can be handed over.
pub(crate) async fn until_none_is_good(core: &Core) {
    if core.options.ahead_ms > 0 {
        tokio::time::sleep(GOOD_FOR).await;
    }
}
