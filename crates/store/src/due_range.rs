//! A range of due times that a search reads from one of its ends, and the position it has reached. Knows no store.

use punctual_contract::store::{Along, DuePosition, Page, Query};
use punctual_domain::{task::Task, time::Millis};
use std::cmp::Reverse;

/// The maximum number of tasks that one read passes over, in all partitions together, and the minimum in one.
const TASKS_MAX: usize = 20_000;
const OF_ONE_MIN: usize = 50;

/// The maximum number of tasks that one read passes over in one partition.
pub(crate) fn tasks_of_one(partitions: u16) -> usize {
    (TASKS_MAX / usize::from(partitions.max(1))).max(OF_ONE_MIN)
}

/// A range of due positions, without its upper end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRange {
    pub(crate) from: DuePosition,
    pub(crate) before: DuePosition,
    /// True if the search goes from the earliest on; otherwise it goes from the latest back.
    pub(crate) is_rising: bool,
}

impl DueRange {
    pub(crate) fn of(query: &Query) -> Self {
        let at = |due_at| DuePosition { due_at, id: i64::MIN };
        let from = at(query.due_after.unwrap_or(Millis(i64::MIN)));
        let before = at(query.due_before.unwrap_or(Millis(i64::MAX)));
        let is_rising = query.earliest_first;
        match query.behind_due {
            Some(behind) if is_rising => Self { from: from.max(next(behind)), before, is_rising },
            Some(behind) => Self { from, before: before.min(behind), is_rising },
            None => Self { from, before, is_rising },
        }
    }

    /// Narrows the range to what was read: one part was searched no further than to this task.
    pub(crate) fn narrow(&mut self, last: DuePosition) {
        if self.is_rising {
            self.before = self.before.min(next(last));
        } else {
            self.from = self.from.max(last);
        }
    }

    /// The page of the tasks that all partitions have in the range, which is a part of `whole`.
    pub(crate) fn page(self, whole: Self, mut tasks: Vec<Task>, limit: usize) -> Page {
        self.sort(&mut tasks);
        // A partition that moves may be met in two databases.
        tasks.dedup_by_key(|task| task.place.id);
        tasks.truncate(limit);
        let full = tasks.last().filter(|_| tasks.len() >= limit).map(DuePosition::of);
        let next_behind_due = full.or_else(|| self.looked_to(whole));
        Page { tasks, next_behind_due, along: Along::DueTime, ..Page::default() }
    }

    /// The task after which there may be more. `None` if the complete range was searched.
    fn looked_to(self, whole: Self) -> Option<DuePosition> {
        if self.is_rising {
            (self.before < whole.before).then(|| DuePosition { id: self.before.id - 1, ..self.before })
        } else {
            (self.from > whole.from).then_some(self.from)
        }
    }

    fn sort(self, tasks: &mut [Task]) {
        if self.is_rising {
            tasks.sort_by_key(DuePosition::of);
        } else {
            tasks.sort_by_key(|task| Reverse(DuePosition::of(task)));
        }
    }
}

/// The first that is behind. Ids of tasks are never the last number.
fn next(at: DuePosition) -> DuePosition {
    DuePosition { id: at.id.saturating_add(1), ..at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(due_at: i64, id: i64) -> DuePosition {
        DuePosition { due_at: Millis(due_at), id }
    }

    #[test]
    fn a_rising_look_goes_on_behind_what_it_has_seen_and_ends_with_the_range() {
        let query = Query { earliest_first: true, due_before: Some(Millis(9)), ..Query::default() };
        let whole = DueRange::of(&query);
        let mut range = whole;
        assert_eq!(range.looked_to(whole), None);
        range.narrow(at(7, 3));
        range.narrow(at(8, 1));
        let behind = range.looked_to(whole);
        assert_eq!(behind, Some(at(7, 3)), "what the shortest look has seen");
        let rest = DueRange::of(&Query { behind_due: behind, ..query });
        assert_eq!((rest.from, rest.before), (at(7, 4), at(9, i64::MIN)));
    }

    #[test]
    fn a_falling_look_does_so_the_other_way_round() {
        let query = Query { due_after: Some(Millis(2)), ..Query::default() };
        let whole = DueRange::of(&query);
        let mut range = whole;
        range.narrow(at(7, 3));
        range.narrow(at(5, 1));
        assert_eq!(range.looked_to(whole), Some(at(7, 3)));
        let rest = DueRange::of(&Query { behind_due: Some(at(7, 3)), ..query });
        assert_eq!((rest.from, rest.before), (at(2, i64::MIN), at(7, 3)));
    }
}
