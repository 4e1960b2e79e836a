//! Where executors wait for the tasks of one queue. What fires while one of them has nothing goes straight to it: the
//! ready set is for what nobody waits for. Holds nothing that matters: an entry that was given to a seat is firing in the
//! hot set until its hand-over is known, and is offered again if this engine dies.

use crate::{core::Core, pipeline::from_store};
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::sync::{Notify, oneshot};

#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) something: Notify,
    waiting: AtomicUsize,
    seats: Mutex<Seats>,
}

/// Those who found nothing, in the order in which they came.
#[derive(Debug, Default)]
struct Seats {
    idle: VecDeque<Idle>,
    last: u64,
}

#[derive(Debug)]
struct Idle {
    number: u64,
    /// How many tasks it takes.
    max: usize,
    gives: oneshot::Sender<Vec<HotEntry>>,
}

impl Arrival {
    /// Whoever asks counts as waiting until this is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, SeqCst);
        Waiting(self)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Somebody who has looked and found nothing waits for at most `max` tasks.
    pub(crate) fn sit(self: &Arc<Self>, core: &Arc<Core>, max: usize) -> Seat {
        let (gives, given) = oneshot::channel();
        let mut seats = self.seats.lock();
        seats.last += 1;
        let number = seats.last;
        seats.idle.push_back(Idle { number, max, gives });
        Seat { core: Arc::clone(core), arrival: Arc::clone(self), number, given }
    }

    /// Gives fired tasks to those who wait, if there is room for all of them: else their order is for the ready set to
    /// find. Answers those that nobody has got.
    pub(crate) fn give(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        let mut seats = self.seats.lock();
        if seats.idle.iter().map(|it| it.max).sum::<usize>() < entries.len() {
            return entries;
        }
        while !entries.is_empty() {
            let Some(Idle { max, gives, .. }) = seats.idle.pop_front() else { break };
            let others = entries.split_off(max.min(entries.len()));
            entries = match gives.send(entries) {
                Ok(()) => others,
                // It has gone: the next one gets them.
                Err(back) => back.into_iter().chain(others).collect(),
            };
        }
        entries
    }
}

#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Arrival);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// Dropped by a caller that has gone, what was given to it is offered to others.
#[derive(Debug)]
pub(crate) struct Seat {
    core: Arc<Core>,
    arrival: Arc<Arrival>,
    number: u64,
    given: oneshot::Receiver<Vec<HotEntry>>,
}

impl Seat {
    /// Waits for what fires. May be given up at any instant.
    pub(crate) async fn given(&mut self) -> Vec<HotEntry> {
        (&mut self.given).await.unwrap_or_default()
    }

    /// Stands up. What was given at the last instant.
    pub(crate) fn leave(mut self) -> Vec<HotEntry> {
        self.stand_up()
    }

    fn stand_up(&mut self) -> Vec<HotEntry> {
        self.arrival.seats.lock().idle.retain(|it| it.number != self.number);
        self.given.try_recv().unwrap_or_default()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let entries = self.stand_up();
        if entries.is_empty() {
            return;
        }
        let core = Arc::clone(&self.core);
        self.core.detach(async move {
            let queues: Vec<_> = entries.iter().map(|it| Arc::clone(&it.queue)).collect();
            if let Err(error) = from_store::offer(&core, entries).await {
                tracing::warn!(%error, "tasks whose executor has gone are offered again later");
            }
            queues.iter().for_each(|it| core.arrived(it, 1));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    fn seats(arrival: &Arrival, sizes: &[usize]) -> Vec<oneshot::Receiver<Vec<HotEntry>>> {
        let sit = |max: &usize| {
            let (gives, given) = oneshot::channel();
            arrival.seats.lock().idle.push_back(Idle { number: 0, max: *max, gives });
            given
        };
        sizes.iter().map(sit).collect()
    }

    fn given(seat: &mut oneshot::Receiver<Vec<HotEntry>>) -> usize {
        seat.try_recv().map_or(0, |it| it.len())
    }

    #[test]
    fn what_fires_goes_to_those_who_came_first_and_only_if_all_of_it_finds_a_place() {
        let (arrival, fired) = (Arrival::default(), || (1..=3).map(|it| entry(it, it)).collect::<Vec<_>>());
        assert_eq!(arrival.give(fired()).len(), 3, "nobody waits");
        let mut two = seats(&arrival, &[1, 1]);
        assert_eq!(arrival.give(fired()).len(), 3, "no room for all");
        two.extend(seats(&arrival, &[5]));
        assert!(arrival.give(fired()).is_empty());
        assert_eq!(two.iter_mut().map(given).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(arrival.give(fired()).len(), 3, "they have something");
    }

    #[test]
    fn what_somebody_who_has_gone_does_not_take_goes_to_the_next() {
        let arrival = Arrival::default();
        let mut all = seats(&arrival, &[2, 2, 1]);
        drop(all.remove(0));
        assert_eq!(arrival.give((1..=4).map(|it| entry(it, it)).collect()).len(), 1);
        assert_eq!(all.iter_mut().map(given).collect::<Vec<_>>(), [2, 1]);
    }
}
