//! Executors that wait for the tasks of one queue, and what lies here for them. Asks nobody for tasks.

use super::backlog::Backlog;
pub(crate) use super::backlog::{Given, Shelved};
use crate::{clock::Present, live::Live};
use parking_lot::Mutex;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::time::Millis;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use tokio::{
    sync::{Notify, futures::Notified, oneshot},
    time::Instant,
};

#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(super) something: Notify,
    /// How often somebody was woken: what was looked at before is out of date.
    wakes: AtomicU64,
    /// How often something was put into the ready set that takes turns with what lies here.
    others: AtomicU64,
    /// How often anything was.
    offers: AtomicU64,
    pub(super) waiting: AtomicUsize,
    /// Of those who wait, those that are given nothing and look themselves.
    standing: AtomicUsize,
    /// One of those who wait looks again for all of them.
    pub(super) has_looker: AtomicBool,
    /// When somebody last asked for tasks.
    asked_at: AtomicI64,
    pub(super) seats: Mutex<Seats>,
}

/// What was known before a look at the ready set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    wakes: u64,
    others: u64,
    offers: u64,
}

/// Those who found nothing, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Seats {
    pub(super) idle: VecDeque<Idle>,
    pub(super) last: u64,
    pub(super) backlog: Backlog,
    lately: Lately,
    /// Until then nothing is leased ahead: what was, found nobody.
    back_off_until: Millis,
    /// The ready set was empty then, by a look that began with this.
    found_empty: Option<(Look, Instant)>,
    /// The youngest that was put into the ready set since: due time and id.
    youngest_ready: Option<(Millis, i64)>,
}

/// What was leased longer ago than this is given back instead of handed over.
pub(crate) const GOOD_FOR: Duration = Duration::from_millis(300);

impl Seats {
    fn idle_places(&self) -> usize {
        self.idle.iter().map(|it| it.max).sum()
    }

    /// The next tasks of the backlog. What was leased too long ago is not handed over any more.
    fn take(&mut self, live: &Live, most: usize, present: Present) -> Given {
        let given = self.backlog.take(live, most, is_good(present));
        if let Given::Leased(leased) = &given {
            self.handed_over(leased.len(), present);
        }
        given
    }

    fn handed_over(&mut self, count: usize, present: Present) {
        if count > 0 {
            self.lately.turn(present.now);
            self.lately.now += count;
        }
    }

