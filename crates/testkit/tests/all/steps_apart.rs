//! The steps of one service do not skip each other: the sweep cannot read the store, and what was held back because it
//! could not be offered fires all the same. With a stand-in for Redis, and on real MySQL and Redis.

use crate::crash_points::{Embedded, Ground, OnServers, queue, rig_with, succeeded};
use punctual_engine::{LeaseRequest, Options, Settled};
use punctual_testkit::{
    faults::{Dials, HotGroup, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::sync::Arc;

async fn comes_though_nothing_can_be_swept(ground: &dyn Ground) {
    let rig = rig_with(ground, false, |options| Options { sweep_interval_ms: 200, ..options }).await;
    let running = rig.engine.start().unwrap();
    let place = rig.insert(500).await;
    rig.hot.faults.set(HotGroup::Ready, Dials::REFUSES);
    rig.store.faults.set(StoreGroup::Scan, Dials::REFUSES);
    until("it has fired and cannot be offered", || async {
        rig.hot.faults.counts(HotGroup::Ready).refused > 0
    })
    .await;
    let before = rig.store.faults.counts(StoreGroup::Scan).refused;
    rig.hot.faults.heal();
    let request = LeaseRequest {
        queue: Arc::new(queue()),
        max: 10,
        wait_ms: HANG_LIMIT.as_secs() * 1_000,
        lease_ms: 60_000,
        executor: "test".to_owned(),
        version: None,
    };
    let leased = rig.engine.lease(request).await.unwrap();
    assert_eq!(leased.iter().map(|it| (it.place, it.attempt)).collect::<Vec<_>>(), [(place, 1)]);
    until("nothing can be swept", || async { rig.store.faults.counts(StoreGroup::Scan).refused > before })
        .await;
    let settled = rig.engine.settle(vec![succeeded(&leased[0])], "test").await.unwrap();
    assert_eq!(settled, [Settled::Accepted]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_comes_though_nothing_can_be_swept() {
    comes_though_nothing_can_be_swept(&*Embedded::with_due_in_hot_set().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_comes_though_nothing_can_be_swept_on_servers() {
    comes_though_nothing_can_be_swept(&*OnServers::ground().await).await;
}
