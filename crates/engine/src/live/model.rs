//! Tests the table against a naive model of the hot set, the store and callers. The model knows fences,
//! instants and promises; it must never repeat the table of moves.

use super::{
    Live, Withdrawal,
    fired::{Fired, Granted, Ready},
    stage::{Gate, HolderReport, Stage, TaskEvent},
    steps::{FOR_LATER, REPORTED, STEPS, awaits_executor, has_lease, has_not_fired},
};
use crate::{clock::steady_reading::SteadyReading, pipeline::drain::tests::entry};
use fastrand::Rng;
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    hot::HotEntry,
    store::{Assignment, Beat},
};
use punctual_domain::{
    content::Content,
    name::Name,
    place::{Partition, TaskRef},
    task::Priority,
    time::Millis,
};
use std::collections::BTreeMap;

mod after;

const PARTITIONS: u16 = 3;
const TASKS: i64 = 24;
const HORIZON_MS: u64 = 400;
/// Legal moves that the operations here make never, or by chance. The list only gets shorter.
const SELDOM: [(Stage, &[TaskEvent]); 8] = [
    (Stage::Passed, &[TaskEvent::Blocked(Gate::Lane), TaskEvent::GrantBegun, TaskEvent::PassedOn]),
    (Stage::Ready { gate: None }, OFFERED_ELSEWHERE),
    (
        Stage::Ready { gate: Some(Gate::Database) },
        &[TaskEvent::GrantBegun, TaskEvent::Blocked(Gate::Database)],
    ),
    (Stage::Ready { gate: Some(Gate::Retry) }, OFFERED_ELSEWHERE),
    (Stage::Ready { gate: Some(Gate::Lane) }, OFFERED_ELSEWHERE),
    (Stage::Granting, &[TaskEvent::GrantBegun]),
    (Stage::HandedOver { report: HolderReport::Owed }, &[TaskEvent::Reported]),
    (Stage::HandedOver { report: HolderReport::Asked }, &[TaskEvent::NotReported]),
];
/// Events of a stored task that is offered once more.
const OFFERED_ELSEWHERE: &[TaskEvent] = &[
    TaskEvent::GrantBegun,
    TaskEvent::Lined,
    TaskEvent::Blocked(Gate::Database),
    TaskEvent::Blocked(Gate::Retry),
    TaskEvent::Blocked(Gate::Lane),
];

type Key = (i64, i64);

#[derive(Default)]
struct ModelCoverage {
    stages: HashSet<Stage>,
    moves: HashMap<(Stage, TaskEvent), usize>,
    given: usize,
    withdrawn: usize,
    put_back: usize,
    unwanted: usize,
    returned: usize,
    ended: usize,
    ended_unreported: usize,
    reported_known: usize,
}

struct LiveModel {
    live: Live,
    rng: Rng,
    now: Millis,
    fences: HashMap<i64, i64>,
    owned: HashSet<u16>,
    /// Due entries of the hot set, by id.
    hot: BTreeMap<i64, HotEntry>,
    /// Claims and leases that were requested and not answered.
    claims: Vec<HotEntry>,
    leases: Vec<HotEntry>,
    /// Leases that the store has made.
    leased: HashSet<Key>,
    /// Fired, and neither given nor returned yet.
    awaited: HashSet<Key>,
    /// The tasks that may be offered or handed over: cancelled xor fired.
    given: HashSet<Key>,
    withdrawn: HashSet<Key>,
    /// Fired and offered: in no line here.
    offered: Vec<HotEntry>,
    grants: Vec<Vec<HotEntry>>,
    aside: HashSet<Key>,
    /// Fired, and the store does not know.
    unpersisted: HashSet<Key>,
    retry_queue: HashSet<Key>,
    served: HashSet<Key>,
    /// The tasks that other engines may have.
    passed: Vec<HotEntry>,
    /// Tasks with a lease that may have been made, and with one that was made and could not be returned.
    doubted: HashSet<Key>,
    /// The same for preleases of unfired tasks.
    doubted_ahead: HashSet<Key>,
    made: HashSet<Key>,
    /// Fired with a lease that was made ahead: an executor may have them.
    ready: Vec<HotEntry>,
    /// The handed over tasks, by the fence of the lease, with the time of the hand-over.
    handed_over: BTreeMap<Key, Millis>,
    reporting: HashSet<Key>,
    reports: Vec<Vec<Beat>>,
    /// Attempts at executors, by the fence of the lease: until when their facts may be known.
    delivered: BTreeMap<Key, Millis>,
    /// The tasks at executors, by leases that the store does not know.
    for_later: HashSet<Key>,
    seen: ModelCoverage,
}

