//! Each name of a queue or a kind once: entries come with names of their own each, and a million of those would be most of
//! the memory. A queue that no entry holds any more is forgotten in time.

use hashbrown::{HashMap, HashSet};
use punctual_contract::hot::{Details, HotEntry};
use punctual_domain::name::{Name, QueueKey};
use std::sync::Arc;

/// Below this many names nothing is swept.
const SWEEP_MIN: usize = 1_024;
/// So many kinds are remembered; with more, all are forgotten, which only costs memory.
const KINDS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashSet<Arc<QueueKey>>,
    /// The next sweep happens when there are this many, which is twice what the last one left: its cost is spread
    /// over the names that were added since.
    sweep_at: usize,
    /// What entries say that say no more than a kind.
    kinds: HashMap<Name, Arc<Details>>,
}

impl Names {
    /// The same entry, with names that others hold too.
    pub(crate) fn shared(&mut self, entry: HotEntry) -> HotEntry {
        let (queue, details) = (self.share(&entry.queue), self.share_details(entry.details));
        HotEntry { queue, details, ..entry }
    }

    /// Entries that say more than their kind have details of their own.
    fn share_details(&mut self, details: Arc<Details>) -> Arc<Details> {
        let Some(kind) = details.kind.as_ref().filter(|_| details.are_plain()) else { return details };
        if let Some(known) = self.kinds.get(kind) {
            return Arc::clone(known);
        }
        if self.kinds.len() >= KINDS_MAX {
            self.kinds.clear();
        }
        self.kinds.insert(kind.clone(), Arc::clone(&details));
        details
    }

    fn share(&mut self, queue: &Arc<QueueKey>) -> Arc<QueueKey> {
        if let Some(known) = self.known.get(queue) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.known.retain(|it| Arc::strong_count(it) > 1);
            self.sweep_at = self.known.len().saturating_mul(2);
        }
        self.known.insert(Arc::clone(queue));
        Arc::clone(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn queue(number: usize) -> Arc<QueueKey> {
        let name = Name::new(&format!("q{number}")).unwrap();
        Arc::new(QueueKey { namespace: Name::default_namespace(), queue: name })
    }

    #[test]
    fn equal_names_become_one_and_forgotten_ones_are_dropped() {
        let mut names = Names::default();
        let kept = names.share(&queue(0));
        for number in 0..10 * SWEEP_MIN {
            names.share(&queue(number));
        }
        assert!(Arc::ptr_eq(&kept, &names.share(&queue(0))));
        assert!(names.known.len() <= 2 * SWEEP_MIN, "{}", names.known.len());
    }
}
