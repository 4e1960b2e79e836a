//! Namespaces: their settings, their contents (counts of the running account), and their deletion. The engine defines what a
//! namespace means.

use crate::{
    access::Who,
    answer,
    app::{App, Shared},
    etag,
    extract::{Body, MaxAge, Query, Segment},
    refusal::Refusal,
    settings::{has_changed, recorded, turned},
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::settings::StoredSetting;
use punctual_domain::{
    name::Name,
    settings::{Deletion, Scope, ScopeSettings, Setting},
};
use punctual_engine::{Account, Closed, NamespacePut, Stood};
use punctual_protocol::{
    At, Code, DeleteNamespace, ListNamespaces, Namespace, NamespaceDeletion, NamespaceState, Page,
    PutNamespace, Usage, limits::PAGE_DEFAULT,
};
use std::{collections::BTreeMap, sync::Arc};

/// Refused while nothing new of the namespace is taken.
pub(crate) fn must_be_open(app: &App, namespace: &Name) -> Result<(), Refusal> {
    app.engine.closed(namespace).map_or(Ok(()), |this_closed| Err(closed(this_closed, namespace)))
}

pub(crate) fn closed(closed: Closed, namespace: &Name) -> Refusal {
    match closed {
        Closed::Deleting => deleting(namespace),
        Closed::Unknown => not_found(namespace, "was not made, and here namespaces must be"),
    }
}

fn deleting(namespace: &Name) -> Refusal {
    let detail = format!("namespace {:?} is being deleted with all that it holds", namespace.as_str());
    Refusal::new(Code::NamespaceDeleting, detail)
}

fn not_found(namespace: &Name, why: &str) -> Refusal {
    Refusal::new(Code::NamespaceNotFound, format!("namespace {:?} {why}", namespace.as_str()))
}

/// List the namespaces.
///
/// The namespaces with settings or tasks that the token reaches, by name.
#[utoipa::path(
    get, path = "/v1/namespaces", operation_id = "list_namespaces", tag = "namespaces", params(ListNamespaces),
    responses((status = 200, description = "A page of namespaces.", body = Page<Namespace>)),
)]
pub(crate) async fn list_namespaces(
    State(app): State<Shared>,
    who: Who,
    max_age: MaxAge,
    Query(asked): Query<ListNamespaces>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let account = account(&app, max_age).await;
    let mut found: BTreeMap<Name, Option<StoredSetting>> = BTreeMap::new();
    for stored in app.engine.settings().await?.all {
        match stored.scope.clone() {
            Scope::Namespace(name) => {
                found.insert(name, Some(stored));
            }
            Scope::Queue(queue) if who.reaches(&queue) => {
                found.entry(queue.namespace).or_default();
            }
            Scope::Queue(_) | Scope::Everything => {}
        }
    }
    let mut last = None;
    let stored = account.iter().flat_map(|account| &account.books().tallies);
    for queue in stored.map(|tally| &tally.queue).filter(|queue| who.reaches(queue)) {
        if last.replace(&queue.namespace) != Some(&queue.namespace) {
            found.entry(queue.namespace.clone()).or_default();
        }
    }
    if who.reaches_all_queues() {
        // Of which queues they are is not for a list to find out.
        for name in app.engine.store().namespaces_with_schedules().await? {
            found.entry(name).or_default();
        }
    }
    let is_asked = |name: &Name| {
        who.reaches_namespace(name)
            && asked.cursor.as_deref().is_none_or(|from| name.as_str() >= from)
            && asked.prefix.as_deref().is_none_or(|prefix| name.as_str().starts_with(prefix))
    };
    let shown = |(name, current): (Name, Option<StoredSetting>)| {
        let known = NamespaceFacts { current: current.as_ref(), is_there: true, account: account.as_deref() };
        shown(&who, &name, known).map(|namespace| (name, namespace))
    };
    let is_wanted = |pair: &Result<(Name, Namespace), Refusal>| {
        pair.as_ref().map_or(true, |(_, namespace)| asked.state.is_none_or(|state| namespace.state == state))
    };
    let found = found.into_iter().filter(|pair| is_asked(&pair.0)).map(shown).filter(is_wanted);
    let found: Vec<(Name, Namespace)> = found.take(limit + 1).collect::<Result<_, _>>()?;
    let next_cursor = found.get(limit).map(|pair| pair.0.as_str().to_owned());
    let items = found.into_iter().take(limit).map(|pair| pair.1).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// Get a namespace with its limits and usage.
#[utoipa::path(
    get, path = "/v1/namespaces/{namespace}", operation_id = "get_namespace", tag = "namespaces",
    params(("namespace" = String, Path, description = "The name.")),
    responses((status = 200, description = "The namespace; `state` is `absent` if it was never created or used.",
        body = Namespace, headers(("ETag" = String)))),
)]
pub(crate) async fn get_namespace(
    State(app): State<Shared>,
    who: Who,
    max_age: MaxAge,
    Segment(name): Segment,
) -> Result<Response, Refusal> {
    let name = named(&name)?;
    if !who.reaches_namespace(&name) {
        // As one that there is not.
        let nothing = Account::default();
        let known = NamespaceFacts { current: None, is_there: false, account: Some(&nothing) };
        return Ok(reported(StatusCode::OK, &shown(&who, &name, known)?));
    }
    let all = app.engine.settings().await?.all;
    let is_of_queue = |stored: &StoredSetting| matches!(&stored.scope, Scope::Queue(of) if of.namespace == name && who.reaches(of));
    let is_there = all.iter().any(is_of_queue)
        || who.reaches_all_queues() && app.engine.store().namespaces_with_schedules().await?.contains(&name);
    let scope = Scope::Namespace(name.clone());
    let current = all.into_iter().find(|stored| stored.scope == scope);
    let account = account(&app, max_age).await;
    let known = NamespaceFacts { current: current.as_ref(), is_there, account: account.as_deref() };
    Ok(reported(StatusCode::OK, &shown(&who, &name, known)?))
}

