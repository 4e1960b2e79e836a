//! The table beside a naive model of what the hot set, the store and callers do with it. The model knows fences, instants
//! and what was promised; it must never repeat the table of moves.

use super::{
    Live,
    fired::{Fired, Granted, Ready},
    stage::{Event, Gate, Report, Stage},
    steps::{REPORTED, STEPS},
};
use crate::{clock::moment::Moment, pipeline::claim::tests::entry};
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
use punctual_wheel::Wheel;
use std::collections::BTreeMap;

mod after;

const PARTITIONS: u16 = 3;
const TASKS: i64 = 24;
const HORIZON_MS: u64 = 400;
/// Legal moves that the operations here make never, or by chance. The list only gets shorter.
const SELDOM: [(Stage, &[Event]); 11] = [
    (Stage::Leasing { due: false }, &[Event::Forgotten]),
    (Stage::Leasing { due: true }, &[Event::Forgotten]),
    (Stage::Leased { in_doubt: false }, &[Event::Claimed, Event::Forgotten]),
    (
        Stage::Leased { in_doubt: true },
        &[Event::Claimed, Event::Due, Event::TakeLost, Event::Withdrawn, Event::Forgotten, Event::GivenUp],
    ),
    (Stage::Ready { gate: None }, &[Event::GrantBegun, Event::Blocked(Gate::Database)]),
    (Stage::Ready { gate: Some(Gate::Database) }, &[Event::GrantBegun, Event::Blocked(Gate::Database)]),
    (Stage::Ready { gate: Some(Gate::Retry) }, OFFERED_ELSEWHERE),
    (Stage::Ready { gate: Some(Gate::HotAway) }, OFFERED_ELSEWHERE),
    (Stage::Granting, &[Event::GrantBegun]),
    (Stage::HandedOver { report: Report::Owed }, &[Event::Reported]),
    (Stage::HandedOver { report: Report::Asked }, &[Event::NotReported]),
];
/// What comes to a task that is kept here when something else offers it once more.
const OFFERED_ELSEWHERE: &[Event] = &[
    Event::GrantBegun,
    Event::Lined,
    Event::Blocked(Gate::Database),
    Event::Blocked(Gate::Retry),
    Event::Blocked(Gate::HotAway),
];

type Key = (i64, i64);

#[derive(Default)]
struct Seen {
    stages: HashSet<Stage>,
    moves: HashMap<(Stage, Event), usize>,
    given: usize,
    withdrawn: usize,
    put_back: usize,
    unwanted: usize,
    returned: usize,
    ended: usize,
    ended_unreported: usize,
    reported_known: usize,
}

