//! What runs beside the engine's own services, as the housekeeping of buckets and archives does: started again after a
//! panic, counted, in the alerts, and ended with the engine.

use crate::engine::WallClock;
use punctual_bus::MemoryBus;
use punctual_contract::{Error, Store};
use punctual_engine::{AlertKind, Backends, Engine, Options, ServiceNumbers};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::patience::until;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

fn engine() -> Engine {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let backends = Backends {
        store,
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, Options::default())
}

fn numbers(engine: &Engine) -> ServiceNumbers {
    engine.meters().services().into_iter().find(|service| service.name == "buckets").unwrap()
}

const PERIOD: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_that_panics_is_started_again_and_counted() {
    let engine = engine();
    let running = engine.start().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    running.supervise("buckets", PERIOD, move |_| {
        let nth = counted.fetch_add(1, SeqCst);
        async move {
            assert!(nth > 0, "as a defect would");
            Ok(nth)
        }
    });
    until("it runs again", || async { runs.load(SeqCst) > 3 }).await;
    until("it is counted", || async { numbers(&engine).handled >= 3 }).await;
    let found = numbers(&engine);
    assert_eq!((found.panics, found.failures_in_a_row), (1, 0));
    assert!(found.succeeded_at.is_some());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_that_fails_again_and_again_is_an_alert() {
    let engine = engine();
    let running = engine.start().unwrap();
    running.supervise("buckets", PERIOD, |_| async {
        Err(Error::did_not_happen("keep buckets", "the place of the archives is away"))
    });
    until("it has failed", || async { numbers(&engine).failures_in_a_row >= 3 }).await;
    let alerts = engine.alerts().await.unwrap();
    let found = alerts.iter().find(|alert| alert.kind == AlertKind::ServiceFailing).unwrap();
    assert!(found.text.contains("buckets"), "{}", found.text);
    assert_eq!(numbers(&engine).succeeded_at, None);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_stops_does_not_wait_for_housekeeping_that_hangs() {
    let engine = engine();
    let running = engine.start().unwrap();
    running.supervise("buckets", PERIOD, |_| std::future::pending());
    until("it is there", || async {
        engine.meters().services().iter().any(|service| service.name == "buckets")
    })
    .await;
    running.stop().await;
}
