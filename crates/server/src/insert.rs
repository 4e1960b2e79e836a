//! Inserts, single and in batches. A batch is one call of the engine; invalid items never reach the engine.

use crate::{
    answer,
    app::{App, Shared},
    ask::{self, Context},
    etag,
    extract::{Body, Caller, Query},
    hash,
    idempotency::Earlier,
    lookup, namespaces,
    refusal::Refusal,
    waiting,
};
use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use punctual_contract::store::Inserted;
use punctual_domain::{
    insert::{Decision, OnConflict},
    key::Key,
    place::TaskRef,
    settings::Scope,
    task::{NewTask, Task},
    time::Span,
};
use punctual_engine::{Full, Refused, TooFast, TooManyBytes};
use punctual_protocol::{
    BatchAnswer, BatchItem, Code, InsertBatch, InsertOutcome, InsertTask, Problem, Task as WireTask,
    WaitForEnd,
};
use std::time::Duration;

/// Versions of one id: more than a caller keeps.
const VERSIONS_LOOKED_AT: usize = 1_000;
/// The interval in which waiting tasks are counted.
const FULL_RETRY_AFTER_MS: u64 = 1_000;

/// Insert a task.
///
/// An acknowledged task is durable. If a task with the same `task_id` and `task_version`, or with the same `key`, exists:
/// one that has not begun, or is dead or cancelled, is replaced; one that runs or has succeeded is the answer.
/// `on_conflict` changes this. With an `Idempotency-Key` and no id, a repeated request finds its task even after a crash of
/// the server. A payload above `payloads.inline_max_bytes` is stored outside the database, and is not in the answer.
/// With `wait_ms` the answer comes when the task has ended, at the latest after `wait_ms`.
#[utoipa::path(
    post, path = "/v1/tasks", operation_id = "insert_task", tag = "tasks", params(WaitForEnd),
    request_body(content = InsertTask, example = json!({
        "queue": "mail", "kind": "welcome", "delay_ms": 1500, "payload": {"to": "ada@example.org"}
    })),
    responses(
        (status = 201, description = "Stored: `outcome` is `created` or `replaced`.", body = WireTask,
            headers(("ETag" = String), ("Location" = String))),
        (status = 200, description = "The task already existed, and nothing changed: `outcome` is `existing`.",
            body = WireTask, headers(("ETag" = String), ("Location" = String))),
    ),
)]
pub(crate) async fn insert_task(
    State(app): State<Shared>,
    caller: Caller,
    Query(parameters): Query<WaitForEnd>,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let limit = waiting::limit_of(parameters)?;
    let (status, task, outcome) = insert_one(&app, &caller, &body).await?;
    if limit.is_zero() || task.state.is_finished() {
        return Ok(answer_one(status, task, outcome));
    }
    // The task is durable. Whatever fails from here on, an error would make the caller insert it again.
    let ended = ended(&app, &caller, task.place, limit).await;
    Ok(answer_one(status, ended.unwrap_or(task), outcome))
}

/// The task as it is at its end or after `limit`.
async fn ended(app: &Shared, caller: &Caller, place: TaskRef, limit: Duration) -> Result<Task, Refusal> {
    waiting::until_ended(app, &caller.who, place, limit).await?;
    let task = app.engine.whole(lookup::task_of(app, caller, place).await?).await?;
    Ok(app.engine.as_fired(task))
}

/// Returns the status of the answer, the task and what the insert did.
async fn insert_one(app: &App, caller: &Caller, body: &[u8]) -> Result<(u16, Task, InsertOutcome), Refusal> {
    let context = Context::of(app, caller);
    not_too_many(context)?;
    let task = ask::new_task(InsertTask::from_json(body)?, context)?;
    let mut one = Numbered { nth: 0, task };
    let known = give_ids_of_key(context, std::slice::from_mut(&mut one)).await?.pop().flatten();
    let new = one.task;
    if let Some(existing) = known {
        return Ok((200, existing, InsertOutcome::Existing));
    }
    if let Some(Some(refused)) = app.engine.refused(std::slice::from_ref(&new)).await?.pop() {
        return Err(not_now(refused, caller).into());
    }
    if let Some(refusal) = of_others(context, std::slice::from_ref(&new)).await?.pop().flatten() {
        return Err(refusal);
    }
    let inserted = app.engine.insert(vec![new], caller.who.by()).await?.pop();
    let inserted = inserted.ok_or_else(|| Refusal::new(Code::Internal, "the store answered for no task"))?;
    seen(caller, &inserted.task)?;
    let (status, outcome) = verdict(&inserted)?;
    Ok((status, inserted.task, outcome))
}

