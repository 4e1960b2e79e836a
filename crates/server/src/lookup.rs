//! Reading: one task, the versions of an id, a search, and why a task has not run. Changes nothing.

use crate::{
    answer,
    app::{App, Shared},
    cursor, etag,
    extract::{Caller, Place, Query},
    pages::{self, Numbered},
    refusal::Refusal,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::store::Query as StoreQuery;
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    task::Task,
    time::Millis,
};
use punctual_protocol::{Page, SearchTasks, Task as WireTask, Why, limits::PAGE_DEFAULT};

/// The task, if it is the namespace's and the caller's token reaches its queue.
pub(crate) async fn task_of(app: &App, caller: &Caller, place: TaskRef) -> Result<Task, Refusal> {
    let task = app.engine.read(place).await?;
    if task.ask.queue.namespace == caller.namespace && caller.who.sees(&task) {
        return Ok(task);
    }
    Err(punctual_engine::Error::NotFound.into())
}

/// One task, with its history, its payload and its result.
#[utoipa::path(
    get, path = "/v1/tasks/{ref}", operation_id = "get_task", tag = "tasks",
    params(
        ("ref" = String, Path, description = "The `ref` of the task."),
        ("If-None-Match" = Option<String>, Header, description = "ETags that the caller has already."),
    ),
    responses(
        (status = 200, description = "The task.", body = WireTask, headers(("ETag" = String))),
        (status = 304, description = "It is as `If-None-Match` says.", headers(("ETag" = String))),
    ),
)]
pub(crate) async fn get_task(
    State(app): State<Shared>,
    caller: Caller,
    Place(place): Place,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task = task_of(&app, &caller, place).await?;
    let tag = [(header::ETAG, etag::header(&task))];
    if etag::is_known(&headers, &task) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let task = app.engine.whole(task).await?;
    Ok((tag, answer::json(StatusCode::OK, &answer::task(task))).into_response())
}

/// Why a task has not run.
#[utoipa::path(
    get, path = "/v1/tasks/{ref}/why", operation_id = "why_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    responses((status = 200, description = "Where it stands and what moves it on.", body = Why)),
)]
pub(crate) async fn why_task(
    State(app): State<Shared>,
    caller: Caller,
    Place(place): Place,
) -> Result<Response, Refusal> {
    task_of(&app, &caller, place).await?;
    let (task, why) = app.engine.why(place).await?;
    Ok(answer::json(StatusCode::OK, &answer::why(&task, why)))
}

/// Search, or the versions of one `task_id`.
///
/// Newest first; with `task_id`, the highest version first. Histories are left out of a search. Payloads and results
/// that are kept outside of the store (`payloads.inline_max_bytes`) are left out always: get the one task.
#[utoipa::path(
    get, path = "/v1/tasks", operation_id = "search_tasks", tag = "tasks", params(SearchTasks),
    responses((status = 200, description = "A page of tasks; it may be shorter than `limit` and still have a next one.",
        body = Page<WireTask>)),
)]
pub(crate) async fn search_tasks(
    State(app): State<Shared>,
    caller: Caller,
    Query(search): Query<SearchTasks>,
) -> Result<Response, Refusal> {
    search.check()?;
    let query = store_query(&search, &caller.namespace)?;
    let page = match search.task_id {
        Some(id) => versions(&app, &caller, &search, id.0, &query).await?,
        None => {
            let page = list(&app, &caller, query).await?;
            let items = page.items.into_iter().map(|it| answer::brief(it.1)).collect();
            Page { items, next_cursor: page.next_before_id.map(cursor::write) }
        }
    };
    Ok(answer::json(StatusCode::OK, &page))
}

/// A page of what the caller sees.
pub(crate) async fn list(app: &App, caller: &Caller, query: StoreQuery) -> Result<Numbered<Task>, Refusal> {
    let queue = query.queue.clone().map(|queue| QueueKey { namespace: caller.namespace.clone(), queue });
    let is_reached =
        queue.map_or_else(|| caller.who.reaches_namespace(&caller.namespace), |it| caller.who.reaches(&it));
    if !is_reached {
        return Ok(Numbered::empty());
    }
    let (limit, before_id) = (query.limit, query.before_id);
    let asked = if caller.who.reaches_all_queues() { limit } else { pages::asked(&caller.who, limit) };
    let query = StoreQuery { limit: asked, ..query };
    let page = |before_id| {
        let query = StoreQuery { before_id, ..query.clone() };
        async move {
            let page = app.engine.list(&query).await?;
            let items = page.tasks.into_iter().map(|it| (it.place.id, it)).collect();
            Ok(Numbered { items, next_before_id: page.next_before_id })
        }
    };
    if caller.who.reaches_all_queues() {
        // Nothing of it is sifted out: as the store has it.
        return page(before_id).await;
    }
    pages::filled(limit, before_id, page, |it| caller.who.sees(it)).await
}

async fn versions(
    app: &App,
    caller: &Caller,
    search: &SearchTasks,
    task_id: i64,
    query: &StoreQuery,
) -> Result<Page<WireTask>, Refusal> {
    if search.cursor.is_some() {
        return Err(Refusal::field("/cursor", "does not go with task_id: all versions are in one page"));
    }
    let version = search.task_version.map(i64::from);
    let mut tasks = app.engine.versions(&caller.namespace, task_id, version, query.limit).await?;
    tasks.retain(|it| fits(it, query) && caller.who.sees(it));
    Ok(Page { items: tasks.into_iter().map(answer::task).collect(), next_cursor: None })
}

fn store_query(search: &SearchTasks, namespace: &Name) -> Result<StoreQuery, Refusal> {
    let name = |pointer: &str, text: &Option<String>| {
        let checked = text.as_deref().map(Name::new).transpose();
        checked.map_err(|error| Refusal::field(pointer, error.to_string()))
    };
    let before_id = cursor::before_id(search.cursor.as_deref())?;
    Ok(StoreQuery {
        namespace: Some(namespace.clone()),
        queue: name("/queue", &search.queue)?,
        state: search.state.map(answer::domain_state),
        kind: name("/kind", &search.kind)?,
        label: search.label().map(|(key, value)| (key.to_owned(), value.to_owned())),
        due_after: search.due_after.map(|it| Millis(it.0)),
        due_before: search.due_before.map(|it| Millis(it.0)),
        updated_from: None,
        error: None,
        before_id,
        limit: usize::try_from(search.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX),
    })
}

/// The conditions of a search, on the few versions of one id.
fn fits(task: &Task, query: &StoreQuery) -> bool {
    let label = |(key, value): &(String, String)| task.ask.labels.get(key) == Some(value);
    query.queue.as_ref().is_none_or(|it| *it == task.ask.queue.queue)
        && query.state.is_none_or(|it| it == task.state)
        && query.kind.as_ref().is_none_or(|it| *it == task.ask.kind)
        && query.label.as_ref().is_none_or(label)
        && query.due_after.is_none_or(|it| it <= task.due_at)
        && query.due_before.is_none_or(|it| task.due_at < it)
}
