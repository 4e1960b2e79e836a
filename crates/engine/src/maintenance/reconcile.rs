//! Compares the limiter with the store, which knows what is in flight. Every second it checks members whose lease
//! should have ended; every 30 s, and after each change of settings, all members and all leases. It rebuilds a
//! limiter that has lost its members. Time alone frees nothing: only what is not in flight according to the store. It
//! also keeps a slot while the engine that was granted it may still commit the lease, and while an engine has handed
//! the attempt over without its database (`handed_over`). One engine does it for all.

mod handed_over;
pub(crate) mod state;

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{admission_rules::AdmissionRules, admit, bounds::Bounded, freed, granted, line},
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error, Limiter,
    limiter::{Held, Member, Rebuilding},
    store::LeasePosition,
};
use punctual_domain::{limits::Scope, name::QueueKey, place::TaskRef, task::Task, time::Millis};
use state::{Leases, Owed, Reconciler, UnusedGrant};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// The time limit of the wait for a part of the store.
const PATIENCE: Duration = Duration::from_secs(5);
/// An engine has `admit::SLOTS_GOOD` for a lease after its grant; the rest is for clocks that differ.
const GRACE_MS: i64 = 10_000;
/// The grace for members that were in flight: no grant is pending.
const NO_GRACE_MS: i64 = -1;
/// The time after which a limiter that is incomplete is rebuilt. By then, a grant from before the loss is leased, and
/// so found in the store; otherwise its engine asks the limiter before any executor gets the task
/// (`pipeline::granted`).
const REBUILD_AFTER_MS: i64 = 750;
/// An engine's clock may be set by so much while the wait continues.
const CLOCK_SET_MS: u64 = 500;
const _: () = assert!(REBUILD_AFTER_MS.cast_unsigned() >= admit::SLOTS_UNASKED_MS + CLOCK_SET_MS);
/// Pages of leases read in one run; the next run continues there.
const LEASE_PAGES: usize = 20;
/// Lanes of one queue checked in one run; the next run continues there.
const LANES_MAX: usize = 500;

/// One limiter, and how far its checks have got.
#[derive(Clone, Copy, Debug)]
struct Looks<'c> {
    limiter: &'c Arc<dyn Limiter>,
    reconciler: &'c Reconciler,
    /// It is the one of queues that are scanned, beside the other.
    is_stored: bool,
}

impl Looks<'_> {
    /// True if the limiter has the limits of a queue.
    fn are_of(&self, core: &Core, queue: &QueueKey) -> bool {
        Arc::ptr_eq(core.limiter_of(queue), self.limiter)
    }
}

/// Returns the number of freed and restored slots, and of parked tasks that were brought back. Each limiter is
/// checked separately: if Redis is unavailable, the limiter in the store is unaffected.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let (maintenance, leads) = (&core.maintenance, core.leads());
    if !leads {
        // A known loss may be an old one by the time this engine leads again.
        maintenance.reconciler.is_found();
        maintenance.stored_reconciler.is_found();
    }
    if !core.settings.is_loaded() {
        return Ok(0);
    }
    let (mut count, mut result) = (0, Ok(()));
    for limiter in core.limiters() {
        let is_stored = !Arc::ptr_eq(limiter, &core.limits.limiter);
        if !is_stored && core.store_fallback.hides_limits() {
            continue;
        }
        let looks = Looks { limiter, reconciler: reconciler_of(core, limiter), is_stored };
        match pay(core, looks).await {
            Ok(some) => count += some,
            Err(error) => result = Err(error),
        }
        if !is_stored && let Err(error) = handed_over::keep(core, looks, now).await {
            result = Err(error);
        }
        if !leads {
            continue;
        }
        match look(core, looks, now).await {
            Ok(some) => count += some,
            Err(error) => result = Err(error),
        }
    }
    result.map(|()| count)
}

