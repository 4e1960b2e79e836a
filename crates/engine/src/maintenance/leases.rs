//! Ends leases whose time is over: the attempt failed, and the task is retried or dead by its policy. Whoever held
//! the lease is refused from then on. One engine does it for all, in each part of the store: the others would find the same.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{
        admit,
        outcome::{change_of, judge, load_next_attempts},
    },
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error,
    limiter::Member,
    store::{Applied, Beat, Change, LeasePosition, Step},
};
use punctual_domain::{
    history::Note,
    outcome::Report,
    state::State,
    task::{Lease, Task},
    time::Millis,
};
use std::sync::Arc;

/// A part of the store that was away is left alone for so long when it is back: its executors could give no sign of life,
/// and engines whose answers were lost give back what nobody had.
const BACK_FOR_MS: i64 = 2_000;

/// Which parts could not be looked at: since they are back, or None as long as they are not.
#[derive(Debug, Default)]
pub(crate) struct LeaseLooks(Mutex<HashMap<usize, Option<Millis>>>);

impl LeaseLooks {
    fn failed(&self, part: usize) {
        self.0.lock().insert(part, None);
    }

    /// It answers. Whether it has for long enough.
    fn answered(&self, part: usize, now: Millis) -> bool {
        let mut looks = self.0.lock();
        let Some(since) = looks.get_mut(&part) else { return true };
        let is_over = now.since(*since.get_or_insert(now)) >= BACK_FOR_MS;
        if is_over {
            looks.remove(&part);
        }
        is_over
    }
}

/// Leases ended.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    parts::each(core, "leases", parts::PATIENCE, move |core, part| run_in(core, part, now)).await
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let mut ended = 0;
    while core.leads_in(part) {
        let tasks = match core.store.leases_ended_in(part, now, STEP_LIMIT).await {
            Ok(tasks) => tasks,
            Err(error) => {
                core.lease_looks.failed(part);
                return Err(error);
            }
        };
        // Alone, nothing is known that this engine does not know.
        if core.shared.is_some() && !core.lease_looks.answered(part, now) {
            break;
        }
        let more = tasks.len() == STEP_LIMIT;
        ended += end(&core, tasks, now).await?;
        if !more {
            break;
        }
    }
    Ok(ended)
}

/// Time was set back from `seen` to `now`: what was left of each lease then is left of it now. One engine does it for all.
pub(crate) async fn time_went_back(core: &Core, seen: Millis, now: Millis) -> Result<usize, Error> {
    let (mut after, mut shortened, mut result) = (None, 0, Ok(()));
    while core.leads() {
        let next = match shorten(core, after, seen, now).await {
            Ok((count, next)) => {
                shortened += count;
                next
            }
            // Leases of a part that is away last longer; on with the next part.
            Err(error) => {
                result = Err(error);
                let next = after.map_or(0, |it| it.part) + 1;
                (next < core.store.parts()).then(|| LeasePosition::beginning_of(next))
            }
        };
        after = next;
        if after.is_none() {
            break;
        }
    }
    result.map(|()| shortened)
}

/// One page of leases. How many were shortened, and where the next begins.
async fn shorten(
    core: &Core,
    after: Option<LeasePosition>,
    seen: Millis,
    now: Millis,
) -> Result<(usize, Option<LeasePosition>), Error> {
    let (tasks, next) = core.store.in_flight(after, STEP_LIMIT).await?;
    let beats: Vec<Beat> = tasks.iter().filter_map(|it| shortened_to(it, seen, now)).collect();
    let count = beats.len();
    if count > 0 {
        core.store.extend(beats, now).await?;
    }
    Ok((count, next))
}

/// None: it may have been made, or extended, since.
fn shortened_to(task: &Task, seen: Millis, now: Millis) -> Option<Beat> {
    let lease = task.lease.as_ref()?;
    let left_ms = lease.until.since(seen).max(0);
    if left_ms == 0 && lease.since <= now {
        return None;
    }
    Some(Beat {
        place: task.place,
        fence: task.fence,
        // An end that has come would be refused.
        lease_until: now.plus(left_ms.max(1)),
        progress: None,
        log: None,
        executor: lease.executor.clone(),
        // Not a sign of life: who has not begun has still not begun.
        handed_over_at: (task.state == State::Dispatched).then_some(lease.since),
    })
}

async fn end(core: &Arc<Core>, tasks: Vec<Task>, now: Millis) -> Result<usize, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let steps: Vec<Step> = tasks.iter().map(|it| step(core, it, now)).collect();
    let events: Vec<_> = steps.iter().map(|it| it.change.event()).collect();
    let applied = core.store.apply(steps, now).await?;
    let (mut again, mut over) = (Vec::new(), Vec::new());
    for ((task, event), _) in tasks.iter().zip(events).zip(applied).filter(|(_, it)| *it == Applied::Moved) {
        core.count_event(event, Some(task));
        again.push(task.place);
        over.push(Member { id: task.place.id, fence: task.fence });
    }
    core.meters.leases_ended(again.len());
    load_next_attempts(core, &again).await;
    admit::free(core, &over).await;
    Ok(again.len())
}

fn step(core: &Core, task: &Task, now: Millis) -> Step {
    let is_ahead = task.state == State::Dispatched && task.lease.as_ref().is_some_and(Lease::is_ahead);
    if is_ahead || core.unknown.has(task) {
        // Its engine died before anybody had it, as far as is known; or its executor never heard of it.
        let note = Note { reason: Some("not_handed_over".to_owned()), ..core.note() };
        return Step { place: task.place, fence: Some(task.fence), change: Change::Release, note };
    }
    let (report, error) = what_happened(task);
    let verdict = judge(report, task, now);
    let note = Note {
        by: core.options.name.clone(),
        due_at: verdict.due_at,
        reason: Some(verdict.reason.to_owned()),
        error: Some(error),
    };
    let change = change_of(core, verdict, None, Some(&task.ask.queue), now);
    Step { place: task.place, fence: Some(task.fence), change, note }
}

fn what_happened(task: &Task) -> (Report, String) {
    let lease = task.lease.as_ref();
    let executor = lease.map_or("", |it| it.executor.as_str());
    let limit = task.ask.timeout_ms.zip(lease).map(|(timeout_ms, it)| it.since.plus(timeout_ms));
    if limit.zip(lease).is_some_and(|(limit, it)| it.until >= limit) {
        let timeout_ms = task.ask.timeout_ms.unwrap_or_default();
        return (
            Report::TimedOut,
            format!("executor {executor:?} did not finish within timeout_ms = {timeout_ms}"),
        );
    }
    (Report::LeaseExpired, format!("executor {executor:?} gave no sign of life before its lease ended"))
}
