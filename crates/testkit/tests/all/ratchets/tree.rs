//! The files of the workspace, as the rules look at them: paths from its root, text, tests told from the product.

use std::{fs, path::Path, sync::LazyLock};

/// Not ours, or made by tools.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "punctual-stack", "punctual-data"];

#[derive(Debug)]
pub(super) struct File {
    /// From the root, with slashes: "crates/hot/src/lib.rs".
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Under `src`, and no module `tests`.
    pub(super) fn is_product(&self) -> bool {
        self.path.contains("/src/") && !self.path.contains("/tests/") && !self.path.ends_with("/tests.rs")
    }

    /// The lines before the unit tests, which stand at the end of a file.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().take_while(|line| line.trim() != "mod tests {")
    }
}

/// Of code without words (`without_words`), what stands before the unit tests.
pub(super) fn before_tests(code: &str) -> &str {
    const MARK: &str = "#[cfg(test)]";
    let begins_tests = |at: &usize| {
        let item = code[at + MARK.len()..].trim_start();
        let item =
            item.strip_prefix("pub(crate) ").or_else(|| item.strip_prefix("pub(super) ")).unwrap_or(item);
        let declared = item.find(['{', ';']).unwrap_or(item.len());
        item.starts_with("mod ") && item[declared..].starts_with('{')
    };
    let tests = code.match_indices(MARK).map(|(at, _)| at).find(begins_tests);
    &code[..tests.unwrap_or(code.len())]
}

/// Each Rust file, with its code without words (`without_words`).
pub(super) static RUST: LazyLock<Vec<(File, String)>> = LazyLock::new(|| {
    let rust = all().into_iter().filter(File::is_rust);
    let with_code = |file: File| {
        let code = without_words(&file.text);
        (file, code)
    };
    rust.map(with_code).collect()
});

pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every text file; what is no UTF-8 is passed over.
pub(super) fn all() -> Vec<File> {
    let mut files = Vec::new();
    collect(root(), "", &mut files);
    assert!(files.len() > 100, "the tree was not found");
    files
}

fn collect(dir: &Path, prefix: &str, files: &mut Vec<File>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let full = format!("{prefix}{name}");
        // In a worktree `.git` is a file.
        if SKIPPED.contains(&name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, &format!("{full}/"), files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            files.push(File { path: full, text });
        }
    }
}

/// Lines stay lines.
pub(super) fn blank(letter: char) -> char {
    if letter == '\n' { letter } else { ' ' }
}

/// Rust with comments and the contents of literals blank, a byte a letter.
pub(super) fn without_words(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let (mut code, mut at) = (String::with_capacity(text.len()), 0);
    let is =
        |at: usize, wanted: &str| wanted.chars().zip(at..).all(|(one, nth)| letters.get(nth) == Some(&one));
    while at < letters.len() {
        let end = if is(at, "//") {
            (at..letters.len()).find(|nth| letters[*nth] == '\n').unwrap_or(letters.len())
        } else if letters[at] == '"' || is(at, "r\"") || is(at, "r#") {
            end_of_string(&letters, at)
        } else if letters[at] == '\'' && is(at + 2, "'") {
            at + 3
        } else if is(at, "'\\") {
            (at + 3..letters.len()).find(|nth| letters[*nth] == '\'').unwrap_or(letters.len()) + 1
        } else {
            code.push(if letters[at].is_ascii() { letters[at] } else { ' ' });
            at += 1;
            continue;
        };
        let is_literal = !is(at, "//");
        for (nth, letter) in letters[at..end].iter().enumerate() {
            let is_edge = is_literal && (nth == 0 || nth + 1 == end - at);
            code.push(if is_edge { '"' } else { blank(*letter) });
        }
        at = end;
    }
    code
}

fn end_of_string(letters: &[char], at: usize) -> usize {
    let is_raw = letters[at] == 'r';
    let hashes = letters[at + usize::from(is_raw)..].iter().take_while(|letter| **letter == '#').count();
    let mut next = at + usize::from(is_raw) + hashes;
    if letters.get(next) != Some(&'"') {
        // `r#name`
        return at + 1;
    }
    next += 1;
    while next < letters.len() {
        match letters[next] {
            '\\' if !is_raw => next += 1,
            '"' if letters[next + 1..].iter().take(hashes).filter(|letter| **letter == '#').count()
                == hashes =>
            {
                return next + 1 + hashes;
            }
            _ => {}
        }
        next += 1;
    }
    letters.len()
}
