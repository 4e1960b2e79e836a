//! Stamps every case of every suite for every back end there is.

use punctual_bus::MemoryBus;
use punctual_contract::{Bus, Hot, Store};
use punctual_store::{Options as StoreOptions, SqliteStore};
use punctual_testkit::{conformance::hot::PARTITIONS, shared::SharedHot};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering::SeqCst},
    },
};

/// The hot set that tests use in place of Redis.
fn shared_hot() -> Arc<dyn Hot> {
    Arc::new(SharedHot::new(PARTITIONS))
}

fn memory_bus() -> Arc<dyn Bus> {
    Arc::new(MemoryBus::new())
}

fn sqlite_in_memory() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory(&StoreOptions::default()).unwrap())
}

fn sqlite_on(dir: &Path, options: &StoreOptions) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(dir.join("punctual.db"), options).unwrap())
}

mod hot_of_tests {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::hot::$module::$case(super::shared_hot()).await;
            }
        )*};
    }
    punctual_testkit::for_each_hot_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        punctual_testkit::conformance::hot::model::agrees_with(2_000, async || super::shared_hot());
    }
}

mod limiter_in_memory {
    use punctual_contract::Limiter;
    use punctual_hot::MemoryLimiter;
    use punctual_testkit::conformance::limiter;
    use std::sync::Arc;

    fn fresh() -> Arc<dyn Limiter> {
        Arc::new(MemoryLimiter::default())
    }

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                limiter::$module::$case(fresh()).await;
            }
        )*};
    }
    punctual_testkit::for_each_limiter_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        limiter::model::agrees_with(3_000, async || fresh());
    }
}

mod bus_in_memory {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::$module::$case(super::memory_bus()).await;
            }
        )*};
    }
    punctual_testkit::for_each_bus_case!(stamp);
}

mod store_in_sqlite_in_memory {
    use punctual_testkit::conformance::store;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let back_end = super::sqlite_in_memory();
                store::$module::$case(std::sync::Arc::clone(&back_end)).await;
                store::conserved(&*back_end).await;
            }
        )*};
    }
    punctual_testkit::for_each_store_case!(stamp);
}

mod bulk_in_sqlite {
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let options = super::StoreOptions::default();
                let store = Arc::new(super::SqliteStore::in_memory(&options).unwrap());
                punctual_testkit::conformance::store::$module::$case(store.clone(), store).await;
                let dir = tempfile::tempdir().unwrap();
                let store = Arc::new(super::SqliteStore::open(dir.path().join("punctual.db"), &options).unwrap());
                punctual_testkit::conformance::store::$module::$case(store.clone(), store).await;
            }
        )*};
    }
    punctual_testkit::for_each_bulk_case!(stamp);
}

mod cluster_in_sqlite {
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let options = super::StoreOptions::default();
                let store = Arc::new(super::SqliteStore::in_memory(&options).unwrap());
                punctual_testkit::conformance::store::$module::$case(store.clone(), store).await;
                let dir = tempfile::tempdir().unwrap();
                let store = Arc::new(super::SqliteStore::open(dir.path().join("punctual.db"), &options).unwrap());
                punctual_testkit::conformance::store::$module::$case(store.clone(), store).await;
            }
        )*};
    }
    punctual_testkit::for_each_cluster_case!(stamp);
}

mod evaluations_in_sqlite {
    use punctual_contract::EvaluationStore;
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let options = super::StoreOptions::default();
                let in_memory: Arc<dyn EvaluationStore> = Arc::new(super::SqliteStore::in_memory(&options).unwrap());
                punctual_testkit::conformance::$module::$case(in_memory).await;
                let dir = tempfile::tempdir().unwrap();
                let on_file = super::SqliteStore::open(dir.path().join("punctual.db"), &options).unwrap();
                punctual_testkit::conformance::$module::$case(Arc::new(on_file)).await;
            }
        )*};
    }
    punctual_testkit::for_each_evaluation_case!(stamp);
}

mod schedules_in_sqlite {
    use punctual_contract::ScheduleStore;
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let options = super::StoreOptions::default();
                let in_memory: Arc<dyn ScheduleStore> = Arc::new(super::SqliteStore::in_memory(&options).unwrap());
                punctual_testkit::conformance::$module::$case(in_memory).await;
                let dir = tempfile::tempdir().unwrap();
                let on_file = super::SqliteStore::open(dir.path().join("punctual.db"), &options).unwrap();
                punctual_testkit::conformance::$module::$case(Arc::new(on_file)).await;
            }
        )*};
    }
    punctual_testkit::for_each_schedule_case!(stamp);
}

mod workflows_in_sqlite {
    use punctual_contract::WorkflowStore;
    use std::sync::Arc;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let options = super::StoreOptions::default();
                let in_memory: Arc<dyn WorkflowStore> = Arc::new(super::SqliteStore::in_memory(&options).unwrap());
                punctual_testkit::conformance::$module::$case(in_memory).await;
                let dir = tempfile::tempdir().unwrap();
                let on_file = super::SqliteStore::open(dir.path().join("punctual.db"), &options).unwrap();
                punctual_testkit::conformance::$module::$case(Arc::new(on_file)).await;
            }
        )*};
    }
    punctual_testkit::for_each_workflow_case!(stamp);
}

mod store_in_sqlite_on_file {
    use punctual_testkit::conformance::store;

    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let dir = tempfile::tempdir().unwrap();
                let back_end = super::sqlite_on(dir.path(), &super::StoreOptions::default());
                store::$module::$case(std::sync::Arc::clone(&back_end)).await;
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
                let (dir, asked) = (tempfile::tempdir().unwrap(), super::AtomicU16::new(4));
                let open = || {
                    let partitions = asked.fetch_add(1, super::SeqCst);
                    super::sqlite_on(dir.path(), &super::StoreOptions { partitions, ..super::StoreOptions::default() })
                };
                store::$module::$case(&open).await;
            }
        )*};
    }
    punctual_testkit::for_each_durable_case!(stamp_durable);
}
