//! What CONTRIBUTING.md and ARCHITECTURE.md name exists: each path, each crate, command, module and variable too.

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
    let page = "See `crates/nothing/src/lib.rs`, [this](docs/nothing.md), `NOTHING.md`, `crates/store/src/mysql/…` and `scripts/test`:\n    scripts/nothing a";
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

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let inner = rest.split('}').next().unwrap_or(rest);
    inner.split(',').map(|part| format!("{before}{}", part.trim())).collect()
}

/// A module of a crate, or what a module declares: a file or a folder, or a name in the file of the modules before it.
fn is_there(path: &str) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let Some((last, before)) = parts.split_last() else { return false };
    let file_of = |parts: &[&str]| {
        let inner = if parts.len() > 1 { parts[1..].join("/") } else { "lib".to_owned() };
        root().join(format!("crates/{}/src/{inner}.rs", parts[0]))
    };
    let folder = root().join(format!("crates/{}/src/{}", parts[0], parts[1..].join("/")));
    let is_declared_there = |source: String| source.contains(last);
    file_of(&parts).exists()
        || folder.is_dir()
        || fs::read_to_string(file_of(before)).is_ok_and(is_declared_there)
}

/// Paths of modules between backticks whose first part is a crate of ours.
fn modules(page: &str) -> Vec<String> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let crates: Vec<String> = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let quoted = page.split('`').skip(1).step_by(2).filter(|word| word.contains("::"));
    let is_ours =
        |path: &String| path.split("::").next().is_some_and(|first| crates.iter().any(|name| name == first));
    quoted.flat_map(expanded).filter(is_ours).collect()
}

#[test]
fn each_module_of_the_map_exists() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let found = modules(&map);
    assert!(found.len() > 60, "{}", found.len());
    let missing: Vec<String> = found.into_iter().filter(|path| !is_there(path)).collect();
    assert_eq!(missing, [""; 0]);
    let page =
        "`engine::pipeline::{drain, claim}`, `store::nothing::at_all`, `domain::state::TRANSITIONS`, `a::b`";
    let wrong: Vec<String> = modules(page).into_iter().filter(|path| !is_there(path)).collect();
    assert_eq!(wrong, ["engine::pipeline::claim", "store::nothing::at_all"]);
}
