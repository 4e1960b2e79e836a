//! What one engine passes to another whose executors ask.

use super::*;
use parking_lot::Mutex;
use punctual_contract::{
    Ownership as _, Signals as _,
    ownership::{Demand, Passed, Says, Signal},
};
use punctual_domain::task::Task;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// An engine asks for tasks that another has fired, and dies before the answer: no engine leases the tasks
/// that were passed to it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_passed_to_an_engine_that_is_gone_is_found_by_its_owner() {
    let cluster = EngineCluster::new();
    let a =
        cluster.node("a", Options { overdue_after_ms: 500, sweep_interval_ms: 100, ..Options::default() });
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let places = a.insert(10, 0).await;
    until("all have fired", || async { waiting(&a).await == 10 }).await;
    let gone = cluster.signals.join();
    gone.belongs_to("gone");
    let demand = Demand {
        to: "a".to_owned(),
        from: "gone".to_owned(),
        number: 1,
        queue: queue(),
        places: 7,
        lease_ms: 60_000,
        executor: "e".to_owned(),
        version: None,
        kinds: None,
        bound: None,
    };
    gone.announce(vec![Signal::Demand(Box::new(demand))]).await.unwrap();
    until("seven are passed", || async { waiting(&a).await == 3 }).await;
    let passed = loop {
        let heard = timeout(HANG_LIMIT, gone.next()).await.unwrap().unwrap_or_default();
        let passed = heard.into_iter().find_map(|signal| match signal {
            Signal::Passed(passed) => Some(passed),
            _ => None,
        });
        if let Some(passed) = passed {
            break passed;
        }
    };
    assert_eq!((passed.number, passed.entries.len(), passed.has_more), (1, 7, true));
    assert_eq!((passed.to.as_str(), passed.granted_at), ("gone", None));
    let mut first: Vec<i64> = places.iter().map(|place| place.id).collect();
    first.sort_unstable();
    first.truncate(7);
    assert_eq!(passed.entries.iter().map(|entry| entry.place.id).collect::<Vec<_>>(), first, "the oldest");
    let leased = a.lease_all(10).await;
    assert!(leased.iter().all(|lease| lease.attempt == 1), "{leased:?}");
    running.stop().await;
}

/// Before they fire, tasks are passed to the engine whose executor waits, from partitions of any engine. That
/// engine leases them ahead in its name.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_elsewhere_is_passed_before_its_time_and_leased_there_ahead() {
    let cluster = EngineCluster::new();
    let (a, b) = (cluster.node("a", Options::default()), Arc::new(cluster.node("b", Options::default())));
    let running = [a.engine.start().unwrap(), b.engine.start().unwrap()];
    until("each has some", || async { a.engine.owned() > 0 && b.engine.owned() > 0 }).await;
    let (executor, mut all) = (Arc::clone(&b), JoinSet::new());
    let (leased, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (its_leased, stops) = (Arc::clone(&leased), Arc::clone(&stop));
    all.spawn(async move {
        while !stops.load(SeqCst) {
            let some = executor.lease(200).await;
            assert!(some.iter().all(|lease| lease.due_at <= executor.engine.now() && lease.attempt == 1));
            its_leased.lock().extend(some.iter().map(|lease| lease.place.id));
        }
    });
    let inserted = Mutex::new(Vec::new());
    // Until `b` has said what its executors take, tasks wait at their owners, and are asked for there.
    until("b leases tasks of a ahead", || async {
        let ids = a.insert(20, 300).await;
        inserted.lock().extend(ids);
        let (due, name) = (a.engine.now().plus(280), Lease::ahead("b"));
        let is_ahead = AtomicBool::new(false);
        until("some are leased ahead, or they are due", || async {
            let in_flight = cluster.truth.in_flight(None, 1_000).await.unwrap().0;
            let is_one = |task: &Task| {
                let is_by_b = task.lease.as_ref().is_some_and(|lease| lease.executor == name);
                is_by_b && task.due_at > a.engine.now() && a.engine.owns(task.place.partition)
            };
            is_ahead.fetch_or(in_flight.iter().any(is_one), SeqCst);
            is_ahead.load(SeqCst) || a.engine.now() >= due
        })
        .await;
        is_ahead.into_inner()
    })
    .await;
    let inserted = inserted.into_inner().len();
    until("all have come", || async { leased.lock().len() >= inserted }).await;
    stop.store(true, SeqCst);
    all.join_next().await.unwrap().unwrap();
    let mut once: Vec<i64> = leased.lock().clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((once.len(), leased.lock().len()), (inserted, inserted), "each once");
    for engine in running {
        engine.stop().await;
    }
}

