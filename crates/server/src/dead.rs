//! Dead letters: tasks whose attempts are exhausted, or that were refused for good. Search, and redrive of many at a time. A
//! single dead task is redriven like any other change of a task.

use crate::{
    access::Changed,
    answer,
    app::Shared,
    cursor::{self, Position},
    extract::{Body, Caller, Query},
    lookup,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_contract::store::Query as StoreQuery;
use punctual_domain::{
    name::{Name, QueueKey},
    state::State as TaskState,
    time::Millis,
};
use punctual_engine::{RedriveMany, Redriven};
use punctual_protocol::{At, Code, FoundTasks, RedriveAnswer, RedriveDead, SearchDead, limits::PAGE_DEFAULT};

const LIMIT_DEFAULT: u32 = 1_000;

/// List dead tasks.
///
/// The latest inserted first. `updated_at` is the time of death, and `last_error` the reason. Histories are omitted.
#[utoipa::path(
    get, path = "/v1/dead-letters", operation_id = "list_dead_letters", tag = "dead letters", params(SearchDead),
    responses((status = 200, description = "A page of tasks; it may be shorter than `limit` and still have a next one.",
        body = FoundTasks)),
)]
pub(crate) async fn list_dead(
    State(app): State<Shared>,
    caller: Caller,
    Query(search): Query<SearchDead>,
) -> Result<Response, Refusal> {
    search.check()?;
    let (page, search) = lookup::list(&app, &caller, store_query(&search, &caller.namespace)?, None).await?;
    let items = page.items.into_iter().map(|pair| answer::brief(pair.1)).collect();
    let page = FoundTasks { items, next_cursor: page.next.map(Position::write), search };
    Ok(answer::json(StatusCode::OK, &page))
}

/// Give many dead tasks new attempts.
///
/// Without a filter, `all: true` is required. Each task gets all of its attempts again and an `execute_at` of its own, so
/// that tasks run at the given rate. The call is safe to repeat: tasks that are no longer dead are unchanged, and with an
/// `Idempotency-Key` the first answer is returned again. To continue after `limit`, send `next_cursor` as `cursor` and
/// `until_ms` as `start_at_ms`.
#[utoipa::path(
    post, path = "/v1/dead-letters/redrive", operation_id = "redrive_dead_letters", tag = "dead letters",
    request_body(content = Option<RedriveDead>, example = json!({
        "queue": "mail", "error": "mailbox full", "limit": 1000, "rate_per_second": 20.0
    })),
    responses((status = 200, description = "How many tasks were redriven, and until when they are due.", body = RedriveAnswer)),
)]
pub(crate) async fn redrive_dead(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let json = RedriveDead::from_json(&body)?;
    let filters = json.filters();
    let query = store_query(&filters, &caller.namespace)?;
    if !caller.who.reaches_all_queues() && query.queue.is_none() {
        let detail =
            "the token reaches only some queues: name the `queue` whose dead tasks are to be redriven";
        return Err(Refusal::new(Code::AuthDenied, detail));
    }
    if json.is_unbounded() {
        let detail = "names no filter: send `all: true` if all dead tasks of the namespace are meant";
        return Err(Refusal::field("/all", detail));
    }
    let is_reached = query.queue.as_ref().map_or_else(
        || caller.who.reaches_namespace(&caller.namespace),
        |queue| caller.who.reaches(&QueueKey { namespace: caller.namespace.clone(), queue: queue.clone() }),
    );
    let asked = RedriveMany {
        query,
        limit: usize::try_from(json.limit.unwrap_or(LIMIT_DEFAULT)).unwrap_or(usize::MAX),
        start_at: json.start_at_ms.map_or(Millis::ZERO, Millis),
        per_second: json.rate_per_second,
        dry_run: json.dry_run,
    };
    // What is not reached has no dead tasks.
    let done = if is_reached {
        app.engine.redrive_many(asked, caller.who.by()).await?
    } else {
        Redriven { until: asked.start_at.max(app.engine.now()), ..Redriven::default() }
    };
    let answer = RedriveAnswer {
        tasks: done.tasks,
        skipped: done.lost,
        until: At::from_ms(done.until.0),
        until_ms: done.until.0,
        dry_run: json.dry_run,
        next_cursor: done.next_before_id.map(cursor::write),
    };
    let after = serde_json::to_string(&serde_json::json!({ "filter": filters, "redriven": answer })).ok();
    Ok(Changed { after, ..Changed::default() }.reported_with(answer::json(StatusCode::OK, &answer)))
}

fn store_query(search: &SearchDead, namespace: &Name) -> Result<StoreQuery, Refusal> {
    let name = |pointer: &str, text: &Option<String>| {
        let checked = text.as_deref().map(Name::chosen).transpose();
        checked.map_err(|error| Refusal::field(pointer, error.to_string()))
    };
    Ok(StoreQuery {
        namespace: Some(namespace.clone()),
        queue: name("/queue", &search.queue)?,
        state: Some(TaskState::Dead),
        kind: name("/kind", &search.kind)?,
        label: search.label().map(|(key, value)| (key.to_owned(), value.to_owned())),
        updated_from: search.since.map(|bound| Millis(bound.0)),
        error: search.error.clone(),
        before_id: cursor::before_id(search.cursor.as_deref())?,
        limit: usize::try_from(search.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX),
        ..StoreQuery::default()
    })
}
