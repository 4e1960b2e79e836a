//! What one engine has leased ahead of its instant, and what it has handed over of that without the store knowing to
//! whom. Losing any of it costs the rest of a short lease.

use super::reloading::Reloading;
use crate::{arrivals::Arrival, clock::Moment};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{
    hot::HotEntry,
    store::{Assignment, Beat},
};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{collections::BTreeMap, mem, sync::Arc};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Claimed, and perhaps to be leased ahead, in the order of their instants.
    pub(super) upcoming: Mutex<BTreeMap<(Millis, i64), HotEntry>>,
    pub(super) leased: Mutex<LeasedAhead>,
    /// Handed over; the store does not know to whom.
    pub(super) untold: Mutex<HashMap<i64, Untold>>,
    /// Where something lies that found nobody.
    pub(super) shelves: Mutex<Vec<Arc<Arrival>>>,
    pub(super) something: Notify,
    /// By the part of the store.
    pace: Mutex<HashMap<usize, Pace>>,
}

#[derive(Debug, Default)]
pub(super) struct LeasedAhead {
    pub(super) by_id: HashMap<i64, Leased>,
    pub(super) reloading: Reloading,
}

/// Nothing is leased ahead for so long after an answer that came too late, twice as long after each further one.
const PAUSE_MS: i64 = 200;
const PAUSE_MAX_MS: i64 = 6_400;

/// Whether the store answers in time.
#[derive(Debug, Default)]
struct Pace {
    not_before: Millis,
    late_in_a_row: u32,
}

/// Before its instant.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) entry: HotEntry,
    asked: Moment,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The store is being asked. Its instant may come before the answer: then it waits here, fired.
    Asked {
        fired: Option<HotEntry>,
    },
    Made(Box<Assignment>),
    /// The store is being asked, and somebody has withdrawn it meanwhile.
    Withdrawn,
}

/// Who has a task, and since when.
#[derive(Debug)]
pub(crate) struct Untold {
    pub(super) since: Millis,
    pub(super) beat: Beat,
    /// The store is being told. Until it has answered, an outcome may still be first.
    pub(super) is_being_told: bool,
}

impl Untold {
    /// When the attempt fired, by task and fence.
    pub(crate) fn fired(&self) -> Option<((i64, i64), Millis)> {
        Some(((self.beat.place.id, self.beat.fence), self.beat.handed_over_at?))
    }
}

/// What the firing of an entry meets.
#[derive(Debug)]
pub(crate) enum Fired {
    /// It was not leased ahead.
    Plain,
    /// Its lease is on the way, and will hand it over.
    Awaited,
    Leased(Box<Ready>),
}

/// What a lease meets that the store has made.
#[derive(Debug)]
pub(super) enum Made {
    /// For its instant.
    Waits,
    /// Its instant has come meanwhile.
    Fired(Box<Ready>),
    /// Nobody wants it any more.
    Unwanted(Box<Assignment>),
}

/// Fired and leased: whoever waits may have it.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) entry: HotEntry,
    pub(crate) assignment: Assignment,
    pub(super) asked: Moment,
    /// The hot set has nothing of it any more.
    pub(super) is_settled: bool,
}

impl Ahead {
    /// Has been claimed, and goes on the wheel.
    pub(crate) fn claimed(&self, entry: &HotEntry) {
        let mut upcoming = self.upcoming.lock();
        if upcoming.is_empty() {
            self.something.notify_one();
        }
        upcoming.insert(entry.key(), entry.clone());
    }

    /// Those whose instant has come near.
    pub(super) fn near(&self, until: Millis) -> Vec<HotEntry> {
        let mut upcoming = self.upcoming.lock();
        let later = upcoming.split_off(&(until, i64::MAX));
        let near = mem::replace(&mut *upcoming, later);
        drop(upcoming);
        near.into_values().collect()
    }

    /// Those that are not being loaded from an older look at the store. The others go the usual way.
    pub(super) fn ask(&self, mut entries: Vec<HotEntry>, now: Millis, asked: Moment) -> Vec<HotEntry> {
        let mut leased = self.leased.lock();
        entries.retain(|it| !leased.reloading.has(it.place.id, now));
        for it in &entries {
            let stage = Stage::Asked { fired: None };
            leased.by_id.insert(it.place.id, Leased { entry: it.clone(), asked, stage });
        }
        entries
    }

