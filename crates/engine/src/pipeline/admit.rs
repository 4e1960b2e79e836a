//! Admission: which fired tasks start now; free for queues without limits. Its steps, and what a
//! crash between them leaves:
//!
//! 1. `room`: how many could start. Nothing is changed.
//! 2. The chooser pops them from the line. Crash: the partition's next owner finds them in the store.
//! 3. The limiter grants each a slot in all of its scopes. Crash: members without a lease; the reconciler
//!    frees them, or the next grant of the same attempt takes them over, because both have the same name.
//!    Answer lost: this engine's reconciler frees them as soon as the limiter answers.
//! 4. Tasks that were not granted return to the line, or are parked if their key or version holds them back.
//!    Crash: as 2.
//! 5. Granted tasks are leased (`hand_over`). Crash: as 3, or the lease expires and releases the slot.
//! 6. The attempt ends in the store. Only then its slot is released, tasks that were parked for it return,
//!    and waiters are woken. Crash: the reconciler frees the slot. A failure: this engine's reconciler
//!    repeats it.
//!
//! Never lets an attempt start without its slots: while the limiter is unavailable or incomplete, limited queues
//! wait.

pub(crate) use super::{
    freed::free,
    granted::{hold_their_places, never_began},
};

use crate::{
    core::Core,
    maintenance::{expire, reconcile},
    pipeline::{
        admission_rules::AdmissionRules,
        freed::state::QueueAttempt,
        granted::answer_was_lost,
        kinds,
        line::{self, unpark},
        request::{LeaseRequest, Restrictions, may_run},
    },
};
use punctual_contract::{
    Error, Happened,
    hot::{HotEntry, ParkReason},
    limiter::{Holders, Verdict},
};
use punctual_domain::{limits::Scope, name::QueueKey, time::Millis, versions};
use state::VERSION_GONE_MS;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

pub(crate) mod state;

/// A range of versions that tasks were parked for without this call's knowledge is noticed within this.
const LANES_KNOWN_MS: i64 = 1_000;
/// The maximum number of version ranges of a queue's parked tasks that are checked at once; more are checked when
/// these are processed.
const LANES_MAX: usize = 100;

/// Lanes of a queue in this engine's table may open because other engines release slots. How many are checked
/// when an executor asks, and how often.
const LANES_LOOKED_AT: usize = 20;
const LANES_LOOK_MS: i64 = 100;

/// The maximum duration of a lease. A slower one is returned: the reconciler frees slots without a lease, but much
/// later (`maintenance::reconcile`).
const SLOTS_GOOD: Duration = Duration::from_secs(3);
/// The maximum duration of a lease that surely has its slots. A slower one may have lost them: the reconciler
/// rebuilds a limiter that lost its members no sooner. So the limiter is asked, once the store has the lease
/// (`granted::hold_their_places`).
pub(crate) const SLOTS_UNASKED_MS: u64 = 250;
const SLOTS_UNASKED: Duration = Duration::from_millis(SLOTS_UNASKED_MS);

fn count(core: &Core, queue: &QueueKey, answers: &[Verdict]) {
    let of = |wanted: fn(&Verdict) -> bool| answers.iter().filter(|answer| wanted(answer)).count();
    let (blocked, throttled) = (of(is_blocked), of(|answer| matches!(answer, Verdict::Throttled { .. })));
    if blocked + throttled > 0 {
        let meters = core.meters.queue(queue);
        meters.blocked(blocked);
        meters.throttled(throttled);
    }
}

/// Blocked by a setting: an executor that is full does not block tasks for others.
const fn is_blocked(answer: &Verdict) -> bool {
    matches!(answer, Verdict::Blocked(scope) if !matches!(scope, Scope::Executor(..)))
}

/// Slots of tasks that are offered again while their leases are in doubt: the reconciler frees them after
/// this.
const IN_DOUBT_MS: i64 = 10_000;

/// The instant before a grant, on both clocks: an engine may pause, and its clock may be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    /// The instant that the limiter was given.
    granted_at: Millis,
    at: Millis,
    instant: Instant,
}

impl Since {
    fn now(core: &Core) -> Self {
        let at = core.now();
        Self { granted_at: at, at, instant: Instant::now() }
    }

    /// Another engine had the grant made, by its own clock, after it was requested at `at`.
    pub(crate) const fn elsewhere(granted_at: Millis, at: Millis, instant: Instant) -> Self {
        Self { granted_at, at, instant }
    }

    /// The instant that the limiter was given, by the clock of the engine that asked it.
    pub(crate) const fn granted_at(self) -> Millis {
        self.granted_at
    }

