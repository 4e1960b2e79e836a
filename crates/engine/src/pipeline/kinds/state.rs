//! Kinds with parked tasks, by queue, as far as this engine knows. Parks nothing itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{
    name::{Name, QueueKey},
    time::Millis,
};
use std::{collections::BTreeSet, sync::Arc};

/// Kinds that another engine has parked tasks of are noticed within this.
const LANES_KNOWN_MS: i64 = 1_000;

/// Kinds of which something is parked, by queue, as far as this engine knows.
#[derive(Debug, Default)]
pub(crate) struct ParkedKinds(pub(super) Mutex<HashMap<Arc<QueueKey>, Lanes>>);

#[derive(Debug, Default)]
pub(super) struct Lanes {
    parked: BTreeSet<Name>,
    /// The instant of the last read of all lanes.
    looked_at: Option<Millis>,
}

impl ParkedKinds {
    pub(super) fn of(&self, queue: &QueueKey) -> BTreeSet<Name> {
        self.0.lock().get(queue).map(|parked_kind| parked_kind.parked.clone()).unwrap_or_default()
    }

    pub(super) fn add(&self, queue: &Arc<QueueKey>, kind: &Name) {
        self.0.lock().entry(Arc::clone(queue)).or_default().parked.insert(kind.clone());
    }

    pub(super) fn remove(&self, queue: &QueueKey, kind: &Name) {
        if let Some(parked_kind) = self.0.lock().get_mut(queue) {
            parked_kind.parked.remove(kind);
        }
    }

    /// True if the lanes must be read.
    pub(super) fn begin_look(&self, queue: &Arc<QueueKey>, now: Millis) -> bool {
        let mut all = self.0.lock();
        let lanes = all.entry(Arc::clone(queue)).or_default();
        let is_known = lanes.looked_at.is_some_and(|at| (0..LANES_KNOWN_MS).contains(&now.since(at)));
        lanes.looked_at = Some(now);
        !is_known
    }

    pub(super) fn learn(&self, queue: &Arc<QueueKey>, parked: BTreeSet<Name>) {
        self.0.lock().entry(Arc::clone(queue)).or_default().parked = parked;
    }

    pub(crate) fn forget(&self, now: Millis) {
        let is_in_use = |lanes: &Lanes| {
            !lanes.parked.is_empty() || lanes.looked_at.is_some_and(|at| now.since(at) <= LANES_KNOWN_MS)
        };
        let mut all = self.0.lock();
        all.retain(|_, lanes| is_in_use(lanes));
        all.shrink_to_fit();
    }

    pub(crate) fn queues_held(&self) -> usize {
        self.0.lock().len()
    }
}
