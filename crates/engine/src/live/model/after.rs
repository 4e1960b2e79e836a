//! The model after the firing: lines, gates, tasks that the store does not know, and lost answers.

use super::{
    super::{
        for_later::ForLaterLease,
        handed_over::{EndedAttempts, Unreported},
        served::tests::{plain, strict},
        stage::{HolderReport, Stage},
        steps::{FOR_LATER, REPORTED, SERVED, awaits_executor, has_not_fired},
    },
    Key, LiveModel, key,
};
use crate::pipeline::drain::tests::entry;
use fastrand::Rng;
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    hot::{HotEntry, ParkReason},
    store::{Assignment, Beat},
};
use punctual_domain::time::Millis;
use std::collections::BTreeMap;

impl LiveModel {
    /// Moves fired tasks into the line, out of it, to an executor, or behind the gate of their database.
    pub(super) fn hand_over(&mut self) {
        let take = |rng: &mut Rng, from: &mut Vec<HotEntry>| -> Vec<HotEntry> {
            let most = rng.usize(0..=from.len());
            from.drain(..most).collect()
        };
        match self.rng.u8(1..19) {
            1 => self.pass(),
            2 => {
                let some = take(&mut self.rng, &mut self.offered);
                let begun: HashSet<Key> = self.live.lock().begin_grants(&some).into_iter().collect();
                let some: Vec<_> = some.into_iter().filter(|entry| begun.contains(&key(entry))).collect();
                assert!(some.iter().all(|entry| self.live.lock().keeps(entry)));
                self.grants.push(some);
            }
            3 => self.end_grant(),
            4 => self.take_aside(),
            5 => {
                let count = self.live.lock().aside().count();
                assert!(count <= self.aside.len());
            }
            6 => self.note_fired(),
            7 => self.doubt_asked(),
            8 => self.doubt_made(),
            9 => self.resolve(),
            10 => {
                let some = take(&mut self.rng, &mut self.offered);
                self.live.lock().hold_back(&some);
                self.retry_queue.extend(some.iter().map(key));
            }
            11 => {
                let some = take(&mut self.rng, &mut self.offered);
                self.live.lock().serve(&some, plain);
                self.served.extend(some.iter().map(key));
            }
            12 | 13 => self.take_served(),
            15 | 16 => {
                let some = take(&mut self.rng, &mut self.offered);
                let lane = self.lane();
                self.live.lock().park(&lane, &some, plain);
                self.served.extend(some.iter().map(key));
            }
            17 => self.unpark(),
            14 => {
                let back = self.live.lock().take_held_back();
                for entry in &back {
                    assert!(self.retry_queue.remove(&key(entry)), "it was held back");
                    assert!(!self.live.lock().keeps(entry));
                }
                self.offered.extend(back);
            }
            _ => self.persist(),
        }
    }

    /// Tasks are passed to another engine, could not be passed after all, or are the store's after a while.
    fn pass(&mut self) {
        match self.rng.u8(0..3) {
            0 => {
                let some = std::mem::take(&mut self.offered);
                self.live.lock().pass(&some, self.now);
                for entry in &some {
                    let is_known = self.live.lock().unpersisted_at(entry.place.id, entry.fence).is_some();
                    assert!(!is_known, "nothing is to be written of it");
                    self.unpersisted.remove(&key(entry));
                }
                self.passed.extend(some);
            }
            1 => {
                let some = std::mem::take(&mut self.passed);
                self.live.lock().serve(&some, plain);
                self.served.extend(some.iter().map(key));
            }
            _ => {
                self.live.lock().forget_passed(self.now);
                self.offered.append(&mut self.passed);
            }
        }
    }

