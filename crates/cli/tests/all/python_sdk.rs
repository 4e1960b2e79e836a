//! The Python SDK (`clients/python`): its own tests run here, against this program, on both back ends. pytest, and what else they
//! need, is installed by `scripts/install-clients`; a run that does not begin, or leaves a test out, has failed.
//!
//! Seen to fail: with a behaviour of `clients/conformance.md` without a test; with a heartbeat that was not sent.

use crate::{
    binary::{blocking, ended_in, punctual, servers, stderr, stdout},
    clients::tools,
};
use std::process::Command;

/// Tests of workers, which mostly wait: they run beside the others. Each count is the least.
const OF_WORKERS: [&str; 3] = ["tests/test_worker.py", "tests/test_leases.py", "tests/test_lifecycle.py"];
const OF_WORKERS_MIN: usize = 43;
const OTHERS_MIN: usize = 78;
const ON_SERVERS_MIN: usize = 67;

/// pytest in the directory of the SDK, for this program.
fn pytest(arguments: &[&str]) -> Command {
    let mut pytest = Command::new(tools().join("venv/bin/python"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
        pytest.env_remove(name);
    }
    pytest
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python"))
        .env("PYTHONPATH", "src:.")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PUNCTUAL_BIN", env!("CARGO_BIN_EXE_punctual"))
        .args(["-m", "pytest", "-q", "--tb=short", "-p", "no:anyio"])
        .args(arguments);
    pytest
}

/// The last line: `123 passed in 30.00s`.
fn passed(run: &mut Command, least: usize) {
    let ended = ended_in(run, 10 * punctual_testkit::patience::HANG_LIMIT);
    let said = stdout(&ended);
    assert!(ended.status.success(), "{said}{}", stderr(&ended));
    let last = said.lines().last().unwrap_or_default();
    let count = last.split_once(" passed in ").and_then(|(count, _)| count.parse::<usize>().ok());
    assert!(count.is_some_and(|count| count >= least), "{last}: at least {least} pass, and none is left out");
}

#[test]
fn workers_pass() {
    passed(&mut pytest(&OF_WORKERS), OF_WORKERS_MIN);
}

#[test]
fn all_others_pass() {
    let others = OF_WORKERS.map(|file| format!("--ignore={file}"));
    passed(pytest(&["tests"]).args(others), OTHERS_MIN);
}

#[test]
fn tasks_and_workers_do_the_same_on_mysql_and_redis() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    let files =
        ["tests/test_insert.py", "tests/test_tasks.py", "tests/test_worker.py", "tests/test_leases.py"];
    assert!(punctual(&["migrate"]).env("PUNCTUAL_STORE_URL", &store).output().unwrap().status.success());
    let mut run = pytest(&files);
    passed(run.env("PUNCTUAL_STORE_URL", &store).env("PUNCTUAL_HOT_URL", redis.url()), ON_SERVERS_MIN);
}
