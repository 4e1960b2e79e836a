//! Tells the other engines what they would otherwise find only at their next look. What is to be said is gathered:
//! one line a partition, one a queue, and a pause between two announcements, so that ten thousand tasks a second
//! cost no more than a few hundred signals. Promises nothing; nothing waits for it.

use crate::core::Core;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{Error, ownership::Signal};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Between two announcements: what comes meanwhile goes together. The first one waits for nothing.
const PAUSE: Duration = Duration::from_millis(3);

/// "Due" at this time, which no task is, says that the partition was given up: whoever should own it looks at once.
pub(crate) const GIVEN_UP: Millis = Millis::ZERO;

#[derive(Debug, Default)]
pub(crate) struct Announcer {
    gathered: Mutex<Gathered>,
    something: Notify,
}

#[derive(Debug, Default)]
struct Gathered {
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

    fn gathered(&self) -> Vec<Signal> {
        let Gathered { due, ready } = std::mem::take(&mut *self.gathered.lock());
        let due = due.into_iter().map(|(partition, due_at)| Signal::Due { partition, due_at });
        let ready = ready.into_iter().map(|queue| Signal::Ready { queue: (*queue).clone() });
        due.chain(ready).collect()
    }
}

/// Announces until the engine stops.
pub(crate) async fn run(core: Arc<Core>) -> Result<usize, Error> {
    let mut announced = 0;
    loop {
        tokio::select! {
            biased;
            () = core.stopping.cancelled() => return Ok(announced),
            () = core.announcer.something.notified() => {}
        }
        announced += run_once(&core).await?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Signals announced. What could not be is not tried again: whoever should have heard it looks at an interval.
pub(crate) async fn run_once(core: &Core) -> Result<usize, Error> {
    let Some(shared) = &core.shared else { return Ok(0) };
    let signals = core.announcer.gathered();
    let count = signals.len();
    if count > 0 {
        shared.signals.announce(signals).await?;
    }
    Ok(count)
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
