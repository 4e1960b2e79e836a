//! The store on MySQL: every case of the suite on one database and on three, and further promises: how it
//! migrates, which servers it refuses, that no cancel is half done, that two engines share it.

mod entered;
mod frozen;
mod lasting;
mod ledger;
mod lent;
mod looks;
mod migrating;
mod refused;
mod retention;
mod room;
mod sharing;
mod slow_way;
mod uncounted;
mod unseen;

use punctual_contract::Store;
use punctual_domain::{
    name::{Name, QueueKey},
    task::{Content, NewTask},
    time::Millis,
};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering::SeqCst},
    },
};

const NOW: Millis = Millis(1_900_000_000_000);

async fn fresh(databases: usize) -> Vec<String> {
    let mut urls = Vec::new();
    for _ in 0..databases {
        urls.push(servers::migrated_database().await);
    }
    urls
}

/// The name in an address.
fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

async fn sql(url: &str, text: &str) -> String {
    servers::mariadb().await.sql(name(url), text).await.trim().to_owned()
}

async fn migrate(urls: &[String]) -> Result<Vec<String>, punctual_store::Error> {
    MysqlStore::migrate(urls, MysqlOptions::default()).await
}

async fn open(urls: &[String]) -> MysqlStore {
    MysqlStore::open(urls, MysqlOptions::default()).await.unwrap()
}

fn ask(task_id: i64) -> NewTask {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
    let ask = NewTask::new(queue, Name::new("send").unwrap(), NOW);
    NewTask { task_id: Some(task_id), payload: Content::json("{}"), ..ask }
}

/// Waits for what needs a runtime, inside of one.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

mod bulk_in_one_database {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(1).await).await);
                punctual_testkit::conformance::store::$module::$case(store.clone(), store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_bulk_case!(stamp);
}

mod cluster_in_one_database {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(1).await).await);
                punctual_testkit::conformance::store::$module::$case(store.clone(), store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_cluster_case!(stamp);
}

mod bulk_over_three {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(3).await).await);
                punctual_testkit::conformance::store::$module::$case(store.clone(), store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_bulk_case!(stamp);
}

mod cluster_over_three {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(3).await).await);
                punctual_testkit::conformance::store::$module::$case(store.clone(), store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_cluster_case!(stamp);
}

mod evaluations_in_one_database {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(1).await).await);
                punctual_testkit::conformance::$module::$case(store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_evaluation_case!(stamp);
}

mod schedules_in_one_database {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(1).await).await);
                punctual_testkit::conformance::$module::$case(store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_schedule_case!(stamp);
}

mod workflows_in_one_database {
    use super::{MysqlStore, fresh, open};
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store: Arc<MysqlStore> = Arc::new(open(&fresh(1).await).await);
                punctual_testkit::conformance::$module::$case(store.clone()).await;
                store.close().await;
            }
        )*};
    }
    punctual_testkit::for_each_workflow_case!(stamp);
}

mod store_in_one_database {
    use punctual_testkit::conformance::store;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let back_end: super::Arc<dyn super::Store> = super::Arc::new(super::open(&super::fresh(1).await).await);
                store::$module::$case(super::Arc::clone(&back_end)).await;
                store::conserved(&*back_end).await;
            }
        )*};
    }
    punctual_testkit::for_each_store_case!(stamp);

    /// Each opening asks for another number of partitions: only the first counts.
    macro_rules! stamp_durable {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let (urls, asked) = (super::fresh(1).await, super::AtomicU16::new(4));
                let open = || -> super::Arc<dyn super::Store> {
                    let partitions = asked.fetch_add(1, super::SeqCst);
                    let options = super::MysqlOptions { partitions, ..super::MysqlOptions::default() };
                    super::Arc::new(super::wait(super::MysqlStore::open(&urls, options)).unwrap())
                };
                store::$module::$case(&open).await;
            }
        )*};
    }
    punctual_testkit::for_each_durable_case!(stamp_durable);
}

mod store_over_three {
    use punctual_testkit::conformance::store;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let back_end: super::Arc<dyn super::Store> = super::Arc::new(super::open(&super::fresh(3).await).await);
                store::$module::$case(super::Arc::clone(&back_end)).await;
                store::conserved(&*back_end).await;
            }
        )*};
    }
    punctual_testkit::for_each_store_case!(stamp);

    macro_rules! stamp_durable {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let urls = super::fresh(3).await;
                let open = || -> super::Arc<dyn super::Store> { super::Arc::new(super::wait(super::open(&urls))) };
                store::$module::$case(&open).await;
            }
        )*};
    }
    punctual_testkit::for_each_durable_case!(stamp_durable);
}
