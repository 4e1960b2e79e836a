//! The clock that a test holds.

use punctual_contract::Clock as _;
use punctual_domain::time::Millis;
use punctual_testkit::clock::ManualClock;
use std::time::Duration;

#[test]
fn it_rounds_down_and_waits_exactly() {
    let clock = ManualClock::at(Millis(5));
    clock.advance(Duration::from_micros(999));
    assert_eq!((clock.now(), clock.until(Millis(6))), (Millis(5), Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    assert_eq!((clock.now(), clock.until(Millis(6))), (Millis(6), Duration::ZERO));
}

#[test]
fn it_jumps_in_both_directions_and_its_clones_are_the_same_clock() {
    let clock = ManualClock::at(Millis(5_000));
    let other = clock.clone();
    clock.advance_ms(1_000);
    assert_eq!(other.now(), Millis(6_000));
    other.go_back(Duration::from_millis(2_000));
    assert_eq!((clock.now(), clock.until(Millis(5_000))), (Millis(4_000), Duration::from_secs(1)));
    clock.set(Millis(1));
    clock.go_back(Duration::from_millis(3));
    assert_eq!(clock.now(), Millis(-2), "also before the epoch");
}
