//! What CONTRIBUTING.md names exists: each path, each crate, command and variable too.

use super::tree::{all, root};
use std::fs;

/// Where a path of ours begins.
const TOP: [&str; 7] = ["crates/", "deploy/", "docs/", "migrations/", "scripts/", "benches/", "loadtest/"];

fn guide() -> String {
    fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap()
}

/// What stands between backticks, in blocks of commands, and as the target of a link.
fn words(page: &str) -> Vec<&str> {
    let ends = |letter: char| letter.is_whitespace() || "`()[],;\"'".contains(letter);
    page.split(ends).map(|word| word.trim_end_matches(['.', ':'])).filter(|word| !word.is_empty()).collect()
}

/// Paths from the root of the workspace, without what stands for a name of the reader's own (`NAME`, `…`).
fn paths(page: &str) -> Vec<&str> {
    let top = |word: &&str| TOP.iter().any(|top| word.starts_with(top)) || is_at_the_root(word);
    let mut found: Vec<&str> = words(page).into_iter().filter(top).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_at_the_root(word: &str) -> bool {
    !word.contains('/') && [".md", ".toml", ".lock"].iter().any(|end| word.ends_with(end))
}

/// A path up to the first part that stands for something of the reader's own.
fn known_part(path: &str) -> &str {
    let own = |part: &str| part.contains('…') || part.contains("NAME");
    let parts = path.split_inclusive('/').take_while(|part| !own(part));
    let length = parts.map(str::len).sum();
    &path[..length]
}

fn missing(page: &str) -> Vec<&str> {
    paths(page).into_iter().filter(|path| !root().join(known_part(path)).exists()).collect()
}

#[test]
fn each_path_of_the_guide_exists() {
    let guide = guide();
    assert!(paths(&guide).len() > 20, "{:?}", paths(&guide));
    assert_eq!(missing(&guide), [""; 0]);
    let page = "See `crates/nothing/src/lib.rs`, [this](docs/nothing.md), `NOTHING.md`, `crates/store/sql/mysql/…` and `scripts/test`:\n    scripts/nothing a";
    let wrong = ["NOTHING.md", "crates/nothing/src/lib.rs", "docs/nothing.md", "scripts/nothing"];
    assert_eq!(missing(page), wrong);
}

/// `NAME` of each `` `NAME` `` that is written as a constant, a macro or a function of ours.
fn names(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_name = |word: &str| {
        let constant =
            word.len() > 3 && word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
        let path = word.contains("::") || word.ends_with('!');
        let plain = word.chars().all(|letter| letter.is_alphanumeric() || "_:!".contains(letter));
        (constant || path) && plain && word.is_ascii()
    };
    quoted.filter(|word| is_name(word)).collect()
}

/// The last part of the name of a thing, as it is declared.
fn is_declared(name: &str, sources: &str) -> bool {
    let last = name.trim_end_matches("::").rsplit("::").next().unwrap().trim_end_matches('!');
    let before = ["const ", "static ", "fn ", "struct ", "enum ", "trait ", "mod ", "macro_rules! "];
    before.iter().any(|before| {
        let declared = format!("{before}{last}");
        sources.match_indices(&declared).any(|(at, _)| {
            let after = sources[at + declared.len()..].chars().next();
            after.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
        })
    })
}

#[test]
fn each_name_of_the_guide_is_declared() {
    let files: Vec<String> = all().into_iter().filter(|file| file.is_rust()).map(|file| file.text).collect();
    let sources = files.join("\n");
    let guide = guide();
    let found = names(&guide);
    assert!(found.len() > 8, "{found:?}");
    let unknown: Vec<&str> = found.into_iter().filter(|name| !is_declared(name, &sources)).collect();
    assert_eq!(unknown, [""; 0]);
    assert_eq!(
        names("`TRANSITIONS`, `State::ALL`, `sql!`, `a word`, `MIT`"),
        ["TRANSITIONS", "State::ALL", "sql!"]
    );
    assert!(!is_declared(concat!("NO_SUCH", "_THING"), &sources));
}