/// Ends when the limiter must be checked before the next run: it was found incomplete, or has been so for
/// long enough to be rebuilt, or this engine owes it a report.
pub(crate) async fn when_asked(core: Arc<Core>) {
    let reconciler = &core.maintenance.reconciler;
    let rebuilds = async {
        match reconciler.rebuilds_in(REBUILD_AFTER_MS, core.now()) {
            Some(wait) => sleep(wait).await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = rebuilds => {}
        () = reconciler.asked() => {}
    }
}

/// The shared limiter was found incomplete: the engine that rebuilds it checks immediately.
pub(crate) fn report_loss(core: &Core) {
    if core.leads() {
        core.maintenance.reconciler.ask();
    }
}

/// The limiter may answer again.
pub(crate) fn look_again(core: &Core) {
    core.maintenance.reconciler.ask();
}

fn reconciler_of<'c>(core: &'c Core, limiter: &Arc<dyn Limiter>) -> &'c Reconciler {
    let is_stored = !Arc::ptr_eq(limiter, &core.limits.limiter);
    if is_stored { &core.maintenance.stored_reconciler } else { &core.maintenance.reconciler }
}

/// These attempts have ended, and the limiter did not answer their release. It may still hold their places.
pub(crate) fn gives_up_later(core: &Core, limiter: &Arc<dyn Limiter>, ended: Vec<Member>) {
    reconciler_of(core, limiter).owe(ended, Vec::new());
}

/// These grants lead to no lease. The limiter did not answer their return, or did not say whether it made them.
pub(crate) fn takes_back_later(core: &Core, limiter: &Arc<dyn Limiter>, unused: Vec<UnusedGrant>) {
    reconciler_of(core, limiter).owe(Vec::new(), unused);
}

/// Sends the limiter what this engine owes it. Returns how many slots that freed. Crash: another engine's
/// reconciler finds them later.
async fn pay(core: &Arc<Core>, looks: Looks<'_>) -> Result<usize, Error> {
    let owed = looks.reconciler.take_owed();
    let paid = pay_all(core, looks.limiter, &owed).await;
    if paid.is_err() {
        looks.reconciler.owe_still(owed);
    }
    paid
}

async fn pay_all(core: &Arc<Core>, limiter: &Arc<dyn Limiter>, owed: &Owed) -> Result<usize, Error> {
    let mut count = 0;
    for some in owed.ended.chunks(STEP_LIMIT) {
        let freed: Vec<Held> = limiter.release(some).await?.into_iter().flatten().collect();
        freed::wake(core, &freed);
        count += freed.len();
    }
    for some in owed.unused.chunks(STEP_LIMIT) {
        count += granted::revoke(core, limiter, some).await?;
    }
    Ok(count)
}

async fn look(core: &Arc<Core>, looks: Looks<'_>, now: Millis) -> Result<usize, Error> {
    if !looks.limiter.is_whole().await? {
        // A limiter of this engine alone was lost with all that it had granted.
        let wait_ms = if core.holdings.is_sole() { 0 } else { REBUILD_AFTER_MS };
        let loss = if looks.reconciler.is_lost(wait_ms, now) { Loss::Old } else { Loss::New };
        return rebuild(core, looks, loss, now).await;
    }
    looks.reconciler.is_found();
    let overdue = looks.limiter.members(now, 0, STEP_LIMIT).await?;
    let mut all = free_the_gone(core, looks, &overdue, GRACE_MS, now).await?;
    if looks.reconciler.begin_full(core.settings.known().revision, now) {
        match look_at_members(core, looks, now).await {
            Ok(more) => all.add(more),
            Err(error) => {
                looks.reconciler.again();
                return Err(error);
            }
        }
    }
    all.add(look_at_leases(core, looks, now).await?);
    if !looks.is_stored && looks.reconciler.begin_lanes(now) {
        all.count += look_at_lanes(core).await?;
    }
    all.failed.map_or(Ok(all.count), Err)
}

/// The number of slots that were freed or restored. If a database failed, `failed` has its error; its slots are
/// unchanged.
#[derive(Debug, Default)]
struct ReconcileResult {
    count: usize,
    failed: Option<Error>,
}

impl ReconcileResult {
    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.failed = more.failed.or_else(|| self.failed.take());
    }
}

