//! The shape of files, and what they must not contain. The words looked for are put together here from halves, so
//! that this file does not find itself.

use super::tree::{File, all, root};
use std::fs;

const LINES_MAX: usize = 600;
/// Files that are longer. The list only ever gets shorter: one that has shrunk must leave it.
const LONGER: [&str; 0] = [];

/// Files under `tests` that may sleep, and why that is no waiting for something to have happened.
const MAY_SLEEP: [(&str, &str); 5] = [
    (
        "crates/sdk/tests/all/worker.rs",
        "time stands still there and jumps: a sleep is an instant of virtual time",
    ),
    (
        "crates/testkit/tests/all/outages/site.rs",
        "real engines on two cores: who asks again and again must leave them the processor",
    ),
    (
        "crates/testkit/tests/all/databases/site.rs",
        "real engines on two cores: who asks again and again must leave them the processor",
    ),
    (
        "crates/testkit/tests/all/limits/storm.rs",
        "a handler takes its time: more executors work at one instant than there are slots",
    ),
    (
        "crates/testkit/tests/all/databases/changes.rs",
        "connections are cut at an interval while changes are asked for: that is what is tested",
    ),
];

/// Crates with more than one binary of integration tests: each one more is linked, run and waited for.
const MORE_TEST_BINARIES: [(&str, usize); 0] = [];

const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Applies a rule to the whole tree.
fn nowhere(rule: impl Fn(&File) -> Vec<String>) {
    let found: Vec<String> = all().iter().flat_map(rule).collect();
    assert!(found.is_empty(), "{found:#?}");
}

fn lines_with<'a>(file: &'a File, bad: impl Fn(&str) -> bool + 'a) -> Vec<String> {
    let numbered = (1..).zip(file.text.lines()).filter(|(_, line)| bad(line));
    numbered.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

fn says_nothing_at_its_top(file: &File) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    let says = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 5);
    if file.is_rust() && !says {
        vec![format!("{} says at its top not what it is for", file.path)]
    } else {
        vec![]
    }
}

#[test]
fn every_file_says_at_its_top_what_it_is_for() {
    nowhere(says_nothing_at_its_top);
    for bad in ["", "use a;\n", "//!\n", "//! x\n", "\n//! What it is for.\n"] {
        assert_eq!(says_nothing_at_its_top(&File::new("a.rs", bad)).len(), 1, "{bad:?}");
    }
}