/// Tasks that were passed ahead of their instant to a dead engine are found by their owner; tasks that are
/// cancelled meanwhile are not delivered.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_passed_before_its_time_to_an_engine_that_is_gone_is_found_by_its_owner() {
    let cluster = EngineCluster::new();
    let a =
        cluster.node("a", Options { overdue_after_ms: 500, sweep_interval_ms: 100, ..Options::default() });
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let gone = cluster.signals.join();
    gone.belongs_to("gone");
    let (passed, inserted) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    until("some are passed", || async {
        // It is alive as far as the other knows, and takes what it is passed.
        cluster.ownership.beat("gone", Duration::from_secs(1), &Says::default()).await.unwrap();
        gone.announce(vec![Signal::Wanted { engine: "gone".to_owned(), queue: queue(), places: 7 }])
            .await
            .unwrap();
        inserted.fetch_add(a.insert(10, 400).await.len(), SeqCst);
        let end = a.engine.now().plus(400);
        while a.engine.now() < end && passed.lock().is_empty() {
            let heard = timeout(Duration::from_millis(50), gone.next()).await;
            for signal in heard.ok().and_then(Result::ok).unwrap_or_default() {
                if let Signal::Passed(some) = signal {
                    assert_eq!((some.number, some.to.as_str()), (Passed::AHEAD, "gone"));
                    passed.lock().extend(some.entries);
                }
            }
        }
        !passed.lock().is_empty()
    })
    .await;
    let (passed, inserted) = (passed.into_inner(), inserted.into_inner());
    let cancelled = a.engine.cancel(passed[0].place, false, "test").await.unwrap();
    assert!(matches!(cancelled, Cancelled::Cancelled(_)), "the store decides: {cancelled:?}");
    let leased = a.lease_all(inserted - 1).await;
    let is_well = |lease: &Assignment| lease.attempt == 1 && lease.place.id != passed[0].place.id;
    assert!(leased.iter().all(is_well), "{leased:?}");
    running.stop().await;
}

/// An engine has said what its executors take, and listens no more: its share stays with the owner.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_to_be_passed_to_an_engine_that_does_not_listen_fires_at_its_owner() {
    let cluster = EngineCluster::new();
    // Nothing but the answer of the bus brings the tasks back.
    let a = cluster.node("a", slow_repair());
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let (deaf, inserted) = (cluster.signals.join(), AtomicUsize::new(0));
    until("some were to be passed", || async {
        cluster.ownership.beat("deaf", Duration::from_secs(1), &Says::default()).await.unwrap();
        let wanted = Signal::Wanted { engine: "deaf".to_owned(), queue: queue(), places: 7 };
        deaf.announce(vec![wanted]).await.unwrap();
        inserted.fetch_add(a.insert(10, 300).await.len(), SeqCst);
        cluster.signals.unheard() > 0
    })
    .await;
    let leased = a.lease_all(inserted.into_inner()).await;
    assert!(leased.iter().all(|lease| lease.attempt == 1), "{leased:?}");
    running.stop().await;
}

/// An engine stops before tasks that were passed to it have fired: their owners get them back.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_passed_to_an_engine_that_stops_comes_back_to_its_owner() {
    const FAR_MS: i64 = 2_000;
    let cluster = EngineCluster::new();
    let options = || Options { ahead_ms: FAR_MS, ..slow_repair() };
    let (a, b) = (cluster.node("a", options()), cluster.node("b", options()));
    let running_a = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let (running_b, hears) = (b.engine.start().unwrap(), cluster.signals.join());
    until("they share", || async { b.engine.owned() > 0 }).await;
    let (mut inserted, mut passed) = (0, 0);
    while passed == 0 {
        let wanted = Signal::Wanted { engine: "b".to_owned(), queue: queue(), places: 50 };
        hears.announce(vec![wanted]).await.unwrap();
        inserted += a.insert(20, FAR_MS).await.len();
        while let Ok(signals) = timeout(Duration::from_millis(100), hears.next()).await {
            let to_b = |signal: &Signal| match signal {
                Signal::Passed(some) if some.to == "b" => some.entries.len(),
                _ => 0,
            };
            passed += signals.unwrap_or_default().iter().map(to_b).sum::<usize>();
        }
    }
    running_b.stop().await;
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let leased = a.lease_all(inserted).await;
    assert!(leased.iter().all(|lease| lease.attempt == 1), "{leased:?}");
    running_a.stop().await;
}

/// How many wait in lines of this engine.
async fn waiting(node: &SharedNode) -> usize {
    node.engine.depth().await.unwrap().ready.iter().map(|(_, count)| count).sum()
}