    /// The slots may have been freed, because no lease followed for too long.
    pub(crate) fn is_long_ago(&self, now: Millis) -> bool {
        self.is_before(SLOTS_GOOD, now)
    }

    /// The places may have been lost with all others of the limiter, and that may be rebuilt already.
    pub(crate) fn may_be_lost(&self, now: Millis) -> bool {
        self.is_before(SLOTS_UNASKED, now)
    }

    fn is_before(&self, span: Duration, now: Millis) -> bool {
        self.instant.elapsed() > span || u128::from(now.since(self.at).unsigned_abs()) > span.as_millis()
    }
}

/// The data that all grants of one admission share.
#[derive(Clone, Copy)]
struct Grants {
    /// The instant at which the limiter should check the members.
    until: Millis,
    since: Since,
}

/// The tasks that may start now.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    pub(crate) entries: Vec<HotEntry>,
    /// More tasks may be able to start.
    pub(crate) more: bool,
    /// The time since when the tasks have their slots. `None` if they need none.
    pub(crate) since: Option<Since>,
}

/// Admits at most `wanted` tasks, each with its slots. `only` has the restrictions of the executor.
pub(crate) async fn admit(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    wanted: usize,
) -> Result<Admitted, Error> {
    let terms = AdmissionRules::of(core, &request.queue).within(only.bound.as_ref());
    note_version(core, request);
    bring_back_versions(core, request);
    kinds::bring_back(core, request, only);
    bring_back_all(core, &terms, lanes_to_look_at(core, &terms), wanted).await;
    if terms.is_limited {
        return limited(core, request, only, &terms, wanted).await;
    }
    let popped = line::admit(core, &request.queue, terms.admission(wanted));
    let more = popped.len() == wanted;
    let entries = keep_the_callers(core, request, only, &terms, popped, wanted).await?;
    Ok(Admitted { entries, more, since: None })
}

/// Keeps the popped tasks that may still start and that the caller accepts, at most `wanted`.
async fn keep_the_callers(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    terms: &AdmissionRules,
    popped: Vec<HotEntry>,
    wanted: usize,
) -> Result<Vec<HotEntry>, Error> {
    let entries = expire::keep_those_in_time(core, popped).await;
    let entries = keep_those_it_may_run(core, request, terms, entries);
    kinds::keep(core, terms, only, entries, wanted).await
}

async fn limited(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    terms: &AdmissionRules,
    wanted: usize,
) -> Result<Admitted, Error> {
    if core.hides_limits_of(&request.queue) {
        return Ok(Admitted::default());
    }
    let now = core.now();
    let due: Vec<ParkReason> = core.limits.admissions.with(&terms.queue, |lately| {
        let later = lately.throttled.split_off(&(now.plus(1), ParkReason::Key(String::new())));
        std::mem::replace(&mut lately.throttled, later).into_keys().map(|key| key.1).collect()
    });
    bring_back_all(core, terms, due, wanted).await;
    let look = core.limits.admissions.deferred.look(&terms.queue);
    let room = core.limiter_of(&terms.queue).room(&terms.limits, &terms.rates, now).await?;
    let limit = wanted.min(room.free.max(in_doubt(core, terms, now)));
    if limit < wanted {
        room.bound.iter().for_each(|answer| look.answered(answer));
    }
    if room.bound == Some(Verdict::NotWhole) && !terms.settings.is_scanned() {
        reconcile::report_loss(core);
    }
    if limit == 0 {
        if let Some(Verdict::Throttled { wait_ms: Some(wait_ms), .. }) = room.bound {
            core.limits.admissions.with(&terms.queue, |lately| lately.starts_at = Some(now.plus(wait_ms)));
        }
        count(core, &terms.queue, room.bound.as_slice());
        core.limits.shares.deferred(terms, room.bound.as_ref());
        return Ok(Admitted::default());
    }
    let popped = line::admit(core, &request.queue, terms.admission(limit));
    let full = popped.len() == limit;
    if full && limit < wanted {
        core.limits.shares.deferred(terms, room.bound.as_ref());
    }
    if !full {
        look.found_the_end();
    }
    let entries = keep_the_callers(core, request, only, terms, popped, limit).await?;
    let grants = Grants { until: now.plus(request.lease_ms), since: Since::now(core) };
    let granted = grant(core, terms, &look, entries, grants).await?;
    // If some were set aside, there is still room for those behind them.
    let may_go_on = limit == wanted || granted.entries.len() < limit;
    Ok(Admitted { more: full && granted.more && may_go_on, ..granted })
}