/// Insert up to 10,000 tasks.
///
/// Each task is decided by itself. `results` has, in the order of `tasks`, the answers of single inserts. If the request is
/// repeated with its `Idempotency-Key`, tasks that were refused for now (429, 5xx) are tried again, and the other results
/// stay the same.
#[utoipa::path(
    post, path = "/v1/tasks/batch", operation_id = "insert_batch", tag = "tasks",
    request_body(content = InsertBatch, example = json!({
        "tasks": [{"queue": "mail", "delay_ms": 0}, {"queue": "mail", "task_id": 7, "task_version": 2}]
    })),
    responses((status = 200, description = "Each item has its own status.", body = BatchAnswer)),
)]
pub(crate) async fn insert_batch(
    State(app): State<Shared>,
    caller: Caller,
    earlier: Option<Extension<Earlier>>,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let context = Context::of(&app, &caller);
    not_too_many(context)?;
    let batch = InsertBatch::from_json(&body)?;
    let earlier = earlier.map(|Extension(earlier)| earlier).unwrap_or_default();
    let (mut open, mut results) =
        (Vec::with_capacity(batch.tasks.len()), Vec::with_capacity(batch.tasks.len()));
    let mut valid = 0;
    for (nth, item) in batch.items().enumerate() {
        let converted = item
            .map_err(Refusal::from)
            .and_then(|task| ask::new_task(task, context).map_err(|refusal| under(refusal, nth)));
        results.push(match converted {
            Err(refusal) => Some(BatchItem::refused(refusal.into_problem())),
            Ok(task) => {
                let settled = earlier.settled(nth);
                if settled.is_none() {
                    open.push(Numbered { nth: valid, task });
                }
                valid += 1;
                settled
            }
        });
    }
    let mut inserted = insert_all(context, open).await?.into_iter();
    let results = results.into_iter().filter_map(|refused| refused.or_else(|| inserted.next())).collect();
    Ok(answer::json(StatusCode::OK, &BatchAnswer { results }))
}

/// Refused at once if it would wait for long: a caller that waits holds a connection, a place and a body.
pub(crate) fn not_too_many(context: Context<'_>) -> Result<(), Refusal> {
    let Some(wait) = context.engine.insert_backlog(&context.caller.namespace) else { return Ok(()) };
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let wait = Span::of(wait);
    let detail = format!("more is being inserted than the store takes: this would wait for {wait}");
    Err(Problem::new(Code::Overload, detail).retry_after_ms(wait_ms).into())
}

/// A task, and which of the valid ones of its request it is: the identity that it is given has its number in it.
pub(crate) struct Numbered {
    pub(crate) nth: usize,
    pub(crate) task: NewTask,
}

/// One call of the engine for all that are not there already.
pub(crate) async fn insert_all(
    context: Context<'_>,
    mut tasks: Vec<Numbered>,
) -> Result<Vec<BatchItem>, Refusal> {
    let Context { caller, engine, .. } = context;
    let known = give_ids_of_key(context, &mut tasks).await?;
    let new: Vec<NewTask> = tasks
        .into_iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|(task, _)| task.task)
        .collect();
    let not_now = |refused: Option<Refused>| refused.map(|refused| not_now(refused, caller));
    let not_now = engine.refused(&new).await?.into_iter().map(not_now);
    let denied = of_others(context, &new).await?.into_iter();
    let refused: Vec<Option<Problem>> =
        not_now.zip(denied).map(|(not_now, denied)| denied.map(Refusal::into_problem).or(not_now)).collect();
    let with_room = new
        .into_iter()
        .zip(&refused)
        .filter(|(_, problem)| problem.is_none())
        .map(|(task, _)| task)
        .collect();
    let inserted = engine.insert_each(with_room, caller.who.by()).await?.into_iter();
    let refused_by_store = |error| BatchItem::refused(Refusal::from(error).into_problem());
    let one = |inserted: Inserted| match seen(caller, &inserted.task) {
        Ok(()) => item(inserted),
        Err(refusal) => BatchItem::refused(refusal.into_problem()),
    };
    let mut inserted = inserted.map(|result| result.map_or_else(refused_by_store, one));
    let refusal = |problem: Option<Problem>| problem.map(BatchItem::refused);
    let mut new = refused.into_iter().filter_map(|problem| refusal(problem).or_else(|| inserted.next()));
    let existing = |task| BatchItem::accepted(200, answer::inserted(task, InsertOutcome::Existing));
    Ok(known.into_iter().filter_map(|task| task.map(existing).or_else(|| new.next())).collect())
}

