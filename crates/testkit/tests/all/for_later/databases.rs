//! Outcomes that wait for several databases, or for one that does not answer: none delays the others, and no
//! call waits forever.

use super::{ForLaterRig, LONG_MS, rig};
use crate::crash_points::{Embedded, Ground, OnServers, succeeded};
use punctual_contract::store::Assignment;
use punctual_domain::state::State;
use punctual_engine::Reported;
use punctual_testkit::{faults::StoreGroup, patience::until};
use std::sync::{Arc, atomic::Ordering::SeqCst};

const PARTS: usize = 3;

/// One lease in each part of the store.
async fn one_in_each(rig: &ForLaterRig) -> Vec<Assignment> {
    let mut found: Vec<Option<Assignment>> = vec![None; PARTS];
    while found.iter().any(Option::is_none) {
        let lease = rig.leased(LONG_MS).await;
        let part = lease.place.partition.0 as usize % PARTS;
        found[part].get_or_insert(lease);
    }
    found.into_iter().flatten().collect()
}

/// Two databases are back, and a third answers reads and nothing else.
async fn one_that_hangs_keeps_no_others_outcomes_waiting(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    rig.store.split(PARTS);
    let leases = one_in_each(&rig).await;
    rig.lose_database();
    for lease in &leases {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    rig.store.set_part_stuck(Some(0));
    rig.store.faults.heal();
    for lease in &leases[1..] {
        until("it is applied", || async { rig.task(lease).await.state == State::Succeeded }).await;
    }
    assert_eq!(rig.task(&leases[0]).await.state, State::Dispatched);
    // What comes now is not kept from those that answer either, time and again.
    let more = one_in_each(&rig).await;
    assert_eq!(rig.record_outcomes(succeeded(&more[0])).await, Reported::ForLater);
    rig.ends_well(&more[1]).await;
    rig.store.set_part_stuck(None);
    for lease in leases.iter().chain(&more[..2]) {
        rig.has_ended_well(lease).await;
    }
    rig.stop().await;
}

/// A partition moves to another database while an outcome of it waits, which that one has passed over.
async fn what_waits_moves_along_with_its_partition(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    rig.store.split(PARTS);
    let lease = loop {
        let lease = rig.leased(LONG_MS).await;
        if lease.place.partition.0 % 6 == 3 {
            break lease;
        }
    };
    rig.lose_database();
    assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
    rig.store.set_part_stuck(Some(0));
    rig.store.faults.heal();
    let before = rig.runs_of("outcomes_for_later");
    until("the others have passed it over", || async { rig.runs_of("outcomes_for_later") > before + 3 })
        .await;
    assert_eq!(rig.numbers().waiting.records, 1);
    // From the first database to the second.
    rig.store.split(2);
    rig.store.set_part_stuck(None);
    rig.has_ended_well(&lease).await;
    rig.stop().await;
}

/// A call that applies outcomes hangs, as on a connection that is gone, and the database answers others.
async fn a_call_that_hangs_is_given_up_and_tried_again(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let lease = rig.leased(LONG_MS).await;
    rig.lose_database();
    assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
    rig.journal.hides.store(true, SeqCst);
    let stuck = rig.store.faults.hold(StoreGroup::Apply);
    rig.store.faults.heal();
    rig.journal.hides.store(false, SeqCst);
    stuck.reached().await;
    // The next call passes.
    rig.store.faults.hold(StoreGroup::Apply).open();
    rig.has_ended_well(&lease).await;
    stuck.open();
    assert_eq!(rig.task(&lease).await.state, State::Succeeded);
    rig.stop().await;
}

macro_rules! on_both {
    ($($case:ident)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(Embedded::ground().await).await;
            })*
        }
        mod servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(OnServers::ground().await).await;
            })*
        }
    };
}

on_both! {
    one_that_hangs_keeps_no_others_outcomes_waiting
    what_waits_moves_along_with_its_partition
    a_call_that_hangs_is_given_up_and_tried_again
}
