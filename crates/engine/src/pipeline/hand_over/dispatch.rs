//! Makes leases durable: the databases are queried concurrently, each with a time limit. Tasks that a database does
//! not lease are offered again, or deferred until it answers. Must not choose tasks: they were admitted before.

use super::{
    caller::LeaseCaller,
    grants::{forget, grant_of, split_paused, was_handed_over},
    late,
    release::give_back,
};
use crate::{
    core::Core,
    for_later::hand_over as without_store,
    long_payloads,
    maintenance::mark_ready,
    parts,
    pipeline::{
        admit::{self, Since},
        line,
        request::LeaseRequest,
    },
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use punctual_contract::{
    Error, Happened,
    hot::HotEntry,
    store::{Assignment, Dispatched, Facts},
};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

/// The additional time for which the other parts of the store are waited for when one of them has leased something.
const OTHERS_AFTER: Duration = Duration::from_millis(50);

/// The time after it fired for which the row of a task of another engine's partition is as it was when it was
/// offered. Later, its owner may have marked it as ready. Less than the owner waits, because clocks differ.
const UNMARKED_FOR_MS: i64 = mark_ready::WORTH_MS / 2;

/// The reason for returning a lease whose slot the limiter has lost.
const SLOT_LOST: &str = "slot_lost";

/// Makes leases durable. Tasks of a queue that is scanned are leased each in a transaction of its own: one that fails keeps no
/// other from its executor.
pub(super) async fn dispatch(
    core: &Arc<Core>,
    request: &LeaseRequest,
    entries: Vec<HotEntry>,
    slots_since: Option<Since>,
    caller: &LeaseCaller,
) -> Result<Vec<Assignment>, Error> {
    if !core.settings.is_scanned(&request.queue) {
        return dispatch_together(core, request, entries, slots_since, caller).await;
    }
    let mut leased = Vec::with_capacity(entries.len());
    for entry in entries {
        match dispatch_together(core, request, vec![entry], slots_since, caller).await {
            Ok(one) => leased.extend(one),
            Err(error) => {
                tracing::warn!(%error, "a task of a queue that is scanned could not be leased; it is served again a moment later");
            }
        }
    }
    Ok(leased)
}

/// Leases at each database separately. Leases of one are handed over although others fail or are silent. Later leases
/// are sent to the caller while it waits for more. If the caller has disconnected, they are returned.
async fn dispatch_together(
    core: &Arc<Core>,
    request: &LeaseRequest,
    entries: Vec<HotEntry>,
    slots_since: Option<Since>,
    caller: &LeaseCaller,
) -> Result<Vec<Assignment>, Error> {
    if core.store.parts() == 1 {
        let leased = match dispatch_in(core, 0, request, entries, slots_since).await {
            // As with several databases: tasks behind those that were set aside have their turn.
            Err(_) if without_store::is_allowed(core, &request.queue) => Vec::new(),
            leased => leased?,
        };
        return Ok(long_payloads::fetch(core, leased).await);
    }
    let (mut asked, mut patience) = (FuturesUnordered::new(), Duration::ZERO);
    for (part, some) in parts::split(core, entries, |entry| entry.place.partition) {
        let (answer, granted) = oneshot::channel();
        let (its, request, late_leases) = (Arc::clone(core), request.clone(), caller.late_leases.clone());
        let (began, its_patience) = (Instant::now(), core.parts.patience(part));
        let short = if caller.is_late { its_patience } else { core.parts.short_patience(part) };
        patience = patience.max(short);
        core.work.detach(async move {
            let discontinuities = its.discontinuities();
            let work = dispatch_in(&its, part, &request, some, slots_since);
            let leased = parts::leasing(&its, part, its_patience, work).await;
            if leased.is_ok() {
                its.parts.has_leased(part, began.elapsed() <= its_patience);
            }
            if let Err(Ok(leased)) = answer.send(leased) {
                late::leased(&its, late_leases, leased, discontinuities).await;
            }
        });
        asked.push(granted);
    }
    let (mut leased, mut end) = (Vec::new(), Instant::now() + patience);
    // A failing database has deferred its tasks: the caller gets the leases of the others, or waits on.
    while let Ok(Some(answer)) = timeout_at(end, asked.next()).await {
        leased.extend(answer.ok().and_then(Result::ok).into_iter().flatten());
        if !leased.is_empty() {
            end = end.min(Instant::now() + OTHERS_AFTER);
        }
    }
    // Answers of the last instant; later ones are sent after the caller's answer.
    for mut answer in asked {
        answer.close();
        leased.extend(answer.try_recv().ok().and_then(Result::ok).into_iter().flatten());
    }
    // Not under the parts' patience: an object store that is slow is no fault of theirs.
    Ok(long_payloads::fetch(core, leased).await)
}

/// Leases at one database. On an error the entries are offered again, or deferred if others can proceed
/// without them. If the lease was made nevertheless, the store refuses the next one, and this one is returned
/// (`unknown`).
async fn dispatch_in(
    core: &Arc<Core>,
    part: usize,
    request: &LeaseRequest,
    entries: Vec<HotEntry>,
    slots_since: Option<Since>,
) -> Result<Vec<Assignment>, Error> {
    let entries = without_store::keep_free(core, entries);
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let now = core.now();
    let _nobody_else_offers_them = core.live.grants(&entries);
    // The rows of a scanned queue are always read.
    let is_scanned = core.settings.is_scanned(&request.queue);
    let known =
        |entry: &HotEntry| Facts::of(entry).filter(|_| !is_scanned && !may_be_marked(core, entry, now));
    let grants = entries.iter().map(|entry| grant_of(entry, known(entry), request, now)).collect();
    let leased = match without_store::ask(core, part, &request.queue, grants, now).await {
        Ok(dispatched) => {
            let not_made = entries
                .iter()
                .zip(&dispatched)
                .filter(|(_, dispatched)| !matches!(dispatched, Dispatched::Made(_)));
            admit::never_began(core, &request.queue, not_made.map(|(entry, _)| entry), slots_since).await;
            let (entries, paused) = split_paused(entries, &dispatched);
            forget(core, &entries);
            let meters = core.meters.queue(&request.queue);
            let assignments: Vec<Assignment> = dispatched.into_iter().filter_map(Dispatched::made).collect();
            meters.dispatched(assignments.len());
            was_handed_over(core, request, &assignments, now);
            wait_for_resume(core, request, &paused);
            assignments
        }
        Err(error) => {
            let entries = core.live.lock().still_here(entries);
            let (given, entries) = without_store::hand_over(core, request, entries, now).await;
            failed(core, part, request, (entries, now, slots_since), &error).await;
            if given.is_empty() {
                return Err(error);
            }
            core.meters.queue(&request.queue).dispatched(given.len());
            given
        }
    };
    let Some(since) = slots_since else { return Ok(leased) };
    Ok(keep_those_with_places(core, &request.queue, leased, since).await)
}

/// The store has these leases. A slow lease may have lost its slot, if the limiter lost its data: then no
/// executor gets the task.
async fn keep_those_with_places(
    core: &Arc<Core>,
    queue: &QueueKey,
    leased: Vec<Assignment>,
    since: Since,
) -> Vec<Assignment> {
    if since.is_long_ago(core.now()) {
        // This engine was stopped meanwhile.
        give_back(core, leased, "engine_stood_still").await;
        return Vec::new();
    }
    if !since.may_be_lost(core.now()) {
        return leased;
    }
    let (kept, lost) = admit::hold_their_places(core, queue, leased).await;
    if !lost.is_empty() {
        tracing::info!(tasks = lost.len(), queue = %queue.queue, "leases are given back: the limiter lost their slots meanwhile");
        give_back(core, lost, SLOT_LOST).await;
    }
    kept
}

async fn failed(
    core: &Arc<Core>,
    part: usize,
    request: &LeaseRequest,
    (entries, asked_at, slots_since): (Vec<HotEntry>, Millis, Option<Since>),
    error: &Error,
) {
    if error.happened == Happened::Maybe {
        let until = asked_at.plus(request.lease_ms);
        core.live.lock().doubt_asked(&entries, &request.executor, until, core.now());
        if slots_since.is_some() {
            admit::offered_in_doubt(core, &request.queue, entries.len());
        }
    }
    if error.happened == Happened::No {
        admit::never_began(core, &request.queue, entries.iter(), slots_since).await;
    }
    // Others can proceed: tasks of other databases, and those handed over without theirs. Callers that wait
    // for them get no error.
    if core.store.parts() > 1 || without_store::is_allowed(core, &request.queue) {
        core.parts.failed(part);
        if !entries.is_empty() {
            let (queue, tasks) = (&request.queue.queue, entries.len());
            tracing::warn!(%error, part, %queue, tasks, "tasks could not be leased, and are set aside until their database answers");
        }
        parts::set_aside(core, &entries);
    } else if !core.settings.is_scanned(&request.queue) {
        let count = entries.len();
        line::serve(core, &entries);
        core.arrived(&request.queue, count);
    }
}

/// Returns tasks to their places whose queue is paused, which this engine does not know yet. No executor is woken for
/// them.
fn wait_for_resume(core: &Core, request: &LeaseRequest, paused: &[HotEntry]) {
    if paused.is_empty() {
        return;
    }
    core.settings.refused(&request.queue);
    line::serve(core, paused);
}

/// The store may have it as ready, or soon will: it fired a while ago, at another engine or before this one
/// marked it.
fn may_be_marked(core: &Core, entry: &HotEntry, now: Millis) -> bool {
    let is_own = core.holdings.tenure(entry.place.partition).is_some();
    let is_unpersisted = || core.live.lock().unpersisted_at(entry.place.id, entry.fence).is_some();
    entry.fired_at <= now.plus(-UNMARKED_FOR_MS) && !(is_own && is_unpersisted())
}