fn key(entry: &HotEntry) -> Key {
    (entry.place.id, entry.fence)
}

pub(crate) fn lease_of(entry: &HotEntry) -> Assignment {
    Assignment {
        place: entry.row(),
        queue: (*entry.queue).clone(),
        task_id: entry.task_id,
        task_version: entry.task_version,
        fence: entry.fence + 1,
        attempt: 1,
        max_attempts: 1,
        kind: Name::new("k").unwrap(),
        priority: Priority::default(),
        payload: Content::default(),
        execute_at: entry.due_at,
        due_at: entry.due_at,
        fired_at: Millis::ZERO,
        leased_since: Millis::ZERO,
        lease_until: Millis::MAX,
        timeout_ms: None,
        labels: BTreeMap::new(),
        traceparent: None,
    }
}

impl LiveModel {
    fn new(seed: u64) -> Self {
        Self {
            live: Live::new(PARTITIONS, false),
            rng: Rng::with_seed(seed),
            now: Millis(0),
            fences: HashMap::new(),
            owned: HashSet::new(),
            hot: BTreeMap::new(),
            claims: Vec::new(),
            leases: Vec::new(),
            leased: HashSet::new(),
            awaited: HashSet::new(),
            given: HashSet::new(),
            withdrawn: HashSet::new(),
            offered: Vec::new(),
            grants: Vec::new(),
            aside: HashSet::new(),
            unpersisted: HashSet::new(),
            retry_queue: HashSet::new(),
            served: HashSet::new(),
            passed: Vec::new(),
            doubted: HashSet::new(),
            doubted_ahead: HashSet::new(),
            made: HashSet::new(),
            ready: Vec::new(),
            handed_over: BTreeMap::new(),
            reporting: HashSet::new(),
            reports: Vec::new(),
            delivered: BTreeMap::new(),
            for_later: HashSet::new(),
            seen: ModelCoverage::default(),
        }
    }

    /// A task that is new, or that another attempt or change has given a newer fence.
    fn insert(&mut self) {
        let id = self.rng.i64(0..TASKS);
        if self.hot.contains_key(&id) {
            return;
        }
        let fence = self.fences.entry(id).or_insert(0);
        *fence += 10;
        let due_at = self.now.plus(1 + i64::try_from(self.rng.u64(0..HORIZON_MS)).unwrap());
        let place =
            TaskRef { partition: Partition(u16::try_from(id % i64::from(PARTITIONS)).unwrap()), due_at, id };
        let entry = HotEntry { place, due_at, fence: *fence, ..entry(id, due_at.0) };
        self.hot.insert(id, entry);
    }

    fn some(&mut self, entries: &mut Vec<HotEntry>) -> Vec<HotEntry> {
        let most = self.rng.usize(0..=entries.len());
        entries.drain(..most).collect()
    }

    /// Drains due entries, including ones that the table already has, and withdrawn ones that were put back.
    fn drain(&mut self) {
        let found: Vec<HotEntry> = self.hot.values().filter(|_| self.rng.bool()).cloned().collect();
        found.iter().for_each(|entry| _ = self.hot.remove(&entry.place.id));
        let is_pushed = |entry: &HotEntry| entry.place.id % 3 == 0;
        let held = self.live.lock().of_model().into_iter().filter(|slot| slot.2 == Stage::Held);
        let put_back: HashSet<Key> = held.map(|slot| (slot.0, slot.1)).collect();
        let loaded = self.live.lock().load(found.clone(), is_pushed, |_| true);
        let here = |entry: &&HotEntry| self.owned.contains(&entry.place.partition.0);
        assert_eq!(loaded.elsewhere.len(), found.iter().filter(|entry| !here(entry)).count());
        assert!(loaded.accepted.iter().all(|entry| here(&entry)));
        for entry in &loaded.accepted {
            self.seen.put_back += usize::from(put_back.contains(&key(entry)));
            self.withdrawn.remove(&key(entry));
        }
        let is_new = |entry: &&HotEntry| is_pushed(entry) && !put_back.contains(&key(entry));
        assert_eq!(loaded.to_claim.len(), loaded.accepted.iter().filter(is_new).count());
        self.claims.extend(loaded.to_claim);
        for entry in loaded.elsewhere {
            self.hot.insert(entry.place.id, entry);
        }
    }

