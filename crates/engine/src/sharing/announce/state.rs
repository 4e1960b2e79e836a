//! Announcements to other engines, gathered until they are sent. Sends nothing itself.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{hot::ParkReason, ownership::Signal};
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
    /// This engine receives demands.
    hello: bool,
    /// The number of tasks that executors here accept.
    wanted: HashMap<Arc<QueueKey>, usize>,
    ready: HashSet<Arc<QueueKey>>,
    /// The number of freed places.
    freed: HashMap<(Arc<QueueKey>, Option<ParkReason>), usize>,
}

impl Announcer {
    pub(crate) fn due(&self, partition: Partition, due_at: Millis) {
        {
            let mut gathered = self.gathered.lock();
            let earliest = gathered.due.entry(partition).or_insert(due_at);
            *earliest = due_at.min(*earliest);
        }
        self.something.notify_one();
    }

    pub(crate) fn hello(&self) {
        self.gathered.lock().hello = true;
        self.something.notify_one();
    }

    pub(crate) fn wanted(&self, queue: &Arc<QueueKey>, places: usize) {
        self.gathered.lock().wanted.insert(Arc::clone(queue), places);
        self.something.notify_one();
    }

    pub(crate) fn ready(&self, queue: &Arc<QueueKey>) {
        self.gathered.lock().ready.insert(Arc::clone(queue));
        self.something.notify_one();
    }

    pub(crate) fn freed(&self, queue: &Arc<QueueKey>, lane: Option<ParkReason>, places: usize) {
        *self.gathered.lock().freed.entry((Arc::clone(queue), lane)).or_default() += places;
        self.something.notify_one();
    }

    /// `engine`: the one that says it.
    pub(super) fn gathered(&self, engine: &str) -> Vec<Signal> {
        let Gathered { due, hello, wanted, ready, freed } = std::mem::take(&mut *self.gathered.lock());
        let due = due.into_iter().map(|(partition, due_at)| Signal::Due { partition, due_at });
        let wanted = wanted.into_iter().map(|(queue, places)| Signal::Wanted {
            engine: engine.to_owned(),
            queue: (*queue).clone(),
            places,
        });
        let ready = ready
            .into_iter()
            .map(|queue| Signal::Ready { engine: engine.to_owned(), queue: (*queue).clone() });
        let freed = freed.into_iter().map(|((queue, lane), places)| Signal::Freed {
            engine: engine.to_owned(),
            queue: (*queue).clone(),
            lane,
            places,
        });
        let hello = hello.then(|| Signal::Hello { engine: engine.to_owned() });
        due.chain(hello).chain(wanted).chain(ready).chain(freed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_is_one_line_a_partition_with_its_earliest_time() {
        let announcer = Announcer::default();
        for due_at in [7, 5, 9] {
            announcer.due(Partition(3), Millis(due_at));
        }
        assert_eq!(announcer.gathered("a"), [Signal::Due { partition: Partition(3), due_at: Millis(5) }]);
        assert_eq!(announcer.gathered("a"), []);
    }
}
