//! Executors that wait for the tasks of one queue, and what was leased ahead for them. Asks nobody for tasks.

use super::shelf::Shelf;
pub(crate) use super::shelf::{Given, Shelved};
use crate::clock::Present;
use parking_lot::Mutex;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::time::Millis;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use tokio::sync::{Notify, futures::Notified, oneshot};

#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(super) something: Notify,
    pub(super) waiting: AtomicUsize,
    /// One of those who wait looks again for all of them.
    pub(super) has_looker: AtomicBool,
    /// When somebody last asked for tasks.
    asked_at: AtomicI64,
    pub(super) seats: Mutex<Seats>,
}

/// Those who found nothing, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Seats {
    pub(super) idle: VecDeque<Idle>,
    pub(super) last: u64,
    pub(super) shelf: Shelf,
    lately: Lately,
    /// Until then nothing is leased ahead: what was, found nobody.
    back_off_until: Millis,
}

/// What was leased longer ago than this is given back instead of handed over.
pub(crate) const GOOD_FOR: Duration = Duration::from_millis(300);

impl Seats {
    fn idle_places(&self) -> usize {
        self.idle.iter().map(|idle| idle.max).sum()
    }

    /// The next of the shelf. What was leased too long ago is not handed over any more.
    fn take(&mut self, most: usize, present: Present) -> Vec<Shelved> {
        let leased = self.shelf.take(most, is_good(present));
        self.handed_over(leased.len(), present);
        leased
    }

    fn handed_over(&mut self, count: usize, present: Present) {
        if count > 0 {
            self.lately.turn(present.now);
            self.lately.now += count;
        }
    }

    /// Gives what stands on the shelf to the executors that wait.
    pub(super) fn give(&mut self, present: Present) {
        while !self.shelf.is_empty()
            && let Some(Idle { number, max, gives }) = self.idle.pop_front()
        {
            let leased = self.take(max, present);
            if leased.is_empty() {
                return self.idle.push_front(Idle { number, max, gives });
            }
            // It has gone: the next one gets them.
            if let Err(Given::Leased(back)) = gives.send(Given::Leased(leased)) {
                self.lately.now -= back.len();
                self.shelf.put(back);
            }
        }
    }
}

fn is_good(present: Present) -> impl Fn(&Shelved) -> bool {
    move |shelved| shelved.asked.age(present) <= GOOD_FOR
}

/// How many were handed over in the present tenth of a second, and in the one before.
#[derive(Debug, Default)]
struct Lately {
    tenth: i64,
    now: usize,
    before: usize,
}

impl Lately {
    fn turn(&mut self, now: Millis) {
        let tenth = now.0.div_euclid(100);
        if tenth != self.tenth {
            self.before = if tenth == self.tenth + 1 { self.now } else { 0 };
            (self.tenth, self.now) = (tenth, 0);
        }
    }
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) number: u64,
    /// How many tasks it takes.
    pub(super) max: usize,
    pub(super) gives: oneshot::Sender<Given>,
}

impl Arrival {
    /// Whoever asks counts as waiting until this is dropped.
    pub(crate) fn wait(&self, now: Millis) -> Waiting<'_> {
        self.asked_at.fetch_max(now.0, SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        Waiting(self)
    }

    /// Somebody waits, or has asked since an instant: busy executors come back.
    pub(crate) fn is_asked_since(&self, instant: Millis) -> bool {
        self.waiting() > 0 || self.asked_at.load(SeqCst) >= instant.0
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.something.notified()
    }

    pub(crate) fn wake_one(&self) {
        self.something.notify_one();
    }

    pub(crate) fn wake_all(&self) {
        self.something.notify_waiters();
    }

