//! Each broken twin is found by those that `docs/testing.md` names, and the table there names each twin.

use futures_util::FutureExt as _;
use punctual_contract::{Limiter, Ownership, Store};
use punctual_hot::MemoryLimiter;
use punctual_store::sqlite::{Options, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    conformance::{limiter, ownership, store},
    shared::MemoryOwnership,
    simulation::{
        Due, Faults, Finder, Hands, Setup, run_recorded, run_twin, seeded, seeded_for_many, with_limits,
    },
    twins::{Twin, TwinLimiter, TwinOwnership, TwinStore},
};
use std::{panic::AssertUnwindSafe, sync::Arc};

const PAGE: &str = include_str!("../../../../docs/testing.md");
const HEADING: &str = "## Broken twins\n";
/// Enough lives for each twin to meet what it breaks.
const SEEDS: u64 = 400;
const SOUND_SEEDS: u64 = 40;
const STEPS: usize = 60;

/// Of a row `| promise | `Twin` | finders |`: twin and finders.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [_, twin, finders] = cells.as_slice() else { return None };
    let twin = twin.strip_prefix('`')?.strip_suffix('`')?;
    Some((twin, finders.split("").filter(|finder| !finder.is_empty()).collect()))
}

fn table() -> Vec<(&'static str, Vec<&'static str>)> {
    let (_, rest) = PAGE.split_once(HEADING).unwrap();
    rest.split("\n## ").next().unwrap().lines().filter_map(row).collect()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(work)
}

/// In some life, whether engines have due tasks from the store or by Redis.
fn is_found_in_lives(twin: Twin, due: Due, finder: Finder) -> bool {
    let limits = twin == Twin::GrantsEverything;
    let setup = Setup { engines: 1, faults: Faults::None, hands: Hands::Pull, limits, due };
    (0..SEEDS).any(|seed| {
        let ops = seeded(seed, STEPS);
        let ops = if limits { with_limits(ops, seed) } else { ops };
        block_on(run_twin(&ops, setup, twin, finder)).is_err()
    })
}

/// A case of a suite fails on the twin.
fn is_found_by_a_case(twin: Twin) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sound: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Options::default()).unwrap());
    let broken = || -> Arc<dyn Store> { Arc::new(TwinStore::new(Arc::clone(&sound), twin)) };
    let limits =
        || -> Arc<dyn Limiter> { Arc::new(TwinLimiter::new(Arc::new(MemoryLimiter::default()), twin)) };
    let owners = || -> Arc<dyn Ownership> {
        let clock = ManualClock::at(punctual_domain::time::Millis(1));
        Arc::new(TwinOwnership::new(Arc::new(MemoryOwnership::new(Arc::new(clock))), twin))
    };
    let case = async {
        match twin {
            Twin::LosesInserts => store::books::books_are_sorted_and_say_where_every_task_is(broken()).await,
            Twin::HidesDue | Twin::ScansBackwards => {
                store::scan::entries_come_in_order_of_due_time_and_id(broken()).await
            }
            Twin::FiresEarly => {
                store::scan::a_new_time_moves_the_entry(broken()).await;
            }
            Twin::ForgetsSuccess => store::moves::every_legal_move_is_made_and_recorded(broken()).await,
            Twin::AcceptsAnyFence => {
                store::leases::an_outcome_of_an_earlier_attempt_is_refused(broken()).await;
            }
            Twin::CancelsWhatFired => {
                store::moves::every_other_pair_is_lost_and_leaves_the_task_alone(broken()).await;
            }
            Twin::ShortensLeases => {
                store::dispatch::a_dispatch_spends_an_attempt_and_makes_fence_and_lease(broken()).await;
            }
            Twin::MiscountsBooks => {
                store::books::an_empty_store_has_empty_books(broken()).await;
            }
            Twin::GrantsEverything => {
                let limiter = limits();
                limiter::make_whole(&*limiter).await;
                limiter::cases::of_many_who_ask_at_once_no_more_than_the_limit_get_a_place(limiter).await;
            }
            Twin::RenewsForAnyTerm => {
                ownership::what_is_lost_is_answered_when_it_is_renewed(owners()).await;
            }
        }
    };
    runtime.block_on(AssertUnwindSafe(case).catch_unwind()).is_err()
}

fn is_found(twin: Twin, finder: &str) -> bool {
    let in_lives =
        |finder| [Due::InStore, Due::InRedis].into_iter().all(|due| is_found_in_lives(twin, due, finder));
    match finder {
        "S" => in_lives(Finder::Checks),
        "H" => in_lives(Finder::Histories),
        "C" => is_found_by_a_case(twin),
        other => panic!("{other} finds nothing"),
    }
}

#[test]
fn each_twin_is_found_by_those_that_the_table_names() {
    let table = table();
    let names: Vec<String> = Twin::ALL.iter().map(|twin| format!("{twin:?}")).collect();
    assert_eq!(table.iter().map(|row| row.0).collect::<Vec<_>>(), names, "docs/testing.md names each twin");
    let missed: Vec<String> = Twin::ALL
        .iter()
        .zip(&table)
        .flat_map(|(twin, (_, finders))| finders.iter().map(move |finder| (*twin, *finder)))
        .filter(|(twin, finder)| !is_found(*twin, finder))
        .map(|(twin, finder)| format!("{twin:?} by {finder}"))
        .collect();
    assert_eq!(missed, [""; 0], "not found");
}

/// What is found on a twin is not found on a sound store, whatever fails and dies.
#[test]
fn histories_of_sound_lives_are_linearizable() {
    let lives = [
        (1, Due::InStore, false),
        (1, Due::InRedis, false),
        (2, Due::InRedis, false),
        (1, Due::InStore, true),
        (3, Due::InRedis, true),
    ];
    for (engines, due, has_faults) in lives {
        for seed in 0..SOUND_SEEDS {
            let ops = if engines > 1 { seeded_for_many(seed, STEPS) } else { seeded(seed, STEPS) };
            let faults = if has_faults { Faults::Some(seed) } else { Faults::None };
            let setup = Setup { engines, faults, hands: Hands::Pull, limits: false, due };
            let lived = block_on(run_recorded(&ops, setup));
            lived.unwrap_or_else(|broken| panic!("seed {seed}, {engines} engines, {due:?}: {broken}"));
        }
    }
}
