//! Engines read tasks from one store before they are due, into a hot set or, embedded, into their own table,
//! while inserts around the edge of the read range commit late: before, during and behind their scans.
//! Nothing is missed: every task is loaded before it is due, and the sweep, which repairs losses, finds
//! nothing. Seeded; a failing seed is printed.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "inserts that wait are tasks; the seed is to be seen"
)]

use crate::engine::queue;
use fastrand::Rng;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Hot, Store,
    store::{Assignment, Inserted},
};
use punctual_domain::{name::Name, task::NewTask, time::Millis};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_hot::NoHot;
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyHot, FaultyStore, Gate, HotGroup, StoreGroup},
    patience::until,
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// More by `PUNCTUAL_SEEDS`.
const SEEDS: u64 = 60;
const STEPS: usize = 50;
const HORIZON_MS: i64 = 30_000;
/// A task that is due this soon enters an engine's table when it is inserted. An embedded engine reads nearly
/// as far ahead.
const NEAR_MS: i64 = 10_000;
/// A commit takes no longer.
const COMMIT_MAX_MS: i64 = 8_000;
/// The most that the clock moves between two turns of the engines: no task is later than that.
const STEP_MAX_MS: i64 = 900;
const START: Millis = Millis(1_700_000_000_000);

struct Node {
    store: Arc<FaultyStore>,
    hot: Arc<FaultyHot>,
    engine: Engine,
}

/// An insert whose commit is held up.
struct Late {
    gate: Arc<Gate>,
    since: Millis,
    due_at: Millis,
    insert: JoinHandle<Vec<Inserted>>,
}

struct Edge {
    rng: Rng,
    clock: ManualClock,
    truth: Arc<dyn Store>,
    /// So far ahead it is read.
    horizon_ms: i64,
    nodes: Vec<Node>,
    late: Vec<Late>,
    /// By id, when it was known to the store.
    committed_at: HashMap<i64, Millis>,
    came: Vec<Assignment>,
}

