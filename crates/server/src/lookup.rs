//! Reads: one task, the versions of an id, a search, and why a task has not run. Changes nothing.

use crate::{
    answer,
    app::{App, Shared},
    ask,
    cursor::{self, Position},
    etag,
    extract::{Caller, Query, TaskPath},
    pages::{self, Numbered},
    refusal::Refusal,
    waiting,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::store::{Along, DuePosition, Page as StorePage, Query as StoreQuery};
use punctual_domain::{
    key::Key,
    name::{Name, QueueKey},
    place::TaskRef,
    state::{Phase, State as TaskState},
    task::Task,
    time::Millis,
};
use punctual_protocol::{
    At, FoundTasks, SearchTasks, Searched, SearchedAlong, SortTasks, Task as WireTask, WaitForEnd, Why,
    limits::{INSTANT_MAX_MS, PAGE_DEFAULT},
};

const NO_KEY: &str = "no key has these by their due time: -created_at, the newest first, or created_at, the oldest first, is the order of what is found by a declared \
                      label, of the dead and, in an embedded engine, of what is not asked for by a state that waits for its \
                      instant or for an executor (scheduled, dispatching, ready, dispatch_failed, retrying); due_at and -due_at are \
                      those of all others";

/// The task, if it is the namespace's and the caller's token reaches its queue.
pub(crate) async fn task_of(app: &App, caller: &Caller, place: TaskRef) -> Result<Task, Refusal> {
    let task = app.engine.read(place).await?;
    if task.ask.queue.namespace == caller.namespace && caller.who.sees(&task) {
        return Ok(task);
    }
    Err(punctual_engine::Error::NotFound.into())
}

/// Get a task with its history, payload and result.
///
/// With `wait_ms` the answer comes when the task has succeeded, is dead, or is cancelled, at the latest after `wait_ms`.
/// The end is noticed within 0.2 s.
#[utoipa::path(
    get, path = "/v1/tasks/{ref}", operation_id = "get_task", tag = "tasks",
    params(
        ("ref" = String, Path, description = "The `ref` of the task."),
        WaitForEnd,
        ("If-None-Match" = Option<String>, Header, description = "ETags that the caller already has."),
    ),
    responses(
        (status = 200, description = "The task.", body = WireTask, headers(("ETag" = String))),
        (status = 304, description = "The task has not changed since one of these ETags.", headers(("ETag" = String))),
    ),
)]
pub(crate) async fn get_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    Query(parameters): Query<WaitForEnd>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let limit = waiting::limit_of(parameters)?;
    let mut task = task_of(&app, &caller, place).await?;
    if !limit.is_zero() && !task.state.is_finished() {
        waiting::until_ended(&app, &caller.who, place, limit).await?;
        task = task_of(&app, &caller, place).await?;
    }
    let tag = [(header::ETAG, etag::header(&task))];
    if etag::is_known(&headers, &task) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let task = app.engine.as_fired(app.engine.whole(task).await?);
    Ok((tag, answer::json(StatusCode::OK, &answer::task(task))).into_response())
}

/// Explain why a task has not run.
#[utoipa::path(
    get, path = "/v1/tasks/{ref}/why", operation_id = "why_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    responses((status = 200, description = "The reason, and what happens next.", body = Why)),
)]
pub(crate) async fn why_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
) -> Result<Response, Refusal> {
    task_of(&app, &caller, place).await?;
    let (task, why) = app.engine.why(place).await?;
    Ok(answer::json(StatusCode::OK, &answer::why(&app.engine.as_fired(task), why)))
}

/// Search tasks, or list the versions of one `task_id` or `key`.
///
/// Default order: the newest first; with `due_after` or `due_before`, the latest due first, if an index has that order;
/// with `task_id` or `key`, the highest version first. `sort` sets another order. Conditions without an index are checked
/// task by task, until the page is full, all tasks were read, or two seconds are over. In the last case
/// `search.is_complete` is false, `search` shows the progress, and `next_cursor` continues. Histories are omitted. Payloads
/// and results that are stored outside the database (`payloads.inline_max_bytes`) are always omitted: get the single task.
#[utoipa::path(
    get, path = "/v1/tasks", operation_id = "search_tasks", tag = "tasks", params(SearchTasks),
    responses((status = 200, description = "A page of tasks; it may be shorter than `limit` and still have a next one.",
        body = FoundTasks)),
)]
pub(crate) async fn search_tasks(
    State(app): State<Shared>,
    caller: Caller,
    Query(search): Query<SearchTasks>,
) -> Result<Response, Refusal> {
    search.check()?;
    let query = store_query(&search, &caller.namespace)?;
    let page = match identity(&search)? {
        Some(identity) => versions(&app, &caller, &search, identity, &query).await?,
        None => {
            let phase = search.phase.map(answer::domain_phase);
            let (page, searched) = list(&app, &caller, query, phase).await?;
            let by_due = [Some(SortTasks::LatestDueFirst), Some(SortTasks::EarliestDueFirst)];
            if by_due.contains(&search.sort) && searched.along != SearchedAlong::DueTime {
                return Err(Refusal::field("/sort", NO_KEY));
            }
            let search = searched;
            let items =
                page.items.into_iter().map(|pair| answer::brief(app.engine.as_fired(pair.1))).collect();
            FoundTasks { items, next_cursor: page.next.map(Position::write), search }
        }
    };
    Ok(answer::json(StatusCode::OK, &page))
}

