//! `Idempotency-Key`: the same POST again gets the first answer, not a second effect. The key is reserved in the store
//! before the work begins, whichever engine is asked: a request that comes meanwhile is refused (409). The answer takes the place of
//! the reservation. A crash between the two is survived by the work itself (an insert derives its id from the key); the
//! reservation ends by itself, and the next try does the work. Never keeps an answer that another try could better:
//! failures of the server, and refusals of a request's form. Of a batch, items that were refused for now are worked on when
//! it is sent again; what became of the others stays.

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
use punctual_protocol::{BatchAnswer, BatchItem, Code, PROBLEM_CONTENT_TYPE};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// The header of an answer that was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The path of answers with secrets, which are stored nowhere.
const SECRETS: &str = "/v1/tokens";
/// Answers of which parts may be for now only.
const BATCH: &str = "/v1/tasks/batch";

/// A key is reserved for so long, and again while its request is worked on. An engine that dies holds it no longer.
const RESERVED_MS: i64 = 30_000;
const RESERVE_AGAIN: Duration = Duration::from_secs(10);

/// One request under its key.
#[derive(Clone, Debug)]
struct KeyReservation {
    app: Shared,
    key: ReplyKey,
    /// Another one for each request of each process.
    owner: String,
}

impl KeyReservation {
    fn new(app: &Shared, key: ReplyKey) -> Self {
        let nth = app.keyed.fetch_add(1, Relaxed);
        let owner = format!("{}/{nth}", app.engine.name());
        Self { app: Arc::clone(app), key, owner }
    }

    /// The reservation for the rest of a batch whose answer is stored already. No key of a caller has the character
    /// at its end.
    fn of_rest(&self) -> Self {
        let mut rest = self.clone();
        rest.key.key.push('\u{2}');
        rest
    }

    async fn reserve(&self, request_hash: u64) -> Result<Reserved, punctual_contract::Error> {
        let now = self.app.engine.now();
        let reservation =
            Reservation { request_hash, owner: self.owner.clone(), until: now.plus(RESERVED_MS) };
        self.app.engine.store().reserve_reply(&self.key, &reservation, now).await
    }

    /// Releases the reservation if there is no answer to store: the next try begins at once.
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
    let key_reservation = KeyReservation::new(&app, key);
    match app.detached.spawn(once(key_reservation.clone(), request, next)).await {
        Ok(answered) => answered.unwrap_or_else(|refusal| refusal.into_response()),
        Err(_) => {
            key_reservation.release().await;
            Refusal::new(Code::Internal, "the work panicked").into_response()
        }
    }
}

/// Keys belong to the token that sends them: what was answered to one is never read by another. No key has the
/// character between the two.
fn owned(key: String, who: &Who) -> String {
    who.owner().map(|owner| format!("{owner}\u{1}{key}")).unwrap_or(key)
}

fn keeps_no_secret() -> Refusal {
    let detail =
        "header Idempotency-Key: a token is shown once, and no answer with it is kept; leave the header out";
    Refusal::new(Code::RequestInvalid, detail)
}

async fn once(key_reservation: KeyReservation, request: Request, next: Next) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let body = read_body(&key_reservation.app, &parts, body).await?;
    let hashes = Hashes::of(&parts, &body);
    match key_reservation.reserve(hashes.canonical).await? {
        Reserved::Ours => {}
        Reserved::Answered(reply) => {
            let Some(earlier) = unfinished(&reply, &hashes) else { return replay(reply, &hashes) };
            return go_on(
                &key_reservation,
                &hashes,
                earlier,
                Request::from_parts(parts, Body::from(body)),
                next,
            )
            .await;
        }
        Reserved::Theirs => return Err(in_progress(&key_reservation)),
    }
    let work = next.run(Request::from_parts(parts, Body::from(body)));
    let response = key_reservation.working(hashes.canonical, work).await;
    Ok(keep(&key_reservation, hashes.canonical, response).await)
}

fn in_progress(key_reservation: &KeyReservation) -> Refusal {
    let key = key_reservation.key.key.trim_end_matches('\u{2}');
    Refusal::new(Code::IdempotencyInProgress, format!("key {key:?}"))
}

