//! Counts for pages: computed beside the caller, once for all callers, and as old as the caller accepts.

use crate::access::site::{AccessSite, get};
use async_trait::async_trait;
use punctual_cluster::Watcher;
use punctual_contract::{
    ClusterStore, Error,
    cluster::{Database, DueCounts, DueLook, Event, EventQuery, Move, Sample, SignOfLife},
    store::Applied,
};
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_store::SqliteStore;
use punctual_testkit::faults::{Gate, StoreGroup};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// Counts what falls due when it is let, and nothing else.
#[derive(Debug)]
struct Slow {
    store: SqliteStore,
    let_through: Semaphore,
    begun: AtomicUsize,
}

#[async_trait]
impl ClusterStore for Slow {
    async fn append_event(&self, event: Event) -> Result<Applied, Error> {
        self.store.append_event(event).await
    }
    async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, Error> {
        self.store.events(query).await
    }
    async fn trim_events(&self, before: Millis, most: usize, limit: usize) -> Result<usize, Error> {
        self.store.trim_events(before, most, limit).await
    }
    async fn save_sample(&self, sample: Sample) -> Result<(), Error> {
        self.store.save_sample(sample).await
    }
    async fn samples(&self, since: Millis) -> Result<Vec<Sample>, Error> {
        self.store.samples(since).await
    }
    async fn save_queue_sample(&self, sample: Sample) -> Result<(), Error> {
        self.store.save_queue_sample(sample).await
    }
    async fn queue_samples(&self, since: Millis, only: Option<&QueueKey>) -> Result<Vec<Sample>, Error> {
        self.store.queue_samples(since, only).await
    }
    async fn trim_samples(&self, before: Millis) -> Result<usize, Error> {
        self.store.trim_samples(before).await
    }
    async fn signs_of_life(&self) -> Result<Vec<SignOfLife>, Error> {
        self.store.signs_of_life().await
    }
    async fn database(&self, part: usize) -> Result<Database, Error> {
        self.store.database(part).await
    }
    async fn moves(&self) -> Result<Vec<Move>, Error> {
        self.store.moves().await
    }
    async fn due_counts(&self, look: DueLook) -> Result<DueCounts, Error> {
        self.begun.fetch_add(1, SeqCst);
        self.let_through.acquire().await.unwrap().forget();
        Ok(DueCounts { steps: vec![(0, u64::from(look.partition.0) + 1)], is_cut: false })
    }
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_is_counted_beside_whoever_asks_and_the_last_is_told_meanwhile() {
    let site = AccessSite::open().await;
    let partitions = usize::from(site.engine.store().partitions());
    let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
    let slow = Arc::new(Slow { store, let_through: Semaphore::new(0), begun: AtomicUsize::new(0) });
    let watcher = Watcher::new(site.engine.clone(), slow.clone(), punctual_cluster::Options::default());
    // A caller that asks first goes away before it is counted.
    let gone = tokio::time::timeout(Duration::from_millis(60), watcher.due()).await;
    assert!(gone.is_err() && slow.begun.load(SeqCst) == 1);
    slow.let_through.add_permits(partitions);
    let first = watcher.due().await.unwrap();
    assert_eq!(slow.begun.load(SeqCst), partitions, "it was counted once, for both");
    assert_eq!(watcher.due().await.unwrap(), first);
    // It is too old: it is shown all the same, and counted anew, once.
    site.clock.advance_ms(20_000);
    for _ in 0..3 {
        assert_eq!(watcher.due().await.unwrap(), first);
        tokio::task::yield_now().await;
    }
    assert_eq!(slow.begun.load(SeqCst), partitions + 1);
    slow.let_through.add_permits(partitions);
    while watcher.due().await.unwrap() == first {
        tokio::task::yield_now().await;
    }
    assert_eq!(watcher.due().await.unwrap().at, first.at.plus(20_000));
    // What is far too old is not shown.
    site.clock.advance_ms(3_600_000);
    slow.let_through.add_permits(partitions);
    assert_eq!(watcher.due().await.unwrap().at, first.at.plus(3_620_000));
}

/// Waiting tasks of `mail`, the only queue, as four calls count them.
async fn waiting(site: &AccessSite, max_age: &str) -> Vec<i64> {
    let mut tasks = Vec::new();
    for path in ["/v1/queues", "/v1/queues/mail", "/v1/namespaces/default", "/v1/stats"] {
        let body = site.admin(get(path).header("cache-control", max_age)).await.expect(200);
        let found = ["/items/0/waiting", "/waiting", "/usage/waiting", "/backlog/states/scheduled"];
        tasks.extend(found.iter().filter_map(|one| body.pointer(one)?.as_i64()));
    }
    tasks
}

#[tokio::test(start_paused = true)]
async fn an_account_is_as_old_as_its_caller_takes_it() {
    let site = AccessSite::sqlite().await;
    site.insert("default", json!({"queue": "mail", "delay_ms": 60_000})).await;
    assert_eq!(waiting(&site, "max-age=10").await, [1; 4]);
    site.insert("default", json!({"queue": "mail", "delay_ms": 60_000})).await;
    assert_eq!(waiting(&site, "max-age=10").await, [1; 4], "what was read just now is taken");
    assert_eq!(waiting(&site, "no-cache").await, [2; 4], "and by nobody who did not say so");
    site.insert("default", json!({"queue": "mail", "delay_ms": 60_000})).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(waiting(&site, "max-age=10").await, [3; 4], "it is old");
}

/// Nothing else continues meanwhile: the clock moves only where this test moves it.
#[tokio::test(start_paused = true)]
async fn an_account_that_takes_long_is_read_beside_whoever_takes_an_older_one() {
    let site = AccessSite::open().await;
    let (ms, ten_seconds) = (Duration::from_millis, Duration::from_secs(10));
    let held = async |gate: &Gate| {
        while gate.came() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let gate = site.store.faults.hold(StoreGroup::Read);
    let let_through = async {
        held(&gate).await;
        tokio::time::advance(ms(200)).await;
        gate.open();
    };
    let (first, ()) = tokio::join!(site.engine.account(ten_seconds), let_through);
    let first = first.unwrap();
    // Twenty times as long as it took it is good, and as long again while the next one is read.
    tokio::time::advance(ms(5_000)).await;
    let gate = site.store.faults.hold(StoreGroup::Read);
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&first, &site.engine.account(ten_seconds).await.unwrap()));
        tokio::task::yield_now().await;
    }
    held(&gate).await;
    assert_eq!(gate.came(), 1, "once for all");
    gate.open();
    while Arc::ptr_eq(&first, &site.engine.account(ten_seconds).await.unwrap()) {
        tokio::task::yield_now().await;
    }
    // Who takes no older one has waited for it, and has its own.
    let exact = site.engine.account(Duration::ZERO).await.unwrap();
    assert!(!Arc::ptr_eq(&exact, &site.engine.account(Duration::ZERO).await.unwrap()));
}

#[tokio::test]
async fn who_says_nothing_is_told_what_is_there_on_both_kinds_of_store() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        for count in 1..=3 {
            site.insert("default", json!({"queue": "mail", "delay_ms": 60_000})).await;
            assert_eq!(waiting(&site, "").await, [count; 4]);
        }
    }
}
