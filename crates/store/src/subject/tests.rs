//! Holds every file of SQL to its form: each statement has a name of its own, says what it is for, lists its parameters and its
//! holes, and is used.

use super::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A statement as it is in its file.
#[derive(Clone, Debug)]
struct Whole {
    /// The path from `src`, without its ending: "mysql/lease".
    file: String,
    name: String,
    /// The lines of comment after the name, without dashes.
    header: Vec<String>,
    text: String,
}

impl Whole {
    fn title(&self) -> String {
        format!("{}: {}", self.file, self.name)
    }

    /// The section of the header under a word: the line that begins with it, and the following lines.
    fn section(&self, word: &str) -> Option<String> {
        const SECTIONS: [&str; 4] = ["parameters: ", "holes: ", "answers: ", "moves: "];
        let begin = self.header.iter().position(|line| line.starts_with(word))?;
        let is_next = |line: &&String| !SECTIONS.iter().any(|other| line.starts_with(other));
        let more = self.header[begin + 1..].iter().take_while(is_next);
        let lines: Vec<&str> = std::iter::once(&self.header[begin]).chain(more).map(String::as_str).collect();
        lines.join(" ").strip_prefix(word).map(str::to_owned)
    }
}

fn sources(ending: &str) -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { collect(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    collect(&src(), &mut found);
    found.retain(|path| path.extension().is_some_and(|found| found == ending));
    found.sort();
    found
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The dialect and the subject of a file, or of the Rust in a folder.
fn place(path: &Path) -> String {
    path.strip_prefix(src()).unwrap().with_extension("").to_str().unwrap().to_owned()
}

/// Each statement of each file: taken apart by lines, not by what the product does.
fn statements() -> Vec<Whole> {
    let mut found: Vec<Whole> = Vec::new();
    for path in sources("sql") {
        let first = found.len();
        for line in fs::read_to_string(&path).unwrap().lines() {
            if let Some(name) = line.strip_prefix("-- name: ") {
                let (header, text) = (Vec::new(), String::new());
                found.push(Whole { file: place(&path), name: name.to_owned(), header, text });
            } else if let Some(statement) = found[first..].last_mut() {
                match line.strip_prefix("-- ").filter(|_| statement.text.is_empty()) {
                    Some(comment) => statement.header.push(comment.to_owned()),
                    None => statement.text += &format!("{line}\n"),
                }
            }
        }
    }
    for statement in &mut found {
        statement.text = statement.text.trim_end().to_owned();
    }
    found
}

/// The text of a statement, as "mysql/lease" and "extend".
pub(crate) fn text(file: &str, name: &str) -> String {
    one(file, name).text
}

/// A statement with its header.
pub(crate) fn whole(file: &str, name: &str) -> String {
    let found = one(file, name);
    let header: String = found.header.iter().map(|line| format!("-- {line}\n")).collect();
    format!("{header}{}\n", found.text)
}

/// Each statement by "file/name", with its header, and holes filled as for one row.
pub(crate) fn for_one(dialect: &str) -> Vec<(String, String)> {
    let of_dialect = statements().into_iter().filter(|statement| statement.file.starts_with(dialect));
    let named = |statement: Whole| {
        let file = statement.file.split_once('/').unwrap().1.to_owned();
        (format!("{file}/{}", statement.name), repeated(&whole(&statement.file, &statement.name), 1))
    };
    of_dialect.map(named).collect()
}

fn one(file: &str, name: &str) -> Whole {
    let found = statements().into_iter().find(|known| known.file == file && known.name == name);
    found.unwrap_or_else(|| panic!("{file} has no statement {name}"))
}

/// The holes of a text, `{name}` or `{name: …}`: braces in texts of JSON are none.
fn holes(text: &str) -> BTreeSet<String> {
    let is_name =
        |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let inside = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(hole, _)| hole);
    let named = inside.map(|hole| hole.split_once(": ").map_or(hole, |(name, _)| name)).filter(is_name);
    named.map(str::to_owned).collect()
}

/// The number of parameters of a text, with holes as for one row.
fn parameters(statement: &Whole) -> usize {
    let text = repeated(&statement.text, 1);
    let numbers = text.split('?').skip(1).map(|rest| {
        rest.bytes().take_while(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    if statement.file.starts_with("sqlite") { numbers.max().unwrap_or(0) } else { numbers.count() }
}

/// The numbers that a list of parameters names: "1 namespace, 2 and 3 queue, 4 to 9 the place".
fn named_numbers(list: &str) -> BTreeSet<usize> {
    let words: Vec<&str> = list.split_whitespace().collect();
    let number = |word: &str| word.trim_start_matches(['?', '(']).parse::<usize>().ok();
    let mut found: BTreeSet<usize> = words.iter().filter_map(|word| number(word)).collect();
    for three in words.windows(3) {
        if let ([from, "to", upto], true) = (three, three.len() == 3)
            && let (Some(from), Some(upto)) = (number(from), number(upto))
        {
            found.extend(from..=upto);
        }
    }
    found
}

#[test]
fn a_file_is_taken_apart_by_names() {
    const FILE: &str =
        "-- About.\n\n-- name: one\n-- Does.\n-- parameters: 1 a.\nSELECT ?\n\n-- name: two\nBEGIN;\nEND\n";
    const SUBJECT: Subject = Subject::new(FILE);
    assert_eq!(SUBJECT.statement("one"), "SELECT ?");
    assert_eq!(SUBJECT.statement("two"), "BEGIN;\nEND");
    assert_eq!(SUBJECT.len, 2);
    assert_eq!(Subject::new("").len, 0);
}

#[test]
#[should_panic(expected = "no statement of the file has this name")]
fn a_name_that_a_file_does_not_have_is_an_error() {
    Subject::new("-- name: one\nSELECT 1").statement("on");
}

#[test]
fn holes_are_filled_and_repeated_and_nothing_else() {
    let one = "INSERT INTO t (a, b)\nVALUES {rows: (?, f(?))}\nON DUPLICATE KEY UPDATE a = VALUES(a)";
    let three =
        "INSERT INTO t (a, b)\nVALUES (?, f(?)), (?, f(?)), (?, f(?))\nON DUPLICATE KEY UPDATE a = VALUES(a)";
    assert_eq!(repeated(one, 3), three);
    let lists = "a IN ({list: ?}) AND b IN ({list: ?}) AND c = '{\"d\": 1}' AND e = '{}'";
    assert_eq!(repeated(lists, 2), "a IN (?, ?) AND b IN (?, ?) AND c = '{\"d\": 1}' AND e = '{}'");
    assert_eq!(filled("KILL {connection}", "{connection}", "7"), "KILL 7");
    assert_eq!(holes(one).into_iter().collect::<Vec<_>>(), ["rows"]);
    assert_eq!(holes("'{}' {\"a\": 1} {b_c}").into_iter().collect::<Vec<_>>(), ["b_c"]);
}

#[test]
fn the_product_finds_what_is_in_the_files() {
    let mut files = BTreeMap::new();
    for statement in statements() {
        let file = files.entry(statement.file.clone());
        let subject = *file.or_insert_with(|| {
            let text = fs::read_to_string(src().join(&statement.file).with_extension("sql")).unwrap();
            Subject::new(text.leak())
        });
        assert_eq!(subject.statement(&statement.name), statement.text, "{}", statement.title());
    }
    assert!(files.len() > 40);
}

#[test]
fn every_statement_is_used_by_its_name_and_has_it_alone() {
    let mut used = BTreeSet::new();
    for path in sources("rs") {
        let dialect = place(&path).split('/').next().unwrap_or_default().to_owned();
        let code: String = fs::read_to_string(&path).unwrap().split_whitespace().collect();
        for rest in code.split("sql!(").skip(1) {
            let Some((subject, name)) = rest.split_once(')').and_then(|(inside, _)| inside.split_once(','))
            else {
                continue;
            };
            used.insert((format!("{dialect}/{subject}"), name.trim_end_matches(',').to_owned()));
        }
    }
    let mut known = BTreeSet::new();
    for statement in statements() {
        let key = (statement.file.clone(), statement.name.clone());
        assert!(used.contains(&key), "nobody uses {}", statement.title());
        assert!(known.insert(key), "{} is there twice", statement.title());
    }
}

#[test]
fn every_statement_says_what_it_is_for_and_names_its_parameters_and_holes() {
    for statement in statements() {
        let title = statement.title();
        assert!(statement.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{title}");
        let purpose = statement.header.first().map(String::as_str).unwrap_or_default();
        assert!(purpose.starts_with(|letter: char| letter.is_ascii_uppercase()), "{title}: {purpose}");
        // The server reads no comments of ours: those that it does read begin with `/*!`.
        assert!(!statement.text.contains("-- ") && !statement.text.is_empty(), "{title}");
        let named = named_numbers(&statement.section("parameters: ").unwrap_or_default());
        for number in 1..=parameters(&statement) {
            assert!(named.contains(&number), "{title}: parameter {number}");
        }
        let listed = statement.section("holes: ").unwrap_or_default();
        assert_eq!(holes(&listed), holes(&statement.text), "{title}");
    }
}

/// What MariaDB 10.6 knows and MySQL 8.0 does not.
const MARIADB_ONLY: [&str; 9] = [
    " RETURNING ",
    "CONVERT PARTITION",
    "COLUMN IF NOT EXISTS",
    "COLUMN IF EXISTS",
    "INDEX IF NOT EXISTS",
    "CREATE OR REPLACE TABLE",
    "NEXT VALUE FOR",
    "SET STATEMENT ",
    "FROM SEQ_",
];
/// What MySQL knows, all of it or from a later release than 8.0 on, and MariaDB 10.6 does not.
const MYSQL_ONLY: [&str; 7] =
    ["FOR SHARE", "FOR UPDATE OF ", " LATERAL ", "MEMBER OF", "VALUES ROW", "->", ") AS NEW"];
/// MySQL knows them from 8.0.31 on.
const LATE: [&str; 2] = [" INTERSECT ", " EXCEPT "];

/// The forms in a text that not every server knows. A comment of a version is read by one kind of server only.
fn forms_of_one_server(text: &str) -> Vec<&'static str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let mut words = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_uppercase() + " ";
    while let Some((before, rest)) = words.split_once("/*") {
        words = format!("{before}{}", rest.split_once("*/").map_or("", |parts| parts.1));
    }
    let forms = MARIADB_ONLY.into_iter().chain(MYSQL_ONLY).chain(LATE);
    forms.filter(|form| words.contains(form)).collect()
}

#[test]
fn every_statement_is_of_words_that_mysql_8_and_mariadb_both_know() {
    let mut found = BTreeMap::new();
    for statement in statements().into_iter().filter(|statement| statement.file.starts_with("mysql/")) {
        found.insert(statement.title(), forms_of_one_server(&statement.text));
    }
    for path in fs::read_dir(src().join("../../../migrations/mysql")).unwrap() {
        let path = path.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, forms_of_one_server(&fs::read_to_string(&path).unwrap()));
    }
    assert!(found.len() > 300, "{}", found.len());
    found.retain(|_, forms| !forms.is_empty());
    // A server that does not know it drops the bucket in one step (`detach` in buckets/session.rs).
    let known = [("mysql/buckets: detach".to_owned(), vec!["CONVERT PARTITION"])];
    assert_eq!(found, BTreeMap::from(known));
    // The controls.
    assert_eq!(forms_of_one_server("DELETE FROM a\nRETURNING id"), [" RETURNING "]);
    assert_eq!(forms_of_one_server("SELECT 1 FROM a FOR UPDATE OF a"), ["FOR UPDATE OF "]);
    assert!(forms_of_one_server("SELECT 1 FROM a FOR UPDATE /*!80001 OF a */").is_empty());
}
