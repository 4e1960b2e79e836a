//! The limiter in the store: the whole suite on a value in memory and in MySQL, and engines that change it at once.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Limiter, LimiterState,
    limiter::{Flowing, Limit, Member, SlotRequest, StoredState, Verdict},
};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    settings::Rate,
    time::Millis,
};
use punctual_hot::{RateClock, StoredLimiter};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{conformance::limiter, servers};
use std::sync::Arc;
use tokio::task::JoinSet;

/// As strict as a table.
#[derive(Debug, Default)]
struct InMemory(Mutex<(i64, Vec<u8>)>);

#[async_trait]
impl LimiterState for InMemory {
    async fn read(&self, known: i64) -> Result<StoredState, Error> {
        let (version, value) = self.0.lock().clone();
        let value = (version != known).then_some(value);
        Ok(StoredState { version, now: Millis(1_700_000_000_000), value })
    }

    async fn swap(&self, version: i64, value: Vec<u8>) -> Result<bool, Error> {
        let mut current = self.0.lock();
        let is_good = current.0 == version;
        if is_good {
            *current = (version + 1, value);
        }
        Ok(is_good)
    }
}

fn over(state: Arc<dyn LimiterState>) -> Arc<dyn Limiter> {
    Arc::new(StoredLimiter::new(state, RateClock::Caller))
}

pub(crate) async fn in_memory() -> Arc<dyn Limiter> {
    over(Arc::new(InMemory::default()))
}

async fn table() -> Arc<dyn LimiterState> {
    let url = servers::migrated_database().await;
    let store = MysqlStore::open(&[url], MysqlOptions::default()).await.unwrap();
    Arc::new(store.ownership())
}

mod memory {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test]
            async fn $case() {
                super::limiter::$module::$case(super::in_memory().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_limiter_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        super::limiter::model::agrees_with(200, super::in_memory);
    }
}

mod mysql {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::limiter::$module::$case(super::over(super::table().await)).await;
            }
        )*};
    }
    punctual_testkit::for_each_limiter_case!(stamp);
}

/// Four engines, each with its own limiter over one table.
#[tokio::test(flavor = "multi_thread")]
async fn engines_that_grant_at_once_never_grant_more_than_the_limit() {
    const MOST: u32 = 5;
    let state = table().await;
    limiter::make_whole(&*over(Arc::clone(&state))).await;
    let mut engines = JoinSet::new();
    for engine in 0..4_i64 {
        let limiter = over(Arc::clone(&state));
        engines.spawn(async move {
            let mut granted = 0;
            for nth in 0..10 {
                let id = engine * 100 + nth;
                let request = SlotRequest {
                    member: Member { id, fence: 1 },
                    place: TaskRef { partition: Partition(0), due_at: Millis(0), id },
                    until: Millis(1),
                    limits: vec![Limit { scope: Scope::Everything, most: MOST }],
                    rates: Vec::new(),
                };
                let answers = limiter.grant(vec![request], Millis(0)).await.unwrap();
                granted += usize::from(answers == [Verdict::Granted]);
            }
            granted
        });
    }
    assert_eq!(engines.join_all().await.iter().sum::<usize>(), MOST as usize);
    let held = over(state).held(&[Scope::Everything]).await.unwrap();
    assert_eq!(held, [MOST as usize], "an engine that comes later knows of all");
}

/// The value is written with each grant.
#[tokio::test]
async fn a_rate_that_has_all_its_starts_again_is_not_stored() {
    let state = Arc::new(InMemory::default());
    let stored_bytes = || state.0.lock().1.len();
    let limiter = over(Arc::clone(&state) as Arc<dyn LimiterState>);
    limiter::make_whole(&*limiter).await;
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
    let request = |id: i64| SlotRequest {
        member: Member { id, fence: 1 },
        place: TaskRef { partition: Partition(0), due_at: Millis(0), id },
        until: Millis(1),
        limits: Vec::new(),
        rates: vec![Flowing {
            scope: Scope::Key(queue.clone(), format!("key {id}")),
            rate: Rate { limit: 1, period_ms: 1_000, burst: 1 },
        }],
    };
    limiter.grant((0..100).map(request).collect(), Millis(10_000)).await.unwrap();
    let in_use = stored_bytes();
    limiter.grant(vec![request(100)], Millis(20_000)).await.unwrap();
    assert!(stored_bytes() < in_use / 10, "{} of {in_use} bytes", stored_bytes());
    let answers = limiter.grant(vec![request(100), request(0)], Millis(20_001)).await.unwrap();
    assert!(matches!(answers[0], Verdict::Throttled { .. }), "{answers:?}");
    assert_eq!(answers[1], Verdict::Granted);
}