    /// Ends a request for leases: its tasks are deferred, lined, or with executors.
    fn end_grant(&mut self) {
        let Some(some) = self.grants.pop() else { return };
        if self.rng.bool() {
            self.live.lock().set_aside(&some, 100);
            let newer = |entry: &HotEntry| self.fences.get(&entry.place.id) > Some(&entry.fence);
            assert!(some.iter().all(|entry| self.live.lock().keeps(entry) || newer(entry)));
            self.aside.extend(some.iter().map(key));
        }
        if self.rng.u8(0..4) == 0 {
            self.live.lock().serve(&some, plain);
            self.served.extend(some.iter().map(key));
        }
        if self.rng.u8(0..3) == 0 {
            // The store leases a fence once.
            let leased = &mut self.leased;
            let mut made = some.clone();
            made.retain(|entry| leased.insert(key(entry)));
            self.deliver(&made);
        }
        let keys: Vec<Key> = some.iter().map(key).collect();
        self.live.lock().end_grants(&keys);
    }

    /// Brings tasks back whose database answers again.
    fn take_aside(&mut self) {
        let parity = self.rng.i64(0..2);
        let back = self.live.lock().take_aside(|entry| entry.place.id % 2 == parity);
        for entry in &back {
            assert!(self.aside.remove(&key(entry)), "it was set aside");
            assert!(!self.live.lock().keeps(entry));
        }
        self.offered.extend(back);
    }

    /// The store learns of some fired tasks.
    fn persist(&mut self) {
        let all: Vec<HotEntry> = self.live.lock().unpersisted().cloned().collect();
        let some: Vec<HotEntry> = all.into_iter().filter(|_| self.rng.bool()).collect();
        self.live.lock().persisted(&some);
        for entry in &some {
            assert!(self.unpersisted.remove(&key(entry)), "it was noted");
            assert_eq!(self.live.lock().unpersisted_at(entry.place.id, entry.fence), None);
        }
    }

    /// The store has made the leases of executors.
    fn deliver(&mut self, entries: &[HotEntry]) {
        let leases: Vec<Assignment> = entries.iter().map(super::lease_of).collect();
        self.live.lock().know_attempts(&entry(1, 1).queue, &leases, self.now.plus(100));
        for lease in &leases {
            let newest = self.fences.entry(lease.place.id).or_insert(lease.fence);
            *newest = (*newest).max(lease.fence);
            self.delivered.insert((lease.place.id, lease.fence), self.now.plus(100));
        }
    }

    /// Executors report, once or twice, or give a heartbeat.
    fn end_delivered(&mut self) {
        let mut some: Vec<Key> = self.delivered.keys().copied().filter(|_| self.rng.bool()).collect();
        if self.rng.bool() {
            self.live.lock().forget_attempts(some.iter().copied());
            some.iter().for_each(|attempt| _ = self.delivered.remove(attempt));
            let unreported = |(id, fence): &Key| self.live.lock().is_unreported(*id, *fence);
            let held: Vec<&Key> =
                some.iter().filter(|attempt| self.handed_over.contains_key(*attempt)).collect();
            return assert!(held.into_iter().all(unreported), "a sign of life says nothing of a report");
        }
        some.retain(|attempt| !self.handed_over.contains_key(attempt));
        let ended = self.live.lock().ended(some.iter().copied(), self.now);
        assert!(ended.unreported.is_empty(), "the store knows who has them");
        self.end_known(&some, ended.known.into_keys().collect());
    }

    /// The known facts of these are returned with their outcomes: once, and while they are good.
    fn end_known(&mut self, ended: &[Key], known: Vec<Key>) {
        for attempt in &known {
            let until = self.delivered.get(attempt);
            assert!(ended.contains(attempt) && until.is_some_and(|until| self.now < *until), "{attempt:?}");
        }
        assert!(self.live.lock().ended(ended.iter().copied(), self.now).known.is_empty(), "known once");
        self.seen.ended += known.len();
        ended.iter().for_each(|attempt| _ = self.delivered.remove(attempt));
    }

