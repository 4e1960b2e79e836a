//! The same without any Redis: the engine drains the databases, and dies at each step of that.

use super::*;
use punctual_hot::{NoHot, NoSignals, RateClock, StoredLimiter};

struct OnDatabases {
    url: String,
}

impl OnDatabases {
    async fn ground() -> Arc<dyn Ground> {
        Arc::new(Self { url: servers::migrated_database().await })
    }
}

#[async_trait]
impl Ground for OnDatabases {
    async fn stand(&self) -> Stand {
        let options = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
        let store = Arc::new(MysqlStore::open(std::slice::from_ref(&self.url), options).await.unwrap());
        let ownership = Arc::new(store.ownership());
        let limiter = Arc::new(StoredLimiter::new(ownership.clone(), RateClock::Server));
        let shared = Some(SharedBackends { ownership, signals: Arc::new(NoSignals), stored_limiter: None });
        Stand { store, hot: Arc::new(NoHot), limiter, bus: Arc::new(MemoryBus::default()), shared }
    }
}

macro_rules! dies_at {
    ($($case:ident: $at:expr;)*) => {
        $(#[test]
        fn $case() {
            let ground = Runtime::new().unwrap().block_on(OnDatabases::ground());
            dies(&ground, $at);
        })*
    };
}

dies_at! {
    before_it_has_read_what_is_far: At::Store(StoreGroup::Scan);
    after_the_read_before_the_instant: At::ReadAhead;
    after_the_insert_before_the_instant: At::OnWheel;
    after_the_instant_before_the_mark: At::Store(StoreGroup::Apply);
    after_the_mark_before_an_executor_asks: At::Ready;
    after_the_admission_before_the_lease: At::Store(StoreGroup::Dispatch);
    after_the_lease_before_its_answer: At::Leased;
    after_the_work_before_the_outcome: At::Outcome;
}

/// Another engine inserts the task, and sends no notification. Before an executor has the task, only the
/// lease is written.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_databases_know_waits_on_the_wheel_and_needs_no_mark() {
    let rig =
        rig_with(&*OnDatabases::ground().await, false, |options| Options { ahead_ms: 0, ..options }).await;
    let running = rig.engine.start().unwrap();
    rig.warm_up().await;
    let due_at = rig.engine.now().plus(3_000);
    let held = rig.clock.hold_before(due_at);
    let task = NewTask::new(queue(), Name::new("k").unwrap(), due_at);
    let place = rig.store.insert(vec![task], "test", rig.engine.now()).await.unwrap().remove(0).task.place;
    let fence = rig.engine.read(place).await.unwrap().fence;
    until("it waits on the wheel", || async { rig.engine.will_fire(place.id, fence) }).await;
    assert_eq!(rig.engine.lease(request(0, LONG_LEASE_MS)).await.unwrap(), [], "it is not due");
    let marks = rig.store.faults.hold(StoreGroup::Apply);
    held.let_go();
    let lease = leased(&rig).await;
    assert_eq!((lease.place.id, lease.attempt), (place.id, 1));
    assert!(lease.fired_at >= lease.due_at, "early: {lease:?}");
    assert_eq!(rig.engine.read(place).await.unwrap().state, State::Dispatched);
    marks.open();
    running.stop().await;
}
