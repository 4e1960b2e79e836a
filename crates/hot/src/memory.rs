//! The hot set of an engine that shares its store with no other: the ready sets, in its memory. What is due is the store's, until it
//! is near (`engine::pipeline::store_source`). Every method is done when it is first polled: nothing awaits, so nothing awaits while a
//! lock is held, and no runtime is needed.
//!
//! No method holds two locks.

use crate::{names::Names, ready::ReadySet};
use async_trait::async_trait;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Keeps, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{chooser::Draws, name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct MemoryHot {
    ready: Mutex<HashMap<Arc<QueueKey>, ReadySet>>,
    names: Mutex<Names>,
}

impl MemoryHot {
    /// What stands in ready sets, for tests: id, fence and task.
    #[doc(hidden)]
    #[must_use]
    pub fn standing(&self) -> Vec<(i64, i64, i64)> {
        self.ready.lock().values().flat_map(ReadySet::standing).collect()
    }

    fn with_shared_name(&self, entry: HotEntry) -> HotEntry {
        self.names.lock().shared(entry)
    }
}

#[async_trait]
impl Hot for MemoryHot {
    fn keeps(&self) -> Keeps {
        Keeps::Ready
    }

    async fn load(&self, _entries: Vec<HotEntry>) -> Result<usize, Error> {
        Ok(0)
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        _until: Millis,
        _limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        tenures.iter().map(|_| Ok(Vec::new())).collect()
    }

    /// The store decides.
    async fn withdraw(&self, _partition: Partition, _id: i64, _fence: i64) -> Result<Withdrawn, Error> {
        Ok(Withdrawn::Absent)
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        let mut put = 0;
        for entry in entries {
            let entry = self.with_shared_name(entry);
            let mut ready = self.ready.lock();
            put += usize::from(ready.entry(Arc::clone(&entry.queue)).or_default().put(entry, retries));
        }
        Ok(put)
    }

    async fn are_ready(&self, entries: &[HotEntry]) -> Result<Vec<bool>, Error> {
        let ready = self.ready.lock();
        let is_ready = |entry: &HotEntry| {
            ready.get(&entry.queue).is_some_and(|set| set.fence(entry.place.id) == Some(entry.fence))
        };
        Ok(entries.iter().map(is_ready).collect())
    }

    async fn discard(&self, entries: &[HotEntry]) -> Result<(), Error> {
        let mut ready = self.ready.lock();
        for entry in entries {
            let Some(set) = ready.get_mut(&entry.queue) else { continue };
            set.remove(entry.place.id, entry.fence);
            if set.is_empty() {
                ready.remove(&entry.queue);
            }
        }
        Ok(())
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        let mut ready = self.ready.lock();
        let Some(set) = ready.get_mut(queue) else { return Ok(Vec::new()) };
        let (mut admitted, mut draws) = (Vec::new(), Draws::new(admission.seed));
        while admitted.len() < admission.limit {
            let Some(entry) = set.pop(&admission, &mut draws) else { break };
            admitted.push(entry);
        }
        if set.is_empty() {
            ready.remove(queue);
        }
        Ok(admitted)
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        for entry in entries {
            let entry = self.with_shared_name(entry);
            self.ready.lock().entry(Arc::clone(&entry.queue)).or_default().park(lane, entry, retries);
        }
        Ok(())
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        Ok(self.ready.lock().get_mut(queue).map_or(0, |it| it.unpark(lane, limit)))
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        Ok(self.ready.lock().get(queue).map_or_else(Vec::new, |it| it.lanes(after, limit)))
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let mut depth = Depth::default();
        for (queue, set) in self.ready.lock().iter() {
            let counted = |count: usize| (count > 0).then(|| (Arc::clone(queue), count));
            depth.ready.extend(counted(set.len()));
            depth.parked.extend(counted(set.parked()));
        }
        depth.ready.sort_unstable();
        depth.parked.sort_unstable();
        Ok(depth)
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        Ok(vec![Wholeness::Whole; tenures.len()])
    }

    async fn clear(&self, _tenure: Tenure) -> Result<(), Error> {
        Ok(())
    }

    /// What has fired stays until an executor has it.
    async fn fullness(&self) -> Result<u32, Error> {
        Ok(0)
    }
}

#[cfg(test)]
pub(crate) fn sample(id: i64, due_at: i64, fence: i64) -> HotEntry {
    use punctual_domain::{name::Name, place::TaskRef, state::State, task::Priority};
    let queue = Name::new("mail").unwrap();
    HotEntry {
        place: TaskRef { partition: Partition(0), due_at: Millis(due_at), id },
        due_at: Millis(due_at),
        fence,
        queue: Arc::new(QueueKey { namespace: Name::default_namespace(), queue }),
        priority: Priority::default(),
        task_id: id,
        task_version: 0,
        deadline_at: Millis::MAX,
        state: State::Scheduled,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::new(punctual_contract::hot::Details {
            kind: Name::new("k").ok(),
            ..Default::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    /// Polls once, without any runtime: what is not ready at once would panic here.
    fn at_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(it) => it,
            Poll::Pending => panic!("the memory hot set waits for nothing"),
        }
    }

    #[test]
    fn every_method_is_done_when_first_polled_and_needs_no_runtime() {
        let hot = MemoryHot::default();
        let entry = |id| sample(id, 1, 1);
        let queue = entry(1).queue;
        assert_eq!(at_once(hot.offer(vec![entry(1)], Retries::default())).unwrap(), 1);
        assert_eq!(at_once(hot.depth()).unwrap().ready, [(Arc::clone(&queue), 1)]);
        assert_eq!(at_once(hot.are_ready(&[entry(1), entry(2)])).unwrap(), [true, false]);
        assert_eq!(at_once(hot.admit(&queue, Admission::of(9))).unwrap().len(), 1);
        at_once(hot.offer(vec![entry(2)], Retries::default())).unwrap();
        at_once(hot.discard(&[entry(2)])).unwrap();
        assert_eq!(
            at_once(hot.depth()).unwrap(),
            Depth::default(),
            "nothing is left of a queue without entries"
        );
    }

    #[test]
    fn what_is_due_is_not_kept_here() {
        let (hot, tenure) = (MemoryHot::default(), Tenure::sole(Partition(0)));
        assert_eq!(at_once(hot.load(vec![sample(1, 1, 1)])).unwrap(), 0);
        assert_eq!(at_once(hot.depth()).unwrap(), Depth::default());
        assert!(at_once(hot.drain(&[tenure], Millis::MAX, 9)).remove(0).unwrap().is_empty());
        assert_eq!(
            at_once(hot.withdraw(Partition(0), 1, 1)).unwrap(),
            Withdrawn::Absent,
            "the store decides"
        );
        assert_eq!(
            at_once(hot.is_whole(&[tenure])).unwrap(),
            [Wholeness::Whole],
            "from the first question on"
        );
    }
}
