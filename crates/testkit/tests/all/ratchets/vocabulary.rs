//! The words of the code. The private words of the past (docs/glossary.md has those of the field) are counted, in identifiers and
//! in comments, and each count may only fall. A name of a type stands for at most three types of the workspace.

use super::{
    structure::not_as_noted,
    tree::{File, RUST},
};
use std::collections::BTreeMap;

/// As a part of identifiers. Names of tests are sentences, and count too.
const IN_IDENTIFIERS: [(&str, usize); 34] = [
    ("arrival", 6),
    ("aside", 382),
    ("breaks", 9),
    ("cold", 10),
    ("comes", 121),
    ("door", 4),
    ("fate", 18),
    ("fitness", 0),
    ("goes", 225),
    ("hears", 20),
    ("its", 808),
    ("lies", 4),
    ("looker", 0),
    ("moment", 24),
    ("nobody", 97),
    ("overtaken", 2),
    ("pristine", 0),
    ("pulse", 0),
    ("roster", 17),
    ("seat", 2),
    ("settle", 22),
    ("settled", 73),
    ("shelf", 0),
    ("shelved", 0),
    ("sight", 0),
    ("somebody", 13),
    ("standing", 91),
    ("stands", 86),
    ("told", 141),
    ("turn", 159),
    ("unfit", 4),
    ("untold", 0),
    ("whoever", 34),
    ("wish", 153),
];
/// Not those that are ordinary English in a sentence.
const IN_COMMENTS: [(&str, usize); 25] = [
    ("arrival", 0),
    ("aside", 30),
    ("door", 2),
    ("fate", 0),
    ("fitness", 0),
    ("hears", 0),
    ("looker", 0),
    ("nobody", 0),
    ("overtaken", 0),
    ("pristine", 0),
    ("pulse", 1),
    ("roster", 0),
    ("seat", 0),
    ("settle", 1),
    ("settled", 17),
    ("shelf", 0),
    ("shelved", 0),
    ("sight", 0),
    ("somebody", 0),
    ("stands", 0),
    ("told", 0),
    ("unfit", 0),
    ("untold", 0),
    ("whoever", 0),
    ("wish", 0),
];

const TYPES_OF_A_NAME: usize = 3;
/// Names with more types: one a crate (`Error`, `Options`), or the same thing in domain, wire, SDK and test.
const MORE_TYPES: [(&str, usize); 3] = [("Error", 12), ("Options", 10), ("Task", 4)];

/// The rules name what they look for.
fn is_counted(file: &File) -> bool {
    !file.path.contains("/ratchets/")
}

/// `aB_c` as `a`, `b` and `c`.
fn parts_of(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        if letter != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// Of one line; `code` is the line without comments and contents of literals.
fn comment<'a>(line: &'a str, code: &str) -> &'a str {
    let code_letters = code.trim_end().chars().count();
    let rest = line.char_indices().nth(code_letters).map_or("", |(at, _)| &line[at..]);
    if rest.trim_start().starts_with("//") { rest } else { "" }
}

/// How often each word is used, in identifiers and in comments.
type Counts = BTreeMap<String, (usize, usize)>;

fn add(counts: &mut Counts, file: &File, code: &str) {
    for part in words(code).flat_map(parts_of) {
        counts.entry(part).or_default().0 += 1;
    }
    let comments = file.text.lines().zip(code.lines()).map(|(line, code)| comment(line, code));
    for word in comments.flat_map(words) {
        counts.entry(word.to_ascii_lowercase()).or_default().1 += 1;
    }
}

#[test]
fn private_words_are_used_no_more() {
    let mut counts = Counts::new();
    for (file, code) in RUST.iter().filter(|(file, _)| is_counted(file)) {
        add(&mut counts, file, code);
    }
    let mut found = Vec::new();
    for (word, noted) in IN_IDENTIFIERS {
        let count = counts.get(word).map_or(0, |count| count.0);
        found.extend(not_as_noted(&format!("`{word}` in identifiers"), count, noted));
    }
    for (word, noted) in IN_COMMENTS {
        let count = counts.get(word).map_or(0, |count| count.1);
        found.extend(not_as_noted(&format!("`{word}` in comments"), count, noted));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn words_are_found_in_parts_of_identifiers_and_in_comments() {
    let file =
        File::new("crates/a/src/b.rs", "let is_told = Told::new(\"told\"); // Told\n/// untold, told.\n");
    let code = super::tree::without_words(&file.text);
    let mut counts = Counts::new();
    add(&mut counts, &file, &code);
    assert_eq!((counts["told"], counts["untold"]), ((2, 2), (0, 1)));
    assert_eq!(parts_of("HTTPIsFoundAt_once"), ["httpis", "found", "at", "once"]);
}

fn types(code: &str) -> Vec<&str> {
    let all: Vec<&str> = words(code).collect();
    let is_type = |pair: &&[&str]| {
        ["struct", "enum", "trait", "union"].contains(&pair[0]) && pair[1].starts_with(char::is_uppercase)
    };
    all.windows(2).filter(is_type).map(|pair| pair[1]).collect()
}

#[test]
fn a_name_is_of_three_types_at_most() {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for name in RUST.iter().flat_map(|(_, code)| types(code)) {
        *named.entry(name).or_default() += 1;
    }
    let more: Vec<(&str, usize)> = named.into_iter().filter(|(_, count)| *count > TYPES_OF_A_NAME).collect();
    assert_eq!(more, MORE_TYPES, "names, and how many types each has");
    assert_eq!(types("pub struct A; enum B { C } trait D {} fn e() {}"), ["A", "B", "D"]);
}
