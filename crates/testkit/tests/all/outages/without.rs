//! No Redis is configured: one engine and three on the databases alone. Each task is delivered once, at any
//! engine; it is retried, cancelled and limited as with Redis.

use super::site::{Crew, OutagesSite, PARTITIONS, until};
use crate::{engine::queue, limits::set_queue};
use punctual_contract::{Store as _, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    settings::QueueSettings,
    state::State,
    task::{Demands, NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Cancelled, Engine, LeaseRequest, OutcomeReport, Reported};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::task::JoinSet;

async fn each_comes_once(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew_without_redis(engines).await;
    assert!(!crew.engines().any(Engine::hot_is_away), "nothing is missing");
    crew.insert(900, 200..8_000).await;
    crew.insert(100, -5_000..0).await;
    crew.have_come(500).await;
    let alerts = crew.alerts().await;
    assert!(!alerts.contains(&"hot_set_away") && !alerts.contains(&"service_failing"), "{alerts:?}");
    crew.finish(&format!("no Redis, {engines} engines"), 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_engine_needs_no_redis() {
    each_comes_once(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_engines_need_no_redis() {
    each_comes_once(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_at_one_engine_have_the_tasks_of_all_three() {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew_asked_at_one(&[None, None, None]).await;
    let shares = crew.final_shares().await;
    assert!(shares.iter().all(|owned| *owned > 0), "{shares:?}");
    crew.insert(400, 200..4_000).await;
    crew.finish("no Redis, and executors at one of three", 400).await;
}

/// More than one look at a queue pops.
const MANY_OF_ONE_KEY: i64 = 300;

/// A queue that the crew's executors do not ask for.
fn other() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("other").unwrap() }
}

fn task(at: Millis, key: Option<&str>) -> NewTask {
    let demands = Demands { concurrency_key: key.map(str::to_owned), ..Demands::default() };
    NewTask { demands, ..NewTask::new(other(), Name::new("k").unwrap(), at) }
}

async fn lease(engine: &Engine, max: usize) -> Vec<Assignment> {
    let (queue, executor) = (Arc::new(other()), "test".to_owned());
    let request = LeaseRequest { queue, max, wait_ms: 300, lease_ms: 60_000, executor, version: None };
    engine.lease(request).await.unwrap()
}

async fn end(engine: &Engine, leased: &[Assignment], report: Report) {
    let report = |lease: &Assignment| OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report,
        result: TaskResult::default(),
    };
    let recorded = engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

async fn three(site: &OutagesSite) -> Crew {
    let crew = site.crew_without_redis(3).await;
    let owned = || crew.engines().map(Engine::owned).sum::<usize>();
    until("all is owned", async || owned() == usize::from(PARTITIONS)).await;
    crew
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_is_tried_again_by_the_engine_that_is_asked() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = three(&site).await;
    let now = crew.engine().now();
    let tasks = (0..60).map(|nth| task(now.plus(nth * 10), None)).collect();
    let inserted = crew.engine().insert(tasks, "test").await.unwrap();
    let mut attempts: HashMap<i64, Vec<u32>> = HashMap::new();
    until("each has failed once and succeeded once", async || {
        for engine in crew.engines() {
            let (first, again): (Vec<_>, Vec<_>) =
                lease(engine, 20).await.into_iter().partition(|lease| lease.attempt == 1);
            for lease in first.iter().chain(&again) {
                attempts.entry(lease.place.id).or_default().push(lease.attempt);
            }
            end(engine, &first, Report::Failed { after_ms: Some(200) }).await;
            end(engine, &again, Report::Succeeded).await;
        }
        attempts.values().filter(|attempts| attempts.len() == 2).count() == inserted.len()
    })
    .await;
    assert!(attempts.values().all(|attempts| *attempts == [1, 2]), "{attempts:?}");
    crew.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_the_firing_are_decided_by_the_store() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = three(&site).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    let now = engines[0].now();
    let tasks = (0..300).map(|nth| task(now.plus(500 + nth * 5), None)).collect();
    let inserted = engines[0].insert(tasks, "test").await.unwrap();
    let (mut cancelled, mut fired) = (0_usize, 0_usize);
    for (nth, inserted) in inserted.iter().enumerate() {
        // Around their instants, at another engine than the one before.
        match engines[nth % 3].cancel(inserted.task.place, false, "test").await.unwrap() {
            Cancelled::Cancelled(task) => {
                assert_eq!(task.state, State::Cancelled);
                cancelled += 1;
            }
            Cancelled::AlreadyFired(_) => fired += 1,
            Cancelled::StopRequested(_) => panic!("no stop was asked for"),
        }
    }
    assert_eq!(cancelled + fired, inserted.len());
    assert!(cancelled > 0);
    let mut came = 0;
    until("those that have fired come", async || {
        for engine in &engines {
            let leased = lease(engine, 50).await;
            came += leased.len();
            end(engine, &leased, Report::Succeeded).await;
        }
        came >= fired
    })
    .await;
    let books = crew.store.books().await.unwrap();
    let of = |state| {
        let tasks = books.tallies.iter().filter(|count| count.state == state).map(|count| count.tasks);
        usize::try_from(tasks.sum::<i64>()).unwrap()
    };
    assert_eq!((of(State::Cancelled), of(State::Succeeded)), (cancelled, fired));
    assert_eq!(came, fired);
    crew.stop().await;
}

/// Executors at all engines at once, each of which reads its task before ending it. Returns the most attempts
/// that were in flight at one instant.
async fn work_off(engines: &[Engine], count: usize) -> usize {
    #[derive(Default)]
    struct Work {
        in_flight: AtomicUsize,
        most: AtomicUsize,
        done: AtomicUsize,
    }
    let (work, mut executors) = (Arc::new(Work::default()), JoinSet::new());
    for engine in engines.iter().cycle().take(2 * engines.len()) {
        let (engine, work) = (engine.clone(), Arc::clone(&work));
        executors.spawn(async move {
            while work.done.load(SeqCst) < count {
                let leased = lease(&engine, 3).await;
                let now = work.in_flight.fetch_add(leased.len(), SeqCst) + leased.len();
                work.most.fetch_max(now, SeqCst);
                for lease in &leased {
                    assert_eq!(engine.read(lease.place).await.unwrap().state, State::Dispatched);
                }
                // Before the store can give their places to others.
                work.in_flight.fetch_sub(leased.len(), SeqCst);
                end(&engine, &leased, Report::Succeeded).await;
                work.done.fetch_add(leased.len(), SeqCst);
            }
        });
    }
    until("all are done", async || work.done.load(SeqCst) >= count).await;
    while let Some(ended) = executors.join_next().await {
        ended.unwrap();
    }
    work.most.load(SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_over_three_engines() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = three(&site).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    let settings = QueueSettings { concurrency: Some(4), ..QueueSettings::default() };
    set_queue(&engines[0], &other(), settings).await;
    until("all engines know it", async || {
        let mut know = true;
        for engine in &engines {
            know &= !engine.slots().await.unwrap().is_empty();
        }
        know
    })
    .await;
    let now = engines[0].now();
    let tasks = (0..80).map(|nth| task(now.plus(nth * 5), None)).collect();
    engines[0].insert(tasks, "test").await.unwrap();
    let most = work_off(&engines, 80).await;
    assert!((1..=4).contains(&most), "{most} were in flight at once");
    crew.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_its_key_keeps_no_other_waiting() {
    let site = OutagesSite::new(&[]).await;
    let mut crew = three(&site).await;
    let engines: Vec<Engine> = crew.engines().cloned().collect();
    let settings = QueueSettings { key_concurrency: Some(1), ..QueueSettings::default() };
    set_queue(&engines[0], &other(), settings).await;
    until("all engines know it", async || {
        let mut know = true;
        for engine in &engines {
            know &= !engine.many_slots().await.unwrap().keys.is_empty();
        }
        know
    })
    .await;
    let now = engines[0].now();
    // Many of one key, and behind them one of another.
    let first = (0..MANY_OF_ONE_KEY).map(|nth| task(now.plus(nth - 2 * MANY_OF_ONE_KEY), Some("a")));
    let tasks: Vec<NewTask> = first.chain([task(now.plus(-1), Some("b"))]).collect();
    let inserted = engines[0].insert(tasks, "test").await.unwrap();
    let last = inserted.last().unwrap().task.place.id;
    let mut held: Vec<Assignment> = Vec::new();
    until("one of each key comes", async || {
        for engine in &engines {
            held.extend(lease(engine, 1).await);
        }
        held.len() >= 2
    })
    .await;
    assert_eq!(held.len(), 2, "one of each key");
    assert_eq!(held.iter().filter(|lease| lease.place.id == last).count(), 1);
    end(&engines[1], &held, Report::Succeeded).await;
    assert_eq!(work_off(&engines, 30).await, 1, "of one key one at a time");
    assert_ne!(queue(), other(), "the crew's executors have taken none of these");
    crew.stop().await;
}