    /// Those that the store has leased and that are due by then, of each partition: when they fire, their hand-over is known.
    pub(crate) fn made_until(&self, until: Millis) -> HashMap<Partition, HashSet<(i64, i64)>> {
        let mut made: HashMap<Partition, HashSet<(i64, i64)>> = HashMap::new();
        for (id, it) in self.leased.lock().by_id.iter() {
            if it.entry.due_at <= until && matches!(it.stage, Stage::Made(_)) {
                made.entry(it.entry.place.partition).or_default().insert((*id, it.entry.fence));
            }
        }
        made
    }

    /// An entry has fired, or, settled, was taken out of the hot set instead.
    pub(crate) fn fired(&self, entry: &HotEntry, is_settled: bool) -> Fired {
        let mut leased = self.leased.lock();
        match leased.by_id.get_mut(&entry.place.id).filter(|it| it.entry.fence == entry.fence) {
            None | Some(Leased { stage: Stage::Withdrawn, .. }) => Fired::Plain,
            Some(Leased { stage: Stage::Asked { fired }, .. }) => {
                *fired = Some(entry.clone());
                Fired::Awaited
            }
            Some(_) => match leased.by_id.remove(&entry.place.id) {
                Some(Leased { stage: Stage::Made(it), asked, .. }) => {
                    let entry = entry.clone();
                    Fired::Leased(Box::new(Ready { entry, assignment: *it, asked, is_settled }))
                }
                _ => Fired::Plain,
            },
        }
    }

    /// The store has made the lease.
    pub(super) fn made(&self, assignment: Assignment) -> Made {
        let mut leased = self.leased.lock();
        let id = assignment.place.id;
        let Some(it) = leased.by_id.get_mut(&id).filter(|it| it.entry.fence + 1 == assignment.fence) else {
            return Made::Unwanted(Box::new(assignment));
        };
        if let Stage::Withdrawn = it.stage {
            leased.by_id.remove(&id);
            return Made::Waits;
        }
        let Stage::Asked { fired: Some(entry) } = &mut it.stage else {
            it.stage = Stage::Made(Box::new(assignment));
            return Made::Waits;
        };
        let ready = Ready { entry: entry.clone(), assignment, asked: it.asked, is_settled: false };
        leased.by_id.remove(&id);
        Made::Fired(Box::new(ready))
    }

    /// The store has answered, in time or not.
    pub(super) fn answered(&self, part: usize, in_time: bool, now: Millis) {
        let mut paces = self.pace.lock();
        let pace = paces.entry(part).or_default();
        if in_time {
            pace.late_in_a_row = 0;
        } else if now >= pace.not_before {
            // Those that were asked together count once.
            pace.not_before = now.plus((PAUSE_MS << pace.late_in_a_row.min(5)).min(PAUSE_MAX_MS));
            pace.late_in_a_row += 1;
        }
    }

    /// Time was set back.
    pub(super) fn begin_anew(&self) {
        *self.pace.lock() = HashMap::default();
    }

    /// The store was too slow lately: what is asked of it besides would make it slower.
    pub(super) fn is_too_slow(&self, part: usize, now: Millis) -> bool {
        self.pace.lock().get(&part).is_some_and(|it| now < it.not_before)
    }

    /// The lease was not made. Answers the entry if it has fired meanwhile.
    pub(super) fn refused(&self, entry: &HotEntry) -> Option<HotEntry> {
        let mut leased = self.leased.lock();
        leased.by_id.get(&entry.place.id).filter(|it| it.entry.fence == entry.fence)?;
        match leased.by_id.remove(&entry.place.id)?.stage {
            Stage::Asked { fired } => fired,
            Stage::Made(_) | Stage::Withdrawn => None,
        }
    }

    /// Takes out what was leased and has not fired. What is being asked for finds that nobody wants it.
    pub(super) fn give_up(&self, which: impl Fn(&HotEntry) -> bool) -> (Vec<Assignment>, Vec<HotEntry>) {
        let (mut made, mut fired_meanwhile) = (Vec::new(), Vec::new());
        for (_, it) in self.leased.lock().by_id.extract_if(|_, it| which(&it.entry)) {
            match it.stage {
                Stage::Asked { fired } => fired_meanwhile.extend(fired),
                Stage::Made(it) => made.push(*it),
                Stage::Withdrawn => {}
            }
        }
        (made, fired_meanwhile)
    }