/// Returns the tasks whose id belongs to a task in a queue that the token does not reach, which may be neither shown
/// nor replaced. Ids are of the complete namespace: a caller that reaches all of its queues is not checked. Costs a
/// look-up for each id that a caller has chosen. If two callers use one id for two queues in the same instant, the
/// store decides; its answer is checked again, so that nothing is shown.
async fn of_others(context: Context<'_>, tasks: &[NewTask]) -> Result<Vec<Option<Refusal>>, Refusal> {
    let Context { caller, engine, .. } = context;
    let mut refused: Vec<Option<Refusal>> = tasks.iter().map(|_| None).collect();
    if caller.who.reaches_all_queues() {
        return Ok(refused);
    }
    for (task, refused) in tasks.iter().zip(&mut refused) {
        let stored_task = engine.stored_task(task, VERSIONS_LOOKED_AT).await?;
        *refused = stored_task.iter().find_map(|task| seen(caller, task).err());
    }
    Ok(refused)
}

/// Checks that a task that is stored under an id is within the token's queues.
fn seen(caller: &Caller, task: &Task) -> Result<(), Refusal> {
    if caller.who.sees(task) {
        return Ok(());
    }
    Err(Refusal::new(Code::AuthDenied, "a task of this id is in a queue that the token does not reach"))
}

/// The refusal for a full cap, for a rate that is too high, or for a namespace that accepts no new tasks.
pub(crate) fn not_now(refused: Refused, caller: &Caller) -> Problem {
    match refused {
        Refused::Closed(closed) => namespaces::closed(closed, &caller.namespace).into_problem(),
        Refused::Full(this_full) => full(&this_full),
        Refused::TooManyBytes(many_bytes) => too_many_bytes(&many_bytes),
        Refused::TooFast(TooFast { scope, rate, wait_ms }) => {
            let detail = format!(
                "{} may insert {} tasks every {}, and {} at once after a rest",
                for_people(&scope),
                rate.limit,
                Span(rate.period_ms),
                rate.burst
            );
            Problem::new(Code::QuotaInsertRate, detail).retry_after_ms(u64::try_from(wait_ms).unwrap_or(0))
        }
    }
}

pub(crate) fn full(full: &Full) -> Problem {
    let of = for_people(&full.scope);
    let detail = format!("{} tasks wait in {of}, which may have {}", full.waiting, full.max_waiting);
    Problem::new(Code::QueueFull, detail).retry_after_ms(FULL_RETRY_AFTER_MS)
}

pub(crate) fn too_many_bytes(too_many_bytes: &TooManyBytes) -> Problem {
    let detail = format!(
        "the payloads of what waits in {} are {} bytes, and may be {} with this one",
        for_people(&too_many_bytes.scope),
        too_many_bytes.bytes,
        too_many_bytes.max_payload_bytes
    );
    Problem::new(Code::QuotaPayloadBytes, detail).retry_after_ms(FULL_RETRY_AFTER_MS)
}

fn for_people(scope: &Scope) -> String {
    match scope {
        Scope::Everything => "all queues together".to_owned(),
        Scope::Namespace(name) => format!("namespace {:?}", name.as_str()),
        Scope::Queue(key) => format!("queue {:?}", key.queue.as_str()),
    }
}

/// Pointers of a batch begin at the batch.
fn under(refusal: Refusal, nth: usize) -> Refusal {
    let mut problem = refusal.into_problem();
    for error in &mut problem.errors {
        error.pointer.insert_str(0, &format!("/tasks/{nth}"));
    }
    problem.into()
}

fn verdict(inserted: &Inserted) -> Result<(u16, InsertOutcome), Refusal> {
    match inserted.decision {
        Decision::Create => Ok((201, InsertOutcome::Created)),
        Decision::Replace => Ok((201, InsertOutcome::Replaced)),
        Decision::ReturnExisting => Ok((200, InsertOutcome::Existing)),
        Decision::Superseded => Err(superseded(&inserted.task).into()),
        Decision::Exists => Err(exists(&inserted.task).into()),
    }
}

