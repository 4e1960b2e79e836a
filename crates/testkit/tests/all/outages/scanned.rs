//! Queues that are scanned (F1), on MySQL: three engines without any Redis, beside one that was never started, and beside one that
//! answers and has nothing of them. At most K at once, whatever dies.

use super::site::{OutagesSite, until};
use crate::limits::set_queue;
use punctual_contract::store::Assignment;
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    settings::{QueueSettings, Source},
    state::State,
    task::{NewTask, TaskResult},
};
use punctual_engine::{Engine, LeaseRequest, OutcomeReport, Reported};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::task::JoinSet;

const MOST: usize = 2;
const TASKS: i64 = 40;

fn unfreeze() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("unfreeze").unwrap() }
}

fn scanned() -> QueueSettings {
    QueueSettings { source: Some(Source::Store), scan_interval_ms: Some(200), ..QueueSettings::default() }
}

async fn lease(engine: &Engine, max: usize) -> Vec<Assignment> {
    let (queue, executor) = (Arc::new(unfreeze()), "test".to_owned());
    let request = LeaseRequest { queue, max, wait_ms: 300, lease_ms: 5_000, executor, version: None };
    engine.lease(request).await.unwrap_or_default()
}

async fn end(engine: &Engine, leased: &[Assignment]) {
    let report = |lease: &Assignment| OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    };
    let recorded = engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

/// What executors at all engines saw.
#[derive(Default)]
struct ScanCountsSeen {
    in_flight: AtomicUsize,
    most: AtomicUsize,
    times: Mutex<HashMap<i64, usize>>,
}

impl ScanCountsSeen {
    fn done(&self) -> usize {
        self.times.lock().unwrap().len()
    }
}

/// Two executors at each engine, until so many tasks are done.
async fn work_off(engines: &[Engine], count: i64) -> Arc<ScanCountsSeen> {
    let (seen, count) = (Arc::new(ScanCountsSeen::default()), usize::try_from(count).unwrap());
    let mut executors = JoinSet::new();
    for engine in engines.iter().cycle().take(2 * engines.len()) {
        let (engine, seen) = (engine.clone(), Arc::clone(&seen));
        executors.spawn(async move {
            while seen.done() < count {
                let leased = lease(&engine, 3).await;
                let now = seen.in_flight.fetch_add(leased.len(), SeqCst) + leased.len();
                seen.most.fetch_max(now, SeqCst);
                for lease in &leased {
                    assert_eq!(engine.read(lease.place).await.unwrap().state, State::Dispatched);
                    *seen.times.lock().unwrap().entry(lease.place.id).or_default() += 1;
                }
                // Before the store can give their places to others.
                seen.in_flight.fetch_sub(leased.len(), SeqCst);
                end(&engine, &leased).await;
            }
        });
    }
    until("all are done", async || seen.done() >= count).await;
    while let Some(ended) = executors.join_next().await {
        ended.unwrap();
    }
    seen
}

async fn insert(engine: &Engine, count: i64) {
    let now = engine.now();
    let task = |nth| NewTask::new(unfreeze(), Name::new("k").unwrap(), now.plus(nth * 20 - 200));
    engine.insert((0..count).map(task).collect(), "test").await.unwrap();
}

async fn all_know(engines: &[Engine]) {
    until("all engines know it", async || engines.iter().all(|engine| engine.is_scanned(&unfreeze()))).await;
}

async fn at_most_so_many_at_once(engines: &[Engine]) {
    set_queue(&engines[0], &unfreeze(), scanned()).await;
    all_know(engines).await;
    insert(&engines[1], TASKS).await;
    let seen = work_off(engines, TASKS).await;
    assert!(
        (1..=MOST).contains(&seen.most.load(SeqCst)),
        "{} were in flight at once",
        seen.most.load(SeqCst)
    );
    assert!(seen.times.lock().unwrap().values().all(|times| *times == 1), "each came once");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_engines_without_redis_have_so_many_at_once() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = site.crew_without_redis(3).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    at_most_so_many_at_once(&engines).await;
    crew.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_engines_whose_redis_was_never_there_have_so_many_at_once() {
    let site = OutagesSite::new(&[]).await;
    site.redis.kill();
    let mut crew = site.crew(3).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    assert!(engines.iter().all(Engine::hot_is_away));
    at_most_so_many_at_once(&engines).await;
    assert!(engines.iter().all(Engine::hot_is_away), "and is not there yet");
    crew.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_nothing_of_a_queue_that_is_scanned() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = site.crew(3).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    at_most_so_many_at_once(&engines).await;
    insert(&engines[2], 10).await;
    let later =
        |nth: i64| NewTask::new(unfreeze(), Name::new("k").unwrap(), engines[0].now().plus(30_000 * nth));
    engines[0].insert((1..20).map(later).collect(), "test").await.unwrap();
    crew.preloads_again(2).await;
    assert_eq!(crew.swept(), 0, "no repair has met them");
    for engine in &engines {
        let depth = engine.store().books().await.unwrap();
        assert_eq!(depth.unaccounted(), 0);
    }
    let keys = site.redis.command(&["KEYS", "*"]).await;
    assert!(!keys.is_empty() && !keys.contains("unfreeze"), "{keys}");
    let bodies: Vec<&str> =
        keys.lines().filter(|key| key.ends_with("body") || key.ends_with("due")).collect();
    assert!(bodies.is_empty(), "no partition has a task: {bodies:?}");
    crew.stop().await;
}

/// Redis dies, and is started again: nothing changes for scanned queues.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_dies_and_comes_back_is_no_matter() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = site.crew(2).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    set_queue(&engines[0], &unfreeze(), scanned()).await;
    all_know(&engines).await;
    for is_away in [true, false, true] {
        if is_away {
            site.redis.kill();
            until("it is away", async || engines.iter().all(Engine::hot_is_away)).await;
        } else {
            site.redis.start_again().await;
            until("it is back", async || !engines.iter().any(Engine::hot_is_away)).await;
        }
        insert(&engines[1], 10).await;
        let seen = work_off(&engines, 10).await;
        assert!(seen.most.load(SeqCst) <= MOST);
        assert!(seen.times.lock().unwrap().values().all(|times| *times == 1));
    }
    crew.stop().await;
}