/// The store did not say whether it made the leases of these attempts. They have places and are offered again: a full limit does not
/// keep them back, because the limiter grants an attempt the place that it has.
pub(crate) fn offered_in_doubt(core: &Core, queue: &Arc<QueueKey>, count: usize) {
    let now = core.now();
    core.limits.admissions.with(queue, |lately| {
        let (known, until) = lately.in_doubt;
        let count = if now < until { known.max(count) } else { count };
        lately.in_doubt = (count, now.plus(IN_DOUBT_MS));
    });
}

fn in_doubt(core: &Core, terms: &AdmissionRules, now: Millis) -> usize {
    core.limits.admissions.with(&terms.queue, |lately| {
        let (count, until) = lately.in_doubt;
        if now < until && until <= now.plus(IN_DOUBT_MS) { count } else { 0 }
    })
}

/// Brings back from each lane what could start now. If one lane fails, the others continue; a later check
/// repeats it.
async fn bring_back_all(core: &Core, terms: &AdmissionRules, lanes: Vec<ParkReason>, wanted: usize) {
    for lane in lanes {
        if let Err(error) = bring_back(core, terms, &lane, wanted).await {
            tracing::warn!(%error, "parked tasks could not be brought back; the next look does it");
        }
    }
}

/// Lanes of keys and retries in this engine's table that may have opened unnoticed; a few at a time. Engines
/// announce slots that they release, but a message may be lost.
fn lanes_to_look_at(core: &Core, terms: &AdmissionRules) -> Vec<ParkReason> {
    if core.live.lock().line_counts(&terms.queue).parked == 0 {
        return Vec::new();
    }
    let now = core.now();
    core.limits.admissions.with(&terms.queue, |lately| {
        if lately.lanes_looked_at.is_some_and(|at| (0..LANES_LOOK_MS).contains(&now.since(at))) {
            return Vec::new();
        }
        lately.lanes_looked_at = Some(now);
        let after = lately.lanes_from.take();
        let lanes = core.live.lock().lanes(&terms.queue, after.as_ref(), LANES_LOOKED_AT);
        let is_limit = |lane: &ParkReason| matches!(lane, ParkReason::Key(_) | ParkReason::Retries);
        let lanes: Vec<ParkReason> = lanes.into_iter().map(|(lane, _)| lane).filter(is_limit).collect();
        lately.lanes_from = lanes.last().filter(|_| lanes.len() == LANES_LOOKED_AT).cloned();
        lanes
    })
}

/// Returns the granted tasks. The others return to the line, or are parked.
async fn grant(
    core: &Arc<Core>,
    terms: &AdmissionRules,
    look: &QueueAttempt<'_>,
    entries: Vec<HotEntry>,
    grants: Grants,
) -> Result<Admitted, Error> {
    if entries.is_empty() {
        return Ok(Admitted { more: true, ..Admitted::default() });
    }
    let Grants { until, since } = grants;
    let now = since.granted_at();
    let requests = entries.iter().map(|entry| terms.request(entry, until)).collect();
    let answers = match core.limiter_of(&terms.queue).grant(requests, now).await {
        Ok(answers) => answers,
        Err(error) => {
            if error.happened == Happened::Maybe {
                answer_was_lost(core, &terms.queue, &entries, since);
            }
            line::serve(core, &entries);
            return Err(error);
        }
    };
    count(core, &terms.queue, &answers);
    for answer in &answers {
        look.answered(answer);
        core.limits.shares.deferred(terms, Some(answer));
    }
    let (mut granted, mut back, mut lanes) =
        (Vec::new(), Vec::new(), BTreeMap::<ParkReason, Vec<HotEntry>>::new());
    for (entry, answer) in entries.into_iter().zip(answers) {
        let lane = match answer {
            Verdict::Granted => {
                granted.push(entry);
                continue;
            }
            Verdict::Blocked(Scope::Key(_, key)) => Some(ParkReason::Key(key)),
            Verdict::Blocked(Scope::Retries(_)) => Some(ParkReason::Retries),
            Verdict::Throttled { scope: Scope::Key(_, key), wait_ms } => {
                let lane = ParkReason::Key(key);
                let until = wait_ms.map(|wait_ms| (now.plus(wait_ms), lane.clone()));
                core.limits
                    .admissions
                    .with(&terms.queue, |lately| lately.throttled.extend(until.map(|pair| (pair, ()))));
                Some(lane)
            }
            Verdict::Blocked(_) | Verdict::Throttled { .. } | Verdict::NotWhole => None,
        };
        match lane {
            Some(lane) => lanes.entry(lane).or_default().push(entry),
            None => back.push(entry),
        }
    }
    core.limits.shares.started(terms, granted.len());
    let more = back.is_empty();
    line::serve(core, &back);
    for (lane, entries) in lanes {
        line::park(core, &lane, &entries, terms.settings.retries);
        // The lane may have opened since the answer, while no task was parked in it.
        if let Err(error) = bring_back(core, terms, &lane, 1).await {
            tracing::warn!(%error, "parked tasks could not be brought back; the next look does it");
        }
    }
    Ok(Admitted { entries: granted, more, since: Some(since) })
}

