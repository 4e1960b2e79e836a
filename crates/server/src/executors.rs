//! Executors that pull: lease, outcomes, heartbeats. A `ref` with its token is sufficient proof of a lease, so these
//! calls check no namespace but that of the queue. Restricted callers also need access to the tasks of their leases.

use crate::{
    access::Who,
    answer,
    app::{App, Shared},
    ask::{self, Context},
    extract::{Body, Caller, Queue},
    namespaces,
    refusal::Refusal,
    reports::{
        Barred, go_with_reports, held_by, nothing_is_known, say_unavailable, set_receipt, wait_with_reports,
        workflow_of,
    },
    roster,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_contract::{
    Error as BackendError,
    store::{Assignment, Beat, Extended},
    workflows::WorkflowId,
};
use punctual_domain::{
    executor::DesiredState,
    name::{Name, QueueKey},
    place::TaskRef,
    task::Task,
};
use punctual_engine::{Heartbeat, LeaseRequest as EngineLease, Only, OutcomeReport, Reported, Submission};
use punctual_protocol::{
    Code, FieldError, HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseBeat, LeaseNews, LeaseRequest,
    Outcome, OutcomeBatch, OutcomeReceipt, OutcomeStatus, OutcomesAnswer, Problem, Token,
};
use punctual_workflows::Expected;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// The author in histories, if the request names none: the executor's name is in the line of its lease.
const BY: &str = "executor";
const DRAIN_WAIT_MS: u64 = 1_000;
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Lease ready tasks, and wait for the first one.
///
/// Answers as soon as there is a task, and after `wait_ms` at the latest; then `tasks` is empty. The body is optional. If
/// the caller hangs up, the leased tasks are given back.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/lease", operation_id = "lease_tasks", tag = "executors",
    params(("queue" = String, Path, description = "The queue, in the caller's namespace.")),
    request_body(content = Option<LeaseRequest>, example = json!({
        "max": 10, "wait_ms": 20000, "lease_ms": 30000, "executor": "mailer-1"
    })),
    responses((status = 200, description = "The tasks that are now the caller's.", body = LeaseAnswer)),
)]
pub(crate) async fn lease_tasks(
    State(app): State<Shared>,
    who: Who,
    Queue(queue): Queue,
    Body(body): Body,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    namespaces::must_be_open(&app, &queue.namespace)?;
    lease(&app, &who, vec![queue], LeaseRequest::from_json(&body)?).await
}

/// Lease ready tasks from several queues, and wait for the first one.
///
/// Answers as soon as one of the queues has a task, and after `wait_ms` at the latest; then `tasks` is empty. Each
/// task names its queue. If several queues have tasks, each is served first equally often. If the caller disconnects,
/// the leased tasks of all queues are returned. If one of the queues is refused, the complete call is refused.
#[utoipa::path(
    post, path = "/v1/lease", operation_id = "lease_tasks_from_several", tag = "executors",
    request_body(content = LeaseRequest, example = json!({
        "queues": [{"name": "mail", "max": 4}, {"name": "sms"}], "max": 10, "wait_ms": 20000, "executor": "mailer-1"
    })),
    responses((status = 200, description = "The tasks that are now the caller's.", body = LeaseAnswer)),
)]
pub(crate) async fn lease_tasks_from_several(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let request = LeaseRequest::of_several_from_json(&body)?;
    let mut queues = Vec::with_capacity(request.queues.len());
    for (nth, queue) in request.queues.iter().enumerate() {
        let pointer = format!("/queues/{nth}/name");
        let name = Name::chosen(&queue.name).map_err(|error| Refusal::field(&pointer, error.to_string()))?;
        let queue = QueueKey { namespace: caller.namespace.clone(), queue: name };
        caller.who.must_reach(&queue)?;
        queues.push(queue);
    }
    namespaces::must_be_open(&app, &caller.namespace)?;
    lease(&app, &caller.who, queues, request).await
}

