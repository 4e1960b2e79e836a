//! Counts of fired tasks that wait, before the store knows: the engine reports them shortly afterwards, in
//! batches (`maintenance::mark_ready`), because nothing depends on it. Changes nothing.

use crate::{core::Core, engine::Engine};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Books, Tally},
};
use punctual_domain::{
    name::QueueKey,
    state::{Event, State},
    task::Task,
};
use std::sync::Arc;

/// The states in which the store has fired tasks that are not yet reported, the likeliest first.
const BEFORE_READY: [State; 4] =
    [State::Dispatching, State::Scheduled, State::Retrying, State::DispatchFailed];

fn fired(core: &Core) -> HashMap<i64, (i64, Arc<QueueKey>)> {
    let queue = |entry: &HotEntry| (entry.place.id, (entry.fence, Arc::clone(&entry.queue)));
    core.live.lock().unpersisted().map(queue).collect()
}

impl Engine {
    /// The counts of all queues. Tasks that this engine has fired count as ready from that instant, as in
    /// answers about one task. The total is the store's. Which state the fired tasks are subtracted from is
    /// estimated from the counts.
    ///
    /// # Errors
    /// A failing store.
    pub async fn books(&self) -> Result<Books, Error> {
        let before = fired(&self.core);
        let mut books = self.core.store.books().await?;
        // Tasks reported meanwhile may already be counted, and tasks fired meanwhile are left out.
        let known: HashSet<(i64, i64)> = fired(&self.core).iter().map(|(id, pair)| (*id, pair.0)).collect();
        let mut waiting = HashMap::<Arc<QueueKey>, i64>::new();
        for (id, (fence, queue)) in before {
            if known.contains(&(id, fence)) {
                *waiting.entry(queue).or_default() += 1;
            }
        }
        let added: Vec<Tally> = waiting
            .into_iter()
            .filter_map(|(queue, tasks)| are_ready(&mut books.tallies, &queue, tasks))
            .collect();
        books.tallies.retain(|tally| tally.tasks != 0);
        if !added.is_empty() {
            books.tallies.extend(added);
            books.tallies.sort_by(|a, b| (&a.queue, a.state).cmp(&(&b.queue, b.state)));
        }
        Ok(books)
    }

    /// The task in its current state: ready from the instant at which this engine fired it. Tasks that
    /// another engine fired are shown as stored.
    #[must_use]
    pub fn as_fired(&self, task: Task) -> Task {
        let fired_at = self.core.live.lock().unpersisted_at(task.place.id, task.fence);
        let waits = task.state == State::Dispatching || task.state.after(Event::Claim).is_ok();
        match fired_at {
            Some(fired_at) if waits => Task { state: State::Ready, fired_at: Some(fired_at), ..task },
            _ => task,
        }
    }
}

/// The tallies are sorted by queue. The caller must add the returned tally.
fn are_ready(tallies: &mut [Tally], queue: &QueueKey, tasks: i64) -> Option<Tally> {
    let begin = tallies.partition_point(|tally| tally.queue < *queue);
    let rest = tallies.get_mut(begin..)?;
    let count = rest.partition_point(|tally| tally.queue == *queue);
    let own = rest.get_mut(..count)?;
    let mut left = tasks;
    for state in BEFORE_READY {
        let Some(tally) = own.iter_mut().find(|tally| tally.state == state) else {
            continue;
        };
        let moved = tally.tasks.clamp(0, left);
        (tally.tasks, left) = (tally.tasks - moved, left - moved);
    }
    let moved = tasks - left;
    match own.iter_mut().find(|tally| tally.state == State::Ready) {
        Some(tally) => {
            tally.tasks += moved;
            None
        }
        None => (moved > 0).then(|| Tally { queue: queue.clone(), state: State::Ready, tasks: moved }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    fn queue(name: &str) -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
    }

    #[test]
    fn what_has_fired_is_counted_as_ready_and_never_more_than_there_is() {
        let tally = |name, state, tasks| Tally { queue: queue(name), state, tasks };
        let mut tallies = vec![
            tally("a", State::Dispatching, 2),
            tally("a", State::Scheduled, 5),
            tally("b", State::Scheduled, 1),
        ];
        assert_eq!(are_ready(&mut tallies, &queue("a"), 3), Some(tally("a", State::Ready, 3)));
        let left = |tallies: &[Tally]| tallies.iter().map(|tally| tally.tasks).collect::<Vec<_>>();
        assert_eq!(left(&tallies), [0, 4, 1]);
        assert_eq!(are_ready(&mut tallies, &queue("b"), 2), Some(tally("b", State::Ready, 1)), "no more");
        assert_eq!(are_ready(&mut tallies, &queue("c"), 1), None);
        let mut ready = vec![tally("a", State::Ready, 3), tally("a", State::Scheduled, 2)];
        assert_eq!(are_ready(&mut ready, &queue("a"), 1), None);
        assert_eq!(left(&ready), [4, 1]);
    }
}
