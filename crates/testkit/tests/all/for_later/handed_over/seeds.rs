//! An engine whose database fails and returns, that dies at any step and restarts, and executors that report,
//! become silent or fail: by seeds. No attempt is handed over twice, no outcome is accepted twice, no
//! reported task runs again, no executor has a cancelled task, and everything ends. One engine, its journal
//! on a disk, the embedded store; the clock is moved manually.

use super::{SHORT_MS, hands_over, queue, succeeded};
use crate::{
    for_later::{Hiding, opened},
    limits::set_queue,
};
use fastrand::Rng;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Clock as _, Store,
    store::{Assignment, Beat, Extended},
};
use punctual_domain::{
    name::Name, outcome::Report, place::TaskRef, state::State, task::NewTask, time::Millis,
};
use punctual_engine::{Backends, Cancelled, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::{JournalOptions, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyStore, StoreGroup},
    patience::until,
};
use std::{collections::HashSet, path::PathBuf, sync::Arc, thread::park_timeout, time::Duration};

/// Seeds 106 and 145 have found what no seed before them does.
const SEEDS: u64 = 150;
const STEPS: usize = 80;
const PARTITIONS: u16 = 2;
/// As after a kill, the files of a dead engine are released this much later.
const LETS_GO_AFTER: Duration = Duration::from_millis(3);

struct SeedsWorld {
    rng: Rng,
    clock: ManualClock,
    truth: Arc<dyn Store>,
    directory: PathBuf,
    engine: Engine,
    store: Arc<FaultyStore>,
    journal: Arc<Hiding>,
    places: Vec<TaskRef>,
    /// With executors that have not reported.
    held: Vec<Assignment>,
    given: HashSet<(i64, i64)>,
    /// Succeeded, as their executors were notified, while they had their leases.
    reported: HashSet<i64>,
    accepted: HashSet<i64>,
    cancelled: HashSet<i64>,
    /// How many were handed over while the database was unavailable.
    away: u64,
}

