//! Ends expired leases: the attempt has failed, and the task is retried or dead by its policy. From then on
//! the former holder is refused. In each database one engine does it for all: the others would find the same
//! leases.

pub(crate) mod state;

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{
        freed,
        outcome::{change_of, judge, load_next_attempts},
        unknown,
    },
};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    limiter::Member,
    store::{Applied, Beat, Change, LeasePosition, Step},
};
use punctual_domain::{
    history::{self, Entry, Note},
    outcome::Report,
    place::TaskRef,
    state::{Event, State},
    task::{Lease, Task},
    time::{Millis, Span},
};
use std::sync::Arc;

/// The maximum number of leases that end in their engine's name and are returned with their attempt: engines usually
/// die for other reasons than the task. After one more, the attempt counts: a task that kills the engine that hands
/// it over must end.
const GIVEN_BACK_MAX: usize = 4;
/// The reason for returning such a lease. Histories count it, so no other end of a lease may use this reason.
const NOT_HANDED_OVER: &str = "not_handed_over";
/// The reported error of attempts that count.
const ENGINE_GONE: &str = "the engine that was to hand it over was gone before it said to whom";

/// Leases ended.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    parts::each(core, "leases", parts::PATIENCE, move |core, part| run_in(core, part, now)).await
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let mut ended = 0;
    while core.leads_in(part) {
        let mut tasks = match core.store.leases_ended_in(part, now, STEP_LIMIT).await {
            Ok(tasks) => tasks,
            Err(error) => {
                core.maintenance.lease_looks.failed(part);
                return Err(error);
            }
        };
        if !core.maintenance.lease_looks.answered(part, now) {
            break;
        }
        let found = tasks.len();
        tasks.retain(|task| !core.maintenance.for_later.holds(task.place.id, task.fence));
        // The next read would find the same leases.
        let more = found == STEP_LIMIT && tasks.len() == found;
        ended += end(&core, tasks, now).await?;
        if !more {
            break;
        }
    }
    Ok(ended)
}

