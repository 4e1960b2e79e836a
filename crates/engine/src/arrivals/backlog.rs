//! What has fired in one queue and waits in the engine for executors that are busy: some was leased ahead of its instant, the rest
//! is still to be leased. All of it stands in one order, that of a ready set. The live table has what is to be leased in its
//! stage `Ready`, so that no other part offers it: what the table refuses does not stand here. Must not know whether
//! something in the ready set goes before it.

use crate::{clock::Moment, live::Live};
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    chooser::{Chooser, Draws, Level},
    order::{Order, Position, Versioned},
    settings::Retries,
    task::Priority,
    time::Millis,
};
use std::collections::BTreeSet;

/// Of more entries memory is dearer than a read of a row: what a hand-over needs is left out.
const ASKS_MAX: usize = 20_000;

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
    pub(crate) since: Millis,
}

impl Given {
    pub(super) const fn is_nothing(&self) -> bool {
        match self {
            Self::Fired(entries) => entries.is_empty(),
            Self::Leased(leased) => leased.is_empty(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    order: Order<Fired>,
    /// How long each stands here.
    since: BTreeSet<(Need, Millis, Position)>,
    to_lease: usize,
}

/// What a task in the backlog needs before it is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    Lease,
}

#[derive(Debug)]
enum Fired {
    Leased(Box<Shelved>),
    /// Since when it stands here.
    ToLease(Millis, HotEntry),
}

impl Versioned for Fired {
    fn version(&self) -> (i64, i64) {
        match self {
            Self::Leased(shelved) => (shelved.assignment.task_id, shelved.assignment.task_version),
            Self::ToLease(_, entry) => entry.version(),
        }
    }
}

impl Fired {
    /// Since when it stands here.
    const fn since(&self) -> (Need, Millis) {
        match self {
            Self::Leased(shelved) => (Need::Nothing, shelved.since),
            Self::ToLease(since, _) => (Need::Lease, *since),
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Leased(shelved) => {
                let Assignment { priority, attempt, due_at, place, .. } = &shelved.assignment;
                (level(*priority, attempt.saturating_sub(1)), *due_at, place.id)
            }
            Self::ToLease(_, entry) => Self::position_of(entry),
        }
    }

    fn position_of(entry: &HotEntry) -> Position {
        (level(entry.priority, entry.attempt), entry.due_at, entry.place.id)
    }
}

/// Nothing is set for a queue of which something waits here: neither how it chooses nor where retries stand.
fn level(priority: Priority, attempts: u32) -> Level {
    Level::of(priority, attempts, Retries::default())
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many are to be leased.
    pub(super) fn to_lease(&self) -> usize {
        self.to_lease
    }

    /// The oldest of those: all of them stand in one level.
    pub(super) fn first_to_lease(&self) -> Option<(Millis, i64)> {
        let key = |fired: &Fired| match fired {
            Fired::ToLease(_, entry) => Some(entry.key()),
            Fired::Leased(_) => None,
        };
        self.order.iter().find_map(key)
    }

    pub(super) fn has_leased(&self) -> bool {
        self.since.len() > self.to_lease
    }

    pub(super) fn put_leased(&mut self, leased: Vec<Shelved>) {
        leased.into_iter().for_each(|shelved| self.put(Fired::Leased(Box::new(shelved))));
    }

    /// What has fired twice, because the hot set forgot it meanwhile, is there once. What stands here with its lease stays so: with the
    /// fence from before that lease the store would refuse another, and nobody would have the first.
    pub(super) fn put_to_lease(&mut self, live: &Live, entries: Vec<HotEntry>, now: Millis) {
        let (leased, mut entries): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| self.has_lease_of(entry));
        if !leased.is_empty() {
            live.lock().persisted(&leased);
        }
        let far = entries.iter_mut().skip(ASKS_MAX.saturating_sub(self.to_lease()));
        far.for_each(HotEntry::leave_out_ask);
        let kept = live.lock().keep_in_line(entries);
        kept.into_iter().for_each(|entry| self.put(Fired::ToLease(now, entry)));
    }

    fn has_lease_of(&self, entry: &HotEntry) -> bool {
        let position = Fired::position_of(entry);
        matches!(self.order.get(&position), Some(Fired::Leased(shelved)) if shelved.assignment.fence > entry.fence)
    }

    fn put(&mut self, fired: Fired) {
        let position = fired.position();
        self.remove(&position);
        let (need, since) = fired.since();
        self.to_lease += usize::from(need == Need::Lease);
        self.since.insert((need, since, position));
        self.order.insert(position, fired);
    }

    fn remove(&mut self, position: &Position) -> Option<Fired> {
        let fired = self.order.remove(position)?;
        self.removed(position, &fired);
        Some(fired)
    }

    fn removed(&mut self, position: &Position, fired: &Fired) {
        let (need, since) = fired.since();
        self.to_lease -= usize::from(need == Need::Lease);
        self.since.remove(&(need, since, *position));
    }

    /// Those that stand here since before an instant.
    fn until(&self, need: Need, before: Millis) -> impl Iterator<Item = &Position> {
        let first = Level::of(Priority::HIGHEST, 0, Retries::default());
        let bound = |need, since| (need, since, (first, Millis(i64::MIN), i64::MIN));
        let old = bound(need, Millis(i64::MIN))..bound(need, before);
        self.since.range(old).map(|(_, _, position)| position)
    }

    fn pop(&mut self, draws: &mut Draws) -> Option<Fired> {
        let (position, fired) = self.order.pop_with_position(&Chooser::default(), draws)?;
        self.removed(&position, &fired);
        Some(fired)
    }

    /// The next, at most so many, as far as all of them are leased, or all of them are to be. What is leased and not good any more
    /// is passed over.
    pub(super) fn take(&mut self, live: &Live, most: usize, is_good: impl Fn(&Shelved) -> bool) -> Given {
        let (leased, to_lease) = self.take_run(most, is_good, |_| true);
        if leased.is_empty() { Given::Fired(leave_line(live, to_lease)) } else { Given::Leased(leased) }
    }

    /// The next, as far as they are to be leased. What is leased and not good any more is passed over: `take_leased` does not
    /// hand it over either, so that it must not stand before the rest.
    pub(super) fn take_to_lease(
        &mut self,
        live: &Live,
        most: usize,
        is_good: impl Fn(&Shelved) -> bool,
    ) -> Vec<HotEntry> {
        let (_, to_lease) = self.take_run(most, is_good, |fired| matches!(fired, Fired::ToLease(..)));
        leave_line(live, to_lease)
    }

    /// The next, as far as they are leased.
    pub(super) fn take_leased(&mut self, most: usize, is_good: impl Fn(&Shelved) -> bool) -> Vec<Shelved> {
        self.take_run(most, is_good, |fired| matches!(fired, Fired::Leased(_))).0
    }

    fn take_run(
        &mut self,
        most: usize,
        is_good: impl Fn(&Shelved) -> bool,
        is_wanted: impl Fn(&Fired) -> bool,
    ) -> (Vec<Shelved>, Vec<HotEntry>) {
        let mut draws = Draws::new(fastrand::u32(..));
        let (mut leased, mut to_lease, mut back) = (Vec::new(), Vec::new(), Vec::new());
        while leased.len() + to_lease.len() < most
            && let Some(fired) = self.pop(&mut draws)
        {
            match fired {
                Fired::Leased(shelved) if !is_good(&shelved) => back.push(Fired::Leased(shelved)),
                other if !is_wanted(&other) => {
                    back.push(other);
                    break;
                }
                Fired::Leased(shelved) if to_lease.is_empty() => leased.push(*shelved),
                Fired::ToLease(_, entry) if leased.is_empty() => to_lease.push(entry),
                other => {
                    back.push(other);
                    break;
                }
            }
        }
        back.into_iter().for_each(|fired| self.put(fired));
        (leased, to_lease)
    }

    /// What is to be leased and stands here since before an instant.
    pub(super) fn take_to_lease_before(&mut self, live: &Live, before: Millis) -> Vec<HotEntry> {
        let those: Vec<Position> = self.until(Need::Lease, before).copied().collect();
        let entry = |fired| match fired {
            Fired::ToLease(_, entry) => Some(entry),
            Fired::Leased(_) => None,
        };
        let taken = those.iter().filter_map(|position| self.remove(position)).filter_map(entry).collect();
        leave_line(live, taken)
    }

    /// What is leased and stands here since before an instant.
    pub(super) fn take_leased_before(&mut self, before: Millis) -> Vec<Shelved> {
        let those: Vec<Position> = self.until(Need::Nothing, before).copied().collect();
        let shelved = |fired| match fired {
            Fired::Leased(shelved) => Some(*shelved),
            Fired::ToLease(..) => None,
        };
        those.iter().filter_map(|position| self.remove(position)).filter_map(shelved).collect()
    }

    pub(super) fn has_to_lease_since_before(&self, before: Millis) -> bool {
        self.until(Need::Lease, before).next().is_some()
    }
}

fn leave_line(live: &Live, taken: Vec<HotEntry>) -> Vec<HotEntry> {
    if !taken.is_empty() {
        live.lock().leave_line(taken.iter());
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::moment::Moment, live::model::lease_of, pipeline::drain::tests::entry};

    fn ids(entries: &[HotEntry]) -> Vec<i64> {
        entries.iter().map(|entry| entry.place.id).collect()
    }

    fn shelved(entry: &HotEntry, since: i64) -> Shelved {
        Shelved { assignment: lease_of(entry), asked: Moment::of_test(), since: Millis(since) }
    }

    fn given(backlog: &mut Backlog, live: &Live, most: usize) -> (Vec<i64>, Vec<i64>) {
        match backlog.take(live, most, |_| true) {
            Given::Fired(entries) => (ids(&entries), Vec::new()),
            Given::Leased(leased) => {
                (Vec::new(), leased.iter().map(|shelved| shelved.assignment.place.id).collect())
            }
        }
    }

    #[test]
    fn each_task_is_there_once_in_its_order_until_it_is_taken() {
        let (live, mut backlog) = (Live::new(1, true), Backlog::default());
        let keeps = |entry: &HotEntry| live.lock().keeps(entry);
        backlog.put_to_lease(&live, vec![entry(1, 9), entry(2, 8)], Millis(10));
        backlog.put_to_lease(&live, vec![entry(3, 10), entry(1, 9)], Millis(20));
        assert!(keeps(&entry(1, 9)) && keeps(&entry(3, 10)));
        assert!(!keeps(&HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) }), "another, and newer");
        assert_eq!(ids(&backlog.take_to_lease_before(&live, Millis(10))), Vec::<i64>::new());
        assert_eq!(ids(&backlog.take_to_lease(&live, 1, |_| true)), [2], "the oldest");
        assert!(!keeps(&entry(2, 8)));
        backlog.put_to_lease(&live, vec![entry(2, 8)], Millis(15));
        assert!(keeps(&entry(2, 8)));
        assert_eq!(
            (ids(&backlog.take_to_lease_before(&live, Millis(20))), backlog.to_lease()),
            (vec![1, 2], 1),
            "as long as they stand here"
        );
        assert_eq!(ids(&backlog.take_to_lease(&live, 9, |_| true)), [3]);
        assert!(backlog.is_empty() && !keeps(&entry(3, 10)));
    }

    #[test]
    fn a_newer_fence_takes_the_place_of_an_older_one() {
        let (live, mut backlog) = (Live::new(1, true), Backlog::default());
        let newer = HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) };
        backlog.put_to_lease(&live, vec![entry(1, 9), entry(2, 9)], Millis(1));
        backlog.put_to_lease(&live, vec![newer.clone()], Millis(2));
        backlog.put_to_lease(&live, vec![entry(1, 9)], Millis(3));
        assert!(live.lock().keeps(&newer) && live.lock().keeps(&entry(1, 9)));
        assert_eq!(backlog.take_to_lease(&live, 9, |_| true), [newer.clone(), entry(2, 9)]);
        assert!(!live.lock().keeps(&newer));
    }

    #[test]
    fn what_is_leased_goes_in_the_same_order_as_what_is_to_be() {
        let (live, mut backlog) = (Live::new(1, true), Backlog::default());
        backlog.put_leased(vec![shelved(&entry(1, 10), 50), shelved(&entry(2, 30), 40)]);
        backlog.put_to_lease(&live, vec![entry(3, 20), entry(4, 5)], Millis(60));
        assert_eq!(given(&mut backlog, &live, 9), (vec![4], vec![]), "only what stands before it");
        assert_eq!(given(&mut backlog, &live, 9), (vec![], vec![1]));
        assert!(backlog.take_leased(9, |_| true).is_empty(), "what is to be leased is older");
        assert_eq!(ids(&backlog.take_to_lease(&live, 9, |_| true)), [3]);
        assert!(backlog.has_leased() && backlog.take_leased_before(Millis(40)).is_empty());
        assert!(backlog.take_to_lease(&live, 9, |_| true).is_empty(), "what is leased goes before it");
        assert!(backlog.take_leased(9, |_| false).is_empty(), "it is not good any more");
        backlog.put_to_lease(&live, vec![entry(5, 40)], Millis(60));
        assert!(backlog.take_leased(9, |_| false).is_empty());
        assert_eq!(
            ids(&backlog.take_to_lease(&live, 9, |_| false)),
            [5],
            "a lease that is too old is passed over"
        );
        assert_eq!(backlog.take_leased_before(Millis(41)).len(), 1);
        assert!(backlog.is_empty() && backlog.since.is_empty() && backlog.to_lease() == 0);
    }

    /// A hot set that was started again has it once more.
    #[test]
    fn what_stands_here_with_its_lease_is_not_replaced_by_what_has_yet_to_be_leased() {
        let (live, mut backlog) = (Live::new(1, true), Backlog::default());
        let again = entry(1, 10);
        backlog.put_leased(vec![shelved(&again, 50)]);
        drop(live.lock().note_fired(std::slice::from_ref(&again)));
        backlog.put_to_lease(&live, vec![again.clone(), entry(2, 20)], Millis(60));
        assert!(!live.lock().keeps(&again) && live.lock().count_fired() == 1, "only the other one is kept");
        assert_eq!(given(&mut backlog, &live, 9), (vec![], vec![1]));
        assert_eq!(given(&mut backlog, &live, 9), (vec![2], vec![]));
        let newer = HotEntry { fence: lease_of(&again).fence, ..again.clone() };
        backlog.put_leased(vec![shelved(&again, 50)]);
        backlog.put_to_lease(&live, vec![newer], Millis(60));
        assert_eq!(given(&mut backlog, &live, 9), (vec![1], vec![]), "its lease was given back");
    }

    #[test]
    fn the_newest_version_goes_first_and_one_level_before_the_others() {
        let (live, mut backlog) = (Live::new(1, true), Backlog::default());
        let version = |id, task_version| HotEntry { task_id: 7, task_version, ..entry(id, id) };
        backlog.put_to_lease(&live, vec![version(1, 1), version(2, 2), entry(3, 0)], Millis(1));
        assert_eq!(ids(&backlog.take_to_lease(&live, 9, |_| true)), [3, 2, 1]);
    }
}
