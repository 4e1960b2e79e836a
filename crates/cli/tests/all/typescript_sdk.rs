//! The TypeScript SDK (`clients/typescript`): its own tests run here, against this program, on both back ends. The compiler, and
//! what else they need, is installed by `scripts/install-clients`; a run that does not begin, or leaves a test out, has failed.
//!
//! Seen to fail: with a behaviour of `clients/conformance.md` without a test; with a heartbeat that was not sent.

use crate::{
    binary::{blocking, ended_in, punctual, servers, stderr, stdout},
    clients::tools,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Tests of workers, which mostly wait: they run beside the others. Each count is the least.
const OF_WORKERS: [&str; 3] = ["worker", "leases", "lifecycle"];
const OF_WORKERS_MIN: usize = 30;
const OTHERS: [&str; 7] = ["insert", "errors", "tasks", "operations", "engine", "examples", "package"];
const OTHERS_MIN: usize = 53;
const ON_SERVERS: [&str; 4] = ["insert", "tasks", "worker", "leases"];
const ON_SERVERS_MIN: usize = 46;

fn clients() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients"))
}

/// A command of Node, in this directory, for this program.
fn node(directory: &Path) -> Command {
    let mut node = Command::new("node");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
        node.env_remove(name);
    }
    node.current_dir(directory).env("PUNCTUAL_BIN", env!("CARGO_BIN_EXE_punctual"));
    node
}

/// Copies what belongs to the SDK, and not what a build leaves beside it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if ["node_modules", "dist", "build"].iter().any(|made| name == *made) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(name));
        } else {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// The SDK and its tests, compiled below target: the compiler looks for packages in the directories above.
fn compiled() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript_sdk");
        drop(fs::remove_dir_all(&root));
        let directory = root.join("typescript");
        copy(&clients().join("typescript"), &directory);
        fs::copy(clients().join("conformance.md"), root.join("conformance.md")).unwrap();
        symlink(tools().join("node_modules"), directory.join("node_modules")).unwrap();
        for project in ["tsconfig.json", "tsconfig.tests.json"] {
            let mut compiler = node(&directory);
            let compiled =
                compiler.args(["node_modules/typescript/bin/tsc", "-p", project]).output().unwrap();
            assert!(compiled.status.success(), "{}{}", stdout(&compiled), stderr(&compiled));
        }
        directory
    })
}

/// `node --test` of these files.
fn tests(names: &[&str]) -> Command {
    let mut tests = node(compiled());
    tests.args(["--test", "--test-reporter=tap"]);
    tests.args(names.iter().map(|name| format!("build/tests/{name}.test.js")));
    tests
}

/// The last lines: `# pass 12`, `# fail 0`, and of the others none too.
fn passed(run: &mut Command, least: usize) {
    let ended = ended_in(run, 10 * punctual_testkit::patience::HANG_LIMIT);
    let said = stdout(&ended);
    assert!(ended.status.success(), "{said}{}", stderr(&ended));
    let count = |what: &str| -> Option<usize> {
        said.lines().rev().find_map(|line| line.strip_prefix("# ")?.strip_prefix(what)?.trim().parse().ok())
    };
    let not_run = ["fail ", "cancelled ", "skipped ", "todo "].map(count);
    assert_eq!(not_run, [Some(0); 4], "{said}");
    let passed = count("pass ");
    assert!(passed >= Some(least), "{passed:?}: at least {least} pass, and none is left out");
}

#[test]
fn workers_pass() {
    passed(&mut tests(&OF_WORKERS), OF_WORKERS_MIN);
}

#[test]
fn all_others_pass() {
    passed(&mut tests(&OTHERS), OTHERS_MIN);
}

#[test]
fn tasks_and_workers_do_the_same_on_mysql_and_redis() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    assert!(punctual(&["migrate"]).env("PUNCTUAL_STORE_URL", &store).output().unwrap().status.success());
    let mut run = tests(&ON_SERVERS);
    passed(run.env("PUNCTUAL_STORE_URL", &store).env("PUNCTUAL_HOT_URL", redis.url()), ON_SERVERS_MIN);
}

#[test]
fn every_file_of_tests_is_in_a_run() {
    let names = fs::read_dir(clients().join("typescript/tests")).unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().unwrap().strip_suffix(".test.ts").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    let mut run = [OF_WORKERS.as_slice(), &OTHERS].concat();
    run.sort_unstable();
    assert_eq!(names, run);
}

#[test]
fn the_packages_of_the_tests_are_those_that_are_installed() {
    let manifest = |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let pinned = manifest(clients().join("../scripts/clients/package.json"));
    let named = manifest(clients().join("typescript/package.json"));
    let named = named["devDependencies"].as_object().unwrap();
    assert!(named.len() >= 2);
    for (package, version) in named {
        assert_eq!(&pinned["devDependencies"][package], version, "{package}");
    }
}