    /// Fired tasks are noted, except those with a lease or a newer fence in the table.
    fn note_fired(&mut self) {
        let some: Vec<HotEntry> = self.offered.iter().filter(|_| self.rng.bool()).cloned().collect();
        for entry in &some {
            let is_refused = self.refused()(entry);
            let known = self.live.lock().note_fired(std::slice::from_ref(entry));
            let (id, fence) = key(entry);
            let noted = self.live.lock().unpersisted_at(id, fence);
            assert_eq!(noted, (!is_refused).then_some(entry.fired_at), "{id} {fence}");
            assert_eq!(!known.is_empty(), !is_refused && self.unpersisted.contains(&(id, fence)));
            self.unpersisted.extend(noted.map(|_| (id, fence)));
        }
    }

    fn take_served(&mut self) {
        if self.rng.u8(0..8) == 0 {
            let served = self.live.lock().serve_no_more(|_| true, |_| true);
            assert!(served.iter().all(|entry| self.served.remove(&key(entry))), "it was to be served");
            self.offered.extend(served);
            return self.served.clear();
        }
        let queue = entry(1, 1).queue;
        let stages: HashMap<i64, Stage> =
            self.live.lock().of_model().into_iter().map(|(id, _, stage, _, _)| (id, stage)).collect();
        let ready = self.live.lock().line_counts(&queue).ready;
        let taken = self.live.lock().take_served(&queue, strict(3));
        assert_eq!(taken.len(), ready.min(3), "all that nothing keeps");
        assert!(taken.is_sorted_by_key(|entry| (entry.due_at, entry.place.id)), "the oldest first");
        for entry in &taken {
            assert!(self.served.remove(&key(entry)), "it was to be served");
            assert_eq!(stages.get(&entry.place.id), Some(&SERVED), "what is parked is not given");
            assert!(!self.live.lock().serves(entry));
        }
        self.offered.extend(taken);
    }

    fn lane(&mut self) -> ParkReason {
        ParkReason::Key(self.rng.i64(0..2).to_string())
    }

    /// A lane opens.
    fn unpark(&mut self) {
        let (queue, lane, limit) = (entry(1, 1).queue, self.lane(), self.rng.usize(0..4));
        let before = self.live.lock().line_counts(&queue);
        let lanes = self.live.lock().lanes(&queue, None, usize::MAX);
        let parked = lanes.iter().find(|(other, _)| *other == lane).map_or(0, |(_, count)| *count);
        assert_eq!(lanes.iter().map(|(_, count)| count).sum::<usize>(), before.parked);
        let back = self.live.lock().unpark(&queue, &lane, limit);
        assert_eq!(back, parked.min(limit));
        let after = self.live.lock().line_counts(&queue);
        assert_eq!((after.ready, after.parked), (before.ready + back, before.parked - back));
    }

    /// Tests if the table refuses a fired entry: it has a prelease of it, or a newer fence.
    fn refused(&self) -> impl Fn(&HotEntry) -> bool + use<> {
        let slots = self.live.lock().of_model();
        let slots = slots.into_iter().filter(|slot| slot.2 != REPORTED);
        let slots: HashMap<i64, (i64, bool)> =
            slots.map(|(id, fence, _, _, is_leased)| (id, (fence, is_leased))).collect();
        move |entry| {
            let (id, fence) = key(entry);
            slots.get(&id).is_some_and(|(known, is_leased)| *known > fence || *known == fence && *is_leased)
        }
    }

    /// A grant is not answered: its tasks are offered again immediately.
    fn doubt_asked(&mut self) {
        let some: Vec<HotEntry> = self.grants.iter().flatten().chain(&self.offered).cloned().collect();
        let some: Vec<HotEntry> = some.into_iter().filter(|_| self.rng.u8(0..4) == 0).collect();
        let refused = self.refused();
        self.live.lock().doubt_asked(&some, "ann", Millis::MAX, self.now);
        self.doubted.extend(some.iter().filter(|entry| !refused(entry)).map(key));
    }

