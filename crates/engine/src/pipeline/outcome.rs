//! Outcome: `domain::outcome` decides an attempt's result, a conditional update on (task, fence)
//! writes it, and only then it counts. The fence ensures that at most one outcome is accepted per attempt.

use crate::{
    answer::Reported,
    core::Core,
    for_later::hand_over as without_store,
    live::{EndedAttempts, Unreported},
    long_payloads::{self, Owned, Put},
    parts,
    pipeline::{entry::entry_of, freed, intake},
};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    limiter::Member,
    store::{Applied, Change, LeaseFacts, Step},
};
use punctual_domain::{
    content::Content,
    history::{self, ERROR_LEN_MAX, Note},
    name::QueueKey,
    outcome::{Facts, Report, Verdict, decide},
    place::TaskRef,
    state::Event,
    task::{Task, TaskResult},
    time::Millis,
};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct OutcomeReport {
    pub place: TaskRef,
    /// The fence of the attempt, from the lease token.
    pub fence: i64,
    pub report: Report,
    pub result: TaskResult,
}

/// A report with its sender and the time at which it was received, from which retries are counted.
#[derive(Debug, Clone)]
pub(crate) struct Filed {
    pub(crate) report: OutcomeReport,
    pub(crate) by: Arc<str>,
    pub(crate) at: Millis,
}

/// Answers in the order of the reports. A failing database delays neither writes nor answers of the others.
pub(crate) async fn record_outcomes(core: &Arc<Core>, reports: Vec<Filed>) -> Vec<Result<Reported, Error>> {
    let partition = |filed: &Filed| filed.report.place.partition;
    parts::ask_each(core, "report outcomes", reports, partition, record_in).await
}

async fn record_in(core: Arc<Core>, reports: Vec<Filed>) -> Result<Vec<Reported>, Error> {
    let now = core.now();
    let attempts = reports.iter().map(|filed| (filed.report.place.id, filed.report.fence));
    let EndedAttempts { unreported, known: leases } = core.live.lock().ended(attempts, now);
    let known = KnownAttempts { fired: unreported.iter().filter_map(Unreported::fired).collect(), leases };
    let recorded = write(&core, reports, known, now).await;
    if recorded.is_err() {
        core.live.lock().not_ended(unreported);
        core.firing.ahead.something.notify_one();
    }
    recorded
}

/// This engine's knowledge of attempts, by task and fence.
struct KnownAttempts {
    /// The instants at which the tasks fired; the store may only know when they were due.
    fired: HashMap<(i64, i64), Millis>,
    leases: HashMap<(i64, i64), LeaseFacts>,
}

async fn write(
    core: &Arc<Core>,
    filed: Vec<Filed>,
    mut known: KnownAttempts,
    now: Millis,
) -> Result<Vec<Reported>, Error> {
    let came = |filed: Filed| (filed.report, (filed.by, filed.at.min(now)));
    let (mut reports, came): (Vec<OutcomeReport>, Vec<(Arc<str>, Millis)>) =
        filed.into_iter().map(came).unzip();
    let tasks = core.read_for(&reports).await?;
    let whole_errors = keep_long_errors(&mut reports);
    let mut put = put_whole_errors(core, &mut reports, &tasks, &whole_errors).await;
    match put_results(core, &mut reports, &tasks, |_| true).await {
        Ok(results) => put.extend(results),
        Err(error) => {
            long_payloads::failed(core, &error, put);
            return Err(error);
        }
    }
    let mut recorded = vec![Reported::Stale; reports.len()];
    let attempts: Vec<(i64, Report)> = reports.iter().map(|report| (report.fence, report.report)).collect();
    let (mut planned, mut steps) = (Vec::new(), Vec::new());
    for ((nth, report), (task, (by, at))) in reports.into_iter().enumerate().zip(tasks.iter().zip(came)) {
        if let Some(verdict) = verdict(&report, task.as_ref(), at) {
            planned.push((nth, report.place, verdict.event, task));
            let queue = task.as_ref().map(|task| &task.ask.queue);
            let attempt = (report.place.id, report.fence);
            let (fired_at, known) = (known.fired.get(&attempt).copied(), known.leases.remove(&attempt));
            steps.push(Step { fired_at, known, ..step(core, report, verdict, queue, &by, now) });
        }
    }
    let applied = match core.store.apply(steps, now).await {
        Ok(list) => list,
        Err(error) => {
            long_payloads::failed(core, &error, put);
            return Err(error);
        }
    };
    let (mut again, mut ended, mut kept, mut over) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let accepted = planned.into_iter().zip(applied).filter(|(_, stepped)| *stepped == Applied::Moved);
    for ((nth, place, event, task), stepped) in accepted {
        if let Some(recorded) = recorded.get_mut(nth) {
            *recorded = Reported::Accepted;
        }
        if let Some((fence, report)) = attempts.get(nth) {
            let member = Member { id: place.id, fence: *fence };
            ended.push((member, stepped.attempt.as_ref().map(|attempt| attempt.queue.clone())));
            if let Some(attempt) = &stepped.attempt {
                core.meters.queue(&attempt.queue).outcomes.count(*report, attempt, now);
                over.extend(without_store::entry_of_ended(core, &attempt.queue, place, *fence));
            }
        }
        core.count_event(event, task.as_ref());
        core.ends.ended(place);
        kept.extend(keeps_result(event).then_some((nth, task.as_ref())));
        if matches!(event, Event::Retry | Event::Snooze) {
            again.push(place);
        }
    }
    if !over.is_empty() {
        core.live.lock().ended_lately(over, now);
    }
    forget_results(core, put, &kept);
    load_next_attempts(core, &again).await;
    freed::free_what_is_set(core, ended).await;
    Ok(recorded)
}