/// Create a namespace, or set its limits.
///
/// Omitted limits are removed. A namespace need not be created before it is used, unless the servers require it
/// (`namespaces.explicit`). Every engine applies a change within a second.
#[utoipa::path(
    put, path = "/v1/namespaces/{namespace}", operation_id = "put_namespace", tag = "namespaces",
    params(
        ("namespace" = String, Path, description = "The name."),
        ("If-Match" = Option<String>, Header, description = "Set them only if this is their ETag."),
    ),
    request_body(content = PutNamespace, example = json!({
        "description": "orders of the shop", "concurrency": 100, "max_waiting": 5000000
    })),
    responses((status = 200, description = "The namespace after the change.", body = Namespace,
        headers(("ETag" = String)))),
)]
pub(crate) async fn put_namespace(
    State(app): State<Shared>,
    who: Who,
    Segment(name): Segment,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let name = named(&name)?;
    who.must_reach_all_of(&name)?;
    let wanted: ScopeSettings = turned(&PutNamespace::from_json(&body)?)?;
    let condition = etag::condition(&headers);
    let fits =
        move |revision| condition.as_ref().is_none_or(|condition| etag::is_revision(condition, revision));
    let current = match app.engine.put_namespace(name.clone(), wanted, who.by(), fits).await? {
        NamespacePut::Done(current) => current,
        NamespacePut::Otherwise(revision) => return Err(has_changed(revision)),
        NamespacePut::Deleting => return Err(deleting(&name)),
    };
    let account = account(&app, MaxAge::NONE).await;
    let known = NamespaceFacts { current: Some(&current), is_there: true, account: account.as_deref() };
    let response = reported(StatusCode::OK, &shown(&who, &name, known)?);
    Ok(recorded(&app, &current.scope, Some(current.revision)).await.reported_with(response))
}

/// Delete a namespace and all of its contents.
///
/// This includes tasks in every state with their histories and payloads, idempotency keys, settings of queues, and
/// executors. The answer means that the deletion has durably begun. Within a second, no engine inserts or leases tasks of
/// the namespace, and executors are asked to stop. After five seconds the tasks that they hold are deleted too, and their
/// outcomes are `stale`. The rest is deleted in the background, in small batches; `deletion` of the namespace shows the
/// progress. At the end the name can be used again. A deletion cannot be undone. Repeating the call changes nothing.
#[utoipa::path(
    delete, path = "/v1/namespaces/{namespace}", operation_id = "delete_namespace", tag = "namespaces",
    params(("namespace" = String, Path, description = "The name."), DeleteNamespace),
    responses((status = 202, description = "The namespace is being deleted.", body = Namespace, headers(("ETag" = String)))),
)]
pub(crate) async fn delete_namespace(
    State(app): State<Shared>,
    who: Who,
    Segment(name): Segment,
    Query(asked): Query<DeleteNamespace>,
) -> Result<Response, Refusal> {
    let name = named(&name)?;
    who.must_reach_all_of(&name)?;
    if asked.confirm.as_deref() != Some(name.as_str()) {
        let said = asked.confirm.map_or_else(|| "is missing".to_owned(), |confirm| format!("is {confirm:?}"));
        let detail = format!(
            "{said}; to delete the namespace with all that it holds, send its name, {:?}, as confirm",
            name.as_str()
        );
        return Err(Refusal::field("/confirm", detail));
    }
    // Counted before the deletion begins: the answer says what it is to delete.
    let account = account(&app, MaxAge::NONE).await;
    let Some(Stood { current, written }) = app.engine.delete_namespace(name.clone(), who.by()).await? else {
        return Err(not_found(&name, "has no settings and holds nothing"));
    };
    let known = NamespaceFacts { current: current.as_ref(), is_there: true, account: account.as_deref() };
    let response = reported(StatusCode::ACCEPTED, &shown(&who, &name, known)?);
    Ok(recorded(&app, &Scope::Namespace(name), written).await.reported_with(response))
}

