//! Seeded lives of engines. A failing seed prints its operations; kept ones are below as named lists.

use punctual_testkit::simulation::{
    Due, Faults, Hands, Op, ReadyOrder, Setup, run, run_changes, run_schedules, run_workflows, seeded,
    seeded_for_many, seeded_with_order, with_a_bus, with_limits, with_the_hot_set_away,
};

/// More by `PUNCTUAL_SEEDS` (`scripts/test --nightly`: 10,000), from another place by `PUNCTUAL_FIRST_SEED`.
const SEEDS: u64 = 300;
const STEPS: usize = 60;
const ORDER_SEEDS: u64 = 100;
const MOMENTS: usize = 6;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The simulation moves the timers: an engine that asks one that sleeps gives up after its limit, and no real time passes.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(work)
}

fn run_seeds(engines: usize, hands: Hands, faults: impl Fn(u64) -> Faults) {
    run_seeds_with(false, engines, hands, faults);
}

fn run_seeds_with(limits: bool, engines: usize, hands: Hands, faults: impl Fn(u64) -> Faults) {
    run_seeds_of(due_of(engines), limits, engines, hands, faults);
}

/// One engine is embedded, unless it is said.
const fn due_of(engines: usize) -> Due {
    if engines > 1 { Due::InRedis } else { Due::InStore }
}

fn run_seeds_of(due: Due, limits: bool, engines: usize, hands: Hands, faults: impl Fn(u64) -> Faults) {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    // One with limits takes its time: all that waits goes three at a time.
    let seeds = if limits { SEEDS / 4 } else { SEEDS };
    for seed in first..first + number("PUNCTUAL_SEEDS", seeds) {
        let ops = if engines > 1 { seeded_for_many(seed, STEPS) } else { seeded(seed, STEPS) };
        let ops = if hands == Hands::Push { with_a_bus(ops, seed) } else { ops };
        let ops = if limits { with_limits(ops, seed) } else { ops };
        let setup = Setup { engines, faults: faults(seed), hands, limits, due };
        if let Err(broken) = block_on(run(&ops, setup)) {
            let ops = shrink(&ops, setup);
            panic!("seed {seed}: {broken}\nthe shortest list found that breaks a promise:\n{ops:#?}");
        }
    }
}

/// Removes the operations that are not needed to break a promise.
fn shrink(ops: &[Op], setup: Setup) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let mut nth = 0;
    while nth < ops.len() {
        let mut fewer = ops.clone();
        fewer.remove(nth);
        if block_on(run(&fewer, setup)).is_err() { ops = fewer } else { nth += 1 }
    }
    ops
}

#[test]
fn thousands_of_lives_keep_every_promise() {
    run_seeds(1, Hands::Pull, |_| Faults::None);
}

#[test]
fn thousands_of_lives_by_redis_keep_every_promise() {
    run_seeds_of(Due::InRedis, false, 1, Hands::Pull, |_| Faults::None);
}

/// Lives that have found a fault. 2419: a prelease that had become too old was first in the backlog, and an
/// executor got no task, although others waited after it. (The shortest list found another fault: the store
/// refused the first task of the backlog.)
const KNOWN_LIVES: [u64; 1] = [2419];

#[test]
fn lives_of_one_engine_that_have_found_a_fault_find_it_no_more() {
    for (due, seed) in
        [Due::InStore, Due::InRedis].into_iter().flat_map(|due| KNOWN_LIVES.map(|seed| (due, seed)))
    {
        let setup = Setup { engines: 1, faults: Faults::None, hands: Hands::Pull, limits: false, due };
        let lived = block_on(run(&seeded(seed, STEPS), setup));
        lived.unwrap_or_else(|broken| panic!("seed {seed}, due {due:?}: {broken}"));
    }
}

/// The store refuses the first task of the backlog, which a change has replaced.
#[test]
fn an_executor_gets_what_waits_behind_a_task_that_the_store_refuses() {
    let insert = |delay_ms, id, max_attempts, retry_ms| Op::Insert {
        delay_ms,
        id,
        max_attempts,
        retry_ms,
        deadline_ms: None,
        priority: 3,
    };
    let ops = [
        insert(17, Some((2, 1)), 2, 426),
        insert(93, None, 2, 1_036),
        Op::Cancel { pick: 322, stop_if_fired: false },
        insert(69, Some((1, 0)), 3, 664),
        Op::Turn,
        insert(2_326, None, 3, 2_799),
        Op::Advance { ms: 2_399 },
        Op::Lease { max: 2, lease_ms: 5_597 },
        Op::Reschedule { pick: 394, delay_ms: 0 },
        Op::Turn,
        insert(61, Some((1, 0)), 1, 902),
        Op::Lease { max: 1, lease_ms: 18_423 },
    ];
    for due in [Due::InStore, Due::InRedis] {
        let setup = Setup { engines: 1, faults: Faults::None, hands: Hands::Pull, limits: false, due };
        block_on(run(&ops, setup)).unwrap();
    }
}

