//! Slots by why and when they are looked for: one index for every such question. Must not know what a stage is: the table
//! says where a slot belongs.

use punctual_contract::hot::HotEntry;
use punctual_domain::{name::QueueKey, time::Millis};
use std::{collections::BTreeMap, sync::Arc};

/// Why slots are looked for, and of which instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Those that wait, and were not yet looked at for a lease ahead of their instant: that instant.
    Candidate,
    /// Those whose claim is asked for or made, and no lease: the same.
    Claimed,
    /// Those whose lease ahead is asked for or made: the same.
    Leased,
    /// Those that have fired and stand behind the gate of their database: the same.
    Database,
    /// Those that have fired and are tried again: the same.
    Retry,
    /// Those that have fired, and the store does not know to be ready: the same.
    Unpersisted,
    /// Those of which a lease is in doubt: when it is looked at next.
    Doubt,
    /// Those that were handed over, and of which the store does not know who has them: since when. And those of them of which
    /// it is being told.
    Unreported,
    Reporting,
    /// Those that were handed over, and of which nothing is to be reported: until when what is known of them is good.
    Reported,
}

const GROUPS: usize = Group::Reported as usize + 1;

/// A place in the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// With the id of the task.
    At(Group, Millis, i64),
    /// Of a queue that is served from the table: by level, instant and id.
    Served(Arc<QueueKey>, u8, Millis, i64),
}

impl Rank {
    pub(super) fn served(entry: &HotEntry) -> Self {
        Self::Served(Arc::clone(&entry.queue), entry.priority.level(), entry.due_at, entry.place.id)
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    slots: BTreeMap<Rank, usize>,
    counts: [usize; GROUPS],
}

impl Index {
    pub(super) fn insert(&mut self, rank: Rank, nth: usize) {
        let group = group_of(&rank);
        if self.slots.insert(rank, nth).is_none() {
            self.count(group, |count| count + 1);
        }
    }

    pub(super) fn remove(&mut self, rank: &Rank) {
        if self.slots.remove(rank).is_some() {
            self.count(group_of(rank), |count| count - 1);
        }
    }

    fn count(&mut self, group: Option<Group>, next: impl Fn(usize) -> usize) {
        if let Some(count) = group.and_then(|group| self.counts.get_mut(group as usize)) {
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
        let first = Rank::At(group, Millis(i64::MIN), i64::MIN);
        self.slots.range(first..=Rank::At(group, until, i64::MAX)).map(|(_, nth)| *nth)
    }

    pub(super) fn all(&self, group: Group) -> impl Iterator<Item = usize> {
        self.until(group, Millis::MAX)
    }

    /// Those of one queue, the most urgent first.
    pub(super) fn served(&self, queue: &Arc<QueueKey>) -> impl Iterator<Item = usize> {
        let first = Rank::Served(Arc::clone(queue), 0, Millis(i64::MIN), i64::MIN);
        let last = Rank::Served(Arc::clone(queue), u8::MAX, Millis::MAX, i64::MAX);
        self.slots.range(first..=last).map(|(_, nth)| *nth)
    }

    /// Those of every queue.
    pub(super) fn all_served(&self) -> impl Iterator<Item = usize> {
        let ranks = self.slots.iter().rev().take_while(|(rank, _)| matches!(rank, Rank::Served(..)));
        ranks.map(|(_, nth)| *nth)
    }

    #[cfg(test)]
    pub(super) fn has(&self, rank: &Rank, nth: usize) -> bool {
        self.slots.get(rank) == Some(&nth)
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        assert_eq!(self.counts.iter().sum::<usize>() + self.all_served().count(), self.slots.len());
        self.slots.len()
    }
}

const fn group_of(rank: &Rank) -> Option<Group> {
    match rank {
        Rank::At(group, ..) => Some(*group),
        Rank::Served(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn each_group_is_read_by_itself_in_the_order_of_instants() {
        let mut index = Index::default();
        for (group, at, id) in [
            (Group::Leased, 5, 1),
            (Group::Candidate, 9, 2),
            (Group::Leased, 3, 3),
            (Group::Leased, 3, 3),
            (Group::Reporting, 1, 4),
        ] {
            index.insert(Rank::At(group, Millis(at), id), usize::try_from(id).unwrap());
        }
        index.insert(Rank::served(&entry(5, 2)), 5);
        index.insert(Rank::served(&entry(6, 1)), 6);
        let leased = |index: &Index, until| index.until(Group::Leased, Millis(until)).collect::<Vec<_>>();
        assert_eq!((leased(&index, 4), leased(&index, 5)), (vec![3], vec![3, 1]));
        assert_eq!((index.len(Group::Leased), index.total()), (2, 6));
        assert_eq!(index.served(&entry(5, 2).queue).collect::<Vec<_>>(), [6, 5]);
        for _ in 0..2 {
            index.remove(&Rank::At(Group::Leased, Millis(5), 1));
            index.remove(&Rank::served(&entry(6, 1)));
        }
        assert_eq!((leased(&index, 9), index.len(Group::Leased)), (vec![3], 1));
        index.remove(&Rank::At(Group::Candidate, Millis(9), 2));
        assert!(index.is_empty(Group::Candidate) && !index.is_empty(Group::Reporting));
        assert_eq!(index.all_served().collect::<Vec<_>>(), [5]);
    }
}