fn named(name: &str) -> Result<Name, Refusal> {
    Name::chosen(name).map_err(|error| Refusal::field("/namespace", error.to_string()))
}

/// Returns `None` if a database is unavailable.
async fn account(app: &App, MaxAge(max_age): MaxAge) -> Option<Arc<Account>> {
    let account = app.engine.account(max_age).await;
    account.inspect_err(|error| tracing::warn!(%error, "what namespaces hold cannot be counted")).ok()
}

/// The known facts of a namespace.
struct NamespaceFacts<'a> {
    current: Option<&'a StoredSetting>,
    is_there: bool,
    account: Option<&'a Account>,
}

fn shown(who: &Who, name: &Name, known: NamespaceFacts<'_>) -> Result<Namespace, Refusal> {
    let settings = match known.current.map(|stored| &stored.setting) {
        Some(Setting::Scope(set)) => set.clone(),
        _ => ScopeSettings::default(),
    };
    let usage = known.account.map(|account| usage(who, name, account));
    let is_there = known.is_there || known.current.is_some() || usage.is_none_or(|usage| usage.tasks > 0);
    let deletion =
        settings.deletion.as_deref().map(|this_deletion| deletion(name, this_deletion, known.account));
    let state = match (&deletion, is_there) {
        (Some(_), _) => NamespaceState::Deleting,
        (None, true) => NamespaceState::Active,
        (None, false) => NamespaceState::Absent,
    };
    let description = settings.description.as_deref().map(str::to_owned);
    let mut limits: punctual_protocol::Limits =
        turned(&ScopeSettings { description: None, deletion: None, ..settings })?;
    limits.namespace = Some(name.as_str().to_owned());
    limits.revision = known.current.map_or(0, |stored| stored.revision);
    Ok(Namespace {
        limits,
        state,
        description,
        updated_at: known.current.map(|stored| At::from_ms(stored.updated_at.0)),
        updated_at_ms: known.current.map(|stored| stored.updated_at.0),
        updated_by: known.current.map(|stored| stored.updated_by.clone()),
        usage,
        deletion,
    })
}

/// The usage of the queues that the token reaches.
fn usage(who: &Who, name: &Name, account: &Account) -> Usage {
    let mut usage = Usage::default();
    for tally in account.of_namespace(name).iter().filter(|tally| who.reaches(&tally.queue)) {
        usage.tasks += tally.tasks;
        if tally.state.is_in_flight() {
            usage.in_flight += tally.tasks;
        } else if !tally.state.is_finished() {
            usage.waiting += tally.tasks;
        }
    }
    let bytes = account.bytes_of_namespace(name).iter().filter(|byte| who.reaches(&byte.queue));
    usage.payload_bytes = bytes.map(|byte| byte.bytes).sum::<i64>().max(0);
    usage
}

/// The deletion of a namespace, with all of its queues.
fn deletion(name: &Name, deletion: &Deletion, account: Option<&Account>) -> NamespaceDeletion {
    let left = account.map(|account| {
        let stored = account.of_namespace(name).iter();
        stored.map(|tally| tally.tasks).sum::<i64>().max(0).cast_unsigned()
    });
    NamespaceDeletion {
        since: At::from_ms(deletion.since.0),
        since_ms: deletion.since.0,
        by: deletion.by.clone(),
        deleted: deletion.tasks.zip(left).map(|(tasks, left)| tasks.saturating_sub(left)),
        left,
    }
}

fn reported(status: StatusCode, shown: &Namespace) -> Response {
    let tag = [(header::ETAG, etag::of_revision(shown.limits.revision))];
    (tag, answer::json(status, shown)).into_response()
}
