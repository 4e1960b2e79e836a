//! The connection on which an engine receives signals becomes silent without an error: a caller that waits
//! there for a task gets it by the safety net, and the engine detects that it is deaf.
#![expect(
    clippy::disallowed_methods,
    reason = "a way to a server of its own, which ends with its connections"
)]

use crate::crash_points::{Ground, OnServers, Stand, WallClock, queue, succeeded};
use punctual_domain::{name::Name, task::NewTask};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, Running};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

/// Longer than a test does: no call here ends because its time is over.
const WAIT_MS: u64 = 2_000 * HANG_LIMIT.as_secs();

/// A proxy between an engine and Redis. It can drop messages to subscribers, while all connections stay open.
#[derive(Debug, Default)]
struct Way {
    is_mute: AtomicBool,
    subscribed: AtomicUsize,
    swallowed: AtomicUsize,
}

impl Way {
    async fn to(redis: SocketAddr) -> (Arc<Self>, String) {
        let way = Arc::new(Self::default());
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", door.local_addr().unwrap());
        let this_way = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((client, _)) = door.accept().await {
                tokio::spawn(Arc::clone(&this_way).carry(client, redis));
            }
        });
        (way, url)
    }

    async fn carry(self: Arc<Self>, client: TcpStream, redis: SocketAddr) {
        let Ok(server) = TcpStream::connect(redis).await else { return };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        let listens = Arc::new(AtomicBool::new(false));
        let (asks, way) = (Arc::clone(&listens), Arc::clone(&self));
        tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                if buffer[..count].windows(9).any(|pair| pair == b"SUBSCRIBE") && !asks.swap(true, SeqCst) {
                    way.subscribed.fetch_add(1, SeqCst);
                }
                if to_server.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
        let (mut buffer, mut is_silent) = (vec![0; 65_536], false);
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            // Once silent it stays so: the client that connects anew is heard.
            is_silent |= listens.load(SeqCst) && self.is_mute.load(SeqCst);
            if is_silent {
                self.swallowed.fetch_add(count, SeqCst);
            } else if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}

async fn node(ground: &dyn Ground, name: &str) -> (Engine, Running) {
    let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
    let backends = Backends { store, hot, limiter, bus, clock: Arc::new(WallClock), blobs: None, shared };
    let engine = Engine::new(backends, Options { name: name.to_owned(), ..Options::default() });
    let running = engine.start().unwrap();
    (engine, running)
}

async fn insert(engine: &Engine, count: usize) {
    let task = |_| NewTask::new(queue(), Name::new("k").unwrap(), engine.now());
    engine.insert((0..count).map(task).collect(), "test").await.unwrap();
}

/// The latest of so many, in ms, in the hands of an executor that waits at this engine.
async fn latest(engine: &Engine, count: usize) -> i64 {
    let (mut left, mut latest) = (count, 0);
    while left > 0 {
        let (queue, executor) = (Arc::new(queue()), "test".to_owned());
        let (max, wait_ms, lease_ms) = (100, WAIT_MS, 600_000);
        let request = LeaseRequest { queue, max, wait_ms, lease_ms, executor, version: None };
        let leased = timeout(HANG_LIMIT, engine.lease(request)).await;
        let leased = leased.unwrap_or_else(|_| panic!("{left} of {count} did not come")).unwrap();
        latest = leased.iter().map(|lease| engine.now().since(lease.due_at)).max().unwrap_or(0).max(latest);
        left -= leased.len();
        engine.record_outcomes(leased.iter().map(succeeded).collect(), "test").await.unwrap();
    }
    latest
}

/// Two engines that share; the second receives no signal of the other once the proxy is mute.
async fn deaf_beside_another() -> (Arc<Way>, (Engine, Running), (Engine, Running)) {
    let redis = servers::redis().await;
    let straight = OnServers::at(redis.url()).await;
    let (way, url) = Way::to(SocketAddr::from(([127, 0, 0, 1], redis.port()))).await;
    let (speaks, running) = node(&straight, "speaks").await;
    let (listens, also_running) = node(&straight.by_way_of(url), "listens").await;
    until("they share", || async {
        speaks.owned() > 0 && listens.owned() > 0 && speaks.owned() + listens.owned() >= 4
    })
    .await;
    (way, (speaks, running), (listens, also_running))
}

/// One of the waiters polls for all of them. Another test, in `engine::arrivals::poller`, shows that the next
/// one replaces it at once, and not only at its own next poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_the_one_that_looks_for_all_hangs_up_another_does() {
    let (way, (speaks, running), (listens, also_running)) = deaf_beside_another().await;
    way.is_mute.store(true, SeqCst);
    for _ in 0..3 {
        let wait = || {
            let engine = listens.clone();
            tokio::spawn(async move { latest(&engine, 1).await })
        };
        let first = wait();
        let waiting = |count| {
            let engine = listens.clone();
            async move { engine.waiting(&queue()) == count }
        };
        until("the first waits, and looks for all", || waiting(1)).await;
        let second = wait();
        until("both wait", || waiting(2)).await;
        first.abort();
        until("the first has hung up", || waiting(1)).await;
        insert(&speaks, 1).await;
        // No message reached it: while the way is mute, an engine that subscribes again receives nothing either.
        second.await.unwrap();
    }
    also_running.stop().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_for_who_waits_at_a_deaf_engine_comes_by_the_safety_net() {
    let (way, (speaks, running), (listens, also_running)) = deaf_beside_another().await;
    let (heard_ms, ()) = tokio::join!(latest(&listens, 20), insert(&speaks, 20));
    way.is_mute.store(true, SeqCst);
    let mut deaf_ms = 0;
    for _ in 0..5 {
        let (late_ms, ()) = tokio::join!(latest(&listens, 20), insert(&speaks, 20));
        deaf_ms = deaf_ms.max(late_ms);
    }
    let swallowed = way.swallowed.load(SeqCst);
    assert!(swallowed > 0, "there was something to hear");
    let (since, subscribed) = (Instant::now(), way.subscribed.load(SeqCst));
    way.is_mute.store(false, SeqCst);
    let listens_anew = || async { way.subscribed.load(SeqCst) > subscribed };
    until("it finds out that it is deaf, and listens anew", listens_anew).await;
    eprintln!(
        "late by {heard_ms} ms with signals, {deaf_ms} without; it listens again {:?} later",
        since.elapsed()
    );
    also_running.stop().await;
    running.stop().await;
}