struct World {
    live: Live,
    rng: Rng,
    wheel: Wheel<Partition>,
    now: Millis,
    fences: HashMap<i64, i64>,
    owned: HashSet<u16>,
    /// What the hot set has due, by id.
    hot: BTreeMap<i64, HotEntry>,
    /// Claims and leases that the store was asked for and has not answered.
    claims: Vec<HotEntry>,
    leases: Vec<HotEntry>,
    /// Leases that the store has made.
    leased: HashSet<Key>,
    /// Fired, and neither given nor returned yet.
    awaited: HashSet<Key>,
    /// May be offered or handed over: cancelled xor fired.
    given: HashSet<Key>,
    withdrawn: HashSet<Key>,
    /// Fired and offered: in no line here.
    offered: Vec<HotEntry>,
    line: Vec<HotEntry>,
    grants: Vec<Vec<HotEntry>>,
    aside: HashSet<Key>,
    /// Fired, and the store does not know.
    unpersisted: HashSet<Key>,
    held_back: HashSet<Key>,
    served: HashSet<Key>,
    /// Of which a lease may have been made, and of which one was made that could not be given back.
    doubted: HashSet<Key>,
    made: HashSet<Key>,
    /// Fired with a lease that was made ahead: an executor may have them.
    ready: Vec<HotEntry>,
    /// Handed over, by the fence of the lease: since when.
    handed_over: BTreeMap<Key, Millis>,
    reporting: HashSet<Key>,
    reports: Vec<Vec<Beat>>,
    /// With executors, by the fence of the lease: until when something may be known of them.
    delivered: BTreeMap<Key, Millis>,
    seen: Seen,
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

impl World {
    fn new(seed: u64) -> Self {
        Self {
            live: Live::new(PARTITIONS, false),
            rng: Rng::with_seed(seed),
            wheel: Wheel::new(0),
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
            line: Vec::new(),
            grants: Vec::new(),
            aside: HashSet::new(),
            unpersisted: HashSet::new(),
            held_back: HashSet::new(),
            served: HashSet::new(),
            doubted: HashSet::new(),
            made: HashSet::new(),
            ready: Vec::new(),
            handed_over: BTreeMap::new(),
            reporting: HashSet::new(),
            reports: Vec::new(),
            delivered: BTreeMap::new(),
            seen: Seen::default(),
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

    /// The hot set shows what is due soon; also what is claimed already.
    fn claim(&mut self) {
        let found: Vec<HotEntry> = self.hot.values().filter(|_| self.rng.bool()).cloned().collect();
        let loaded = self.live.lock().load(found);
        assert!(loaded.accepted.iter().all(|entry| self.owned.contains(&entry.place.partition.0)));
        loaded.stale.into_iter().for_each(|key| _ = self.wheel.cancel(key));
        self.seen.put_back += loaded.put_back.len();
        self.put_on_wheel(loaded.put_back);
        self.claims.extend(loaded.accepted);
    }

    fn put_on_wheel(&mut self, entries: Vec<HotEntry>) {
        let keys: Vec<_> =
            entries.iter().map(|entry| self.wheel.insert(entry.due_at.0, entry.place.partition)).collect();
        let confirmed = self.live.lock().confirm(entries.into_iter().zip(keys), |_| true);
        confirmed.stale.into_iter().for_each(|key| _ = self.wheel.cancel(key));
        confirmed.fired.iter().for_each(|entry| self.gives(key(entry), true));
        self.offered.extend(confirmed.fired);
    }

    /// An awaited entry is answered once, and nothing is given that was withdrawn.
    fn gives(&mut self, key: Key, was_awaited: bool) {
        assert_eq!(self.awaited.remove(&key), was_awaited, "{key:?}");
        assert!(!self.withdrawn.contains(&key), "withdrawn, and given: {key:?}");
        assert!(self.given.insert(key), "given twice: {key:?}");
        self.seen.given += 1;
    }

    /// It is held back: what it meets next is not the table's.
    fn gives_up(&mut self, fired: &[HotEntry]) {
        for entry in fired {
            self.gives(key(entry), true);
        }
    }

    fn answer_claims(&mut self) {
        let mut asked = std::mem::take(&mut self.claims);
        let answered = self.some(&mut asked);
        self.claims = asked;
        if self.rng.u8(0..4) > 0 {
            return self.put_on_wheel(answered);
        }
        let fired = self.live.lock().not_claimed(&answered);
        self.gives_up(&fired);
    }

    fn lease(&mut self) {
        let near = self.live.lock().take_candidates(self.now.plus(100));
        let begun = self.live.lock().begin_leases(near, self.now, Moment::of_test());
        self.leases.extend(begun);
    }

    fn answer_leases(&mut self) {
        let mut asked = std::mem::take(&mut self.leases);
        let answered = self.some(&mut asked);
        self.leases = asked;
        let fails = self.rng.u8(0..4) == 0;
        // The store leases a fence once; a partition that was given up and taken again may have asked for it twice.
        let (answered, refused): (Vec<_>, Vec<_>) =
            answered.into_iter().partition(|entry| !fails && self.leased.insert(key(entry)));
        let fired = self.live.lock().not_granted(&refused);
        self.gives_up(&fired);
        let granted = self.live.lock().granted(answered.iter().map(lease_of).collect());
        for (entry, granted) in answered.iter().zip(granted) {
            match granted {
                Granted::Kept => {}
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
        let partition = Partition(self.rng.u16(0..PARTITIONS));
        if !self.owned.contains(&partition.0) {
            return;
        }
        let settled = self.live.lock().leased_until(self.now).remove(&partition).unwrap_or_default();
        let is_due = |entry: &HotEntry| entry.place.partition == partition && entry.due_at <= self.now;
        let mut popped: Vec<HotEntry> = self.hot.values().filter(|entry| is_due(entry)).cloned().collect();
        popped.iter_mut().for_each(|entry| entry.fired_at = self.now);
        popped.iter().for_each(|entry| _ = self.hot.remove(&entry.place.id));
        let answers = self.live.lock().fire(popped.clone(), &settled);
        assert_eq!(answers.len(), popped.len());
        for (entry, answer) in popped.iter().zip(answers) {
            match answer {
                Fired::Unclaimed(same) | Fired::Claimed(same) => {
                    assert_eq!(same, *entry);
                    self.gives(key(entry), false);
                    self.offered.push(same);
                }
                Fired::Awaited => assert!(self.awaited.insert(key(entry)), "fired twice"),
                Fired::Leased(ready) => {
                    assert_eq!(ready.is_settled, settled.contains(&key(entry)));
                    self.gives_ready(&ready, false);
                }
            }
        }
    }

    /// Takes an entry out of the hot set; sometimes it is put back, because its change did not come about.
    fn withdraw(&mut self) {
        // Half of them while the answers to their leases are on the way, so that what is put back often meets these.
        let is_there =
            |entry: &&HotEntry| self.hot.get(&entry.place.id).is_some_and(|due| due.fence == entry.fence);
        let leasing: Vec<i64> = self.leases.iter().filter(is_there).map(|entry| entry.place.id).collect();
        let all = || self.hot.keys().copied().collect();
        let ids: Vec<i64> = if leasing.is_empty() || self.rng.bool() { all() } else { leasing };
        let Some(id) = self.rng.choice(ids) else { return };
        let Some(entry) = self.hot.remove(&id) else { return };
        if let Some(on_wheel) = self.live.lock().withdrawn(id, entry.fence) {
            self.wheel.cancel(on_wheel);
        }
        assert!(!self.live.lock().holds(&entry));
        self.seen.withdrawn += 1;
        if self.rng.u8(0..3) == 0 {
            self.hot.insert(id, entry);
        } else {
            self.withdrawn.insert(key(&entry));
        }
    }

    fn drop_leases(&mut self) {
        if self.rng.bool() {
            return self.lose_take();
        }
        let parity = self.rng.i64(0..2);
        let (made, fired) = self.live.lock().drop_leases(|entry| entry.place.id % 2 == parity);
        self.seen.returned += made.len();
        self.gives_up(&fired);
    }

    fn load_again(&mut self) {
        let mut found: Vec<HotEntry> = self.hot.values().cloned().collect();
        let all = found.len();
        let live = Live::new(0, false);
        let live = std::mem::replace(&mut self.live, live);
        {
            let (load, made) = live.begin_load(&mut found, self.now);
            assert!(found.len() + made.len() <= all);
            self.seen.returned += made.len();
            let near = live.lock().take_candidates(Millis::MAX);
            let begun = live.lock().begin_leases(near, self.now, Moment::of_test());
            let is_loaded = |entry: &HotEntry| found.iter().any(|loaded| key(loaded) == key(entry));
            assert!(!begun.iter().any(is_loaded), "leased ahead while it is being loaded");
            self.leases.extend(begun);
            load.answered();
        }
        self.live = live;
    }

    fn forget_old(&mut self) {
        self.live.lock().forget_old_attempts(self.now);
        let fired = self.live.lock().forget_old(self.now.plus(-100));
        self.gives_up(&fired);
    }

    fn move_partition(&mut self) {
        let number = self.rng.u16(0..PARTITIONS);
        if !self.owned.remove(&number) {
            self.owned.insert(number);
            return self.live.lock().open(Partition(number));
        }
        let closed = self.live.lock().close(Partition(number));
        closed.keys.into_iter().for_each(|key| _ = self.wheel.cancel(key));
        assert!(closed.claimed.iter().all(|(place, _)| place.partition.0 == number));
        self.seen.returned += closed.leased.len();
        self.gives_up(&closed.fired);
    }

    /// The two orders name exactly the slots that they should, and each task is there once.
    fn check(&mut self) {
        self.check_after();
        let table = self.live.lock();
        let all = table.of_model();
        for (id, fence, stage, is_candidate, is_in_leases) in all {
            let has_lease = matches!(stage, Stage::Leasing { .. } | Stage::Leased { .. } | Stage::Held);
            assert_eq!(is_in_leases, has_lease, "{id} {stage:?}");
            assert!(!is_candidate || stage == Stage::Waiting, "{id} {stage:?}");
            let in_grants = || self.grants.iter().flatten().any(|entry| key(entry) == (id, fence));
            match stage {
                Stage::Ready { gate: None } => {
                    assert!(self.line.iter().any(|entry| key(entry) == (id, fence)), "{id} is in no line");
                }
                Stage::Ready { gate: Some(Gate::Database) } => {
                    assert!(self.aside.contains(&(id, fence)), "{id} was not set aside");
                }
                Stage::Ready { gate: Some(Gate::Retry) } => {
                    assert!(self.held_back.contains(&(id, fence)), "{id} was not held back");
                }
                Stage::Ready { gate: Some(Gate::HotAway) } => {
                    assert!(self.served.contains(&(id, fence)), "{id} is not to be served");
                }
                Stage::Granting => assert!(in_grants(), "{id} is asked for by nobody"),
                REPORTED => {
                    assert!(self.delivered.contains_key(&(id, fence)), "{id} was not handed over");
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
    let mut seen = Seen::default();
    for seed in 0..1_000 {
        let mut world = World::new(seed);
        world.seen = seen;
        for _ in 0..1_000 {
            match world.rng.u8(0..40) {
                0..4 => world.insert(),
                4..7 => world.claim(),
                7..10 => world.answer_claims(),
                10..12 => world.lease(),
                12..14 => world.answer_leases(),
                14..17 => world.fire(),
                17 => world.withdraw(),
                18 => world.drop_leases(),
                19 => world.load_again(),
                20 => world.forget_old(),
                21..33 => world.hand_over(),
                33..37 => world.report(),
                37..39 => world.withdraw(),
                _ => world.move_partition(),
            }
            world.check();
        }
        seen = world.seen;
        for (pair, count) in world.live.lock().moves.drain() {
            *seen.moves.entry(pair).or_default() += count;
        }
    }
    let is_seldom = |(stage, event): &(Stage, Event)| {
        SELDOM.iter().any(|(seldom, events)| seldom == stage && events.contains(event))
    };
    let pairs = STEPS.iter().flat_map(|(stage, moves)| moves.iter().map(|(event, _)| (*stage, *event)));
    let missing: Vec<_> = pairs.filter(|pair| !is_seldom(pair) && !seen.moves.contains_key(pair)).collect();
    assert!(missing.is_empty(), "legal moves that were never made: {missing:?}");
    let put_back = seen.moves.get(&(Stage::Held, Event::PutBack));
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