impl Edge {
    /// None: an embedded one. Of two each takes the furthest that the other may have preloaded.
    fn new(seed: u64, engines: Option<usize>) -> Self {
        let clock = ManualClock::at(START);
        let options = punctual_store::sqlite::Options { partitions: 3, ..Default::default() };
        let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&options).unwrap());
        let shared_hot = Arc::new(SharedHot::new(3));
        let horizon_ms = if engines.is_some() { HORIZON_MS } else { NEAR_MS };
        let ownership = Arc::new(MemoryOwnership::new(Arc::new(clock.clone())));
        let signals = SignalHub::default();
        let node = |name: &str| {
            let store = Arc::new(FaultyStore::new(Arc::clone(&truth), seed));
            let hot: Arc<dyn Hot> = match engines {
                Some(_) => shared_hot.clone(),
                None => Arc::new(NoHot),
            };
            let hot = Arc::new(FaultyHot::new(hot, seed));
            let shared = SharedBackends {
                ownership: ownership.clone(),
                signals: signals.join(),
                stored_limiter: None,
            };
            let shared = engines.map(|_| shared);
            let (bus, clock) = (Arc::new(MemoryBus::default()), Arc::new(clock.clone()));
            let limiter = Arc::new(punctual_hot::MemoryLimiter::default());
            let backends =
                Backends { store: store.clone(), hot: hot.clone(), limiter, bus, clock, blobs: None, shared };
            let options = Options { name: name.to_owned(), horizon_ms: HORIZON_MS, ..Options::default() };
            Node { store, hot, engine: Engine::new(backends, options) }
        };
        let nodes = ["a", "b"].into_iter().take(engines.unwrap_or(1)).map(node).collect();
        let (late, committed_at, came) = Default::default();
        Self { rng: Rng::with_seed(seed), clock, truth, horizon_ms, nodes, late, committed_at, came }
    }

    fn now(&self) -> Millis {
        self.nodes[0].engine.now()
    }

    async fn step(&mut self) {
        match self.rng.u8(..10) {
            0..=2 => self.insert_late().await,
            3 => self.insert_at_once().await,
            4 => self.commit_one().await,
            5 => self.commit_during_a_preload().await,
            6 => self.commit_without_a_load().await,
            _ => self.move_on().await,
        }
    }

    /// Around the horizon's edge, and now and then soon.
    fn task(&mut self) -> NewTask {
        let delay_ms = match self.rng.u8(..6) {
            0 => self.rng.i64(0..12_000),
            _ => self.horizon_ms + self.rng.i64(-12_000..12_000),
        };
        NewTask::new(queue(), Name::new("k").unwrap(), self.now().plus(delay_ms))
    }

    async fn insert_late(&mut self) {
        let task = self.task();
        let (since, due_at) = (self.now(), task.execute_at);
        let node = &self.nodes[self.rng.usize(..self.nodes.len())];
        let gate = node.store.faults.hold(StoreGroup::Insert);
        let engine = node.engine.clone();
        let insert = tokio::spawn(async move { engine.insert(vec![task], "test").await.unwrap() });
        gate.reached().await;
        self.late.push(Late { gate, since, due_at, insert });
    }

    async fn insert_at_once(&mut self) {
        self.insert_late().await;
        let late = self.late.pop().unwrap();
        self.commit(late).await;
    }

    async fn commit_one(&mut self) {
        if !self.late.is_empty() {
            let nth = self.rng.usize(..self.late.len());
            let late = self.late.swap_remove(nth);
            self.commit(late).await;
        }
    }

    async fn commit(&mut self, late: Late) {
        late.gate.open();
        let inserted = late.insert.await.unwrap();
        let now = self.now();
        self.committed_at.extend(inserted.iter().map(|inserted| (inserted.task.place.id, now)));
    }

    /// The commit is delivered while an engine has scanned and not loaded yet, so that the scan has missed
    /// the task.
    async fn commit_during_a_preload(&mut self) {
        // What falls due meanwhile would be the sweep's to find, in the same turn.
        let soon = self.now().plus(3_000);
        let pending: Vec<usize> = (0..self.late.len()).filter(|nth| self.late[*nth].due_at > soon).collect();
        if pending.is_empty() {
            return self.insert_late().await;
        }
        let late = self.late.swap_remove(pending[self.rng.usize(..pending.len())]);
        self.clock.advance(Duration::from_millis(self.rng.u64(1..900)));
        let node = &self.nodes[self.rng.usize(..self.nodes.len())];
        let loading = node.hot.faults.hold(HotGroup::Load);
        let engine = node.engine.clone();
        let mut turn = tokio::spawn(async move { engine.run_once().await.unwrap() });
        let is_loading = tokio::select! {
            biased;
            () = loading.reached() => true,
            _ = &mut turn => false,
        };
        if is_loading {
            let accepted = self.truth.books().await.unwrap().accepted;
            late.gate.open();
            until("it is committed", || async { self.truth.books().await.unwrap().accepted > accepted })
                .await;
        }
        loading.open();
        if is_loading {
            turn.await.unwrap();
        }
        self.commit(late).await;
        self.run_once().await;
    }

    /// The load that follows the commit is lost, as when the engine dies between the two. The preloader's
    /// next window overlaps the last one, and finds tasks within the overlap.
    async fn commit_without_a_load(&mut self) {
        self.run_once().await;
        let frontier = self.now().plus(self.horizon_ms);
        let kind = Name::new("k").unwrap();
        let task = NewTask::new(queue(), kind, frontier.plus(self.rng.i64(-8_000..0)));
        let node = &self.nodes[self.rng.usize(..self.nodes.len())];
        node.hot.faults.set(HotGroup::Load, Dials::REFUSES);
        let engine = node.engine.clone();
        let gate = node.store.faults.hold(StoreGroup::Insert);
        gate.open();
        let inserted = engine.insert(vec![task], "test").await.unwrap();
        node.hot.faults.set(HotGroup::Load, Dials::SOUND);
        let now = self.now();
        self.committed_at.extend(inserted.iter().map(|inserted| (inserted.task.place.id, now)));
        self.move_on().await;
    }

    async fn move_on(&mut self) {
        self.clock.advance(Duration::from_millis(self.rng.u64(1..=STEP_MAX_MS.unsigned_abs())));
        let overdue = |late: &Late, now: Millis| now.since(late.since) > COMMIT_MAX_MS;
        while let Some(nth) = self.late.iter().position(|late| overdue(late, self.now())) {
            let late = self.late.swap_remove(nth);
            self.commit(late).await;
        }
        self.run_once().await;
    }

    async fn run_once(&mut self) {
        for node in &self.nodes {
            node.engine.run_once().await.unwrap();
        }
        let executor = "test".to_owned();
        let queue = Arc::new(queue());
        let request =
            LeaseRequest { queue, max: 10_000, wait_ms: 0, lease_ms: i64::MAX / 4, executor, version: None };
        self.came.extend(self.nodes[0].engine.lease(request).await.unwrap());
    }

    async fn finish(mut self) {
        while let Some(late) = self.late.pop() {
            self.commit(late).await;
        }
        let end = self.now().plus(self.horizon_ms + 13_000);
        while self.now() < end {
            self.move_on().await;
        }
        let swept: u64 = self.nodes.iter().map(|node| node.engine.meters().swept_total()).sum();
        assert_eq!(swept, 0, "the preloaders have missed some");
        assert_eq!(self.came.len(), self.committed_at.len(), "every task comes once");
        for lease in &self.came {
            // Both are instants of the manual clock.
            let could_fire_at = lease.due_at.max(self.committed_at[&lease.place.id]);
            assert!((could_fire_at..=could_fire_at.plus(STEP_MAX_MS)).contains(&lease.fired_at), "{lease:?}");
        }
    }
}

fn run_seeds(engines: Option<usize>) {
    let seeds = std::env::var("PUNCTUAL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let mut edge = Edge::new(seed, engines);
                edge.run_once().await;
                for _ in 0..STEPS {
                    edge.step().await;
                }
                edge.finish().await;
            });
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn commits_that_land_behind_an_embedded_engine_that_reads_ahead_are_not_missed() {
    run_seeds(None);
}

#[test]
fn commits_that_land_behind_a_preloader_are_not_missed() {
    run_seeds(Some(1));
}

#[test]
fn commits_that_land_behind_two_preloaders_are_not_missed() {
    run_seeds(Some(2));
}
