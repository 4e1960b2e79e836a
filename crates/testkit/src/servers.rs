//! Private MariaDB and Redis for tests, on free ports of loopback, in a temporary directory, in seconds. They end with
//! the process that started them, however that ends. They never skip a test: a missing program is a panic that names
//! its package. They must not be tied to a runtime: each test has its own, and the servers outlive it.

mod mariadb;
mod mysqld;
mod network;
mod objects;
mod port;
mod process;
mod proxy;
mod redis;
mod redis_sets;
mod tls;
mod watchdog;

use punctual_store::MysqlStore;
use std::sync::OnceLock;

pub use mariadb::MariaDb;
pub use mysqld::{is_mysql, numbers};
pub use network::on_a_network_of_its_own;
pub use objects::{ObjectServer, variables as object_variables};
pub use port::free_port;
pub use proxy::{Proxy, Way};
pub use redis::Redis;
pub use redis_sets::{RedisCluster, Sentinels};
pub use tls::Identity;

/// The one of this test process, started by whoever asks first. Shared: take a fresh database, and never stop it.
pub async fn mariadb() -> &'static MariaDb {
    static ONE: OnceLock<MariaDb> = OnceLock::new();
    beside(|| ONE.get_or_init(MariaDb::shared)).await
}

/// A new database of the shared MariaDB with the schema as migrations leave it. It is copied from the first that was migrated:
/// the hundred statements of all migrations, for the thousand databases of the tests, were a twentieth of what the tests take.
/// Whoever tests migrations takes [`MariaDb::fresh_database`].
pub async fn migrated_database() -> String {
    static SCHEMA: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    let server = mariadb().await;
    let migrated = async || {
        let url = server.fresh_database().await;
        MysqlStore::migrate_alone(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        url
    };
    // Its programs do not read the databases of the other kind.
    if is_mysql() {
        return migrated().await;
    }
    let first = async || {
        let url = migrated().await;
        server.dump(url.rsplit('/').next().expect("an address ends with a name")).await
    };
    server.restored(SCHEMA.get_or_init(first).await).await
}

/// The one of this test process. Shared: take a fresh prefix, and never flush or stop it.
pub async fn redis() -> &'static Redis {
    static ONE: OnceLock<Redis> = OnceLock::new();
    beside(|| ONE.get_or_init(Redis::start)).await
}

/// Three masters. Shared, as above.
pub async fn redis_cluster() -> &'static RedisCluster {
    static ONE: OnceLock<RedisCluster> = OnceLock::new();
    beside(|| ONE.get_or_init(RedisCluster::start)).await
}

/// A master, its replica and three sentinels. Shared, as above.
pub async fn sentinel() -> &'static Sentinels {
    static ONE: OnceLock<Sentinels> = OnceLock::new();
    beside(|| ONE.get_or_init(Sentinels::start)).await
}

/// Starting takes seconds of blocking; a runtime of one thread, or one whose clock stands still, goes on meanwhile.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(it) => it,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
