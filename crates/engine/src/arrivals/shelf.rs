//! What was leased ahead of its instant in one queue, has fired, and waits a moment for an executor that asks. It stands in the order
//! of the queue's line. Must not know whether something in the line goes before it.

use crate::clock::Moment;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    chooser::{Chooser, Draws, Level},
    order::{Order, Position, Versioned},
    settings::Retries,
    time::Millis,
};
use std::collections::BTreeSet;

/// What an executor that waits is given.
#[derive(Debug)]
pub(crate) enum Given {
    /// Fired: to be leased.
    Fired(Vec<HotEntry>),
    /// Leased ahead of its time, and fired.
    Leased(Vec<Shelved>),
}

/// Leased ahead of its time, and fired; it waits until an executor asks.
#[derive(Debug)]
pub(crate) struct Shelved {
    pub(crate) assignment: Assignment,
    /// When its lease was asked for.
    pub(crate) asked: Moment,
    /// When it came to the shelf.
    pub(crate) since: Millis,
}

impl Versioned for Box<Shelved> {
    fn version(&self) -> (i64, i64) {
        (self.assignment.task_id, self.assignment.task_version)
    }
}

impl Shelved {
    /// Only of queues whose starts nothing limits or orders: neither how they choose nor where retries stand is set.
    fn position(&self) -> Position {
        let Assignment { priority, attempt, due_at, place, .. } = &self.assignment;
        (Level::of(*priority, attempt.saturating_sub(1), Retries::default()), *due_at, place.id)
    }
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    order: Order<Box<Shelved>>,
    /// How long each stands here.
    since: BTreeSet<(Millis, Position)>,
}

impl Shelf {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn put(&mut self, leased: impl IntoIterator<Item = Shelved>) {
        for shelved in leased {
            let position = shelved.position();
            self.remove(&position);
            self.since.insert((shelved.since, position));
            self.order.insert(position, Box::new(shelved));
        }
    }

    fn remove(&mut self, position: &Position) -> Option<Shelved> {
        let shelved = self.order.remove(position)?;
        self.since.remove(&(shelved.since, *position));
        Some(*shelved)
    }

    /// The next, at most so many. Those that are not good any more are passed over, and stay.
    pub(super) fn take(&mut self, most: usize, is_good: impl Fn(&Shelved) -> bool) -> Vec<Shelved> {
        let mut draws = Draws::new(fastrand::u32(..));
        let (mut taken, mut back) = (Vec::new(), Vec::new());
        while taken.len() < most
            && let Some((position, shelved)) = self.order.pop_with_position(&Chooser::default(), &mut draws)
        {
            self.since.remove(&(shelved.since, position));
            if is_good(&shelved) { taken.push(*shelved) } else { back.push(*shelved) }
        }
        self.put(back);
        taken
    }

    /// Those that stand here since before an instant.
    pub(super) fn take_before(&mut self, before: Millis) -> Vec<Shelved> {
        let is_old = |(since, _): &&(Millis, Position)| *since < before;
        let those: Vec<Position> =
            self.since.iter().take_while(is_old).map(|(_, position)| *position).collect();
        those.iter().filter_map(|position| self.remove(position)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::moment::Moment, live::model::lease_of, pipeline::drain::tests::entry};

    fn shelved(id: i64, due_at: i64, since: i64) -> Shelved {
        Shelved { assignment: lease_of(&entry(id, due_at)), asked: Moment::of_test(), since: Millis(since) }
    }

    fn ids(leased: &[Shelved]) -> Vec<i64> {
        leased.iter().map(|shelved| shelved.assignment.place.id).collect()
    }

    #[test]
    fn the_oldest_task_goes_first_and_what_is_not_good_stays() {
        let mut shelf = Shelf::default();
        shelf.put([shelved(1, 30, 50), shelved(2, 10, 60), shelved(3, 20, 40)]);
        assert_eq!(ids(&shelf.take(1, |_| true)), [2]);
        assert_eq!(ids(&shelf.take(9, |one| one.assignment.place.id == 1)), [1]);
        assert_eq!(ids(&shelf.take_before(Millis(40))), Vec::<i64>::new());
        assert_eq!(ids(&shelf.take_before(Millis(41))), [3]);
        assert!(shelf.is_empty() && shelf.since.is_empty());
    }

    #[test]
    fn the_newest_version_of_a_task_goes_first() {
        let mut shelf = Shelf::default();
        let version = |id, task_version| {
            let mut one = shelved(id, id, 1);
            (one.assignment.task_id, one.assignment.task_version) = (7, task_version);
            one
        };
        shelf.put([version(1, 1), version(2, 2), shelved(3, 0, 1)]);
        assert_eq!(ids(&shelf.take(9, |_| true)), [3, 2, 1]);
    }
}