/// A statement in a string literal. SQL lives in files of its own, that run by hand.
fn has_sql(file: &File) -> Vec<String> {
    if !file.is_rust() || !file.is_product() {
        return vec![];
    }
    let product: usize = file.product_lines().count();
    let found = (1..).zip(file.text.lines().take(product)).filter(|(_, line)| is_sql(line));
    found.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

fn is_sql(line: &str) -> bool {
    let line = line.trim();
    let quoted = line.contains('"') && !line.starts_with("//");
    let update = line.split_once("UPDATE ").is_some_and(|(_, rest)| rest.contains(" SET"));
    quoted && (update || ["SELECT ", "INSERT INTO", "DELETE FROM"].iter().any(|name| line.contains(name)))
}

#[test]
fn no_statement_is_written_in_a_string() {
    nowhere(|file| if file.path.starts_with("crates/") { has_sql(file) } else { vec![] });
    for bad in ["SELECT 1", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t"] {
        let text = format!("//! Top.\nlet it = \"{bad}\";\n");
        assert_eq!(has_sql(&File::new("crates/a/src/b.rs", &text)).len(), 1, "{bad}");
        let tests = format!("mod tests {{\n{text}}}\n");
        assert_eq!(has_sql(&File::new("crates/a/src/b.rs", &tests)).len(), 0, "a test may");
    }
    assert!(!is_sql("// SELECT is a \"word\""));
}

fn names_a_machine(file: &File) -> Vec<String> {
    lines_with(file, |line| MACHINE_PATHS.iter().any(|machine_path| line.contains(machine_path)))
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    nowhere(names_a_machine);
    for path in MACHINE_PATHS {
        assert_eq!(names_a_machine(&File::new("a.md", &format!("see {path}x"))).len(), 1, "{path}");
    }
}

fn is_too_long(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let listed = LONGER.contains(&file.path.as_str());
    match (file.is_rust() && lines > LINES_MAX, listed) {
        (true, false) => vec![format!("{} has {lines} lines, more than {LINES_MAX}", file.path)],
        (false, true) => vec![format!("{} has {lines} lines and must leave the list", file.path)],
        _ => vec![],
    }
}

#[test]
fn files_stay_short_and_long_ones_only_get_shorter() {
    nowhere(is_too_long);
    for path in LONGER {
        assert!(root().join(path).exists(), "{path} must leave the list");
    }
    assert_eq!(is_too_long(&File::new("a.rs", &"x\n".repeat(LINES_MAX + 1))).len(), 1);
    assert_eq!(is_too_long(&File::new("a.rs", &"x\n".repeat(LINES_MAX))).len(), 0);
}

fn is_not_there_with_tests(file: &File) -> Vec<String> {
    let is_rust = file.is_rust();
    lines_with(file, move |line| is_rust && line.contains(concat!("cfg(not(", "test")))
}

/// Crates are linted where they are compiled with their tests (scripts/compile).
#[test]
fn all_code_is_there_with_tests() {
    nowhere(is_not_there_with_tests);
    let code = concat!("#[cfg(not(", "test))]");
    assert_eq!(is_not_there_with_tests(&File::new("a.rs", code)).len(), 1);
}

fn ignores_a_test(file: &File) -> Vec<String> {
    let is_rust = file.is_rust();
    lines_with(file, move |line| is_rust && line.trim().starts_with(concat!("#[ign", "ore")))
}

#[test]
fn no_test_is_ignored() {
    nowhere(ignores_a_test);
    assert_eq!(ignores_a_test(&File::new("a.rs", concat!("    #[ign", "ore = \"slow\"]"))).len(), 1);
}

fn sleeps(file: &File) -> Vec<String> {
    let looked_at = file.is_rust() && file.path.contains("/tests/");
    lines_with(file, move |line| looked_at && line.contains(concat!("sle", "ep(")))
}

#[test]
fn tests_wait_for_signals_not_for_time_to_pass() {
    nowhere(|file| if MAY_SLEEP.iter().any(|(path, _)| *path == file.path) { vec![] } else { sleeps(file) });
    assert_eq!(sleeps(&File::new("crates/a/tests/b.rs", concat!("sle", "ep(x).await"))).len(), 1);
    for (path, _) in MAY_SLEEP {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(!sleeps(&File::new(path, &text)).is_empty(), "{path} must leave the list");
    }
}

/// The integration-test binary that a file makes, if it makes one: `tests/x.rs` and `tests/x/main.rs`.
fn test_binary_of(file: &File) -> Option<&str> {
    let (krate, rest) = file.path.strip_prefix("crates/")?.split_once('/')?;
    let rest = rest.strip_prefix("tests/")?;
    let is_root = !rest.contains('/') || (rest.matches('/').count() == 1 && rest.ends_with("/main.rs"));
    (is_root && file.is_rust()).then_some(krate)
}

#[test]
fn each_crate_has_one_binary_of_integration_tests() {
    let files = all();
    let roots: Vec<&str> = files.iter().filter_map(test_binary_of).collect();
    assert!(roots.contains(&"testkit"), "this one is seen");
    for krate in &roots {
        let count = roots.iter().filter(|root| *root == krate).count();
        let most = MORE_TEST_BINARIES.iter().find(|(text, _)| text == krate).map_or(1, |(_, most)| *most);
        assert!(count <= most, "{krate} has {count}");
    }
    assert_eq!(test_binary_of(&File::new("crates/a/tests/b/main.rs", "")), Some("a"));
    assert_eq!(test_binary_of(&File::new("crates/a/tests/b/c.rs", "")), None);
}