    /// Gives tasks of the backlog to the executors that wait.
    pub(super) fn give(&mut self, live: &Live, present: Present) {
        while !self.backlog.is_empty()
            && let Some(Idle { number, max, gives }) = self.idle.pop_front()
        {
            let given = self.take(live, max, present);
            if given.is_nothing() {
                return self.idle.push_front(Idle { number, max, gives });
            }
            // It has gone: the next one gets them.
            match gives.send(given) {
                Ok(()) => {}
                Err(Given::Fired(back)) => self.backlog.put_to_lease(live, back, present.now),
                Err(Given::Leased(back)) => {
                    self.lately.now -= back.len();
                    self.backlog.put_leased(back);
                }
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

    /// Whoever waits and takes only what is admitted, until this is dropped.
    pub(crate) fn stand(&self) -> Standing<'_> {
        self.standing.fetch_add(1, SeqCst);
        Standing(self)
    }

    /// Somebody waits who finds only what is in the ready set.
    pub(crate) fn has_standing(&self) -> bool {
        self.standing.load(SeqCst) > 0
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.something.notified()
    }

    pub(crate) fn wake_one(&self) {
        self.wakes.fetch_add(1, SeqCst);
        self.something.notify_one();
    }

    pub(crate) fn wake_all(&self) {
        self.wakes.fetch_add(1, SeqCst);
        self.something.notify_waiters();
    }

    /// To be asked before a look at the ready set.
    pub(crate) fn look(&self) -> Look {
        Look {
            wakes: self.wakes.load(SeqCst),
            others: self.others.load(SeqCst),
            offers: self.offers.load(SeqCst),
        }
    }

    /// The look found nothing.
    pub(crate) fn is_empty_since(&self, look: Look) {
        let mut seats = self.seats.lock();
        seats.found_empty = Some((look, Instant::now()));
        if self.offers.load(SeqCst) == look.offers {
            seats.youngest_ready = None;
        }
    }

    /// Tasks are put into the ready set, the youngest of them with this due time and id. To be said before.
    pub(crate) fn is_offered(&self, youngest: (Millis, i64)) {
        let mut seats = self.seats.lock();
        self.offers.fetch_add(1, SeqCst);
        seats.youngest_ready = seats.youngest_ready.max(Some(youngest));
    }

    /// All of them are younger than what this engine has put into the ready set since it was found empty.
    pub(crate) fn are_younger_than_ready(&self, fired: &[HotEntry]) -> bool {
        let youngest = self.seats.lock().youngest_ready;
        fired.iter().all(|entry| youngest.is_none_or(|youngest| entry.key() > youngest))
    }

    /// A task of the backlog is older than one of these.
    pub(crate) fn has_older_than(&self, fired: &[HotEntry]) -> bool {
        let oldest = self.seats.lock().backlog.first_to_lease();
        oldest.is_some_and(|oldest| fired.iter().any(|entry| oldest < entry.key()))
    }

    /// When somebody looked and found nothing, if nobody was woken since.
    pub(crate) fn empty_since(&self) -> Option<Instant> {
        let (look, at) = self.seats.lock().found_empty?;
        (look.wakes == self.look().wakes).then_some(at)
    }

    /// Somebody looked and found nothing, and whatever has been put into the ready set since goes before what lies here:
    /// it is as urgent, and older.
    pub(crate) fn goes_first(&self) -> bool {
        self.seats.lock().found_empty.is_some_and(|it| it.0.others == self.look().others)
    }

    /// Younger than what lies here, or of another urgency, or perhaps: it was put into the ready set.
    pub(crate) fn something_else_came(&self) {
        self.others.fetch_add(1, SeqCst);
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
            entries = match gives.send(Given::Fired(entries)) {
                Ok(()) => others,
                // It has gone: the next one gets them.
                Err(Given::Fired(back)) => back.into_iter().chain(others).collect(),
                Err(Given::Leased(_)) => others,
            };
        }
        entries
    }

    /// Lets what has fired lie here for those who ask next. Answers what found no room.
    pub(crate) fn lie(
        &self,
        live: &Live,
        mut entries: Vec<HotEntry>,
        present: Present,
        most: usize,
    ) -> Vec<HotEntry> {
        let mut seats = self.seats.lock();
        let rest = entries.split_off(entries.len().min(most.saturating_sub(seats.backlog.to_lease())));
        seats.backlog.put_to_lease(live, entries, present.now);
        seats.give(live, present);
        rest
    }

    /// How many tasks of the backlog are not leased.
    pub(crate) fn lying(&self) -> usize {
        self.seats.lock().backlog.to_lease()
    }

    /// The next tasks of the backlog that are not leased, for an executor that asks: as far as nothing that is leased goes before them.
    pub(crate) fn take_lying(&self, live: &Live, most: usize, present: Present) -> Vec<HotEntry> {
        self.seats.lock().backlog.take_to_lease(live, most, is_good(present))
    }

    /// What has fired and was lying here before an instant, not leased: busy executors did not come back for it.
    pub(crate) fn take_lying_before(&self, live: &Live, before: Millis) -> Vec<HotEntry> {
        self.seats.lock().backlog.take_to_lease_before(live, before)
    }

    /// Gives what is leased already to those who wait, and keeps the rest for those who ask next. True: something lies
    /// here now.
    pub(crate) fn hand(&self, live: &Live, leased: Vec<Shelved>, present: Present) -> bool {
        let mut seats = self.seats.lock();
        seats.backlog.put_leased(leased);
        seats.give(live, present);
        seats.backlog.has_leased()
    }

    /// The next tasks of the backlog, for an executor that asks while nothing in the ready set goes before them.
    pub(crate) fn take(&self, live: &Live, most: usize, present: Present) -> Given {
        self.seats.lock().take(live, most, present)
    }

    /// The same, as far as it is leased.
    pub(crate) fn take_leased(&self, most: usize, present: Present) -> Vec<Shelved> {
        let mut seats = self.seats.lock();
        let leased = seats.backlog.take_leased(most, is_good(present));
        seats.handed_over(leased.len(), present);
        leased
    }

    /// Leases that have been in the backlog since before an instant: no executor came for them.
    pub(crate) fn take_old(&self, before: Millis, back_off_until: Millis) -> Vec<Assignment> {
        let mut seats = self.seats.lock();
        let old = seats.backlog.take_leased_before(before);
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

    pub(crate) fn has_some_here(&self) -> bool {
        !self.seats.lock().backlog.is_empty()
    }

    /// How many tasks those who wait would take.
    pub(crate) fn idle_places(&self) -> usize {
        self.seats.lock().idle_places()
    }

    /// Something is in the ready set, or perhaps, or has been lying here since before an instant.
    pub(crate) fn may_be_overtaken(&self, before: Millis) -> bool {
        let seats = self.seats.lock();
        let is_empty = seats.found_empty.is_some_and(|it| it.0.wakes == self.look().wakes);
        !is_empty || seats.backlog.has_to_lease_since_before(before)
    }

    /// How many tasks may be leased ahead: as many as those who wait take, and twice as many as were lately handed over,
    /// because as many as that are on their way all the time. While nobody waits, and they would overtake something: none.
    pub(crate) fn room(&self, now: Millis, would_overtake: bool) -> usize {
        let mut seats = self.seats.lock();
        if now < seats.back_off_until || seats.backlog.has_leased() {
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

#[derive(Debug)]
pub(crate) struct Standing<'a>(&'a Arrival);

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.standing.fetch_sub(1, SeqCst);
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
            Ok(Given::Fired(it)) => it.len(),
            Ok(Given::Leased(it)) => it.len(),
            Err(_) => 0,
        }
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
