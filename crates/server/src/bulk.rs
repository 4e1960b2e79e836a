//! Bulk operations: preview, confirm, pause, progress. A token sees and creates operations whose filter names a queue that it
//! may see; a token for all queues sees all. The runner and the domain define what an operation does.

mod wire;

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    cursor, etag,
    extract::{Body, BulkId, Caller, Query},
    namespaces,
    refusal::Refusal,
    set_aside,
};
use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_bulk::{Changed as Change, Error, Runner};
use punctual_contract::bulk::StoredBulk;
use punctual_domain::{
    access::Permission,
    bulk::{Action, Filter},
    name::{Name, QueueKey},
};
use punctual_protocol::{
    BulkFailure, BulkOperation as Shown, Code, CreateBulk, FoundTasks, ListBulk, Page, PauseRequest,
    Searched, limits::PAGE_DEFAULT,
};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => no_bulk(),
            Error::Otherwise(_) => {
                let detail =
                    "it is not (or no more) what was previewed; look at it, and send its ETag as If-Match";
                Self::new(Code::PreconditionFailed, detail)
            }
            Error::IsIn(_) => Self::new(Code::BulkWrongState, error.to_string()),
            Error::TooOld => Self::new(Code::BulkPreviewExpired, error.to_string()),
            Error::Nothing => Self::field("/filter", error.to_string()),
            Error::Contended => Self::new(Code::BulkContended, error.to_string()),
            Error::Engine(error) => error.into(),
        }
    }
}

fn runner(app: &App) -> Result<&Runner, Refusal> {
    let none = || Refusal::new(Code::RequestUnknownRoute, "this server was started without bulk operations");
    app.options.bulk.as_ref().ok_or_else(none)
}

/// Also of one that the token does not see.
fn no_bulk() -> Refusal {
    Refusal::new(Code::BulkNotFound, "the namespace has no bulk operation with this id")
}

fn reaches(who: &Who, namespace: &Name, filter: &Filter) -> bool {
    match &filter.queue {
        Some(queue) => who.reaches(&QueueKey { namespace: namespace.clone(), queue: queue.clone() }),
        None => who.reaches_namespace(namespace) && who.reaches_all_queues(),
    }
}

const fn needed(action: &Action) -> Permission {
    match action {
        Action::Redrive => Permission::Redrive,
        Action::Delete => Permission::Operate,
        Action::Export => Permission::Read,
        Action::Cancel { .. }
        | Action::Reschedule(_)
        | Action::SetPriority { .. }
        | Action::SetQueue { .. }
        | Action::RunNow
        | Action::Bury => Permission::ChangeTasks,
    }
}

fn must_permit(who: &Who, action: &Action) -> Result<(), Refusal> {
    let permission = needed(action);
    if who.permits(permission) {
        return Ok(());
    }
    let detail = format!("its roles do not have the permission `{}`", permission.word());
    Err(Refusal::new(Code::AuthDenied, detail))
}

/// One that the token reaches.
async fn reached(app: &App, caller: &Caller, id: i64) -> Result<StoredBulk, Refusal> {
    let stored = runner(app)?.get(&caller.namespace, id).await?;
    if reaches(&caller.who, &caller.namespace, &stored.bulk.filter) { Ok(stored) } else { Err(no_bulk()) }
}

/// One that the token may change.
async fn own(app: &App, caller: &Caller, id: i64) -> Result<StoredBulk, Refusal> {
    let stored = reached(app, caller, id).await?;
    must_permit(&caller.who, &stored.bulk.action)?;
    Ok(stored)
}

fn tag(id: i64, step: i64) -> String {
    format!("\"{id}.{step}\"")
}

fn one(status: StatusCode, shown: &Shown) -> Response {
    let tag = HeaderValue::try_from(tag(shown.id, shown.revision))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""));
    ([(header::ETAG, tag)], answer::json(status, shown)).into_response()
}

/// The answer with the audit's data: the author, the reason, the selection and the number of tasks.
fn reported(
    before: Option<&StoredBulk>,
    after: &StoredBulk,
    reason: Option<String>,
    response: Response,
) -> Response {
    let json = |bulk: &StoredBulk| serde_json::to_string(&wire::for_the_audit(bulk)).ok();
    let reason = reason.or_else(|| after.bulk.reason.clone());
    Changed { before: before.and_then(json), after: json(after), reason }.reported_with(response)
}

