//! The store, which outlives everything, and the hot set, which does not, each as the world sees it and as engines do.

use super::world::Faults;
use crate::faults::{Dials, FaultyHot, FaultyStore};
use punctual_contract::Store;
use punctual_hot::MemoryHot;
use std::sync::Arc;

/// Few, so that tasks meet in one; more than engines, so that they are shared.
pub(super) const PARTITIONS: u16 = 5;

pub(super) fn back_ends(
    truth: &Arc<dyn Store>,
    faults: Faults,
    life: u64,
) -> (Arc<FaultyStore>, Arc<MemoryHot>, Arc<FaultyHot>) {
    let seed = faults.seed() ^ life;
    let store = Arc::new(FaultyStore::new(Arc::clone(truth), seed));
    let true_hot = Arc::new(MemoryHot::new(punctual_hot::Options { partitions: PARTITIONS }));
    let hot = Arc::new(FaultyHot::new(true_hot.clone(), seed));
    if faults != Faults::None {
        store.faults.set_all(Dials { happens: 0.95, reported: 0.95 });
        hot.faults.set_all(Dials { happens: 0.97, reported: 0.97 });
    }
    (store, true_hot, hot)
}
