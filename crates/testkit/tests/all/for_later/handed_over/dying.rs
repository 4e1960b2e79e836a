//! An engine that dies at each step of a hand-over while its database is unavailable, with its runtime, and one that begins in its
//! directory.

use super::{LONG_MS, SHORT_MS, journal, owns_all, ready_rig, request, rig, rig_with};
use crate::crash_points::{Embedded, Ground, OnServers, queue, succeeded};
use punctual_domain::state::State;
use punctual_engine::Reported;
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::sync::{Arc, atomic::Ordering::SeqCst};
use tokio::runtime::Runtime;

/// The step after which the engine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dies {
    /// Step 2: the lease is durable, and no executor has the task.
    Journalled,
    /// Step 4: its executor has reported.
    Reported,
    /// Step 5: the lease is made, and the outcome is not applied.
    Written,
}

/// The engine dies, with its runtime; another one begins in its directory while the database is unavailable still.
fn an_engine_that_dies(ground: &Arc<dyn Ground>, dies: Dies) {
    let directory = tempfile::tempdir().unwrap();
    let doomed = Runtime::new().unwrap();
    let place = doomed.block_on(async {
        let rig = ready_rig(&**ground, directory.path()).await;
        let place = rig.inserted(1).await.remove(0);
        rig.lose_database();
        if dies == Dies::Journalled {
            rig.journal.is_silent.store(true, SeqCst);
            let engine = rig.engine.clone();
            #[expect(clippy::disallowed_methods, reason = "a caller that is never answered")]
            tokio::spawn(async move { engine.lease(request(queue(), "ann", SHORT_MS)).await });
            until("it is in the journal", || async { rig.numbers().waiting.records == 1 }).await;
            return place;
        }
        let lease = rig.handed_over(1, "ann", SHORT_MS).await.remove(0);
        assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
        if dies == Dies::Written {
            for group in [StoreGroup::Dispatch, StoreGroup::Read] {
                rig.store.faults.set(group, Dials::SOUND);
            }
            until("its lease is written", || async { rig.task(&lease).await.state == State::Dispatched })
                .await;
        }
        place
    });
    doomed.shutdown_timeout(HANG_LIMIT);
    let survivor = Runtime::new().unwrap();
    survivor.block_on(async {
        let rig = rig(&**ground, directory.path()).await;
        let read = || async { rig.truth.read(&[place]).await.unwrap().remove(0).unwrap() };
        until("its records are found", || async {
            rig.numbers().waiting.records > 0 || read().await.attempt > 0
        })
        .await;
        if dies == Dies::Journalled {
            // No executor had it: the lease is made, and ends.
            let again = rig.handed_over(1, "bob", LONG_MS).await.remove(0);
            assert_eq!((again.place.id, again.attempt), (place.id, 2));
            return rig.stop().await;
        }
        until("it has ended", || async { read().await.state == State::Succeeded }).await;
        assert_eq!(read().await.attempt, 1, "it did not run again");
        rig.nothing_waits().await;
        rig.nothing_is_leased().await;
        rig.stop().await;
    });
}

/// After a start with its database still away the journal keeps the task from being handed over again.
/// `asks`: an executor, before the lease is written.
fn an_engine_that_starts_while_its_database_is_away(ground: &Arc<dyn Ground>, asks: bool) {
    let directory = tempfile::tempdir().unwrap();
    let doomed = Runtime::new().unwrap();
    let lease = doomed.block_on(async {
        let rig = ready_rig(&**ground, directory.path()).await;
        rig.inserted(1).await;
        rig.lose_database();
        rig.handed_over(1, "ann", LONG_MS).await.remove(0)
    });
    doomed.shutdown_timeout(HANG_LIMIT);
    let survivor = Runtime::new().unwrap();
    survivor.block_on(async {
        let journal = journal(directory.path(), 1 << 20);
        // It scans, and may lease nothing: what it finds is the task of which the store knows nothing.
        journal.hides.store(true, SeqCst);
        let rig = rig_with(&**ground, journal).await;
        owns_all(&rig).await;
        rig.has_looked().await;
        if asks {
            rig.nothing_is_leased().await;
        }
        rig.journal.hides.store(false, SeqCst);
        until("its lease is written", || async { rig.task(&lease).await.state == State::Dispatched }).await;
        let row = rig.task(&lease).await;
        assert_eq!((row.attempt, row.lease.unwrap().executor.as_str()), (1, "ann"));
        rig.ends_well(&lease).await;
        // What it has found before is not handed over when its database is unavailable again.
        rig.lose_database();
        rig.nothing_is_leased().await;
        rig.store.faults.heal();
        rig.stop().await;
    });
}

macro_rules! an_engine_that_dies {
    ($($case:ident: $dies:ident)*) => {
        $(mod $case {
            use super::*;
            #[test]
            fn on_the_embedded_store() {
                let ground = Runtime::new().unwrap().block_on(Embedded::ground());
                an_engine_that_dies(&ground, Dies::$dies);
            }
            #[test]
            fn on_servers() {
                let ground = Runtime::new().unwrap().block_on(OnServers::ground());
                an_engine_that_dies(&ground, Dies::$dies);
            }
        })*
    };
}

an_engine_that_dies! {
    after_the_lease_is_journalled: Journalled
    after_the_outcome_is_journalled: Reported
    after_the_lease_is_written: Written
}

#[test]
fn an_engine_that_starts_while_its_database_is_away_on_the_embedded_store() {
    let ground = Runtime::new().unwrap().block_on(Embedded::ground());
    for asks in [true, false] {
        an_engine_that_starts_while_its_database_is_away(&ground, asks);
    }
}

#[test]
fn an_engine_that_starts_while_its_database_is_away_on_servers() {
    let ground = Runtime::new().unwrap().block_on(OnServers::ground());
    for asks in [true, false] {
        an_engine_that_starts_while_its_database_is_away(&ground, asks);
    }
}
