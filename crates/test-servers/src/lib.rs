//! Private servers for tests and load tests (MariaDB, Redis, object stores), certificates for them, network
//! faults, counts of their requests (`statements`, `calls`), and the one hang limit of all tests
//! (`patience`). Each server listens on a free loopback port, keeps its files in a temporary directory, and
//! ends with the process that started it, however that process ends. A missing program is a panic that names
//! its package: no test is ever skipped. Servers must not be tied to a runtime, because they outlive the
//! runtime of the test that started them. This crate must not use any crate of the product, so that the load
//! generator need not compile the product.

pub mod certificates;
pub mod patience;

mod calls;
mod mariadb;
mod mysqld;
mod network;
mod objects;
mod port;
mod process;
mod proxy;
mod redis;
mod redis_sets;
mod statements;
mod tls;
mod watchdog;

use std::sync::OnceLock;

pub use calls::{CallTally, Calls};
pub use mariadb::MariaDb;
pub use mysqld::{is_mysql, numbers};
pub use network::on_a_network_of_its_own;
pub use objects::{ObjectServer, variables as object_variables};
pub use port::free_port;
pub use proxy::{Proxy, Way};
pub use redis::Redis;
pub use redis_sets::{RedisCluster, Sentinels};
pub use statements::{STATEMENT_LOG, StatementTally, Statements};
pub use tls::TlsKeyPair;

/// The MariaDB of this test process, started by the first caller. Shared: take a fresh database, and never stop the server.
pub async fn mariadb() -> &'static MariaDb {
    static ONE: OnceLock<MariaDb> = OnceLock::new();
    beside(|| ONE.get_or_init(MariaDb::shared)).await
}

/// The Redis of this test process. Shared: take a fresh prefix, and never flush or stop the server.
pub async fn redis() -> &'static Redis {
    static ONE: OnceLock<Redis> = OnceLock::new();
    beside(|| ONE.get_or_init(Redis::start)).await
}

/// A Cluster of three masters. Shared, as above.
pub async fn redis_cluster() -> &'static RedisCluster {
    static ONE: OnceLock<RedisCluster> = OnceLock::new();
    beside(|| ONE.get_or_init(RedisCluster::start)).await
}

/// A master, its replica and three sentinels. Shared, as above.
pub async fn sentinel() -> &'static Sentinels {
    static ONE: OnceLock<Sentinels> = OnceLock::new();
    beside(|| ONE.get_or_init(Sentinels::start)).await
}

/// Runs blocking work, such as the start of a server, on a thread of its own: a runtime with one thread, or
/// with a paused clock, continues meanwhile.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
