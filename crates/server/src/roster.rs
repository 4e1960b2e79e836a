//! The calls about executors: their own registration, and the calls by which operators list and drain them. Delivers
//! no task.

use crate::{
    access::Changed,
    answer,
    app::Shared,
    extract::{Caller, ExecutorName, Query},
    pages,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_contract::Error as BackendError;
use punctual_domain::{
    executor::{self, DesiredState, ExecutorStatus, HOLDS_MAX, Profile},
    log::{self, LogLine},
    name::{Name, QueueKey},
    task::Task,
    time::Millis,
};
use punctual_engine::{Engine, Heartbeat};
use punctual_protocol::{
    At, Code, Executor, ExecutorState, HeartbeatRequest, HeldLease, LeaseRequest, ListExecutors, NewLogLine,
    Page, Token, Wish as WireWish, limits,
};

/// Longer than the longest pause between two signs of an idle worker, three times over.
const ALIVE_MS: i64 = 30_000;
/// Leases can be long; how soon a death is noticed should not.
const ALIVE_MAX_MS: i64 = 300_000;

/// An executor that asks for work, or `None` if it has no name of its own.
pub(crate) fn asks(queues: &[QueueKey], request: &LeaseRequest) -> Option<Heartbeat> {
    let namespace = &queues.first()?.namespace;
    let profile = Profile {
        version: request.version.clone(),
        host: request.host.clone(),
        capacity: request.capacity,
        concurrency: request.concurrency,
        queues: Some(queues.iter().map(|queue| queue.queue.as_str().to_owned()).collect()),
        kinds: request.kinds.clone(),
        labels: request.labels.clone(),
        ..Profile::default()
    };
    let silence_ms = request.wait_ms.saturating_add(request.lease_ms);
    seen(namespace, &request.executor, profile, i64::try_from(silence_ms).unwrap_or(i64::MAX))
}

/// An executor that gives a heartbeat.
pub(crate) fn beats(namespace: &Name, request: &HeartbeatRequest) -> Option<Heartbeat> {
    let profile = Profile {
        version: request.version.clone(),
        host: request.host.clone(),
        capacity: request.capacity,
        concurrency: None,
        queues: request.queues.clone(),
        kinds: request.kinds.clone(),
        labels: request.labels.clone(),
        holds: Some(request.leases.iter().take(HOLDS_MAX).map(|lease| lease.r#ref.clone()).collect()),
        running: u64::try_from(request.leases.len()).ok(),
    };
    let lease_ms = request
        .leases
        .iter()
        .filter_map(|lease| lease.token.parse::<Token>().ok())
        .map(|token| token.lease_ms)
        .max();
    let seen = seen(namespace, &request.executor, profile, lease_ms.unwrap_or_default())?;
    Some(Heartbeat { leaving: request.leaving, ..seen })
}

fn seen(namespace: &Name, name: &str, profile: Profile, silence_ms: i64) -> Option<Heartbeat> {
    if name == limits::DEFAULT_EXECUTOR {
        return None;
    }
    let alive_for_ms = silence_ms.saturating_add(ALIVE_MS / 3).clamp(ALIVE_MS, ALIVE_MAX_MS);
    Some(Heartbeat {
        namespace: namespace.clone(),
        name: Name::chosen(name).ok()?,
        profile,
        alive_for_ms,
        leaving: false,
    })
}

/// Done when an executor that asks for work is to get none any more.
pub(crate) async fn until_no_more_work(engine: &Engine, who: Option<&Heartbeat>) {
    match who {
        Some(seen) => engine.until_executor(&seen.namespace, &seen.name, false).await,
        None => std::future::pending().await,
    }
}

pub(crate) const fn wish(wish: DesiredState) -> Option<WireWish> {
    match wish {
        DesiredState::Serve => None,
        DesiredState::Quiet => Some(WireWish::Quiet),
        DesiredState::Drain => Some(WireWish::Drain),
    }
}

/// The stored form of log lines. `None` if there are none.
pub(crate) fn log(lines: Vec<NewLogLine>, now: Millis) -> Option<String> {
    let line =
        |line: NewLogLine| LogLine { at: line.at_ms.map_or(now, Millis), level: line.level, text: line.text };
    log::encode(lines.into_iter().map(line))
}

/// List the executors of the namespace.
///
/// The executors are in the order of names. A silent executor is listed as `dead` for a day; one that ended regularly
/// is not listed. Executors without a name of their own (`anonymous`) are not listed either.
#[utoipa::path(
    get, path = "/v1/executors", operation_id = "list_executors", tag = "executors", params(ListExecutors),
    responses((status = 200, description = "A page of executors.", body = Page<Executor>)),
)]
pub(crate) async fn list_executors(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<ListExecutors>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(limits::PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let from = asked.cursor.as_deref().unwrap_or_default();
    if !caller.who.reaches_namespace(&caller.namespace) {
        return Ok(answer::json(StatusCode::OK, &Page::<Executor> { items: Vec::new(), next_cursor: None }));
    }
    let mut found = seen_from(&app.engine, &caller, from.to_owned(), limit + 1).await?;
    let next_cursor = found.get(limit).map(|executor| executor.name.as_str().to_owned());
    found.truncate(limit);
    let now = app.engine.now();
    let items = found.into_iter().map(|executor| shown(executor, now)).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// The first that the token sees, from a name on. Those that it does not are passed over and leave no trace, not in a cursor
/// either.
async fn seen_from(
    engine: &Engine,
    caller: &Caller,
    mut from: String,
    wanted: usize,
) -> Result<Vec<executor::Executor>, Refusal> {
    let (page, mut seen) = (pages::asked(&caller.who, wanted), Vec::new());
    loop {
        let found = engine.store().executors(&caller.namespace, &from, page).await?;
        // The first name behind the last one of the page.
        let next = found.last().filter(|_| found.len() == page).map(|executor| format!("{}-", executor.name));
        seen.extend(found.into_iter().filter(|executor| is_seen(caller, executor)));
        match next {
            Some(next) if seen.len() < wanted => from = next,
            _ => {
                seen.truncate(wanted);
                return Ok(seen);
            }
        }
    }
}

/// Get an executor with the tasks that it runs.
#[utoipa::path(
    get, path = "/v1/executors/{executor}", operation_id = "get_executor", tag = "executors",
    params(("executor" = String, Path, description = "The name of the executor, in the namespace of the caller.")),
    responses((status = 200, description = "The executor.", body = Executor)),
)]
pub(crate) async fn get_executor(
    State(app): State<Shared>,
    caller: Caller,
    ExecutorName(name): ExecutorName,
) -> Result<Response, Refusal> {
    one(&app.engine, &caller, &name).await
}

/// True if the executor works for a queue that the token reaches.
fn is_seen(caller: &Caller, executor: &executor::Executor) -> bool {
    let is_reached = |queue: &String| {
        let queue = Name::chosen(queue).map(|queue| QueueKey { namespace: caller.namespace.clone(), queue });
        queue.is_ok_and(|queue| caller.who.reaches(&queue))
    };
    caller.who.reaches_namespace(&caller.namespace)
        && (caller.who.reaches_all_queues() || executor.profile.queues.iter().flatten().any(is_reached))
}

/// The executor, if it is there for the caller.
async fn known(
    engine: &Engine,
    caller: &Caller,
    name: &Name,
) -> Result<Option<executor::Executor>, BackendError> {
    let found = engine.store().executors(&caller.namespace, name.as_str(), 1).await?.pop();
    Ok(found.filter(|executor| executor.name == *name && is_seen(caller, executor)))
}

async fn find(engine: &Engine, caller: &Caller, name: &Name) -> Result<executor::Executor, Refusal> {
    known(engine, caller, name).await?.ok_or_else(|| no_executor(name))
}

async fn one(engine: &Engine, caller: &Caller, name: &Name) -> Result<Response, Refusal> {
    let found = find(engine, caller, name).await?;
    let places: Vec<_> = found.profile.places().collect();
    let tasks = engine.store().read(&places).await?;
    // An executor says itself what it holds.
    let is_its = |task: &Task| task.ask.queue.namespace == caller.namespace && caller.who.sees(task);
    let leases = tasks.into_iter().flatten().filter(is_its).filter_map(|task| held(task, name)).collect();
    let shown = Executor { leases: Some(leases), ..shown(found, engine.now()) };
    Ok(answer::json(StatusCode::OK, &shown))
}

fn no_executor(name: &Name) -> Refusal {
    Refusal::new(Code::ExecutorNotFound, format!("the namespace has no executor of the name {name}"))
}

/// Drain an executor.
///
/// It gets no new tasks: at this engine from the answer on, at the others within three seconds. It learns of this with its
/// next heartbeat or lease, finishes its tasks and exits. Replaces a `quiet`.
#[utoipa::path(
    post, path = "/v1/executors/{executor}/drain", operation_id = "drain_executor", tag = "executors",
    params(("executor" = String, Path, description = "The name of the executor, in the namespace of the caller.")),
    responses((status = 200, description = "The executor after the change.", body = Executor)),
)]
pub(crate) async fn drain_executor(
    State(app): State<Shared>,
    caller: Caller,
    name: ExecutorName,
) -> Result<Response, Refusal> {
    set(&app.engine, &caller, name, DesiredState::Drain).await
}