/// By rule, four of five choices take the most urgent waiting task, the oldest of its level, and the newest
/// version of a task. A list that breaks one of the last two fails by itself.
fn keeps_order(engines: usize, limits: bool) {
    keeps_order_with(due_of(engines), engines, limits, |ops, _| ops);
}

fn keeps_order_with(due: Due, engines: usize, limits: bool, change: fn(Vec<Op>, u64) -> Vec<Op>) {
    let setup = Setup { engines, faults: Faults::None, hands: Hands::Pull, limits, due };
    let pause_ms = if limits { 500 } else { 0 };
    let mut order = ReadyOrder::default();
    let (first, seeds) = (number("PUNCTUAL_FIRST_SEED", 0), number("PUNCTUAL_SEEDS", ORDER_SEEDS));
    // Each choice sees what one engine owns.
    let wanted = ReadyOrder::wanted(usize::try_from(seeds).unwrap() / engines, limits);
    // How much a seed says depends on how busy the machine is. So there are more seeds until enough has been seen.
    for seed in first..first + 2 * seeds {
        if seed >= first + seeds && order.says_as_much_as(wanted) {
            break;
        }
        let ops = change(seeded_with_order(seed, MOMENTS, pause_ms), seed);
        match block_on(run(&ops, setup)) {
            Ok(seen) => order.add(seen),
            Err(broken) => {
                let ops = shrink(&ops, setup);
                panic!("seed {seed}: {broken}\nthe shortest list found that breaks a promise:\n{ops:#?}");
            }
        }
    }
    assert!(order.says_as_much_as(wanted), "{order:?} says less than {wanted:?}");
    let ReadyOrder { choices, to_most_urgent, .. } = order;
    let count = |of: usize| f64::from(u32::try_from(of).unwrap());
    let deviations = (count(to_most_urgent) - 0.8 * count(choices)) / (0.16 * count(choices)).sqrt();
    assert!(deviations.abs() < 6.0, "{to_most_urgent} of {choices} went to the most urgent");
}

#[test]
fn the_most_urgent_the_oldest_and_the_newest_version_go_first() {
    keeps_order(1, false);
}

#[test]
fn they_go_first_by_redis() {
    keeps_order_with(Due::InRedis, 1, false, |ops, _| ops);
}

#[test]
fn they_go_first_wherever_executors_ask_three_engines() {
    keeps_order(3, false);
}

#[test]
fn they_go_first_while_the_hot_set_comes_and_goes() {
    keeps_order_with(Due::InRedis, 1, false, with_the_hot_set_away);
}

#[test]
fn they_go_first_of_what_no_limit_keeps() {
    keeps_order(1, true);
}

#[test]
fn they_go_first_of_what_no_limit_keeps_wherever_executors_ask_three_engines() {
    keeps_order(3, true);
}

#[test]
fn a_store_that_fails_and_lies_about_it_breaks_no_promise() {
    run_seeds(1, Hands::Pull, Faults::Some);
}

#[test]
fn a_store_and_a_redis_that_fail_and_lie_about_it_break_no_promise() {
    run_seeds_of(Due::InRedis, false, 1, Hands::Pull, Faults::Some);
}

#[test]
fn engines_that_come_and_die_and_sleep_at_any_step_break_no_promise() {
    run_seeds(2, Hands::Pull, |_| Faults::None);
}

#[test]
fn many_engines_on_back_ends_that_fail_and_lie_break_no_promise() {
    run_seeds(3, Hands::Pull, Faults::Some);
}

#[test]
fn a_bus_that_goes_away_and_comes_back_loses_no_task() {
    run_seeds(1, Hands::Push, |_| Faults::None);
}

#[test]
fn a_bus_that_fails_and_lies_about_it_breaks_no_promise() {
    run_seeds(1, Hands::Push, Faults::Some);
    run_seeds_of(Due::InRedis, false, 1, Hands::Push, Faults::Some);
}

#[test]
fn engines_that_come_and_die_around_a_bus_that_fails_break_no_promise() {
    run_seeds(3, Hands::Push, Faults::Some);
}

