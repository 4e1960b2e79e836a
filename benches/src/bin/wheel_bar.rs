//! The wheel's row of `scripts/bench`: what a timer costs at 10 million of them, beside the heap of the standard library,
//! as one JSON object. `wheel_report` compares with more structures, and takes their crates to compile.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use punctual_wheel::{Key, Wheel};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hint::black_box,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TIMERS: usize = 10_000_000;
const TIMERS_OF_WORST_TICK: usize = 1_000_000;
/// Deadlines are spread over an hour, a tick is a millisecond.
const TICKS: i64 = 3_600_000;
const START_MS: i64 = 1_700_000_000_000;

fn main() {
    let deadlines = deadlines(TIMERS);
    // Memory first: later, what was freed would hide what is taken.
    let before = resident_bytes();
    let (wheel, keys) = filled(&deadlines);
    drop(keys);
    let bytes = resident_bytes().saturating_sub(before) as f64 / TIMERS as f64;
    drop(wheel);
    let few = deadlines.get(..TIMERS_OF_WORST_TICK).unwrap_or_default();
    let worst = best(|| {
        let (mut wheel, _) = filled(few);
        let mut due = Vec::new();
        (1..=TICKS).map(|tick| timed(|| _ = advance(&mut wheel, tick, &mut due))).max().unwrap_or_default()
    });
    let insert = best(|| {
        let mut wheel = Wheel::new(START_MS);
        timed(|| deadlines.iter().for_each(|at| _ = black_box(wheel.insert(START_MS + at, *at))))
    });
    let cancel = best(|| {
        let (mut wheel, mut keys) = filled(&deadlines);
        shuffle(&mut keys);
        timed(|| assert!(keys.iter().all(|key| wheel.cancel(*key).is_some()), "the wheel lost timers"))
    });
    let expire = best(|| {
        let (mut wheel, _) = filled(&deadlines);
        let (mut due, mut fired) = (Vec::new(), 0);
        let cost = timed(|| (1..=TICKS).for_each(|tick| fired += advance(&mut wheel, tick, &mut due)));
        assert_eq!(fired, TIMERS, "the wheel lost timers");
        cost
    });
    let heap_insert = best(|| {
        let mut heap = BinaryHeap::new();
        let cost = timed(|| deadlines.iter().for_each(|at| heap.push(Reverse((*at, *at)))));
        assert_eq!(black_box(&heap).len(), deadlines.len(), "the heap lost timers");
        cost
    });
    let heap_expire = best(|| {
        let mut heap: BinaryHeap<_> = deadlines.iter().map(|at| Reverse((*at, *at))).collect();
        timed(|| while black_box(heap.pop()).is_some() {})
    });
    let [insert, cancel, expire, heap_insert, heap_expire] =
        [insert, cancel, expire, heap_insert, heap_expire]
            .map(|cost| cost.as_secs_f64() * 1e9 / TIMERS as f64);
    let worst_ms = worst.as_secs_f64() * 1e3;
    println!(
        r#"{{"insert_ns":{insert},"cancel_ns":{cancel},"expire_ns":{expire},"bytes":{bytes},"worst_tick_ms":{worst_ms},"heap_insert_ns":{heap_insert},"heap_expire_ns":{heap_expire}}}"#
    );
}

fn deadlines(count: usize) -> Vec<i64> {
    let mut random = Random(1);
    (0..count).map(|_| 1 + random.below(TICKS.unsigned_abs()).cast_signed()).collect()
}

fn filled(deadlines: &[i64]) -> (Wheel<i64>, Vec<Key>) {
    let mut wheel = Wheel::new(START_MS);
    let keys = deadlines.iter().map(|at| wheel.insert(START_MS + at, *at)).collect();
    (wheel, keys)
}

fn advance(wheel: &mut Wheel<i64>, tick: i64, due: &mut Vec<(i64, i64)>) -> usize {
    due.clear();
    wheel.advance(START_MS + tick, due);
    black_box(&due).len()
}

/// The shortest of three: other work on the machine only ever adds.
fn best(measure: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| measure()).min().unwrap_or_default()
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn shuffle(keys: &mut [Key]) {
    let mut random = Random(2);
    for last in (1..keys.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(0);
        keys.swap(last, other);
    }
}

/// splitmix64: the same numbers in every run.
struct Random(u64);

impl Random {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }
}

/// Resident memory of this process. The second field of statm counts pages of 4 KiB.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4_096
}
