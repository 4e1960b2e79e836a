//! The audit of a change: written before it, completed after it. What cannot be written is not done; but for the change of
//! one task, which has its record in the task's own database and history: its entry is written beside it, so that a catalog
//! that is unavailable does not keep anybody from cancelling a task elsewhere.

use super::{
    Who,
    challenge::challenged,
    needs::{Guard, Need, Recorded},
};
use crate::{
    app::{App, Shared},
    extract::{self, Segment},
    observe::REQUEST_ID,
    refusal::Refusal,
};
use axum::{
    extract::{FromRequestParts as _, MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use punctual_contract::audit::{AuditEntry, AuditResult};
use punctual_domain::{history::clip, name::Name};
use punctual_protocol::Code;
use std::sync::Arc;

/// Longest address of a request that is written, in bytes.
const REQUEST_MAX: usize = 1_024;
const NAMESPACE_ROUTE: &str = "/v1/namespaces/{namespace}";

/// The handler's description of its change, which is attached to the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Changed {
    pub(crate) fn reported_with(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

/// Runs the handler to its end, even if the client disconnects: every begun change gets a result.
pub(super) async fn run(app: Shared, who: Who, need: Need, request: Request, next: Next) -> Response {
    let its = Arc::clone(&app);
    let work = async move {
        let (mut parts, body) = request.into_parts();
        let namespace = namespace(&need, &mut parts).await;
        let request = Request::from_parts(parts, body);
        let entry = AuditEntry { namespace, ..entry(&its, &who, &need.operation, &request) };
        if need.recorded == Recorded::Beside {
            return beside(&its, entry, request, next).await;
        }
        let store = its.engine.store();
        let id = match store.append_audit(entry).await {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(%error, "the audit cannot be written; a change is refused");
                let detail = format!("the audit cannot be written, and nothing was done: {error}");
                return Refusal::new(Code::StoreUnavailable, detail).into_response();
            }
        };
        let response = next.run(request).await;
        if let Err(error) = store.complete_audit(id, result(&its, &response)).await {
            tracing::warn!(%error, id, "an entry of the audit stays without its result");
        }
        response
    };
    let panicked = || Refusal::new(Code::Internal, "the work panicked").into_response();
    app.detached.spawn(work).await.unwrap_or_else(|_| panicked())
}

/// The change of one task. No caller waits for its entry; and however many are changed while the catalog hangs, only a few
/// wait for it.
async fn beside(app: &Shared, entry: AuditEntry, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.engine.note_change(AuditEntry { result: Some(result(app, &response)), ..entry });
    let its = Arc::clone(app);
    app.detached.spawn(async move {
        if let Err(error) = its.engine.write_changes().await {
            tracing::warn!(%error, "entries of the audit could not be written; it is tried again");
        }
    });
    response
}

fn result(app: &App, response: &Response) -> AuditResult {
    let Changed { before, after, reason } =
        response.extensions().get::<Changed>().cloned().unwrap_or_default();
    AuditResult { at: app.engine.now(), status: response.status().as_u16(), reason, before, after }
}

/// The namespace in the header or in the address. `None` if the change belongs to no namespace.
async fn namespace(need: &Need, parts: &mut axum::http::request::Parts) -> Option<String> {
    use punctual_domain::access::Permission;
    if parts.extensions.get::<MatchedPath>().is_some_and(|extension| extension.as_str() == NAMESPACE_ROUTE) {
        let Segment(text) = Segment::from_request_parts(parts, &()).await.ok()?;
        return Name::new(&text).ok().map(String::from);
    }
    let is_of_none = matches!(need.permission, Permission::ManageAccess | Permission::ManageNamespaces);
    if is_of_none { None } else { extract::namespace(&parts.headers).ok().map(String::from) }
}

fn entry(app: &App, who: &Who, operation: &str, request: &Request) -> AuditEntry {
    let address = request.uri().path_and_query().map_or("", |path_and_query| path_and_query.as_str());
    let id = request.headers().get(REQUEST_ID).and_then(|header| header.to_str().ok());
    AuditEntry {
        at: app.engine.now(),
        token_id: who.token_id().map(str::to_owned),
        caller: who.name().to_owned(),
        address: who.address.map(|address| address.to_string()),
        action: operation.to_owned(),
        request: clip(&format!("{} {address}", request.method()), REQUEST_MAX).to_owned(),
        namespace: None,
        request_id: id.map(|id| clip(id, 128).to_owned()),
        times: 1,
        result: None,
        key: None,
    }
}

/// Notes a refusal, and answers it.
pub(super) fn refused(
    app: &App,
    who: &Who,
    guard: Option<&Guard>,
    request: &Request,
    refusal: Refusal,
) -> Response {
    let response = challenged(refusal);
    let status = response.status().as_u16();
    if matches!(status, 401 | 403 | 429) {
        let operation = match guard {
            Some(Guard::Needs(need)) => &*need.operation,
            Some(Guard::Open) | None => "unknown",
        };
        app.engine.note_refusal(entry(app, who, operation, request), status);
    }
    response
}