fn exists(stored_task: &Task) -> Problem {
    let detail = format!(
        "{} is {}, with version {}",
        called(stored_task),
        stored_task.state.word(),
        stored_task.ask.task_version
    );
    Problem::new(Code::TaskExists, detail).with_existing(answer::brief(stored_task.clone()))
}

/// The task's key or id, as its caller chose it.
fn called(task: &Task) -> String {
    let key = task.ask.key.as_ref().and_then(Key::shown);
    key.map_or_else(|| format!("task {}", task.task_id()), |key| format!("task {key:?}"))
}

fn superseded(stored_task: &Task) -> Problem {
    let detail = format!("{} is known with version {}", called(stored_task), stored_task.ask.task_version);
    Problem::new(Code::TaskVersionSuperseded, detail).with_existing(answer::brief(stored_task.clone()))
}

fn item(inserted: Inserted) -> BatchItem {
    match verdict(&inserted) {
        Ok((status, outcome)) => BatchItem::accepted(status, answer::inserted(inserted.task, outcome)),
        Err(refusal) => BatchItem::refused(refusal.into_problem()),
    }
}

fn answer_one(status: u16, task: Task, outcome: InsertOutcome) -> Response {
    let tag = etag::header(&task);
    let location = HeaderValue::try_from(format!("/v1/tasks/{}", task.place));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let mut response = answer::json(status, &answer::inserted(task, outcome));
    response.headers_mut().insert(header::ETAG, tag);
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    response
}

/// Gives tasks without an identity the one that belongs to the idempotency key, and returns, in order, the tasks that
/// an earlier try has stored. Survives a crash between the insert and the storage of its answer. For a batch, the
/// others are read only if the first exists: without an earlier try this costs one read. Tasks that are stored
/// nevertheless, by a slow try or a part of a batch, stay as they are.
async fn give_ids_of_key(context: Context<'_>, tasks: &mut [Numbered]) -> Result<Vec<Option<Task>>, Refusal> {
    let Context { caller, engine, .. } = context;
    let mut known = vec![None; tasks.len()];
    let Some(key) = &caller.idempotency_key else { return Ok(known) };
    let mut tried_before = None;
    for (Numbered { nth, task }, known) in tasks.iter_mut().zip(&mut known) {
        if !task.is_anonymous() {
            continue;
        }
        let own = key_of_request(caller, key, *nth);
        // Nor does one that another try has stored since this look begin anew.
        task.on_conflict = OnConflict::Keep;
        if tried_before != Some(false) {
            let older = id_of_older_engines(caller, key, *nth);
            *known = engine.latest_of(&caller.namespace, &own, older).await?;
            tried_before = tried_before.or_else(|| Some(known.is_some()));
        }
        task.key = Some(own);
        if let Some(this_task) = known
            && !is_same_task(&engine.whole(this_task.clone()).await?.ask, task)
        {
            let detail = "the task that was inserted under this key is another one";
            return Err(Refusal::new(Code::IdempotencyKeyReused, detail));
        }
    }
    Ok(known)
}

/// The key of an item by the request and its index: no other task has it.
fn key_of_request(caller: &Caller, key: &str, nth: usize) -> Key {
    let (nth, owner) = (nth.to_string(), caller.who.owner().unwrap_or_default());
    let half = |which: &[u8]| hash::of(&[which, key.as_bytes(), nth.as_bytes(), owner.as_bytes()]);
    Key::Request(format!("{:016x}{:016x}", half(b"1"), half(b"2")))
}

/// The id that engines of 0.1 derived from a request, whose task may exist while a cluster is upgraded: positive, and
/// beyond what is exact in JavaScript.
fn id_of_older_engines(caller: &Caller, key: &str, nth: usize) -> i64 {
    let (namespace, nth) = (caller.namespace.as_str().as_bytes(), nth.to_string());
    let hash = match caller.who.owner() {
        None => hash::of(&[namespace, key.as_bytes(), nth.as_bytes()]),
        // A key belongs to the token that sends it.
        Some(owner) => hash::of(&[namespace, key.as_bytes(), nth.as_bytes(), owner.as_bytes()]),
    };
    i64::try_from(hash >> 1).unwrap_or(i64::MAX)
}

fn is_same_task(a: &NewTask, b: &NewTask) -> bool {
    a.queue == b.queue && a.kind == b.kind && a.payload == b.payload
}
