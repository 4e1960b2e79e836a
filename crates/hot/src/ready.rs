//! What has fired in one queue and waits for an executor: by priority, then the oldest; but of two versions of one
//! task the newer first, which goes in the place of the older when that one's turn comes. Holds an id at most once.

use hashbrown::HashMap;
use punctual_contract::hot::HotEntry;
use punctual_domain::{task::Priority, time::Millis};
use std::collections::BTreeMap;

type Place = (Priority, Millis, i64);

#[derive(Debug, Default)]
pub(crate) struct ReadySet {
    order: BTreeMap<Place, HotEntry>,
    by_id: HashMap<i64, Place>,
    /// `(task_id, task_version, id)`: the versions of one task, which all share the queue's namespace.
    versions: BTreeMap<(i64, i64, i64), Place>,
}

impl ReadySet {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The same id with an older fence goes; with the same or a newer one it stays, and this is passed over.
    pub(crate) fn put(&mut self, entry: HotEntry) {
        let id = entry.place.id;
        if self.fence(id).is_some_and(|it| it >= entry.fence) {
            return;
        }
        self.remove(id, entry.fence);
        let place = (entry.priority, entry.due_at, id);
        self.by_id.insert(id, place);
        self.versions.insert((entry.task_id, entry.task_version, id), place);
        self.order.insert(place, entry);
    }

    /// Unless its fence is newer.
    pub(crate) fn remove(&mut self, id: i64, fence: i64) {
        if self.fence(id).is_some_and(|it| it <= fence)
            && let Some(place) = self.by_id.get(&id).copied()
        {
            self.remove_at(place);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<HotEntry> {
        let (_, first) = self.order.first_key_value()?;
        let all_versions = (first.task_id, i64::MIN, i64::MIN)..=(first.task_id, i64::MAX, i64::MAX);
        let (_, newest) = self.versions.range(all_versions).next_back()?;
        self.remove_at(*newest)
    }

    fn fence(&self, id: i64) -> Option<i64> {
        self.by_id.get(&id).and_then(|it| self.order.get(it)).map(|it| it.fence)
    }

    fn remove_at(&mut self, place: Place) -> Option<HotEntry> {
        let entry = self.order.remove(&place)?;
        self.by_id.remove(&entry.place.id);
        self.versions.remove(&(entry.task_id, entry.task_version, entry.place.id));
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sample;

    fn of_task(entry: HotEntry, task_id: i64, task_version: i64, level: u8) -> HotEntry {
        HotEntry { task_id, task_version, priority: Priority::new(level).unwrap(), ..entry }
    }

    fn drained(mut set: ReadySet) -> Vec<i64> {
        std::iter::from_fn(|| set.pop()).map(|it| it.place.id).collect()
    }

    #[test]
    fn a_newer_version_goes_in_the_place_of_the_older_and_no_further() {
        let mut set = ReadySet::default();
        set.put(of_task(sample(1, 10, 1), 7, 1, 3));
        set.put(of_task(sample(2, 50, 1), 7, 3, 5));
        set.put(of_task(sample(3, 40, 1), 7, 2, 4));
        set.put(of_task(sample(4, 20, 1), 8, 1, 3));
        set.put(of_task(sample(5, 90, 1), 9, 1, 1));
        assert_eq!(drained(set), [5, 2, 3, 1, 4]);
    }

    #[test]
    fn an_id_stands_once_with_its_newest_fence() {
        let mut set = ReadySet::default();
        set.put(of_task(sample(1, 10, 2), 7, 1, 3));
        set.put(of_task(sample(1, 10, 1), 7, 1, 1));
        set.put(of_task(sample(1, 10, 2), 7, 1, 1));
        assert_eq!((set.len(), set.order.keys().next().unwrap().0.level()), (1, 3));
        set.put(of_task(sample(1, 10, 3), 7, 1, 1));
        set.remove(1, 2);
        assert_eq!((set.len(), set.by_id.len(), set.versions.len()), (1, 1, 1), "a newer fence stays");
        set.remove(1, 3);
        assert_eq!((set.len(), set.by_id.len(), set.versions.len()), (0, 0, 0));
    }
}
