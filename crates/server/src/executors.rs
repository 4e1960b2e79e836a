//! Executors that pull: lease, outcomes, heartbeats. A `ref` with its token is proof enough of a lease, so these calls
//! look at no namespace but that of the queue; only of callers that reach not everything it is looked up what their
//! leases are of.

use crate::{
    access::Who,
    answer,
    app::{App, Shared},
    ask::{self, Context},
    extract::{Body, Caller, Queue},
    namespaces,
    refusal::Refusal,
    roster,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_contract::{
    Error as BackendError, Happened,
    limiter::Member,
    store::{Assignment, Beat, Extended},
    workflows::WorkflowId,
};
use punctual_domain::{executor::Wish, place::TaskRef, task::Task};
use punctual_engine::{LeaseRequest as EngineLease, OutcomeReport, Seen, Settled};
use punctual_protocol::{
    Code, FieldError, HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseBeat, LeaseNews, LeaseRequest,
    Outcome, OutcomeBatch, OutcomeReceipt, OutcomeStatus, OutcomesAnswer, Problem, Token,
};
use punctual_workflows::Expected;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Who reports, in histories, when nobody says it: the executor's name is in the line of its lease.
const BY: &str = "executor";
const DRAIN_WAIT_MS: u64 = 1_000;

/// Lease ready tasks, waiting for the first one.
///
/// Answers as soon as there is a task, at the latest after `wait_ms`; `tasks` is empty when none came. The body may be
/// left out. A caller that hangs up loses nothing: what was leased for it is given back.
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
    let it = LeaseRequest::from_json(&body)?;
    let lease_ms = i64::try_from(it.lease_ms).unwrap_or(i64::MAX);
    let who = roster::asks(&queue, &it);
    let wish = who.as_ref().map_or(Wish::Serve, |it| app.engine.executor_seen(it.clone()));
    if let (Some(who), Wish::Quiet | Wish::Drain) = (&who, wish) {
        return Ok(nothing_for(&app, who, wish, it.wait_ms).await);
    }
    let request = EngineLease {
        queue: Arc::new(queue),
        max: usize::try_from(it.max).unwrap_or(usize::MAX),
        wait_ms: it.wait_ms,
        lease_ms,
        executor: it.executor,
        version: it.version,
    };
    let lease = async {
        match it.concurrency {
            Some(most) => app.engine.lease_within(request, most).await,
            None => app.engine.lease(request).await,
        }
    };
    let leased = tokio::select! {
        leased = lease => leased?,
        // Dropping the other loses no task: what it was granted is given back.
        () = app.shutdown.cancelled() => Vec::new(),
        () = roster::told_otherwise(&app.engine, who.as_ref()) => Vec::new(),
    };
    let is_held = it.concurrency.is_some();
    let tasks = leased.into_iter().map(|it| answer::leased(traced(&app, it), lease_ms, is_held)).collect();
    let wish = who.and_then(|it| roster::wish(app.engine.executor_seen(it)));
    Ok(answer::json(StatusCode::OK, &LeaseAnswer { tasks, wish }))
}

/// Where traces are told of, the executor's spans go below the one of its attempt.
fn traced(app: &App, mut assignment: Assignment) -> Assignment {
    if let Some(traces) = &app.options.traces {
        let handed = |it| traces.handed(it, assignment.place.id, assignment.attempt);
        assignment.traceparent = assignment.traceparent.take().map(handed);
    }
    assignment
}

/// An executor that is to get no tasks waits as long as it would for a task, so that it does not ask in a circle. One
/// that is to end hears of it soon.
async fn nothing_for(app: &App, who: &Seen, wish: Wish, wait_ms: u64) -> Response {
    let wait_ms = if wish == Wish::Drain { wait_ms.min(DRAIN_WAIT_MS) } else { wait_ms };
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
        () = app.shutdown.cancelled() => {}
        () = app.engine.until_executor(&who.namespace, &who.name, true) => {}
    }
    let wish = roster::wish(app.engine.executor_seen(who.clone()));
    answer::json(StatusCode::OK, &LeaseAnswer { tasks: Vec::new(), wish })
}