    /// The store has not answered requests for preleases. Returns tasks that fired meanwhile.
    pub(super) fn lease_unanswered(&mut self, asked: &[HotEntry]) -> Vec<HotEntry> {
        let slots = self.live.lock().of_model();
        let stages: HashMap<Key, Stage> = slots.iter().map(|slot| ((slot.0, slot.1), slot.2)).collect();
        let fired = self.live.lock().lease_unanswered(asked, "ahead", Millis::MAX, self.now);
        for key in asked.iter().map(key) {
            match stages.get(&key) {
                Some(Stage::Leasing { .. } | Stage::Waiting) => _ = self.doubted_ahead.insert(key),
                Some(stage) if awaits_executor(*stage) => _ = self.doubted.insert(key),
                _ => {}
            }
        }
        fired
    }

    /// A doubtful prelease stays in doubt after the task fires.
    pub(super) fn fires_in_doubt(&mut self, entry: &HotEntry) {
        if self.doubted_ahead.remove(&key(entry)) {
            self.doubted.insert(key(entry));
        }
    }

    /// An executor's lease was made and could not be returned; or another call has returned it, and the hot set has its task.
    fn doubt_made(&mut self) {
        let is_newest = |entry: &&HotEntry| {
            let (id, fence) = key(entry);
            self.fences.get(&id) == Some(&fence) && !self.hot.contains_key(&id)
        };
        let offered = self.offered.iter().chain(self.grants.iter().flatten());
        let offered: Vec<&HotEntry> = offered.filter(is_newest).collect();
        let Some(entry) = self.rng.choice(offered).cloned() else { return };
        let (id, fence) = key(&entry);
        let lease = HotEntry { fence: fence + 1, ..entry.clone() };
        self.fences.insert(id, lease.fence);
        self.leased.insert(key(&entry));
        self.live.lock().doubt_made(vec![lease.clone()], self.now);
        self.made.insert(key(&lease));
        if self.rng.bool() {
            self.hot.insert(id, HotEntry { fired_at: Millis::ZERO, ..lease });
        }
    }

    /// A database is unavailable, and an executor gets offered tasks; or it returns, and gets the executors' leases.
    pub(super) fn hand_over_for_later(&mut self) {
        if self.rng.bool() {
            let settled: Vec<Key> = self.for_later.iter().copied().filter(|_| self.rng.bool()).collect();
            for attempt in settled {
                self.live.lock().record_for_later(attempt.0, attempt.1);
                self.for_later.remove(&attempt);
            }
            return;
        }
        let is_newest = |entry: &&HotEntry| {
            let (id, fence) = key(entry);
            self.fences.get(&id) == Some(&fence) && !self.hot.contains_key(&id)
        };
        let offered: Vec<&HotEntry> = self.offered.iter().filter(is_newest).collect();
        let Some(entry) = self.rng.choice(offered).cloned() else { return };
        let leased = HotEntry { fence: entry.fence + 1, ..entry.clone() };
        let lease = ForLaterLease {
            executor: "ann".to_owned(),
            until: Millis::MAX,
            longest: Millis::MAX,
            has_begun: false,
            is_unheard: false,
            is_refused: false,
            written_until: None,
            is_change: false,
        };
        self.offered.retain(|offered| key(offered) != key(&entry));
        self.fences.insert(entry.place.id, leased.fence);
        self.leased.insert(key(&entry));
        assert!(self.live.lock().hand_over_for_later(leased.clone(), lease));
        assert!(!self.live.lock().keeps(&HotEntry { fence: leased.fence, ..entry }));
        self.for_later.insert(key(&leased));
    }

