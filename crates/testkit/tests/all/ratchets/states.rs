//! What `docs/state-machine.md` and the API say of states and stages is what the code has. The diagram is looked at by `domain`.

use super::tree::root;
use punctual_domain::state::{Phase, State};
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The cells of the rows below a heading.
fn rows<'a>(heading: &str, page: &'a str) -> Vec<Vec<&'a str>> {
    let (_, section) = page.split_once(heading).expect("the page has the heading");
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &'a str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    section.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

#[test]
fn each_state_has_its_words() {
    let page = read("docs/state-machine.md");
    let rows = rows("## One state, four vocabularies", &page);
    let mut states: Vec<&str> = rows.iter().map(|cells| cells[0].trim_matches('`')).collect();
    let mut expected: Vec<&str> = State::ALL.iter().map(|state| state.word()).collect();
    states.sort_unstable();
    expected.sort_unstable();
    assert_eq!(states, expected);
    for cells in &rows {
        let state = State::from_word(cells[0].trim_matches('`')).unwrap();
        assert_eq!((cells.len(), cells[2]), (5, state.phase().word()), "{state:?}");
    }
    for (column, words) in [
        (3, &["DISPATCHING", "DISPATCHED", "DISPATCH_FAILED"][..]),
        (4, &["SCHEDULED", "READY", "DISPATCHED", "RUNNING", "SUCCEEDED", "RETRY", "DEADLETTER"][..]),
    ] {
        let has = |word: &&&str| {
            rows.iter().any(|cells| cells[column].split(['.', ';', ' ']).any(|part| part == **word))
        };
        let missing: Vec<_> = words.iter().filter(|word| !has(word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// The variants of an enum, as its source has them.
fn variants<'a>(name: &str, source: &'a str) -> Vec<&'a str> {
    let (_, body) = source.split_once(&format!("enum {name} {{\n")).expect("it is there");
    let body = body.split("\n}").next().unwrap();
    let is_variant = |line: &&str| line.starts_with(|letter: char| letter.is_ascii_uppercase());
    let word = |line: &'a str| line.split([' ', ',']).next().unwrap_or(line);
    body.lines().map(str::trim).filter(is_variant).map(word).collect()
}

#[test]
fn each_stage_of_the_live_table_is_on_the_page() {
    let (page, source) = (read("docs/state-machine.md"), read("crates/engine/src/live/stage.rs"));
    let named: Vec<&str> = rows("## The live table's stages", &page).iter().map(|cells| cells[0]).collect();
    let is_named = |variant: &&str| named.iter().any(|cell| cell.contains(&format!("`{variant}`")));
    let mut found = 0;
    for name in ["Stage", "Gate", "HolderReport"] {
        let missing: Vec<&str> =
            variants(name, &source).into_iter().filter(|variant| !is_named(variant)).collect();
        assert_eq!(missing, [""; 0], "{name}");
        found += variants(name, &source).len();
    }
    let quoted = named.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let unknown: Vec<&str> = quoted.filter(|word| !source.contains(&format!("    {word}"))).collect();
    assert_eq!((unknown, found), (vec![], 18));
    assert_eq!(variants("A", "enum A {\n    /// No `B`.\n    B,\n    C { d: bool },\n}\n"), ["B", "C"]);
}

#[test]
fn the_api_says_what_each_phase_stands_for() {
    let source = read("crates/protocol/src/task.rs");
    let (before, _) = source.split_once("pub enum Phase").unwrap();
    let said: String = before
        .lines()
        .rev()
        .skip(2)
        .take_while(|line| line.starts_with("///"))
        .fold(String::new(), |said, line| format!("{} {said}", line.trim_start_matches("///").trim()));
    for phase in [Phase::Pending, Phase::Processing, Phase::Success, Phase::Failed, Phase::Stopped] {
        let states = State::ALL.iter().filter(|state| state.phase() == phase);
        let mut expected: Vec<&str> = states.map(|state| state.word()).collect();
        let (_, rest) = said.split_once(&format!("`{}` for ", phase.word())).unwrap_or_default();
        let mut found: Vec<&str> = rest.split([';', '.']).next().unwrap_or_default().split(", ").collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{phase:?}: {said}");
    }
}
