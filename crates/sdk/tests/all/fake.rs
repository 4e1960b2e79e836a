//! A server in the same process that implements the interface strictly (it parses requests like the real
//! one), records its calls, and can be unavailable or lose answers. In process, so that tests can pause the
//! clock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use punctual_sdk::protocol::{
    Code, HeartbeatAnswer, HeartbeatRequest, InsertBatch, InsertTask, LeaseAnswer, LeaseNews, LeaseRequest,
    LeasedTask, Outcome, OutcomeBatch, OutcomeKind, OutcomeReceipt, OutcomeStatus, OutcomesAnswer, Problem,
    Wish,
};
use punctual_sdk::{Client, Failure, HttpRequest, Reply, Transport, Worker};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tower::ServiceExt;

#[derive(Debug)]
pub(crate) struct Fake {
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
    away: watch::Sender<bool>,
}

/// The server's records, and its behaviour.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) waiting: HashMap<String, VecDeque<LeasedTask>>,
    pub(crate) held: HashMap<String, String>,
    pub(crate) lost: HashSet<String>,
    /// Their database does not answer the server.
    pub(crate) unavailable: HashSet<String>,
    /// The same, and the server has a journal.
    pub(crate) journalled: HashSet<String>,
    pub(crate) cancel: HashSet<String>,
    /// Tokens of attempts that a heartbeat has begun.
    pub(crate) begun: HashSet<String>,
    /// An engine older than 0.3, which does not say who began an attempt.
    pub(crate) is_old: bool,
    /// Sent with every lease and heartbeat.
    pub(crate) wish: Option<Wish>,
    pub(crate) leases: Vec<(String, LeaseRequest)>,
    /// An engine that accepts several queues in one call; an older one answers that the path is unknown.
    pub(crate) takes_several: bool,
    /// Long polls that wait.
    pub(crate) polling: usize,
    pub(crate) beats: Vec<(Instant, HeartbeatRequest)>,
    /// Each report, with its effect.
    pub(crate) reports: Vec<Vec<Outcome>>,
    pub(crate) inserted: Vec<InsertTask>,
    pub(crate) batches: Vec<usize>,
    /// Method, path and headers of every call that arrived.
    pub(crate) calls: Vec<(String, HeaderMap)>,
    /// The next answers to calls with this end of the path are lost.
    pub(crate) lose_answers: VecDeque<&'static str>,
    /// The next calls are answered by these.
    pub(crate) refuse: VecDeque<Problem>,
    /// After this many batches, the next ones get this answer.
    pub(crate) refuse_batch_after: Option<(usize, Problem)>,
    /// Reports are answered by this.
    pub(crate) refuse_reports: Option<Problem>,
    /// Results longer than this are not valid; reports longer than that are too large.
    pub(crate) result_max: Option<usize>,
    pub(crate) report_max: Option<usize>,
    by_key: HashMap<String, Bytes>,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let (changed, _) = watch::channel(());
        let (away, _) = watch::channel(false);
        Arc::new(Self { kept: Mutex::default(), changed, away })
    }

    pub(crate) fn client(self: &Arc<Self>) -> Client {
        Client::builder().transport(self.transport()).build().unwrap()
    }

    pub(crate) fn transport(self: &Arc<Self>) -> Arc<dyn Transport> {
        Arc::new(InProcess { router: self.router(), fake: self.clone() })
    }

    pub(crate) fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(self.client()).queue("q").executor("w-1")
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/tasks", post(insert).get(list))
            .route("/v1/tasks/batch", post(insert_batch))
            .route("/v1/tasks/{ref}", get(one).patch(one))
            .route("/v1/tasks/{ref}/{action}", post(act).get(one))
            .route("/v1/queues/{queue}/lease", post(lease))
            .route("/v1/lease", post(lease_from_several))
            .route("/v1/outcomes", post(outcomes))
            .route("/v1/heartbeats", post(heartbeats))
            .with_state(self.clone())
    }

    /// Puts a task into queue `q`.
    pub(crate) fn put(&self, reference: &str, kind: &str) {
        self.put_task(
            "q",
            LeasedTask { r#ref: reference.into(), kind: kind.into(), attempt: 1, ..LeasedTask::default() },
        );
    }

    pub(crate) fn put_task(&self, queue: &str, task: LeasedTask) {
        let task = LeasedTask { queue: queue.into(), token: format!("token of {}", task.r#ref), ..task };
        self.change(|kept| kept.waiting.entry(queue.into()).or_default().push_back(task));
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let value = change(&mut self.kept());
        self.changed.send_replace(());
        value
    }

    /// The server does not answer; running calls are cut off.
    pub(crate) fn away(&self, away: bool) {
        self.away.send_replace(away);
    }

    /// Waits until it holds; an hour of the (paused) clock is enough for everything.
    pub(crate) async fn until(&self, holds: impl Fn(&Kept) -> bool) {
        let mut changes = self.changed.subscribe();
        let waiting = async {
            while !holds(&self.kept()) {
                changes.changed().await.unwrap();
            }
        };
        timeout(Duration::from_secs(3_600), waiting).await.expect("it never came to hold");
    }

    /// The outcomes that counted.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.kept().reports.concat()
    }

    /// Waits for the outcome of a task.
    pub(crate) async fn outcome(&self, reference: &str) -> Outcome {
        let of = |kept: &Kept| kept.reports.iter().flatten().find(|o| o.r#ref == reference).cloned();
        self.until(|kept| of(kept).is_some()).await;
        of(&self.kept()).unwrap()
    }

    pub(crate) fn kinds(&self) -> Vec<(String, OutcomeKind)> {
        self.outcomes().into_iter().map(|o| (o.r#ref, o.outcome)).collect()
    }
}

#[derive(Debug)]
struct InProcess {
    router: Router,
    fake: Arc<Fake>,
}

impl Transport for InProcess {
    fn send(&self, call: HttpRequest) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            let mut away = self.fake.away.subscribe();
            if *away.borrow_and_update() {
                return Err(Failure::NotSent("nobody listens".into()));
            }
            let path = call.path.clone();
            tokio::select! {
                biased;
                _ = away.wait_for(|away| *away) => Err(Failure::Unanswered("cut off".into())),
                reply = exchange(self.router.clone(), call) => {
                    let lost = self.fake.change(|kept| {
                        let lost = kept.lose_answers.front().is_some_and(|tail| path.ends_with(tail));
                        if lost { kept.lose_answers.pop_front() } else { None }
                    });
                    if lost.is_some() { Err(Failure::Unanswered("the answer was lost".into())) } else { Ok(reply) }
                }
            }
        })
    }
}

async fn exchange(router: Router, call: HttpRequest) -> Reply {
    let mut request = Request::builder().method(call.method).uri(call.path);
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    let response = router.oneshot(request.body(Body::from(call.body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Reply { status, body, retry_after: None }
}

fn refusal(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap();
    (status, serde_json::to_vec(problem).unwrap()).into_response()
}

fn ok(value: &impl serde::Serialize) -> Response {
    serde_json::to_vec(value).unwrap().into_response()
}

/// Notes the call; the body, or the answer that was set for it.
async fn arrive(fake: &Fake, request: Request) -> Result<(HeaderMap, Bytes), Response> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let refused = fake.change(|kept| {
        kept.calls.push((format!("{} {}", parts.method, parts.uri), parts.headers.clone()));
        kept.refuse.pop_front()
    });
    match refused {
        Some(problem) => Err(refusal(&problem)),
        None => Ok((parts.headers, body)),
    }
}

pub(crate) fn task_json(reference: &str, outcome: &str) -> Value {
    json!({"ref": reference, "namespace": "default", "task_id": 1, "task_version": 1, "queue": "q", "kind": "k",
        "priority": 3, "state": "scheduled", "phase": "pending", "outcome": outcome, "attempt": 0, "max_attempts": 3,
        "execute_at": "1970-01-01T00:00:00.000Z", "execute_at_ms": 0, "created_at": "1970-01-01T00:00:00.000Z",
        "created_at_ms": 0, "updated_at": "1970-01-01T00:00:00.000Z", "updated_at_ms": 0})
}

/// The first answer again for a key that was there before.
fn once(fake: &Fake, headers: &HeaderMap, work: impl FnOnce(&mut Kept) -> Value) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
    fake.change(|kept| {
        if let Some(known) = key.as_ref().and_then(|key| kept.by_key.get(key)) {
            return known.clone().into_response();
        }
        let answer = Bytes::from(work(kept).to_string());
        kept.by_key.extend(key.map(|key| (key, answer.clone())));
        answer.into_response()
    })
}

fn keep(kept: &mut Kept, task: InsertTask) -> Value {
    kept.inserted.push(task);
    task_json(&format!("t{}", kept.inserted.len()), "created")
}

async fn insert(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let (headers, body) = match arrive(&fake, request).await {
        Ok(arrived) => arrived,
        Err(refused) => return refused,
    };
    match InsertTask::from_json(&body) {
        Ok(task) => once(&fake, &headers, |kept| keep(kept, task)),
        Err(invalid) => refusal(&invalid.into()),
    }
}

async fn insert_batch(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let (headers, body) = match arrive(&fake, request).await {
        Ok(arrived) => arrived,
        Err(refused) => return refused,
    };
    let refused = fake.kept().refuse_batch_after.clone();
    if let Some((_, problem)) = refused.filter(|(after, _)| fake.kept().batches.len() >= *after) {
        return refusal(&problem);
    }
    let batch = InsertBatch::from_json(&body).unwrap();
    once(&fake, &headers, |kept| {
        kept.batches.push(batch.tasks.len());
        let result = |item: Result<InsertTask, _>| match item {
            Ok(task) => json!({"status": 201, "task": keep(kept, task)}),
            Err(invalid) => json!({"status": 400, "error": Problem::from(invalid)}),
        };
        json!({"results": batch.items().map(result).collect::<Vec<_>>()})
    })
}

async fn list(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    match arrive(&fake, request).await {
        Ok(_) => ok(&json!({"items": [task_json("t1", "existing")], "next_cursor": "more"})),
        Err(refused) => refused,
    }
}

async fn one(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let why = request.uri().path().ends_with("/why");
    match arrive(&fake, request).await {
        Ok(_) if why => ok(
            &json!({"ref": "t1", "state": "scheduled", "phase": "pending", "reason": "It waits.", "next_step": "fire"}),
        ),
        Ok(_) => ok(&task_json("t1", "existing")),
        Err(refused) => refused,
    }
}

async fn act(
    State(fake): State<Arc<Fake>>,
    Path((_, action)): Path<(String, String)>,
    request: Request,
) -> Response {
    let outcome = match action.as_str() {
        "cancel" => "cancelled",
        "run-now" => "scheduled",
        _ => "redriven",
    };
    match arrive(&fake, request).await {
        Ok(_) => ok(&json!({"outcome": outcome})),
        Err(refused) => refused,
    }
}

async fn lease(State(fake): State<Arc<Fake>>, Path(queue): Path<String>, request: Request) -> Response {
    let body = match arrive(&fake, request).await {
        Ok((_, body)) => body,
        Err(refused) => return refused,
    };
    let request = LeaseRequest::from_json(&body).unwrap();
    fake.change(|kept| kept.leases.push((queue.clone(), request.clone())));
    let _polling = Polling::new(&fake);
    let until = Instant::now() + Duration::from_millis(request.wait_ms);
    let mut changes = fake.changed.subscribe();
    loop {
        let tasks = take(&fake, &queue, usize::try_from(request.max).unwrap());
        if !tasks.is_empty() || timeout_at(until, changes.changed()).await.is_err() {
            let wish = fake.kept().wish;
            return ok(&LeaseAnswer { tasks, wish });
        }
    }
}

async fn lease_from_several(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let body = match arrive(&fake, request).await {
        Ok((_, body)) => body,
        Err(refused) => return refused,
    };
    if !fake.kept().takes_several {
        return refusal(&Problem::new(Code::RequestUnknownRoute, "/v1/lease is not part of the interface"));
    }
    let request = LeaseRequest::of_several_from_json(&body).unwrap();
    fake.change(|kept| kept.leases.push((String::new(), request.clone())));
    let _polling = Polling::new(&fake);
    let until = Instant::now() + Duration::from_millis(request.wait_ms);
    let mut changes = fake.changed.subscribe();
    loop {
        let mut tasks = Vec::new();
        for queue in &request.queues {
            let left = usize::try_from(request.max).unwrap() - tasks.len();
            let most = queue.max.map_or(left, |max| usize::try_from(max).unwrap().min(left));
            tasks.extend(take(&fake, &queue.name, most));
        }
        if !tasks.is_empty() || timeout_at(until, changes.changed()).await.is_err() {
            let wish = fake.kept().wish;
            return ok(&LeaseAnswer { tasks, wish });
        }
    }
}

/// Counts a long poll until it ends, even if its client hangs up.
struct Polling<'a>(&'a Fake);

impl<'a> Polling<'a> {
    fn new(fake: &'a Fake) -> Self {
        fake.change(|kept| kept.polling += 1);
        Self(fake)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.change(|kept| kept.polling -= 1);
    }
}

fn take(fake: &Fake, queue: &str, max: usize) -> Vec<LeasedTask> {
    let kept = &mut *fake.kept();
    let Some(waiting) = kept.waiting.get_mut(queue) else { return Vec::new() };
    let tasks: Vec<_> = waiting.drain(..max.min(waiting.len())).collect();
    kept.held.extend(tasks.iter().map(|task| (task.token.clone(), task.r#ref.clone())));
    tasks
}

async fn outcomes(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let body = match arrive(&fake, request).await {
        Ok((_, body)) => body,
        Err(refused) => return refused,
    };
    if let Some(problem) = &fake.kept().refuse_reports {
        return refusal(problem);
    }
    let batch = OutcomeBatch::from_json(&body).unwrap();
    if fake.kept().report_max.is_some_and(|max| body.len() > max) {
        return refusal(&Problem::new(Code::RequestTooLarge, "too large"));
    }
    fake.change(|kept| {
        let mut counted = Vec::new();
        let results = batch.items().map(|item| receive(kept, item.unwrap(), &mut counted)).collect();
        kept.reports.push(counted);
        ok(&OutcomesAnswer { results })
    })
}

fn receive(kept: &mut Kept, outcome: Outcome, counted: &mut Vec<Outcome>) -> OutcomeReceipt {
    let reference = outcome.r#ref.clone();
    let length = outcome.result.as_ref().map_or(0, |result| result.get().len());
    if kept.result_max.is_some_and(|max| length > max) {
        let error = Some(Problem::new(Code::RequestTooLarge, "the result is too long"));
        return OutcomeReceipt { r#ref: reference, status: OutcomeStatus::Invalid, error };
    }
    if kept.unavailable.contains(&reference) {
        return OutcomeReceipt::new(reference, OutcomeStatus::Unavailable);
    }
    if kept.lost.contains(&reference) || kept.held.remove(&outcome.token).is_none() {
        return OutcomeReceipt::new(reference, OutcomeStatus::Stale);
    }
    counted.push(outcome);
    let is_for_later = kept.journalled.contains(&reference);
    let status = if is_for_later { OutcomeStatus::AcceptedForLater } else { OutcomeStatus::Accepted };
    OutcomeReceipt::new(reference, status)
}

async fn heartbeats(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let body = match arrive(&fake, request).await {
        Ok((_, body)) => body,
        Err(refused) => return refused,
    };
    let beat = HeartbeatRequest::from_json(&body).unwrap();
    fake.change(|kept| {
        let begun = &mut kept.begun;
        let news = |lease: &punctual_sdk::protocol::LeaseBeat| {
            if kept.unavailable.contains(&lease.r#ref) {
                LeaseNews::unavailable(&lease.r#ref)
            } else if kept.lost.contains(&lease.r#ref) || !kept.held.contains_key(&lease.token) {
                LeaseNews::lost(&lease.r#ref)
            } else {
                let has_begun = (!kept.is_old).then(|| begun.insert(lease.token.clone()));
                let cancel_requested = kept.cancel.contains(&lease.r#ref);
                LeaseNews { has_begun, ..LeaseNews::extended(&lease.r#ref, 0, cancel_requested) }
            }
        };
        let answer = HeartbeatAnswer { leases: beat.leases.iter().map(news).collect(), wish: kept.wish };
        kept.beats.push((Instant::now(), beat));
        ok(&answer)
    })
}
