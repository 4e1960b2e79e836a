//! Finds slots by purpose and time: one index for all such questions. Must not know what a stage is: the
//! table determines where a slot belongs.

use super::line::{Line, Lines, ParkedIn, Served};
use punctual_domain::{name::QueueKey, order::Position, time::Millis};
use std::{collections::BTreeMap, sync::Arc};

/// The reason to look up a slot, and the instant by which the slots are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Unfired tasks not yet considered for a prelease, by due time.
    Candidate,
    /// Tasks whose claim is requested or made, without a lease, by due time.
    Claimed,
    /// Tasks whose prelease is requested or made, by due time.
    Leased,
    /// Fired tasks behind the gate of their database, by due time.
    Database,
    /// Fired tasks that are tried again, by the same instant.
    Retry,
    /// Fired tasks that the store does not know to be ready, by the same instant.
    Unpersisted,
    /// Tasks that are served from here and have a deadline, by that deadline.
    Deadline,
    /// Tasks with a lease in doubt, by the time of the next read.
    Doubt,
    /// Handed over tasks whose holder the store does not know, by the time of the hand-over. In `Reporting`, the
    /// store is being requested to record them.
    Unreported,
    Reporting,
    /// Handed over tasks whose holder needs no report, by the time until which their facts are good.
    Reported,
    /// Tasks that were handed over while their database is unavailable, by the instant at which they were due.
    ForLater,
    /// Tasks that were passed to another engine, by the time of that.
    Passed,
}

const GROUPS: usize = Group::Passed as usize + 1;

/// A place in the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// An instant in a group, with the id of the task.
    At(Group, Millis, i64),
    /// A task of a queue that is served from the table: its place in the queue's order or in a lane, and its id and
    /// version.
    Served(Arc<QueueKey>, ParkedIn, Position, (i64, i64)),
}

#[derive(Debug, Default)]
pub(super) struct Index {
    slots: BTreeMap<(Group, Millis, i64), usize>,
    counts: [usize; GROUPS],
    lines: Lines,
}

impl Index {
    pub(super) fn insert(&mut self, rank: Rank, nth: usize) {
        match rank {
            Rank::At(group, at, id) => {
                if self.slots.insert((group, at, id), nth).is_none() {
                    self.count(group, |count| count + 1);
                }
            }
            Rank::Served(queue, aside, position, version) => {
                self.lines.entry(queue).or_default().insert(&aside, position, Served { nth, version });
            }
        }
    }

    pub(super) fn remove(&mut self, rank: &Rank) {
        match rank {
            Rank::At(group, at, id) => {
                if self.slots.remove(&(*group, *at, *id)).is_some() {
                    self.count(*group, |count| count - 1);
                }
            }
            Rank::Served(queue, aside, position, _) => {
                let Some(line) = self.lines.get_mut(queue) else { return };
                line.remove(aside, position);
                if line.is_empty() {
                    self.lines.remove(queue);
                }
            }
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

    /// The slots until an instant, the earliest first.
    pub(super) fn until(&self, group: Group, until: Millis) -> impl Iterator<Item = usize> {
        let range = (group, Millis(i64::MIN), i64::MIN)..=(group, until, i64::MAX);
        self.slots.range(range).map(|(_, nth)| *nth)
    }

    pub(super) fn all(&self, group: Group) -> impl Iterator<Item = usize> {
        self.until(group, Millis::MAX)
    }

    /// The line of one queue.
    pub(super) fn line(&self, queue: &QueueKey) -> Option<&Line> {
        self.lines.get(queue)
    }

    /// The line to pop from; the caller removes a popped slot from its rank.
    pub(super) fn line_mut(&mut self, queue: &QueueKey) -> Option<&mut Line> {
        self.lines.get_mut(queue)
    }

    /// The queue's key as the tasks in its line share it.
    pub(super) fn named(&self, queue: &Arc<QueueKey>) -> Arc<QueueKey> {
        Arc::clone(self.lines.get_key_value(queue).map_or(queue, |(known, _)| known))
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (&Arc<QueueKey>, &Line)> {
        self.lines.iter()
    }

    #[cfg(test)]
    pub(super) fn has(&self, rank: &Rank, nth: usize) -> bool {
        match rank {
            Rank::At(group, at, id) => self.slots.get(&(*group, *at, *id)) == Some(&nth),
            Rank::Served(queue, aside, position, _) => {
                self.line(queue).and_then(|line| line.at(aside, position)) == Some(nth)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        assert_eq!(self.counts.iter().sum::<usize>(), self.slots.len());
        assert!(self.lines.values().all(|line| !line.is_empty()));
        assert!(self.lines.values().all(|line| line.line_counts().all() == line.all().count()));
        self.slots.len() + self.lines.values().flat_map(Line::all).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;
    use punctual_domain::{chooser::Level, settings::Retries, task::Priority};

    fn served(id: i64, at: i64) -> Rank {
        let level = Level::of(Priority::default(), 0, Retries::default());
        Rank::Served(entry(id, at).queue, None, (level, Millis(at), id), (id, 0))
    }

    fn served_in(index: &Index) -> Vec<usize> {
        index.lines().flat_map(|(_, line)| line.all()).collect()
    }

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
        index.insert(served(5, 2), 5);
        index.insert(served(6, 1), 6);
        let leased = |index: &Index, until| index.until(Group::Leased, Millis(until)).collect::<Vec<_>>();
        assert_eq!((leased(&index, 4), leased(&index, 5)), (vec![3], vec![3, 1]));
        assert_eq!((index.len(Group::Leased), index.total()), (2, 6));
        assert_eq!(served_in(&index), [6, 5]);
        assert!(index.has(&served(6, 1), 6) && !index.has(&served(6, 1), 5));
        for _ in 0..2 {
            index.remove(&Rank::At(Group::Leased, Millis(5), 1));
            index.remove(&served(6, 1));
        }
        assert_eq!((leased(&index, 9), index.len(Group::Leased)), (vec![3], 1));
        index.remove(&Rank::At(Group::Candidate, Millis(9), 2));
        assert!(index.is_empty(Group::Candidate) && !index.is_empty(Group::Reporting));
        assert_eq!(
            (served_in(&index), index.line(&entry(5, 2).queue).map(|line| line.line_counts().ready)),
            (vec![5], Some(1))
        );
    }
}