fn changed(Change { before, after }: &Change, reason: Option<String>) -> Response {
    reported(Some(before), after, reason, one(StatusCode::OK, &wire::shown(after)))
}

/// Preview a bulk operation.
///
/// Counts the matching tasks and shows the first ones. Nothing changes until the operation is confirmed. Tasks that are
/// inserted later are not affected.
#[utoipa::path(
    post, path = "/v1/bulk", operation_id = "create_bulk", tag = "bulk operations",
    request_body(content = CreateBulk, example = json!({
        "action": "cancel", "filter": {"queue": "mail", "label": "campaign=spring"}, "rate": 500, "reason": "wrong text"
    })),
    responses((status = 201, description = "The operation, previewed.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn create_bulk(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let bulk = wire::domain(&CreateBulk::from_json(&body)?)?;
    must_permit(&caller.who, &bulk.action)?;
    match &bulk.filter.queue {
        Some(queue) => {
            caller.who.must_reach(&QueueKey { namespace: caller.namespace.clone(), queue: queue.clone() })?;
        }
        None => caller.who.must_reach_all_of(&caller.namespace)?,
    }
    if let Action::SetQueue { queue } = &bulk.action {
        caller.who.must_reach(&QueueKey { namespace: caller.namespace.clone(), queue: queue.clone() })?;
    }
    namespaces::must_be_open(&app, &caller.namespace)?;
    let previewed = runner(&app)?.preview(&caller.namespace, bulk, caller.who.by()).await?;
    let mut shown = wire::shown(&previewed.stored);
    shown.sample = Some(previewed.sample.into_iter().map(answer::brief).collect());
    let response = one(StatusCode::CREATED, &shown);
    Ok(reported(None, &previewed.stored, None, response))
}

/// List the bulk operations of the namespace.
#[utoipa::path(
    get, path = "/v1/bulk", operation_id = "list_bulk", tag = "bulk operations", params(ListBulk),
    responses((status = 200, description = "A page of the list, the newest first.", body = Page<Shown>)),
)]
pub(crate) async fn list_bulk(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<ListBulk>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let below = cursor::before_id(asked.cursor.as_deref())?.unwrap_or(i64::MAX);
    let all = match caller.who.reaches_namespace(&caller.namespace) {
        true => runner(&app)?.list(&caller.namespace, below, limit).await?,
        false => Vec::new(),
    };
    let next_cursor = all.last().filter(|_| all.len() == limit).map(|bulk| cursor::write(bulk.id));
    let seen = all.iter().filter(|bulk| reaches(&caller.who, &caller.namespace, &bulk.bulk.filter));
    let all_set_aside = runner(&app)?.set_aside().await?;
    let shown =
        |bulk: &StoredBulk| Shown { set_aside: set_aside::of(&all_set_aside, bulk.id), ..wire::shown(bulk) };
    let items: Vec<Shown> = seen.map(shown).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// Get a bulk operation and its progress.
#[utoipa::path(
    get, path = "/v1/bulk/{bulk}", operation_id = "get_bulk", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id.")),
    responses((status = 200, description = "The operation.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn get_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
) -> Result<Response, Refusal> {
    let stored = reached(&app, &caller, id).await?;
    let set_aside = set_aside::of(&runner(&app)?.set_aside().await?, stored.id);
    Ok(one(StatusCode::OK, &Shown { set_aside, ..wire::shown(&stored) }))
}

/// Start a previewed bulk operation.
///
/// `If-Match` with the ETag of the preview ensures that it is the same operation. A preview is valid for one hour.
/// Confirming it again changes nothing.
#[utoipa::path(
    post, path = "/v1/bulk/{bulk}/confirm", operation_id = "confirm_bulk", tag = "bulk operations",
    params(
        ("bulk" = i64, Path, description = "The id."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    responses((status = 200, description = "The operation after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn confirm_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    own(&app, &caller, id).await?;
    namespaces::must_be_open(&app, &caller.namespace)?;
    let condition = etag::condition(&headers);
    let fits = |step: i64| {
        let own = tag(id, step);
        let is_named = |text: &String| text.split(',').map(str::trim).any(|word| word == "*" || word == own);
        condition.as_ref().is_none_or(is_named)
    };
    let change = runner(&app)?.confirm(&caller.namespace, id, fits, caller.who.by()).await?;
    Ok(changed(&change, None))
}

/// Pause a bulk operation.
///
/// A running batch of at most 200 tasks is finished; no further one begins. The body is optional.
#[utoipa::path(
    post, path = "/v1/bulk/{bulk}/pause", operation_id = "pause_bulk", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id.")),
    request_body(content = Option<PauseRequest>, example = json!({"reason": "too fast"})),
    responses((status = 200, description = "The operation after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn pause_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let PauseRequest { reason, by } = PauseRequest::from_json(&body)?;
    own(&app, &caller, id).await?;
    let by = caller.who.by_as(by.as_deref());
    let change = runner(&app)?.pause(&caller.namespace, id, reason.as_deref(), &by).await?;
    Ok(changed(&change, reason))
}

/// Resume a paused bulk operation.
///
/// The body is optional.
#[utoipa::path(
    post, path = "/v1/bulk/{bulk}/resume", operation_id = "resume_bulk", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id.")),
    request_body(content = Option<PauseRequest>, example = json!({"by": "ann"})),
    responses((status = 200, description = "The operation after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn resume_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let PauseRequest { reason, .. } = PauseRequest::from_json(&body)?;
    own(&app, &caller, id).await?;
    let change = runner(&app)?.resume(&caller.namespace, id).await?;
    Ok(changed(&change, reason))
}

/// Stop a bulk operation for good.
///
/// Changes that were made remain, and a running batch is finished. The body is optional.
#[utoipa::path(
    post, path = "/v1/bulk/{bulk}/stop", operation_id = "stop_bulk", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id.")),
    request_body(content = Option<PauseRequest>, example = json!({"reason": "the wrong queue"})),
    responses((status = 200, description = "The operation after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn stop_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let PauseRequest { reason, by } = PauseRequest::from_json(&body)?;
    own(&app, &caller, id).await?;
    let by = caller.who.by_as(by.as_deref());
    let change = runner(&app)?.stop(&caller.namespace, id, reason.as_deref(), &by).await?;
    Ok(changed(&change, reason))
}

/// Try failed tasks of a bulk operation again.
///
/// Only if the operation is done.
#[utoipa::path(
    post, path = "/v1/bulk/{bulk}/repeat", operation_id = "repeat_bulk", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id.")),
    responses((status = 200, description = "The operation after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn repeat_bulk(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
) -> Result<Response, Refusal> {
    own(&app, &caller, id).await?;
    let change = runner(&app)?.repeat(&caller.namespace, id).await?;
    Ok(changed(&change, None))
}

/// List the tasks of a bulk operation.
///
/// The tasks that match now and existed at the preview, the newest first, without histories. For an export this is the
/// result; for other actions, the remaining tasks.
#[utoipa::path(
    get, path = "/v1/bulk/{bulk}/tasks", operation_id = "list_bulk_tasks", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id."), ListBulk),
    responses((status = 200, description = "A page of tasks; it may be shorter than `limit` and still have a next one.",
        body = FoundTasks)),
)]
pub(crate) async fn list_bulk_tasks(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    Query(asked): Query<ListBulk>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let before_id = cursor::before_id(asked.cursor.as_deref())?;
    let stored = reached(&app, &caller, id).await?;
    let found = runner(&app)?.tasks(&stored, before_id, limit).await?;
    let seen = found.tasks.into_iter().filter(|task| caller.who.sees(task));
    let items = seen.map(answer::brief).collect();
    let (is_complete, examined) = (found.is_complete, found.examined);
    let search = Searched { is_complete, examined, ..Searched::default() };
    Ok(answer::json(
        StatusCode::OK,
        &FoundTasks { items, next_cursor: found.next.map(cursor::write), search },
    ))
}

/// List the failures of a bulk operation.
///
/// The first 10,000 failures are stored. All are counted.
#[utoipa::path(
    get, path = "/v1/bulk/{bulk}/failures", operation_id = "list_bulk_failures", tag = "bulk operations",
    params(("bulk" = i64, Path, description = "The id."), ListBulk),
    responses((status = 200, description = "A page of the list.", body = Page<BulkFailure>)),
)]
pub(crate) async fn list_bulk_failures(
    State(app): State<Shared>,
    caller: Caller,
    BulkId(id): BulkId,
    Query(asked): Query<ListBulk>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let above = cursor::before_id(asked.cursor.as_deref())?.unwrap_or(i64::MIN);
    reached(&app, &caller, id).await?;
    let failures = runner(&app)?.failures(id, above, limit).await?;
    let next_cursor =
        failures.last().filter(|_| failures.len() >= limit).map(|failure| cursor::write(failure.place.id));
    let items = failures.into_iter().map(wire::failure).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}