/// True if the move of an outcome writes the result.
const fn keeps_result(event: Event) -> bool {
    matches!(event, Event::Succeed | Event::Retry | Event::Bury)
}

/// Handles errors that are too long for a history line: the line gets the beginning, and the attempt's result the
/// complete text, unless the report has its own result. Returns the indexes of the reports whose error became the
/// result.
fn keep_long_errors(reports: &mut [OutcomeReport]) -> Vec<usize> {
    let mut whole = Vec::new();
    for (nth, report) in
        reports.iter_mut().enumerate().filter(|entry| entry.1.result.status_msg.len() > ERROR_LEN_MAX)
    {
        let said = history::error(&report.result.status_msg).into_owned();
        let text = std::mem::replace(&mut report.result.status_msg, said);
        let is_error = matches!(report.report, Report::Failed { .. } | Report::Reject);
        if is_error && report.result.content.is_none() {
            report.result.content = Some(Content::inside(true, history::whole_error(&text).into_bytes()));
            whole.push(nth);
        }
    }
    whole
}

/// Stores long errors like long results. But no outcome is refused for the length of its error: if the storage is
/// unavailable, the beginning stays.
async fn put_whole_errors(
    core: &Arc<Core>,
    reports: &mut [OutcomeReport],
    tasks: &[Option<Task>],
    whole_errors: &[usize],
) -> Put {
    if whole_errors.is_empty() {
        return Put::new();
    }
    match put_results(core, reports, tasks, |nth| whole_errors.contains(&nth)).await {
        Ok(put) => put,
        Err(error) => {
            tracing::warn!(%error, errors = whole_errors.len(), "of long errors only the beginning is kept");
            for nth in whole_errors {
                if let Some(report) = reports.get_mut(*nth) {
                    report.result.content = None;
                }
            }
            Put::new()
        }
    }
}

/// Stores long results outside the database first; those of attempts that do not hold their tasks are
/// dropped.
async fn put_results(
    core: &Arc<Core>,
    reports: &mut [OutcomeReport],
    tasks: &[Option<Task>],
    is_meant: impl Fn(usize) -> bool,
) -> Result<Put, Error> {
    let meant = reports.iter_mut().zip(tasks).enumerate().filter(|meant| is_meant(meant.0));
    let owned = meant.filter_map(|(nth, (report, task))| {
        let task = task.as_ref().filter(|task| task.fence == report.fence && task.state.is_in_flight())?;
        let (namespace, content) = (&task.ask.queue.namespace, report.result.content.as_mut()?);
        let (task_id, task_version) = (task.task_id(), task.ask.task_version);
        Some(Owned { nth, namespace, task_id, task_version, content })
    });
    long_payloads::put(core, owned.collect()).await
}

/// Deletes the objects of results that were not stored, and of results that were replaced.
fn forget_results(core: &Arc<Core>, put: Put, kept: &[(usize, Option<&Task>)]) {
    let not_kept = put.into_iter().filter(|pair| !kept.iter().any(|kept| kept.0 == pair.0));
    let results = kept.iter().filter_map(|pair| pair.1?.result.as_ref()?.content.as_ref());
    let replaced = results.filter_map(long_payloads::key_of).collect::<Vec<_>>();
    long_payloads::delete_soon(core, long_payloads::keys(not_kept).into_iter().chain(replaced).collect());
}

/// Returns `None` if the attempt does not hold the task.
fn verdict(report: &OutcomeReport, task: Option<&Task>, now: Millis) -> Option<Verdict> {
    if report.report == Report::Succeeded {
        return Some(Verdict { event: Event::Succeed, due_at: None, reason: "succeeded" });
    }
    let task = task.filter(|task| task.fence == report.fence && task.state.is_in_flight())?;
    Some(judge(report.report, task, now))
}