    /// An awaited entry is answered once, and a withdrawn one is never given.
    fn gives(&mut self, key: Key, was_awaited: bool) {
        assert_eq!(self.awaited.remove(&key), was_awaited, "{key:?}");
        assert!(!self.withdrawn.contains(&key), "withdrawn, and given: {key:?}");
        assert!(self.given.insert(key), "given twice: {key:?}");
        self.seen.given += 1;
    }

    /// The entry is held back: what happens next is outside the table.
    fn gives_up(&mut self, fired: &[HotEntry]) {
        for entry in fired {
            self.fires_in_doubt(entry);
            self.gives(key(entry), true);
        }
    }

    fn answer_claims(&mut self) {
        let mut asked = std::mem::take(&mut self.claims);
        let answered = self.some(&mut asked);
        self.claims = asked;
        match self.rng.u8(0..6) {
            0 => {
                let fired = self.live.lock().not_claimed(&answered);
                self.gives_up(&fired);
            }
            1 => {
                self.live.lock().refuse_claims(&answered);
                answered.iter().for_each(|entry| _ = self.awaited.remove(&key(entry)));
            }
            _ => {
                let claimed = self.live.lock().claimed(&answered, |_| true);
                self.gives_up(&claimed.fired);
            }
        }
    }

    fn lease(&mut self) {
        let near = self.live.lock().take_candidates(self.now.plus(100));
        let begun = self.live.lock().begin_leases(near, SteadyReading::of_test());
        self.leases.extend(begun);
    }

    fn answer_leases(&mut self) {
        let mut asked = std::mem::take(&mut self.leases);
        let answered = self.some(&mut asked);
        self.leases = asked;
        let (fails, is_lost) = (self.rng.u8(0..4) == 0, self.rng.bool());
        // The store leases a fence once; a partition that was released and taken again may have requested it
        // twice.
        let (answered, refused): (Vec<_>, Vec<_>) =
            answered.into_iter().partition(|entry| !fails && self.leased.insert(key(entry)));
        let fired = if fails && is_lost {
            self.lease_unanswered(&refused)
        } else {
            self.live.lock().not_granted(&refused)
        };
        self.gives_up(&fired);
        let granted = self.live.lock().granted(answered.iter().map(lease_of).collect());
        for (entry, granted) in answered.iter().zip(granted) {
            match granted {
                Granted::Kept => _ = self.doubted_ahead.remove(&key(entry)),
                Granted::Unwanted(lease) => {
                    assert_eq!(lease.fence, entry.fence + 1);
                    self.seen.unwanted += 1;
                }
                Granted::Fired(ready) => self.gives_ready(&ready, true),
            }
        }
    }

    fn gives_ready(&mut self, ready: &Ready, was_awaited: bool) {
        assert_eq!(ready.assignment, lease_of(&ready.entry), "the lease of this entry");
        assert!(ready.entry.fired_at >= ready.entry.due_at, "early");
        self.gives(key(&ready.entry), was_awaited);
        self.ready.push(ready.entry.clone());
    }

