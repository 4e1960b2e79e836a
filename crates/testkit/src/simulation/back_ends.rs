//! The store, which outlives everything, and the hot set, which does not, each as the world sees it and as engines do.

use super::setup::{Due, Faults};
use crate::{
    faults::{Dials, FaultyHot, FaultyStore},
    shared::SharedHot,
};
use punctual_contract::{Hot, Store};
use punctual_hot::NoHot;
use std::sync::Arc;

/// Few, so that tasks meet in one; more than engines, so that they are shared.
pub(super) const PARTITIONS: u16 = 5;

/// The hot set without faults, for the checks.
#[derive(Debug)]
pub(super) enum TrueHot {
    /// No hot set: fired tasks wait in the engine's table.
    None,
    Shared(Arc<SharedHot>),
}

impl TrueHot {
    fn new(due: Due) -> Self {
        match due {
            Due::InStore => Self::None,
            Due::InRedis => Self::Shared(Arc::new(SharedHot::new(PARTITIONS))),
        }
    }

    pub(super) fn hot(&self) -> Arc<dyn Hot> {
        match self {
            Self::None => Arc::new(NoHot),
            Self::Shared(hot) => hot.clone(),
        }
    }
}

pub(super) fn back_ends(
    truth: &Arc<dyn Store>,
    (due, faults): (Due, Faults),
    life: u64,
) -> (Arc<FaultyStore>, TrueHot, Arc<FaultyHot>) {
    let seed = faults.seed() ^ life;
    let store = Arc::new(FaultyStore::new(Arc::clone(truth), seed));
    let true_hot = TrueHot::new(due);
    let hot = Arc::new(FaultyHot::new(true_hot.hot(), seed));
    if faults != Faults::None {
        store.faults.set_all(Dials { happens: 0.95, reported: 0.95 });
        // An engine's own memory loses no answer.
        if due == Due::InRedis {
            hot.faults.set_all(Dials { happens: 0.97, reported: 0.97 });
        }
    }
    (store, true_hot, hot)
}
