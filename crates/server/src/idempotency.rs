//! `Idempotency-Key`: the same POST again gets the first answer, not a second effect. The key is reserved in the store
//! before the work begins, whichever engine is asked: who comes meanwhile is told so (409). The answer takes the place of
//! the reservation. A crash between the two is survived by the work itself (an insert derives its id from the key); the
//! reservation ends by itself, and the next try does the work. Never keeps an answer that another try could better:
//! failures of the server, and refusals of a request's form.

use crate::{
    access::Who,
    answer,
    app::Shared,
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
use punctual_contract::store::{Reply, ReplyKey, Reservation, Reserved};
use punctual_protocol::{Code, PROBLEM_CONTENT_TYPE};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// On an answer that was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Answers with secrets, which are kept nowhere.
const SECRETS: &str = "/v1/tokens";

/// A key is reserved for so long, and again while its request is worked on. An engine that dies holds it no longer.
const RESERVED_MS: i64 = 30_000;
const RESERVE_AGAIN: Duration = Duration::from_secs(10);

/// One request under its key.
#[derive(Clone, Debug)]
struct Turn {
    app: Shared,
    key: ReplyKey,
    /// Another one for each request of each process.
    owner: String,
}

impl Turn {
    fn new(app: &Shared, key: ReplyKey) -> Self {
        let nth = app.keyed.fetch_add(1, Relaxed);
        let owner = format!("{}/{nth}", app.engine.name());
        Self { app: Arc::clone(app), key, owner }
    }

    async fn reserve(&self, request_hash: u64) -> Result<Reserved, punctual_contract::Error> {
        let now = self.app.engine.now();
        let reservation =
            Reservation { request_hash, owner: self.owner.clone(), until: now.plus(RESERVED_MS) };
        self.app.engine.store().reserve_reply(&self.key, &reservation, now).await
    }

    /// No answer came that is worth keeping: the next try begins at once.
    async fn release(&self) {
        if let Err(error) = self.app.engine.store().release_reply(&self.key, &self.owner).await {
            tracing::warn!(%error, "an idempotency key stays reserved for a while");
        }
    }

    /// Works, and says again and again that it does.
    async fn working<T>(&self, request_hash: u64, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(RESERVE_AGAIN) => {}
            }
            if let Err(error) = self.reserve(request_hash).await {
                tracing::warn!(%error, "an idempotency key could not be reserved for longer");
            }
        }
    }
}

/// The layer. Work under a key runs to its end although the client may hang up: its next try wants the answer.
pub(crate) async fn keep_replies(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let caller = Caller::of(&parts);
    let request = Request::from_parts(parts, body);
    let key = match caller {
        Ok(Caller { namespace, idempotency_key: Some(key), who, .. }) => {
            if request.uri().path().starts_with(SECRETS) {
                return keeps_no_secret().into_response();
            }
            ReplyKey { namespace, key: owned(key, &who) }
        }
        Ok(_) => return next.run(request).await,
        Err(refusal) => return refusal.into_response(),
    };
    let turn = Turn::new(&app, key);
    match app.detached.spawn(once(turn.clone(), request, next)).await {
        Ok(answered) => answered.unwrap_or_else(|refusal| refusal.into_response()),
        Err(_) => {
            turn.release().await;
            Refusal::new(Code::Internal, "the work panicked").into_response()
        }
    }
}

/// Keys belong to the token that sends them: what was answered to one is never read by another. No key has the
/// character between the two.
fn owned(key: String, who: &Who) -> String {
    who.owner().map(|it| format!("{it}\u{1}{key}")).unwrap_or(key)
}

fn keeps_no_secret() -> Refusal {
    let detail =
        "header Idempotency-Key: a token is shown once, and no answer with it is kept; leave the header out";
    Refusal::new(Code::RequestInvalid, detail)
}

async fn once(turn: Turn, request: Request, next: Next) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let body = read_body(&turn.app, &parts, body).await?;
    let request_hash = request_hash(&parts, &body);
    match turn.reserve(request_hash).await? {
        Reserved::Ours => {}
        Reserved::Answered(reply) => return replay(reply, request_hash),
        Reserved::Theirs => {
            return Err(Refusal::new(Code::IdempotencyInProgress, format!("key {:?}", turn.key.key)));
        }
    }
    let work = next.run(Request::from_parts(parts, Body::from(body)));
    let response = turn.working(request_hash, work).await;
    Ok(keep(&turn, request_hash, response).await)
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

async fn keep(turn: &Turn, request_hash: u64, response: Response) -> Response {
    let app = &turn.app;
    if !is_worth_keeping(response.status()) {
        turn.release().await;
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return Refusal::new(Code::Internal, error.to_string()).into_response(),
    };
    let keep_until = app.engine.now().plus(app.options.keep_replies_ms);
    let reply = Reply { request_hash, status: parts.status.as_u16(), body: body.to_vec(), keep_until };
    if let Err(error) = app.engine.store().save_reply(&turn.key, &reply).await {
        tracing::warn!(%error, "an answer could not be kept under its idempotency key");
    }
    Response::from_parts(parts, Body::from(body))
}

/// What the state of a task decided, and no fault of the server's or of the request's form.
fn is_worth_keeping(status: StatusCode) -> bool {
    status.is_success()
        || matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED)
}