/// The reason of a loss of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Grants from before the loss may be leased only now.
    New,
    /// Longer ago than an engine has for a lease after its grant.
    Old,
}

/// True if no task waits that could be leased by an older grant: a grant is for a waiting task, and a lease uses one.
/// This needs one account of one instant: a task that is moving between two databases would be in neither.
async fn nothing_waits(core: &Core) -> Result<bool, Error> {
    if core.store.parts() > 1 {
        return Ok(false);
    }
    let books = core.store.books().await?;
    Ok(books.tallies.iter().all(|tally| !tally.state.is_pending() || tally.tasks == 0))
}

/// Restores what is in flight, then checks all members: some from before the loss may have ended. After a new
/// loss only if no task waits, as in a new cluster. The order of steps makes that safe:
///
/// 1. `begin_anew`: until `make_whole`, no grant is made, or that fails; so all existing grants were made
///    before.
/// 2. No task waits: no lease can follow any of those grants. Later tasks are granted by a whole limiter.
/// 3. Attempts in flight are restored: those leased before 2 are among them, or have ended.
/// 4. `make_whole`.
/// 5. An attempt that ended since it was read released a slot that it did not hold yet. It must hold none.
///    Crash: the next full check frees it.
async fn rebuild(core: &Arc<Core>, looks: Looks<'_>, loss: Loss, now: Millis) -> Result<usize, Error> {
    // Before anything is written. Otherwise executors would repeatedly ask a limiter that is about to be
    // whole.
    if loss == Loss::New && !nothing_waits(core).await? {
        return Ok(0);
    }
    let who = Rebuilding(fastrand::u64(..));
    looks.limiter.begin_anew(who).await?;
    if loss == Loss::New && !nothing_waits(core).await? {
        return Ok(0);
    }
    let (mut restored, mut after, mut bounded) = (Vec::new(), None, Bounded::default());
    loop {
        let (tasks, next) = core.store.in_flight(after, STEP_LIMIT).await?;
        bounded.read_for(core, &tasks).await?;
        let held_by = |task: &Task| held_by(core, looks, task, bounded.scope(task), now);
        let held: Vec<Held> = tasks.iter().filter_map(held_by).collect();
        looks.limiter.restore(held.clone()).await?;
        restored.extend(held);
        after = next;
        if after.is_none() {
            break;
        }
    }
    // No row says of these that they are in flight.
    let unwritten = handed_over::places(core, looks, now).await;
    looks.limiter.restore(unwritten.clone()).await?;
    restored.extend(unwritten);
    if !looks.limiter.make_whole(who).await? {
        return Ok(0);
    }
    looks.reconciler.is_found();
    looks.reconciler.again();
    if !restored.is_empty() {
        tracing::info!(members = restored.len(), "the limiter has its members again");
    }
    core.arrivals.wake_all();
    for some in restored.chunks(STEP_LIMIT) {
        if let Some(error) = free_the_gone(core, looks, some, NO_GRACE_MS, now).await?.failed {
            return Err(error);
        }
    }
    Ok(restored.len())
}

/// The slots that a task in flight should hold, or `None` if it has no limits. `executor`: the scope of an executor
/// with a bound.
fn held_by(core: &Core, looks: Looks<'_>, task: &Task, executor: Option<Scope>, now: Millis) -> Option<Held> {
    let until = task.lease.as_ref()?.until;
    let key = task.ask.demands.concurrency_key.as_deref();
    let scopes = scopes_of(core, looks, &Arc::new(task.ask.queue.clone()), (task.attempt, key), executor)?;
    let place = TaskRef { due_at: task.due_at, ..task.place };
    Some(Held {
        member: Member { id: task.place.id, fence: task.fence },
        place,
        granted_at: now,
        until,
        scopes,
    })
}

