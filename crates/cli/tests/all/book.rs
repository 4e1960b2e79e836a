//! The documentation becomes a book: mdBook builds it, without a word of warning. What it lacks and where its links lead is looked at
//! by `ratchets::book` of testkit. `scripts/install-clients` installs mdBook.

use crate::{
    binary::{stderr, stdout},
    clients::tools,
};
use std::{fs, path::Path, process::Command};

#[test]
fn mdbook_builds_it() {
    let directory = tempfile::tempdir().unwrap();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut mdbook = Command::new(tools().join("venv/bin/mdbook"));
    let built = mdbook.args(["build", docs, "--dest-dir"]).arg(directory.path()).output().unwrap();
    let said = stdout(&built) + &stderr(&built);
    assert!(built.status.success() && !said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let summary = fs::read_to_string(Path::new(docs).join("SUMMARY.md")).unwrap();
    let pages = summary.split("](").skip(1).filter_map(|rest| rest.split_once(".md)"));
    for (page, _) in pages {
        assert!(directory.path().join(format!("{page}.html")).is_file(), "{page}");
    }
}
