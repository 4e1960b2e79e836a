//! Holds `deny.toml` without cargo-deny and without a network: licences, sources, and duplicates of a package. The rules are read
//! from that file, and what they are about from cargo. Faults that were published since, and versions that were withdrawn, are not
//! known here: `cargo deny check` asks for those.

use super::tree::root;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    sync::OnceLock,
};

/// Entries of `bans.skip` in `deny.toml`. The number only ever gets lower: where a duplicate is gone, take it down by one.
const DUPLICATES: usize = 14;

/// A package that Punctual is built of, tests and all features included.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
    /// Names of those that use it.
    users: BTreeSet<String>,
}

impl Package {
    fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

fn rules() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| fs::read_to_string(root().join("deny.toml")).unwrap())
}

/// The entries of a list: one a line, or several texts in one.
fn list<'a>(text: &'a str, table: &str, key: &str) -> Vec<&'a str> {
    let (_, table) = text.split_once(&format!("\n[{table}]")).unwrap_or_else(|| panic!("no [{table}]"));
    let table = table.split("\n[").next().unwrap();
    let (_, inside) = table.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("no {key}"));
    let inside = inside.split(']').next().unwrap();
    let entries = inside.lines().flat_map(|line| match line.trim() {
        table if table.starts_with('{') => vec![table],
        texts => texts.split(',').collect(),
    });
    let entries = entries.map(|entry| entry.trim().trim_end_matches(','));
    entries.filter(|entry| !entry.is_empty() && !entry.starts_with('#')).collect()
}

/// The text between the quotes after `key`, or the only one there is.
fn quoted<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    let from = if key.is_empty() { entry } else { entry.split_once(&format!("{key} = "))?.1 };
    from.strip_prefix('"')?.split('"').next()
}

fn allowed() -> BTreeSet<&'static str> {
    list(rules(), "licenses", "allow").into_iter().map(|entry| quoted(entry, "").unwrap()).collect()
}

/// `name@version` and the reason, of each duplicate that is put up with.
fn skipped() -> BTreeMap<&'static str, &'static str> {
    let entries = list(rules(), "bans", "skip").into_iter();
    entries.map(|entry| (quoted(entry, "crate").unwrap(), quoted(entry, "reason").unwrap())).collect()
}

/// What cargo says of the workspace in a directory; it asks the network only for what it has not seen yet.
pub(super) fn metadata(workspace: &Path) -> Value {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]).current_dir(workspace);
    for system in list(rules(), "graph", "targets") {
        cargo.args(["--filter-platform", quoted(system, "").unwrap()]);
    }
    // As scripts/test sets it, the compiler would be one that lints.
    let said = cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn packages() -> &'static [Package] {
    static ALL: OnceLock<Vec<Package>> = OnceLock::new();
    ALL.get_or_init(|| {
        let metadata = metadata(root());
        let all = metadata["packages"].as_array().unwrap();
        let names: BTreeMap<&str, &Value> =
            all.iter().map(|package| (package["id"].as_str().unwrap(), &package["name"])).collect();
        let mut users: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let user = node["id"].as_str().unwrap();
            users.entry(user).or_default();
            for used in node["deps"].as_array().unwrap() {
                users.entry(used["pkg"].as_str().unwrap()).or_default().insert(text(names[user]));
            }
        }
        let mut of = |package: &Value| {
            // What is for other systems has no node.
            let users = users.remove(package["id"].as_str().unwrap())?;
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            Some(Package { name, version, licence: text(&package["license"]), users })
        };
        let found: Vec<Package> = all.iter().filter_map(&mut of).collect();
        assert!(
            found.len() > 100 && found.iter().any(|package| package.name == "tokio"),
            "the graph was not read"
        );
        found
    })
}

/// Of an SPDX expression: whether what it allows can be had with these licences alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let decided = either(&mut rest, allowed);
    decided && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut decided = both(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        decided |= both(words, allowed);
    }
    decided
}

fn both(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut decided = one(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        decided &= one(words, allowed);
    }
    decided
}

fn one(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let decided = either(words, allowed);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            decided && closed
        }
        // A licence with an exception is another licence.
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(format!("{licence} WITH {exception}").as_str())
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed.contains(licence)
        }
        [] => false,
    }
}

/// Packages that may not be had with these licences.
fn refused(packages: &[Package], allowed: &BTreeSet<&str>) -> Vec<String> {
    let refused = packages.iter().filter(|package| !is_allowed(&package.licence, allowed));
    refused.map(|package| format!("{}: {:?}", package.spec(), package.licence)).collect()
}

#[test]
fn every_licence_is_allowed_and_every_allowed_one_is_needed() {
    let allowed = allowed();
    assert_eq!(refused(packages(), &allowed), [""; 0]);
    for licence in &allowed {
        let fewer = allowed.iter().copied().filter(|other| other != licence).collect();
        assert!(!refused(packages(), &fewer).is_empty(), "{licence} must leave licenses.allow of deny.toml");
    }
}

#[test]
fn an_expression_of_licences_is_decided_as_it_is_meant() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Zlib"]);
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/Apache-2.0",
        "Apache-2.0 / MIT",
        "MIT AND ISC",
        "(GPL-3.0 OR MIT) AND Zlib",
        "GPL-3.0 AND BSL-1.0 OR MIT",
        "Apache-2.0 WITH LLVM-exception OR MIT",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "MIT AND (GPL-3.0 OR Apache-2.0)",
        "MIT WITH something",
        "(MIT",
        "MIT)",
        "MIT ISC",
    ] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

