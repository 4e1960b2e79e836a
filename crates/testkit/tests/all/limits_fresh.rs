//! A limiter without its members is whole immediately if no task waits that could have been granted a slot
//! before: in a new cluster, limited queues do not wait for seconds. The clock does not move, so that nothing
//! here can result from waiting. Seen to fail: with the wait for every loss (first), with none (second),
//! without attempts in flight (third).

use crate::{
    crash_points::{OnServers, Stand, WallClock, queue, succeeded},
    limits::set_queue,
};
use async_trait::async_trait;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Clock as _, Hot, Limiter, Store,
    limiter::{Limit, Verdict},
    store::Assignment,
};
use punctual_domain::{limits::Scope, name::Name, settings::QueueSettings, task::NewTask};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_hot::MemoryLimiter;
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    servers,
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::sync::Arc;

/// Longer than a lease takes that an engine hands over without asking for its place again.
const LOSS_IS_OLD_AFTER_MS: u64 = 750;
/// More than any engine needs to own all and to look at everything.
const TURNS: usize = 4;

/// What engines share.
#[async_trait]
trait LimitsFreshSite: Send + Sync {
    async fn stand(&self) -> Stand;
    /// The limiter has no members any more, and knows it.
    async fn lose(&mut self);
}

struct InMemory {
    store: Arc<dyn Store>,
    hot: Arc<dyn Hot>,
    limiter: Arc<dyn Limiter>,
    ownership: Arc<MemoryOwnership>,
    signals: SignalHub,
}

#[async_trait]
impl LimitsFreshSite for InMemory {
    async fn stand(&self) -> Stand {
        let shared = SharedBackends {
            ownership: self.ownership.clone(),
            signals: self.signals.join(),
            stored_limiter: None,
        };
        Stand {
            store: self.store.clone(),
            hot: self.hot.clone(),
            limiter: self.limiter.clone(),
            bus: Arc::new(MemoryBus::default()),
            shared: Some(shared),
        }
    }

    async fn lose(&mut self) {
        self.limiter = Arc::new(MemoryLimiter::default());
    }
}

fn in_memory(clock: &ManualClock) -> Box<dyn LimitsFreshSite> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    Box::new(InMemory {
        hot: Arc::new(SharedHot::new(store.partitions())),
        store,
        limiter: Arc::new(MemoryLimiter::default()),
        ownership: Arc::new(MemoryOwnership::new(Arc::new(clock.clone()))),
        signals: SignalHub::default(),
    })
}

#[async_trait]
impl LimitsFreshSite for OnServers {
    async fn stand(&self) -> Stand {
        crate::crash_points::Ground::stand(self).await
    }

    async fn lose(&mut self) {
        let key = |what: &str| format!("{}:{{limits}}:{what}", self.prefix());
        let keys = ["whole", "members", "until", "holds", "buckets"].map(key);
        let words: Vec<&str> = std::iter::once("DEL").chain(keys.iter().map(String::as_str)).collect();
        servers::redis().await.command(&words).await;
    }
}

async fn on_servers() -> Box<dyn LimitsFreshSite> {
    Box::new(OnServers::at(servers::redis().await.url()).await)
}

struct LimitsFreshRig {
    site: Box<dyn LimitsFreshSite>,
    clock: ManualClock,
    limiter: Arc<dyn Limiter>,
    engine: Engine,
}

impl LimitsFreshRig {
    async fn new(site: Box<dyn LimitsFreshSite>, clock: ManualClock) -> Self {
        let (engine, limiter) = engine(&*site, &clock).await;
        Self { site, clock, limiter, engine }
    }

    async fn run_once(&self) {
        for _ in 0..TURNS {
            self.engine.run_once().await.unwrap();
        }
    }

    /// The limiter loses everything between one engine and the next.
    async fn begin_anew_after_a_loss(&mut self) {
        self.engine.leave().await;
        self.site.lose().await;
        (self.engine, self.limiter) = engine(&*self.site, &self.clock).await;
    }

