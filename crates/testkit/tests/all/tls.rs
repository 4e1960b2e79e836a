//! All connections of engines to Redis and MySQL, over TLS: the suites of hot set and bus on a Cluster with
//! TLS-only nodes, signals and failover under Sentinels, and a store on a MariaDB that requires it.

use punctual_bus::{RedisBus, RedisBusOptions};
use punctual_contract::{Bus, Hot, Ownership as _, Signals as _, ownership::Signal};
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    time::Millis,
};
use punctual_hot::{RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    certificates::Authority,
    conformance::hot::PARTITIONS,
    patience::{HANG_LIMIT, until},
    servers::{MariaDb, RedisCluster, Sentinels, TlsKeyPair},
};
use std::{ops::ControlFlow, sync::Arc, time::Duration};
use tokio::sync::OnceCell;

/// One for the suites of this file; its authority signs no other certificate.
async fn cluster() -> &'static RedisCluster {
    static ONE: OnceCell<RedisCluster> = OnceCell::const_new();
    ONE.get_or_init(|| async { RedisCluster::over_tls(&TlsKeyPair::loopback(&Authority::new())).await }).await
}

fn options(prefix: String) -> RedisOptions {
    // A busy machine takes longer for all handshakes of a set than an operator would wait.
    RedisOptions { partitions: PARTITIONS, prefix, connect_timeout: HANG_LIMIT, ..RedisOptions::default() }
}

fn bus_options(prefix: String) -> RedisBusOptions {
    let consumer = "c".to_owned();
    RedisBusOptions { prefix, consumer, connect_timeout: HANG_LIMIT, ..RedisBusOptions::default() }
}

async fn hot() -> Arc<dyn Hot> {
    let cluster = cluster().await;
    assert!(cluster.url().starts_with("rediss+cluster://"));
    let prefix = cluster.nodes()[0].fresh_prefix();
    Arc::new(RedisHot::connect(&cluster.url(), options(prefix)).await.unwrap())
}

async fn bus() -> Arc<dyn Bus> {
    let cluster = cluster().await;
    let prefix = cluster.nodes()[0].fresh_prefix();
    Arc::new(RedisBus::connect(&cluster.url(), bus_options(prefix)).await.unwrap())
}

mod hot_suite {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::hot::$module::$case(super::hot().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_hot_case!(stamp);
}

/// Blocking readers have connections of their own, to nodes that others name.
mod bus_suite {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::$module::$case(super::bus().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_bus_case!(stamp);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_sentinels_signals_pass_and_the_new_master_is_found_over_tls() {
    let sentinels = Sentinels::over_tls(&TlsKeyPair::loopback(&Authority::new())).await;
    let prefix = sentinels.master().fresh_prefix();
    let hot = RedisHot::connect(&sentinels.url(), options(prefix.clone())).await.unwrap();
    let bus = RedisBus::connect(&sentinels.url(), bus_options(prefix)).await.unwrap();
    let signals = hot.signals().await.unwrap();
    let sent = Signal::Due { partition: Partition(1), due_at: Millis(7) };
    signals.announce(vec![sent.clone()]).await.unwrap();
    assert_eq!(signals.next().await.unwrap(), [sent]);

    sentinels.master().kill();
    until("the replica is the master", || async { hot.fullness().await.is_ok() }).await;
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() };
    let wait = Duration::from_millis(1);
    until("the bus has found it", || async { bus.receive(&queue, 1, wait, Millis(0)).await.is_ok() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_to_a_database_is_encrypted() {
    let only = ["--require-secure-transport=ON"];
    let server = MariaDb::over_tls(&TlsKeyPair::loopback(&Authority::new()), &only).await;
    let urls = [server.fresh_database().await, server.fresh_database().await];
    let store = MysqlStore::open(&urls, MysqlOptions::default()).await.unwrap();
    store.ownership().now().await.unwrap();
    assert!(store.check().await.unwrap().iter().all(punctual_store::ShardCheck::is_sound));
    store.move_partition(Partition(0), 1, &mut |_| ControlFlow::Continue(())).await.unwrap();
    store.close().await;
    // The control: the server does refuse a client that comes without.
    let plain = [format!("{}?ssl-mode=DISABLED", server.plain_url("mysql"))];
    let refused = MysqlStore::weaknesses(&plain).await.unwrap_err().to_string();
    assert!(refused.contains("VERIFY_IDENTITY"), "{refused}");
}
