//! The layers that every request passes: its id, its line in the log, its count; too many concurrent requests are
//! refused, a panic becomes an answer. Reads no body.

use crate::{
    app::{App, Shared},
    extract::no_query,
    refusal::{Refusal, RefusedWith},
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use punctual_protocol::Code;
use std::{any::Any, sync::atomic::Ordering::Relaxed};
use tokio::time::Instant;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX_CHARS: usize = 128;
/// The route label of requests that no route takes.
const UNMATCHED: &str = "unmatched";

/// Outermost: sees every answer as it leaves.
pub(crate) async fn observe(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&app, &request);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = explain_method(next.run(request).await);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    let (took, status) = (began.elapsed(), response.status().as_u16());
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    app.http.answered(method_label(&method), route, status, took);
    if let Some(RefusedWith(code)) = response.extensions().get() {
        app.http.refused(*code);
    }
    tracing::debug!(%method, path, route, status, took_us = took.as_micros(), request_id = ?id, "request");
    response
}

/// The policy of an answer that no browser shows as a page.
const NO_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";
/// The policy of the API browser and the pages of errors: their own files, and the styles that they write into the
/// page.
const DOCS: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// A year, of this host name alone.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the security headers to every answer. The console's own pages have added theirs already.
pub(crate) async fn protect(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let policy = if is_of_docs(request.uri().path()) { DOCS } else { NO_PAGE };
    let mut response = next.run(request).await;
    punctual_console::protect(response.headers_mut(), policy);
    if app.certificates.is_some() {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
    response
}

/// Adds the security headers to an answer that passes no layer: it is no page.
pub(crate) fn protect_no_page(headers: &mut HeaderMap) {
    punctual_console::protect(headers, NO_PAGE);
}

fn is_of_docs(path: &str) -> bool {
    path == "/docs" || path.starts_with("/docs/")
}

/// The caller's own, or a new one: unique in this process, and after a restart.
fn request_id(app: &App, request: &Request) -> HeaderValue {
    let given = request.headers().get(REQUEST_ID).filter(|header| {
        let text = header.to_str().unwrap_or_default();
        (1..=REQUEST_ID_MAX_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    given.cloned().unwrap_or_else(|| {
        let nth = app.requests.fetch_add(1, Relaxed);
        HeaderValue::try_from(format!("{:x}-{nth:x}", app.started_at.0))
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

/// Bounded, whatever callers invent.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

/// The router answers a wrong method with nothing but `Allow`; that header stays.
fn explain_method(response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let listed = allow.as_ref().and_then(|header| header.to_str().ok()).unwrap_or_default().to_owned();
    let mut refused =
        Refusal::new(Code::RequestMethodNotAllowed, format!("it takes {listed}")).into_response();
    refused.headers_mut().extend(allow.map(|header| (header::ALLOW, header)));
    refused
}

pub(crate) async fn unknown_route(request: Request) -> Refusal {
    Refusal::new(Code::RequestUnknownRoute, format!("{} is not part of the interface", request.uri().path()))
}

/// The reason why the head of a request violates HTTP, attached to the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Refuses such a request before anybody reads it, and ends its connection: where its body ends is not known for sure.
pub(crate) async fn refuse_malformed(request: Request, next: Next) -> Response {
    let Some(Malformed(fault)) = request.extensions().get::<Malformed>().copied() else {
        return next.run(request).await;
    };
    let mut refused = Refusal::new(Code::RequestMalformedHttp, fault).into_response();
    refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    refused
}

/// Refuses what comes beyond `in_flight_max`. A long poll waits, it does not work, and is counted with its like.
pub(crate) async fn shed(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let waits = request.uri().query().is_some_and(|query| query.contains("wait_ms="));
    let (slots, what) = match route.ends_with("/lease") || waits {
        true => (&app.long_polls, "too many calls wait (http.long_polls_max)"),
        false => (&app.slots, "too many requests are under way"),
    };
    match slots.try_acquire() {
        Ok(_slot) => next.run(request).await,
        Err(_) => Refusal::new(Code::Overload, what).into_response(),
    }
}

/// Refuses query parameters of calls that have none, so that no misspelt parameter is ignored. Lists have them, a deletion
/// that is to be confirmed, and the calls that can wait for the end of a task.
pub(crate) async fn refuse_query(request: Request, next: Next) -> Response {
    const LISTS: [&str; 19] = [
        "/v1/queues",
        "/v1/alerts",
        "/v1/tasks",
        "/v1/executors",
        "/v1/dead-letters",
        "/v1/queues/{queue}/changes",
        "/v1/audit",
        "/v1/tokens",
        "/v1/events",
        "/v1/partitions",
        "/v1/namespaces",
        "/v1/schedules",
        "/v1/schedules/{schedule}/next",
        "/v1/schedules/{schedule}/runs",
        "/v1/bulk",
        "/v1/bulk/{bulk}/tasks",
        "/v1/bulk/{bulk}/failures",
        "/v1/workflows",
        "/v1/workflows/{workflow}/graph",
    ];
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let searches = (LISTS.contains(&route) && is_read) || route == "/v1/schedules/preview";
    let confirms = route == "/v1/namespaces/{namespace}" && *request.method() == Method::DELETE;
    let waits = (route == "/v1/tasks/{ref}" && is_read)
        || (route == "/v1/tasks" && *request.method() == Method::POST);
    let checked = if searches || confirms || waits {
        Ok(())
    } else {
        no_query(request.uri().query().unwrap_or_default())
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|panic| (*panic).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(panic = text, "a request panicked");
    Refusal::new(Code::Internal, "the work panicked").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, body::Body, routing::get};
    use tower::ServiceExt as _;
    use tower_http::catch_panic::CatchPanicLayer;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem() {
        async fn broken() -> Response {
            panic!("of this test")
        }
        let router: Router = Router::new().route("/", get(broken)).layer(CatchPanicLayer::custom(panicked));
        let answer = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8(body.to_vec()).unwrap().contains("\"code\":\"internal\""));
    }
}
