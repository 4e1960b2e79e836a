//! The lateness of a task is counted once, at its first firing, for any cause of a second one. On the
//! embedded back ends and on real MySQL and Redis; the engine is run manually.

use crate::crash_points::{CrashPointsRig, Embedded, Ground, OnServers, rig};
use punctual_domain::state::State;
use punctual_testkit::{faults::Dials, patience::until};

fn counted(rig: &CrashPointsRig) -> u64 {
    let queues = rig.engine.meters().queues();
    queues.iter().flat_map(|queue| &queue.lateness).map(|lateness| lateness.tasks).sum()
}

/// The task has fired and waits, and the store does not have the mark yet. Then the hot set is unavailable,
/// and the engine reads the store.
async fn what_fired_before_the_hot_set_was_away_does_not_fire_again(ground: &dyn Ground) {
    let rig = rig(ground, false).await;
    let place = rig.insert(0).await;
    until("it fires", || async {
        rig.engine.run_once().await.unwrap();
        counted(&rig) == 1
    })
    .await;
    assert_ne!(rig.engine.read(place).await.unwrap().state, State::Ready, "nobody has told the store");
    rig.hot.faults.set_all(Dials::REFUSES);
    until("the store has been told", || async {
        // The turn continues to what needs the hot set.
        drop(rig.engine.run_once().await);
        rig.engine.read(place).await.unwrap().state == State::Ready
    })
    .await;
    assert!(rig.engine.hot_is_away());
    assert_eq!((rig.engine.meters().fired_from_store_total(), counted(&rig)), (0, 1));
}

macro_rules! on_each_ground {
    ($($case:ident;)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(&*Embedded::with_due_in_hot_set().await).await;
            })*
        }
        mod on_servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(&*OnServers::ground().await).await;
            })*
        }
    };
}

on_each_ground! {
    what_fired_before_the_hot_set_was_away_does_not_fire_again;
}
