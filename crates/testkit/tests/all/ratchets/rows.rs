//! `docs/consistency-tests.md` against the tests: what a row names exists, what kills or cuts something has a row, and no row
//! goes without a reason. Must never judge what a row says.

use super::tree::{File, RUST, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    process::Command,
    sync::Mutex,
};

const PAGE: &str = "docs/consistency-tests.md";
/// Which rows each file of tests covers. The test writes this file.
const INDEX: &str = "crates/testkit/tests/all/ratchets/rows.txt";
const LAST_RUN: &str = "## Last run of the promises\n";
/// Its rows are no steps: they name tests of many modules, and stand for no row of a crash.
const PROMISE: &str = "promise-";
/// What `cargo test` printed, for the last run.
const RESULTS: &str = "PUNCTUAL_TEST_RESULTS";
const GONE: &str = "## Rows that went\n";
const TESTS_OF_TESTKIT: &str = "crates/testkit/tests/all/";
const SUITES: &str = "crates/testkit/src/conformance/";

/// Each row that was ever on the page. One that is new is added here; one that goes stays here, and says on the page why it went.
const ROWS: [(&str, &str); 29] = [
    ("promise", "1 2 3 4 5 6 7 8 9 10 11"),
    ("path", "1 2 2a 3 4 4a 4b 5 5a 5b 6 6a 7 7a 7b 8 9 10"),
    ("ahead", "1 2 3 4 5 6 7 8 9 10 11 12 13"),
    ("limit", "1 2 3 4 5 6 7 8 9"),
    ("scan", "1 2 3 4 5 6 7"),
    ("journal", "1 2 3 4 5 6 7 8 9"),
    ("away", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"),
    ("object", "1 2 3 4 5 6 7 8 9"),
    ("pause", "1 2 3"),
    ("misc", "1 2 3 4 5 6 7 8 9"),
    ("schedule", "1 2 3 4 5 6 7 8 9"),
    ("take-back", "1 2 3 4 5"),
    ("workflow", "0 1 1a 1b 2 3 4 5 6 7 8 9 10"),
    ("bulk", "1 2 3 4 5 6 7 8 9 10"),
    ("evaluation", "1 2 3 4 5 6 7 8 9 10"),
    ("label", "1 2 3 4"),
    ("chunk", "1 2 3 4 5"),
    ("server", "1 2 3 4 5 6"),
    ("part", "1 2 3 4 5 6 7 8 9 10"),
    ("database", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"),
    ("silence", "1 2 3 4 5 6 7 8 9 10 11"),
    ("redis", "1 2 3 4 5 6 7 8 9"),
    ("bucket", "1 2 3 4 5 6 7 8 9"),
    ("namespace", "1 2 3 4 5 6 7 8"),
    ("clock", "1 2 3 4 5 6"),
    ("order", "1 2 3 4 5 6 7 8 9 10 11"),
    ("source", "1 2 3 4 5 6 7 8 9"),
    ("shared", "1 2 3"),
    ("webhook", "1 2 3 4 5 6"),
];

/// Modules of testkit whose tests all kill, cut, freeze or lose something: each has a row.
const CRASH_MODULES: [&str; 26] = [
    "admission_crashes",
    "ahead",
    "bulk::crashing",
    "bus_away",
    "clocks",
    "crash_points",
    "databases",
    "evaluations",
    "for_later",
    "from_store",
    "large::crashing",
    "late_commits",
    "limits_failover",
    "limits_fresh",
    "limits_lost",
    "lost_signals",
    "mysql_moving::crashing",
    "mysql_read_only",
    "outages",
    "parts_fail",
    "pausing",
    "room",
    "schedules::crashing",
    "unanswered",
    "webhooks::crashing",
    "workflows::crashing",
];

/// A test, as it is run: crate, modules and name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Test {
    package: String,
    path: Vec<String>,
    file: String,
}

/// A row of the page.
#[derive(Debug, PartialEq, Eq)]
struct RatchetRow<'a> {
    id: &'a str,
    tests: Vec<&'a str>,
    /// Why it has no test.
    reason: Option<&'a str>,
}

/// "path-4a" is one; "step" is none.
fn is_id(word: &str) -> bool {
    word.rsplit_once('-').is_some_and(|(section, number)| {
        section.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
            && number.starts_with(|letter: char| letter.is_ascii_digit())
            && number.len() <= 3
    })
}

/// A line of a list: `- id step – tests`.
fn row(line: &str) -> Option<RatchetRow<'_>> {
    let (id, rest) = line.trim_end().strip_prefix("- ")?.split_once(' ')?;
    let last = rest.rsplit("– ").next()?;
    let tests = last.split('`').skip(1).step_by(2).collect();
    is_id(id).then(|| RatchetRow { id, tests, reason: last.strip_prefix("none: ") })
}