/// Of `Cargo.lock`: what comes from elsewhere than these registries, or without a checksum, and is not the workspace's own.
fn from_elsewhere(lock: &str, registries: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
            line.map(|line| line.trim_matches('"'))
        };
        let name = value("name").unwrap();
        let is_good = match value("source") {
            None => name.starts_with("punctual-"),
            Some(source) => {
                let address = source.strip_prefix("registry+");
                address.is_some_and(|address| registries.contains(&address)) && value("checksum").is_some()
            }
        };
        if !is_good {
            found.push(format!("{name}: {}", value("source").unwrap_or("a path")));
        }
    }
    found
}

#[test]
fn every_package_is_the_registrys_and_has_its_checksum() {
    let entries = list(rules(), "sources", "allow-registry");
    let registries: Vec<&str> = entries.into_iter().map(|entry| quoted(entry, "").unwrap()).collect();
    assert_eq!(list(rules(), "sources", "allow-git"), [""; 0]);
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    assert_eq!(from_elsewhere(&lock, &registries), [""; 0]);

    let package = |lines: &str| format!("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n{lines}\n");
    let registry = format!("source = \"registry+{}\"", registries[0]);
    let good = package(&format!("{registry}\nchecksum = \"0a\""));
    assert_eq!(from_elsewhere(&good, &registries), [""; 0]);
    for bad in [
        "",
        registry.as_str(),
        "source = \"git+https://example.org/a#0a\"",
        "source = \"registry+https://example.org/index\"\nchecksum = \"0a\"",
    ] {
        assert_eq!(from_elsewhere(&package(bad), &registries).len(), 1, "{bad}");
    }
}

/// What is wrong with the duplicates there are, beside the list of those that are put up with.
fn duplicates(packages: &[Package], skipped: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(package);
    }
    let mut found = Vec::new();
    for same in versions.values() {
        let left = same.iter().filter(|package| !skipped.contains_key(package.spec().as_str())).count();
        if left != 1 {
            let said: Vec<String> = same
                .iter()
                .map(|package| format!("{} (used by {:?})", package.spec(), package.users))
                .collect();
            found.push(format!("{left} versions are not in bans.skip of deny.toml: {}", said.join(", ")));
        }
    }
    for (spec, reason) in skipped {
        let package = packages.iter().find(|package| package.spec() == *spec);
        match package.filter(|package| versions[package.name.as_str()].len() > 1) {
            None => found.push(format!("{spec} is no duplicate and must leave bans.skip of deny.toml")),
            Some(package) => {
                let named = |user: &String| reason.split([' ', ',', ':']).any(|word| word == user);
                if !package.users.iter().any(named) {
                    found.push(format!("{spec} is not used by {reason:?} but by {:?}", package.users));
                }
            }
        }
    }
    found
}

#[test]
fn the_duplicates_of_a_package_are_known_and_only_get_fewer() {
    let skipped = skipped();
    assert_eq!(duplicates(packages(), &skipped), [""; 0]);
    assert_eq!(
        skipped.len(),
        DUPLICATES,
        "a duplicate that is new must go; one that is gone lowers DUPLICATES"
    );
}

#[test]
fn a_duplicate_is_found_and_so_is_an_entry_that_is_not_needed() {
    let package = |name: &str, version: &str, user: &str| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: "MIT".to_owned(),
        users: BTreeSet::from([user.to_owned()]),
    };
    let all = [package("a", "1.0.0", "old"), package("a", "2.0.0", "new"), package("b", "1.0.0", "new")];
    assert_eq!(duplicates(&all, &BTreeMap::from([("a@1.0.0", "old, and others")])), [""; 0]);
    for (bad, count) in [
        (BTreeMap::new(), 1),
        (BTreeMap::from([("a@1.0.0", "somebody")]), 1),
        (BTreeMap::from([("a@1.0.0", "old"), ("b@1.0.0", "new")]), 2),
        (BTreeMap::from([("a@1.0.0", "old"), ("c@1.0.0", "new")]), 1),
        (BTreeMap::from([("a@1.0.0", "old"), ("a@2.0.0", "new")]), 1),
    ] {
        assert_eq!(duplicates(&all, &bad).len(), count, "{bad:?}");
    }
}

#[test]
fn the_lists_of_the_rules_are_read_as_they_stand() {
    let text = "\n[a]\nnot_list = [\"x\"]\nlist = [\"b\", \"c\"]\n[d]\nlist = [\n    # why\n    \"e\",\n    { crate = \"f@1\", reason = \"g, h\" },\n]\nempty = []\n";
    assert_eq!(list(text, "a", "list"), ["\"b\"", "\"c\""]);
    assert_eq!(list(text, "d", "list"), ["\"e\"", "{ crate = \"f@1\", reason = \"g, h\" }"]);
    assert_eq!(list(text, "d", "empty"), [""; 0]);
    let entry = list(text, "d", "list")[1];
    assert_eq!((quoted(entry, "crate"), quoted(entry, "reason")), (Some("f@1"), Some("g, h")));
}
