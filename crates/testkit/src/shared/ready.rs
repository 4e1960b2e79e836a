//! What has fired in one queue and waits for an executor: in its order, by level, then the oldest; but of two versions of
//! one task the newer first, which goes in the place of the older when that one's turn comes. Or parked, in a lane, out of
//! the order. Holds an id at most once.

use punctual_contract::hot::{Admission, HotEntry, Lane};
use punctual_domain::{
    chooser::{Draws, Level},
    order::{Order, Position},
    settings::Retries,
};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound::{Excluded, Unbounded},
};

#[derive(Clone, Debug)]
enum Stands {
    InOrder(Position),
    Parked(Lane, Position),
}

#[derive(Debug, Default)]
pub(super) struct ReadySet {
    /// The queue says the namespace, which the versions of one task share.
    order: Order<HotEntry>,
    by_id: HashMap<i64, Stands>,
    lanes: BTreeMap<Lane, BTreeMap<Position, HotEntry>>,
    parked: usize,
}

fn place_of(entry: &HotEntry, retries: Retries) -> Position {
    (Level::of(entry.priority, entry.attempt, retries), entry.due_at, entry.place.id)
}

impl ReadySet {
    /// In the order.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) const fn parked(&self) -> usize {
        self.parked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// In order or parked: id, fence and task of each.
    pub(super) fn standing(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        let parked = self.lanes.values().flat_map(BTreeMap::values);
        self.order.iter().chain(parked).map(|entry| (entry.place.id, entry.fence, entry.task_id))
    }

    /// The same id with an older fence goes; with the same or a newer one it stays, and this is passed over: false.
    pub(super) fn put(&mut self, entry: HotEntry, retries: Retries) -> bool {
        let id = entry.place.id;
        if self.fence(id).is_some_and(|fence| fence >= entry.fence) {
            return false;
        }
        self.remove_id(id);
        self.put_at(place_of(&entry, retries), entry);
        true
    }

    fn put_at(&mut self, place: Position, entry: HotEntry) {
        self.by_id.insert(entry.place.id, Stands::InOrder(place));
        self.order.insert(place, entry);
    }

    /// What stands in the order with the same fence moves; what is parked stays, and so does a newer fence.
    pub(super) fn park(&mut self, lane: &Lane, entry: HotEntry, retries: Retries) {
        let id = entry.place.id;
        let place = match self.by_id.get(&id) {
            Some(Stands::InOrder(place)) if self.fence(id) == Some(entry.fence) => *place,
            Some(_) if self.fence(id).is_some_and(|it| it >= entry.fence) => return,
            _ => place_of(&entry, retries),
        };
        self.remove_id(id);
        self.by_id.insert(id, Stands::Parked(lane.clone(), place));
        self.lanes.entry(lane.clone()).or_default().insert(place, entry);
        self.parked += 1;
    }

    pub(super) fn unpark(&mut self, lane: &Lane, limit: usize) -> usize {
        let mut back = 0;
        while back < limit
            && let Some((place, id)) =
                self.lanes.get(lane).and_then(|it| it.first_key_value()).map(|it| (*it.0, it.1.place.id))
            && let Some(entry) = self.remove_id(id)
        {
            self.put_at(place, entry);
            back += 1;
        }
        back
    }

    pub(super) fn lanes(&self, after: Option<&Lane>, limit: usize) -> Vec<(Lane, usize)> {
        let from = after.map_or(Unbounded, Excluded);
        let lanes = self.lanes.range::<Lane, _>((from, Unbounded)).take(limit);
        lanes.map(|(lane, it)| (lane.clone(), it.len())).collect()
    }

    /// Unless its fence is newer.
    pub(super) fn remove(&mut self, id: i64, fence: i64) {
        if self.fence(id).is_some_and(|it| it <= fence) {
            self.remove_id(id);
        }
    }

    /// The next by the chooser.
    pub(super) fn pop(&mut self, admission: &Admission, draws: &mut Draws) -> Option<HotEntry> {
        let entry = self.order.pop(&admission.chooser, draws)?;
        self.by_id.remove(&entry.place.id);
        Some(entry)
    }

    /// In order or parked.
    pub(super) fn fence(&self, id: i64) -> Option<i64> {
        match self.by_id.get(&id)? {
            Stands::InOrder(place) => self.order.get(place),
            Stands::Parked(lane, place) => self.lanes.get(lane).and_then(|it| it.get(place)),
        }
        .map(|it| it.fence)
    }

