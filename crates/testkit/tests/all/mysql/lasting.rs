//! Work with connections of its own for its whole time (a mover, a migration, housekeeping of buckets, a
//! repair): when they become silent it ends with a clear error, while they are still silent, and its locks
//! are free; a statement that the server is executing may take any time. Without a limit each of these waited
//! until an operator killed it.

use super::{NOW, ask, fresh, name, sql, unseen::Holder};
use punctual_contract::Store;
use punctual_domain::place::Partition;
use punctual_store::{BucketOptions, MoveProgress, MoveStep, MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers::{self, Proxy, Way},
};
use std::{fmt::Display, ops::ControlFlow, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

/// Longer than it takes to take a connection for silent: it is asked after when two seconds have passed, and looked at twice.
const LONGER_THAN_SILENCE: Duration = Duration::from_secs(5);
/// Each piece so much later: slow enough to be met in the middle.
const SLOW: Duration = Duration::from_millis(50);

/// Two databases, directly and by a way that can fall silent.
struct LongLivedSite {
    urls: Vec<String>,
    ways: Vec<String>,
    proxy: Proxy,
}

impl LongLivedSite {
    async fn new() -> Self {
        let (urls, port) = (fresh(2).await, servers::mariadb().await.port());
        let proxy = Proxy::before(port);
        let way = |text: &String| text.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
        let ways = urls.iter().map(way).collect();
        Self { urls, ways, proxy }
    }

    async fn open(&self) -> Arc<MysqlStore> {
        Arc::new(MysqlStore::open(&self.ways, MysqlOptions::default()).await.unwrap())
    }

    /// Whether a lock of this expression is held.
    async fn is_locked(&self, lock: &str) -> bool {
        sql(&self.urls[0], &format!("SELECT IS_USED_LOCK({lock}) IS NOT NULL")).await == "1"
    }

    /// The connections go silent while the work holds its lock. Returns the error with which the work ends.
    async fn fails_in_silence<T: std::fmt::Debug + Send + 'static, E: Display + Send + 'static>(
        &self,
        lock: &str,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> String
    where
        Result<T, E>: Send,
    {
        self.proxy.set(Way::Slow(SLOW));
        let mut working = JoinSet::new();
        working.spawn(async move { work.await.map_err(|error| error.to_string()) });
        until("it holds its lock", || self.is_locked(lock)).await;
        self.proxy.set_open(Way::Silent);
        self.proxy.set_new(Way::Open);
        // Nothing that it has asked on them is ever answered.
        let ended = timeout(HANG_LIMIT, working.join_next()).await.expect("it ends by itself");
        let ended = ended.unwrap().unwrap().expect_err("it cannot have ended well");
        until("its lock is free", || async { !self.is_locked(lock).await }).await;
        ended
    }
}

const OF_MIGRATIONS: &str = "CONCAT('punctual/', LEFT(SHA2(DATABASE(), 256), 40))";
/// As `lock_maintenance` of buckets.sql says: MySQL has no SHA1 from 9.6 on.
const OF_BUCKETS: &str = "CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */)";
const OF_MOVERS: &str = "CONCAT('punctual move ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */)";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_migration_whose_connection_falls_silent_ends_and_can_be_run_again() {
    let site = LongLivedSite::new().await;
    let ways = site.ways.clone();
    let work = async move { MysqlStore::migrate(&ways, MysqlOptions::default()).await };
    let error = site.fails_in_silence(OF_MIGRATIONS, work).await;
    assert!(
        error.contains("has not answered for too long") && error.contains(name(&site.urls[0])),
        "{error}"
    );
    site.open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn housekeeping_of_buckets_whose_connection_falls_silent_ends_and_is_done_by_the_next_run() {
    let site = LongLivedSite::new().await;
    let store = site.open().await;
    let buckets = Arc::new(store.buckets(BucketOptions::default()));
    let its = Arc::clone(&buckets);
    let error = site.fails_in_silence(OF_BUCKETS, async move { its.run_once(NOW).await }).await;
    assert!(error.contains("fell silent"), "{error}");
    let report = buckets.run_once(NOW).await.unwrap();
    assert_eq!(report.busy, 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repair_whose_connections_fall_silent_ends_and_can_be_run_again() {
    let site = LongLivedSite::new().await;
    let store = site.open().await;
    let its = Arc::clone(&store);
    let error = site.fails_in_silence(OF_MOVERS, async move { its.repair(false).await }).await;
    assert!(error.contains("has not answered for too long"), "{error}");
    assert!(store.repair(false).await.unwrap().iter().all(punctual_store::ShardRepair::is_nothing));
}

/// The connections go silent as when a firewall forgets them, and as when a host vanishes. In the second case
/// new connections fail, too, so that no one can end the old ones.
async fn a_mover_ends(at: MoveStep, silence: impl Fn(&Proxy) + Send + Sync, comes_back: impl Fn(&Proxy)) {
    let site = LongLivedSite::new().await;
    let store = site.open().await;
    store.insert((1..=40).map(ask).collect(), "test", NOW).await.unwrap();
    let mut is_silent = false;
    let mut progress = |progress: &MoveProgress| {
        if progress.step == at {
            silence(&site.proxy);
            is_silent = true;
        }
        ControlFlow::Continue(())
    };
    let ended = timeout(HANG_LIMIT, store.move_partition(Partition(0), 1, &mut progress)).await;
    let error = ended.expect("it ends by itself").unwrap_err().to_string();
    assert!(is_silent, "{at:?} was not reached: {error}");
    assert!(error.contains("has not answered for too long"), "{at:?}: {error}");
    comes_back(&site.proxy);
    // Whatever of it the server heard: it continues where it was.
    let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
    until("its lock is free", || async { !site.is_locked(OF_MOVERS).await }).await;
    store.move_partition(Partition(0), 1, &mut go_on).await.unwrap();
    assert_eq!(sql(&site.urls[0], "SELECT shard_no FROM placement WHERE partition_no = 0").await, "1");
    assert!(store.check().await.unwrap().iter().all(punctual_store::ShardCheck::is_sound), "{at:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mover_whose_connections_fall_silent_ends_and_goes_on_when_it_is_run_again() {
    for at in [MoveStep::Recorded, MoveStep::Closed, MoveStep::Deleting] {
        a_mover_ends(at, |proxy| proxy.set_open(Way::Silent), |_| ()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mover_whose_host_vanishes_ends_and_goes_on_when_it_is_run_again() {
    // Then it knows nothing of connections of before.
    let comes_back = |proxy: &Proxy| {
        proxy.set_open(Way::Cut);
        proxy.reopen();
    };
    a_mover_ends(MoveStep::Tidied, Proxy::vanish, comes_back).await;
}

/// One of its connections waits for a row, for longer than it takes to find that a connection is silent, and the others have
/// nothing to do meanwhile. The row is held until it has waited for so long.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mover_whose_statement_takes_long_is_not_taken_for_silent() {
    let site = LongLivedSite::new().await;
    let store = site.open().await;
    store.insert((1..=40).map(ask).collect(), "test", NOW).await.unwrap();
    let held = "SELECT * FROM hosted WHERE partition_no = 0 FOR UPDATE";
    let holder = Holder::of(&site.urls[0], held).await;
    let mut moving = JoinSet::new();
    moving.spawn(async move {
        let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
        store.move_partition(Partition(0), 1, &mut go_on).await.map_err(|error| error.to_string())
    });
    let began = Instant::now();
    until("it has waited for long", || async { began.elapsed() > LONGER_THAN_SILENCE }).await;
    assert!(moving.try_join_next().is_none(), "it did not wait");
    holder.let_go().await;
    let moved = timeout(HANG_LIMIT, moving.join_next()).await.expect("it goes on");
    assert!(moved.unwrap().unwrap().unwrap().is_some(), "it was moved");
}
