//! The waiting tasks of one queue in their dispatch order. The chooser selects the level; within it the
//! oldest is first, by due time, then by id. Of several versions of a task, the newest is first, at the place
//! of the one whose turn it is. Every ready set in memory uses this. Must not know what a task waits for.

use crate::{
    chooser::{Chooser, Draws, LEVELS, Level},
    time::Millis,
};
use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

/// A task's place: level, due time and id.
pub type Position = (Level, Millis, i64);

/// An element of an order.
pub trait Versioned {
    /// The task's id and its version: elements with the same id are versions of one task.
    fn version(&self) -> (i64, i64);
}

#[derive(Debug)]
pub struct Order<T> {
    tasks: BTreeMap<Position, T>,
    /// The number of tasks in each level.
    waiting: [usize; LEVELS],
    /// The positions by task id, version and id.
    versions: BTreeMap<(i64, i64, i64), Position>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { tasks: BTreeMap::new(), waiting: [0; LEVELS], versions: BTreeMap::new() }
    }
}

impl<T: Versioned> Order<T> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    #[must_use]
    pub fn get(&self, position: &Position) -> Option<&T> {
        self.tasks.get(position)
    }

    /// Iterates over the tasks by position.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.tasks.values()
    }

    /// The first of each level.
    pub fn oldest(&self) -> impl Iterator<Item = &T> {
        let mut after = Unbounded;
        std::iter::from_fn(move || {
            let (position, task) = self.tasks.range((after, Unbounded)).next()?;
            after = Excluded((position.0, Millis::MAX, i64::MAX));
            Some(task)
        })
    }

    /// Replaces an element at the same place.
    pub fn insert(&mut self, position: Position, task: T) {
        self.remove(&position);
        let (task_id, version) = task.version();
        self.versions.insert((task_id, version, position.2), position);
        if let Some(count) = self.waiting.get_mut(position.0.index()) {
            *count += 1;
        }
        self.tasks.insert(position, task);
    }

    pub fn remove(&mut self, position: &Position) -> Option<T> {
        let task = self.tasks.remove(position)?;
        let (task_id, version) = task.version();
        self.versions.remove(&(task_id, version, position.2));
        if let Some(count) = self.waiting.get_mut(position.0.index()) {
            *count -= 1;
        }
        Some(task)
    }

    /// The next by the chooser; a level that is the only one costs no draw.
    pub fn pop(&mut self, chooser: &Chooser, draws: &mut Draws) -> Option<T> {
        self.pop_with_position(chooser, draws).map(|(_, task)| task)
    }

    /// The same, with its place.
    pub fn pop_with_position(&mut self, chooser: &Chooser, draws: &mut Draws) -> Option<(Position, T)> {
        let level = chooser.choose(&self.waiting, draws)?;
        let (_, first) = self.tasks.range((level, Millis(i64::MIN), i64::MIN)..).next()?;
        let (task_id, _) = first.version();
        let all = (task_id, i64::MIN, i64::MIN)..=(task_id, i64::MAX, i64::MAX);
        let newest = *self.versions.range(all).next_back()?.1;
        self.remove(&newest).map(|task| (newest, task))
    }

    /// Removes the elements that a caller selects, by place.
    pub fn extract(&mut self, is_one: impl Fn(&T) -> bool) -> Vec<T> {
        let those: Vec<Position> =
            self.tasks.iter().filter(|(_, task)| is_one(task)).map(|(at, _)| *at).collect();
        those.iter().filter_map(|position| self.remove(position)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        settings::{Choice, Retries},
        task::Priority,
    };

    const STRICT: Chooser = Chooser { choice: Choice::HighestFirst { percent: 100 }, retries_percent: None };

    #[derive(Debug, PartialEq)]
    struct Task {
        id: i64,
        version: (i64, i64),
    }

    impl Versioned for Task {
        fn version(&self) -> (i64, i64) {
            self.version
        }
    }

    fn put(order: &mut Order<Task>, id: i64, level: u8, due_at: i64, version: (i64, i64)) -> Position {
        let level = Level::of(Priority::new(level).unwrap(), 0, Retries::default());
        let position = (level, Millis(due_at), id);
        order.insert(position, Task { id, version });
        position
    }

    #[test]
    fn by_level_then_by_age_and_the_newest_version_in_the_place_of_the_oldest() {
        let mut order = Order::default();
        put(&mut order, 1, 3, 10, (7, 1));
        put(&mut order, 2, 5, 50, (7, 3));
        put(&mut order, 3, 4, 40, (7, 2));
        put(&mut order, 4, 3, 20, (4, 0));
        put(&mut order, 6, 3, 20, (6, 0));
        put(&mut order, 5, 1, 90, (5, 0));
        let mut draws = Draws::new(1);
        let next = || order.pop(&STRICT, &mut draws).map(|task| task.id);
        assert_eq!(std::iter::from_fn(next).collect::<Vec<_>>(), [5, 2, 3, 1, 4, 6]);
        assert!(order.is_empty() && order.versions.is_empty() && order.waiting == [0; LEVELS]);
    }

    #[test]
    fn what_is_taken_out_leaves_nothing_behind() {
        let mut order = Order::default();
        let first = put(&mut order, 1, 3, 10, (1, 0));
        assert_eq!(put(&mut order, 1, 3, 10, (1, 0)), first);
        put(&mut order, 2, 3, 5, (2, 0));
        put(&mut order, 3, 2, 7, (3, 0));
        assert_eq!((order.len(), order.get(&first).map(|task| task.id)), (3, Some(1)));
        let odd: Vec<i64> = order.extract(|task| task.id % 2 == 1).iter().map(|task| task.id).collect();
        assert_eq!((odd, order.remove(&first)), (vec![3, 1], None));
        assert_eq!(order.iter().map(|task| task.id).collect::<Vec<_>>(), [2]);
        assert_eq!((order.versions.len(), order.waiting.iter().sum::<usize>()), (1, 1));
    }
}
