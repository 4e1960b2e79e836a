//! The examples of `examples/inbox`, as a reader runs them: each opens a transaction of its own in the user's database, commits
//! one order with its task, and rolls one back. What they need is installed by `scripts/install-clients`.
//!
//! Seen to fail: with an example that inserts outside its transaction.

use crate::{
    binary::{Running, Server, address, blocking, documents, punctual, stderr, stdout, wait_for},
    clients::tools,
};
use punctual_testkit::servers;
use std::{collections::BTreeSet, fs, path::Path, process::Command};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inbox");

/// The page that shows them.
const PAGE: &str = include_str!("../../../../docs/inbox.md");

fn files() -> BTreeSet<String> {
    fs::read_dir(EXAMPLES).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn program(file: &str, directory: &Path) -> Command {
    // Node looks for packages beside the file.
    let at = directory.join(file);
    fs::copy(Path::new(EXAMPLES).join(file), &at).unwrap();
    let python = tools().join("venv/bin/python");
    let mut program = if file.ends_with(".py") { Command::new(python) } else { Command::new("node") };
    program.arg(at);
    program
}

fn keys_of_tasks(url: &str) -> BTreeSet<String> {
    let listed = punctual(&["task", "list", "--queue", "mail", "--json", "--url", url]).output().unwrap();
    let tasks = documents(&listed).remove(0);
    let keys = tasks["items"].as_array().unwrap().iter();
    keys.map(|task| task["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_commits_an_order_with_a_task_and_rolls_one_back() {
    let user = blocking(servers::mariadb());
    let url = blocking(user.fresh_database());
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let installed = punctual(&["inbox", "install", "--url", &url]).output().unwrap();
    assert!(installed.status.success(), "{}", stderr(&installed));
    blocking(
        user.sql(database, "CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY, state VARCHAR(16) NOT NULL)"),
    );
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(tools().join("node_modules"), directory.path().join("node_modules")).unwrap();
    let files = files();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in &files {
        let ran = program(file, directory.path()).env("DATABASE_URL", &url).output().unwrap();
        assert!(ran.status.success(), "{file}: {}", stderr(&ran));
        assert_eq!(stdout(&ran), "rolled back: the card was refused\n", "{file}");
    }
    let data = directory.path().join("data");
    let mut serve = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--inbox", &url]);
    let mut process = Running::start(serve.env("PUNCTUAL_DATA", &data));
    let url = address(&process.first_line());
    let server = Server { process, url };
    let committed = files.iter().map(|file| format!("order-{}-1", file.split_once('_').unwrap().0)).collect();
    wait_for("the tasks", || (keys_of_tasks(&server.url) == committed).then_some(()));
    let left = blocking(user.sql(database, "SELECT COUNT(*) FROM punctual_inbox"));
    assert_eq!(left.trim(), "0");
    let orders = blocking(user.sql(database, "SELECT id FROM orders ORDER BY id"));
    assert_eq!(orders.trim().lines().count(), 4, "{orders}");
}

#[test]
fn the_page_names_them_all() {
    for file in files() {
        assert!(PAGE.contains(&file), "{file}");
    }
}