pub(crate) fn judge(report: Report, task: &Task, now: Millis) -> Verdict {
    let facts = Facts {
        attempt: task.attempt,
        max_attempts: task.ask.max_attempts,
        retry: &task.ask.retry,
        cancel_requested: task.lease.as_ref().is_some_and(|lease| lease.cancel_requested),
    };
    decide(report, facts, now, fastrand::f64())
}

fn step(
    core: &Core,
    report: OutcomeReport,
    verdict: Verdict,
    queue: Option<&QueueKey>,
    by: &str,
    now: Millis,
) -> Step {
    let failed = matches!(verdict.event, Event::Retry | Event::Bury | Event::Abort);
    let error =
        failed.then(|| report.result.status_msg.clone()).filter(|status_message| !status_message.is_empty());
    let reason = (verdict.event != Event::Succeed).then(|| verdict.reason.to_owned());
    let note = Note { by: by.to_owned(), due_at: verdict.due_at, reason, error };
    let change = change_of(core, verdict, Some(report.result), queue, now);
    Step { place: report.place, fence: Some(report.fence), change, note, fired_at: None, known: None }
}

/// The change for a verdict. `queue`: None if it keeps finished tasks by the engine's defaults.
pub(crate) fn change_of(
    core: &Core,
    verdict: Verdict,
    result: Option<TaskResult>,
    queue: Option<&QueueKey>,
    now: Millis,
) -> Change {
    let due_at = verdict.due_at.unwrap_or(now);
    let keep = core.keep(queue);
    match verdict.event {
        Event::Succeed => {
            Change::Succeed { result: result.unwrap_or_default(), keep_until: now.plus(keep.succeeded_ms) }
        }
        Event::Retry => Change::Retry { due_at, result },
        Event::Snooze => Change::Snooze { due_at },
        Event::Abort => Change::Abort { keep_until: now.plus(keep.cancelled_ms) },
        _ => Change::Bury { result, keep_until: now.plus(keep.dead_ms) },
    }
}

/// Loads tasks that run again into the hot set if they are due soon.
pub(crate) async fn load_next_attempts(core: &Arc<Core>, places: &[TaskRef]) {
    if places.is_empty() {
        return;
    }
    match core.store.read(places).await {
        Ok(tasks) => {
            let waiting = tasks.iter().flatten().filter(|task| task.state.is_waiting());
            intake::admit(core, waiting.map(entry_of).collect()).await;
        }
        Err(error) => tracing::warn!(%error, "next attempts wait for the refill"),
    }
}

/// The retention times of finished tasks.
pub(crate) struct RetentionTimes {
    pub(crate) succeeded_ms: i64,
    pub(crate) dead_ms: i64,
    pub(crate) cancelled_ms: i64,
}

impl Core {
    /// The retention by the queue's settings, or else by the engine's options.
    pub(crate) fn keep(&self, queue: Option<&QueueKey>) -> RetentionTimes {
        let set = queue.map(|queue| self.settings.queue(queue).keep).unwrap_or_default();
        RetentionTimes {
            succeeded_ms: set.succeeded_ms.unwrap_or(self.options.keep_succeeded_ms),
            dead_ms: set.dead_ms.unwrap_or(self.options.keep_dead_ms),
            cancelled_ms: set.cancelled_ms.unwrap_or(self.options.keep_cancelled_ms),
        }
    }

    /// The tasks of the reports that need a decision. Successes need none, unless a queue has its own
    /// retention for them, or their result is long.
    async fn read_for(&self, reports: &[OutcomeReport]) -> Result<Vec<Option<Task>>, Error> {
        let all = self.settings.keeps_successes();
        let is_long = |report: &OutcomeReport| {
            report.result.content.as_ref().is_some_and(|content| self.is_long(content))
        };
        let needed = |report: &&OutcomeReport| all || report.report != Report::Succeeded || is_long(report);
        let places: Vec<TaskRef> = reports.iter().filter(needed).map(|report| report.place).collect();
        let mut read =
            if places.is_empty() { Vec::new() } else { self.store.read(&places).await? }.into_iter();
        Ok(reports.iter().map(|report| if needed(&report) { read.next().flatten() } else { None }).collect())
    }

    pub(crate) fn count_event(&self, event: Event, task: Option<&Task>) {
        match (event, task) {
            (Event::Succeed, _) => self.meters.succeeded(1),
            (_, None) => {}
            (Event::Retry, Some(task)) => self.meters.queue(&task.ask.queue).retried(1),
            (Event::Bury, Some(task)) => self.meters.queue(&task.ask.queue).dead(1),
            (_, Some(task)) => self.meters.queue(&task.ask.queue).other(1),
        }
    }
}
