//! Fired tasks of one queue that wait for executors here: in its order, or in a lane, where a limit, a
//! version or a kind holds them back without blocking later tasks. A lane is named after the reason. Holds
//! numbers of slots; must not know what a stage is, nor whether a lane is open.

use hashbrown::HashMap;
use punctual_contract::hot::{Admission, ParkReason};
use punctual_domain::{
    chooser::Draws,
    name::QueueKey,
    order::{Order, Position, Versioned},
};
use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

/// The number of a slot that is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) nth: usize,
    pub(super) version: (i64, i64),
}

impl Versioned for Served {
    fn version(&self) -> (i64, i64) {
        self.version
    }
}

/// The lane of a parked task, or `None` in the order. One name is shared by all tasks that are parked in the lane.
pub(super) type ParkedIn = Option<Arc<ParkReason>>;

#[derive(Debug, Default)]
pub(super) struct Line {
    order: Order<Served>,
    /// The lanes. No lane is empty.
    lanes: BTreeMap<Arc<ParkReason>, Order<Served>>,
    parked: usize,
    /// It was long, and has left tasks to the store.
    pub(super) has_left_some: bool,
}

/// The number of tasks of a queue in each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    /// The tasks in the queue's order.
    pub(crate) ready: usize,
    pub(crate) parked: usize,
}

impl LineCounts {
    pub(crate) const fn all(self) -> usize {
        self.ready + self.parked
    }
}

impl Line {
    pub(super) fn insert(&mut self, aside: &ParkedIn, position: Position, served: Served) {
        match aside {
            None => self.order.insert(position, served),
            Some(lane) => {
                self.lanes.entry(Arc::clone(lane)).or_default().insert(position, served);
                self.parked += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, aside: &ParkedIn, position: &Position) {
        let Some(lane) = aside else {
            self.order.remove(position);
            return;
        };
        let Some(parked) = self.lanes.get_mut(lane) else { return };
        self.parked -= usize::from(parked.remove(position).is_some());
        if parked.is_empty() {
            self.lanes.remove(lane);
        }
    }

    /// The next of the order, which leaves it.
    pub(super) fn pop(&mut self, admission: &Admission, draws: &mut Draws) -> Option<usize> {
        self.order.pop(&admission.chooser, draws).map(|served| served.nth)
    }

    /// The first of a lane, by position.
    pub(super) fn first_of(&self, lane: &ParkReason) -> Option<usize> {
        self.lanes.get(lane)?.iter().next().map(|served| served.nth)
    }

    /// Lanes in which something is parked, in order, after one, and how much.
    pub(super) fn lanes(&self, after: Option<&ParkReason>, limit: usize) -> Vec<(ParkReason, usize)> {
        let from = after.map_or(Unbounded, Excluded);
        let lanes = self.lanes.range::<ParkReason, _>((from, Unbounded)).take(limit);
        lanes.map(|(lane, parked)| ((**lane).clone(), parked.len())).collect()
    }

    /// The same lane, as those that are parked in it name it.
    pub(super) fn named(&self, lane: &ParkReason) -> Arc<ParkReason> {
        let known = self.lanes.get_key_value(lane);
        known.map_or_else(|| Arc::new(lane.clone()), |(known, _)| Arc::clone(known))
    }

    pub(super) fn line_counts(&self) -> LineCounts {
        LineCounts { ready: self.order.len(), parked: self.parked }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line_counts().all() == 0
    }

    /// The oldest task of each level in the order.
    pub(super) fn oldest(&self) -> impl Iterator<Item = usize> {
        self.order.oldest().map(|served| served.nth)
    }

    /// All of them: in the order, and in lanes.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.order.iter().chain(self.lanes.values().flat_map(Order::iter)).map(|served| served.nth)
    }

    #[cfg(test)]
    pub(super) fn at(&self, aside: &ParkedIn, position: &Position) -> Option<usize> {
        let order = match aside {
            None => &self.order,
            Some(lane) => self.lanes.get(lane)?,
        };
        order.get(position).map(|served| served.nth)
    }
}

/// The lines by queue; no line is empty.
pub(super) type Lines = HashMap<Arc<QueueKey>, Line>;
