//! Memory follows the live timers, however many were cancelled before.

use std::collections::VecDeque;

use crate::Wheel;

const HOUR_MS: i64 = 3_600_000;

/// The slots that a wheel may hold for `live` timers: as many stale ones, a tolerance, and the inserts during
/// a round of the sweep.
fn bound(live: usize) -> usize {
    let crowded = 2 * live + 1_024;
    crowded + crowded / 32 + 100
}

/// Inserts and cancels first in, first out, with `live` timers at a time, while the time does not advance.
fn churn(live: usize, times: i64, deadline_ms: impl Fn(i64) -> i64) -> Wheel<i64> {
    let mut wheel = Wheel::new(0);
    let mut keys = VecDeque::new();
    for number in 0..times {
        keys.push_back(wheel.insert(deadline_ms(number), number));
        if keys.len() > live {
            let oldest = keys.pop_front().expect("not empty");
            assert!(wheel.cancel(oldest).is_some());
        }
    }
    assert_eq!(wheel.len(), live);
    wheel
}

#[test]
fn inserting_and_cancelling_for_ever_does_not_grow() {
    for live in [0, 1, 100, 20_000, 100_000] {
        let wheel = churn(live, 1_000_000, |number| 1 + number * 7_919 % HOUR_MS);
        assert!(wheel.slab.slots() <= bound(live), "{} slots for {live} timers", wheel.slab.slots());
    }
}

#[test]
fn nor_does_it_with_one_deadline_for_all() {
    let wheel = churn(5_000, 300_000, |_| HOUR_MS);
    assert!(wheel.slab.slots() <= bound(5_000), "{} slots", wheel.slab.slots());
}

#[test]
fn nor_with_deadlines_that_never_come_or_are_past() {
    for deadline_ms in [i64::MAX, i64::MIN] {
        let wheel = churn(500, 100_000, |_| deadline_ms);
        assert!(wheel.slab.slots() <= bound(500), "{} slots", wheel.slab.slots());
    }
}

#[test]
fn a_sweep_loses_no_live_timer() {
    let mut wheel = churn(20_000, 300_000, |number| 1 + number * 7_919 % HOUR_MS);
    let mut due = Vec::new();
    wheel.advance(HOUR_MS, &mut due);
    let mut numbers: Vec<_> = due.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(280_000..300_000));
    assert!(due.iter().all(|(deadline_ms, number)| *deadline_ms == 1 + number * 7_919 % HOUR_MS));
    assert_eq!(wheel.slab.stale(), 0);
}

#[test]
fn firing_makes_room_for_the_next_timers() {
    let mut wheel = Wheel::new(0);
    let mut due = Vec::new();
    for now_ms in 0..50_000 {
        wheel.advance(now_ms, &mut due);
        wheel.insert(now_ms + 100, ());
    }
    assert!(wheel.slab.slots() <= 102, "{} slots", wheel.slab.slots());
}
