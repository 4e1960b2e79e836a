//! Archives under a working engine: tasks run, days pass, retention and the housekeeping of buckets run; then
//! archived tasks are read through the engine, and the remaining tasks still run.

use super::{
    mysql::{DAY, NOW, OPTIONS, THEN, opened},
    namespace,
};
use punctual_bus::MemoryBus;
use punctual_contract::{Store, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::NoHot;
use punctual_store::MysqlStore;
use punctual_testkit::{clock::ManualClock, servers};
use std::{sync::Arc, time::Duration};

struct Rig {
    clock: ManualClock,
    store: Arc<MysqlStore>,
    engine: Engine,
}

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: namespace(), queue: Name::new(name).unwrap() }
}

fn engine(store: &Arc<MysqlStore>, clock: &ManualClock) -> Engine {
    let backends = Backends {
        store: Arc::clone(store) as Arc<dyn Store>,
        hot: Arc::new(NoHot),
        limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, Options::default())
}

impl Rig {
    async fn lease(engine: &Engine, name: &str) -> Vec<Assignment> {
        let request = LeaseRequest {
            queue: Arc::new(queue(name)),
            max: 100,
            wait_ms: 0,
            lease_ms: 60_000,
            executor: "executor".to_owned(),
            version: None,
        };
        engine.lease(request).await.unwrap()
    }

    async fn succeed(engine: &Engine, them: &[Assignment]) {
        let report = |lease: &Assignment| OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult { status_code: 0, status_msg: "done".to_owned(), content: None },
        };
        let recorded = engine.record_outcomes(them.iter().map(report).collect(), "executor").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
    }

    async fn insert(&self, name: &str, tasks: i64, first_id: i64) -> Vec<TaskRef> {
        let ask = |nth: i64| NewTask {
            task_id: Some(first_id + nth),
            ..NewTask::new(queue(name), Name::new("send").unwrap(), Millis(THEN.0 + 1_000 + nth))
        };
        let inserted = self.engine.insert((0..tasks).map(ask).collect(), "caller").await.unwrap();
        inserted.iter().map(|inserted| inserted.task.place).collect()
    }

    /// Moves time, and lets the engine do its due work.
    async fn at(&self, now: Millis) {
        self.clock.set(now);
        for _ in 0..4 {
            self.engine.run_once().await.unwrap();
            self.clock.advance(Duration::from_millis(1));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn finished_tasks_go_to_the_archive_and_are_read_there_and_the_stuck_one_still_runs_once() {
    let url = servers::migrated_database().await;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(opened(&url, &dir).await);
    let clock = ManualClock::at(THEN);
    let rig = Rig { clock: clock.clone(), engine: engine(&store, &clock), store };
    rig.store.buckets(OPTIONS).run_once(THEN).await.unwrap();
    let done = rig.insert("done", 30, 100).await;
    // No executor works on this queue for days.
    let stuck = rig.insert("stuck", 3, 500).await;
    rig.at(Millis(THEN.0 + 5_000)).await;
    let first = Rig::lease(&rig.engine, "done").await;
    assert_eq!(first.len(), 30);
    Rig::succeed(&rig.engine, &first).await;
    // Retention of a success, then of what it became.
    rig.at(Millis(THEN.0 + 2 * DAY)).await;
    rig.at(NOW).await;
    let before = rig.engine.read(done[7]).await.unwrap();
    assert_eq!(before.state, State::Stopped);

    let report = rig.store.buckets(OPTIONS).run_once(rig.engine.now()).await.unwrap();
    assert_eq!((report.archived, report.forgotten, report.carried), (30, 30, 3), "{report:?}");
    assert_eq!(rig.engine.read(done[7]).await.unwrap(), before, "by its reference");
    let by_id = rig.engine.versions(&namespace(), 107, None, 5).await.unwrap();
    assert_eq!(by_id, [before], "by its id");

    // By the engine that knew them where they were, and by one that has just started.
    let old = &rig.engine;
    let new = engine(&rig.store, &rig.clock);
    for place in &stuck {
        let task = old.read(*place).await.unwrap();
        assert!(!task.state.is_finished() && task.due_at >= NOW, "{task:?}");
    }
    rig.at(Millis(NOW.0 + 10_000)).await;
    new.run_once().await.unwrap();
    new.run_once().await.unwrap();
    let mut leased = Rig::lease(old, "stuck").await;
    leased.extend(Rig::lease(&new, "stuck").await);
    let mut places: Vec<i64> = leased.iter().map(|lease| lease.place.id).collect();
    places.sort_unstable();
    assert_eq!(places, stuck.iter().map(|place| place.id).collect::<Vec<_>>(), "each once");
    assert!(
        leased.iter().all(|lease| lease.attempt == 1 && lease.execute_at.0 < THEN.0 + 5_000),
        "{leased:?}"
    );
    Rig::succeed(old, &leased).await;
    assert_eq!(old.read(stuck[0]).await.unwrap().state, State::Succeeded);

    // And are archived in their turn.
    rig.at(Millis(NOW.0 + 2 * DAY)).await;
    rig.at(Millis(NOW.0 + 10 * DAY)).await;
    let report = rig.store.buckets(OPTIONS).run_once(rig.engine.now()).await.unwrap();
    assert_eq!((report.archived, report.forgotten), (3, 3), "{report:?}");
    for place in done.iter().chain(&stuck) {
        assert_eq!(rig.engine.read(*place).await.unwrap().place, *place);
    }
    let (books, audit) = (rig.store.books().await.unwrap(), rig.store.audit().await.unwrap());
    assert_eq!((books.accepted, books.deleted, &books), (33, 33, &audit));
}

/// An executor has a task whose bucket is dropped: the task keeps its lease, and its outcome counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_runs_while_it_is_carried_over_is_settled_by_its_old_reference() {
    let url = servers::migrated_database().await;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(opened(&url, &dir).await);
    let clock = ManualClock::at(THEN);
    let rig = Rig { clock: clock.clone(), engine: engine(&store, &clock), store };
    rig.store.buckets(OPTIONS).run_once(THEN).await.unwrap();
    let place = rig.insert("late", 1, 1).await.remove(0);
    rig.at(NOW).await;
    let running = Rig::lease(&rig.engine, "late").await;
    assert_eq!(running.len(), 1);
    let report = rig.store.buckets(OPTIONS).run_once(rig.engine.now()).await.unwrap();
    assert_eq!((report.carried, report.archived), (1, 0), "{report:?}");
    Rig::succeed(&rig.engine, &running).await;
    let task = rig.engine.read(place).await.unwrap();
    assert_eq!((task.state, task.attempt, task.place), (State::Succeeded, 1, place));
}