/// The scopes for which a running attempt counts.
fn scopes_of(
    core: &Core,
    looks: Looks<'_>,
    queue: &Arc<QueueKey>,
    (attempt, key): (u32, Option<&str>),
    executor: Option<Scope>,
) -> Option<Vec<Scope>> {
    let terms = AdmissionRules::of(core, queue);
    if !looks.are_of(core, queue) || (!terms.is_limited && executor.is_none()) {
        return None;
    }
    // The attempt that is under way is counted already.
    let (limits, _) = terms.of_task(attempt.saturating_sub(1), key);
    let of_queue = (!terms.is_limited).then(|| Scope::Queue((**queue).clone()));
    Some(limits.into_iter().map(|limit| limit.scope).chain(of_queue).chain(executor).collect())
}

/// Members that the store knows not to be in flight release their slots. The others are checked again when
/// their lease should have ended.
async fn free_the_gone(
    core: &Arc<Core>,
    looks: Looks<'_>,
    members: &[Held],
    grace_ms: i64,
    now: Millis,
) -> Result<ReconcileResult, Error> {
    if members.is_empty() {
        return Ok(ReconcileResult::default());
    }
    let mut looked = ReconcileResult::default();
    // A part of the store that is unavailable keeps its members; the others' are freed all the same.
    for (_, some) in parts::split(core, members.to_vec(), |held| held.place.partition) {
        let places: Vec<TaskRef> = some.iter().map(|held| held.place).collect();
        let silent = || Error::may_have_happened("read tasks", "no answer");
        let read = timeout(PATIENCE, core.store.read(&places)).await;
        match read.unwrap_or_else(|_| Err(silent())) {
            Ok(tasks) => looked.count += free_those(core, looks, &some, tasks, grace_ms, now).await?,
            Err(error) => looked.failed = Some(error),
        }
    }
    Ok(looked)
}

async fn free_those(
    core: &Arc<Core>,
    looks: Looks<'_>,
    members: &[Held],
    tasks: Vec<Option<Task>>,
    grace_ms: i64,
    now: Millis,
) -> Result<usize, Error> {
    let (mut gone, mut later) = (Vec::new(), Vec::new());
    for (held, task) in members.iter().zip(tasks) {
        // A lease of this attempt would have the fence that the task has by now: it has ended, or there never will be one.
        let is_over = task.as_ref().is_some_and(|task| task.fence >= held.member.fence);
        let lease = task.filter(|task| task.fence == held.member.fence && task.state.is_in_flight());
        let until = lease.and_then(|lease| lease.lease).map(|lease| lease.until);
        // Its engine may be about to commit the lease.
        let is_fresh = !is_over && now.since(held.granted_at) <= grace_ms;
        let until = until.or_else(|| is_fresh.then(|| held.granted_at.plus(grace_ms)));
        // Its executor has it, and the store does not know that yet.
        let Member { id, fence } = held.member;
        let is_journalled = || core.maintenance.for_later.holds(id, fence);
        let until = until.or_else(|| is_journalled().then(|| now.plus(GRACE_MS)));
        match until {
            Some(until) if until != held.until => later.push((held.member, until)),
            Some(_) => {}
            // Unless it is granted again meanwhile.
            None => gone.push((held.member, held.granted_at)),
        }
    }
    looks.limiter.prolong(&later).await?;
    if gone.is_empty() {
        return Ok(0);
    }
    let freed: Vec<Held> = looks.limiter.retract(&gone).await?.into_iter().flatten().collect();
    freed::wake(core, &freed);
    Ok(freed.len())
}

/// Frees members without a lease; then checks leases without slots.
async fn look_at_members(core: &Arc<Core>, looks: Looks<'_>, now: Millis) -> Result<ReconcileResult, Error> {
    let (mut all, mut skip) = (ReconcileResult::default(), 0);
    loop {
        let page = looks.limiter.members(Millis::MAX, skip, STEP_LIMIT).await?;
        let (count, looked) = (page.len(), free_the_gone(core, looks, &page, GRACE_MS, now).await?);
        skip += count - looked.count;
        all.add(looked);
        if count < STEP_LIMIT {
            return Ok(all);
        }
    }
}

