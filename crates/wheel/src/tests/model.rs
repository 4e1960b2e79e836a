//! Random operations on the wheel and on a sorted map, which must agree after each.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::{Key, Wheel};

#[derive(Clone, Debug)]
enum Operation {
    /// Distance from the current time in ms; may be negative.
    Insert(i64),
    /// An absolute instant.
    InsertAt(i64),
    /// Many timers within a short span, so that buckets become large enough for smoothing to matter.
    InsertMany {
        ahead_ms: i64,
        span_ms: i64,
        count: u16,
    },
    /// Cancels one of all keys that were ever returned.
    Cancel(prop::sample::Index),
    Advance(i64),
    /// Sleeps exactly as long as the wheel allows, some times over.
    AdvanceToNext(u8),
}

/// A distance from 1 ms to some years, every order of magnitude equally likely.
fn distance() -> impl Strategy<Value = i64> {
    (0..38u32, any::<u64>()).prop_map(|(bits, random)| {
        let below = 1i64 << bits;
        below + i64::try_from(random % below.unsigned_abs()).expect("below 2^38")
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let level_border = (0..6u32, -2..=2i64).prop_map(|(level, near)| (1i64 << (8 * level)) + near);
    prop_oneof![
        6 => distance().prop_map(Operation::Insert),
        2 => level_border.clone().prop_map(Operation::Insert),
        1 => (-5_000..=0i64).prop_map(Operation::Insert),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MAX - 1), Just(i64::MIN), any::<i64>()].prop_map(Operation::InsertAt),
        1 => (1..200_000i64, 1..2_000i64, 1..400u16)
            .prop_map(|(ahead_ms, span_ms, count)| Operation::InsertMany { ahead_ms, span_ms, count }),
        4 => any::<prop::sample::Index>().prop_map(Operation::Cancel),
        3 => (1..40i64).prop_map(Operation::Advance),
        3 => distance().prop_map(Operation::Advance),
        2 => level_border.prop_map(Operation::Advance),
        1 => (-100_000..=0i64).prop_map(Operation::Advance),
        4 => (1..30u8).prop_map(Operation::AdvanceToNext),
    ]
}

struct Pair {
    wheel: Wheel<u32>,
    model: BTreeMap<u32, i64>,
    by_deadline: BTreeSet<(i64, u32)>,
    keys: Vec<Key>,
    now_ms: i64,
}

impl Pair {
    fn new(now_ms: i64) -> Self {
        let (model, by_deadline) = (BTreeMap::new(), BTreeSet::new());
        Self { wheel: Wheel::new(now_ms), model, by_deadline, keys: Vec::new(), now_ms }
    }

    fn insert(&mut self, deadline_ms: i64) {
        let id = u32::try_from(self.keys.len()).expect("few timers");
        self.keys.push(self.wheel.insert(deadline_ms, id));
        self.model.insert(id, deadline_ms);
        self.by_deadline.insert((deadline_ms, id));
    }

    fn cancel(&mut self, id: u32) {
        let expected = self.model.remove(&id);
        let cancelled = self.wheel.cancel(self.keys[id as usize]);
        assert_eq!(cancelled, expected.map(|_| id));
        if let Some(deadline_ms) = expected {
            self.by_deadline.remove(&(deadline_ms, id));
        }
    }

    fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        let mut due = Vec::new();
        self.wheel.advance(now_ms, &mut due);
        assert!(due.is_sorted_by_key(|(deadline_ms, _)| *deadline_ms), "out of order: {due:?}");
        let mut expected = Vec::new();
        while let Some(first) = self.by_deadline.first().filter(|(deadline_ms, _)| *deadline_ms <= now_ms) {
            expected.push(*first);
            self.model.remove(&first.1);
            self.by_deadline.pop_first();
        }
        due.sort_unstable();
        assert_eq!(due, expected, "at {now_ms}");
    }

    fn advance_to_next(&mut self) {
        if let Some(next_ms) = self.wheel.next_deadline() {
            let later = next_ms > self.now_ms;
            self.advance(next_ms.max(self.now_ms));
            assert!(
                !later || self.wheel.next_deadline().is_none_or(|after_ms| after_ms > next_ms),
                "stands still"
            );
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Insert(distance_ms) => self.insert(self.now_ms.saturating_add(*distance_ms)),
            Operation::InsertAt(deadline_ms) => self.insert(*deadline_ms),
            Operation::InsertMany { ahead_ms, span_ms, count } => {
                for number in 0..i64::from(*count) {
                    self.insert(self.now_ms.saturating_add(ahead_ms + number * 7 % span_ms));
                }
            }
            Operation::Cancel(index) if !self.keys.is_empty() => {
                self.cancel(u32::try_from(index.index(self.keys.len())).expect("few timers"));
            }
            Operation::Cancel(_) => {}
            Operation::Advance(step_ms) => self.advance(self.now_ms.saturating_add(*step_ms)),
            Operation::AdvanceToNext(times) => (0..*times).for_each(|_| self.advance_to_next()),
        }
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        let (bound, earliest) = (self.wheel.next_deadline(), self.by_deadline.first());
        assert_eq!(bound.is_some(), earliest.is_some());
        if let (Some(bound_ms), Some((earliest_ms, _))) = (bound, earliest) {
            assert!(bound_ms <= *earliest_ms, "a driver would sleep until {bound_ms}, {earliest_ms} is due");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_agrees_with_a_sorted_map(
        start_ms in prop_oneof![
            Just(1_700_000_000_000i64), Just(0), Just(i64::MIN), Just(i64::MAX - 70_000), -300_000..300_000i64, any::<i64>()
        ],
        operations in prop::collection::vec(operation(), 1..80),
    ) {
        let mut pair = Pair::new(start_ms);
        for operation in &operations {
            pair.apply(operation);
            pair.check();
        }
        pair.advance(i64::MAX);
        pair.check();
        prop_assert!(pair.wheel.is_empty());
    }

    /// The ring turns several times, a tick at a time, while timers are inserted and fire.
    #[test]
    fn ticking_through_the_turns_of_the_first_two_levels_agrees(
        start_ms in -200_000..200_000i64,
        deadlines in prop::collection::vec((1..140_000i64, 0..70_000i64), 1..60),
    ) {
        let mut pair = Pair::new(start_ms);
        let mut inserts: Vec<_> = deadlines.iter().map(|(distance_ms, at_ms)| (start_ms + at_ms, *distance_ms)).collect();
        inserts.sort_unstable();
        let mut inserts = inserts.into_iter().peekable();
        for now_ms in start_ms..start_ms + 70_000 {
            pair.advance(now_ms);
            while let Some((_, distance_ms)) = inserts.next_if(|(at_ms, _)| *at_ms <= now_ms) {
                pair.insert(now_ms + distance_ms);
            }
        }
        pair.check();
        pair.advance(start_ms + 400_000);
        prop_assert!(pair.wheel.is_empty());
    }
}
