//! The statements of the store's files of SQL, by their names, as tests read and run them: `-- name: …`, lines of comment, the text.

use std::{fs, path::PathBuf};

/// Each statement of a file by its name, with its comment. The contents of a repeated hole, `{rows: …}`,
/// occur once.
pub(crate) fn all(dialect: &str, file: &str) -> Vec<(String, String)> {
    let store = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../store/src");
    let path = store.join(dialect).join(file).with_extension("sql");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let statements = text.split("-- name: ").skip(1).map(|statement| {
        let (name, rest) = statement.split_once('\n').unwrap();
        (name.to_owned(), once(rest.trim_end()))
    });
    statements.collect()
}

/// A statement with its comment, as "lease/extend".
pub(crate) fn statement(dialect: &str, name: &str) -> String {
    let (file, name) = name.split_once('/').unwrap();
    let found = all(dialect, file).into_iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("{dialect}/{file} has no statement {name}")).1
}

/// Its text alone.
pub(crate) fn text(dialect: &str, name: &str) -> String {
    let statement = statement(dialect, name);
    let lines: Vec<&str> = statement.lines().skip_while(|line| line.starts_with("--")).collect();
    lines.join("\n")
}

/// Moves the rows of a bucket out of the table of tasks.
pub(crate) fn swap(bucket: &str) -> String {
    text("mysql", "buckets/exchange").replace("{name}", bucket)
}

fn once(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let hole = part.split_once('}').and_then(|(hole, after)| Some((hole.split_once(": ")?, after)));
        match hole.filter(|((name, _), _)| name.bytes().all(|byte| byte.is_ascii_lowercase())) {
            Some(((_, repeated), after)) => before + repeated + after,
            None => before + "{" + part,
        }
    })
}