fn rows(page: &str) -> Vec<RatchetRow<'_>> {
    page.lines().filter_map(row).collect()
}

/// The part of the page under a heading, without what a test writes.
fn below<'a>(heading: &str, page: &'a str) -> &'a str {
    let (_, rest) = page.split_once(heading).expect("the page has the heading");
    rest.split("\n## ").next().unwrap_or(rest)
}

/// What the page says, without what is written by the test and without the lists of what went.
fn table(page: &str) -> &str {
    page.split(LAST_RUN).next().unwrap().split(GONE).next().unwrap()
}

/// `fits("a_…_c", "a_b_c")`
fn fits(pattern: &str, word: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = word.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// `module::name`: the modules in this order, others between and behind them.
fn names(reference: &str, test: &Test) -> bool {
    let (package, path) = reference.split_once(": ").unwrap_or(("testkit", reference));
    let mut wanted = path.split("::");
    let begins = wanted.next().zip(test.path.first()).is_some_and(|(first, module)| fits(first, module));
    let mut rest = test.path.iter().skip(1);
    package == test.package && begins && wanted.all(|part| rest.any(|segment| fits(part, segment)))
}

/// What this binary would run. Cases of suites are named by their back ends there, so they are looked for in their files too.
fn tests_of_testkit() -> Vec<Test> {
    let listed = Command::new(env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let path =
        |line: &str| line.strip_suffix(": test").map(|name| name.split("::").map(str::to_owned).collect());
    let test = |path: Vec<String>| Test { package: "testkit".to_owned(), file: file_of(&path), path };
    listed.lines().filter_map(path).map(test).collect()
}

/// The file of the innermost module that is one.
fn file_of(path: &[String]) -> String {
    let files =
        (1..path.len()).rev().map(|length| format!("{TESTS_OF_TESTKIT}{}.rs", path[..length].join("/")));
    files.into_iter().find(|file| root().join(file).exists()).unwrap_or_default()
}

/// Names of functions behind `before`, and whether the line before them ends in `mark`.
fn functions(text: &str, is_test: impl Fn(&str, &str) -> bool) -> Vec<&str> {
    let (mut found, mut attribute) = (Vec::new(), "");
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("#[") {
            attribute = if is_test(code, "") { code } else { attribute };
        } else if let Some((head, rest)) = code.split_once("fn ") {
            if is_test(attribute, head) && !head.contains('/') {
                found.push(rest.split(['(', '<']).next().unwrap_or(rest));
            }
            attribute = "";
        }
    }
    found
}

/// Modules of a file, from the root of its crate or of its test binary.
fn modules(path: &str) -> Vec<String> {
    let inner = path.splitn(3, '/').nth(2).unwrap_or(path);
    let inner =
        ["src/", "tests/all/", "tests/"].iter().find_map(|top| inner.strip_prefix(top)).unwrap_or(inner);
    inner.trim_end_matches(".rs").split('/').map(str::to_owned).collect()
}

fn tests_in(file: &File) -> Vec<Test> {
    let package = file.path.split('/').nth(1).unwrap_or_default().to_owned();
    let is_suite = file.path.starts_with(SUITES);
    let is_test = |attribute: &str, head: &str| {
        if is_suite {
            head == "pub async "
        } else {
            attribute.contains("test]") || attribute.contains("::test(")
        }
    };
    let mut path = modules(&file.path);
    if is_suite {
        path = vec!["conformance".to_owned(), path.pop().unwrap_or_default()];
    }
    let test = |name: &str| {
        let path = path.iter().cloned().chain([name.to_owned()]).collect();
        Test { package: package.clone(), path, file: file.path.clone() }
    };
    functions(&file.text, is_test).into_iter().map(test).collect()
}

fn tests() -> Vec<Test> {
    let is_looked_at = |file: &File| {
        let is_suite = file.path.starts_with(SUITES);
        file.path.starts_with("crates/") && (is_suite || !file.path.starts_with("crates/testkit/"))
    };
    let others = RUST.iter().filter(|(file, _)| is_looked_at(file)).flat_map(|(file, _)| tests_in(file));
    tests_of_testkit().into_iter().chain(others).collect()
}

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).unwrap()
}

fn unknown<'a>(rows: &[RatchetRow<'a>], tests: &[Test]) -> Vec<(String, &'a str)> {
    let of =
        |row: &RatchetRow<'a>| row.tests.iter().map(|name| (row.id.to_owned(), *name)).collect::<Vec<_>>();
    let is_unknown = |(_, name): &(String, &str)| !tests.iter().any(|test| names(name, test));
    rows.iter().flat_map(of).filter(is_unknown).collect()
}

