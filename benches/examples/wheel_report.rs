//! Prints one table with what a timer costs in each structure: `wheel_report [count]`, 1 million by default.
//!
//! Each structure runs in a process of its own, so that none inherits the memory of another. Times are wall clock of
//! one thread, the best of three; memory is the growth of the resident set by the timers, payload of 8 bytes included; the worst tick is the
//! slowest single millisecond of the hour. What the moving of a mocked clock costs is subtracted.
//!
//! Inserts are timed twice: the first fill of the process, on memory that the system has to find and clear page by page (one run),
//! and later fills, on memory that the process has, as in an engine that has been up for an hour. The allocator is the program's.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use contenders::{Contender, Random, TICKS, deadlines, expire, filled};

#[path = "../benches/contenders/mod.rs"]
mod contenders;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut arguments = env::args().skip(1);
    let count = arguments.next().map_or(1_000_000, |count| count.parse().expect("a number of timers"));
    match arguments.next() {
        Some(name) => {
            with_each!(report_if_named(&name, count));
        }
        None => {
            println!("{count} timers, random over an hour\n");
            println!(
                "| structure | first insert ns | insert ns | cancel ns | expire ns | bytes a timer | worst tick µs |"
            );
            println!("|---|---|---|---|---|---|---|");
            with_each!(report_in_child(count));
        }
    }
}

fn report_in_child<C: Contender>(count: usize) {
    let program = env::current_exe().expect("this program has a path");
    let status =
        Command::new(program).args([&count.to_string(), C::NAME]).status().expect("this program starts");
    assert!(status.success(), "{} failed", C::NAME);
}

fn report_if_named<C: Contender>(name: &str, count: usize) {
    if name != C::NAME {
        return;
    }
    let deadlines = deadlines(count);
    // Memory first: later, what was freed would hide what is taken.
    let (first, bytes) = first_fill::<C>(&deadlines);
    let insert = best(|| insert_cost::<C>(&deadlines));
    let cancel =
        if C::CANCELS { per_timer(best(|| cancel_cost::<C>(&deadlines)), count) } else { "–".to_owned() };
    let expire = best(|| expire_cost::<C>(&deadlines));
    let worst = best(|| worst_tick::<C>(&deadlines));
    println!(
        "| {name} | {} | {} | {cancel} | {} | {bytes:.1} | {:.0} |",
        per_timer(first, count),
        per_timer(insert, count),
        per_timer(expire, count),
        worst.as_secs_f64() * 1e6
    );
}

fn per_timer(cost: Duration, count: usize) -> String {
    format!("{:.1}", cost.as_secs_f64() * 1e9 / count as f64)
}

/// The shortest of three: other work on the machine only ever adds.
fn best(measure: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| measure()).min().unwrap_or_default()
}

/// What it costs, and resident bytes a timer.
fn first_fill<C: Contender>(deadlines: &[u32]) -> (Duration, f64) {
    let mut contender = C::new();
    let before = resident_bytes();
    let cost = timed(|| fill(&mut contender, deadlines));
    (cost, resident_bytes().saturating_sub(before) as f64 / deadlines.len() as f64)
}

fn insert_cost<C: Contender>(deadlines: &[u32]) -> Duration {
    let mut contender = C::new();
    timed(|| fill(&mut contender, deadlines))
}

fn fill<C: Contender>(contender: &mut C, deadlines: &[u32]) {
    for (payload, deadline) in (0u64..).zip(deadlines) {
        std::hint::black_box(contender.insert(*deadline, payload));
    }
}

/// Cancels every timer, in random order.
fn cancel_cost<C: Contender>(deadlines: &[u32]) -> Duration {
    let (mut contender, mut keys) = filled::<C>(deadlines);
    Random::new(1).shuffle(&mut keys);
    let start = Instant::now();
    let cancelled = keys.iter().filter(|key| contender.cancel(**key)).count();
    let cost = start.elapsed();
    assert_eq!(cancelled, deadlines.len(), "{} lost timers", C::NAME);
    cost
}

fn expire_cost<C: Contender>(deadlines: &[u32]) -> Duration {
    let (mut contender, _) = filled::<C>(deadlines);
    let cost = timed(|| expire(&mut contender, deadlines.len()));
    let clock = if C::HAS_CLOCK { timed(|| expire(&mut C::new(), 0)) } else { Duration::ZERO };
    cost.saturating_sub(clock)
}

fn worst_tick<C: Contender>(deadlines: &[u32]) -> Duration {
    let (mut contender, _) = filled::<C>(deadlines);
    (0..TICKS).map(|_| timed(|| contender.tick())).max().unwrap_or_default()
}

fn timed<R>(work: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// Resident memory of this process. The second field of statm counts pages of 4 KiB.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4_096
}
