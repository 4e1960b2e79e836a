//! "Why has this task not run?", in one answer. Reads, and changes nothing.

mod crew;

use crate::{
    core::Core,
    pipeline::{admission_rules::AdmissionRules, entry::entry_of, scan::state::next_scan_at},
    shares::Share,
};
use punctual_contract::limiter::{Held, Verdict};
use punctual_domain::{
    limits::Scope,
    name::QueueKey,
    state::{Event, State},
    task::Task,
    time::{Millis, Span},
    versions,
};
use std::sync::Arc;

/// Holders of a limit that are named.
const HOLDERS_SHOWN: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// A sentence for people.
    pub reason: String,
    /// The obstacle, as one word.
    pub blocking: Option<&'static str>,
    /// The holder of the task.
    pub owner: Option<String>,
    pub next_step: String,
    /// The expected instant of the next step, if known.
    pub expected_at: Option<Millis>,
}

pub(crate) async fn why(core: &Core, task: &Task) -> Why {
    let now = core.now();
    if let Some(with_executor) = handed_over_for_later(core, task) {
        return with_executor;
    }
    let has_fired = core.live.lock().unpersisted_at(task.place.id, task.fence).is_some();
    if has_fired && task.state.after(Event::Claim).is_ok() {
        // Its lease was to follow immediately, so nothing was written.
        return Box::pin(why(core, &Task { state: State::Dispatching, ..task.clone() })).await;
    }
    let has_fired =
        matches!(task.state, State::Dispatching | State::Ready | State::DispatchFailed) && task.due_at <= now;
    if has_fired && core.settings.queue(&task.ask.queue).pause.is_some() {
        return paused(core, task);
    }
    if has_fired
        && task.state != State::DispatchFailed
        && let Some(plain) = not_admitted(core, task, now).await
    {
        return plain;
    }
    let plain = by_state(core, task, now);
    if plain.blocking != Some("executor") || core.pushes(&task.ask.queue) {
        return plain;
    }
    if core.settings.queue(&task.ask.queue).delivered_to().is_some() {
        let reason = core.health.held_back.reason(&task.ask.queue);
        let reason = reason.map_or_else(
            || "It has fired; all deliveries to its receiver are in progress.".to_owned(),
            |reason| format!("It has fired; deliveries to its receiver are held back: {reason}"),
        );
        let next_step = "an engine sends it to the receiver".to_owned();
        return Why { reason, blocking: Some("receiver"), next_step, ..plain };
    }
    match crew::of(core, task, now).await {
        Ok((blocking, reason)) => Why { reason, blocking: Some(blocking), ..plain },
        Err(_) => plain,
    }
}

/// The store has the earlier state: an executor got the task while its database was unavailable.
fn handed_over_for_later(core: &Core, task: &Task) -> Option<Why> {
    let table = core.live.lock();
    let lease =
        table.for_later(task.place.id, task.fence + 1).filter(|lease| lease.is_unknown_to_the_store())?;
    Some(Why {
        reason: format!(
            "It was handed over to {:?} while its database did not answer (`while_store_is_away` is `hand_over`); the lease is \
             not written yet.",
            lease.executor
        ),
        blocking: None,
        owner: Some(lease.executor.clone()),
        next_step:
            "this engine writes the lease, as soon as the database answers and the queue is not paused"
                .to_owned(),
        expected_at: None,
    })
}

fn by_state(core: &Core, task: &Task, now: Millis) -> Why {
    let is_mine = core.holdings.tenure(task.place.partition).is_some();
    let engine = is_mine.then(|| core.options.name.clone());
    let answer = |reason: String, blocking, owner, next_step: &str, expected_at| Why {
        reason,
        blocking,
        owner,
        next_step: next_step.to_owned(),
        expected_at,
    };
    match task.state {
        State::Scheduled | State::Retrying | State::Dispatching if has_not_fired_in_time(core, task, now) => {
            overdue(core, task, now)
        }
        State::Scheduled | State::Retrying => waiting(core, task, now),
        State::Dispatching | State::Dispatched if task.due_at > now => answer(
            "It is on the wheel and fires at its time.".into(),
            Some("time"),
            engine,
            "fire",
            Some(task.due_at),
        ),
        State::Dispatching | State::Ready if core.maintenance.unsent.is_failing(&task.ask.queue) => answer(
            format!(
                "It has fired; the bus does not take the messages of queue {:?} at present.",
                task.ask.queue.queue.as_str()
            ),
            Some("bus"),
            engine,
            "it is sent when the bus takes messages again",
            None,
        ),
        State::Dispatching | State::Ready => answer(
            format!(
                "It has fired; no executor has taken it from queue {:?} yet.",
                task.ask.queue.queue.as_str()
            ),
            Some("executor"),
            engine,
            "an executor leases it",
            None,
        ),
        State::DispatchFailed => {
            let error = task.last_error.as_deref().unwrap_or("the bus did not take it");
            let again_at =
                core.maintenance.unsent.again_at(task.place.id, task.fence).map(|again_at| again_at.max(now));
            let reason = format!("It has fired and could not be sent: {error}");
            answer(reason, Some("bus"), engine, "the compensator has it sent again", again_at)
        }
        State::Dispatched | State::Running => in_flight(task),
        State::Blocked => {
            answer("It waits for its parents.".into(), Some("parents"), None, "parents finish", None)
        }
        State::Succeeded | State::Stopped => answer("It has run.".into(), None, None, "none", None),
        State::Cancelled => answer("It was cancelled.".into(), Some("cancelled"), None, "none", None),
        State::Dead => answer(
            format!(
                "It is dead after {} of {} attempts{}.",
                task.attempt,
                task.ask.max_attempts,
                because(task)
            ),
            Some("dead"),
            None,
            "redrive it",
            None,
        ),
    }
}

