//! The wheel beside a heap, tokio-util's `DelayQueue` and a hash wheel: insert, cancel and expire, per timer.
//!
//! `PUNCTUAL_BENCH_TIMERS` sets the number of timers (1 million). Only figures of one run may be compared.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use contenders::{Contender, Random, deadlines, expire, filled};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

mod contenders;

fn wheel(criterion: &mut Criterion) {
    // Cargo says `--bench` for a benchmark; without it this is a test that everything runs, on few timers.
    let default = if env::args().any(|arg| arg == "--bench") { 1_000_000 } else { 2_000 };
    let count = env::var("PUNCTUAL_BENCH_TIMERS").map_or(default, |count| count.parse().expect("a number"));
    let deadlines = deadlines(count);
    let mut group = criterion.benchmark_group("wheel");
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(1));
    group.throughput(Throughput::Elements(count as u64));
    with_each!(insert(&mut group, &deadlines));
    with_each!(cancel(&mut group, &deadlines));
    with_each!(expiry(&mut group, &deadlines));
    group.finish();
}

fn insert<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, deadlines: &[u32]) {
    bench(group, "insert", C::NAME, || {
        let mut contender = C::new();
        let start = Instant::now();
        for (payload, deadline) in (0u64..).zip(deadlines) {
            black_box(contender.insert(*deadline, payload));
        }
        start.elapsed()
    });
}

fn cancel<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, deadlines: &[u32]) {
    if !C::CANCELS {
        return;
    }
    bench(group, "cancel", C::NAME, || {
        let (mut contender, mut keys) = filled::<C>(deadlines);
        Random::new(1).shuffle(&mut keys);
        let start = Instant::now();
        let cancelled = keys.iter().filter(|key| contender.cancel(**key)).count();
        let cost = start.elapsed();
        assert_eq!(cancelled, deadlines.len());
        cost
    });
}

/// The hour in ticks of 1 ms, less what moving a mocked clock costs.
fn expiry<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, deadlines: &[u32]) {
    let clock = if C::HAS_CLOCK { time_of_expiry(&mut C::new(), 0) } else { Duration::ZERO };
    bench(group, "expire", C::NAME, || {
        let (mut contender, _) = filled::<C>(deadlines);
        time_of_expiry(&mut contender, deadlines.len()).saturating_sub(clock)
    });
}

fn time_of_expiry<C: Contender>(contender: &mut C, expected: usize) -> Duration {
    let start = Instant::now();
    expire(contender, expected);
    start.elapsed()
}

/// Each iteration prepares its own structure and says how long the measured part of it took.
fn bench(group: &mut BenchmarkGroup<'_, WallTime>, operation: &str, name: &str, once: impl Fn() -> Duration) {
    group.bench_function(format!("{operation}/{name}"), |bencher| {
        bencher.iter_custom(|iterations| (0..iterations).map(|_| once()).sum());
    });
}

criterion_group!(benches, wheel);
criterion_main!(benches);