/// Leases from one queue, or from those that the request names, in its order.
async fn lease(app: &App, who: &Who, queues: Vec<QueueKey>, ask: LeaseRequest) -> Result<Response, Refusal> {
    let lease_ms = i64::try_from(ask.lease_ms).unwrap_or(i64::MAX);
    let executor = roster::asks(&queues, &ask);
    let wish =
        executor.as_ref().map_or(DesiredState::Serve, |executor| app.engine.executor_seen(executor.clone()));
    if let (Some(executor), DesiredState::Quiet | DesiredState::Drain) = (&executor, wish) {
        return nothing_for(app, who, executor, wish, ask.wait_ms).await;
    }
    let is_held = ask.concurrency.is_some();
    let lease = lease_at(app, queues, ask);
    // Dropping the lease loses no task: what it was granted is given back.
    let leased = tokio::select! {
        // First: whose token has ended gets nothing, also of what comes at the same moment.
        biased;
        refusal = who.until_refused(app) => return Err(refusal),
        leased = lease => leased?,
        () = app.shutdown.cancelled() => Vec::new(),
        () = roster::until_no_more_work(&app.engine, executor.as_ref()) => Vec::new(),
    };
    let task = |lease: Assignment| {
        // The places of a queue that is scanned are given up with the outcome.
        let is_held = is_held && !app.engine.is_scanned(&lease.queue);
        answer::leased(answer::traced(app.options.traces.as_ref(), lease), lease_ms, is_held)
    };
    let tasks = leased.into_iter().map(task).collect();
    let wish = executor.and_then(|executor| roster::wish(app.engine.executor_seen(executor)));
    Ok(answer::json(StatusCode::OK, &LeaseAnswer { tasks, wish }))
}

async fn lease_at(
    app: &App,
    queues: Vec<QueueKey>,
    ask: LeaseRequest,
) -> Result<Vec<Assignment>, punctual_engine::Error> {
    let max = usize::try_from(ask.max).unwrap_or(usize::MAX);
    let kinds = ask.kinds.filter(|_| ask.only_kinds);
    let kinds = kinds.map(|kinds| kinds.iter().filter_map(|kind| Name::new(kind).ok()).collect());
    let only = Only { concurrency: ask.concurrency, kinds };
    let bounds = ask.queues.iter().map(|queue| queue.max).chain(std::iter::repeat(None));
    let request = |(queue, most): (QueueKey, Option<u32>)| EngineLease {
        queue: Arc::new(queue),
        max: most.and_then(|number| usize::try_from(number).ok()).unwrap_or(max),
        wait_ms: ask.wait_ms,
        lease_ms: i64::try_from(ask.lease_ms).unwrap_or(i64::MAX),
        executor: ask.executor.clone(),
        version: ask.version.clone(),
    };
    let mut requests: Vec<_> = queues.into_iter().zip(bounds).map(request).collect();
    match (requests.len(), requests.pop()) {
        (1, Some(one)) => {
            let one = EngineLease { max: one.max.min(max), ..one };
            app.engine.lease_only(one, only).await
        }
        (_, last) => {
            requests.extend(last);
            app.engine.lease_from_several(requests, max, only).await
        }
    }
}

/// An executor that is to get no tasks waits as long as it would for a task, so that it does not ask in a circle. One
/// that is to end learns of it soon.
async fn nothing_for(
    app: &App,
    who: &Who,
    executor: &Heartbeat,
    wish: DesiredState,
    wait_ms: u64,
) -> Result<Response, Refusal> {
    let wait_ms = if wish == DesiredState::Drain { wait_ms.min(DRAIN_WAIT_MS) } else { wait_ms };
    tokio::select! {
        refusal = who.until_refused(app) => return Err(refusal),
        () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
        () = app.shutdown.cancelled() => {}
        () = app.engine.until_executor(&executor.namespace, &executor.name, true) => {}
    }
    let wish = roster::wish(app.engine.executor_seen(executor.clone()));
    Ok(answer::json(StatusCode::OK, &LeaseAnswer { tasks: Vec::new(), wish }))
}