/// Brings back from a lane what could start now, at most `limit`. Returns the number of tasks.
pub(crate) async fn bring_back(
    core: &Core,
    terms: &AdmissionRules,
    lane: &ParkReason,
    limit: usize,
) -> Result<usize, Error> {
    let (limits, rates) = match lane {
        ParkReason::Key(key) => terms.of_task(0, Some(key)),
        ParkReason::Retries => terms.of_task(1, None),
        ParkReason::Version(_) => return Ok(0),
        ParkReason::Kind(_) => return Ok(unpark(core, &terms.queue, lane, limit.min(kinds::BROUGHT_BACK))),
    };
    // Only the limits of the lane: those of the whole queue are checked when the tasks are popped.
    let (own_limits, own_rates) = (terms.limits.len(), terms.rates.len());
    let (limits, rates) = (limits.get(own_limits..), rates.get(own_rates..));
    let limiter = core.limiter_of(&terms.queue);
    let room = limiter.room(limits.unwrap_or_default(), rates.unwrap_or_default(), core.now()).await?;
    match limit.min(room.free) {
        0 => Ok(0),
        some => Ok(unpark(core, &terms.queue, lane, some)),
    }
}

/// Keeps the tasks that this executor's version may run; the others wait for one that may.
fn keep_those_it_may_run(
    core: &Core,
    request: &LeaseRequest,
    terms: &AdmissionRules,
    entries: Vec<HotEntry>,
) -> Vec<HotEntry> {
    let (good, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| may_run(entry, request));
    let mut lanes = BTreeMap::<String, Vec<HotEntry>>::new();
    for entry in others {
        let range = entry.demands().handler_versions.clone().unwrap_or_default();
        lanes.entry(range).or_default().push(entry);
    }
    for (range, entries) in lanes {
        let lane = ParkReason::Version(range.clone());
        line::park(core, &lane, &entries, terms.settings.retries);
        core.limits.admissions.with(&terms.queue, |lately| {
            if !lately.ranges.contains(&range) {
                lately.ranges.push(range);
            }
        });
        // An executor with such a version may wait here.
        core.wake_queue(&terms.queue);
    }
    good
}

/// An executor's versions are known from its requests.
fn note_version(core: &Core, request: &LeaseRequest) {
    let Some(version) = &request.version else { return };
    let now = core.now();
    core.limits.admissions.with(&request.queue, |lately| {
        lately.versions.insert(version.clone(), now);
        lately.versions.retain(|_, at| now.since(*at) <= VERSION_GONE_MS);
    });
}

/// Tasks that were parked for a version that the caller can run return to the order.
fn bring_back_versions(core: &Core, request: &LeaseRequest) {
    let Some(version) = &request.version else { return };
    let now = core.now();
    let is_known = core.limits.admissions.with(&request.queue, |lately| {
        let is_known = lately.looked_at.is_some_and(|at| (0..LANES_KNOWN_MS).contains(&now.since(at)));
        lately.looked_at = Some(now);
        is_known
    });
    if !is_known {
        let lanes = line::lanes(core, &request.queue, Some(&ParkReason::Retries), LANES_MAX);
        let ranges = lanes.into_iter().filter_map(|lane| match lane.0 {
            ParkReason::Version(range) => Some(range),
            ParkReason::Key(_) | ParkReason::Retries | ParkReason::Kind(_) => None,
        });
        core.limits.admissions.with(&request.queue, |lately| lately.ranges = ranges.collect());
    }
    let ranges = core.limits.admissions.with(&request.queue, |lately| lately.ranges.clone());
    for range in ranges.into_iter().filter(|range| versions::may_run(Some(range), Some(version))) {
        let lane = ParkReason::Version(range.clone());
        if unpark(core, &request.queue, &lane, request.max) < request.max {
            core.limits
                .admissions
                .with(&request.queue, |lately| lately.ranges.retain(|known| *known != range));
        }
    }
}

/// The holders of a queue's slots, if it counts for a limit.
pub(crate) async fn holders(
    core: &Core,
    queue: &QueueKey,
    limit: usize,
) -> Result<Option<(Option<u32>, Holders)>, Error> {
    let terms = AdmissionRules::of(core, &Arc::new(queue.clone()));
    if !terms.is_limited {
        return Ok(None);
    }
    let holders = core.limiter_of(queue).holders(&Scope::Queue(queue.clone()), limit).await?;
    Ok(Some((terms.most(), holders)))
}