/// Give an executor no new tasks until it is resumed.
#[utoipa::path(
    post, path = "/v1/executors/{executor}/quiet", operation_id = "quiet_executor", tag = "executors",
    params(("executor" = String, Path, description = "The name of the executor, in the namespace of the caller.")),
    responses((status = 200, description = "The executor after the change.", body = Executor)),
)]
pub(crate) async fn quiet_executor(
    State(app): State<Shared>,
    caller: Caller,
    name: ExecutorName,
) -> Result<Response, Refusal> {
    set(&app.engine, &caller, name, DesiredState::Quiet).await
}

/// Give an executor new tasks again.
#[utoipa::path(
    post, path = "/v1/executors/{executor}/resume", operation_id = "resume_executor", tag = "executors",
    params(("executor" = String, Path, description = "The name of the executor, in the namespace of the caller.")),
    responses((status = 200, description = "The executor after the change.", body = Executor)),
)]
pub(crate) async fn resume_executor(
    State(app): State<Shared>,
    caller: Caller,
    name: ExecutorName,
) -> Result<Response, Refusal> {
    set(&app.engine, &caller, name, DesiredState::Serve).await
}

async fn set(
    engine: &Engine,
    caller: &Caller,
    ExecutorName(name): ExecutorName,
    wish: DesiredState,
) -> Result<Response, Refusal> {
    // One that has called only just now is written down with the desired state.
    let sees_all = caller.who.reaches_namespace(&caller.namespace) && caller.who.reaches_all_queues();
    if !sees_all && known(engine, caller, &name).await?.is_none() {
        return Err(no_executor(&name));
    }
    let Some(stood) = engine.desired_state_of_executor(&caller.namespace, &name, wish).await? else {
        return Err(no_executor(&name));
    };
    let found = known(engine, caller, &name).await.map_err(|error| Refusal::from(error).after_a_change())?;
    let now = engine.now();
    // What was changed is what is wished.
    let with = |wish: DesiredState| {
        let executor = executor::Executor { desired: wish, ..found.clone()? };
        let queues = &executor.profile.queues;
        let reported = serde_json::json!({ "executor": executor.name.as_str(), "state": state(&executor, now), "queues": queues });
        Some(reported.to_string())
    };
    let changed = Changed { before: with(stood), after: with(wish), reason: None };
    Ok(changed.reported_with(one(engine, caller, &name).await.map_err(Refusal::after_a_change)?))
}

