//! The limiter in Redis: the whole suite on one server and on a Cluster, and the clock that rates run on.

use punctual_contract::{
    Limiter,
    limiter::{Answer, Flowing, Member, Wish},
};
use punctual_domain::{
    limits::Scope,
    place::{Partition, TaskRef},
    settings::Rate,
    time::Millis,
};
use punctual_hot::{RateClock, RedisHot, RedisOptions};
use punctual_testkit::{conformance::limiter, servers};
use std::sync::Arc;

async fn connect(url: &str, prefix: String, clock: RateClock) -> Arc<dyn Limiter> {
    let options = RedisOptions { partitions: 1, prefix, ..RedisOptions::default() };
    Arc::new(RedisHot::connect(url, options).await.unwrap().limiter(clock))
}

async fn on_one_server() -> Arc<dyn Limiter> {
    let server = servers::redis().await;
    connect(&server.url(), server.fresh_prefix(), RateClock::Caller).await
}

async fn on_a_cluster() -> Arc<dyn Limiter> {
    let cluster = servers::redis_cluster().await;
    connect(&cluster.url(), cluster.nodes()[0].fresh_prefix(), RateClock::Caller).await
}

mod one_server {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::limiter::$module::$case(super::on_one_server().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_limiter_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        super::limiter::model::agrees_with(60, super::on_one_server);
    }
}

mod cluster {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::limiter::$module::$case(super::on_a_cluster().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_limiter_case!(stamp);
}

/// Two engines whose clocks are a second apart, and one that jumps to and fro: what they say does not matter.
#[tokio::test]
async fn a_rate_runs_on_one_clock_whatever_the_engines_say() {
    let server = servers::redis().await;
    let prefix = server.fresh_prefix();
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(connect(&server.url(), prefix.clone(), RateClock::Server).await);
    }
    engines[0].make_whole().await.unwrap();
    let rate = Rate { limit: 1, period_ms: 3_600_000, burst: 5 };
    let mut granted = 0;
    for id in 0..60_i64 {
        let engine = &engines[usize::try_from(id % 3).unwrap()];
        let now = Millis([0, 1_000, id * 86_400_000][usize::try_from(id % 3).unwrap()]);
        let wish = Wish {
            member: Member { id, fence: 1 },
            place: TaskRef { partition: Partition(0), due_at: Millis(0), id },
            until: now,
            limits: Vec::new(),
            rates: vec![Flowing { scope: Scope::Everything, rate }],
        };
        granted += i32::from(engine.grant(vec![wish], now).await.unwrap() == [Answer::Granted]);
    }
    assert_eq!(granted, 5, "an hour brings one more");
}
