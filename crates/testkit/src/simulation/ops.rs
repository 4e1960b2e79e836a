//! Events of the simulation: operations of callers, of executors, of time and of faults. A list of them is a
//! test that can be stored, named and replayed.

use fastrand::Rng;
use punctual_domain::task::Priority;

/// `pick` chooses among the existing ones, modulo their number.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Insert {
        /// Negative: in the past.
        delay_ms: i64,
        /// A caller's id and version, or `None` means the engine gives one.
        id: Option<(i64, i64)>,
        max_attempts: u32,
        retry_ms: i64,
        deadline_ms: Option<i64>,
        /// 1 to 5.
        priority: u8,
    },
    Cancel {
        pick: usize,
        stop_if_fired: bool,
    },
    Reschedule {
        pick: usize,
        delay_ms: i64,
    },
    ChangePayload {
        pick: usize,
    },
    RunNow {
        pick: usize,
    },
    Redrive {
        pick: usize,
    },
    /// The clock moves, and no engine runs.
    Advance {
        ms: i64,
    },
    /// The wall clock is set back.
    SetBack {
        ms: i64,
    },
    Turn,
    Lease {
        max: usize,
        lease_ms: i64,
    },
    Report {
        pick: usize,
        how: How,
    },
    /// An executor that was given up reports all the same.
    ReportStale {
        pick: usize,
    },
    Beat {
        pick: usize,
    },
    /// An executor dies and loses its tasks.
    ExecutorDies {
        pick: usize,
    },
    /// All engines die, and the hot set with them; others start on the same store.
    Restart,
    /// One more engine.
    Start,
    /// One engine stops in an orderly way.
    Stop {
        pick: usize,
    },
    /// One engine runs, and the others do not.
    TurnOne {
        pick: usize,
    },
    /// One engine dies after this many more calls to its back ends, during this work.
    Kill {
        pick: usize,
        calls: usize,
        work: EngineWork,
    },
    /// One engine sleeps after this many more calls to its back ends, during this work, and believes when it
    /// continues that no time has passed.
    Pause {
        pick: usize,
        calls: usize,
        work: EngineWork,
    },
    Continue {
        pick: usize,
    },
    /// The ownership back end becomes unavailable, or available again.
    OwnersAway {
        away: bool,
    },
    /// The bus accepts no message, or does again.
    BusAway {
        away: bool,
    },
    /// The hot set does not answer, or does again.
    HotAway {
        away: bool,
    },
    /// The limiter loses all but so many of its members, the newest first, and knows that it may have.
    LoseSlots {
        keep: usize,
    },
    /// Five seconds pass; then all that was due must be with an executor.
    TakeOver,
}

/// An engine's work when it is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineWork {
    Turn,
    Lease { max: usize },
    Insert { delay_ms: i64 },
    Cancel { pick: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Succeed,
    Fail,
    Snooze,
    Reject,
}

/// The operations of a seed.
#[must_use]
pub fn seeded(seed: u64, count: usize) -> Vec<Op> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|_| one(&mut rng)).collect()
}

/// The same for several engines: one operation in four is about engines that start and end.
#[must_use]
pub fn seeded_for_many(seed: u64, count: usize) -> Vec<Op> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|_| if rng.u8(..4) == 0 { of_engines(&mut rng) } else { one(&mut rng) }).collect()
}

/// The same with a bus that fails and recovers: one operation in twelve, beside those of a list.
#[must_use]
pub fn with_a_bus(ops: Vec<Op>, seed: u64) -> Vec<Op> {
    let mut rng = Rng::with_seed(!seed);
    let mut with = Vec::with_capacity(ops.len() * 13 / 12);
    for op in ops {
        if rng.u8(..12) == 0 {
            with.push(Op::BusAway { away: rng.bool() });
        }
        with.push(op);
    }
    with
}

/// The same for a queue with limits, which keep tasks waiting for longer than `TakeOver` allows: one
/// operation in sixteen loses slots. The clock is not set back: then the length of an engine's pause would be
/// unknown.
#[must_use]
pub fn with_limits(ops: Vec<Op>, seed: u64) -> Vec<Op> {
    let mut rng = Rng::with_seed(!seed.rotate_left(1));
    let kept = ops.into_iter().filter(|op| !matches!(op, Op::SetBack { .. } | Op::TakeOver));
    kept.map(|op| if rng.u8(..16) == 0 { Op::LoseSlots { keep: rng.usize(..4) } } else { op }).collect()
}

/// Tasks of every priority, and versions of one task, that fall due within a moment, and executors that ask for one at a time:
/// what matters is which is first. `pause_ms`: between two of them, longer where what starts is limited.
#[must_use]
pub fn seeded_with_order(seed: u64, moments: usize, pause_ms: i64) -> Vec<Op> {
    let mut rng = Rng::with_seed(seed);
    let mut versions = [0; VERSIONED_TASKS];
    // Until all partitions are owned.
    let mut ops: Vec<Op> = (0..3).flat_map(|_| [Op::Turn, Op::Advance { ms: 300 }]).collect();
    for _ in 0..moments {
        tasks_of_one_moment(&mut rng, &mut versions, &mut ops);
        executors_of_one_moment(&mut rng, pause_ms, &mut ops);
    }
    ops
}

/// The same while the hot set fails and returns: one operation in forty.
#[must_use]
pub fn with_the_hot_set_away(ops: Vec<Op>, seed: u64) -> Vec<Op> {
    let mut rng = Rng::with_seed(!seed.rotate_left(2));
    let mut with = Vec::with_capacity(ops.len() * 41 / 40);
    for op in ops {
        if rng.u8(..40) == 0 {
            with.extend([Op::HotAway { away: rng.u8(..3) > 0 }, Op::Turn]);
        }
        with.push(op);
    }
    with
}

