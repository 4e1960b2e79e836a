//! Preleased tasks of one queue that have fired and wait briefly for an executor, in the order of the queue's
//! line. Must not know whether a task in the line precedes them.

use crate::clock::SteadyReading;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    chooser::{Chooser, Draws, Level},
    order::{Order, Position, Versioned},
    settings::Retries,
    time::Millis,
};
use std::collections::BTreeSet;

/// The delivery to a waiting executor.
#[derive(Debug)]
pub(crate) enum Given {
    /// Fired: to be leased.
    Fired(Vec<HotEntry>),
    /// Leased ahead of its time, and fired.
    Leased(Vec<Preleased>),
}

/// Leased ahead of its time, and fired; it waits until an executor asks.
#[derive(Debug)]
pub(crate) struct Preleased {
    pub(crate) assignment: Assignment,
    /// The instant of the request for the lease.
    pub(crate) asked: SteadyReading,
    /// The instant at which the task was added here.
    pub(crate) since: Millis,
}

impl Versioned for Box<Preleased> {
    fn version(&self) -> (i64, i64) {
        (self.assignment.task_id, self.assignment.task_version)
    }
}

impl Preleased {
    /// Only for queues whose starts nothing limits or orders: they set neither a selection nor a place for
    /// retries.
    fn position(&self) -> Position {
        let Assignment { priority, attempt, due_at, place, .. } = &self.assignment;
        (Level::of(*priority, attempt.saturating_sub(1), Retries::default()), *due_at, place.id)
    }
}

#[derive(Debug, Default)]
pub(super) struct PreleasedTasks {
    order: Order<Box<Preleased>>,
    /// The preleased tasks by the instant at which they arrived here.
    since: BTreeSet<(Millis, Position)>,
}

impl PreleasedTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn put(&mut self, leased: impl IntoIterator<Item = Preleased>) {
        for preleased in leased {
            let position = preleased.position();
            self.remove(&position);
            self.since.insert((preleased.since, position));
            self.order.insert(position, Box::new(preleased));
        }
    }

    fn remove(&mut self, position: &Position) -> Option<Preleased> {
        let preleased = self.order.remove(position)?;
        self.since.remove(&(preleased.since, *position));
        Some(*preleased)
    }

    /// Returns the next tasks, at most `most`. It skips tasks that are no longer good, and leaves them here.
    pub(super) fn take(&mut self, most: usize, is_good: impl Fn(&Preleased) -> bool) -> Vec<Preleased> {
        let mut draws = Draws::new(fastrand::u32(..));
        let (mut taken, mut back) = (Vec::new(), Vec::new());
        while taken.len() < most
            && let Some((position, preleased)) = self.order.pop_with_position(&Chooser::default(), &mut draws)
        {
            self.since.remove(&(preleased.since, position));
            if is_good(&preleased) { taken.push(*preleased) } else { back.push(*preleased) }
        }
        self.put(back);
        taken
    }

    /// The tasks that were added before an instant.
    pub(super) fn take_before(&mut self, before: Millis) -> Vec<Preleased> {
        let is_old = |(since, _): &&(Millis, Position)| *since < before;
        let those: Vec<Position> =
            self.since.iter().take_while(is_old).map(|(_, position)| *position).collect();
        those.iter().filter_map(|position| self.remove(position)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::steady_reading::SteadyReading, live::model::lease_of, pipeline::drain::tests::entry};

    fn preleased(id: i64, due_at: i64, since: i64) -> Preleased {
        Preleased {
            assignment: lease_of(&entry(id, due_at)),
            asked: SteadyReading::of_test(),
            since: Millis(since),
        }
    }

    fn ids(leased: &[Preleased]) -> Vec<i64> {
        leased.iter().map(|preleased| preleased.assignment.place.id).collect()
    }

    #[test]
    fn the_oldest_task_goes_first_and_what_is_not_good_stays() {
        let mut preleased_tasks = PreleasedTasks::default();
        preleased_tasks.put([preleased(1, 30, 50), preleased(2, 10, 60), preleased(3, 20, 40)]);
        assert_eq!(ids(&preleased_tasks.take(1, |_| true)), [2]);
        assert_eq!(ids(&preleased_tasks.take(9, |one| one.assignment.place.id == 1)), [1]);
        assert_eq!(ids(&preleased_tasks.take_before(Millis(40))), Vec::<i64>::new());
        assert_eq!(ids(&preleased_tasks.take_before(Millis(41))), [3]);
        assert!(preleased_tasks.is_empty() && preleased_tasks.since.is_empty());
    }

    #[test]
    fn the_newest_version_of_a_task_goes_first() {
        let mut preleased_tasks = PreleasedTasks::default();
        let version = |id, task_version| {
            let mut one = preleased(id, id, 1);
            (one.assignment.task_id, one.assignment.task_version) = (7, task_version);
            one
        };
        preleased_tasks.put([version(1, 1), version(2, 2), preleased(3, 0, 1)]);
        assert_eq!(ids(&preleased_tasks.take(9, |_| true)), [3, 2, 1]);
    }
}
