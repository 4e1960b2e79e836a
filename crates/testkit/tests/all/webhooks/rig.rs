//! Engines with their dispatchers and their API, on one ground, and one receiver on this machine.

use crate::{
    crash_points::{Embedded, Ground, OnServers},
    engine::WallClock,
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Request, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use punctual_contract::Clock as _;
use punctual_engine::{Backends, Engine, Options, Running};
use punctual_server::{EngineTasks, ServerOptions};
use punctual_testkit::patience::until;
use punctual_webhook::{Dispatcher, TaskSource};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{net::TcpListener, task::JoinSet};
use tower::ServiceExt as _;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request as the receiver got it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) signature: String,
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

/// `None`: no answer.
type Answer = Box<dyn Fn(&Seen) -> Option<(u16, Value)> + Send + Sync>;

#[derive(Default)]
struct Receiver {
    seen: Mutex<Vec<Seen>>,
    answer: Mutex<Option<Answer>>,
}

pub(crate) struct WebhookNode {
    pub(crate) engine: Engine,
    pub(crate) dispatcher: Dispatcher,
    router: Router,
    _running: Running,
}

pub(crate) struct WebhookSite {
    pub(crate) nodes: Vec<WebhookNode>,
    receiver: Arc<Receiver>,
    port: u16,
    _work: JoinSet<()>,
}

pub(crate) async fn embedded() -> WebhookSite {
    WebhookSite::over(Embedded::ground().await, 1, dispatcher).await
}

pub(crate) async fn on_servers() -> WebhookSite {
    WebhookSite::over(OnServers::ground().await, 2, dispatcher).await
}

pub(crate) fn tasks(engine: &Engine) -> EngineTasks {
    EngineTasks::new(engine.clone(), ServerOptions::default())
}

fn dispatcher(engine: &Engine) -> Dispatcher {
    Dispatcher::new(Arc::new(tasks(engine)))
}

impl WebhookSite {
    pub(crate) async fn over(
        ground: Arc<dyn Ground>,
        engines: usize,
        dispatcher: impl Fn(&Engine) -> Dispatcher,
    ) -> Self {
        let mut nodes = Vec::new();
        for nth in 0..engines {
            let stand = ground.stand().await;
            let backends = Backends {
                store: stand.store,
                hot: stand.hot,
                limiter: stand.limiter,
                bus: stand.bus,
                clock: Arc::new(WallClock),
                blobs: None,
                shared: stand.shared,
            };
            let name = format!("e{nth}-{:04x}", fastrand::u16(..));
            let engine = Engine::new(backends, Options { name, ..Options::default() });
            let running = engine.start().unwrap();
            let dispatcher = dispatcher(&engine);
            let supervised = dispatcher.clone();
            running.supervise("webhooks", punctual_webhook::PERIOD, move |_| {
                let dispatcher = supervised.clone();
                async move { Ok(dispatcher.run_once()) }
            });
            let options = ServerOptions { webhooks: Some(dispatcher.clone()), ..ServerOptions::default() };
            let router = punctual_server::router(engine.clone(), options);
            nodes.push(WebhookNode { engine, dispatcher, router, _running: running });
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver: Arc<Receiver> = Arc::default();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&receiver));
        let mut work = JoinSet::new();
        work.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { nodes, receiver, port, _work: work }
    }

    /// How the receiver answers from now on.
    pub(crate) async fn receive(&self, answer: impl Fn(&Seen) -> (u16, Value) + Send + Sync + 'static) {
        *self.receiver.answer.lock() = Some(Box::new(move |seen| Some(answer(seen))));
    }

    /// The receiver never answers.
    pub(crate) async fn receive_in_silence(&self) {
        *self.receiver.answer.lock() = Some(Box::new(|_| None));
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.receiver.seen.lock().clone()
    }

    pub(crate) fn now_ms(&self) -> i64 {
        WallClock.now().0
    }

    /// Sets the receiver of a queue, signed, with further settings. Returns the queue.
    pub(crate) async fn set_webhook(&self, queue: &str, path: &str, more: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut webhook = json!({ "url": url, "secret": SECRET, "allow_private": true });
        webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let settings = json!({ "mode": "webhook", "webhook": webhook });
        let set = self.ok("PUT", &format!("/v1/queues/{queue}"), &settings).await;
        // Other engines deliver by it within a second.
        until("every engine knows the receiver", || async {
            let knows = |node: &WebhookNode| {
                let queues = node.engine.webhook_queues();
                queues.iter().any(|(_, known)| known.webhook.as_ref().is_some_and(|known| known.url == url))
            };
            self.nodes.iter().all(knows)
        })
        .await;
        set
    }

    pub(crate) async fn call(&self, nth: usize, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let body = if method == "GET" { Body::empty() } else { Body::from(body.to_string()) };
        let router = self.nodes[nth % self.nodes.len()].router.clone();
        let answer = router.oneshot(request.body(body).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call(0, method, path, body).await;
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, &Value::Null).await
    }

    pub(crate) async fn from_each(&self, path: &str) -> Vec<Value> {
        let mut answers = Vec::new();
        for nth in 0..self.nodes.len() {
            answers.push(self.call(nth, "GET", path, &Value::Null).await.1);
        }
        answers
    }

    /// Inserts at one of the engines. Returns the reference.
    pub(crate) async fn insert(&self, nth: usize, task: &Value) -> String {
        let (status, answer) = self.call(nth, "POST", "/v1/tasks", task).await;
        assert_eq!(status, 201, "{answer}");
        answer["ref"].as_str().unwrap().to_owned()
    }

    /// Waits for a state of a task. Returns the task.
    pub(crate) async fn until_state(&self, r#ref: &str, state: &str) -> Value {
        let path = format!("/v1/tasks/{ref}");
        until(state, || async { self.get(&path).await["state"] == state }).await;
        self.get(&path).await
    }
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header =
        |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let seen = Seen {
        path: uri.path().to_owned(),
        id: header("webhook-id"),
        signature: header("webhook-signature"),
        authorization: header("authorization"),
        body: serde_json::from_slice(&body).unwrap(),
    };
    let answer = receiver.answer.lock().as_ref().and_then(|answer| answer(&seen));
    receiver.seen.lock().push(seen);
    let Some((status, body)) = answer else { return std::future::pending().await };
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

macro_rules! on_each_ground {
    ($($case:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::webhooks::rig::embedded().await).await;
            })*
        }
        mod servers {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::webhooks::rig::on_servers().await).await;
            })*
        }
    };
}
pub(crate) use on_each_ground;

/// For dispatchers whose source is not the engine itself.
pub(crate) fn dispatcher_over(source: impl TaskSource + 'static) -> Dispatcher {
    Dispatcher::new(Arc::new(source))
}
