//! What other engines are to hear of, gathered until it is announced. Announces nothing itself.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::ownership::Signal;
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Announcer {
    pub(super) gathered: Mutex<Gathered>,
    pub(super) something: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The earliest of each partition.
    due: HashMap<Partition, Millis>,
    ready: HashSet<Arc<QueueKey>>,
}

impl Announcer {
    pub(crate) fn due(&self, partition: Partition, due_at: Millis) {
        {
            let mut it = self.gathered.lock();
            let earliest = it.due.entry(partition).or_insert(due_at);
            *earliest = due_at.min(*earliest);
        }
        self.something.notify_one();
    }

    pub(crate) fn ready(&self, queue: &Arc<QueueKey>) {
        self.gathered.lock().ready.insert(Arc::clone(queue));
        self.something.notify_one();
    }

    pub(super) fn gathered(&self) -> Vec<Signal> {
        let Gathered { due, ready } = std::mem::take(&mut *self.gathered.lock());
        let due = due.into_iter().map(|(partition, due_at)| Signal::Due { partition, due_at });
        let ready = ready.into_iter().map(|queue| Signal::Ready { queue: (*queue).clone() });
        due.chain(ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_is_one_line_a_partition_with_its_earliest_time() {
        let it = Announcer::default();
        for due_at in [7, 5, 9] {
            it.due(Partition(3), Millis(due_at));
        }
        assert_eq!(it.gathered(), [Signal::Due { partition: Partition(3), due_at: Millis(5) }]);
        assert_eq!(it.gathered(), []);
    }
}
