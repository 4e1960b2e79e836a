//! The hot set in Redis: the whole suite on one server and on a Cluster; what happens when servers go, stop answering,
//! forget scripts, fill up or change places; and signals between engines.

use punctual_contract::{
    Happened, Hot, Signals,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::{Demand, Signal, Tenure},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_hot::{RedisHot, RedisOptions};
use punctual_testkit::{
    conformance::hot::{PARTITIONS, entry},
    patience::{HANG_LIMIT, a_moment, until},
    servers::{self, Redis, RedisCluster, Sentinels},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

mod broken;
mod upgrade;

const P0: Partition = Partition(0);

fn options(prefix: String) -> RedisOptions {
    RedisOptions { partitions: PARTITIONS, prefix, ..RedisOptions::default() }
}

async fn connect(url: &str, prefix: &str) -> RedisHot {
    RedisHot::connect(url, options(prefix.to_owned())).await.unwrap()
}

async fn on_one_server() -> Arc<dyn Hot> {
    let server = servers::redis().await;
    Arc::new(connect(&server.url(), &server.fresh_prefix()).await)
}

async fn on_a_cluster() -> Arc<dyn Hot> {
    let cluster = servers::redis_cluster().await;
    Arc::new(connect(&cluster.url(), &cluster.nodes()[0].fresh_prefix()).await)
}

mod one_server {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::hot::$module::$case(super::on_one_server().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_hot_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        punctual_testkit::conformance::hot::model::agrees_with(200, super::on_one_server);
    }
}

mod cluster {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::hot::$module::$case(super::on_a_cluster().await).await;
            }
        )*};
    }
    punctual_testkit::for_each_hot_case!(stamp);

    #[test]
    fn agrees_with_the_model() {
        punctual_testkit::conformance::hot::model::agrees_with(40, super::on_a_cluster);
    }
}

fn in_partition(partition: u16, entry: HotEntry) -> HotEntry {
    HotEntry { place: TaskRef { partition: Partition(partition), ..entry.place }, ..entry }
}

fn ids(entries: &[HotEntry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.place.id).collect()
}

async fn drain_in(hot: &dyn Hot, partition: u16, until: i64, limit: usize) -> Vec<HotEntry> {
    hot.drain(&[Tenure::sole(Partition(partition))], Millis(until), limit).await.remove(0).unwrap()
}

async fn drain(hot: &dyn Hot, until: i64) -> Vec<HotEntry> {
    drain_in(hot, 0, until, 1_000).await
}