/// Explains a paused queue: no other reason matters now.
fn paused(core: &Core, task: &Task) -> Why {
    let settings = core.settings.queue(&task.ask.queue);
    let pause = settings.pause.as_ref();
    let by = pause.map(|pause| pause.by.clone());
    let because =
        pause.and_then(|pause| pause.reason.as_ref()).map(|reason| format!(": {reason}")).unwrap_or_default();
    let (who, queue) = (by.as_deref().unwrap_or("somebody"), task.ask.queue.queue.as_str());
    Why {
        reason: format!("It is due; {who:?} has paused queue {queue:?}{because}."),
        blocking: Some("pause"),
        owner: by,
        next_step: "an operator resumes the queue".to_owned(),
        expected_at: None,
    }
}

/// The last error.
fn because(task: &Task) -> String {
    task.last_error.as_ref().map_or_else(String::new, |last_error| format!(" ({last_error})"))
}

/// It fires with a scan of its queue.
fn scanned(core: &Core, task: &Task, now: Millis, plain: Why) -> Why {
    let (queue, interval_ms) = (&task.ask.queue, core.settings.queue(&task.ask.queue).scan_interval_ms());
    let scan_at = next_scan_at(queue, interval_ms, task.due_at.max(now).plus(-1));
    Why {
        reason: format!(
            "{} Queue {:?} is scanned every {} (`source` is `store`): the scan after its time makes it ready.",
            plain.reason,
            queue.queue.as_str(),
            Span(interval_ms),
        ),
        blocking: if task.due_at > now { plain.blocking } else { Some("scan") },
        next_step: "the next scan of its queue, or `punctual queue scan`".to_owned(),
        expected_at: Some(scan_at),
        ..plain
    }
}

fn waiting(core: &Core, task: &Task, now: Millis) -> Why {
    let left_ms = task.due_at.since(now);
    let what = if task.state == State::Retrying {
        format!(
            "Attempt {} of {} failed{}; the next one is",
            task.attempt,
            task.ask.max_attempts,
            because(task)
        )
    } else {
        "Its time has not come; it is".to_owned()
    };
    let reason =
        if left_ms > 0 { format!("{what} due in {}.", Span(left_ms)) } else { format!("{what} due now.") };
    let plain = Why {
        reason,
        blocking: Some("time"),
        owner: None,
        next_step: "fire".into(),
        expected_at: Some(task.due_at),
    };
    if core.settings.is_scanned(&task.ask.queue) { scanned(core, task, now, plain) } else { plain }
}

/// Explains a task whose time has passed, and of which this engine does not know that it has fired.
fn has_not_fired_in_time(core: &Core, task: &Task, now: Millis) -> bool {
    let is_claimed = || core.live.lock().holds(&entry_of(task));
    let settings = core.settings.queue(&task.ask.queue);
    let scan_ms = if settings.is_scanned() { settings.scan_interval_ms() } else { 0 };
    now.since(task.due_at) > core.options.overdue_after_ms + scan_ms
        && (task.state != State::Dispatching || is_claimed())
}

fn overdue(core: &Core, task: &Task, now: Millis) -> Why {
    let partition = task.place.partition;
    let is_mine = core.holdings.tenure(partition).is_some();
    let (blocking, cause, next_step) = if core.settings.is_scanned(&task.ask.queue) {
        let cause = "no scan of its queue has made it ready (`source` is `store`); the log has what failed"
            .to_owned();
        ("scan", cause, "the next scan of its queue, or `punctual queue scan`")
    } else if let Some(whose) = core.hot.stranger() {
        ("hot_set_of_another_cluster", whose, "its owner fires it from the store")
    } else if core.store_fallback.hides_limits() {
        ("hot_set_away", "the hot set does not answer".to_owned(), "its owner fires it from the store")
    } else if core.sharing.superseded.is(partition) {
        let cause = "the hot set has seen a newer term of its partition than the store gives".to_owned();
        ("term_behind", cause, "the term is raised, and the partition looked through")
    } else if is_mine {
        ("overdue", "this engine has not come to it".to_owned(), "this engine finds it in the store")
    } else {
        let cause = "the engine that owns its partition has not fired it, or none does".to_owned();
        ("overdue", cause, "that engine finds it in the store")
    };
    Why {
        reason: format!("It was due {} ago and has not fired: {cause}.", Span(now.since(task.due_at))),
        blocking: Some(blocking),
        owner: is_mine.then(|| core.options.name.clone()),
        next_step: next_step.to_owned(),
        expected_at: None,
    }
}