    fn resolve(&mut self) {
        let due = self.live.lock().doubts_due(self.now, 3);
        let known = |lease: &i64, id: i64| {
            let before = (id, *lease - 1);
            let is_asked = self.doubted.contains(&before) || self.doubted_ahead.contains(&before);
            is_asked || self.made.contains(&(id, *lease))
        };
        assert!(due.iter().all(|lease| known(&lease.fence, lease.place.id)), "{due:?}");
        let resolved: Vec<_> = due.into_iter().filter(|_| self.rng.bool()).collect();
        self.live.lock().doubts_resolved(&resolved);
        for lease in resolved {
            let (id, before) = (lease.place.id, (lease.place.id, lease.fence - 1));
            let is_asked = self.doubted.remove(&before) || self.doubted_ahead.remove(&before);
            assert!(is_asked || self.made.remove(&(id, lease.fence)));
        }
    }

    /// Hands preleases to executors. Their holders are reported, or their outcomes arrive first.
    pub(super) fn report(&mut self) {
        match self.rng.u8(0..6) {
            0 | 1 => self.hand_over_leased(),
            5 => self.end_delivered(),
            2 => {
                let beats = self.live.lock().begin_reports(self.now.plus(-50));
                for beat in &beats {
                    let attempt = (beat.place.id, beat.fence);
                    assert!(self.handed_over.get(&attempt).is_some_and(|since| *since <= self.now.plus(-50)));
                    assert!(self.reporting.insert(attempt), "reported already");
                }
                self.reports.push(beats);
            }
            3 => {
                let Some(beats) = self.reports.pop() else { return };
                let (is_known, end) = (self.rng.bool(), self.now.plus(-200));
                if is_known {
                    self.live.lock().reported(&beats);
                } else {
                    self.live.lock().not_reported(&beats, end);
                }
                for attempt in beats.iter().map(|beat| (beat.place.id, beat.fence)) {
                    let is_over = |since: &Millis| is_known || *since <= end;
                    if self.handed_over.get(&attempt).is_some_and(is_over) {
                        self.handed_over.remove(&attempt);
                        let is_known = self.live.lock().knows_attempt(attempt.0, attempt.1);
                        assert_eq!(is_known, self.delivered.contains_key(&attempt), "a report takes nothing");
                        self.seen.reported_known += usize::from(is_known);
                    }
                    self.reporting.remove(&attempt);
                }
            }
            _ => {
                let some: Vec<Key> = self.handed_over.keys().copied().filter(|_| self.rng.bool()).collect();
                let strangers = some.iter().map(|(id, fence)| (*id, fence + 1));
                let strange = self.live.lock().ended(strangers, self.now);
                assert!(strange.unreported.is_empty() && strange.known.is_empty(), "of another fence");
                let EndedAttempts { unreported: ended, known } =
                    self.live.lock().ended(some.iter().copied(), self.now);
                assert_eq!(ended.iter().map(|held| key(&held.entry)).collect::<Vec<_>>(), some);
                let is_good =
                    |attempt: &&Key| self.delivered.get(*attempt).is_some_and(|until| self.now < *until);
                assert_eq!(
                    known.len(),
                    some.iter().filter(is_good).count(),
                    "all that is known goes with them"
                );
                self.seen.ended_unreported += known.len();
                self.end_known(&some, known.into_keys().collect());
                self.reporting.retain(|attempt| !some.contains(attempt));
                if self.rng.bool() {
                    self.live.lock().not_ended(ended);
                } else {
                    self.handed_over.retain(|attempt, _| !some.contains(attempt));
                }
            }
        }
    }

