//! Ownership on MySQL: the suite, and what only rows on a server can get wrong.

use punctual_contract::{
    Ownership, SettingStore,
    ownership::{Says, Tenure},
};
use punctual_domain::place::Partition;
use punctual_store::{MysqlOptions, MysqlOwnership, MysqlStore};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers::{self, MariaDb},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// Of leases that must not end while a test runs.
const LONG: Duration = Duration::from_secs(3_600);

struct Catalog {
    server: &'static MariaDb,
    database: String,
    url: String,
}

impl Catalog {
    async fn fresh() -> Self {
        let server = servers::mariadb().await;
        let url = servers::migrated_database().await;
        let database = url.rsplit('/').next().unwrap().to_owned();
        Self { server, database, url }
    }

    /// An engine's own connections.
    async fn ownership(&self) -> MysqlOwnership {
        let urls = [self.url.clone()];
        MysqlStore::open(&urls, MysqlOptions::default()).await.unwrap().ownership()
    }

    async fn sql(&self, text: &str) -> String {
        self.server.sql(&self.database, text).await
    }

    /// Connections to this database that are at a statement like this, but the one that asks.
    async fn at(&self, statement: &str) -> usize {
        let list = format!(
            "SELECT id FROM information_schema.processlist
             WHERE db = DATABASE() AND info LIKE '{statement}' AND id <> CONNECTION_ID()"
        );
        self.sql(&list).await.lines().count()
    }

    async fn kill_who_is_at(&self, statement: &str) {
        let list = format!(
            "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist
             WHERE db = DATABASE() AND info LIKE '{statement}' AND id <> CONNECTION_ID()"
        );
        let kill = self.sql(&list).await;
        self.sql(&kill).await;
    }
}

