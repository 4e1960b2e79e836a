//! Named edges, each of which has broken some timer somewhere.

use crate::Wheel;

const NOW_MS: i64 = 1_700_000_000_000;

fn advance<T>(wheel: &mut Wheel<T>, now_ms: i64) -> Vec<(i64, T)> {
    let mut due = Vec::new();
    wheel.advance(now_ms, &mut due);
    due
}

#[test]
fn a_timer_fires_at_its_millisecond_and_not_one_before() {
    for distance_ms in [1, 2, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 131_072, 3_600_000, 86_400_000] {
        let mut wheel = Wheel::new(NOW_MS);
        wheel.insert(NOW_MS + distance_ms, ());
        assert_eq!(advance(&mut wheel, NOW_MS + distance_ms - 1), []);
        assert_eq!(advance(&mut wheel, NOW_MS + distance_ms), [(NOW_MS + distance_ms, ())]);
    }
}

#[test]
fn deadlines_around_the_36_bits_where_tokio_panics_are_kept() {
    for start_ms in [0, NOW_MS, -1] {
        let mut wheel = Wheel::new(start_ms);
        let deadlines = [-1, 0, 1].map(|near| start_ms + (1 << 36) + near);
        for deadline_ms in deadlines {
            wheel.insert(deadline_ms, ());
        }
        for deadline_ms in deadlines {
            assert_eq!(advance(&mut wheel, deadline_ms - 1), []);
            assert_eq!(advance(&mut wheel, deadline_ms), [(deadline_ms, ())]);
        }
    }
}

#[test]
fn the_ends_of_time_neither_overflow_nor_fire_early() {
    let mut wheel = Wheel::new(i64::MIN);
    wheel.insert(i64::MAX, "last");
    wheel.insert(i64::MIN, "first");
    wheel.insert(0, "middle");
    assert_eq!(wheel.next_deadline(), Some(i64::MIN));
    assert_eq!(advance(&mut wheel, i64::MIN), [(i64::MIN, "first")]);
    assert_eq!(advance(&mut wheel, -1), []);
    assert_eq!(advance(&mut wheel, i64::MAX - 1), [(0, "middle")]);
    assert_eq!(wheel.next_deadline(), Some(i64::MAX));
    assert_eq!(advance(&mut wheel, i64::MAX), [(i64::MAX, "last")]);
    wheel.insert(i64::MAX, "again");
    assert_eq!(advance(&mut wheel, i64::MAX), [(i64::MAX, "again")]);
    assert_eq!(wheel.next_deadline(), None);
}

#[test]
fn a_deadline_in_the_past_or_now_fires_at_the_next_advance_in_order() {
    let mut wheel = Wheel::new(NOW_MS);
    for deadline_ms in [NOW_MS, NOW_MS - 1_000, NOW_MS + 1, NOW_MS - 5] {
        wheel.insert(deadline_ms, ());
    }
    assert_eq!(wheel.next_deadline(), Some(NOW_MS - 1_000));
    let fired: Vec<_> =
        advance(&mut wheel, NOW_MS).into_iter().map(|(deadline_ms, ())| deadline_ms).collect();
    assert_eq!(fired, [NOW_MS - 1_000, NOW_MS - 5, NOW_MS]);
    assert_eq!(advance(&mut wheel, NOW_MS + 1).len(), 1);
}

#[test]
fn a_clock_that_steps_back_fires_nothing_early_and_loses_nothing() {
    let mut wheel = Wheel::new(NOW_MS);
    wheel.insert(NOW_MS + 10, "old");
    assert_eq!(advance(&mut wheel, NOW_MS - 60_000), []);
    wheel.insert(NOW_MS - 30_000, "new");
    assert_eq!(wheel.next_deadline(), Some(NOW_MS - 30_000));
    assert_eq!(advance(&mut wheel, NOW_MS - 30_001), []);
    assert_eq!(advance(&mut wheel, NOW_MS - 30_000), [(NOW_MS - 30_000, "new")]);
    assert_eq!(advance(&mut wheel, NOW_MS + 10), [(NOW_MS + 10, "old")]);
}