impl SeedsWorld {
    async fn new(seed: u64, directory: PathBuf) -> Self {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let options = punctual_store::sqlite::Options { partitions: PARTITIONS, ..Default::default() };
        let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&options).unwrap());
        let (engine, store, journal) = begin(&clock, &truth, &directory);
        set_queue(&engine, &queue(), hands_over()).await;
        let world = Self {
            rng: Rng::with_seed(seed),
            clock,
            truth,
            directory,
            engine,
            store,
            journal,
            places: Vec::new(),
            held: Vec::new(),
            given: HashSet::new(),
            reported: HashSet::new(),
            accepted: HashSet::new(),
            cancelled: HashSet::new(),
            away: 0,
        };
        world.run_once(1).await;
        world
    }

    async fn step(&mut self) {
        match self.rng.u8(0..16) {
            0 | 1 => self.insert().await,
            2..5 => self.lease().await,
            5 => self.beat().await,
            6 | 7 => self.report(Report::Succeeded).await,
            8 => self.report(Report::Failed { after_ms: Some(1) }).await,
            9 => self.lose_database(),
            10 => self.store.faults.heal(),
            11 => self.die().await,
            12 => self.cancel().await,
            _ => {
                let ms = self.rng.u64(1..2_000);
                self.run_once(ms).await;
            }
        }
    }

    /// What a store refuses is part of it.
    async fn run_once(&self, ms: u64) {
        self.clock.advance_ms(ms);
        drop(self.engine.run_once().await);
    }

    async fn insert(&mut self) {
        let delay_ms = self.rng.i64(0..3_000);
        let task = NewTask {
            max_attempts: 1_000,
            ..NewTask::new(queue(), Name::new("k").unwrap(), self.clock.now().plus(delay_ms))
        };
        if let Ok(mut inserted) = self.engine.insert(vec![task], "test").await {
            self.places.push(inserted.remove(0).task.place);
        }
    }

    async fn lease(&mut self) {
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 3,
            wait_ms: 0,
            lease_ms: SHORT_MS,
            executor: format!("e{}", self.rng.u8(0..3)),
            version: None,
        };
        let leased = self.engine.lease(request).await.unwrap_or_default();
        for lease in leased {
            let id = lease.place.id;
            assert!(self.given.insert((id, lease.fence)), "an attempt of {id} was handed over twice");
            assert!(!self.reported.contains(&id), "{id} runs again, and had reported");
            assert!(!self.cancelled.contains(&id), "{id} was cancelled");
            self.held.push(lease);
        }
    }

    fn any_held(&mut self) -> Option<Assignment> {
        (!self.held.is_empty()).then(|| self.held.swap_remove(self.rng.usize(0..self.held.len())))
    }

    async fn beat(&mut self) {
        let Some(lease) = self.any_held() else { return };
        let beat = Beat {
            place: lease.place,
            fence: lease.fence,
            lease_until: self.clock.now().plus(SHORT_MS),
            progress: None,
            log: None,
            executor: "e".to_owned(),
            handed_over_at: None,
        };
        match self.engine.extend(vec![beat]).await.as_deref() {
            Ok([Extended::Lost]) => {}
            _ => self.held.push(lease),
        }
    }

    async fn report(&mut self, report: Report) {
        let Some(lease) = self.any_held() else { return };
        let (id, has_lease) = (lease.place.id, self.clock.now() < lease.lease_until);
        let outcome = OutcomeReport { report, ..succeeded(&lease) };
        match self.engine.record_outcomes(vec![outcome], "e").await.as_deref() {
            Ok([recorded @ (Reported::Accepted | Reported::ForLater)]) if report == Report::Succeeded => {
                assert!(
                    *recorded == Reported::ForLater || self.accepted.insert(id),
                    "{id} has succeeded twice"
                );
                if has_lease {
                    self.reported.insert(id);
                }
            }
            Ok(_) => {}
            // It reports again.
            Err(_) => self.held.push(lease),
        }
    }

    /// It refuses, or what it does is not learned of.
    fn lose_database(&mut self) {
        let dials = if self.rng.bool() { Dials::REFUSES } else { Dials::ANSWERS_LOST };
        for group in [StoreGroup::Apply, StoreGroup::Dispatch, StoreGroup::Extend] {
            self.store.faults.set(group, dials);
        }
        for group in [StoreGroup::Read, StoreGroup::Leases, StoreGroup::Scan] {
            self.store.faults.set(group, Dials::REFUSES);
        }
    }

    /// Nothing but its journal is left of the engine.
    async fn die(&mut self) {
        self.away += self.engine.journal_numbers().unwrap().handed_over;
        let other = begin(&self.clock, &self.truth, &self.directory.join("unused"));
        let old = std::mem::replace(&mut self.journal, other.2);
        (self.engine, self.store) = (other.0, other.1);
        until("nothing has its journal", || async { Arc::strong_count(&old) == 1 }).await;
        // As a process that is killed: its files are free a moment later than it does anything.
        let file = old.journal.clone();
        drop(old);
        drop(tokio::task::spawn_blocking(move || {
            park_timeout(LETS_GO_AFTER);
            drop(file);
        }));
        (self.engine, self.store, self.journal) = begin(&self.clock, &self.truth, &self.directory);
    }

    async fn cancel(&mut self) {
        let Some(place) = self.rng.choice(&self.places).copied() else { return };
        if let Ok(Cancelled::Cancelled(_)) = self.engine.cancel(place, false, "test").await {
            let now = self.clock.now();
            let is_held = |lease: &Assignment| lease.place.id == place.id && now < lease.lease_until;
            assert!(!self.held.iter().any(is_held), "{place} is cancelled, and an executor has it");
            assert!(!self.reported.contains(&place.id), "{place} is cancelled, and has run");
            self.cancelled.insert(place.id);
        }
    }

    async fn everything_ends(&mut self) {
        self.store.faults.heal();
        for _ in 0..500 {
            let tasks = self.truth.read(&self.places).await.unwrap();
            let is_open = |task: &Option<punctual_domain::task::Task>| {
                !matches!(task.as_ref().unwrap().state, State::Succeeded | State::Cancelled)
            };
            if self.engine.journal_numbers().unwrap().waiting.records == 0 && !tasks.iter().any(is_open) {
                let is_done = |id: &i64| {
                    tasks.iter().flatten().any(|task| task.place.id == *id && task.state == State::Succeeded)
                };
                assert!(self.reported.iter().all(is_done), "what had reported has succeeded");
                return;
            }
            self.run_once(2_000).await;
            self.lease().await;
            while !self.held.is_empty() {
                self.report(Report::Succeeded).await;
            }
        }
        panic!("not everything ends: {:?}", self.truth.read(&self.places).await);
    }
}

fn begin(
    clock: &ManualClock,
    truth: &Arc<dyn Store>,
    directory: &std::path::Path,
) -> (Engine, Arc<FaultyStore>, Arc<Hiding>) {
    let store = Arc::new(FaultyStore::new(Arc::clone(truth), 1));
    let directory = directory.to_owned();
    let journal = opened(JournalOptions { directory, bytes_max: 1 << 20, owner: [1; 16], is_alone: true });
    let backends = Backends {
        store: store.clone(),
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    let engine = Engine::new(backends, Options { name: "engine".to_owned(), ..Options::default() });
    assert!(engine.keep_outcomes_in(journal.clone()));
    (engine, store, journal)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_had_reported_runs_again_whatever_fails() {
    let mut away = 0;
    for seed in 0..SEEDS {
        #[expect(clippy::disallowed_methods, reason = "a panic says which seed")]
        let life = tokio::spawn(life(seed)).await;
        away += life.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(away > SEEDS, "tasks were handed over while their database was away: {away}");
}

/// How many tasks were handed over while the database was unavailable.
async fn life(seed: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let mut world = SeedsWorld::new(seed, directory.path().to_owned()).await;
    for _ in 0..STEPS {
        world.step().await;
    }
    world.everything_ends().await;
    world.away + world.engine.journal_numbers().unwrap().handed_over
}
