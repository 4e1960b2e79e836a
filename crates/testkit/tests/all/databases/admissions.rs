//! Tasks that were popped for an executor whose answer was lost, while one of two databases is silent: the refill finds those of the
//! other database. Nothing else looks for them here: what is overdue is looked at after an hour only.

use super::site;
use crate::engine::WallClock;
use punctual_bus::MemoryBus;
use punctual_contract::Store;
use punctual_domain::{place::TaskRef, state::State};
use punctual_engine::{Backends, Engine, LeaseRequest, Options};
use punctual_hot::RateClock;
use punctual_testkit::{
    faults::{Dials, FaultyHot, HotGroup},
    patience::until,
    servers::{MariaDb, Proxy, Redis, Way},
};
use std::{collections::HashSet, sync::Arc};

/// Enough to have some in every partition.
const TASKS: usize = 100;
const HOUR_MS: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_silent_database_keeps_no_lost_admission_of_the_other_from_being_repaired() {
    let (redis, mysql) = (Redis::own().await, MariaDb::own().await);
    let second = Proxy::before(mysql.port());
    let mut urls = vec![mysql.fresh_database().await, mysql.fresh_database().await];
    urls[1] = urls[1].replace(&format!(":{}/", mysql.port()), &format!(":{}/", second.port()));
    let store = site::store(&urls).await;
    let hot = site::redis_hot(&redis).await;
    let limiter = Arc::new(hot.limiter(RateClock::Server));
    let hot = Arc::new(FaultyHot::new(Arc::new(hot), 1));
    let backends = Backends {
        blobs: None,
        shared: None,
        store: Arc::clone(&store) as Arc<dyn Store>,
        limiter,
        hot: Arc::clone(&hot) as _,
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(WallClock),
    };
    // Nothing is leased ahead: all of them go through the ready set.
    let options = Options { overdue_after_ms: HOUR_MS, ahead_ms: 0, ..Options::default() };
    let engine = Engine::new(backends, options);
    let running = engine.start().unwrap();

    let tasks = (0..TASKS).map(|_| site::task(engine.now())).collect();
    let inserted = engine.insert(tasks, "test").await.unwrap();
    let places: Vec<TaskRef> = inserted.into_iter().map(|inserted| inserted.task.place).collect();
    until("all are ready", || async {
        let tasks = store.read(&places).await.unwrap();
        tasks.iter().flatten().filter(|task| task.state == State::Ready).count() == TASKS
    })
    .await;
    let of_the_first = |place: &&TaskRef| store.part_of(place.partition) == 0;
    let wanted: HashSet<i64> = places.iter().filter(of_the_first).map(|place| place.id).collect();
    assert!(!wanted.is_empty() && wanted.len() < TASKS);

    second.set(Way::Silent);
    hot.faults.set_once(HotGroup::Ready, Dials::ANSWERS_LOST);
    let request = || LeaseRequest { max: TASKS, ..site::request() };
    let lost = engine.lease(request()).await;
    assert!(lost.is_err() || lost.is_ok_and(|leased| leased.is_empty()), "its answer was lost");
    assert_eq!(hot.faults.counts(HotGroup::Ready).answer_lost, 1);
    let leased = tokio::sync::Mutex::new(HashSet::new());
    until("every task of the first database is leased", || async {
        let mut leased = leased.lock().await;
        if let Ok(tasks) = engine.lease(request()).await {
            leased.extend(tasks.iter().map(|task| task.place.id));
        }
        leased.is_superset(&wanted)
    })
    .await;
    second.set(Way::Open);
    running.stop().await;
}