    /// It was withdrawn before it fired: should it be found in the hot set once more, this lease does not go with it. Who
    /// withdrew it takes the lease back, also one that the store is about to make.
    pub(crate) fn withdrawn(&self, id: i64, fence: i64) {
        let mut leased = self.leased.lock();
        let Some(it) = leased.by_id.get_mut(&id).filter(|it| it.entry.fence <= fence) else { return };
        match it.stage {
            Stage::Asked { fired: None } => it.stage = Stage::Withdrawn,
            Stage::Made(_) => drop(leased.by_id.remove(&id)),
            Stage::Asked { fired: Some(_) } | Stage::Withdrawn => {}
        }
    }

    /// Of a queue, how many are leased and have not fired.
    pub(super) fn count(&self) -> HashMap<Arc<QueueKey>, usize> {
        let mut counts: HashMap<Arc<QueueKey>, usize> = HashMap::new();
        for it in self.leased.lock().by_id.values() {
            *counts.entry(Arc::clone(&it.entry.queue)).or_default() += 1;
        }
        counts
    }

    /// The outcomes of these attempts are here: nothing needs to be told of them. Answers what would have been.
    pub(crate) fn ended(&self, attempts: impl Iterator<Item = (i64, i64)>) -> Vec<Untold> {
        let mut untold = self.untold.lock();
        if untold.is_empty() {
            return Vec::new();
        }
        let is_its = |it: &Untold, fence| it.beat.fence == fence;
        let ended = attempts.filter_map(|(id, fence)| {
            let has_ended = untold.get(&id).is_some_and(|it| is_its(it, fence));
            if has_ended { untold.remove(&id) } else { None }
        });
        ended.collect()
    }

    /// What was handed over until then, and the store does not know to whom: it is told now.
    pub(super) fn untold_since(&self, until: Millis) -> Vec<Beat> {
        let mut untold = self.untold.lock();
        let old = untold.values_mut().filter(|it| it.since <= until && !it.is_being_told);
        let tell = |it: &mut Untold| {
            it.is_being_told = true;
            it.beat.clone()
        };
        old.map(tell).collect()
    }

    /// The store knows of these.
    pub(super) fn told(&self, beats: &[Beat]) {
        let mut untold = self.untold.lock();
        for beat in beats {
            let id = beat.place.id;
            if untold.get(&id).is_some_and(|it| it.beat.fence == beat.fence) {
                untold.remove(&id);
            }
        }
    }

    /// It may not: those handed over since then are told again.
    pub(super) fn not_told(&self, beats: &[Beat], since: Millis) {
        let mut untold = self.untold.lock();
        for beat in beats {
            let id = beat.place.id;
            match untold.get_mut(&id).filter(|it| it.beat.fence == beat.fence) {
                Some(it) if it.since > since => it.is_being_told = false,
                Some(_) => drop(untold.remove(&id)),
                None => {}
            }
        }
    }

    /// They are to be told after all.
    pub(crate) fn not_ended(&self, ended: Vec<Untold>) {
        let mut untold = self.untold.lock();
        for it in ended {
            untold.entry(it.beat.place.id).or_insert(Untold { is_being_told: false, ..it });
        }
        self.something.notify_one();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.upcoming.lock().is_empty()
            && self.leased.lock().by_id.is_empty()
            && self.untold.lock().is_empty()
            && self.shelves.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_late_is_asked_less_and_less_until_it_is_in_time() {
        let it = Ahead::default();
        let mut at = Millis(1_000);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            it.answered(0, false, at);
            it.answered(0, false, at.plus(1));
            let end = (0..=PAUSE_MAX_MS).map(|ms| at.plus(ms)).find(|now| !it.is_too_slow(0, *now)).unwrap();
            pauses.push(end.since(at));
            at = end;
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400]);
        it.answered(0, true, at);
        it.answered(0, false, at);
        assert!(it.is_too_slow(0, at.plus(PAUSE_MS - 1)) && !it.is_too_slow(0, at.plus(PAUSE_MS)));
        assert!(!it.is_too_slow(1, at), "another part answers in time");
    }
}
