//! Partitions with tasks from other engines that are due before the owner's next drain. Drains nothing
//! itself.

use parking_lot::Mutex;
use punctual_domain::place::Partition;
use std::collections::BTreeSet;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Asked {
    partitions: Mutex<BTreeSet<Partition>>,
    pub(super) something: Notify,
}

impl Asked {
    pub(super) fn add(&self, partition: Partition) {
        self.partitions.lock().insert(partition);
        self.something.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Partition> {
        std::mem::take(&mut *self.partitions.lock()).into_iter().collect()
    }
}
