//! Slots by why and when they are looked for: one index for every such question. Must not know what a stage is: the table
//! says where a slot belongs.

use punctual_domain::time::Millis;
use std::collections::BTreeMap;

/// Why slots are looked for, and of which instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Those that wait, and were not yet looked at for a lease ahead of their instant: that instant.
    Candidate,
    /// Those whose lease ahead is asked for or made: the same.
    Leased,
    /// Those that have fired and stand behind the gate of their database: the same.
    Database,
    /// Those that have fired and are tried again: the same.
    Retry,
    /// Those of which a lease is in doubt: when it is looked at next.
    Doubt,
    /// Those that were handed over, and of which the store does not know who has them: since when. And those of them of which
    /// it is being told.
    Unreported,
    Reporting,
}

const GROUPS: usize = Group::Reporting as usize + 1;

#[derive(Debug, Default)]
pub(super) struct Index {
    slots: BTreeMap<(Group, Millis, i64), usize>,
    counts: [usize; GROUPS],
}

impl Index {
    /// `id`: of the task.
    pub(super) fn insert(&mut self, group: Group, at: Millis, id: i64, nth: usize) {
        if self.slots.insert((group, at, id), nth).is_none() {
            self.count(group, |count| count + 1);
        }
    }

    pub(super) fn remove(&mut self, group: Group, at: Millis, id: i64) {
        if self.slots.remove(&(group, at, id)).is_some() {
            self.count(group, |count| count - 1);
        }
    }

    fn count(&mut self, group: Group, next: impl Fn(usize) -> usize) {
        if let Some(count) = self.counts.get_mut(group as usize) {
            *count = next(*count);
        }
    }

    pub(super) fn len(&self, group: Group) -> usize {
        self.counts.get(group as usize).copied().unwrap_or_default()
    }

    pub(super) fn is_empty(&self, group: Group) -> bool {
        self.len(group) == 0
    }

    /// Those until an instant, the earliest first.
    pub(super) fn until(&self, group: Group, until: Millis) -> impl Iterator<Item = usize> {
        let range = (group, Millis(i64::MIN), i64::MIN)..=(group, until, i64::MAX);
        self.slots.range(range).map(|(_, nth)| *nth)
    }

    pub(super) fn all(&self, group: Group) -> impl Iterator<Item = usize> {
        self.until(group, Millis::MAX)
    }

    #[cfg(test)]
    pub(super) fn has(&self, group: Group, at: Millis, id: i64, nth: usize) -> bool {
        self.slots.get(&(group, at, id)) == Some(&nth)
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        assert_eq!(self.counts.iter().sum::<usize>(), self.slots.len());
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_read_by_itself_in_the_order_of_instants() {
        let mut index = Index::default();
        for (group, at, id) in [
            (Group::Leased, 5, 1),
            (Group::Candidate, 9, 2),
            (Group::Leased, 3, 3),
            (Group::Leased, 3, 3),
            (Group::Database, 1, 4),
        ] {
            index.insert(group, Millis(at), id, usize::try_from(id).unwrap());
        }
        let leased = |index: &Index, until| index.until(Group::Leased, Millis(until)).collect::<Vec<_>>();
        assert_eq!((leased(&index, 4), leased(&index, 5)), (vec![3], vec![3, 1]));
        assert_eq!((index.len(Group::Leased), index.total()), (2, 4));
        index.remove(Group::Leased, Millis(5), 1);
        index.remove(Group::Leased, Millis(5), 1);
        assert_eq!((leased(&index, 9), index.len(Group::Leased)), (vec![3], 1));
        index.remove(Group::Candidate, Millis(9), 2);
        assert!(index.is_empty(Group::Candidate) && !index.is_empty(Group::Database));
    }
}
