//! Command lines: what they mean, and which are refused.

use super::*;
use crate::{
    http::Target,
    options::{parse_ms, size},
    plan::LoadShape,
};

fn run(arguments: &str) -> RunOptions {
    let words = ["loadtest", "run", "--spawn"].into_iter().chain(arguments.split(' '));
    match Options::try_parse_from(words).unwrap().command {
        LoadCommand::Run(options) => *options,
        LoadCommand::Idle(_)
        | LoadCommand::Limit(_)
        | LoadCommand::Counts(_)
        | LoadCommand::Attack(_)
        | LoadCommand::Search(_)
        | LoadCommand::Bulk(_)
        | LoadCommand::Bounds(_)
        | LoadCommand::Overload(_)
        | LoadCommand::Console(_)
        | LoadCommand::Chaos(_)
        | LoadCommand::Parts(_)
        | LoadCommand::Bars(_)
        | LoadCommand::Executor(_) => {
            panic!("not run")
        }
    }
}

#[test]
fn durations_have_units() {
    let good = [("0s", 0), ("250ms", 250), ("30s", 30_000), ("10m", 600_000), ("7d", 604_800_000)];
    good.into_iter().for_each(|(text, ms)| assert_eq!(parse_ms(text), Ok(ms)));
    for text in ["", "s", "5", "-1s", "1.5s", "1 s", "99999999999d"] {
        assert!(parse_ms(text).is_err(), "{text}");
    }
}

#[test]
fn a_buffer_pool_has_a_unit() {
    assert_eq!(server("idle --spawn --store mysql --buffer-pool 512M").buffer_pool.as_deref(), Some("512M"));
    for text in ["", "G", "2", "0G", "2T", "2G --skip-grant-tables"] {
        assert!(size(text).is_err(), "{text}");
    }
}

#[test]
fn defaults_depend_on_the_scenario() {
    let burst = run("--scenario burst");
    assert_eq!(burst.load(), Ok(LoadShape::Burst { tasks: 100_000 }));
    assert_eq!((burst.ahead_ms(), burst.batch(), burst.connections()), (8_000, 1_000, 2));
    let sustained = run("--scenario sustained --rate 500 --duration 1m");
    assert_eq!(sustained.load(), Ok(LoadShape::Sustained { rate: 500, duration_ms: 60_000 }));
    assert_eq!((sustained.ahead_ms(), sustained.batch()), (3_000, 50));
    let singles = run("--scenario uniform --tasks 20 --singles --insert-only");
    assert_eq!((singles.ahead_ms(), singles.batch(), singles.connections()), (600_000, 1, 64));
}

#[test]
fn options_that_another_scenario_has_are_refused() {
    for arguments in [
        "--scenario sustained",
        "--scenario sustained --rate 0",
        "--scenario sustained --rate 5 --tasks 5",
        "--scenario flood",
        "--scenario flood --rate 5 --tasks 5",
        "--scenario burst --rate 5",
        "--scenario burst --duration 5s",
        "--scenario uniform --rate 5",
        "--scenario uniform --executors 0",
    ] {
        assert!(run(arguments).load().is_err(), "{arguments}");
    }
}

#[test]
fn engines_share_a_database_and_a_hot_set_or_there_is_one() {
    let shared = "idle --spawn --store mysql --hot redis";
    for good in ["--databases 4 --engines 3", "", "--engines 64"] {
        assert_eq!(server(&format!("{shared} {good}")).check(), Ok(()), "{good}");
    }
    let server_options = server(&format!("{shared} --databases 4 --engines 3"));
    assert_eq!((server_options.databases(), server_options.engines()), (4, 3));
    for bad in [
        "idle --spawn --engines 2",
        "idle --spawn --hot redis --engines 2",
        "idle --spawn --store mysql --engines 2",
        "idle --spawn --databases 2",
        "idle --spawn --store mysql --hot redis --data d",
    ] {
        assert!(server(bad).check().is_err(), "{bad}");
    }
    let of = |words: &str| run(&format!("--scenario burst {words}")).check();
    assert!(of("--store mysql --hot redis --engines 2 --kill-after 1s").is_err());
    assert!(of("--kill-one-after 1s").is_err());
    assert_eq!(of("--store mysql --hot redis --engines 2 --kill-one-after 1s"), Ok(()));
    assert_eq!(of("--kill-after 1s"), Ok(()));
}

#[test]
fn counted_is_what_is_started_here_and_engines_are_named_by_their_number() {
    let of = |words: &str| run(&format!("--scenario burst {words}")).check();
    let servers = "--store mysql --hot redis --engines 2";
    assert_eq!(of(&format!("{servers} --count --insert-at 1 --execute-at 2")), Ok(()));
    for bad in ["--count", "--store mysql --count", "--hot redis --count", "--insert-at 2"] {
        assert!(of(bad).is_err(), "{bad}");
    }
    assert!(of(&format!("{servers} --execute-at 3")).is_err());
    assert!(run(&format!("--scenario flood --rate 5 {servers} --count")).check().is_err());
    let all = Target::new("http://a:1,http://b:2", None, None).unwrap();
    let targets = run(&format!("--scenario burst {servers} --execute-at 2")).targets(&all);
    assert_eq!(targets.map(|target| target.urls()), ["http://a:1,http://b:2", "http://b:2"]);
}

#[test]
fn a_server_is_named_or_started_and_only_a_started_one_is_killed() {
    for arguments in [
        "idle",
        "run --scenario burst",
        "run --scenario burst --spawn --url http://127.0.0.1:1",
        "run --scenario burst --url http://127.0.0.1:1 --kill-after 1s",
        "run --scenario burst --url http://127.0.0.1:1 --data d",
        "idle --spawn --server-pid 1",
        "idle --url http://127.0.0.1:1 --engines 2",
        "idle --url http://127.0.0.1:1 --store mysql",
        "idle --spawn --store mysql --databases 0",
        "run --scenario burst --spawn --stop-one-after 1s --insert-only",
        "run --scenario burst --url http://127.0.0.1:1,http://127.0.0.1:2 --pause-one-after 1s",
    ] {
        let words = std::iter::once("loadtest").chain(arguments.split(' '));
        assert!(Options::try_parse_from(words).is_err(), "{arguments}");
    }
}

#[test]
fn a_flood_has_a_rate_and_nothing_is_done_to_its_server() {
    let flood = run("--scenario flood --rate 50 --duration 20s --slots 8 --work 20ms --times 3");
    assert_eq!(flood.load(), Ok(LoadShape::Sustained { rate: 50, duration_ms: 20_000 }));
    assert_eq!(
        (flood.flood.times, flood.flood.slots, flood.flood.work, flood.flood.rounds),
        (3, Some(8), 20, 1)
    );
    assert_eq!(flood.check(), Ok(()));
    for bad in ["--concurrency 5", "--priorities 3", "--insert-only", "--kill-after 1s"] {
        assert!(run(&format!("--scenario flood --rate 5 {bad}")).check().is_err(), "{bad}");
    }
}
