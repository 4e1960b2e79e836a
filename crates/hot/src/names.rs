//! Each queue's name once: entries come with a name of their own each, and a million of those would be most of
//! the memory. A name that no entry holds any more is forgotten in time.

use hashbrown::HashSet;
use punctual_domain::name::QueueKey;
use std::sync::Arc;

/// Below this many names nothing is swept.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashSet<Arc<QueueKey>>,
    /// The next sweep happens when there are this many, which is twice what the last one left: its cost is spread
    /// over the names that were added since.
    sweep_at: usize,
}

impl Names {
    pub(crate) fn share(&mut self, queue: &Arc<QueueKey>) -> Arc<QueueKey> {
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
    use punctual_domain::name::Name;

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
