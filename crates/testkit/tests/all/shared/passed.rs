//! What one engine passes to another whose executors ask.

use super::*;
use punctual_contract::{
    Signals as _,
    ownership::{Demand, Signal},
};

/// An engine asks for what another has fired, and is gone before the answer comes: nobody leases what was passed to it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_passed_to_an_engine_that_is_gone_is_found_by_its_owner() {
    let cluster = Cluster::new();
    let a =
        cluster.node("a", Options { overdue_after_ms: 500, sweep_interval_ms: 100, ..Options::default() });
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let places = a.insert(10, 0).await;
    until("all have fired", || async { waiting(&a).await == 10 }).await;
    let gone = cluster.signals.join();
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

/// How many wait in lines of this engine.
async fn waiting(node: &Node) -> usize {
    node.engine.depth().await.unwrap().ready.iter().map(|(_, count)| count).sum()
}
