//! The tasks that one call of retention ends, as its looks find them. Must not change them.

use punctual_domain::place::{Partition, TaskRef};
use std::collections::{BTreeSet, HashSet};

/// What one call ends: each task once, whichever look found it.
pub(super) struct Over<'o> {
    pub(super) limit: usize,
    pub(super) places: Vec<TaskRef>,
    pub(super) ids: HashSet<i64>,
    /// What else is met are copies, or is about to leave: not here to be retired.
    pub(super) open: &'o BTreeSet<Partition>,
}

impl Over<'_> {
    pub(super) fn left(&self) -> usize {
        self.limit - self.places.len().min(self.limit)
    }

    /// False: there is no room for it, and it has to be found again.
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
