//! The tasks that one call of retention ends, as its searches find them. Must not change them.

use punctual_domain::place::{Partition, TaskRef};
use std::collections::{BTreeSet, HashSet};

/// The tasks that one call ends: each once, whichever search found it.
pub(super) struct Over<'o> {
    pub(super) limit: usize,
    pub(super) places: Vec<TaskRef>,
    pub(super) ids: HashSet<i64>,
    /// The open partitions. Rows of others are copies, or are about to leave: retention here ignores them.
    pub(super) open: &'o BTreeSet<Partition>,
}

impl Over<'_> {
    pub(super) fn left(&self) -> usize {
        self.limit - self.places.len().min(self.limit)
    }

    /// False if there is no room for it, and it has to be found again.
    pub(super) fn add(&mut self, place: TaskRef) -> bool {
        if !self.open.contains(&place.partition) || self.ids.contains(&place.id) {
            return true;
        }
        if self.left() == 0 {
            return false;
        }
        self.ids.insert(place.id);
        self.places.push(place);
        true
    }
}