/// The results of this batch's items at its earlier tries, attached to its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier(pub(crate) Arc<Vec<BatchItem>>);

impl Earlier {
    /// The earlier result of an item, by its index. `None` if it must be processed.
    pub(crate) fn settled(&self, nth: usize) -> Option<BatchItem> {
        self.0.get(nth).filter(|item| !is_for_now(item)).cloned()
    }
}

/// Refused as long as there is no room, or the store is unavailable: the caller tries again.
fn is_for_now(item: &BatchItem) -> bool {
    matches!(item.status, 429 | 500..)
}

/// The items of a batch that was answered under this key, if one of them was refused for now.
fn unfinished(reply: &Reply, hashes: &Hashes) -> Option<Earlier> {
    if !hashes.are_of(reply) || !hashes.is_batch || reply.status != 200 {
        return None;
    }
    let answer: BatchAnswer = serde_json::from_slice(&reply.body).ok()?;
    answer.results.iter().any(is_for_now).then(|| Earlier(Arc::new(answer.results)))
}

/// Works on what is left of a batch; one request at a time does.
async fn go_on(
    key_reservation: &KeyReservation,
    hashes: &Hashes,
    earlier: Earlier,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let rest = key_reservation.of_rest();
    if rest.reserve(hashes.canonical).await? != Reserved::Ours {
        return Err(in_progress(&rest));
    }
    let done = async {
        // Another one may have continued it since.
        let store = key_reservation.app.engine.store();
        let reply = store.load_reply(&key_reservation.key, key_reservation.app.engine.now()).await?;
        let earlier = match reply.map(|reply| (unfinished(&reply, hashes), reply)) {
            Some((None, reply)) => return replay(reply, hashes),
            Some((Some(earlier), _)) => earlier,
            None => earlier,
        };
        request.extensions_mut().insert(earlier);
        let response = rest.working(hashes.canonical, next.run(request)).await;
        Ok(keep(key_reservation, hashes.canonical, response).await)
    };
    let done = done.await;
    rest.release().await;
    done
}

/// Tells a repetition from another request under the same key.
struct Hashes {
    /// The hash of a JSON body, independent of the order of its members.
    canonical: u64,
    /// The hash of the exact bytes, as in releases up to 0.2.
    literal: u64,
    is_batch: bool,
}

impl Hashes {
    fn of(parts: &Parts, body: &[u8]) -> Self {
        let address = parts.uri.path_and_query().map_or("", |path_and_query| path_and_query.as_str());
        let of_body = |body: &[u8]| hash::of(&[parts.method.as_str().as_bytes(), address.as_bytes(), body]);
        let literal = of_body(body);
        let canonical = hash::json(body).map_or(literal, |hash| of_body(&hash.to_be_bytes()));
        Self { canonical, literal, is_batch: parts.uri.path() == BATCH }
    }

    fn are_of(&self, reply: &Reply) -> bool {
        [self.canonical, self.literal].contains(&reply.request_hash)
    }
}

fn replay(reply: Reply, hashes: &Hashes) -> Result<Response, Refusal> {
    if !hashes.are_of(&reply) {
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

async fn keep(key_reservation: &KeyReservation, request_hash: u64, response: Response) -> Response {
    let app = &key_reservation.app;
    if !is_worth_keeping(response.status()) {
        key_reservation.release().await;
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return Refusal::new(Code::Internal, error.to_string()).into_response(),
    };
    let keep_until = app.engine.now().plus(app.options.keep_replies_ms);
    let reply = Reply { request_hash, status: parts.status.as_u16(), body: body.to_vec(), keep_until };
    if let Err(error) = app.engine.store().save_reply(&key_reservation.key, &reply).await {
        tracing::warn!(%error, "an answer could not be kept under its idempotency key");
    }
    Response::from_parts(parts, Body::from(body))
}

/// True if the state of a task decided the answer, and no fault of the server or of the request's form.
fn is_worth_keeping(status: StatusCode) -> bool {
    status.is_success()
        || matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED)
}
