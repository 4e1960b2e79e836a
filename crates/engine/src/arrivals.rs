//! Where executors wait for the tasks of one queue. What fires while one of them has nothing goes straight to it: the
//! queue's line is for what nobody waits for. Holds nothing that matters: an entry that was given to a seat is in
//! the store, and its partition's next owner serves it again if this engine dies.

pub(crate) mod by_queue;
mod looker;
mod shelf;
pub(crate) mod state;

pub(crate) use looker::Looker;

use crate::{
    core::Core,
    pipeline::{ahead, line},
};
use state::{Arrival, Given, Idle};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The first seat's is one more.
const NO_NUMBER: u64 = 0;

impl Arrival {
    /// Somebody who has looked and found nothing waits for at most `max` tasks. What stands on the shelf goes to it at once.
    pub(crate) fn sit(self: &Arc<Self>, core: &Arc<Core>, max: usize) -> Seat {
        let (gives, given) = oneshot::channel();
        let mut seats = self.seats.lock();
        seats.last += 1;
        let number = seats.last;
        seats.idle.push_back(Idle { number, max, gives });
        seats.give(core.present());
        Seat { core: Arc::clone(core), arrival: Arc::clone(self), number, given, never_given: None }
    }

    /// For somebody who stands: nothing is given to it.
    pub(crate) fn no_seat(self: &Arc<Self>, core: &Arc<Core>) -> Seat {
        let (gives, given) = oneshot::channel();
        Seat {
            core: Arc::clone(core),
            arrival: Arc::clone(self),
            number: NO_NUMBER,
            given,
            never_given: Some(gives),
        }
    }

    /// Whoever was given this does not take it: it is served to others.
    pub(crate) fn pass_on(self: &Arc<Self>, core: &Arc<Core>, given: Given) {
        let entries = match given {
            Given::Leased(leased) => return ahead::lay_down(core, self, leased),
            Given::Fired(entries) if entries.is_empty() => return,
            Given::Fired(entries) => entries,
        };
        line::serve(core, &entries);
        entries.iter().for_each(|entry| core.arrived(&entry.queue, 1));
    }
}

/// Dropped by a caller that has gone, what was given to it is served to others.
#[derive(Debug)]
pub(crate) struct Seat {
    core: Arc<Core>,
    arrival: Arc<Arrival>,
    number: u64,
    given: oneshot::Receiver<Given>,
    /// Of who stands: it waits on.
    never_given: Option<oneshot::Sender<Given>>,
}

const NOTHING: Given = Given::Fired(Vec::new());

impl Seat {
    /// Waits for what fires. May be given up at any instant.
    pub(crate) async fn given(&mut self) -> Given {
        (&mut self.given).await.unwrap_or(NOTHING)
    }

    /// Stands up. What was given at the last instant.
    pub(crate) fn leave(mut self) -> Given {
        self.stand_up()
    }

    fn stand_up(&mut self) -> Given {
        if self.never_given.is_some() {
            return NOTHING;
        }
        let mut seats = self.arrival.seats.lock();
        // In the order of their numbers; thousands may wait, and all look again at one instant.
        if let Ok(at) = seats.idle.binary_search_by_key(&self.number, |idle| idle.number) {
            seats.idle.remove(at);
        }
        drop(seats);
        self.given.try_recv().unwrap_or(NOTHING)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let given = self.stand_up();
        self.arrival.pass_on(&self.core, given);
    }
}
