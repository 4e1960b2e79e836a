//! The audit as it is read: in pages, or all of it as lines of JSON. Changes nothing.

use crate::{
    access::Who,
    answer,
    app::{App, Shared},
    cursor,
    extract::Query,
    pages::{self, Numbered},
    refusal::Refusal,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use punctual_contract::audit::{AuditEntry as Entry, AuditQuery};
use punctual_domain::{name::Name, time::Millis};
use punctual_protocol::{At, AuditEntry, Code, Page, SearchAudit, limits::PAGE_DEFAULT};

type Broken = Box<dyn std::error::Error + Send + Sync>;

const NDJSON: &str = "application/x-ndjson";
/// Entries that are read at one time for an export.
const EXPORT_PAGE: usize = 1_000;

/// List who changed what.
///
/// The newest first. The audit log has every change by the API or by a command, with its result, and every request that was
/// refused for lack of permission. Inserts, leases, outcomes and heartbeats are in the histories of tasks instead. With
/// `Accept: application/x-ndjson`, all matching entries are returned, one JSON document per line. A token that reaches only
/// some namespaces sees only their entries.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit", tag = "access", params(SearchAudit),
    responses((status = 200, description = "A page of entries; it may be shorter than `limit` and still have a next one.",
        body = Page<AuditEntry>)),
)]
pub(crate) async fn list_audit(
    State(app): State<Shared>,
    who: Who,
    headers: HeaderMap,
    Query(search): Query<SearchAudit>,
) -> Result<Response, Refusal> {
    search.check()?;
    if !who.reaches_all_queues() {
        let detail = "the audit is of all queues, and the token reaches only some of them";
        return Err(Refusal::new(Code::AuthDenied, detail));
    }
    if search.cursor.is_none() {
        app.engine.write_noted().await?;
    }
    let query = query(&search)?;
    if wants_lines(&headers) {
        return Ok(export(app, who, query));
    }
    let page = page(&app, &who, query).await?;
    let items = page.items.into_iter().map(|(id, entry)| shown(id, entry)).collect();
    let next_cursor = page.next.map(cursor::write);
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|header| header.to_str().ok()).unwrap_or_default();
    accepted
        .split(',')
        .any(|part| part.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(NDJSON))
}

fn query(search: &SearchAudit) -> Result<AuditQuery, Refusal> {
    Ok(AuditQuery {
        token_id: search.token.clone(),
        action: search.action.clone(),
        namespace: search.namespace.clone(),
        since: search.since.map(|bound| Millis(bound.0)),
        until: search.until.map(|bound| Millis(bound.0)),
        before_id: cursor::before_id(search.cursor.as_deref())?,
        limit: usize::try_from(search.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX),
    })
}

/// Entries that the token sees.
async fn page(app: &App, who: &Who, query: AuditQuery) -> Result<Numbered<Entry>, Refusal> {
    let named = query.namespace.as_deref().and_then(|namespace| Name::new(namespace).ok());
    if named.is_some_and(|name| !who.reaches_namespace(&name)) {
        return Ok(Numbered::empty());
    }
    let (limit, before_id) = (query.limit, query.before_id);
    let query = AuditQuery { limit: pages::asked(who, limit), ..query };
    let page = |before_id| {
        let query = AuditQuery { before_id, ..query.clone() };
        async move {
            let page = app.engine.store().audit_entries(query).await?;
            Ok(Numbered { items: page.entries, next: page.next_before_id })
        }
    };
    if who.reaches_everything() {
        return page(before_id).await;
    }
    pages::filled(limit, before_id, page, |entry| is_seen(who, entry)).await
}

/// True if the caller may see the entry. Entries without a namespace are only for callers that reach all of them.
fn is_seen(who: &Who, entry: &Entry) -> bool {
    let namespace = entry.namespace.as_deref().and_then(|namespace| Name::new(namespace).ok());
    who.reaches_everything() || namespace.is_some_and(|namespace| who.reaches_namespace(&namespace))
}

/// Page by page, as fast as it is read.
fn export(app: Shared, who: Who, query: AuditQuery) -> Response {
    let first = Some(AuditQuery { limit: EXPORT_PAGE, ..query });
    let pages = stream::try_unfold((app, who, first), |(app, who, asked)| async move {
        let Some(asked) = asked else { return Ok::<_, Broken>(None) };
        let page = app.engine.store().audit_entries(asked.clone()).await?;
        // The status is sent: what is broken off is seen to be.
        who.must_be_good_still(&app).map_err(|_| "the token has ended")?;
        let mut lines = Vec::new();
        for (id, entry) in page.entries.into_iter().filter(|pair| is_seen(&who, &pair.1)) {
            if serde_json::to_writer(&mut lines, &shown(id, entry)).is_ok() {
                lines.push(b'\n');
            }
        }
        let next =
            page.next_before_id.map(|next_before_id| AuditQuery { before_id: Some(next_before_id), ..asked });
        Ok(Some((Bytes::from(lines), (app, who, next))))
    });
    let mut response = Response::new(Body::from_stream(pages));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}

fn shown(id: i64, entry: Entry) -> AuditEntry {
    let result = entry.result.as_ref();
    let json = |text: Option<&String>| text.and_then(|text| serde_json::from_str(text).ok());
    AuditEntry {
        id,
        at: At::from_ms(entry.at.0),
        at_ms: entry.at.0,
        token_id: entry.token_id,
        caller: entry.caller,
        address: entry.address,
        action: entry.action,
        request: entry.request,
        namespace: entry.namespace,
        request_id: entry.request_id,
        times: entry.times,
        status: result.map(|audit| audit.status),
        completed_at: result.map(|audit| At::from_ms(audit.at.0)),
        completed_at_ms: result.map(|audit| audit.at.0),
        reason: result.and_then(|audit| audit.reason.clone()),
        before: json(result.and_then(|audit| audit.before.as_ref())),
        after: json(result.and_then(|audit| audit.after.as_ref())),
    }
}