    fn fire(&mut self) {
        self.now = self.now.plus(i64::from(self.rng.u8(0..60)));
        let due = |world: &Self| -> HashMap<Key, Stage> {
            let all = world.live.lock().of_model();
            let entry = |(id, fence, stage, ..): (i64, i64, Stage, bool, bool)| ((id, fence), stage);
            all.into_iter().map(entry).filter(|(_, stage)| has_not_fired(*stage)).collect()
        };
        let before = due(self);
        let most = self.rng.usize(1..20);
        let (fired, is_all) = self.live.lock().fire(self.now, most);
        let after = due(self);
        let moved: Vec<Key> = before.keys().filter(|key| !after.contains_key(*key)).copied().collect();
        assert!(moved.len() <= most && (is_all || moved.len() == most));
        let mut given = HashSet::new();
        for task in fired {
            let (entry, ready) = match task {
                Fired::ToLease(entry) => (entry, None),
                Fired::Leased(ready) => (ready.entry.clone(), Some(ready)),
            };
            assert!(entry.due_at <= self.now && entry.fired_at == self.now, "early");
            let leased = before.get(&key(&entry)) == Some(&Stage::Leased);
            assert_eq!(ready.is_some(), leased, "what is leased goes with its lease");
            given.insert(key(&entry));
            match ready {
                Some(ready) => self.gives_ready(&ready, false),
                None => {
                    self.gives(key(&entry), false);
                    self.fires_in_doubt(&entry);
                    self.offered.push(entry);
                }
            }
        }
        for key in moved.into_iter().filter(|key| !given.contains(key)) {
            assert!(self.awaited.insert(key), "fired twice");
        }
        if is_all {
            let late = |entry: &&HotEntry| entry.due_at <= self.now;
            let table = self.live.lock();
            let mut slots = table.slots.iter().map(|(_, slot)| &slot.entry);
            assert!(!slots.any(|entry| late(&entry) && table.holds(entry)), "all that is due fires");
        }
    }

    /// Withdraws a task before it fires; sometimes it is put back, because its change failed.
    fn withdraw(&mut self) {
        // Half of them while their leases are being requested, so that they are often put back before the
        // answer.
        let leasing: Vec<HotEntry> = self.leases.clone();
        let all: Vec<HotEntry> = self.live.lock().slots.iter().map(|(_, slot)| slot.entry.clone()).collect();
        let those = if leasing.is_empty() || self.rng.bool() { all } else { leasing };
        let Some(entry) = self.rng.choice(those) else { return };
        let (id, fence) = key(&entry);
        let here = self.live.lock().of_model().into_iter().find(|slot| slot.0 == id && slot.1 <= fence);
        let (entry, stage) = match here {
            Some((_, fence, stage, ..)) => (HotEntry { fence, ..entry }, Some(stage)),
            None => (entry, None),
        };
        match self.live.lock().withdraw(id, fence) {
            Withdrawal::Withdrawn { has_lease: said } => {
                assert!(stage.is_some_and(has_not_fired), "{stage:?}");
                assert_eq!(said, stage.is_some_and(has_lease), "{stage:?}");
            }
            Withdrawal::Fired => {
                let is_due =
                    matches!(stage, Some(Stage::Claiming { due: true } | Stage::Leasing { due: true }));
                let is_for_later = self.for_later.contains(&(id, fence + 1));
                return assert!(is_due || is_for_later || stage.is_some_and(awaits_executor), "{stage:?}");
            }
            Withdrawal::Unknown => {
                let decides = |stage| has_not_fired(stage) || awaits_executor(stage);
                return assert!(!stage.is_some_and(decides), "{stage:?}");
            }
        }
        assert!(!self.live.lock().holds(&entry));
        self.seen.withdrawn += 1;
        self.withdrawn.insert(key(&entry));
        if self.rng.u8(0..3) == 0 {
            self.hot.insert(id, HotEntry { fired_at: Millis::ZERO, ..entry });
        }
    }

    fn drop_leases(&mut self) {
        let parity = self.rng.i64(0..2);
        let (made, fired) = self.live.lock().drop_leases(|entry| entry.place.id % 2 == parity);
        self.seen.returned += made.len();
        self.gives_up(&fired);
    }

    fn forget_old(&mut self) {
        self.live.lock().forget_old_attempts(self.now);
    }

    fn move_partition(&mut self) {
        let number = self.rng.u16(0..PARTITIONS);
        if !self.owned.remove(&number) {
            self.owned.insert(number);
            return self.live.lock().open(Partition(number));
        }
        let closed = self.live.lock().close(Partition(number));
        assert!(closed.claimed.iter().all(|(place, _)| place.partition.0 == number));
        self.seen.returned += closed.leased.len();
        self.gives_up(&closed.fired);
    }

