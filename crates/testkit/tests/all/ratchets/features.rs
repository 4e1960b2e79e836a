//! Whoever builds the load generator after the program compiles no dependency again: both ask for the same features.

use super::tree::root;
use std::{collections::BTreeSet, process::Command};

/// What runs in a program, and what build scripts and procedural macros use: one package can be compiled for both, with other
/// features each time.
const EDGES: [&str; 2] = ["normal,no-proc-macro", "normal,build"];

/// Each package along these edges, but our own, as "name version", and the features that it is compiled with.
fn dependencies(program: &str, edges: &str) -> BTreeSet<(String, String)> {
    let arguments = ["tree", "--offline", "--edges", edges, "--prefix", "none", "--no-dedupe"];
    let mut tree = Command::new(env!("CARGO"));
    tree.args(arguments).args(["--format", "{p} {f}", "--package", program]).current_dir(root());
    let listed = tree.output().expect("cargo can be run");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).expect("names are ASCII");
    let lines = listed.lines().filter(|line| !line.starts_with("punctual-"));
    lines
        .filter_map(|line| {
            // "(proc-macro)" and the path of a crate stand between version and features.
            let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('(')).collect();
            let (package, features) = words.split_at_checked(2)?;
            Some((package.join(" "), features.join(" ")))
        })
        .collect()
}

#[test]
fn no_dependency_is_compiled_again_for_another_program() {
    for edges in EDGES {
        let program = dependencies("punctual-cli", edges);
        assert!(program.len() > 100, "cargo lists {} dependencies", program.len());
        let packages: BTreeSet<&str> = program.iter().map(|(package, _)| package.as_str()).collect();
        let load_generator = dependencies("punctual-loadtest", edges);
        let again: Vec<_> = load_generator
            .difference(&program)
            .filter(|(package, _)| packages.contains(package.as_str()))
            .collect();
        assert!(again.is_empty(), "crates/workspace-hack does not ask for these features: {again:#?}");
    }
}
