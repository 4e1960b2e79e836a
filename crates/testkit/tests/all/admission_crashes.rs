//! An engine dies after each step of an admission to a limited queue, and another one continues: the table
//! "Limited queues" of `docs/consistency-tests.md`, a case per row, on the embedded back ends and on real
//! MySQL and Redis. An embedded engine parks in its own memory, in one step; the steps with Redis are also
//! tested with a stand-in. Each time the limits hold, all tasks finish, and no slot is held at the end.

use crate::{
    crash_points::{Embedded, Ground, OnServers, Stand, WallClock, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::{Limiter as _, Store as _, store::Query};
use punctual_domain::{
    limits::Scope,
    name::Name,
    retry::RetryPolicy,
    settings::QueueSettings,
    state::State,
    task::{Demands, NewTask},
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, Reported};
use punctual_testkit::{
    faults::{FaultyLimiter, FaultyStore, Gate, LimiterGroup, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::sync::Arc;
use tokio::{runtime::Runtime, task::JoinSet, time::Instant};

const LEASE_MS: i64 = 1_500;
/// Longer than a task that is due takes to come.
const WAIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;

/// The step that is done when the engine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Pop,
    Grant,
    /// The slot that no caller uses is the only one.
    GrantOfAll,
    Parking,
    Lease,
    Outcome,
}

struct Rig {
    store: Arc<FaultyStore>,
    limiter: Arc<FaultyLimiter>,
    engine: Engine,
}

async fn rig(ground: &dyn Ground) -> Rig {
    let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
    let store = Arc::new(FaultyStore::new(store, 1));
    let limiter = Arc::new(FaultyLimiter::new(limiter, 1));
    let backends = Backends {
        store: store.clone(),
        hot,
        limiter: limiter.clone(),
        bus,
        clock: Arc::new(WallClock),
        blobs: None,
        shared,
    };
    let name = format!("engine-{:08x}", fastrand::u32(..));
    Rig { store, limiter, engine: Engine::new(backends, Options { name, ..Options::default() }) }
}

fn request(wait_ms: u64) -> LeaseRequest {
    let executor = "test".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 10, wait_ms, lease_ms: LEASE_MS, executor, version: None }
}

impl Rig {
    /// All tasks are of one key, of which one at a time may be in flight.
    async fn insert(&self) {
        let demands = Demands { concurrency_key: Some("a".to_owned()), ..Demands::default() };
        let (retry, max_attempts) = (RetryPolicy::Fixed { delay_ms: 0 }, 10);
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now());
        let task = NewTask { demands, retry, max_attempts, ..task };
        self.engine.insert(vec![task], "test").await.unwrap();
    }

    /// Until an engine owns each partition, and the limiter has its members.
    async fn warm_up(&self) {
        for _ in 0..8 {
            self.insert().await;
            while !self.finish_some(WAIT_MS).await {}
        }
    }

    /// Whether there were some.
    async fn finish_some(&self, wait_ms: u64) -> bool {
        let leased = self.engine.lease(request(wait_ms)).await.unwrap();
        let in_flight = self.store.in_flight(None, 100).await.unwrap().0;
        assert!(in_flight.len() <= 1, "one of a key at a time: {in_flight:?}");
        let reports = leased.iter().map(succeeded).collect();
        let recorded = self.engine.record_outcomes(reports, "test").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
        !leased.is_empty()
    }

    /// The engine runs up to the gate; without one, it has already run as far as it should.
    async fn go(&self, after: After, callers: &mut JoinSet<()>) -> Option<Arc<Gate>> {
        let engine = self.engine.clone();
        let ask = async move { drop(engine.lease(request(WAIT_MS)).await) };
        self.insert().await;
        let gate = match after {
            After::Pop => self.limiter.faults.hold(LimiterGroup::Grant),
            After::Grant | After::GrantOfAll => self.store.faults.hold(StoreGroup::Dispatch),
            After::Lease | After::Parking | After::Outcome => {
                let mut leased = self.engine.lease(request(WAIT_MS)).await.unwrap();
                let lease = leased.pop().expect("it is due");
                if after == After::Lease {
                    return None;
                }
                self.insert().await;
                callers.spawn(ask);
                let is_parked = async || !self.engine.depth().await.unwrap().parked.is_empty();
                until("something is parked", is_parked).await;
                if after == After::Parking {
                    return None;
                }
                let gate = self.limiter.faults.hold(LimiterGroup::GiveUp);
                let engine = self.engine.clone();
                callers.spawn(
                    async move { drop(engine.record_outcomes(vec![succeeded(&lease)], "test").await) },
                );
                return Some(gate);
            }
        };
        callers.spawn(ask);
        Some(gate)
    }

    async fn unfinished(&self) -> usize {
        let tasks = self.store.list(&Query { limit: 100, ..Query::default() }).await.unwrap().tasks;
        tasks.iter().filter(|task| task.state != State::Succeeded).count()
    }
}

fn dies(ground: &Arc<dyn Ground>, after: After) {
    let survivor = Runtime::new().unwrap();
    survivor.block_on(die(Arc::clone(ground), after));
    survivor.block_on(live_on(&**ground, after));
}

/// Answers when the engine is gone.
async fn die(ground: Arc<dyn Ground>, after: After) {
    let (reported, heard) = tokio::sync::oneshot::channel();
    let doomed = Runtime::new().unwrap();
    doomed.spawn(async move {
        let rig = rig(&*ground).await;
        let _running = rig.engine.start().unwrap();
        let concurrency = Some(if after == After::GrantOfAll { 1 } else { 2 });
        let settings = QueueSettings { concurrency, key_concurrency: Some(1), ..QueueSettings::default() };
        set_queue(&rig.engine, &queue(), settings).await;
        rig.warm_up().await;
        let mut callers = JoinSet::new();
        if let Some(gate) = rig.go(after, &mut callers).await {
            gate.reached().await;
        }
        reported.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    heard.await.unwrap();
    doomed.shutdown_background();
}

#[expect(clippy::print_stderr, reason = "how long it took is to be seen")]
async fn live_on(ground: &dyn Ground, after: After) {
    let rig = rig(ground).await;
    let running = rig.engine.start().unwrap();
    let since = Instant::now();
    until("all are finished", || async {
        rig.finish_some(200).await;
        rig.unfinished().await == 0
    })
    .await;
    let finished = since.elapsed();
    until("no slot is held, where nothing is in flight", || async {
        assert!(!rig.finish_some(100).await, "all have finished");
        rig.limiter.holders(&Scope::Queue(queue()), 0).await.unwrap().count == 0
    })
    .await;
    eprintln!("{after:?}: finished after {finished:?}, all slots free after {:?}", since.elapsed());
    let books = rig.store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &rig.store.audit().await.unwrap()));
    running.stop().await;
}

macro_rules! dies_on {
    ($ground:ident, $at:expr; $($case:ident: $after:expr;)*) => {
        mod $ground {
            use super::*;
            $(#[test]
            fn $case() {
                let ground = Runtime::new().unwrap().block_on($at);
                dies(&ground, $after);
            })*
        }
    };
}

macro_rules! on_each_ground {
    ($($cases:tt)*) => {
        dies_on! { embedded, Embedded::ground(); $($cases)* }
        dies_on! { on_servers, OnServers::ground(); $($cases)* }
    };
}

on_each_ground! {
    after_the_pop_before_the_grant: After::Pop;
    after_the_grant_before_the_lease: After::Grant;
    after_the_grant_of_the_last_slot_before_the_lease: After::GrantOfAll;
    after_it_is_parked: After::Parking;
    after_the_lease_while_its_executor_works: After::Lease;
    after_the_outcome_before_the_slot_is_given_up: After::Outcome;
}
