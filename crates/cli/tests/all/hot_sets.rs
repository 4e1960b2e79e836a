//! Engines of one store that do not agree whether there is a Redis: the second one does not start, and says why.

use crate::binary::{DURABLE, Running, ended_by_itself, punctual, stderr};
use punctual_testkit::servers::{MariaDb, Redis};
use std::{path::Path, process::Command};

fn serve(store: &str, hot: &str, data: &Path) -> Command {
    let data = data.to_str().unwrap();
    let place = ["--store-url", store, "--hot-url", hot, "--data", data];
    punctual(&[&["serve", "--listen", "127.0.0.1:0", "--json"][..], &place].concat())
}

#[test]
fn an_engine_without_redis_does_not_start_beside_one_with_redis_nor_the_other_way_round() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let data = tempfile::tempdir().unwrap();
    for (is_first_with, words) in [
        (true, "runs with a Redis, and this engine has none (hot.url)"),
        (false, "runs with no Redis, and this engine has one (hot.url)"),
    ] {
        let (store, redis) = runtime.block_on(async { (mysql.fresh_database().await, Redis::own().await) });
        let (with, without) = (redis.url(), "none".to_owned());
        let (first, second) = if is_first_with { (&with, &without) } else { (&without, &with) };
        let serve = |hot: &str| serve(&store, hot, data.path());
        let mut running = Running::start(&mut serve(first));
        running.first_line();
        let refused = ended_by_itself(&mut serve(second));
        assert!(!refused.status.success());
        let said = stderr(&refused);
        assert!(said.contains(words) && said.contains("stop all engines first"), "{said}");
        // Beside one like it, and after it.
        let mut alike = Running::start(&mut serve(first));
        alike.first_line();
        for mut engine in [alike, running] {
            engine.signal("-TERM");
            engine.ended();
        }
        let mut other = Running::start(&mut serve(second));
        other.first_line();
        other.signal("-TERM");
        other.ended();
    }
}

/// Neither is alive when the other one looks first. Each time one of the two starts and the other says why it does not, or, where both
/// have seen each other late, none does.
#[test]
fn of_two_engines_that_start_at_one_instant_and_do_not_agree_one_starts_at_most() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for _ in 0..3 {
        let (store, redis) = runtime.block_on(async { (mysql.fresh_database().await, Redis::own().await) });
        // The tables are there: both come to their first look at once.
        let migrated = punctual(&["migrate", "--store-url", &store, "--hot-url", "none"]).output().unwrap();
        assert!(migrated.status.success(), "{}", stderr(&migrated));
        let hot = [redis.url(), "none".to_owned()];
        let commands = [0, 1].map(|nth: usize| serve(&store, &hot[nth], data[nth].path()));
        let engines = commands.map(|mut command| Running::start(&mut command));
        let begun = engines.map(|mut engine| {
            std::thread::spawn(move || {
                let line = engine.try_first_line();
                (engine, line)
            })
        });
        let begun = begun.map(|engine| engine.join().unwrap());
        let refused: Vec<&String> = begun.iter().filter_map(|(_, line)| line.as_ref().err()).collect();
        assert!(!refused.is_empty(), "both have started");
        for said in refused {
            assert!(said.contains("stop all engines first"), "{said}");
        }
        for (engine, line) in begun {
            let mut engine = engine;
            if line.is_ok() {
                engine.signal("-TERM");
            }
            engine.ended();
        }
    }
}