#[test]
fn a_used_key_never_touches_the_next_timer_in_its_place() {
    let mut wheel = Wheel::new(NOW_MS);
    let fired = wheel.insert(NOW_MS + 1, 1);
    advance(&mut wheel, NOW_MS + 1);
    let second = wheel.insert(NOW_MS + 2, 2);
    assert_eq!(wheel.cancel(fired), None);
    assert_eq!(wheel.cancel(second), Some(2));
    assert_eq!(wheel.cancel(second), None);
    let third = wheel.insert(NOW_MS + 2, 3);
    assert_eq!(wheel.cancel(second), None);
    assert_eq!((wheel.len(), wheel.cancel(third)), (1, Some(3)));
    assert!(wheel.is_empty());
}

#[test]
fn a_cancelled_timer_does_not_fire_on_any_level() {
    let mut wheel = Wheel::new(NOW_MS);
    let keys: Vec<_> = (0..62).map(|bit| wheel.insert(NOW_MS.saturating_add(1 << bit), bit)).collect();
    for (bit, key) in (0..).zip(keys) {
        assert_eq!(wheel.cancel(key), Some(bit));
    }
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
    assert_eq!(advance(&mut wheel, i64::MAX), []);
}

#[test]
fn a_driver_that_sleeps_until_told_is_never_late_and_seldom_wakes_for_nothing() {
    let mut wheel = Wheel::new(NOW_MS);
    let deadlines =
        [3, 700, 65_900, 3_600_000, 86_400_000, 40_000_000_000, 9_000_000_000_000].map(|ms| NOW_MS + ms);
    for deadline_ms in deadlines {
        wheel.insert(deadline_ms, ());
    }
    let (mut wakes, mut fired) = (0, Vec::new());
    while let Some(wake_ms) = wheel.next_deadline() {
        wakes += 1;
        for (deadline_ms, ()) in advance(&mut wheel, wake_ms) {
            assert_eq!(deadline_ms, wake_ms);
            fired.push(deadline_ms);
        }
    }
    assert_eq!(fired, deadlines);
    assert!(wakes <= 6 * deadlines.len(), "{wakes} wakes");
}

#[test]
fn years_of_sparse_timers_fire_in_few_steps() {
    let mut wheel = Wheel::new(NOW_MS);
    let day_ms = 86_400_000;
    for day in 1..=20_000 {
        wheel.insert(NOW_MS + day * day_ms, day);
    }
    let days: Vec<_> =
        advance(&mut wheel, NOW_MS + 10_000 * day_ms).into_iter().map(|(_, day)| day).collect();
    assert!(days.into_iter().eq(1..=10_000));
    assert_eq!(wheel.len(), 10_000);
}

/// Without smoothing, this bucket would move all at once at its border.
#[test]
fn a_large_bucket_is_opened_in_slices_before_its_time() {
    let mut wheel = Wheel::new(0);
    let count = 200_000;
    let start_ms = 40 * 65_536;
    for number in 0..count {
        wheel.insert(start_ms + number % 65_536, ());
    }
    let mut wakes = 0;
    loop {
        let wake_ms = wheel.next_deadline().expect("timers wait");
        if wake_ms >= start_ms {
            break;
        }
        assert_eq!(advance(&mut wheel, wake_ms), []);
        wakes += 1;
    }
    let left = wheel.rings[2].len(40 + (1 << 47));
    assert!(left <= 1_024, "{left} left for the border after {wakes} wakes");
    assert!(wakes < 65_536 / 16 + 10, "{wakes} wakes");
    let fired: usize = (0..65_536).map(|step_ms| advance(&mut wheel, start_ms + step_ms).len()).sum();
    assert_eq!(fired, 200_000);
}

#[test]
fn payloads_that_wait_are_dropped_with_the_wheel_and_cancelled_ones_are_handed_back() {
    let payload = std::rc::Rc::new(());
    let mut wheel = Wheel::new(NOW_MS);
    wheel.insert(NOW_MS + 5, payload.clone());
    let key = wheel.insert(NOW_MS + 5, payload.clone());
    drop(wheel.cancel(key));
    assert_eq!(std::rc::Rc::strong_count(&payload), 2);
    drop(wheel);
    assert_eq!(std::rc::Rc::strong_count(&payload), 1);
}
