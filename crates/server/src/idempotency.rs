//! `Idempotency-Key`: the same POST again gets the first answer, not a second effect. An answer is kept in the store
//! after the work is done; a crash between the two is survived by the work itself (an insert derives its id from the
//! key). Never keeps an answer that another try could better: failures of the server, and refusals of a request's form.

use crate::{
    answer,
    app::{App, Shared},
    extract::{Caller, read_body},
    hash,
    refusal::Refusal,
};
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use parking_lot::Mutex;
use punctual_contract::store::{Reply, ReplyKey};
use punctual_protocol::{Code, PROBLEM_CONTENT_TYPE};
use std::{collections::HashSet, sync::Arc};

/// On an answer that was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Keys whose first request is not answered yet. Of this process: another one is kept from doubling a task by the
/// store.
#[derive(Debug, Default)]
pub(crate) struct InProgress(Mutex<HashSet<ReplyKey>>);

/// Removes its key when it goes, also when the work panics.
struct Turn {
    app: Shared,
    key: ReplyKey,
}

impl Turn {
    /// None: another request with this key is being worked on.
    fn begin(app: &Shared, key: &ReplyKey) -> Option<Self> {
        let first = app.in_progress.0.lock().insert(key.clone());
        first.then(|| Self { app: Arc::clone(app), key: key.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.app.in_progress.0.lock().remove(&self.key);
    }
}

/// The layer. Work under a key runs to its end although the client may hang up: its next try wants the answer.
pub(crate) async fn keep_replies(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let key = match Caller::of(request.headers()) {
        Ok(Caller { namespace, idempotency_key: Some(key), .. }) => ReplyKey { namespace, key },
        Ok(_) => return next.run(request).await,
        Err(refusal) => return refusal.into_response(),
    };
    let work = once(Arc::clone(&app), key, request, next);
    match app.detached.spawn(work).await {
        Ok(answered) => answered.unwrap_or_else(|refusal| refusal.into_response()),
        Err(_) => Refusal::new(Code::Internal, "the work panicked").into_response(),
    }
}

async fn once(app: Shared, key: ReplyKey, request: Request, next: Next) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let body = read_body(&app, &parts.headers, body).await?;
    let request_hash = request_hash(&parts, &body);
    let Some(turn) = Turn::begin(&app, &key) else {
        return Err(Refusal::new(Code::IdempotencyInProgress, format!("key {:?}", key.key)));
    };
    if let Some(reply) = app.engine.store().load_reply(&key, app.engine.now()).await? {
        return replay(reply, request_hash);
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let answered = keep(&app, &key, request_hash, response).await;
    drop(turn);
    Ok(answered)
}

fn request_hash(parts: &Parts, body: &[u8]) -> u64 {
    let address = parts.uri.path_and_query().map_or("", |it| it.as_str());
    hash::of(&[parts.method.as_str().as_bytes(), address.as_bytes(), body])
}

fn replay(reply: Reply, request_hash: u64) -> Result<Response, Refusal> {
    if reply.request_hash != request_hash {
        return Err(Refusal::new(
            Code::IdempotencyKeyReused,
            "the body or the address differs from the first",
        ));
    }
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let mut response = answer::json_bytes(status, Bytes::from(reply.body));
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    if status.is_client_error() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_CONTENT_TYPE));
    }
    Ok(response)
}

async fn keep(app: &App, key: &ReplyKey, request_hash: u64, response: Response) -> Response {
    if !is_worth_keeping(response.status()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return Refusal::new(Code::Internal, error.to_string()).into_response(),
    };
    let keep_until = app.engine.now().plus(app.options.keep_replies_ms);
    let reply = Reply { request_hash, status: parts.status.as_u16(), body: body.to_vec(), keep_until };
    if let Err(error) = app.engine.store().save_reply(key, &reply).await {
        tracing::warn!(%error, "an answer could not be kept under its idempotency key");
    }
    Response::from_parts(parts, Body::from(body))
}

/// What the state of a task decided, and no fault of the server's or of the request's form.
fn is_worth_keeping(status: StatusCode) -> bool {
    status.is_success()
        || matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED)
}