/// Loads through one, drains through the other.
async fn goes_its_way(one: &dyn Hot, other: &dyn Hot, id: i64) {
    assert_eq!(one.load(vec![entry(id, 5, 1)]).await.unwrap(), 1);
    assert_eq!(other.load(vec![entry(id, 5, 1)]).await.unwrap(), 0);
    assert_eq!(ids(&drain(other, 5).await), [id]);
    assert_eq!(drain(one, 5).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_share_one_hot_set_and_none_with_another_prefix() {
    let server = servers::redis().await;
    let (prefix, other_prefix) = (server.fresh_prefix(), server.fresh_prefix());
    let (one, other) = (connect(&server.url(), &prefix).await, connect(&server.url(), &prefix).await);
    goes_its_way(&one, &other, 1).await;
    one.load(vec![entry(2, 5, 1)]).await.unwrap();
    let stranger = connect(&server.url(), &other_prefix).await;
    assert_eq!(drain(&stranger, Millis::MAX.0).await, []);
    assert_eq!(other.withdraw(P0, 2, 1).await.unwrap(), Withdrawn::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_batches_are_cut_and_come_back_whole() {
    for hot in [on_one_server().await, on_a_cluster().await] {
        let entries: Vec<_> =
            (0..5_000).map(|id| in_partition(u16::try_from(id % 3).unwrap(), entry(id, 7, 1))).collect();
        assert_eq!(hot.load(entries).await.unwrap(), 5_000);
        let tenures = [0, 1, 2].map(|number| Tenure::sole(Partition(number)));
        let mut drained = Vec::new();
        for _ in 0..2 {
            for answer in hot.drain(&tenures, Millis(7), 1_000).await {
                let some = answer.unwrap();
                assert!(some.is_sorted_by_key(HotEntry::key) && some.len() <= 1_000);
                drained.extend(some);
            }
        }
        assert_eq!(drained.len(), 5_000, "all three in each round");
        assert_eq!(hot.count_due().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_evict_is_refused_with_the_way_to_set_it() {
    let server = Redis::own().await;
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let refused = RedisHot::connect(&server.url(), options("p".to_owned())).await.unwrap_err();
    assert_eq!(refused.happened, Happened::No);
    let said = refused.to_string();
    assert!(
        said.contains("allkeys-lru") && said.contains("CONFIG SET maxmemory-policy noeviction"),
        "{said}"
    );
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    connect(&server.url(), "p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_of_a_cluster_that_may_evict_is_enough_to_refuse() {
    let cluster = RedisCluster::own().await;
    cluster.nodes()[2].command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).await;
    let refused = RedisHot::connect(&cluster.url(), options("p".to_owned())).await.unwrap_err();
    assert!(refused.to_string().contains("volatile-ttl"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_loads_and_lets_everything_else_go_on() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    hot.load(vec![entry(1, 5, 1), entry(2, 5, 1), entry(3, 5, 1)]).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = hot.load(vec![entry(4, 5, 1)]).await.unwrap_err();
    assert_eq!(refused.happened, Happened::No, "{refused}");
    assert!(refused.source.to_string().starts_with("Redis has no memory left"), "{refused}");
    assert!(hot.memory().await.unwrap().share() > 1.0);

    assert_eq!(hot.withdraw(P0, 3, 1).await.unwrap(), Withdrawn::Removed);
    let drained = drain(&hot, 5).await;
    assert_eq!(ids(&drained), [1, 2]);
    hot.clear(Tenure { partition: P0, term: 9 }).await.unwrap();
    assert_eq!(hot.count_due().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_says_what_is_used_and_the_budget() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    let before = hot.memory().await.unwrap();
    assert_eq!(before.budget_bytes, None);
    hot.load((0..10_000).map(|id| entry(id, id, 1)).collect()).await.unwrap();
    assert!(hot.memory().await.unwrap().used_bytes > before.used_bytes + 10_000 * 100);
    let own = RedisOptions { memory_budget_bytes: Some(1 << 30), ..options("p".to_owned()) };
    let hot = RedisHot::connect(&server.url(), own).await.unwrap();
    assert_eq!(hot.memory().await.unwrap().budget_bytes, Some(1 << 30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_and_a_restart_are_each_noticed_once() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    let tenure = [Tenure { partition: P0, term: 9 }];
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Lost]);
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Whole]);
    server.command(&["FLUSHALL"]).await;
    // What the owner does meanwhile does not hide it.
    assert!(hot.drain(&tenure, Millis(5), 9).await[0].as_ref().unwrap().is_empty());
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Lost]);
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Whole]);
    server.kill();
    server.start_again().await;
    let whole = loop {
        if let Ok(whole) = hot.is_whole(&tenure).await {
            break whole;
        }
    };
    assert_eq!(whole, [Wholeness::Lost]);
}

/// The server has its markers, and may lack entries that were added after the copy was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_a_copy_is_noticed_once() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    let tenure = [Tenure { partition: P0, term: 9 }];
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Lost]);
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    server.command(&["SAVE"]).await;
    server.kill();
    server.start_again().await;
    let mut answers = Vec::new();
    while answers.len() < 2 {
        answers.extend(hot.is_whole(&tenure).await.into_iter().flatten());
    }
    // Other connections find out by themselves that theirs has gone.
    let due = loop {
        if let Ok(due) = hot.count_due().await {
            break due;
        }
    };
    assert_eq!(due, 1, "it is the copy");
    assert_eq!(answers, [Wholeness::Lost, Wholeness::Whole]);
    let older = [Tenure { partition: P0, term: 8 }];
    assert_eq!(hot.is_whole(&older).await.unwrap(), [Wholeness::NewerTerm(9)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fullness_is_of_the_budget_or_of_maxmemory_and_is_told_when_there_is_no_room() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    assert_eq!(hot.fullness().await.unwrap(), 0, "as much as there is");
    server.command(&["CONFIG", "SET", "maxmemory", "1gb"]).await;
    assert!((1..100).contains(&hot.fullness().await.unwrap()));
    let own = RedisOptions { memory_budget_bytes: Some(1 << 16), ..options("p".to_owned()) };
    let small = RedisHot::connect(&server.url(), own).await.unwrap();
    assert!(small.fullness().await.unwrap() > 1_000);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert!(hot.fullness().await.unwrap() > 1_000);
    let tenure = [Tenure { partition: P0, term: 9 }];
    assert_eq!(hot.is_whole(&tenure).await.unwrap(), [Wholeness::Lost], "its note has room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgot_the_scripts_is_given_them_again() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    for id in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]).await;
        goes_its_way(&hot, &hot, id).await;
    }
    let cluster = RedisCluster::own().await;
    let hot = connect(&cluster.url(), "p").await;
    for node in cluster.nodes() {
        node.command(&["SCRIPT", "FLUSH"]).await;
    }
    let everywhere = (0..PARTITIONS).map(|number| in_partition(number, entry(i64::from(number), 5, 1)));
    assert_eq!(hot.load(everywhere.collect()).await.unwrap(), usize::from(PARTITIONS));
}

/// Until it answers again.
async fn again<T, F: Future<Output = Result<T, punctual_contract::Error>>>(act: impl Fn() -> F) -> T {
    timeout(HANG_LIMIT, async {
        loop {
            match act().await {
                Ok(answer) => return answer,
                Err(_) => a_moment().await,
            }
        }
    })
    .await
    .expect("it comes back")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_an_error_that_says_whether_it_happened_and_its_return_is_noticed() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    server.kill();
    // The first may find out on a connection that was open when it was sent.
    drop(hot.load(vec![entry(2, 5, 1)]).await);
    drop(hot.load(vec![entry(2, 5, 1)]).await);
    let error = hot.load(vec![entry(2, 5, 1)]).await.unwrap_err();
    assert_eq!(error.happened, Happened::No, "nobody is there: {error}");
    server.start_again().await;
    assert_eq!(again(async || hot.load(vec![entry(2, 5, 1)]).await).await, 1);
    again(async || hot.withdraw(P0, 2, 1).await).await;
    goes_its_way(&hot, &hot, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_given_up_in_time_and_what_was_sent_may_have_happened() {
    let server = Redis::own().await;
    let brief = RedisOptions { response_timeout: Duration::from_secs(1), ..options("p".to_owned()) };
    let hot = RedisHot::connect(&server.url(), brief).await.unwrap();
    // On each of the connections that loads continue in turn: one is made when it is first needed.
    for id in [8, 9] {
        assert_eq!(hot.load(vec![entry(id, 5, 1)]).await.unwrap(), 1);
    }
    server.pause();
    let error = timeout(HANG_LIMIT, hot.load(vec![entry(1, 5, 1)])).await.unwrap().unwrap_err();
    assert_eq!(error.happened, Happened::Maybe, "a timeout never means: not done: {error}");
    server.resume();
    again(async || hot.load(vec![entry(1, 5, 1)]).await).await;
    assert_eq!(
        hot.count_due().await.unwrap(),
        3,
        "whether or not it had happened, to repeat it was harmless"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_the_new_master_is_found_and_knows_the_scripts() {
    let set = Sentinels::own().await;
    let hot = connect(&set.url(), "p").await;
    goes_its_way(&hot, &hot, 1).await;
    let signals = hot.signals().await.unwrap();
    set.replica().command(&["SCRIPT", "FLUSH"]).await;
    set.master().kill();
    assert!(timeout(HANG_LIMIT, signals.next()).await.unwrap().is_err(), "some may have been missed");
    // Until each of the connections that loads continue in turn has found that the old master is gone.
    for id in [2, 4] {
        again(async || hot.load(vec![entry(id, 9, 1)]).await).await;
    }
    let role = set.replica().command(&["ROLE"]).await;
    assert!(role.starts_with("master"), "{role}");
    again(async || hot.withdraw(P0, 2, 1).await).await;
    goes_its_way(&hot, &hot, 3).await;
    again(async || signals.announce(vec![due(7)]).await).await;
    assert_eq!(timeout(HANG_LIMIT, signals.next()).await.unwrap().unwrap(), [due(7)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_forgotten_and_can_be_loaded_again() {
    let server = servers::redis().await;
    let prefix = server.fresh_prefix();
    let hot = connect(&server.url(), &prefix).await;
    hot.load(vec![entry(1, 5, 1), entry(2, 6, 1)]).await.unwrap();
    let first = "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]";
    let write =
        format!("redis.call('HSET', KEYS[2], (function() {first} end)(), 'written by another release')");
    let keys = ["due", "body"].map(|name| format!("{prefix}:{{p0}}:{name}"));
    server.command(&["EVAL", &write, "2", &keys[0], &keys[1]]).await;
    assert_eq!(ids(&drain(&hot, 9).await), [2]);
    assert_eq!(hot.count_due().await.unwrap(), 0);
    assert_eq!(hot.load(vec![entry(1, 5, 1)]).await.unwrap(), 1);
}

fn due(at: i64) -> Signal {
    Signal::Due { partition: P0, due_at: Millis(at) }
}

fn ready() -> Signal {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
    Signal::Ready { engine: "a".to_owned(), queue }
}

async fn heard(signals: &dyn Signals, count: usize) -> Vec<Signal> {
    let mut heard = Vec::new();
    while heard.len() < count {
        heard.extend(timeout(HANG_LIMIT, signals.next()).await.expect("in time").unwrap());
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_every_engine_in_order_and_no_other_prefix() {
    let (server, cluster) = (servers::redis().await, servers::redis_cluster().await);
    for url in [server.url(), cluster.url()] {
        let prefix = server.fresh_prefix();
        let (one, other) = (connect(&url, &prefix).await, connect(&url, &prefix).await);
        let stranger = connect(&url, &server.fresh_prefix()).await;
        let listeners = [one.signals().await.unwrap(), other.signals().await.unwrap()];
        let stranger = stranger.signals().await.unwrap();
        let mut said: Vec<Signal> = (0..2_500).map(due).collect();
        said.push(ready());
        listeners[0].announce(said.clone()).await.unwrap();
        listeners[1].announce(vec![]).await.unwrap();
        for listener in &listeners {
            assert_eq!(heard(listener, said.len()).await, said);
        }
        stranger.announce(vec![ready()]).await.unwrap();
        assert_eq!(heard(&stranger, 1).await, [ready()]);
    }
}

/// A signal for one engine alone is reported back to the sender unless that engine listens. Each node of a
/// Cluster counts only its own listeners: there, nothing is reported back.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_for_an_engine_that_does_not_listen_comes_back() {
    let (server, cluster) = (Redis::own().await, servers::redis_cluster().await);
    for (url, is_reported) in [(server.url(), true), (cluster.url(), false)] {
        let prefix = server.fresh_prefix();
        let (one, other) = (connect(&url, &prefix).await, connect(&url, &prefix).await);
        let (one, other) = (one.signals().await.unwrap(), other.signals().await.unwrap());
        let tell = async || other.announce(vec![demand("one", 1), due(1), demand("one", 2)]).await.unwrap();
        let unheard = if is_reported { vec!["one".to_owned(); 2] } else { Vec::new() };
        assert_eq!(tell().await, unheard, "it has no channel yet");
        one.belongs_to("one");
        // `next` listens while it waits.
        until("it listens", async || {
            drop(timeout(Duration::from_millis(20), one.next()).await);
            tell().await.is_empty()
        })
        .await;
        one.close().await;
        if is_reported {
            until("it listens no more", async || tell().await == unheard).await;
        }
    }
}

/// A signal for one engine reaches only that engine, even after its connection was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_demand_reaches_the_engine_that_it_is_for_and_no_other() {
    let (server, cluster) = (Redis::own().await, servers::redis_cluster().await);
    for url in [server.url(), cluster.url()] {
        let prefix = server.fresh_prefix();
        let (one, other) = (connect(&url, &prefix).await, connect(&url, &prefix).await);
        let (one, other) = (one.signals().await.unwrap(), other.signals().await.unwrap());
        one.belongs_to("one");
        other.belongs_to("other");
        // A caller that waits listens.
        assert!(timeout(Duration::from_millis(1), one.next()).await.is_err());
        for number in 0..3 {
            let demand = demand("one", number);
            let reached = async || {
                other.announce(vec![demand.clone(), due(1)]).await.unwrap();
                timeout(Duration::from_millis(200), one.next())
                    .await
                    .is_ok_and(|heard| heard.is_ok_and(|signals| signals.contains(&demand)))
            };
            until("it has reached it", reached).await;
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        }
        other.announce(vec![ready()]).await.unwrap();
        let mut all = Vec::new();
        while !all.contains(&ready()) {
            all.extend(timeout(HANG_LIMIT, other.next()).await.unwrap().unwrap_or_default());
            other.announce(vec![ready()]).await.unwrap();
        }
        assert!(all.iter().all(|signal| signal.addressee().is_none()), "{all:?}");
    }
}

fn demand(to: &str, number: u64) -> Signal {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
    Signal::Demand(Box::new(Demand {
        to: to.to_owned(),
        from: "other".to_owned(),
        number,
        queue,
        places: 1,
        lease_ms: 1_000,
        executor: "x".to_owned(),
        version: None,
        kinds: None,
        bound: None,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_connection_listening_answers_one_error_and_hears_again() {
    let server = Redis::own().await;
    let hot = connect(&server.url(), "p").await;
    let signals = hot.signals().await.unwrap();
    for round in 0..3 {
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        assert!(timeout(HANG_LIMIT, signals.next()).await.unwrap().is_err(), "round {round}");
        signals.announce(vec![due(round)]).await.unwrap();
        assert_eq!(heard(&signals, 1).await, [due(round)], "what is said after the error is heard");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_waiting_for_signals_loses_none() {
    let hot = {
        let server = servers::redis().await;
        connect(&server.url(), &server.fresh_prefix()).await
    };
    let signals = hot.signals().await.unwrap();
    for at in 0..50 {
        assert!(timeout(Duration::from_millis(1), signals.next()).await.is_err());
        signals.announce(vec![due(at)]).await.unwrap();
        assert_eq!(heard(&signals, 1).await, [due(at)]);
    }
}