/// The clock was set back from `seen` to `now`: each lease keeps the remaining time that it had. One engine
/// does it for all.
pub(crate) async fn time_went_back(core: &Core, seen: Millis, now: Millis) -> Result<usize, Error> {
    let (mut after, mut shortened, mut result) = (None, 0, Ok(()));
    while core.leads() {
        let next = match shorten(core, after, seen, now).await {
            Ok((count, next)) => {
                shortened += count;
                next
            }
            // Leases of a part that is unavailable last longer; on with the next part.
            Err(error) => {
                result = Err(error);
                let next = after.map_or(0, |position| position.part) + 1;
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
    let beats: Vec<Beat> = tasks.iter().filter_map(|task| shortened_to(task, seen, now)).collect();
    let count = beats.len();
    if count > 0 {
        core.store.extend(beats, now).await?;
    }
    Ok((count, next))
}

/// Returns `None` if the lease may have been made or extended since.
fn shortened_to(task: &Task, seen: Millis, now: Millis) -> Option<Beat> {
    let lease = task.lease.as_ref()?;
    let left_ms = lease.until.since(seen).max(0);
    if left_ms == 0 && lease.since <= now {
        return None;
    }
    Some(Beat {
        place: task.place,
        fence: task.fence,
        // The store would refuse an end in the past.
        lease_until: now.plus(left_ms.max(1)),
        progress: None,
        log: None,
        executor: lease.executor.clone(),
        // Not a heartbeat: an executor that has not begun is still shown so.
        handed_over_at: (task.state == State::Dispatched).then_some(lease.since),
    })
}

async fn end(core: &Arc<Core>, tasks: Vec<Task>, now: Millis) -> Result<usize, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let too_often = given_back_too_often(core, &tasks).await?;
    let steps: Vec<Step> =
        tasks.iter().map(|task| step(core, task, too_often.contains(&task.place.id), now)).collect();
    let events: Vec<_> = steps.iter().map(|step| step.change.event()).collect();
    let applied = core.store.apply(steps, now).await?;
    let (mut again, mut over) = (Vec::new(), Vec::new());
    for ((task, event), _) in
        tasks.iter().zip(events).zip(applied).filter(|(_, stepped)| *stepped == Applied::Moved)
    {
        core.count_event(event, Some(task));
        core.ends.ended(task.place);
        again.push(task.place);
        over.push((Member { id: task.place.id, fence: task.fence }, Some(task.ask.queue.clone())));
    }
    core.meters.leases_ended(again.len());
    load_next_attempts(core, &again).await;
    freed::free(core, over).await;
    Ok(again.len())
}

/// The engine died before anybody had it, as far as is known.
fn is_ahead(task: &Task) -> bool {
    task.state == State::Dispatched && task.lease.as_ref().is_some_and(Lease::is_ahead)
}

/// Among tasks whose leases ended in an engine's name, returns those for which that must not continue.
async fn given_back_too_often(core: &Core, tasks: &[Task]) -> Result<HashSet<i64>, Error> {
    let ahead: Vec<TaskRef> = tasks.iter().filter(|task| is_ahead(task)).map(|task| task.place).collect();
    if ahead.is_empty() {
        return Ok(HashSet::new());
    }
    let whole = core.store.read(&ahead).await?;
    let too_often = whole.iter().flatten().filter(|task| given_back(&task.history) >= GIVEN_BACK_MAX);
    Ok(too_often.map(|task| task.place.id).collect())
}

/// The number of leases of the task that have ended this way, up to the limit, since it last reached an executor or
/// was rescheduled: over years, a task meets some engines that die. A truncated history has lost its oldest entries.
fn given_back(history: &[Entry]) -> usize {
    let is_so = |entry: &&Entry| {
        entry.event == Some(Event::Release) && entry.reason.as_deref() == Some(NOT_HANDED_OVER)
    };
    let since = history.iter().rev().take_while(|entry| !begins_anew(entry));
    since.filter(is_so).take(GIVEN_BACK_MAX).count()
}

/// An outcome, or a caller's change. The end of a lease in its engine's name does not reset the count, even
/// if it spent an attempt.
fn begins_anew(entry: &Entry) -> bool {
    let is_new = matches!(
        entry.event,
        Some(
            Event::Start
                | Event::Succeed
                | Event::Retry
                | Event::Snooze
                | Event::Bury
                | Event::Reschedule
                | Event::Replace
                | Event::Redrive
        )
    );
    is_new && !entry.error.as_deref().is_some_and(|error| error.starts_with(ENGINE_GONE))
}

fn step(core: &Core, task: &Task, counts: bool, now: Millis) -> Step {
    let back = if core.live.lock().is_in_doubt(task) {
        // Its executor never learned of the lease.
        Some(unknown::ANSWER_LOST)
    } else {
        (is_ahead(task) && !counts).then_some(NOT_HANDED_OVER)
    };
    if let Some(reason) = back {
        let note = Note { reason: Some(reason.to_owned()), ..core.note() };
        let (place, fence) = (task.place, Some(task.fence));
        return Step { place, fence, change: Change::Release, note, fired_at: None, known: None };
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
    Step { place: task.place, fence: Some(task.fence), change, note, fired_at: None, known: None }
}

fn what_happened(task: &Task) -> (Report, String) {
    let lease = task.lease.as_ref();
    let executor = lease.map_or("", |lease| lease.executor.as_str());
    if is_ahead(task) {
        let said =
            format!("{ENGINE_GONE}, as after {GIVEN_BACK_MAX} leases before: from now on the attempt counts");
        return (Report::LeaseExpired, said);
    }
    let limit = task.ask.timeout_ms.zip(lease).map(|(timeout_ms, lease)| lease.since.plus(timeout_ms));
    if limit.zip(lease).is_some_and(|(limit, lease)| lease.until >= limit) {
        let most = Span(task.ask.timeout_ms.unwrap_or_default());
        let error =
            history::executor_lost(executor, &format!("did not finish within {most}, its longest time"));
        return (Report::TimedOut, error);
    }
    (Report::LeaseExpired, history::executor_lost(executor, "gave no sign of life before its lease ended"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: Event, reason: Option<&str>, error: Option<String>) -> Entry {
        Entry {
            at: Millis(0),
            event: Some(event),
            from: None,
            to: event.target(),
            attempt: 1,
            by: "e".to_owned(),
            due_at: None,
            reason: reason.map(str::to_owned),
            error,
        }
    }

    fn not_handed_over(times: usize) -> Vec<Entry> {
        let once = [line(Event::Dispatch, None, None), line(Event::Release, Some(NOT_HANDED_OVER), None)];
        once.iter().cloned().cycle().take(2 * times).collect()
    }

    #[test]
    fn leases_that_ended_in_their_engines_names_one_after_the_other_are_counted() {
        assert_eq!(given_back(&not_handed_over(3)), 3);
        assert_eq!(given_back(&not_handed_over(9)), GIVEN_BACK_MAX, "no more than matter");
        let lost = line(Event::Release, Some(unknown::ANSWER_LOST), None);
        assert_eq!(given_back(&[not_handed_over(1), vec![lost], not_handed_over(1)].concat()), 2);
        let counted = line(Event::Retry, None, Some(format!("{ENGINE_GONE}, as after 4 leases before")));
        let since = [not_handed_over(4), vec![line(Event::Dispatch, None, None), counted]].concat();
        assert_eq!(given_back(&since), 4, "the next attempt counts too");
    }

    #[test]
    fn what_came_to_an_executor_or_was_given_another_plan_is_counted_anew() {
        let failed = line(Event::Retry, None, Some("no such customer".to_owned()));
        let others = [Event::Start, Event::Snooze, Event::Reschedule, Event::Replace, Event::Redrive];
        for new in others.map(|event| line(event, None, None)).into_iter().chain([failed]) {
            assert_eq!(given_back(&[not_handed_over(4), vec![new.clone()]].concat()), 0, "{new:?}");
            assert_eq!(given_back(&[not_handed_over(4), vec![new], not_handed_over(2)].concat()), 2);
        }
    }
}
