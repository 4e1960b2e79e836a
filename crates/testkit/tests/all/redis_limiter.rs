//! The limiter in Redis: the whole suite on one server and on a Cluster, and the clock that rates run on.

use punctual_contract::{
    Limiter,
    limiter::{Flowing, Limit, Member, SlotRequest, Verdict},
};
use punctual_domain::{
    limits::Scope,
    place::{Partition, TaskRef},
    settings::Rate,
    time::Millis,
};
use punctual_hot::{RateClock, RedisHot, RedisOptions};
use punctual_testkit::{
    conformance::limiter,
    patience::until,
    servers::{self, Redis},
};
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

/// Two engines whose clocks are a second apart, and one whose clock jumps back and forth: their clocks do not
/// matter.
#[tokio::test]
async fn a_rate_runs_on_one_clock_whatever_the_engines_say() {
    let server = servers::redis().await;
    let prefix = server.fresh_prefix();
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(connect(&server.url(), prefix.clone(), RateClock::Server).await);
    }
    limiter::make_whole(&*engines[0]).await;
    let rate = Rate { limit: 1, period_ms: 3_600_000, burst: 5 };
    let mut granted = 0;
    for id in 0..60_i64 {
        let engine = &engines[usize::try_from(id % 3).unwrap()];
        let now = Millis([0, 1_000, id * 86_400_000][usize::try_from(id % 3).unwrap()]);
        let request = SlotRequest {
            member: Member { id, fence: 1 },
            place: TaskRef { partition: Partition(0), due_at: Millis(0), id },
            until: now,
            limits: Vec::new(),
            rates: vec![Flowing { scope: Scope::Everything, rate }],
        };
        granted += i32::from(engine.grant(vec![request], now).await.unwrap() == [Verdict::Granted]);
    }
    assert_eq!(granted, 5, "an hour brings one more");
}

async fn until_answered(server: &Redis, words: &[&str], answer: &str) {
    until(&format!("{words:?} is {answer}"), || async { server.command(words).await == answer }).await;
}

/// A failover or a crash may have lost grants of the former server. A server with another run id needs all
/// attempts in flight before it grants anything, no matter how many of the keys it has.
#[tokio::test]
async fn another_server_with_the_same_keys_is_not_whole_and_neither_is_the_old_one_when_it_comes_back() {
    let sentinels = servers::Sentinels::own().await;
    let of = async |url: String| connect(&url, "t".to_owned(), RateClock::Server).await;
    let (master, replica) = (sentinels.master(), sentinels.replica());
    let first = of(master.url()).await;
    limiter::make_whole(&*first).await;
    until_answered(replica, &["EXISTS", "t:{limits}:whole"], "1").await;
    for sentinel in sentinels.sentinels() {
        sentinel.pause();
    }
    replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    let second = of(replica.url()).await;
    let limits = vec![Limit { scope: Scope::Everything, most: 9 }];
    let request = SlotRequest {
        member: Member { id: 1, fence: 1 },
        place: TaskRef { partition: Partition(0), due_at: Millis(0), id: 1 },
        until: Millis(1),
        limits: limits.clone(),
        rates: Vec::new(),
    };
    let request = || vec![request.clone()];
    assert_eq!(second.grant(request(), Millis(1)).await.unwrap(), [Verdict::NotWhole]);
    let room = second.room(&limits, &[], Millis(1)).await.unwrap();
    assert_eq!((room.free, room.bound), (0, Some(Verdict::NotWhole)));
    assert!(!second.is_whole().await.unwrap());
    assert_eq!(first.grant(request(), Millis(1)).await.unwrap(), [Verdict::Granted]);
    // The old one becomes the master again with what the other has, which lacks what it granted meanwhile.
    master.command(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]).await;
    until_answered(master, &["EXISTS", "t:{limits}:whole"], "0").await;
    master.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert!(!of(master.url()).await.is_whole().await.unwrap());
}
