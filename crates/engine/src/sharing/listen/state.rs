//! What other engines have asked this one to claim ahead of its next look. Claims nothing itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{place::Partition, time::Millis};
use tokio::sync::Notify;

/// Slices that are to be claimed ahead of the next look, by partition, with where they begin.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(super) slices: Mutex<HashMap<Partition, Millis>>,
    pub(super) something: Notify,
}

impl Asked {
    pub(super) fn add(&self, partition: Partition, from: Millis) {
        {
            let mut slices = self.slices.lock();
            let earliest = slices.entry(partition).or_insert(from);
            *earliest = from.min(*earliest);
        }
        self.something.notify_one();
    }
}