fn in_flight(task: &Task) -> Why {
    let lease = task.lease.as_ref();
    let executor = lease.map(|lease| lease.executor.clone());
    let name = executor.as_deref().unwrap_or("an executor");
    Why {
        reason: format!("Attempt {} is with {name:?}.", task.attempt),
        blocking: None,
        owner: executor.clone(),
        next_step: "its outcome, or the end of its lease".into(),
        expected_at: lease.map(|lease| lease.until),
    }
}

/// Why a fired task does not start, apart from missing executors.
async fn not_admitted(core: &Core, task: &Task, now: Millis) -> Option<Why> {
    let answer = |reason: String, blocking, owner, next_step: &str, expected_at| {
        Some(Why { reason, blocking: Some(blocking), owner, next_step: next_step.to_owned(), expected_at })
    };
    let demands = &task.ask.demands;
    let queue = Arc::new(task.ask.queue.clone());
    if let Some(range) = &demands.handler_versions {
        let there = core.limits.admissions.versions(&queue, now);
        if !there.iter().any(|text| versions::may_run(Some(range), Some(text))) {
            let there =
                if there.is_empty() { "none that says its version".to_owned() } else { there.join(", ") };
            let reason =
                format!("It has fired, and demands a handler version {range}; asking here: {there}.");
            return answer(reason, "version", None, "an executor with such a version asks", None);
        }
    }
    let terms = AdmissionRules::of(core, &queue);
    if !terms.is_limited {
        return None;
    }
    let unknown = "It has fired; its queue is limited, and its limits are not known because the hot set is unavailable.";
    if core.hides_limits_of(&queue) {
        return answer(unknown.to_owned(), "limits_unknown", None, "the hot set is back", None);
    }
    let (limits, rates) = terms.of_task(task.attempt, demands.concurrency_key.as_deref());
    let Ok(room) = core.limiter_of(&queue).room(&limits, &rates, now).await else {
        return answer(unknown.to_owned(), "limits_unknown", None, "the hot set is back", None);
    };
    if room.free > 0 {
        return None;
    }
    match room.bound? {
        Verdict::Blocked(scope) => {
            let most = limits.iter().find(|limit| limit.scope == scope).map_or(0, |limit| limit.most);
            let holders = holders(core, &queue, &scope).await;
            if let Some(share) = terms.share_of(&scope) {
                let (reason, next_step) = share_of_slots(&scope, share, most, &holders);
                return answer(reason, "share", None, next_step, None);
            }
            let reason = format!("It has fired; {scope} is at its limit of {most}: {holders}.");
            answer(reason, "limit", None, "an attempt there ends", None)
        }
        Verdict::Throttled { scope, wait_ms } => {
            if let Some(share) = terms.share_of(&scope) {
                let reason = format!(
                    "It has fired; {scope} has no start left of its share of the rate: {}.",
                    by_weight(share)
                );
                let expected_at = wait_ms.map(|wait_ms| now.plus(wait_ms));
                return answer(reason, "share", None, "its share of the rate brings a start", expected_at);
            }
            let reason = format!("It has fired; the rate of {scope} has no start left.");
            answer(reason, "rate", None, "the rate brings a start", wait_ms.map(|wait_ms| now.plus(wait_ms)))
        }
        Verdict::NotWhole => {
            let reason =
                "It has fired; its queue is limited, and who holds the limits is being counted again.";
            answer(reason.to_owned(), "limits_unknown", None, "the limiter is rebuilt", None)
        }
        Verdict::Granted => None,
    }
}

/// The weight that determines a share.
fn by_weight(share: &Share) -> String {
    format!("its weight is {} of {} that want some", share.weight, share.weights)
}

fn share_of_slots(scope: &Scope, share: &Share, most: u32, holders: &str) -> (String, &'static str) {
    let by_weight = by_weight(share);
    if most == 0 {
        let reason = format!("It has fired; others have their turn before {scope}: {by_weight}.");
        return (reason, "the turn comes round");
    }
    let reason =
        format!("It has fired; {scope} has all of its share, {most} at one time ({by_weight}): {holders}.");
    (reason, "an attempt there ends, or others want less")
}

/// Describes some tasks and their executors.
async fn holders(core: &Core, queue: &QueueKey, scope: &Scope) -> String {
    let Ok(holders) = core.limiter_of(queue).holders(scope, HOLDERS_SHOWN).await else {
        return "by whom is not known".into();
    };
    let places: Vec<_> = holders.first.iter().map(|held| held.place).collect();
    let tasks = core.store.read(&places).await.unwrap_or_default();
    let name = |(held, task): (&Held, Option<Task>)| {
        let executor = task.and_then(|task| task.lease).map(|lease| lease.executor);
        format!("task {} with {:?}", held.member.id, executor.as_deref().unwrap_or("nobody yet"))
    };
    let shown: Vec<String> = holders.first.iter().zip(tasks).map(name).collect();
    let more = holders.count.saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