#[test]
fn each_test_that_a_row_names_exists() {
    let (page, tests) = (page(), tests());
    let rows = rows(table(&page));
    assert!(rows.len() > 150, "{}", rows.len());
    let missing = unknown(&rows, &tests);
    assert!(missing.is_empty(), "{missing:?}");
    let bare: Vec<&str> = rows
        .iter()
        .filter(|row| row.tests.is_empty() == row.reason.is_none_or(|reason| reason.len() < 10))
        .map(|row| row.id)
        .collect();
    assert_eq!(bare, [""; 0], "each row has a test, or says why it has none");
    let made_up =
        "- path-1 `a` – `crash_points::no_such_…`, `crash_points::after_the_drain_…`, `cli: clocks::nothing`";
    let wrong = ["crash_points::no_such_…", "cli: clocks::nothing"];
    let found: Vec<&str> = unknown(&self::rows(made_up), &tests).into_iter().map(|(_, name)| name).collect();
    assert_eq!(found, wrong);
}

#[test]
fn each_test_of_a_crash_has_a_row() {
    let (page, tests) = (page(), tests());
    let rows = rows(table(&page));
    let is_in = |module: &str, test: &Test| {
        let path = test.path.join("::");
        path.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
    };
    for module in CRASH_MODULES {
        assert!(tests.iter().any(|test| is_in(module, test)), "{module} has no test");
    }
    let is_step = |row: &&RatchetRow<'_>| !row.id.starts_with(PROMISE);
    let is_named =
        |test: &&Test| rows.iter().filter(is_step).flat_map(|row| &row.tests).any(|name| names(name, test));
    let crashes = tests
        .iter()
        .filter(|test| test.package == "testkit" && CRASH_MODULES.iter().any(|module| is_in(module, test)));
    let bare: Vec<String> = crashes.filter(|test| !is_named(test)).map(|test| test.path.join("::")).collect();
    assert_eq!(bare, [""; 0]);
}

/// Ids that are noted and not on the page, ids that are there and not noted, and ids that stand twice.
fn differences(noted: &[(&str, &str)], ids: &[&str]) -> Vec<String> {
    let noted: BTreeSet<String> = noted
        .iter()
        .flat_map(|(section, numbers)| numbers.split(' ').map(move |number| format!("{section}-{number}")))
        .collect();
    let there: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let gone = noted.difference(&there).map(|id| format!("{id} went: say why under \"Rows that went\""));
    let new = there.difference(&noted).map(|id| format!("{id} is new: note it"));
    let twice = (there.len() < ids.len()).then(|| "an id stands twice".to_owned());
    gone.chain(new).chain(twice).collect()
}

#[test]
fn no_row_goes_without_a_reason() {
    let page = page();
    let gone = rows(below(GONE, &page));
    let ids: Vec<&str> = rows(table(&page)).iter().chain(&gone).map(|row| row.id).collect();
    assert_eq!(differences(&ROWS, &ids), [""; 0]);
    let noted = [("a", "1 2"), ("b", "1")];
    let wrong = differences(&noted, &["a-1", "b-1", "b-2", "b-1"]);
    let said = ["a-2 went: say why under \"Rows that went\"", "b-2 is new: note it", "an id stands twice"];
    assert_eq!(wrong, said);
}

/// Which rows the tests of each file show.
fn written(rows: &[RatchetRow<'_>], tests: &[Test]) -> String {
    let mut of_files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.id.starts_with(PROMISE)) {
        let named = |test: &&Test| row.tests.iter().any(|name| names(name, test));
        let files: BTreeSet<&str> = tests.iter().filter(named).map(|test| test.file.as_str()).collect();
        files.into_iter().for_each(|file| of_files.entry(file).or_default().push(row.id));
    }
    let lines = of_files.iter().map(|(file, ids)| format!("{file}: {}\n", by_section(ids)));
    lines.collect()
}

/// `path-1`, `path-4a` and `misc-2` as `path-1,4a misc-2`.
fn by_section(ids: &[&str]) -> String {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for (section, number) in ids.iter().filter_map(|id| id.rsplit_once('-')) {
        match sections.iter_mut().find(|(known, _)| *known == section) {
            Some((_, numbers)) => numbers.push(number),
            None => sections.push((section, vec![number])),
        }
    }
    let words = sections.iter().map(|(section, numbers)| format!("{section}-{}", numbers.join(",")));
    words.collect::<Vec<_>>().join(" ")
}