    /// Gives fired tasks to those who wait, if there is room for all of them: else their order is for the line to find. Answers those that nobody has got.
    pub(crate) fn give(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        let mut seats = self.seats.lock();
        if seats.idle.iter().map(|idle| idle.max).sum::<usize>() < entries.len() {
            return entries;
        }
        while !entries.is_empty() {
            let Some(Idle { max, gives, .. }) = seats.idle.pop_front() else { break };
            let others = entries.split_off(max.min(entries.len()));
            entries = match gives.send(Given::Fired(entries)) {
                Ok(()) => others,
                // It has gone: the next one gets them.
                Err(Given::Fired(back)) => back.into_iter().chain(others).collect(),
                Err(Given::Leased(_)) => others,
            };
        }
        entries
    }

    /// Gives what is leased already to those who wait, and keeps the rest for those who ask next. True: something stands
    /// on the shelf now.
    pub(crate) fn hand(&self, leased: Vec<Shelved>, present: Present) -> bool {
        let mut seats = self.seats.lock();
        seats.shelf.put(leased);
        seats.give(present);
        !seats.shelf.is_empty()
    }

    /// The next of the shelf, for an executor that asks while nothing in the line goes before them.
    pub(crate) fn take_leased(&self, most: usize, present: Present) -> Vec<Shelved> {
        self.seats.lock().take(most, present)
    }

    /// Leases that have been on the shelf since before an instant: no executor came for them.
    pub(crate) fn take_old(&self, before: Millis, back_off_until: Millis) -> Vec<Assignment> {
        let mut seats = self.seats.lock();
        let old = seats.shelf.take_before(before);
        if !old.is_empty() {
            seats.back_off_until = back_off_until;
        }
        old.into_iter().map(|shelved| shelved.assignment).collect()
    }

    /// Time was set back: what stands beyond the present is forgotten.
    pub(crate) fn begin_anew(&self) {
        self.asked_at.store(i64::MIN, SeqCst);
        let mut seats = self.seats.lock();
        (seats.back_off_until, seats.lately) = (Millis::ZERO, Lately::default());
    }

    /// Something stands on the shelf.
    pub(crate) fn has_some_here(&self) -> bool {
        !self.seats.lock().shelf.is_empty()
    }

    /// How many tasks those who wait would take.
    pub(crate) fn idle_places(&self) -> usize {
        self.seats.lock().idle_places()
    }

    /// How many tasks may be leased ahead: as many as those who wait take, and twice as many as were lately handed over,
    /// because as many as that are on their way all the time. While nobody waits, and they would overtake something: none.
    pub(crate) fn room(&self, now: Millis, would_overtake: bool) -> usize {
        let mut seats = self.seats.lock();
        if now < seats.back_off_until || !seats.shelf.is_empty() {
            return 0;
        }
        let idle = seats.idle_places();
        if idle == 0 && would_overtake {
            return 0;
        }
        seats.lately.turn(now);
        let lately = seats.lately.now.max(seats.lately.before);
        2 * lately + idle
    }
}

#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Arrival);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    fn seats(arrival: &Arrival, sizes: &[usize]) -> Vec<oneshot::Receiver<Given>> {
        let sit = |max: &usize| {
            let (gives, given) = oneshot::channel();
            arrival.seats.lock().idle.push_back(Idle { number: 0, max: *max, gives });
            given
        };
        sizes.iter().map(sit).collect()
    }

    fn given(seat: &mut oneshot::Receiver<Given>) -> usize {
        match seat.try_recv() {
            Ok(Given::Fired(entries)) => entries.len(),
            Ok(Given::Leased(list)) => list.len(),
            Err(_) => 0,
        }
    }

    #[test]
    fn what_fires_goes_to_those_who_came_first_and_only_if_all_of_it_finds_a_place() {
        let (arrival, fired) =
            (Arrival::default(), || (1..=3).map(|number| entry(number, number)).collect::<Vec<_>>());
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
        assert_eq!(arrival.give((1..=4).map(|number| entry(number, number)).collect()).len(), 1);
        assert_eq!(all.iter_mut().map(given).collect::<Vec<_>>(), [2, 1]);
    }
}