mod suite {
    async fn fresh() -> std::sync::Arc<dyn super::Ownership> {
        std::sync::Arc::new(super::Catalog::fresh().await.ownership().await)
    }

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::$module::$case(fresh().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_ownership_case!(stamp);
}

fn partitions(count: u16) -> Vec<Partition> {
    (0..count).map(Partition).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn engines_that_fight_for_the_same_partitions_never_share_a_term() {
    let catalog = Catalog::fresh().await;
    let mut engines = JoinSet::new();
    for name in ["a", "b", "c"] {
        let ownership = catalog.ownership().await;
        engines.spawn(async move {
            let mut won = Vec::new();
            for _ in 0..15 {
                // None of them sleeps: leases that have ended, releases and takes meet in the same rows.
                let held = ownership.acquire(name, &partitions(24), Duration::from_millis(3)).await.unwrap();
                let held: Vec<Tenure> = held.into_iter().flatten().collect();
                let (kept, given): (Vec<_>, Vec<_>) =
                    held.iter().partition(|tenure| tenure.partition.0 % 2 == 0);
                ownership.release(name, &given).await.unwrap();
                ownership.renew(name, &kept, Duration::from_millis(3)).await.unwrap();
                won.extend(held);
            }
            (name, won)
        });
    }
    let mut owner_of = BTreeMap::new();
    for (name, won) in engines.join_all().await {
        for tenure in won {
            let owner = *owner_of.entry(tenure).or_insert(name);
            assert_eq!(owner, name, "{tenure:?} was given to two");
        }
    }
    assert!(owner_of.len() > 24, "they did fight: {}", owner_of.len());
}

/// On the catalog, everything else that an engine asks of it waits; heartbeats have connections of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_that_reads_settings_keeps_no_engine_from_its_signs_of_life() {
    let catalog = Catalog::fresh().await;
    let urls = [catalog.url.clone()];
    let store = Arc::new(MysqlStore::open(&urls, MysqlOptions::default()).await.unwrap());
    let ownership = store.ownership();
    let held = ownership.acquire("a", &partitions(16), LONG).await.unwrap();
    let held: Vec<Tenure> = held.into_iter().flatten().collect();
    // Every reader of settings waits for this one.
    let name = catalog.database.clone();
    let server = catalog.server;
    let lock = format!("LOCK TABLES {name}.setting WRITE; SELECT SLEEP(600)");
    let mut locking = JoinSet::new();
    locking.spawn(async move { server.sql(&name, &lock).await });
    until("the table is locked", || async { catalog.at("SELECT SLEEP(600)").await == 1 }).await;
    let mut crowd = JoinSet::new();
    for _ in 0..300 {
        let store = Arc::clone(&store);
        crowd.spawn(async move { SettingStore::settings(&*store).await.map(drop) });
    }
    until("all connections for settings wait", || async { catalog.at("%setting%").await >= 2 }).await;
    let signs = async {
        for _ in 0..4 {
            ownership.beat("a", LONG, &Says::default()).await.unwrap();
            assert_eq!(ownership.renew("a", &held, LONG).await.unwrap(), [true; 16]);
        }
    };
    tokio::time::timeout(HANG_LIMIT, signs).await.expect("they do not wait");
    assert_eq!(catalog.at("SELECT SLEEP(600)").await, 1, "the table was locked all the while");
    catalog.kill_who_is_at("SELECT SLEEP(600)").await;
    // It ends with an error, which is a panic there.
    drop(locking.join_next().await);
    crowd.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_paused_engine_that_renews_too_late_is_told_that_it_lost() {
    let catalog = Catalog::fresh().await;
    let ownership = catalog.ownership().await;
    let all = partitions(3);
    let held = ownership.acquire("paused", &all, LONG).await.unwrap();
    let held: Vec<Tenure> = held.into_iter().flatten().collect();
    // The pause, as the database sees it: the leases of two are long over, one of these has a new owner.
    catalog.sql("UPDATE owner SET held_until = 1 WHERE partition_no IN (0, 1)").await;
    let next = ownership.acquire("next", &all[..1], LONG).await.unwrap()[0].unwrap();
    assert_eq!(next.term, held[0].term + 1);
    assert_eq!(ownership.renew("paused", &held, LONG).await.unwrap(), [false, false, true]);
    ownership.release("paused", &held).await.unwrap();
    assert_eq!(
        ownership.renew("next", &[next], LONG).await.unwrap(),
        [true],
        "a release too late frees nothing"
    );
    let again = ownership.acquire("paused", &all[1..2], LONG).await.unwrap()[0].unwrap();
    assert!(again.term > held[1].term, "what had ended comes back under another term, to its old owner too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_are_compared_on_the_clock_of_the_database_in_any_time_zone() {
    let catalog = Catalog::fresh().await;
    let ownership = catalog.ownership().await;
    ownership.acquire("a", &partitions(1), LONG).await.unwrap();
    let left = "SELECT held_until - CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) FROM owner";
    let left_ms: i64 = catalog.sql(left).await.trim().parse().unwrap();
    assert!(left_ms > 0 && left_ms <= 3_600_000, "{left_ms}");
    catalog.sql("SET GLOBAL time_zone = '+09:00'").await;
    let elsewhere = catalog.ownership().await;
    let taken = elsewhere.acquire("b", &partitions(1), LONG).await.unwrap();
    let owners = elsewhere.owners().await.unwrap();
    catalog.sql("SET GLOBAL time_zone = 'SYSTEM'").await;
    assert_eq!(taken, [None], "nine hours of difference end no lease");
    assert!(owners[0].left <= LONG, "{owners:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_partitions_the_one_that_is_lost_is_told() {
    let catalog = Catalog::fresh().await;
    let ownership = catalog.ownership().await;
    let held = ownership.acquire("a", &partitions(1_000), LONG).await.unwrap();
    let held: Vec<Tenure> = held.into_iter().flatten().collect();
    assert_eq!(held.len(), 1_000);
    assert_eq!(ownership.renew("a", &held, LONG).await.unwrap(), vec![true; 1_000]);
    let mut mixed = held.clone();
    mixed[700].term -= 1;
    let renewed = ownership.renew("a", &mixed, LONG).await.unwrap();
    let lost: Vec<usize> = (0..1_000).filter(|nth| !renewed[*nth]).collect();
    assert_eq!(lost, [700]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_that_hangs_up_leaves_no_open_transaction_and_no_spoilt_connection() {
    let catalog = Catalog::fresh().await;
    let ownership = Arc::new(catalog.ownership().await);
    let all = partitions(50);
    for nth in 0..60_u64 {
        let (ownership, all) = (Arc::clone(&ownership), all.clone());
        let call = async move { ownership.acquire("a", &all, LONG).await };
        let cut = tokio::time::timeout(Duration::from_micros(nth * 40), call).await;
        assert!(cut.is_err() || cut.unwrap().is_ok());
    }
    assert!(ownership.acquire("a", &all, LONG).await.unwrap().iter().all(Option::is_some));
    let of_ours = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS trx
        JOIN information_schema.PROCESSLIST AS list ON list.ID = trx.trx_mysql_thread_id WHERE list.DB = DATABASE()";
    assert_eq!(catalog.sql(of_ours).await.trim(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_has_been_silent_for_an_hour_is_forgotten_when_another_leaves() {
    let catalog = Catalog::fresh().await;
    let ownership = catalog.ownership().await;
    for name in ["old", "late", "leaves"] {
        ownership.beat(name, Duration::from_secs(60), &Says::default()).await.unwrap();
    }
    catalog.sql("UPDATE engine SET alive_until = alive_until - 7200000 WHERE name = 'old'").await;
    catalog.sql("UPDATE engine SET alive_until = alive_until - 120000 WHERE name = 'late'").await;
    ownership.leave("leaves").await.unwrap();
    assert_eq!(catalog.sql("SELECT name FROM engine").await.trim(), "late");
    let live = ownership.beat("a", LONG, &Says::default()).await.unwrap();
    assert_eq!(live.iter().map(|live| live.engine.as_str()).collect::<Vec<_>>(), ["a"]);
}