/// Gives slots to leases that have none, some pages in one run.
async fn look_at_leases(core: &Arc<Core>, looks: Looks<'_>, now: Millis) -> Result<ReconcileResult, Error> {
    let mut all = ReconcileResult::default();
    for _ in 0..LEASE_PAGES {
        let Leases::From(after) = looks.reconciler.leases() else { break };
        let silent = || Error::may_have_happened("read what is in flight", "no answer");
        let page = timeout(PATIENCE, core.store.in_flight(after, STEP_LIMIT)).await;
        match page.unwrap_or_else(|_| Err(silent())) {
            Ok((tasks, next)) => {
                all.count += give_places(core, looks, &tasks, now).await?;
                looks.reconciler.go_on(next);
            }
            // The leases of a part that is unavailable keep the places that they have: on with the next part.
            Err(error) => {
                let next = after.map_or(0, |position| position.part) + 1;
                let next = (next < core.store.parts()).then(|| LeasePosition::beginning_of(next));
                looks.reconciler.go_on(next);
                all.failed = Some(error);
            }
        }
    }
    Ok(all)
}

async fn give_places(
    core: &Arc<Core>,
    looks: Looks<'_>,
    leased: &[Task],
    now: Millis,
) -> Result<usize, Error> {
    let wanted: Vec<Held> = leased.iter().filter_map(|task| held_by(core, looks, task, None, now)).collect();
    if wanted.is_empty() {
        return Ok(0);
    }
    let members: Vec<Member> = wanted.iter().map(|held| held.member).collect();
    let found = looks.limiter.find(&members).await?;
    let known: HashMap<Member, Held> = found.into_iter().map(|held| (held.member, held)).collect();
    // An executor's own slot does not depend on settings: it stays as granted.
    let is_set = |scope: &&Scope| !matches!(scope, Scope::Executor(..));
    let is_right = |held: &Held| {
        let scopes =
            |this_held: &Held| this_held.scopes.iter().filter(is_set).cloned().collect::<HashSet<_>>();
        known.get(&held.member).is_some_and(|known| scopes(known) == scopes(held))
    };
    let mut missing: Vec<Held> = wanted.into_iter().filter(|held| !is_right(held)).collect();
    for held in &mut missing {
        let its = known.get(&held.member).into_iter().flat_map(|known| &known.scopes);
        held.scopes.extend(its.filter(|scope| !is_set(scope)).cloned());
    }
    looks.limiter.restore(missing.clone()).await?;
    // An attempt that ended meanwhile released a slot that it did not hold yet: it must hold none.
    let ended = free_the_gone(core, looks, &missing, NO_GRACE_MS, now).await?;
    Ok(missing.len() - ended.count)
}

/// Brings back parked tasks that could start. A lost answer thus delays them at most until this check.
async fn look_at_lanes(core: &Arc<Core>) -> Result<usize, Error> {
    let (mut back, mut result) = (0, Ok(()));
    let queues = core.live.lock().parked_queues();
    for queue in queues {
        match look_at_lanes_of(core, &queue).await {
            Ok(brought) => back += brought,
            // The other queues have their turn nevertheless.
            Err(error) => result = Err(error),
        }
    }
    result.map(|()| back)
}

async fn look_at_lanes_of(core: &Arc<Core>, queue: &Arc<QueueKey>) -> Result<usize, Error> {
    let terms = AdmissionRules::of(core, queue);
    let after = core.maintenance.reconciler.last.lock().positions.remove(&**queue);
    let lanes = line::lanes(core, queue, after.as_ref(), LANES_MAX);
    let (mut brought, mut result) = (0, Ok(()));
    for (lane, parked) in &lanes {
        match admit::bring_back(core, &terms, lane, *parked).await {
            Ok(count) => brought += count,
            Err(error) => result = Err(error),
        }
    }
    if let Some((last, _)) = lanes.last().filter(|_| lanes.len() == LANES_MAX) {
        core.maintenance.reconciler.last.lock().positions.insert((**queue).clone(), last.clone());
    }
    if brought > 0 {
        core.arrived(queue, brought);
    }
    result.map(|()| brought)
}