/// `UPDATE_EXPECT=1 cargo test -p punctual-testkit --test all -- ratchets::rows` writes the list anew; otherwise a stale one fails.
#[test]
fn the_list_of_files_is_current() {
    let _written = PAGE_LOCK.lock();
    let page = page();
    let wanted = written(&rows(table(&page)), &tests());
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(root().join(INDEX), &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(root().join(INDEX)).unwrap(), wanted, "run with UPDATE_EXPECT=1");
}

/// Two tests may write the page.
static PAGE_LOCK: Mutex<()> = Mutex::new(());
const NO_RUN: &str = " unrecorded";

/// Of each promise: how many of its tests passed and failed in a run, from the lines that `cargo test` prints.
fn last_run(rows: &[RatchetRow<'_>], results: &str) -> String {
    let result = |line: &str| {
        let (name, result) = line.trim().strip_prefix("test ")?.split_once(" ... ")?;
        let path = name.split("::").map(str::to_owned).collect::<Vec<_>>();
        ["ok", "FAILED"].contains(&result).then(|| (path, result == "ok"))
    };
    let results: Vec<(Vec<String>, bool)> = results.lines().filter_map(result).collect();
    let count = |row: &RatchetRow<'_>, wanted: bool| {
        let is_of_row = |path: &Vec<String>| {
            row.tests.iter().any(|reference| {
                let package = reference.split_once(": ").map_or("testkit", |(package, _)| package);
                let (package, file) = (package.to_owned(), String::new());
                names(reference, &Test { package, path: path.clone(), file })
            })
        };
        results.iter().filter(|(path, is_ok)| *is_ok == wanted && is_of_row(path)).count()
    };
    let promises = rows.iter().filter(|row| row.id.starts_with(PROMISE));
    promises
        .map(|row| format!("{} {} passed, {} failed\n", row.id, count(row, true), count(row, false)))
        .collect()
}

/// `UPDATE_EXPECT=1 PUNCTUAL_TEST_RESULTS=FILE cargo test -p punctual-testkit --test all -- ratchets::rows`, with a file of what
/// `cargo test` printed, writes the last run anew.
#[test]
fn the_last_run_has_each_promise_and_no_failure() {
    let _written = PAGE_LOCK.lock();
    let page = page();
    let rows = rows(table(&page));
    if let Some(file) = env::var_os(RESULTS).filter(|_| env::var_os("UPDATE_EXPECT").is_some()) {
        let results = fs::read_to_string(file).unwrap();
        let (before, rest) = page.split_once(LAST_RUN).unwrap();
        let (head, block) = rest.split_once("```text\n").unwrap();
        let (_, after) = block.split_once("```").unwrap();
        let lines = last_run(&rows, &results);
        fs::write(root().join(PAGE), format!("{before}{LAST_RUN}{head}```text\n{lines}```{after}")).unwrap();
    }
    let page = self::page();
    let lines: Vec<&str> = below(LAST_RUN, &page).lines().filter(|line| line.starts_with(PROMISE)).collect();
    let ids = rows.iter().map(|row| row.id).filter(|id| id.starts_with(PROMISE));
    assert_eq!(
        lines.iter().filter_map(|line| line.split(' ').next()).collect::<Vec<_>>(),
        ids.collect::<Vec<_>>()
    );
    let is_good = |line: &str| line.ends_with(" passed, 0 failed") && !line.contains(" 0 passed");
    let bad = |line: &&&str| !is_good(line) && !line.ends_with(NO_RUN);
    assert_eq!(lines.iter().filter(bad).collect::<Vec<_>>(), [&""; 0]);
    let made_up = self::rows("- promise-1 kept – `a::…`\n- path-1 b – `b::…`");
    let results = "test a::b ... ok\ntest a::c ... FAILED\ntest b::a ... ok\n";
    assert_eq!(last_run(&made_up, results), "promise-1 1 passed, 1 failed\n");
}

#[test]
fn a_pattern_fits_what_it_leaves_open() {
    assert_eq!(by_section(&["path-1", "take-back-2", "path-4a"]), "path-1,4a take-back-2");
    for (pattern, word, expected) in [
        ("after_…", "after_the_load", true),
        ("…_load", "after_the_load", true),
        ("a…e…d", "after_the_load", true),
        ("…", "anything", true),
        ("after", "after_the_load", false),
        ("…_drain…", "after_the_load", false),
        ("after_…_drain", "after_the_load", false),
    ] {
        assert_eq!(fits(pattern, word), expected, "{pattern} {word}");
    }
    let test = Test {
        package: "testkit".to_owned(),
        path: ["large", "sqlite", "a_task"].map(str::to_owned).to_vec(),
        file: String::new(),
    };
    assert!(names("large::a_…", &test) && names("large::…", &test));
    assert!(
        !names("sqlite::a_task", &test) && !names("cli: large::a_task", &test) && !names("large::b", &test)
    );
}