    fn remove_id(&mut self, id: i64) -> Option<HotEntry> {
        match self.by_id.remove(&id)? {
            Stands::InOrder(place) => self.order.remove(&place),
            Stands::Parked(lane, place) => {
                let parked = self.lanes.get_mut(&lane)?;
                let entry = parked.remove(&place)?;
                if parked.is_empty() {
                    self.lanes.remove(&lane);
                }
                self.parked -= 1;
                Some(entry)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::hot::entry as sample;
    use punctual_domain::{chooser::Chooser, settings::Choice, task::Priority};

    const STRICT: Chooser = Chooser { choice: Choice::HighestFirst { percent: 100 }, retries_percent: None };

    fn put(set: &mut ReadySet, entry: HotEntry) {
        set.put(entry, Retries::default());
    }

    fn of_task(entry: HotEntry, task_id: i64, task_version: i64, level: u8) -> HotEntry {
        HotEntry { task_id, task_version, priority: Priority::new(level).unwrap(), ..entry }
    }

    fn drained(mut set: ReadySet) -> Vec<i64> {
        let (admission, mut draws) = (Admission { chooser: STRICT, ..Admission::default() }, Draws::new(1));
        std::iter::from_fn(|| set.pop(&admission, &mut draws)).map(|it| it.place.id).collect()
    }

    #[test]
    fn a_newer_version_goes_in_the_place_of_the_older_and_no_further() {
        let mut set = ReadySet::default();
        put(&mut set, of_task(sample(1, 10, 1), 7, 1, 3));
        put(&mut set, of_task(sample(2, 50, 1), 7, 3, 5));
        put(&mut set, of_task(sample(3, 40, 1), 7, 2, 4));
        put(&mut set, of_task(sample(4, 20, 1), 8, 1, 3));
        put(&mut set, of_task(sample(5, 90, 1), 9, 1, 1));
        assert_eq!(drained(set), [5, 2, 3, 1, 4]);
    }

    #[test]
    fn an_id_stands_once_with_its_newest_fence() {
        let mut set = ReadySet::default();
        put(&mut set, of_task(sample(1, 10, 2), 7, 1, 3));
        put(&mut set, of_task(sample(1, 10, 1), 7, 1, 1));
        put(&mut set, of_task(sample(1, 10, 2), 7, 1, 1));
        assert_eq!((set.len(), set.order.iter().next().unwrap().priority.level()), (1, 3));
        put(&mut set, of_task(sample(1, 10, 3), 7, 1, 1));
        set.remove(1, 2);
        assert_eq!((set.len(), set.by_id.len()), (1, 1), "a newer fence stays");
        set.remove(1, 3);
        assert_eq!((set.len(), set.by_id.len()), (0, 0));
    }

    #[test]
    fn what_is_parked_stands_in_nobodys_way_and_comes_back_to_its_place() {
        let mut set = ReadySet::default();
        let (lane, other) = (Lane::Key("a".to_owned()), Lane::Version(">=2".to_owned()));
        (1..=4).for_each(|id| put(&mut set, sample(id, id, 1)));
        set.park(&lane, sample(1, 1, 1), Retries::default());
        set.park(&lane, sample(2, 2, 1), Retries::default());
        set.park(&other, sample(3, 3, 1), Retries::default());
        assert_eq!((set.len(), set.parked()), (1, 3));
        put(&mut set, sample(1, 1, 1));
        set.park(&other, sample(1, 1, 1), Retries::default());
        assert_eq!(
            set.lanes(None, 9),
            [(lane.clone(), 2), (other.clone(), 1)],
            "offered again it stays parked"
        );
        assert_eq!(set.lanes(Some(&lane), 9), [(other.clone(), 1)]);
        put(&mut set, sample(3, 3, 2));
        assert_eq!((set.len(), set.parked()), (2, 2), "a newer fence takes its place");
        assert_eq!(set.unpark(&lane, 1), 1);
        set.remove(2, 1);
        assert_eq!((set.parked(), set.lanes.len(), set.unpark(&lane, 9)), (0, 0, 0));
        assert_eq!(drained(set), [1, 3, 4]);
    }
}