    fn hand_over_leased(&mut self) {
        let Some(entry) = self.ready.pop() else { return };
        let (id, fence) = (entry.place.id, entry.fence + 1);
        let entry = HotEntry { fence, ..entry };
        let beat = Beat {
            place: entry.place,
            fence,
            lease_until: Millis::MAX,
            progress: None,
            log: None,
            executor: "ann".to_owned(),
            handed_over_at: Some(self.now),
        };
        let known = self.live.lock().of_model().iter().find(|slot| slot.0 == id).map(|slot| slot.1);
        self.live.lock().hand_over(Unreported { entry: entry.clone(), since: self.now, beat });
        if known.is_some_and(|known| known > fence) {
            return assert!(!self.live.lock().is_unreported(id, fence), "its lease is over");
        }
        assert!(self.live.lock().is_unreported(id, fence) && !self.live.lock().keeps(&entry));
        // A new attempt nearly always has known facts.
        if self.rng.u8(0..8) != 0 {
            self.deliver(&[HotEntry { fence: fence - 1, ..entry.clone() }]);
            assert!(self.live.lock().is_unreported(id, fence));
        }
        self.handed_over.insert((id, fence), self.now);
        let newest = self.fences.get(&id).copied().unwrap_or_default().max(fence);
        self.fences.insert(id, newest);
        if newest == fence && !self.hot.contains_key(&id) && self.rng.u8(0..4) == 0 {
            // Its executor gives it back.
            self.hot.insert(id, HotEntry { fired_at: Millis::ZERO, ..entry });
        }
    }

    /// Notes beside the stages stay until they are handled, or a newer fence replaces them.
    pub(super) fn check_after(&mut self) {
        let table = self.live.lock();
        let slots: HashMap<i64, (i64, Stage)> =
            table.of_model().into_iter().map(|(id, fence, stage, _, _)| (id, (fence, stage))).collect();
        let is_newest = |(id, fence): &Key| slots.get(id).is_none_or(|(known, _)| known <= fence);
        self.unpersisted.retain(is_newest);
        self.doubted.retain(is_newest);
        // Withdrawn, given up, or replaced.
        self.doubted_ahead.retain(|(id, fence)| {
            let is_here = |(known, stage): &(i64, Stage)| {
                let awaits_lease = matches!(stage, Stage::Held | Stage::Leasing { due: true });
                known == fence && (has_not_fired(*stage) || awaits_lease)
            };
            slots.get(id).is_some_and(is_here)
        });
        self.made.retain(|(id, fence)| {
            let is_replaced =
                |(known, stage): &(i64, Stage)| known > fence || known == fence && *stage != Stage::InDoubt;
            !slots.get(id).is_some_and(is_replaced)
        });
        self.handed_over.retain(|(id, fence), _| {
            let is_held = |stage: &Stage| {
                matches!(stage, Stage::HandedOver { .. }) && !matches!(*stage, REPORTED | FOR_LATER)
            };
            let is_replaced =
                |(known, stage): &(i64, Stage)| known > fence || known == fence && !is_held(stage);
            !slots.get(id).is_some_and(is_replaced)
        });
        self.reporting.retain(|attempt| self.handed_over.contains_key(attempt));
        self.for_later.retain(is_newest);
        let for_later = slots.iter().filter(|(_, (_, stage))| *stage == FOR_LATER);
        assert_eq!(for_later.map(|(id, (fence, _))| (*id, *fence)).collect::<HashSet<Key>>(), self.for_later);
        let mut held = BTreeMap::new();
        for (id, (fence, stage)) in &slots {
            if let Stage::HandedOver { report: report @ (HolderReport::Owed | HolderReport::Asked) } = stage {
                held.insert((*id, *fence), *report == HolderReport::Asked);
            }
        }
        let expected = self.handed_over.keys().map(|attempt| (*attempt, self.reporting.contains(attempt)));
        assert_eq!(held, expected.collect());
        for (id, fence) in self.handed_over.keys() {
            let is_known = table.knows_attempt(*id, *fence);
            assert_eq!(is_known, self.delivered.contains_key(&(*id, *fence)), "{id} is not reported");
        }
        assert_eq!(table.unpersisted().map(key).collect::<HashSet<Key>>(), self.unpersisted);
        let doubtful = self.doubted.iter().chain(&self.doubted_ahead).chain(&self.made);
        let doubtful: HashSet<Key> = doubtful.copied().collect();
        assert_eq!(table.doubtful().collect::<HashSet<Key>>(), doubtful);
    }
}
