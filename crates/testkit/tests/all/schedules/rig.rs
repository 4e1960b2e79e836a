//! An engine with a planner, on either kind of back ends.

use punctual_bus::MemoryBus;
use punctual_contract::{
    Hot, ScheduleStore, Store,
    schedules::{Run, ScheduleKey},
    store::{Assignment, Query},
};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    schedule::{Outcome, Schedule, TaskTemplate},
    task::{Task, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport};
use punctual_hot::{NoHot, RedisHot, RedisOptions};
use punctual_schedules::{Planner, TakenBack};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{clock::ManualClock, faults::FaultyStore, servers};
use std::sync::Arc;

/// A full minute.
pub(super) const START: Millis = Millis(1_900_000_020_000);
pub(super) const MINUTE_MS: i64 = 60_000;

pub(super) struct SchedulesRig {
    pub(super) clock: ManualClock,
    pub(super) engine: Engine,
    pub(super) planner: Planner,
    pub(super) store: Arc<FaultyStore>,
    pub(super) schedules: Arc<dyn ScheduleStore>,
    hot: Arc<dyn Hot>,
}

/// Stamps a test of a rig for both kinds of back ends.
macro_rules! on_both {
    ($case:ident) => {
        mod $case {
            use crate::schedules::rig::SchedulesRig;

            #[tokio::test]
            async fn on_sqlite() {
                super::$case(SchedulesRig::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_mysql_and_redis() {
                super::$case(SchedulesRig::mysql().await).await;
            }
        }
    };
}
pub(super) use on_both;

pub(super) fn key(name: &str) -> ScheduleKey {
    ScheduleKey { namespace: Name::default_namespace(), name: Name::new(name).unwrap() }
}

pub(super) fn every_minute() -> Schedule {
    let task = TaskTemplate::new(Name::new("mail").unwrap(), Name::new("digest").unwrap());
    Schedule { cron: vec!["* * * * *".to_owned()], ..Schedule::new(task) }
}

/// Minutes after the start, and the outcomes of the runs.
pub(super) fn shown(runs: &[Run]) -> Vec<(i64, Outcome)> {
    runs.iter().map(|run| (run.key.at.since(START) / MINUTE_MS, run.outcome)).collect()
}

impl SchedulesRig {
    pub(super) fn sqlite() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = NoHot;
        Self::over(Arc::new(store), Arc::new(hot))
    }

    pub(super) async fn mysql() -> Self {
        let url = servers::migrated_database().await;
        let options = MysqlOptions { partitions: 2, ..MysqlOptions::default() };
        let store = MysqlStore::open(&[url], options).await.unwrap();
        let redis = servers::redis().await;
        let options = RedisOptions {
            partitions: store.partitions(),
            prefix: redis.fresh_prefix(),
            ..RedisOptions::default()
        };
        let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
        Self::over(Arc::new(store), Arc::new(hot))
    }

    fn over<S: Store + ScheduleStore>(store: Arc<S>, hot: Arc<dyn Hot>) -> Self {
        let schedules: Arc<dyn ScheduleStore> = store.clone();
        Self::on(ManualClock::at(START), Arc::new(FaultyStore::new(store, 7)), schedules, hot)
    }

    fn on(
        clock: ManualClock,
        store: Arc<FaultyStore>,
        schedules: Arc<dyn ScheduleStore>,
        hot: Arc<dyn Hot>,
    ) -> Self {
        let backends = Backends {
            store: store.clone(),
            hot: hot.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let planner = Planner::new(engine.clone(), schedules.clone(), punctual_schedules::Options::default());
        Self { clock, engine, planner, store, schedules, hot }
    }

    /// Another engine on the same back ends: also the first one, started again.
    pub(super) fn beside(&self) -> Self {
        Self::on(self.clock.clone(), self.store.clone(), self.schedules.clone(), self.hot.clone())
    }

    pub(super) fn now(&self) -> Millis {
        self.engine.now()
    }

    pub(super) async fn put(&self, name: &str, schedule: Schedule) -> TakenBack {
        self.planner.put(&key(name), schedule, "ada", |_| true).await.unwrap()
    }

    /// How many runs were made.
    pub(super) async fn planned(&self) -> usize {
        self.planner.run_once(self.now()).await.unwrap()
    }

    /// Moves time, and stops at least every second for both of them.
    pub(super) async fn pass(&self, mut ms: i64) {
        self.planned().await;
        while ms > 0 {
            let some = ms.min(1_000);
            ms -= some;
            self.clock.advance_ms(u64::try_from(some).unwrap());
            self.planned().await;
            self.engine.run_once().await.unwrap();
        }
    }

    pub(super) async fn tasks(&self) -> Vec<Task> {
        let query = Query { limit: 5_000, ..Query::default() };
        self.engine.list(&query).await.unwrap().tasks
    }

    /// The tasks that are ready now; each stays with its executor.
    pub(super) async fn leased(&self) -> Vec<Assignment> {
        let asked = LeaseRequest {
            queue: Arc::new(self.queue()),
            max: 100,
            wait_ms: 0,
            lease_ms: 3_600_000,
            executor: "test".to_owned(),
            version: None,
        };
        self.engine.lease(asked).await.unwrap()
    }

    pub(super) fn queue(&self) -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
    }

    pub(super) async fn succeed(&self, leased: &[Assignment]) {
        let report = |lease: &Assignment| OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult::default(),
        };
        self.engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    }

    pub(super) async fn runs(&self, name: &str) -> Vec<Run> {
        self.planner.runs(&key(name), None, 1_000).await.unwrap().1
    }
}