/// Tasks of which there are versions.
const VERSIONED_TASKS: usize = 3;

fn tasks_of_one_moment(rng: &mut Rng, versions: &mut [i64; VERSIONED_TASKS], ops: &mut Vec<Op>) {
    let last_ms = rng.i64(20..95);
    let are_alike = rng.u8(..3) == 0;
    for _ in 0..rng.usize(2..8) {
        let version = (!are_alike && rng.u8(..3) == 0).then(|| rng.usize(..VERSIONED_TASKS));
        let id = version.and_then(|nth| {
            let version = versions.get_mut(nth)?;
            *version += 1;
            Some((i64::try_from(nth).ok()?, *version))
        });
        ops.push(Op::Insert {
            delay_ms: if rng.bool() { last_ms } else { rng.i64(0..=last_ms) },
            id,
            max_attempts: rng.u32(1..4),
            retry_ms: rng.i64(0..100),
            deadline_ms: None,
            priority: if are_alike || rng.bool() { Priority::default().level() } else { rng.u8(1..6) },
        });
    }
    // One turn for leases ahead of the instants, and one after all instants.
    ops.extend([Op::Turn, Op::Advance { ms: last_ms }, Op::Turn]);
    if rng.bool() {
        // Until no engine keeps any of them to itself, and all have learned of them.
        ops.extend([Op::Advance { ms: 25 }, Op::Turn, Op::Turn]);
    }
}

/// Fewer or more than there are tasks, so that some are left for the next moment or executors find nothing.
fn executors_of_one_moment(rng: &mut Rng, pause_ms: i64, ops: &mut Vec<Op>) {
    for _ in 0..rng.usize(1..10) {
        ops.push(Op::Lease { max: 1, lease_ms: 20_000 });
        let pick = rng.usize(..1_000);
        let how = if rng.u8(..3) == 0 { How::Fail } else { How::Succeed };
        if rng.u8(..4) > 0 {
            ops.push(Op::Report { pick, how });
        }
        match rng.u8(..6) {
            0 => ops.push(Op::Advance { ms: rng.i64(1..60) }),
            1 => ops.push(Op::TurnOne { pick }),
            2 | 3 => ops.push(Op::Turn),
            _ => {}
        }
        if pause_ms > 0 {
            ops.extend([Op::Advance { ms: pause_ms }, Op::Turn]);
        }
    }
}

fn of_engines(rng: &mut Rng) -> Op {
    let (pick, calls) = (rng.usize(..1_000), rng.usize(..30));
    match rng.u8(..24) {
        0..=5 => Op::Start,
        6..=8 => Op::Kill { pick, calls, work: work(rng) },
        9..=12 => Op::Pause { pick, calls, work: work(rng) },
        13..=16 => Op::Continue { pick },
        17 => Op::Stop { pick },
        18..=20 => Op::TurnOne { pick },
        21 => Op::OwnersAway { away: rng.bool() },
        _ => Op::TakeOver,
    }
}

fn work(rng: &mut Rng) -> EngineWork {
    match rng.u8(..8) {
        0..=3 => EngineWork::Turn,
        4..=5 => EngineWork::Lease { max: rng.usize(1..5) },
        6 => EngineWork::Insert { delay_ms: rng.i64(0..3_000) },
        _ => EngineWork::Cancel { pick: rng.usize(..1_000) },
    }
}

/// Half of the draws are about inserting, time and turns, so that there is always something to do.
fn one(rng: &mut Rng) -> Op {
    let pick = rng.usize(..1_000);
    match rng.u8(..40) {
        0..=9 => insert(rng),
        10..=12 => Op::Cancel { pick, stop_if_fired: rng.u8(..4) == 0 },
        13..=14 => Op::Reschedule { pick, delay_ms: delay_ms(rng) },
        15 => Op::ChangePayload { pick },
        16 => Op::RunNow { pick },
        17 => Op::Redrive { pick },
        18..=22 => Op::Advance { ms: delay_ms(rng).max(1) },
        23 => Op::SetBack { ms: rng.i64(1..5_000) },
        24..=29 => Op::Turn,
        30..=33 => Op::Lease { max: rng.usize(1..5), lease_ms: rng.i64(100..20_000) },
        34..=35 => Op::Report { pick, how: how(rng) },
        36 => Op::ReportStale { pick },
        37 => Op::Beat { pick },
        38 => Op::ExecutorDies { pick },
        _ => Op::Restart,
    }
}

fn insert(rng: &mut Rng) -> Op {
    let id = rng.bool().then(|| (rng.i64(0..4), rng.i64(0..3)));
    let deadline_ms = (rng.u8(..8) == 0).then(|| rng.i64(0..3_000));
    let (delay_ms, max_attempts, retry_ms) = (delay_ms(rng), rng.u32(1..4), rng.i64(0..3_000));
    // Most are alike, so that leases are made ahead of their instants.
    let priority = if rng.u8(..4) == 0 { rng.u8(1..6) } else { Priority::default().level() };
    Op::Insert { delay_ms, id, max_attempts, retry_ms, deadline_ms, priority }
}

fn how(rng: &mut Rng) -> How {
    match rng.u8(..6) {
        0..=2 => How::Succeed,
        3 => How::Fail,
        4 => How::Snooze,
        _ => How::Reject,
    }
}

/// Milliseconds, seconds, an hour or so, days: around every edge that the engine knows.
fn delay_ms(rng: &mut Rng) -> i64 {
    match rng.u8(..8) {
        0 => -rng.i64(0..10_000),
        1 => 0,
        2..=3 => rng.i64(0..100),
        4..=5 => rng.i64(0..3_000),
        6 => rng.i64(3_590_000..3_620_000),
        _ => rng.i64(0..10 * 86_400_000),
    }
}
