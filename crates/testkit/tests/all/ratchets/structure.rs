//! Counts of what makes this code hard to read. Each may only fall: one that has grown fails, and one that has fallen is noted
//! here by whoever made it fall, so that it never grows back.

use super::tree::{File, RUST, all, before_tests, root, without_words};
use std::fs;

/// Closures whose parameter is called `it`: a noun says what it is.
const CLOSURES_NAMED_IT: usize = 0;
/// Files of statements: one a subject, not one a statement. Migrations are not counted: they are released, and may stay a file each.
/// Two are sent to users' own databases, and to none of ours: the inbox of the relay, and that of the SDK.
const SQL_FILES: usize = 52;
/// Scripts of the hot set in Redis, and of its limiter.
const SCRIPTS: usize = 16;
/// Fields of the engine's `Core`, which every step can reach.
const FIELDS_OF_CORE: usize = 25;
/// Places where the engine asks in which mode it runs.
const MODE_BRANCHES: usize = 25;
const LONG_FILES: usize = 9;
const LONG_FILE_LINES: usize = 500;

/// The questions: are there other engines, or other owners, who write; is there a Redis, is it away, does what is due come from it; is
/// there more than one database?
const MODE_QUESTIONS: [&str; 11] = [
    ".shared.is_some()",
    ".shared.is_none()",
    ".parts() == 1",
    ".parts() > 1",
    ".is_away()",
    ".hides_limits()",
    ".keeps()",
    ".hot_set_keeps()",
    ".source()",
    ".others_write",
    ".is_sole()",
];
/// Not where it is defined.
const ALONE: &str = "is_alone(";

/// A count that is not what is noted, and what is to be done; None: it is.
pub(super) fn not_as_noted(what: &str, count: usize, noted: usize) -> Option<String> {
    match count.cmp(&noted) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(format!("{what}: {count}, and may be {noted} at most")),
        std::cmp::Ordering::Less => Some(format!("{what}: {count}, so note that instead of {noted}")),
    }
}

fn assert_noted(what: &str, count: usize, noted: usize) {
    let found = not_as_noted(what, count, noted);
    assert!(found.is_none(), "{}", found.unwrap_or_default());
}

#[test]
fn a_count_neither_grows_nor_falls_unnoted() {
    assert_eq!(not_as_noted("apples", 3, 3), None);
    assert_eq!(not_as_noted("apples", 4, 3).unwrap(), "apples: 4, and may be 3 at most");
    assert_eq!(not_as_noted("apples", 2, 3).unwrap(), "apples: 2, so note that instead of 3");
}

/// What stands before a `|` that begins a closure.
fn begins_closure(before: &str) -> bool {
    let before = before.trim_end();
    let last_word = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
    before.ends_with(['(', ',', '=', '{', ';', '[', '>', ':', '&'])
        || last_word.is_some_and(|word| ["move", "return", "else", "in"].contains(&word))
}

fn closures_named_it(code: &str) -> usize {
    let (mut count, mut at) = (0, 0);
    while let Some(next) = code[at..].find('|') {
        let begin = at + next;
        at = begin + 1;
        if code[at..].starts_with('|') {
            // "Or", or a closure without parameters.
            at += 1;
        } else if begins_closure(&code[..begin]) {
            let length = code[at..].find('|').unwrap_or(0);
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let mut words = code[at..at + length].split(|letter| !is_name(letter));
            count += usize::from(words.any(|word| word == "it"));
            at += length + 1;
        }
    }
    count
}

#[test]
fn no_more_closures_are_named_it() {
    let count = RUST.iter().map(|(_, code)| closures_named_it(code)).sum();
    assert_noted("closures named `it`", count, CLOSURES_NAMED_IT);
    for found in [
        "f(|it| 1)",
        "let is = |it: &A| it.b;",
        "a.map(move |it| it)",
        "f(0, |(nth, it)| nth)",
        "f(|&it| it)",
        "let f = &|it| it;",
    ] {
        assert_eq!(closures_named_it(found), 1, "{found}");
    }
    for harmless in ["f(|| it)", "a | it | b", "f(|one| it)", "if a || it || b {}", "f(|fit| fit)"] {
        assert_eq!(closures_named_it(harmless), 0, "{harmless}");
    }
}

#[test]
fn no_more_files_of_sql() {
    let is_sql = |file: &File| !file.path.starts_with("migrations/") && file.path.ends_with(".sql");
    assert_noted("files of SQL", all().into_iter().filter(is_sql).count(), SQL_FILES);
}

#[test]
fn no_more_scripts_of_redis() {
    let is_script = |file: &File| file.path.starts_with("crates/hot/lua/") && file.path.ends_with(".lua");
    assert_noted("Redis scripts", all().into_iter().filter(is_script).count(), SCRIPTS);
}

/// Fields of a struct with names, which stands once in the code.
fn fields_of(name: &str, code: &str) -> usize {
    let (_, rest) = code.split_once(&format!("struct {name} {{")).expect("it is there");
    let (mut depth, mut fields, mut is_first) = (0_i32, 0, true);
    for letter in rest.chars() {
        match letter {
            '}' if depth == 0 => break,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            ':' if depth == 0 && is_first => {
                fields += 1;
                // Until the comma: paths in its type have more of them.
                is_first = false;
            }
            _ => {}
        }
    }
    fields
}

#[test]
fn what_all_steps_share_has_no_more_fields() {
    let code = without_words(&fs::read_to_string(root().join("crates/engine/src/core.rs")).unwrap());
    assert_noted("fields of `Core`", fields_of("Core", &code), FIELDS_OF_CORE);
    let sample =
        "struct A { x: a::B, #[c(d)] pub(crate) y: Map<u8, (c::D, E)>, z: [u8; 3] } struct B { w: u8 }";
    assert_eq!(fields_of("A", sample), 3);
}

fn mode_branches(code: &str) -> usize {
    let asked: usize = MODE_QUESTIONS.iter().map(|question| code.matches(question).count()).sum();
    asked + code.matches(ALONE).count() - code.matches(&format!("fn {ALONE}")).count()
}

#[test]
fn the_engine_asks_no_oftener_in_which_mode_it_runs() {
    let is_engine = |file: &File| file.path.starts_with("crates/engine/src/") && file.is_product();
    let files = RUST.iter().filter(|(file, _)| is_engine(file));
    let count = files.map(|(_, code)| mode_branches(before_tests(code))).sum();
    assert_noted("branches of the engine on its mode", count, MODE_BRANCHES);
    let sample = "if is_alone(core) || core.store.parts() == 1 {} fn is_alone(core: &Core) { a.is_away() } if a.is_sole() {}";
    assert_eq!(mode_branches(sample), 4);
    assert_eq!(mode_branches("for it in 0..core.store.parts() {}"), 0);
}

#[test]
fn no_more_long_files() {
    let is_long = |file: &File| file.text.lines().count() > LONG_FILE_LINES;
    let long = RUST.iter().filter(|(file, _)| is_long(file)).count();
    assert_noted(&format!("files of more than {LONG_FILE_LINES} lines"), long, LONG_FILES);
}
