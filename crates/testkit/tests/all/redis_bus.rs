//! The bus on Redis Streams: the suite on one server and on a Cluster, with one stream a queue and with several, and what
//! only Redis can do to it: restart, flush, fail over, hang. Also the executor's guard.

use punctual_bus::{Error, Execution, Guard, GuardOptions, RedisBus, RedisBusOptions, Taken};
use punctual_contract::{Bus, Happened, bus::Delivery, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_testkit::{
    conformance::bus::assignment,
    patience::{HANG_LIMIT, until},
    servers::{self, Redis, Sentinels},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::timeout};

/// Of guards that must not end while a test runs.
const WINDOW: Duration = Duration::from_secs(3_600);

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
}

fn options(prefix: &str, consumer: &str) -> RedisBusOptions {
    RedisBusOptions { prefix: prefix.to_owned(), consumer: consumer.to_owned(), ..RedisBusOptions::default() }
}

async fn on_one_server(streams_per_queue: u8) -> Arc<dyn Bus> {
    let redis = servers::redis().await;
    let options = RedisBusOptions { streams_per_queue, ..options(&redis.fresh_prefix(), "c") };
    Arc::new(RedisBus::connect(&redis.url(), options).await.unwrap())
}

async fn on_a_cluster(streams_per_queue: u8) -> Arc<dyn Bus> {
    let cluster = servers::redis_cluster().await;
    let prefix = cluster.nodes()[0].fresh_prefix();
    let options = RedisBusOptions { streams_per_queue, ..options(&prefix, "c") };
    Arc::new(RedisBus::connect(&cluster.url(), options).await.unwrap())
}

mod one_stream {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::$module::$case(super::on_one_server(1).await).await;
            }
        )*};
    }
    punctual_testkit::for_each_bus_case!(stamp);
}

mod sixteen_streams {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                punctual_testkit::conformance::$module::$case(super::on_one_server(16).await).await;
            }
        )*};
    }
    punctual_testkit::for_each_bus_case!(stamp);
}

mod cluster {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                for streams in [1, 3] {
                    punctual_testkit::conformance::$module::$case(super::on_a_cluster(streams).await).await;
                }
            }
        )*};
    }
    punctual_testkit::for_each_bus_case!(stamp);
}

async fn bus_on(redis: &Redis, consumer: &str) -> RedisBus {
    RedisBus::connect(&redis.url(), options("own", consumer)).await.unwrap()
}

/// The stream of queue "mail" under the prefix "own".
const MAIL: &str = "own:{q:default/mail:0}:stream";

async fn publish(bus: &RedisBus, number: i64) -> Result<(), Happened> {
    bus.publish(vec![assignment(number)]).await.remove(0).map_err(|error| error.happened)
}

async fn receive(bus: &RedisBus, limit: usize, wait: Duration, now: Millis) -> Vec<Delivery> {
    bus.receive(&queue("mail"), limit, wait, now).await.unwrap()
}

fn numbers(deliveries: &[Delivery]) -> Vec<i64> {
    deliveries.iter().map(|delivery| delivery.message.place.id).collect()
}

/// The server's clock.
async fn clock(redis: &Redis) -> Millis {
    let time = redis.command(&["TIME"]).await;
    let (seconds, micros) = time.split_once('\n').unwrap();
    Millis(seconds.parse::<i64>().unwrap() * 1_000 + micros.trim().parse::<i64>().unwrap() / 1_000)
}