/// Report the outcomes of up to 10,000 attempts.
///
/// Each outcome is decided by itself. `stale`: the executor does not hold the lease, or the attempt already has an
/// outcome. `invalid`: the outcome is not valid; `error` has the reason, and the lease continues.
/// `accepted_for_later`: the database of the task does not answer; the outcome is durable in the journal of this
/// engine, and counts when the database is back, if the attempt still holds the task. `unavailable`: the database
/// does not answer, and it is unknown whether the outcome counts; report it again. If no outcome can be answered, the
/// complete call is refused. An executor that does not know a status reports the outcome again until it is `accepted`
/// or `stale`.
#[utoipa::path(
    post, path = "/v1/outcomes", operation_id = "report_outcomes", tag = "executors",
    request_body(content = OutcomeBatch, example = json!({"executor": "mailer-1", "outcomes": [
        {"ref": "t002m0spxptn000000000000001", "token": "1-30000", "outcome": "succeeded", "result": {"sent": true}},
        {"ref": "t00100spxptn000000000000002", "token": "4-30000", "outcome": "failed", "status_msg": "mailbox full",
            "retry_after_ms": 60000}
    ]})),
    responses((status = 200, description = "A receipt for each, in order.", body = OutcomesAnswer)),
)]
pub(crate) async fn report_outcomes(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let batch = OutcomeBatch::from_json(&body)?;
    let (mut reports, mut receipts) = (Vec::new(), Vec::with_capacity(batch.outcomes.len()));
    let mut said = Vec::new();
    let items: Vec<_> = batch.items().collect();
    let refs = items.iter().filter_map(|result| result.as_ref().ok()).map(|outcome| outcome.r#ref.as_str());
    let barred = barred(&app, &caller.who, refs).await?;
    let mut unknown: Vec<(usize, BackendError)> = Vec::new();
    let (mut of_workflows, mut holds) = (HashMap::new(), HashMap::new());
    for (nth, item) in items.into_iter().enumerate() {
        if let Some(of) = item.as_ref().ok().and_then(workflow_of) {
            of_workflows.insert(nth, of);
        }
        holds.extend(item.as_ref().ok().and_then(held_by).map(|holder| (nth, holder)));
        let bar = item.as_ref().ok().and_then(|outcome| barred.get(&outcome.r#ref));
        let not_known = bar.and_then(Barred::unknown);
        let is_for_later = not_known.is_some() && app.engine.has_journal();
        unknown.extend(not_known.filter(|_| !is_for_later).map(|error| (nth, error.clone())));
        receipts.push(match item {
            Ok(outcome) if bar.is_some() && !is_for_later => {
                OutcomeReceipt::new(outcome.r#ref, OutcomeStatus::Stale)
            }
            Ok(mut outcome) => {
                said.extend(
                    last_words(&app, batch.executor.as_deref(), &mut outcome).map(|word| (nth, word)),
                );
                let receipt = take_report(&app, &caller, nth, outcome, &mut reports);
                if let Some((_, submission)) = reports.last_mut().filter(|(last, _)| *last == nth) {
                    submission.within = caller.who.grant().filter(|_| is_for_later).cloned();
                    submission.of_workflow = of_workflows.contains_key(&nth);
                }
                receipt
            }
            Err(receipt) => *receipt,
        });
    }
    // Whatever name an executor gives itself: whose token it was is beside it.
    let by = &*caller.who.by_as(Some(batch.executor.as_deref().unwrap_or(BY)));
    let asked = reports.len() + unknown.len();
    let heard = record_heartbeats(&app, said, &mut reports, &mut unknown).await?;
    reports.retain(|(nth, _)| unknown.iter().all(|pair| pair.0 != *nth));
    let (marked, plain) = reports.into_iter().partition(|report| of_workflows.contains_key(&report.0));
    // What is of no workflow does not wait for the marks of the others.
    let with_marks = async {
        let expected = expect(&app, &of_workflows).await;
        Ok::<_, Refusal>((expected, record_outcomes(&app, marked, by).await?))
    };
    let (plain, with_marks) = tokio::join!(record_outcomes(&app, plain, by), with_marks);
    let (expected, marked) = with_marks?;
    let (mut ended, mut given_up) = (Vec::new(), Vec::new());
    for (nth, task, recorded) in plain?.into_iter().chain(marked) {
        if matches!(recorded, Ok(Reported::Accepted))
            && let Some(of) = of_workflows.get(&nth)
        {
            ended.push((*of, task));
        }
        if matches!(recorded, Ok(Reported::Accepted | Reported::ForLater)) {
            given_up.extend(holds.get(&nth));
        }
        let error = set_receipt(receipts.get_mut(nth), recorded, heard.contains(&nth));
        unknown.extend(error.map(|error| (nth, error)));
    }
    app.engine.give_up_places(given_up).await?;
    if let Some(expected) = expected {
        expected.ended(ended);
    }
    if let Some(refusal) = nothing_is_known(&unknown, asked) {
        return Err(refusal);
    }
    say_unavailable(&mut receipts, unknown);
    Ok(answer::json(StatusCode::OK, &OutcomesAnswer { results: receipts }))
}

/// Records the log lines that executors send together with outcomes, before the outcomes, which end the leases. A
/// crash between the two keeps the lines, and the executor reports again. `unknown` gets the reports for which
/// nothing was stored, or may have been. If outcomes are accepted for later, lines that the store did not accept are,
/// too.
async fn record_heartbeats(
    app: &App,
    mut said: Vec<(usize, Beat)>,
    reports: &mut [(usize, Submission)],
    unknown: &mut Vec<(usize, BackendError)>,
) -> Result<HashSet<usize>, Refusal> {
    let has_journal = app.engine.has_journal();
    if has_journal {
        wait_with_reports(&mut said, reports);
    }
    if said.is_empty() {
        return Ok(HashSet::new());
    }
    let (places, beats): (Vec<usize>, Vec<Beat>) = said.into_iter().unzip();
    if !has_journal {
        let heard = app.engine.extend_each(beats).await?;
        unknown.extend(places.iter().zip(heard).filter_map(|(nth, result)| Some((*nth, result.err()?))));
        return Ok(places.into_iter().collect());
    }
    let heard = app.engine.heartbeat_each(beats.clone()).await?;
    let unheard = places.iter().copied().zip(beats).zip(heard).filter(|(_, heard)| heard.is_err());
    go_with_reports(unheard.map(|(said, _)| said).collect(), reports);
    Ok(places.into_iter().collect())
}

/// Returns the result of each outcome, by its index in the request.
async fn record_outcomes(
    app: &App,
    reports: Vec<(usize, Submission)>,
    by: &str,
) -> Result<Vec<(usize, TaskRef, Result<Reported, BackendError>)>, Refusal> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    let (places, reports): (Vec<usize>, Vec<Submission>) = reports.into_iter().unzip();
    let tasks: Vec<TaskRef> = reports.iter().map(|submission| submission.report.place).collect();
    let recorded = app.engine.record_submitted(reports, by).await?;
    Ok(places.into_iter().zip(tasks).zip(recorded).map(|((nth, task), result)| (nth, task, result)).collect())
}

/// Returns `None` if no outcome belongs to a workflow. Other outcomes have nothing to wait for.
async fn expect(app: &App, of_workflows: &HashMap<usize, Option<WorkflowId>>) -> Option<Expected> {
    let runner = app.options.workflows.as_ref().filter(|_| !of_workflows.is_empty())?;
    Some(runner.expect(of_workflows.values().copied().flatten()).await)
}

/// The log lines of a handler since its last heartbeat, as one more heartbeat.
fn last_words(app: &App, executor: Option<&str>, outcome: &mut Outcome) -> Option<Beat> {
    let log = roster::log(std::mem::take(&mut outcome.log), app.engine.now())?;
    let lease =
        LeaseBeat { r#ref: outcome.r#ref.clone(), token: outcome.token.clone(), ..LeaseBeat::default() };
    Some(Beat { log: Some(log), ..beat(app, executor.unwrap_or(BY), lease)? })
}

/// Puts a good outcome with its place among `reports`, and answers the receipt that it has until it is accepted.
fn take_report(
    app: &App,
    caller: &Caller,
    nth: usize,
    outcome: Outcome,
    reports: &mut Vec<(usize, Submission)>,
) -> OutcomeReceipt {
    let mut receipt = OutcomeReceipt::new(outcome.r#ref.clone(), OutcomeStatus::Stale);
    match outcome_report(app, caller, outcome) {
        Ok(Some(report)) => reports.push((nth, report.into())),
        Ok(None) => {}
        Err(refusal) => {
            let mut problem = refusal.into_problem();
            for error in &mut problem.errors {
                error.pointer.insert_str(0, &format!("/outcomes/{nth}"));
            }
            receipt = OutcomeReceipt { status: OutcomeStatus::Invalid, error: Some(problem), ..receipt };
        }
    }
    receipt
}

/// Returns `None` for text that is no reference, because it has no lease.
fn outcome_report(app: &App, caller: &Caller, outcome: Outcome) -> Result<Option<OutcomeReport>, Refusal> {
    let Ok(token) = outcome.token.parse::<Token>() else {
        let error = FieldError::new("/token", "is not a token that a lease has answered");
        let mut problem = Problem::new(Code::RequestInvalid, format!("{}: {}", error.pointer, error.detail));
        problem.errors.push(error);
        return Err(problem.into());
    };
    let Ok(place) = outcome.r#ref.parse::<TaskRef>() else { return Ok(None) };
    let (report, result) = ask::report(outcome, Context::of(app, caller))?;
    Ok(Some(OutcomeReport { place, fence: token.fence, report, result }))
}

/// The tasks that the token does not reach. Costs a read of them if its grant is restricted.
async fn barred(
    app: &App,
    who: &Who,
    refs: impl Iterator<Item = &str>,
) -> Result<HashMap<String, Barred>, Refusal> {
    if who.reaches_everything() {
        return Ok(HashMap::new());
    }
    let refs: Vec<(&str, TaskRef)> = refs.filter_map(|text| Some((text, text.parse().ok()?))).collect();
    let places: Vec<TaskRef> = refs.iter().map(|(_, place)| *place).collect();
    let tasks = read_in_time(app, places).await?;
    let bar = |task: Result<Option<Task>, BackendError>| match task {
        Ok(Some(task)) if !who.sees(&task) => Some(Barred::Beyond),
        Ok(_) => None,
        Err(error) => Some(Barred::Unknown(error)),
    };
    Ok(refs
        .into_iter()
        .zip(tasks)
        .filter_map(|((text, _), task)| Some((text.to_owned(), bar(task)?)))
        .collect())
}

/// Reads tasks, with a time limit if outcomes can be accepted for later.
async fn read_in_time(
    app: &App,
    places: Vec<TaskRef>,
) -> Result<Vec<Result<Option<Task>, BackendError>>, Refusal> {
    if !app.engine.has_journal() {
        return Ok(app.engine.read_each(places).await?);
    }
    let silent = || Err(BackendError::did_not_happen("read tasks", "a database has not answered in time"));
    let (are_known, count) = (places.iter().all(|place| app.engine.is_taken_for_later(*place)), places.len());
    let none = || (0..count).map(|_| silent()).collect();
    if are_known {
        return Ok(none());
    }
    match timeout(READ_WITHIN, app.engine.read_each(places)).await {
        Ok(read) => Ok(read?),
        Err(_) => Ok(none()),
    }
}

/// Send a heartbeat: extend leases, and learn which were lost or should stop.
///
/// Each lease is extended by its requested length. `unavailable`: the database of the task does not answer, and the
/// state of the lease is unknown. If the state of all leases is unknown, the complete call is refused.
#[utoipa::path(
    post, path = "/v1/heartbeats", operation_id = "send_heartbeats", tag = "executors",
    request_body(content = HeartbeatRequest, example = json!({
        "executor": "mailer-1", "capacity": 10,
        "leases": [{"ref": "t002m0spxptn000000000000001", "token": "1-30000", "progress": {"percent": 40}}]
    })),
    responses((status = 200, description = "The state of each lease, in order.", body = HeartbeatAnswer)),
)]
pub(crate) async fn send_heartbeats(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let request = HeartbeatRequest::from_json(&body)?;
    let is_reached = caller.who.reaches_namespace(&caller.namespace);
    let who = if is_reached { roster::beats(&caller.namespace, &request) } else { None };
    let wish = who.and_then(|seen| roster::wish(app.engine.executor_seen(seen)));
    let HeartbeatRequest { executor, leases, .. } = request;
    let mut news: Vec<LeaseNews> = leases.iter().map(|lease| LeaseNews::lost(lease.r#ref.clone())).collect();
    let barred = barred(&app, &caller.who, leases.iter().map(|lease| lease.r#ref.as_str())).await?;
    let (mut places, mut beats, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, lease) in leases.into_iter().enumerate() {
        match barred.get(&lease.r#ref) {
            Some(Barred::Beyond) => {}
            Some(Barred::Unknown(error)) => {
                if let Some(news) = news.get_mut(nth) {
                    *news = LeaseNews::unavailable(lease.r#ref);
                }
                unknown.push((nth, error.clone()));
            }
            None => {
                let Some(beat) = beat(&app, &executor, lease) else { continue };
                places.push(nth);
                beats.push(beat);
            }
        }
    }
    let asked = beats.len() + unknown.len();
    let extended = app.engine.extend_each(beats).await?;
    for (nth, extended) in places.into_iter().zip(extended) {
        let Some(news) = news.get_mut(nth) else { continue };
        match extended {
            Ok(Extended::Held { lease_until, cancel_requested, has_begun }) => {
                let place = std::mem::take(&mut news.r#ref);
                let extended = LeaseNews::extended(place, lease_until.0, cancel_requested);
                *news = LeaseNews { has_begun: Some(has_begun), ..extended };
            }
            Ok(_) => {}
            Err(error) => {
                *news = LeaseNews::unavailable(std::mem::take(&mut news.r#ref));
                unknown.push((nth, error));
            }
        }
    }
    if let Some(refusal) = nothing_is_known(&unknown, asked) {
        return Err(refusal);
    }
    Ok(answer::json(StatusCode::OK, &HeartbeatAnswer { leases: news, wish }))
}

/// Returns `None` for text that is no reference, or no token, because it holds no lease.
fn beat(app: &App, executor: &str, lease: LeaseBeat) -> Option<Beat> {
    let token = lease.token.parse::<Token>().ok()?;
    Some(Beat {
        place: lease.r#ref.parse().ok()?,
        fence: token.fence,
        lease_until: app.engine.now().plus(token.lease_ms),
        progress: lease.progress.map(punctual_protocol::Json::into_text),
        log: roster::log(lease.log, app.engine.now()),
        executor: executor.to_owned(),
        handed_over_at: None,
    })
}