#[test]
fn limits_and_rates_hold_after_every_step_and_no_slot_is_left() {
    run_seeds_with(true, 1, Hands::Pull, |_| Faults::None);
}

#[test]
fn limits_hold_while_engines_die_and_sleep_at_any_step_and_the_limiter_loses_what_it_granted() {
    run_seeds_with(true, 3, Hands::Pull, |_| Faults::None);
}

#[test]
fn limits_hold_on_back_ends_that_fail_and_lie() {
    run_seeds_with(true, 3, Hands::Pull, Faults::Some);
}

#[test]
fn limits_hold_for_what_a_bus_takes_from_engines_that_come_and_die() {
    run_seeds_with(true, 3, Hands::Push, Faults::Some);
}

/// Seeds of schedules: each has several planners, and two and a half minutes of quiet at its end.
const SCHEDULE_SEEDS: u64 = 40;
const SCHEDULE_STEPS: usize = 80;

#[test]
fn each_instant_of_a_schedule_runs_once_whoever_dies_or_sleeps_and_however_the_clock_steps() {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    for seed in first..first + number("PUNCTUAL_SEEDS", SCHEDULE_SEEDS) {
        if let Err(broken) = block_on(run_schedules(seed, SCHEDULE_STEPS)) {
            panic!("seed {seed}: {broken}");
        }
    }
}

/// Lives of schedules that have found a fault. 63 and 158: runs that were decided before a pause, and whose planner slept, were made
/// after it, because nothing of the schedule lay ahead.
const KNOWN_SCHEDULES: [u64; 2] = [63, 158];

#[test]
fn lives_of_schedules_that_have_found_a_fault_find_it_no_more() {
    for seed in KNOWN_SCHEDULES {
        let lived = block_on(run_schedules(seed, SCHEDULE_STEPS));
        lived.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

/// Seeds on a push queue that have found a fault. 5753: the clock was set back, a lease ahead of the instant
/// was returned, and a mark withdrew that the task had fired.
const KNOWN_PUSHED: [u64; 1] = [5753];

#[test]
fn lives_of_a_push_queue_that_have_found_a_fault_find_it_no_more() {
    for seed in KNOWN_PUSHED {
        for due in [Due::InStore, Due::InRedis] {
            let setup =
                Setup { engines: 1, faults: Faults::Some(seed), hands: Hands::Push, limits: false, due };
            let lived = block_on(run(&with_a_bus(seeded(seed, STEPS), seed), setup));
            lived.unwrap_or_else(|broken| panic!("seed {seed}, due {due:?}: {broken}"));
        }
    }
}

/// Lives of schedules that are changed all the time. `PUNCTUAL_CHANGES`: so many changes in all, however many lives that takes.
const CHANGE_SEEDS: u64 = 25;
const CHANGE_STEPS: usize = 120;

#[test]
fn each_instant_runs_once_or_has_a_reason_however_schedules_are_changed() {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    let (seeds, wanted) = (number("PUNCTUAL_SEEDS", CHANGE_SEEDS), number("PUNCTUAL_CHANGES", 0));
    let (mut seed, mut changes) = (first, 0);
    while seed < first + seeds || changes < wanted {
        let done = block_on(run_changes(seed, CHANGE_STEPS));
        changes += u64::try_from(done.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"))).unwrap();
        seed += 1;
    }
    println!("{changes} changes in {} lives", seed - first);
    assert!(changes >= seeds * 20, "{changes} changes in {} lives say too little", seed - first);
}

/// Lives that have found a fault. 299: a run whose taking back had begun, by an engine that died before its line said so, was called
/// made, and did not run.
const KNOWN_CHANGES: [u64; 1] = [299];

#[test]
fn lives_that_have_found_a_fault_find_it_no_more() {
    for seed in KNOWN_CHANGES {
        block_on(run_changes(seed, CHANGE_STEPS)).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

/// Seeds of workflows: each has several runners, and quiet at its end until all is over.
const WORKFLOW_SEEDS: u64 = 40;
const WORKFLOW_STEPS: usize = 100;

#[test]
fn each_node_of_a_workflow_runs_as_its_edges_say_whoever_dies_or_sleeps_and_however_the_clock_steps() {
    let first = number("PUNCTUAL_FIRST_SEED", 0);
    for seed in first..first + number("PUNCTUAL_SEEDS", WORKFLOW_SEEDS) {
        if let Err(broken) = block_on(run_workflows(seed, WORKFLOW_STEPS)) {
            panic!("seed {seed}: {broken}");
        }
    }
}