async fn blocked_clients(redis: &Redis) -> usize {
    let info = redis.command(&["INFO", "clients"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap();
    line.trim().parse().unwrap()
}

/// How often Redis was asked to let a blocked read go.
async fn unblocks(redis: &Redis) -> usize {
    let info = redis.command(&["INFO", "commandstats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_client|unblock:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_fails_every_call_and_works_when_it_is_back() {
    let redis = Redis::own().await;
    let bus = bus_on(&redis, "a").await;
    publish(&bus, 1).await.unwrap();
    let got = receive(&bus, 9, HANG_LIMIT, Millis::ZERO).await;
    assert_eq!(numbers(&got), [1]);
    redis.kill();
    for number in 2..5 {
        publish(&bus, number).await.unwrap_err();
    }
    assert!(bus.receive(&queue("mail"), 9, HANG_LIMIT, Millis::ZERO).await.is_err(), "and does not wait");
    assert!(bus.acknowledge(&queue("mail"), &[got[0].id]).await.is_err());
    assert!(bus.reclaim(&queue("mail"), Millis::MAX).await.is_err());
    redis.start_again().await;
    until("publishing works again", || async { publish(&bus, 9).await.is_ok() }).await;
    until("and receiving", || async {
        bus.receive(&queue("mail"), 9, HANG_LIMIT, Millis::ZERO).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_receive_is_told_when_redis_dies() {
    let redis = Redis::own().await;
    let bus = Arc::new(bus_on(&redis, "a").await);
    let (mut waiting, one) = (JoinSet::new(), Arc::clone(&bus));
    waiting.spawn(async move { one.receive(&queue("mail"), 9, HANG_LIMIT, Millis::ZERO).await.is_err() });
    until("it blocks", || async { blocked_clients(&redis).await == 1 }).await;
    redis.kill();
    assert!(timeout(HANG_LIMIT, waiting.join_next()).await.unwrap().unwrap().unwrap(), "an error, at once");
}

#[tokio::test]
async fn an_error_says_whether_it_may_have_happened() {
    let redis = Redis::own().await;
    let short = Duration::from_secs(1);
    let options = RedisBusOptions { response_timeout: short, connect_timeout: short, ..options("own", "a") };
    let bus = RedisBus::connect(&redis.url(), options.clone()).await.unwrap();
    until("it is connected", || async { publish(&bus, 1).await.is_ok() }).await;
    redis.pause();
    assert_eq!(publish(&bus, 2).await, Err(Happened::Maybe), "sent, not answered");
    assert_eq!(publish(&bus, 3).await, Err(Happened::No), "not even connected");
    redis.resume();
    until("it is there", || async { publish(&bus, 4).await.is_ok() }).await;
    redis.command(&["DEL", MAIL]).await;
    redis.command(&["SET", MAIL, "not a stream"]).await;
    assert_eq!(publish(&bus, 5).await, Err(Happened::No), "refused");
    redis.kill();
    assert!(matches!(RedisBus::connect(&redis.url(), options).await, Err(Error::Redis(_))));
}

#[tokio::test]
async fn a_message_that_is_refused_stops_no_other() {
    let redis = Redis::own().await;
    redis.command(&["SET", "own:{q:default/sms:0}:stream", "not a stream"]).await;
    let bus = bus_on(&redis, "a").await;
    let refused = Assignment { queue: queue("sms"), ..assignment(2) };
    let results = bus.publish(vec![assignment(1), refused, assignment(3)]).await;
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(numbers(&receive(&bus, 9, HANG_LIMIT, Millis::ZERO).await), [1, 3]);
}

#[tokio::test]
async fn more_than_a_pipeline_holds_is_published_in_order() {
    let redis = Redis::own().await;
    let bus = bus_on(&redis, "a").await;
    let results = bus.publish((0..2_500).map(assignment).collect()).await;
    assert!(results.len() == 2_500 && results.iter().all(Result::is_ok));
    let mut got = Vec::new();
    while got.len() < 2_500 {
        got.extend(numbers(&receive(&bus, 2_500, HANG_LIMIT, Millis::ZERO).await));
    }
    got.sort_unstable();
    assert_eq!(got, (0..2_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_acknowledged_leaves_redis() {
    let redis = Redis::own().await;
    let bus = bus_on(&redis, "a").await;
    bus.publish((0..500).map(assignment).collect()).await;
    let got = receive(&bus, 500, HANG_LIMIT, Millis::ZERO).await;
    assert_eq!(redis.command(&["XLEN", MAIL]).await, "500", "not before");
    let ids: Vec<u64> = got.iter().map(|delivery| delivery.id).collect();
    bus.acknowledge(&queue("mail"), &ids[1..]).await.unwrap();
    assert_eq!(redis.command(&["XLEN", MAIL]).await, "1", "the oldest is still pending");
    assert_eq!(bus.reclaim(&queue("mail"), Millis::MAX).await.unwrap(), 1);
    assert_eq!(numbers(&receive(&bus, 9, HANG_LIMIT, Millis::ZERO).await), [0]);
}

/// Streams and groups may vanish at any time, also under a reader that blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_is_set_up_again() {
    let redis = Redis::own().await;
    let bus = Arc::new(bus_on(&redis, "a").await);
    for (number, break_it) in
        (0..).zip([&["FLUSHALL"][..], &["XGROUP", "DESTROY", MAIL, "executors"], &["DEL", MAIL]])
    {
        redis.command(break_it).await;
        publish(&bus, number).await.unwrap();
        let got = receive(&bus, 9, Duration::ZERO, Millis::ZERO).await;
        assert_eq!(numbers(&got), [number], "nothing waits for ever after {break_it:?}");
        bus.acknowledge(&queue("mail"), &[got[0].id]).await.unwrap();

        let (mut waiting, one) = (JoinSet::new(), Arc::clone(&bus));
        waiting.spawn(async move { receive(&one, 9, HANG_LIMIT, Millis::ZERO).await });
        until("it blocks", || async { blocked_clients(&redis).await == 1 }).await;
        redis.command(break_it).await;
        publish(&bus, 100 + number).await.unwrap();
        let got = timeout(HANG_LIMIT, waiting.join_next())
            .await
            .expect("it was not left blocked")
            .unwrap()
            .unwrap();
        assert_eq!(numbers(&got), [100 + number]);
        bus.acknowledge(&queue("mail"), &[got[0].id]).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_dead_consumer_held_goes_to_another() {
    let redis = Redis::own().await;
    let dead = bus_on(&redis, "dead").await;
    publish(&dead, 1).await.unwrap();
    let now = clock(&redis).await;
    assert_eq!(receive(&dead, 9, HANG_LIMIT, now).await.len(), 1);
    drop(dead);
    let alive = bus_on(&redis, "alive").await;
    assert_eq!(alive.reclaim(&queue("mail"), now.plus(-1_000)).await.unwrap(), 0, "not delivered before");
    until("its time passes", || async { clock(&redis).await > now.plus(100) }).await;
    assert_eq!(alive.reclaim(&queue("mail"), clock(&redis).await).await.unwrap(), 1);
    let got = receive(&alive, 9, HANG_LIMIT, now).await;
    assert_eq!((numbers(&got), got[0].times), (vec![1], 2));
}

#[tokio::test]
async fn more_than_a_page_is_reclaimed() {
    let redis = Redis::own().await;
    let bus = bus_on(&redis, "a").await;
    bus.publish((0..2_300).map(assignment).collect()).await;
    let mut held = 0;
    while held < 2_300 {
        held += receive(&bus, 1_000, HANG_LIMIT, Millis::ZERO).await.len();
    }
    assert_eq!(bus.reclaim(&queue("mail"), Millis::MAX).await.unwrap(), 2_300);
    assert_eq!(redis.command(&["XLEN", MAIL]).await, "2300");
    assert!(redis.command(&["XPENDING", MAIL, "executors"]).await.starts_with('0'));
}

/// A dropped receive leaves a blocking read behind. The bus asks Redis to end the read. Messages that it
/// receives before are returned without counting a delivery, and reach a waiting receiver elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_for_nobody_is_given_back() {
    let redis = Redis::own().await;
    let (gone, other) = (Arc::new(bus_on(&redis, "gone").await), bus_on(&redis, "other").await);
    for number in 0..5 {
        let (mut waiting, one) = (JoinSet::new(), Arc::clone(&gone));
        waiting.spawn(async move { receive(&one, 9, HANG_LIMIT, Millis::ZERO).await });
        until("it blocks", || async { blocked_clients(&redis).await == 1 }).await;
        waiting.shutdown().await;
        publish(&gone, number).await.unwrap();
        let got =
            timeout(HANG_LIMIT, receive(&other, 9, HANG_LIMIT, Millis::ZERO)).await.expect("it was kept");
        assert_eq!((numbers(&got), got[0].times), (vec![number], 1));
        other.acknowledge(&queue("mail"), &[got[0].id]).await.unwrap();
        until("no client blocks", || async { blocked_clients(&redis).await == 0 }).await;
    }
    let before = unblocks(&redis).await;
    until("Redis is asked to end an abandoned read", || async {
        let (mut waiting, one) = (JoinSet::new(), Arc::clone(&gone));
        waiting.spawn(async move { receive(&one, 9, HANG_LIMIT, Millis::ZERO).await });
        until("it blocks", || async { blocked_clients(&redis).await == 1 }).await;
        waiting.shutdown().await;
        until("no client blocks", || async { blocked_clients(&redis).await == 0 }).await;
        unblocks(&redis).await > before
    })
    .await;
    assert_eq!(redis.command(&["XLEN", MAIL]).await, "0");
}

/// Receives end in every way there is, in two processes, while messages come; what one of them held too long is
/// reclaimed. At the end each message was acknowledged, and nothing is left in Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_among_receives_that_are_dropped() {
    const MESSAGES: i64 = 2_000;
    let redis = Redis::own().await;
    let buses = [Arc::new(bus_on(&redis, "a").await), Arc::new(bus_on(&redis, "b").await)];
    let seen: Arc<parking_lot::Mutex<HashSet<i64>>> = Arc::default();
    let mut work = JoinSet::new();
    for (seed, bus) in (0..).zip(buses.iter().cycle().take(6)) {
        work.spawn(consume_carelessly(
            Arc::clone(bus),
            Arc::clone(&seen),
            seed,
            usize::try_from(MESSAGES).unwrap(),
        ));
    }
    for first in (0..MESSAGES).step_by(20) {
        let results = buses[0].publish((first..first + 20).map(assignment).collect()).await;
        assert!(results.iter().all(Result::is_ok));
        tokio::task::yield_now().await;
    }
    let done = timeout(HANG_LIMIT, async { while work.join_next().await.is_some() {} });
    assert!(done.await.is_ok(), "{} of {MESSAGES}", seen.lock().len());
    until("nothing is left", || async {
        let got = receive(&buses[0], 100, Duration::ZERO, Millis::ZERO).await;
        let ids: Vec<u64> = got.iter().map(|delivery| delivery.id).collect();
        buses[0].acknowledge(&queue("mail"), &ids).await.unwrap();
        buses[0].reclaim(&queue("mail"), Millis::MAX).await.unwrap();
        redis.command(&["XLEN", MAIL]).await == "0"
    })
    .await;
}

async fn consume_carelessly(
    bus: Arc<RedisBus>,
    seen: Arc<parking_lot::Mutex<HashSet<i64>>>,
    seed: u64,
    all: usize,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    while seen.lock().len() < all {
        let (limit, wait) = (random.usize(1..30), Duration::from_millis(random.u64(0..4)));
        let patience = Duration::from_micros(random.u64(1..3_000));
        let now = Millis::ZERO;
        let Ok(got) = timeout(patience, receive(&bus, limit, wait, now)).await else { continue };
        if random.u8(..) < 20 {
            bus.reclaim(&queue("mail"), Millis::MAX).await.unwrap();
            continue;
        }
        bus.acknowledge(&queue("mail"), &got.iter().map(|delivery| delivery.id).collect::<Vec<_>>())
            .await
            .unwrap();
        seen.lock().extend(numbers(&got));
    }
}

/// A newer build may understand it.
#[tokio::test]
async fn a_message_of_an_unknown_format_is_left_lying() {
    let redis = Redis::own().await;
    let bus = bus_on(&redis, "a").await;
    redis.command(&["XADD", MAIL, "*", "b", "what is this"]).await;
    redis.command(&["XADD", MAIL, "5000000000000-1", "b", "an id of the year 2128"]).await;
    assert_eq!(receive(&bus, 9, Duration::ZERO, Millis::ZERO).await, []);
    assert!(redis.command(&["XPENDING", MAIL, "executors"]).await.starts_with('2'), "still somebody's");
    redis.command(&["DEL", MAIL]).await;
    redis.command(&["XADD", MAIL, "*", "b", "what is this"]).await;
    publish(&bus, 1).await.unwrap();
    assert_eq!(numbers(&receive(&bus, 9, Duration::ZERO, Millis::ZERO).await), [1], "and hides no other");
}

#[tokio::test]
async fn consumers_that_hold_nothing_are_forgotten() {
    let redis = Redis::own().await;
    let [ann, bob] = [bus_on(&redis, "ann").await, bus_on(&redis, "bob").await];
    publish(&ann, 1).await.unwrap();
    assert_eq!(receive(&bob, 1, HANG_LIMIT, clock(&redis).await).await.len(), 1);
    assert_eq!(receive(&ann, 1, Duration::ZERO, Millis::ZERO).await, []);
    let soon = RedisBusOptions { forget_consumers_after: Duration::from_millis(1), ..options("own", "c") };
    let bus = RedisBus::connect(&redis.url(), soon).await.unwrap();
    until("ann is forgotten", || async {
        assert_eq!(bus.reclaim(&queue("mail"), Millis::ZERO).await.unwrap(), 0);
        let left = redis.command(&["XINFO", "CONSUMERS", MAIL, "executors"]).await;
        assert!(left.lines().any(|line| line == "bob"), "{left}");
        !left.lines().any(|line| line == "ann")
    })
    .await;
}

#[tokio::test]
async fn the_streams_of_a_queue_are_spread_over_a_cluster() {
    let cluster = servers::redis_cluster().await;
    let prefix = cluster.nodes()[0].fresh_prefix();
    let options = RedisBusOptions { streams_per_queue: 16, ..options(&prefix, "c") };
    let bus = RedisBus::connect(&cluster.url(), options).await.unwrap();
    assert!(bus.publish((0..160).map(assignment).collect()).await.iter().all(Result::is_ok));
    for node in cluster.nodes() {
        let keys = node.command(&["KEYS", &format!("{prefix}:*")]).await;
        assert!(keys.lines().count() >= 2, "{keys}");
    }
    let mut got = Vec::new();
    while got.len() < 160 {
        got.extend(numbers(&receive(&bus, 160, HANG_LIMIT, Millis::ZERO).await));
    }
    assert_eq!(got.len(), 160);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_master_is_found_through_the_sentinels() {
    let sentinels = Sentinels::own().await;
    let bus = RedisBus::connect(&sentinels.url(), options("own", "a")).await.unwrap();
    publish(&bus, 1).await.unwrap();
    assert_eq!(numbers(&receive(&bus, 9, HANG_LIMIT, Millis::ZERO).await), [1]);
    sentinels.master().kill();
    publish(&bus, 2).await.unwrap_err();
    until("the replica is the master", || async { publish(&bus, 3).await.is_ok() }).await;
    until("and is read from", || async {
        let got = bus.receive(&queue("mail"), 9, HANG_LIMIT, Millis::ZERO).await.unwrap_or_default();
        numbers(&got).contains(&3)
    })
    .await;
}

async fn guard(redis: &Redis, prefix: &str, holder: &str, window: Duration) -> Guard {
    let options = GuardOptions {
        prefix: prefix.to_owned(),
        holder: holder.to_owned(),
        window,
        ..GuardOptions::default()
    };
    Guard::connect(&redis.url(), options).await.unwrap()
}

fn execution(id: i64, fence: i64) -> Execution {
    let place = TaskRef { partition: Partition(0), due_at: Millis::ZERO, id };
    Execution { place, fence, attempt: 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_take_the_guard_one_is_granted_it() {
    let redis = servers::redis().await;
    let prefix = redis.fresh_prefix();
    let one = Arc::new(guard(redis, &prefix, "one", WINDOW).await);
    let two = Arc::new(guard(redis, &prefix, "two", WINDOW).await);
    for id in 0..20 {
        let mut taking = JoinSet::new();
        for guard in [&one, &two].repeat(10) {
            let guard = Arc::clone(guard);
            taking.spawn(async move { guard.take(execution(id, 1)).await.unwrap() });
        }
        let taken = taking.join_all().await;
        assert_eq!(taken.iter().filter(|taken| **taken == Taken::Granted).count(), 1);
        let holders: Vec<_> = taken.iter().filter(|taken| **taken != Taken::Granted).collect();
        assert!(holders.windows(2).all(|pair| pair[0] == pair[1]), "all are told the same name: {holders:?}");
    }
}

#[tokio::test]
async fn each_attempt_has_a_guard_of_its_own_wherever_its_task_is_due() {
    let redis = servers::redis().await;
    let guard = guard(redis, &redis.fresh_prefix(), "me", WINDOW).await;
    for execution in [execution(1, 1), execution(1, 2), execution(2, 1), execution(-1, 1)] {
        assert_eq!(guard.take(execution).await.unwrap(), Taken::Granted);
        let moved = TaskRef { due_at: Millis(99), ..execution.place };
        let again = guard.take(Execution { place: moved, ..execution }).await.unwrap();
        assert_eq!(again, Taken::Held { by: "me".to_owned() }, "also for who holds it");
    }
}

#[tokio::test]
async fn a_guard_ends_with_its_window_and_not_before() {
    let redis = servers::redis().await;
    let short = guard(redis, &redis.fresh_prefix(), "me", Duration::from_millis(300)).await;
    let began = clock(redis).await;
    assert_eq!(short.take(execution(1, 1)).await.unwrap(), Taken::Granted);
    until("it ends", || async { short.take(execution(1, 1)).await.unwrap() == Taken::Granted }).await;
    assert!(clock(redis).await.since(began) >= 299, "asking does not shorten it");
    let prefix = redis.fresh_prefix();
    let long = guard(redis, &prefix, "me", WINDOW).await;
    assert_eq!(long.take(execution(1, 1)).await.unwrap(), Taken::Granted);
    let key = redis.command(&["KEYS", &format!("{prefix}:*")]).await;
    let left_ms: u128 = redis.command(&["PTTL", &key]).await.parse().unwrap();
    assert!(left_ms > 0 && left_ms <= WINDOW.as_millis(), "it has an end, and no later one: {left_ms}");
}

#[tokio::test]
async fn a_guard_that_cannot_ask_grants_nothing() {
    let redis = Redis::own().await;
    let guard = guard(&redis, "own", "me", WINDOW).await;
    redis.kill();
    assert!(guard.take(execution(1, 1)).await.is_err());
    redis.start_again().await;
    until("it is back", || async { guard.take(execution(1, 1)).await.is_ok() }).await;
}

#[tokio::test]
async fn a_guard_works_on_a_cluster() {
    let cluster = servers::redis_cluster().await;
    let prefix = cluster.nodes()[0].fresh_prefix();
    let guard =
        Guard::connect(&cluster.url(), GuardOptions { prefix, ..GuardOptions::default() }).await.unwrap();
    for id in 0..50 {
        assert_eq!(guard.take(execution(id, 1)).await.unwrap(), Taken::Granted);
        assert!(matches!(guard.take(execution(id, 1)).await.unwrap(), Taken::Held { .. }));
    }
}
