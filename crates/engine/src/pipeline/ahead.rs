//! Steps 5 and 6 ahead of their time: where executors wait, and nothing limits or orders them, the lease of what is about
//! to fire is committed before its instant, many in one transaction. At the instant there is nothing left to ask the
//! store for. The table decides what fires: what is leased ahead and was withdrawn is never handed over. Order of
//! steps, and what a crash between two of them leaves:
//!
//! 1. The lease is committed in the engine's name (`Lease::ahead`), for a short time. Crash: it ends, the attempt is given
//!    back, and the task is ready.
//! 2. The table gives it at its instant. Crash: the same.
//! 3. It is given to a caller that waits, or waits a moment for a caller. Crash: the same, or it is with an executor:
//!    then it runs again, and the outcome of the first is refused.
//! 4. The store is told who has it, and until when. Crash before: as 3. What is finished sooner needs no telling.
//!
//! Never hands over what has not fired, nor what was leased so long ago that an executor may have been promised
//! that nothing starts any more.

use crate::{
    arrivals::state::{GOOD_FOR, Preleased, QueueWaiters},
    core::Core,
    for_later::hand_over as without_store,
    live::{Granted, Ready, Unreported, leased_entry},
    outside, parts,
    pipeline::{
        fire, from_store,
        hand_over::{grants::was_handed_over, release::give_back},
        line,
        request::LeaseRequest,
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

mod elsewhere;
pub(crate) mod pace;
pub(crate) mod wanted;

/// How often what comes next is looked at: what falls due in so long is one transaction.
const TICK: Duration = Duration::from_millis(20);
/// What is due sooner could fire before its lease is made: it goes the usual way.
const TOO_LATE_MS: i64 = 10;
/// The lease in the engine's name continues for so long after the instant: long enough for the executor that has it to be written
/// down, and soon enough over for the task of an engine that died.
const LEASE_MS: i64 = 3_000;
/// What has not fired so long after its instant will not.
const UNFIRED_MS: i64 = 2_500;
/// What has fired and found no caller waits here for so long for an executor to come back.
const PRELEASED_MS: i64 = 20;
/// No more of a queue is leased ahead for so long after one found no executor.
const BACK_OFF_MS: i64 = 1_000;
/// A hand-over that the outcome does not follow in so long is written down.
const REPORTED_AFTER_MS: i64 = 200;
/// Executors that asked so short a time ago are at work, and ask again.
const ASKED_LATELY_MS: i64 = 1_000;

/// Why a lease is given back that may have ended.
pub(crate) const TOO_LATE: &str = "too_late_for_its_lease";

pub(crate) fn may_be_leased(core: &Core, entry: &HotEntry) -> bool {
    core.options.ahead_ms > 0 && is_leasable(entry)
}

fn is_leasable(entry: &HotEntry) -> bool {
    entry.demands().is_none() && entry.deadline_at > entry.due_at.plus(LEASE_MS)
}

/// An executor asks for its tasks now, or has just asked and will again.
pub(crate) fn is_worked_on(core: &Core, queue: &Arc<QueueKey>, now: Millis) -> bool {
    core.arrivals.of(queue).is_asked_since(now.plus(-ASKED_LATELY_MS))
}

/// How many of a queue may be leased ahead.
fn room(core: &Core, queue: &Arc<QueueKey>, now: Millis) -> usize {
    if !core.settings.is_plain(queue) {
        return 0;
    }
    let waiters = core.arrivals.of(queue);
    let would_overtake = line::would_be_superseded(core, queue, now);
    waiters.room(now, would_overtake).max(core.options.ahead_room_min)
}

/// Looks every moment while there is something to look at. Leases made ahead.
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

/// Leases what has come near, gives back what found no executor, tells the store who has what.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let now = core.now();
    // What comes next does not wait for these.
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
    // Their instant has passed, and nothing has fired them. No executor had them, and that is said before their leases end: what
    // ends in an engine's name is counted.
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
    let near = elsewhere::pass_on(core, near, |queue| is_worked_on(core, queue, now));
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

/// As many of each queue as find an executor at their instant, by what is known now; the earliest. Where they are not equally
/// urgent, or versions of tasks are among them, and not all of them find an executor who waits, none: which of them go is
/// chosen among all that have fired.
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

/// What comes near of one queue.
struct Candidates {
    /// How many more may be leased ahead, and how many more find an executor who waits already.
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

    /// Whether the next of them, by time, is leased.
    fn take(&mut self) -> bool {
        let may_be = self.room > 0 && (self.are_alike || self.count <= self.idle);
        self.room = self.room.saturating_sub(1);
        may_be
    }
}

/// Of one part.
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
    let made = outside::fetch(core, made).await;
    if made.len() < asked.len() {
        // What cannot be read has been marked, and is another's to bring back.
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

/// No lease was made for these: what has fired meanwhile goes the usual way.
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
            from_store::count_fired(core, [&entry].into_iter());
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

/// For a caller that waits, or asks next.
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

/// An executor gets these now: the lease is its own from here on. But for those that lie behind a break of time: their
/// leases may have ended, and are given back.
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

/// Of what was handed over, these did not reach their executor: there is nothing to tell of them.
pub(crate) fn was_not_handed_over(core: &Core, leased: &[Assignment]) {
    drop(core.live.lock().ended(leased.iter().map(|lease| (lease.place.id, lease.fence)), core.now()));
}

/// Tells the store who has what, each part by itself.
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

/// What found no executor: its queue goes the usual way for a while.
fn clear_shelves(core: &Core, now: Millis) -> Vec<Assignment> {
    let mut found_no_waiter = Vec::new();
    core.firing.ahead.shelves.lock().retain(|waiters| {
        found_no_waiter.extend(waiters.take_old(now.plus(-PRELEASED_MS), now.plus(BACK_OFF_MS)));
        waiters.has_some_here()
    });
    found_no_waiter
}

/// Nothing that was leased ahead is handed over.
pub(crate) async fn give_up(core: &Arc<Core>) {
    let (made, fired) = core.live.lock().drop_all_leases();
    core.live.lock().hold_back(&fired);
    give_back(core, made, "handed_back").await;
}

/// Nothing that was leased ahead is kept.
pub(crate) async fn clear(core: &Arc<Core>) {
    give_up(core).await;
    give_back(core, clear_shelves(core, Millis::MAX), "handed_back").await;
    let unreported = core.live.lock().begin_reports(Millis::MAX);
    if !unreported.is_empty() {
        report_holders(core, unreported).await;
    }
}

/// Time was set back: nothing that was leased ahead of it is kept, and no executor has asked beyond the present.
pub(crate) async fn begin_anew(core: &Arc<Core>) {
    clear(core).await;
    core.firing.ahead.begin_anew();
    core.arrivals.each(QueueWaiters::begin_anew);
}

/// Waits until nothing of what was leased before is handed over any more.
pub(crate) async fn until_none_is_good(core: &Core) {
    if core.options.ahead_ms > 0 {
        tokio::time::sleep(GOOD_FOR).await;
    }
}
