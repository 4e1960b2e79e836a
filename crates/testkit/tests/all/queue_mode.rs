//! A queue whose executors subscribe from one moment on, and ask again from another: its tasks go where they should.

use crate::engine::{WallClock, queue};
use punctual_contract::{Bus, Clock as _, settings::SaveSetting};
use punctual_domain::{
    name::Name,
    settings::{Mode, QueueSettings, Scope, Setting},
    task::NewTask,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options};
use punctual_hot::NoHot;
use punctual_store::SqliteStore;
use punctual_testkit::patience::HANG_LIMIT;
use std::sync::Arc;
use tokio::time::timeout;

async fn set(engine: &Engine, mode: Mode) {
    let settings = QueueSettings { mode: Some(mode), ..QueueSettings::default() };
    let setting = Some(Setting::Queue(Box::new(settings)));
    let asked = SaveSetting { scope: Scope::Queue(queue()), setting, expected: None, by: "ann".to_owned() };
    engine.save_setting(asked).await.unwrap();
}

async fn insert(engine: &Engine) -> i64 {
    let task = NewTask::new(queue(), Name::new("k").unwrap(), engine.now());
    engine.insert(vec![task], "test").await.unwrap().remove(0).task.place.id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_of_a_queue_changes_while_it_runs() {
    let store = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let hot = Arc::new(NoHot);
    let bus = Arc::new(punctual_bus::MemoryBus::default());
    let limiter = Arc::new(punctual_hot::MemoryLimiter::default());
    let clock = Arc::new(WallClock);
    let backends = Backends { store, hot, limiter, bus: bus.clone(), clock, blobs: None, shared: None };
    let engine = Engine::new(backends, Options::default());
    let running = engine.start().unwrap();
    set(&engine, Mode::Push).await;
    let pushed = insert(&engine).await;
    let received = bus.receive(&queue(), 10, HANG_LIMIT, WallClock.now()).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.message.place.id).collect::<Vec<_>>(), [pushed]);
    set(&engine, Mode::Pull).await;
    // A pusher that is about to end may take what comes within its last look.
    let (mut inserted, mut pulled) = (Vec::new(), Vec::new());
    let pulling = timeout(HANG_LIMIT, async {
        while pulled.is_empty() {
            inserted.push(insert(&engine).await);
            let request = LeaseRequest {
                queue: Arc::new(queue()),
                max: 10,
                wait_ms: 200,
                lease_ms: 60_000,
                executor: "test".to_owned(),
                version: None,
            };
            pulled = engine.lease(request).await.unwrap();
        }
    });
    assert!(pulling.await.is_ok(), "nothing of {inserted:?} can be pulled");
    assert!(inserted.contains(&pulled[0].place.id));
    running.stop().await;
}