    async fn is_whole(&self) -> bool {
        self.limiter.is_whole().await.unwrap()
    }

    async fn insert(&self) {
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now());
        self.engine.insert(vec![task], "test").await.unwrap();
        self.run_once().await;
    }

    async fn lease(&self) -> Vec<Assignment> {
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 10,
            wait_ms: 0,
            lease_ms: 60_000,
            executor: "e".to_owned(),
            version: None,
        };
        self.engine.lease(request).await.unwrap()
    }

    async fn held(&self) -> usize {
        self.limiter.holders(&Scope::Queue(queue()), 0).await.unwrap().count
    }
}

async fn engine(site: &dyn LimitsFreshSite, clock: &ManualClock) -> (Engine, Arc<dyn Limiter>) {
    let Stand { store, hot, limiter, bus, shared } = site.stand().await;
    let backends = Backends {
        store,
        hot,
        limiter: limiter.clone(),
        bus,
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared,
    };
    let engine = Engine::new(backends, Options { name: "one".to_owned(), ..Options::default() });
    let settings = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
    set_queue(&engine, &queue(), settings).await;
    (engine, limiter)
}

async fn where_nothing_waits_it_is_whole_at_once(rig: LimitsFreshRig) {
    assert!(!rig.is_whole().await);
    rig.run_once().await;
    assert!(rig.is_whole().await);
    rig.insert().await;
    assert_eq!(rig.lease().await.len(), 1);
}

async fn what_waits_may_have_been_granted_a_place_and_is_waited_for(mut rig: LimitsFreshRig) {
    rig.run_once().await;
    rig.insert().await;
    rig.begin_anew_after_a_loss().await;
    rig.run_once().await;
    assert!(!rig.is_whole().await, "whoever was granted a place for it may be about to lease it");
    assert_eq!(rig.lease().await.len(), 0);
    let limit = Limit { scope: Scope::Queue(queue()), most: 1 };
    let room = rig.limiter.room(&[limit], &[], rig.clock.now()).await.unwrap();
    assert_eq!(room.bound, Some(Verdict::NotWhole));
    rig.clock.advance_ms(LOSS_IS_OLD_AFTER_MS);
    rig.run_once().await;
    assert!(rig.is_whole().await);
    assert_eq!(rig.lease().await.len(), 1);
}

async fn what_is_in_flight_has_its_place_before_anybody_gets_one(mut rig: LimitsFreshRig) {
    rig.run_once().await;
    rig.insert().await;
    let leased = rig.lease().await;
    assert_eq!(leased.len(), 1);
    rig.begin_anew_after_a_loss().await;
    let mut turns = 0;
    // Not one more: later looks at all leases would give it its place, too.
    while !rig.is_whole().await {
        assert!(turns < TURNS, "nothing else waits");
        rig.engine.run_once().await.unwrap();
        turns += 1;
    }
    assert_eq!(rig.held().await, 1);
    rig.insert().await;
    assert_eq!(rig.lease().await.len(), 0, "its place is taken");
    rig.engine.record_outcomes(vec![succeeded(&leased[0])], "e").await.unwrap();
    assert_eq!(rig.lease().await.len(), 1);
}

macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod shared_in_memory {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                let clock = ManualClock::at(WallClock.now());
                super::$case(LimitsFreshRig::new(in_memory(&clock), clock).await).await;
            })*
        }

        mod on_servers_of_their_own {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let clock = ManualClock::at(WallClock.now());
                super::$case(LimitsFreshRig::new(on_servers().await, clock).await).await;
            })*
        }
    };
}

on_both!(
    where_nothing_waits_it_is_whole_at_once,
    what_waits_may_have_been_granted_a_place_and_is_waited_for,
    what_is_in_flight_has_its_place_before_anybody_gets_one,
);
