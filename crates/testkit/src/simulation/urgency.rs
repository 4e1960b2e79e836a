//! Whether urgent tasks are passed over: what waits when an executor asks, and which of it the executor is given. An engine
//! that leases ahead of the instants must not do so where urgency would choose otherwise. One draw says nothing, since one
//! in five goes to the less urgent by rule; the share over many seeds does. Looks only where nothing else decides: one
//! engine, no limits, nothing that fails, one task asked for.

use super::{
    back_ends::PARTITIONS,
    world::{Faults, Hands, World},
};
use punctual_contract::{Hot as _, hot::HotEntry, store::Assignment};
use punctual_domain::{
    place::Partition,
    task::{Priority, Task},
    time::Millis,
};

/// More than there ever is.
const ALL: usize = 10_000;

/// Hand-overs of one task at which tasks of different priorities waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Urgency {
    pub choices: usize,
    /// Those that went to one of the most urgent.
    pub to_most_urgent: usize,
}

impl Urgency {
    pub fn add(&mut self, other: Self) {
        self.choices += other.choices;
        self.to_most_urgent += other.to_most_urgent;
    }

    fn chosen(&mut self, given: Priority, left: &[Priority]) {
        let Some(most_urgent) = left.iter().chain([&given]).min() else { return };
        if left.iter().all(|priority| *priority == given) {
            return;
        }
        self.choices += 1;
        self.to_most_urgent += usize::from(given == *most_urgent);
    }
}

impl World {
    /// What waits to be handed over, before an executor asks for `max`: ids and priorities. None: nothing can be said.
    pub(super) async fn waiting(&self, max: usize) -> Option<Vec<(i64, Priority)>> {
        let can_be_said = max == 1
            && self.setup.engines == 1
            && self.setup.faults == Faults::None
            && self.setup.hands == Hands::Pull
            && !self.is_limited()
            && self.is_sound();
        if !can_be_said {
            return None;
        }
        let mut fired = Vec::new();
        for partition in 0..PARTITIONS {
            let entries = self.true_hot.firing(Partition(partition), Millis::MAX, 0..ALL).await;
            fired.extend(entries.ok()?);
        }
        let places: Vec<_> = fired.iter().map(|entry| entry.place).collect();
        let tasks = self.truth.read(&places).await.ok()?;
        let waits = |(entry, task): (HotEntry, Option<Task>)| {
            let task = task?;
            (task.fence == entry.fence && task.state.is_waiting())
                .then_some((task.place.id, task.ask.priority))
        };
        Some(fired.into_iter().zip(tasks).filter_map(waits).collect())
    }

    pub(super) fn count_urgency(&mut self, waiting: Option<Vec<(i64, Priority)>>, given: &[Assignment]) {
        let (Some(waiting), [given]) = (waiting, given) else { return };
        let left: Vec<Priority> =
            waiting.iter().filter(|(id, _)| *id != given.place.id).map(|(_, priority)| *priority).collect();
        self.urgency.chosen(given.priority, &left);
    }
}
