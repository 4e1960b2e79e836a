//! What the guard costs each request: the look at its token alone (a hash, a look-up, the note of its use), and a request
//! through the whole router, with tokens and without. Nothing of it waits for the store, so the difference is all there is.

use axum::{Router, body::Body, http::Request};
use criterion::{Criterion, criterion_group, criterion_main};
use punctual_bus::MemoryBus;
use punctual_contract::Clock as _;
use punctual_domain::{
    access::{Grant, Role},
    time::Millis,
};
use punctual_engine::{
    Backends, Engine, Options,
    access::{
        Identified,
        tokens::{Created, NewToken},
    },
};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_server::ServerOptions;
use punctual_store::SqliteStore;
use punctual_testkit::clock::ManualClock;
use std::{hint::black_box, sync::Arc};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

/// Tokens that the store has, beside the one that is sent.
const OTHERS: usize = 100;
const NOW: Millis = Millis(1_900_000_000_000);

struct Site {
    engine: Engine,
    router: Router,
    /// Some: every request needs one.
    token: Option<String>,
}

impl Site {
    async fn new(with_tokens: bool) -> Self {
        let engine = engine();
        let mut token = None;
        for nth in 0..if with_tokens { OTHERS + 1 } else { 0 } {
            let (name, grant) = (nth.to_string(), Grant::everywhere(Role::Viewer));
            let new = NewToken { name, grant, expires_at: None, grace_ms: None };
            let created = engine.create_token(new, "bench").await.expect("a store in memory takes a token");
            let Created::Done(issued) = created else { panic!("no grace is asked for") };
            token = Some(issued.secret.reveal().to_owned());
        }
        engine.access_is_known().await.expect("a store in memory can be read");
        let router = punctual_server::router(engine.clone(), ServerOptions::default());
        Self { engine, router, token }
    }

    /// The guard lets it through to no route: what is measured is the way there.
    async fn ask(&self) -> u16 {
        let request = Request::get("/v1/nothing").header("host", "localhost");
        let request = match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let request = request.body(Body::empty()).expect("a request of constants");
        let answer = self.router.clone().oneshot(request).await;
        answer.map_or_else(|never| match never {}, |response| response.status().as_u16())
    }
}

fn engine() -> Engine {
    let store = SqliteStore::in_memory(&punctual_store::Options::default()).expect("memory is there");
    let clock = ManualClock::at(NOW);
    assert_eq!(clock.now(), NOW);
    let backends = Backends {
        hot: Arc::new(NoHot),
        store: Arc::new(store),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(clock),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, Options::default())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime of one thread")
}

fn guard(criterion: &mut Criterion) {
    let runtime = runtime();
    let (open, guarded) = runtime.block_on(async { (Site::new(false).await, Site::new(true).await) });
    let mut group = criterion.benchmark_group("guard");
    let token = guarded.token.as_deref();
    group.bench_function("identify/good", |bencher| {
        bencher.iter(|| {
            let found = guarded.engine.identify(black_box(token));
            assert!(matches!(found, Identified::As(_)));
        });
    });
    // The right id with another secret: the same work.
    let wrong = token.map(|token| format!("{}a", token.get(..token.len() - 1).unwrap_or_default()));
    group.bench_function("identify/wrong", |bencher| {
        bencher.iter(|| {
            let found = guarded.engine.identify(black_box(wrong.as_deref()));
            assert!(matches!(found, Identified::Refused(_) | Identified::As(_)));
        });
    });
    for (name, site) in [("without tokens", &open), ("with a token", &guarded)] {
        group.bench_function(format!("request/{name}"), |bencher| {
            bencher.to_async(&runtime).iter(|| async { assert_eq!(site.ask().await, 404) });
        });
    }
    group.finish();
}

criterion_group!(benches, guard);
criterion_main!(benches);