fn state(executor: &executor::Executor, now: Millis) -> ExecutorState {
    match executor.status(now) {
        ExecutorStatus::Alive => ExecutorState::Alive,
        ExecutorStatus::Quiet => ExecutorState::Quiet,
        ExecutorStatus::Draining => ExecutorState::Draining,
        ExecutorStatus::Dead => ExecutorState::Dead,
    }
}

fn shown(executor: executor::Executor, now: Millis) -> Executor {
    let state = state(&executor, now);
    let at = |instant: Millis| At::from_ms(instant.0);
    Executor {
        name: executor.name.as_str().to_owned(),
        state,
        version: executor.profile.version,
        host: executor.profile.host,
        capacity: executor.profile.capacity,
        concurrency: executor.profile.concurrency,
        running: executor.profile.running,
        queues: executor.profile.queues.unwrap_or_default(),
        kinds: executor.profile.kinds.unwrap_or_default(),
        labels: executor.profile.labels.unwrap_or_default(),
        first_seen_at: at(executor.first_seen_at),
        first_seen_at_ms: executor.first_seen_at.0,
        last_seen_at: at(executor.seen_at),
        last_seen_at_ms: executor.seen_at.0,
        alive_until: at(executor.alive_until),
        alive_until_ms: executor.alive_until.0,
        leases: None,
    }
}

/// Returns `None` if another executor holds the task, or none.
fn held(task: Task, executor: &Name) -> Option<HeldLease> {
    let lease = task.lease.as_ref().filter(|lease| lease.executor == executor.as_str())?;
    Some(HeldLease {
        r#ref: task.place.to_string(),
        task_id: task.task_id(),
        task_version: task.ask.task_version,
        queue: task.ask.queue.queue.as_str().to_owned(),
        kind: task.ask.kind.as_str().to_owned(),
        state: answer::state(task.state),
        attempt: task.attempt,
        since: Some(At::from_ms(lease.since.0)),
        since_ms: Some(lease.since.0),
        lease_until: At::from_ms(lease.until.0),
        lease_until_ms: lease.until.0,
        cancel_requested: lease.cancel_requested,
    })
}
