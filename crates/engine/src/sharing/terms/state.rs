//! Partitions in which the hot set has seen newer terms than this engine's. Raises none.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::ownership::Tenure;
use punctual_domain::place::Partition;

/// The superseded tenure, and the newest term that the hot set knows, by partition.
#[derive(Debug, Default)]
pub(crate) struct SupersededTenures(pub(super) Mutex<HashMap<Partition, (Tenure, i64)>>);

impl SupersededTenures {
    pub(crate) fn is(&self, partition: Partition) -> bool {
        self.0.lock().contains_key(&partition)
    }

    pub(crate) fn clear(&self, partition: Partition) {
        self.0.lock().remove(&partition);
    }
}