/// Report what became of up to 10,000 attempts.
///
/// Each is decided on its own. `stale`: the lease was not, or no longer, this executor's, or the attempt has an
/// outcome already. `invalid`: it could not be understood; `error` says why, and the lease goes on. `unavailable`: one of
/// several databases does not answer, and whether the outcome counts is not known; report it again. Where no outcome can be
/// answered the call is refused as a whole. To an executor that does not know a status the outcome is not settled.
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
    let refs = items.iter().filter_map(|it| it.as_ref().ok()).map(|it| it.r#ref.as_str());
    let barred = barred(&app, &caller.who, refs).await?;
    let mut unknown: Vec<(usize, BackendError)> = Vec::new();
    let (mut of_workflows, mut holds) = (HashMap::new(), HashMap::new());
    for (nth, item) in items.into_iter().enumerate() {
        if let Some(of) = item.as_ref().ok().and_then(workflow_of) {
            of_workflows.insert(nth, of);
        }
        holds.extend(item.as_ref().ok().and_then(held_by).map(|it| (nth, it)));
        let bar = item.as_ref().ok().and_then(|outcome| barred.get(&outcome.r#ref));
        if let Some(Barred::Unknown(error)) = bar {
            unknown.push((nth, error.clone()));
        }
        receipts.push(match item {
            Ok(outcome) if bar.is_some() => OutcomeReceipt::new(outcome.r#ref, OutcomeStatus::Stale),
            Ok(mut outcome) => {
                said.extend(last_words(&app, batch.executor.as_deref(), &mut outcome).map(|it| (nth, it)));
                take_report(&app, &caller, nth, outcome, &mut reports)
            }
            Err(receipt) => *receipt,
        });
    }
    let by = batch.executor.as_deref().unwrap_or(BY);
    let asked = reports.len() + unknown.len();
    if !said.is_empty() {
        // Before the outcomes: after them the leases are gone. A crash between the two keeps the lines, and the
        // executor reports again.
        let (places, said): (Vec<usize>, Vec<Beat>) = said.into_iter().unzip();
        let heard = app.engine.extend_each(said).await?;
        unknown.extend(places.into_iter().zip(heard).filter_map(|(nth, it)| Some((nth, it.err()?))));
        reports.retain(|(nth, _)| unknown.iter().all(|it| it.0 != *nth));
    }
    let (marked, plain) = reports.into_iter().partition(|it| of_workflows.contains_key(&it.0));
    // What is of no workflow does not wait for the marks of the others.
    let with_marks = async {
        let expected = expect(&app, &of_workflows).await;
        Ok::<_, Refusal>((expected, settle(&app, marked, by).await?))
    };
    let (plain, with_marks) = tokio::join!(settle(&app, plain, by), with_marks);
    let (expected, marked) = with_marks?;
    let (mut ended, mut given_up) = (Vec::new(), Vec::new());
    for (nth, task, settled) in plain?.into_iter().chain(marked) {
        if matches!(settled, Ok(Settled::Accepted))
            && let Some(of) = of_workflows.get(&nth)
        {
            ended.push((*of, task));
        }
        if matches!(settled, Ok(Settled::Accepted)) {
            given_up.extend(holds.get(&nth));
        }
        match (settled, receipts.get_mut(nth)) {
            (Ok(Settled::Accepted), Some(receipt)) => receipt.status = OutcomeStatus::Accepted,
            (Err(error), _) => unknown.push((nth, error)),
            _ => {}
        }
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

fn say_unavailable(receipts: &mut [OutcomeReceipt], unknown: Vec<(usize, BackendError)>) {
    for (nth, error) in unknown {
        if let Some(receipt) = receipts.get_mut(nth) {
            (receipt.status, receipt.error) =
                (OutcomeStatus::Unavailable, Some(Refusal::quietly(&error).into_problem()));
        }
    }
}

/// What became of each, by its place in the request.
async fn settle(
    app: &App,
    reports: Vec<(usize, OutcomeReport)>,
    by: &str,
) -> Result<Vec<(usize, TaskRef, Result<Settled, BackendError>)>, Refusal> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    let (places, reports): (Vec<usize>, Vec<OutcomeReport>) = reports.into_iter().unzip();
    let tasks: Vec<TaskRef> = reports.iter().map(|it| it.place).collect();
    let settled = app.engine.settle_each(reports, by).await?;
    if let Some(traces) = &app.options.traces {
        let accepted = tasks.iter().zip(&settled).filter(|it| matches!(it.1, Ok(Settled::Accepted)));
        accepted.for_each(|it| traces.ended(*it.0));
    }
    Ok(places.into_iter().zip(tasks).zip(settled).map(|((nth, task), it)| (nth, task, it)).collect())
}

/// Its lease said so: that it is of one, and of which.
fn workflow_of(it: &Outcome) -> Option<Option<WorkflowId>> {
    let token = it.token.parse::<Token>().ok().filter(|it| it.is_of_workflow)?;
    Some(token.workflow.map(WorkflowId))
}

/// What it holds of what its executor holds at most, if its lease was made for one that says so.
fn held_by(it: &Outcome) -> Option<Member> {
    let token = it.token.parse::<Token>().ok().filter(|it| it.is_held)?;
    Some(Member { id: it.r#ref.parse::<TaskRef>().ok()?.id, fence: token.fence })
}

/// None: nothing is of a workflow. What is of none has nothing to wait for.
async fn expect(app: &App, of_workflows: &HashMap<usize, Option<WorkflowId>>) -> Option<Expected> {
    let runner = app.options.workflows.as_ref().filter(|_| !of_workflows.is_empty())?;
    Some(runner.expect(of_workflows.values().copied().flatten()).await)
}

/// None of those that were asked for has an answer: the call is refused as a whole.
fn nothing_is_known(unknown: &[(usize, BackendError)], asked: usize) -> Option<Refusal> {
    let (_, first) = unknown.first()?;
    if unknown.len() < asked {
        tracing::warn!(error = %first, items = unknown.len(), asked, "a database does not answer; the others' items are answered");
        return None;
    }
    let happened = |it: &&(usize, BackendError)| it.1.happened == Happened::Maybe;
    Some(unknown.iter().find(happened).map_or(first, |it| &it.1).clone().into())
}

/// Why what an executor says of a task does not count.
enum Barred {
    /// The token does not reach it: its lease is nobody's.
    Beyond,
    /// Its database does not answer whether the token does.
    Unknown(BackendError),
}

/// Of these tasks, those of which the token may not say anything. Costs a read of the tasks, of tokens that reach not
/// everything.
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
    let tasks = app.engine.read_each(places).await?;
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

/// What a handler said since its last heartbeat, as one more of them.
fn last_words(app: &App, executor: Option<&str>, it: &mut Outcome) -> Option<Beat> {
    let log = roster::log(std::mem::take(&mut it.log), app.engine.now())?;
    let lease = LeaseBeat { r#ref: it.r#ref.clone(), token: it.token.clone(), ..LeaseBeat::default() };
    Some(Beat { log: Some(log), ..beat(app, executor.unwrap_or(BY), lease)? })
}

/// Puts a good outcome with its place among `reports`, and answers the receipt that it has until it is accepted.
fn take_report(
    app: &App,
    caller: &Caller,
    nth: usize,
    outcome: Outcome,
    reports: &mut Vec<(usize, OutcomeReport)>,
) -> OutcomeReceipt {
    let mut receipt = OutcomeReceipt::new(outcome.r#ref.clone(), OutcomeStatus::Stale);
    match outcome_report(app, caller, outcome) {
        Ok(Some(report)) => reports.push((nth, report)),
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

/// None: what is no reference has no lease.
fn outcome_report(app: &App, caller: &Caller, it: Outcome) -> Result<Option<OutcomeReport>, Refusal> {
    let Ok(token) = it.token.parse::<Token>() else {
        let error = FieldError::new("/token", "is not a token that a lease has answered");
        let mut problem = Problem::new(Code::RequestInvalid, format!("{}: {}", error.pointer, error.detail));
        problem.errors.push(error);
        return Err(problem.into());
    };
    let Ok(place) = it.r#ref.parse::<TaskRef>() else { return Ok(None) };
    let (report, result) = ask::report(it, Context::of(app, caller))?;
    Ok(Some(OutcomeReport { place, fence: token.fence, report, result }))
}

/// Signs of life: extend leases, learn which were lost or should stop.
///
/// Each lease is extended by as much as it was asked for. `unavailable`: one of several databases does not answer, and
/// nothing is known of the lease. Where nothing is known of any the call is refused as a whole.
#[utoipa::path(
    post, path = "/v1/heartbeats", operation_id = "send_heartbeats", tag = "executors",
    request_body(content = HeartbeatRequest, example = json!({
        "executor": "mailer-1", "capacity": 10,
        "leases": [{"ref": "t002m0spxptn000000000000001", "token": "1-30000", "progress": {"percent": 40}}]
    })),
    responses((status = 200, description = "News of each lease, in order.", body = HeartbeatAnswer)),
)]
pub(crate) async fn send_heartbeats(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let request = HeartbeatRequest::from_json(&body)?;
    let is_reached = caller.who.reaches_namespace(&caller.namespace);
    let who = if is_reached { roster::beats(&caller.namespace, &request) } else { None };
    let wish = who.and_then(|it| roster::wish(app.engine.executor_seen(it)));
    let HeartbeatRequest { executor, leases, .. } = request;
    let mut news: Vec<LeaseNews> = leases.iter().map(|it| LeaseNews::lost(it.r#ref.clone())).collect();
    let barred = barred(&app, &caller.who, leases.iter().map(|it| it.r#ref.as_str())).await?;
    let (mut places, mut beats, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, lease) in leases.into_iter().enumerate() {
        match barred.get(&lease.r#ref) {
            Some(Barred::Beyond) => {}
            Some(Barred::Unknown(error)) => {
                if let Some(it) = news.get_mut(nth) {
                    *it = LeaseNews::unavailable(lease.r#ref);
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
        let Some(it) = news.get_mut(nth) else { continue };
        match extended {
            Ok(Extended::Held { lease_until, cancel_requested }) => {
                *it = LeaseNews::extended(std::mem::take(&mut it.r#ref), lease_until.0, cancel_requested);
            }
            Ok(_) => {}
            Err(error) => {
                *it = LeaseNews::unavailable(std::mem::take(&mut it.r#ref));
                unknown.push((nth, error));
            }
        }
    }
    if let Some(refusal) = nothing_is_known(&unknown, asked) {
        return Err(refusal);
    }
    Ok(answer::json(StatusCode::OK, &HeartbeatAnswer { leases: news, wish }))
}

/// None: what is no reference, or no token, holds no lease.
fn beat(app: &App, executor: &str, it: LeaseBeat) -> Option<Beat> {
    let token = it.token.parse::<Token>().ok()?;
    Some(Beat {
        place: it.r#ref.parse().ok()?,
        fence: token.fence,
        lease_until: app.engine.now().plus(token.lease_ms),
        progress: it.progress.map(punctual_protocol::Json::into_text),
        log: roster::log(it.log, app.engine.now()),
        executor: executor.to_owned(),
        handed_over_at: None,
    })
}