/// A page of the tasks that the caller may see, and the kind of its search.
pub(crate) async fn list(
    app: &App,
    caller: &Caller,
    query: StoreQuery,
    phase: Option<Phase>,
) -> Result<(Numbered<Task, Position>, Searched), Refusal> {
    let queue = query.queue.clone().map(|queue| QueueKey { namespace: caller.namespace.clone(), queue });
    let is_reached = queue
        .map_or_else(|| caller.who.reaches_namespace(&caller.namespace), |queue| caller.who.reaches(&queue));
    if !is_reached {
        let of_ids = if query.queue.is_some() { Along::Chunks } else { Along::Ids };
        let along = if query.by_due_time { Along::DueTime } else { of_ids };
        return Ok((Numbered::empty(), searched(&StorePage { along, ..StorePage::default() }, true)));
    }
    let limit = query.limit;
    let state = query.state.or_else(|| phase.and_then(only_state));
    // Of a phase with several states the store knows nothing.
    let is_sifted = !caller.who.reaches_all_queues() || (phase.is_some() && state.is_none());
    let asked = if is_sifted { limit.max(pages::SIFTED_MIN) } else { limit };
    let (is_rising, is_oldest_first) = (query.earliest_first, query.oldest_first);
    let of_id = |id| if is_oldest_first { Position::AboveId(id) } else { Position::BelowId(id) };
    let of_due = |at| if is_rising { Position::AfterDue(at) } else { Position::BeforeDue(at) };
    let query = StoreQuery { limit: asked, state, ..query };
    let fits = |task: &Task| phase.is_none_or(|phase| task.state.phase() == phase);
    let found = app.engine.search(&query, limit, |task| caller.who.sees(task) && fits(task)).await?;
    let search = searched(&found.page, found.is_complete);
    let page = found.page;
    let next = page.next_behind_due.map(of_due);
    let next = next.or_else(|| page.next_before_id.or(page.next_after_id).map(of_id));
    let at = |task: &Task| match page.along {
        Along::DueTime => of_due(DuePosition { due_at: task.due_at, id: task.place.id }),
        Along::Ids | Along::Label | Along::Dead | Along::Chunks => of_id(task.place.id),
    };
    let items = page.tasks.into_iter().map(|task| (at(&task), task)).collect();
    Ok((Numbered { items, next }, search))
}

fn go_on(query: &mut StoreQuery, behind: Option<Position>) {
    (query.before_id, query.after_id, query.behind_due) = match behind {
        Some(Position::BelowId(id)) => (Some(id), None, None),
        Some(Position::AboveId(id)) => (None, Some(id), None),
        Some(Position::BeforeDue(at) | Position::AfterDue(at)) => (None, None, Some(at)),
        None => (None, None, None),
    };
}

/// The state that a phase is another word for.
fn only_state(phase: Phase) -> Option<TaskState> {
    let mut states = TaskState::ALL.into_iter().filter(|task_state| task_state.phase() == phase);
    states.next().filter(|_| states.next().is_none())
}

fn searched(page: &StorePage, is_complete: bool) -> Searched {
    let due_at = page.next_behind_due.map(|due_position| due_position.due_at.0.clamp(0, INSTANT_MAX_MS));
    Searched {
        along: match page.along {
            Along::Ids => SearchedAlong::All,
            Along::Label => SearchedAlong::Label,
            Along::Dead => SearchedAlong::Dead,
            Along::DueTime => SearchedAlong::DueTime,
            Along::Chunks => SearchedAlong::Queue,
        },
        is_complete,
        examined: page.examined,
        through_percent: page.newest_id.and_then(|newest| {
            let downward = page.next_before_id.map(|next| percent(newest, next));
            // What is behind is below the next, as what is ahead is when a search goes downward.
            let upward = || page.next_after_id.map(|next| percent(newest, newest.saturating_sub(next) + 1));
            downward.or_else(upward)
        }),
        through_due_at: due_at.map(At::from_ms),
        through_due_at_ms: due_at,
    }
}

