//! The files of the workspace, as the rules look at them: paths from its root, text, tests told from the product.

use std::{fs, path::Path};

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
        self.text.lines().take_while(|it| it.trim() != "mod tests {")
    }
}

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