    /// Both orders name exactly the slots that they should, and each task occurs once.
    fn check(&mut self) {
        self.check_after();
        let table = self.live.lock();
        let all = table.of_model();
        for (id, fence, stage, is_candidate, is_in_leases) in all {
            let has_lease = matches!(stage, Stage::Leasing { .. } | Stage::Leased | Stage::Held);
            assert_eq!(is_in_leases, has_lease, "{id} {stage:?}");
            assert!(!is_candidate || stage == Stage::Waiting, "{id} {stage:?}");
            let in_grants = || self.grants.iter().flatten().any(|entry| key(entry) == (id, fence));
            match stage {
                Stage::Ready { gate: Some(Gate::Database) } => {
                    assert!(self.aside.contains(&(id, fence)), "{id} was not set aside");
                }
                Stage::Ready { gate: Some(Gate::Retry) } => {
                    assert!(self.retry_queue.contains(&(id, fence)), "{id} was not held back");
                }
                Stage::Ready { gate: None } => {
                    assert!(self.served.contains(&(id, fence)), "{id} is not to be served");
                }
                Stage::Passed => {
                    assert!(self.passed.iter().any(|entry| key(entry) == (id, fence)), "{id} was not passed");
                }
                Stage::Granting => assert!(in_grants(), "{id} is asked for by nobody"),
                REPORTED => {
                    assert!(self.delivered.contains_key(&(id, fence)), "{id} was not handed over");
                }
                FOR_LATER => {
                    assert!(self.for_later.contains(&(id, fence)), "{id} was not handed over for later");
                }
                Stage::InDoubt => assert!(self.made.contains(&(id, fence)), "{id} was not made"),
                _ => {}
            }
            let is_due = matches!(stage, Stage::Claiming { due: true } | Stage::Leasing { due: true });
            assert_eq!(is_due, self.awaited.contains(&(id, fence)), "{id} {stage:?}");
            self.seen.stages.insert(stage);
        }
    }
}

#[test]
fn each_fired_task_is_given_once_and_none_that_was_withdrawn() {
    let mut seen = ModelCoverage::default();
    for seed in 0..1_000 {
        let mut world = LiveModel::new(seed);
        world.seen = seen;
        for _ in 0..1_000 {
            match world.rng.u8(0..41) {
                0..4 => world.insert(),
                4..7 => world.drain(),
                7..10 => world.answer_claims(),
                10..12 => world.lease(),
                12..14 => world.answer_leases(),
                14..17 => world.fire(),
                17 => world.withdraw(),
                18 => world.drop_leases(),
                19 | 20 => world.forget_old(),
                21..33 => world.hand_over(),
                33..37 => world.report(),
                37..39 => world.withdraw(),
                39 => world.hand_over_for_later(),
                _ => world.move_partition(),
            }
            world.check();
        }
        seen = world.seen;
        for (pair, count) in world.live.lock().moves.drain() {
            *seen.moves.entry(pair).or_default() += count;
        }
    }
    let is_seldom = |(stage, event): &(Stage, TaskEvent)| {
        SELDOM.iter().any(|(seldom, events)| seldom == stage && events.contains(event))
    };
    let pairs = STEPS.iter().flat_map(|(stage, moves)| moves.iter().map(|(event, _)| (*stage, *event)));
    let missing: Vec<_> = pairs.filter(|pair| !is_seldom(pair) && !seen.moves.contains_key(pair)).collect();
    assert!(missing.is_empty(), "legal moves that were never made: {missing:?}");
    let put_back = seen.moves.get(&(Stage::Held, TaskEvent::PutBack));
    assert!(
        put_back.is_some_and(|count| *count >= 100),
        "put back while a lease is on the way: {put_back:?}"
    );
    assert_eq!(seen.stages.len(), STEPS.len(), "every stage was visited");
    let counts = [seen.given, seen.withdrawn, seen.put_back, seen.unwanted, seen.returned];
    let known = [seen.ended, seen.ended_unreported, seen.reported_known];
    assert!(known.iter().all(|count| *count > 20), "what is known of attempts was needed often: {known:?}");
    assert!(counts.iter().all(|count| *count > 20), "each end was reached often: {counts:?}");
}