/// Ids begin at 1. One place behind the point.
fn percent(newest: i64, next: i64) -> f64 {
    let behind = (i128::from(newest) + 1 - i128::from(next)).max(0);
    let tenths = behind * 1_000 / i128::from(newest).max(1);
    f64::from(u16::try_from(tenths.min(999)).unwrap_or(999)) / 10.0
}

/// A caller's identifier of a task.
enum TaskIdentity {
    Id(i64),
    Key(Key),
}

fn identity(search: &SearchTasks) -> Result<Option<TaskIdentity>, Refusal> {
    let key = search.key.as_deref().map(ask::key).transpose()?;
    Ok(key.map(TaskIdentity::Key).or_else(|| search.task_id.map(|task_id| TaskIdentity::Id(task_id.0))))
}

async fn versions(
    app: &App,
    caller: &Caller,
    search: &SearchTasks,
    identity: TaskIdentity,
    query: &StoreQuery,
) -> Result<FoundTasks, Refusal> {
    if search.cursor.is_some() {
        let detail = "does not go with task_id or key: all versions are in one page";
        return Err(Refusal::field("/cursor", detail));
    }
    let (namespace, version) = (&caller.namespace, search.task_version.map(i64::from));
    let mut tasks = match identity {
        TaskIdentity::Id(id) => app.engine.versions(namespace, id, version, query.limit).await?,
        TaskIdentity::Key(key) => app.engine.versions_of_key(namespace, &key, version, query.limit).await?,
    };
    let phase = search.phase.map(answer::domain_phase);
    let is_of_phase = |task: &Task| phase.is_none_or(|phase| task.state.phase() == phase);
    tasks.retain(|task| fits(task, query) && is_of_phase(task) && caller.who.sees(task));
    let search = Searched { along: SearchedAlong::TaskId, ..Searched::default() };
    let items = tasks.into_iter().map(|task| answer::task(app.engine.as_fired(task))).collect();
    Ok(FoundTasks { items, next_cursor: None, search })
}

fn store_query(search: &SearchTasks, namespace: &Name) -> Result<StoreQuery, Refusal> {
    let name = |pointer: &str, text: &Option<String>| {
        let checked = text.as_deref().map(Name::chosen).transpose();
        checked.map_err(|error| Refusal::field(pointer, error.to_string()))
    };
    let behind = cursor::position(search.cursor.as_deref())?;
    let is_rising = search.sort == Some(SortTasks::EarliestDueFirst);
    let is_oldest_first = search.sort == Some(SortTasks::OldestFirst);
    let is_of_this_order = match behind {
        Some(Position::AfterDue(_)) => is_rising,
        Some(Position::AboveId(_)) => is_oldest_first,
        Some(Position::BeforeDue(_) | Position::BelowId(_)) => !is_rising && !is_oldest_first,
        None => true,
    };
    if !is_of_this_order {
        return Err(Refusal::field("/cursor", "is of a search in another order; begin this one without it"));
    }
    let mut query = StoreQuery {
        namespace: Some(namespace.clone()),
        queue: name("/queue", &search.queue)?,
        state: search.state.map(answer::domain_state),
        kind: name("/kind", &search.kind)?,
        label: search.label().map(|(key, value)| (key.to_owned(), value.to_owned())),
        due_after: search.due_after.map(|bound| Millis(bound.0)),
        due_before: search.due_before.map(|bound| Millis(bound.0)),
        updated_from: None,
        error: None,
        by_due_time: match search.sort {
            Some(sort) => matches!(sort, SortTasks::EarliestDueFirst | SortTasks::LatestDueFirst),
            None => search.due_after.is_some() || search.due_before.is_some(),
        },
        earliest_first: is_rising,
        oldest_first: is_oldest_first,
        after_id: None,
        before_id: None,
        behind_due: None,
        limit: usize::try_from(search.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX),
    };
    go_on(&mut query, behind);
    Ok(query)
}

/// The conditions of a search, on the few versions of one id.
fn fits(task: &Task, query: &StoreQuery) -> bool {
    let label = |(key, value): &(String, String)| task.ask.labels.get(key) == Some(value);
    query.queue.as_ref().is_none_or(|queue| *queue == task.ask.queue.queue)
        && query.state.is_none_or(|state| state == task.state)
        && query.kind.as_ref().is_none_or(|kind| *kind == task.ask.kind)
        && query.label.as_ref().is_none_or(label)
        && query.due_after.is_none_or(|at| at <= task.due_at)
        && query.due_before.is_none_or(|at| task.due_at < at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_through_is_told_and_never_all_of_it_while_there_is_more() {
        assert_eq!([percent(1_000, 1_001), percent(1_000, 501), percent(1_000, 1)], [0.0, 50.0, 99.9]);
        assert_eq!([percent(0, 1), percent(10, 40)], [0.0, 0.0]);
    }
}
