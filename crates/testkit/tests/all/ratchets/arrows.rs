//! Which crate may use which. Think hard before adding an arrow: the layers are the design.

use super::tree::{File, all, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Crate, crates it may use in `[dependencies]`, and crates it may use there behind a feature.
const MAY_USE: [(&str, &[&str], &[&str]); 25] = [
    ("domain", &[], &[]),
    ("wheel", &[], &[]),
    ("linear", &[], &[]),
    ("contract", &["domain"], &[]),
    ("protocol", &["domain"], &[]),
    ("store", &["contract", "domain"], &[]),
    ("redis-link", &["contract"], &[]),
    ("hot", &["redis-link", "contract", "domain"], &[]),
    ("bus", &["redis-link", "contract", "domain"], &[]),
    ("engine", &["contract", "domain", "wheel"], &[]),
    ("expressions", &[], &[]),
    ("schedules", &["engine", "contract", "domain", "expressions"], &[]),
    ("workflows", &["engine", "contract", "domain", "expressions"], &[]),
    ("bulk", &["workflows", "engine", "contract", "domain"], &[]),
    ("cluster", &["engine", "contract", "domain"], &[]),
    ("inbox", &["contract", "protocol", "domain"], &[]),
    ("traces", &["engine", "contract", "domain"], &["bus"]),
    ("webhook", &["protocol", "domain"], &[]),
    ("console", &["protocol"], &[]),
    ("test-servers", &[], &[]),
    ("workspace-hack", &[], &[]),
    (
        "server",
        &[
            "console",
            "bulk",
            "cluster",
            "inbox",
            "traces",
            "webhook",
            "schedules",
            "workflows",
            "engine",
            "contract",
            "domain",
            "protocol",
        ],
        &[],
    ),
    ("sdk", &["protocol"], &["engine", "store", "hot", "bus", "contract", "domain"]),
    (
        "testkit",
        &[
            "server",
            "bulk",
            "cluster",
            "inbox",
            "schedules",
            "workflows",
            "sdk",
            "engine",
            "store",
            "hot",
            "bus",
            "contract",
            "domain",
            "wheel",
            "protocol",
            "linear",
            "test-servers",
        ],
        &[],
    ),
    (
        "cli",
        &[
            "server",
            "bulk",
            "cluster",
            "inbox",
            "traces",
            "webhook",
            "schedules",
            "workflows",
            "sdk",
            "engine",
            "store",
            "hot",
            "bus",
            "contract",
            "domain",
            "wheel",
            "protocol",
            "testkit",
        ],
        &[],
    ),
];

/// The engine meets its back ends at the composition root and nowhere else.
const NEVER_UNDER_ENGINE: [&str; 6] = ["rusqlite", "libsqlite3-sys", "sqlx", "sqlx-core", "redis", "axum"];

/// Of a manifest: what stands in `[dependencies]`, target-specific ones included, and whether it is optional.
fn dependencies(manifest: &str) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            if let Some(name) = section.strip_prefix("dependencies.") {
                found.insert(name.to_owned(), false);
            }
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let own_table = section.strip_prefix("dependencies.");
            if section == "dependencies"
                || (section.starts_with("target.") && section.ends_with(".dependencies"))
            {
                let name = key.trim().split('.').next().unwrap().trim_matches('"');
                found.insert(name.to_owned(), value.contains("optional = true"));
            } else if let Some(name) = own_table.filter(|_| key.trim() == "optional") {
                found.insert(name.to_owned(), value.trim() == "true");
            }
        }
    }
    found
}

fn forbidden(krate: &str, manifest: &str) -> Vec<String> {
    let Some((_, plain, optional)) = MAY_USE.iter().find(|(text, ..)| *text == krate) else {
        return vec![format!("{krate} is not in MAY_USE")];
    };
    let may = |(name, is_optional): &(String, bool)| match name.strip_prefix("punctual-") {
        Some(rest) => plain.contains(&rest) || (*is_optional && optional.contains(&rest)),
        None => true,
    };
    let all = dependencies(manifest).into_iter();
    all.filter(|pair| !may(pair)).map(|(name, _)| format!("{krate} must not use {name}")).collect()
}

fn manifests() -> Vec<(String, File)> {
    let is_crate = |file: &File| file.path.starts_with("crates/") && file.path.matches('/').count() == 2;
    let named = |file: File| (file.path.split('/').nth(1).unwrap().to_owned(), file);
    all().into_iter().filter(|file| is_crate(file) && file.path.ends_with("/Cargo.toml")).map(named).collect()
}

#[test]
fn arrows_point_down() {
    let manifests = manifests();
    let found: Vec<String> =
        manifests.iter().flat_map(|(krate, manifest)| forbidden(krate, &manifest.text)).collect();
    assert!(found.is_empty(), "{found:#?}");
    let known: BTreeSet<&str> = manifests.iter().map(|(manifest, _)| manifest.as_str()).collect();
    for (krate, ..) in MAY_USE {
        assert!(known.contains(krate), "{krate} is listed and is not there");
    }
}

#[test]
fn an_arrow_that_points_up_is_found_in_every_way_to_write_it() {
    let ways = [
        "[dependencies]\npunctual-store.workspace = true",
        "[dependencies]\npunctual-store = { path = \"../store\" }",
        "[dependencies]\n\"punctual-store\" = \"1\"",
        "[dependencies.punctual-store]\npath = \"../store\"",
        "[dependencies.punctual-store]\npath = \"../store\"\noptional = true",
        "[target.'cfg(unix)'.dependencies]\npunctual-store.workspace = true",
        "[dependencies]\npunctual-store = { workspace = true, optional = true }",
    ];
    for way in ways {
        assert_eq!(forbidden("engine", way), ["engine must not use punctual-store"], "{way}");
    }
    assert_eq!(forbidden("engine", "[dev-dependencies]\npunctual-store.workspace = true"), [""; 0]);
    assert_eq!(forbidden("new", ""), ["new is not in MAY_USE"]);
    assert_eq!(forbidden("sdk", ways[0]), ["sdk must not use punctual-store"], "only behind a feature");
    assert_eq!(forbidden("sdk", ways[6]), [""; 0]);
}

/// `(name, its dependencies' names)`, versions merged: too much rather than too little.
fn locked(lock: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let quoted = |text: &'static str| move |line: &&str| line.starts_with(text);
        let name = package.lines().find(quoted("name = ")).unwrap().split('"').nth(1).unwrap();
        let inside = package.split_once("dependencies = [").map_or("", |(_, rest)| rest);
        let names = inside.lines().filter_map(|line| line.trim().strip_prefix('"'));
        let names = names.map(|name| name.split([' ', '"']).next().unwrap());
        found.entry(name).or_default().extend(names);
    }
    found
}

/// All that a crate rests on, over any number of steps. Of our own crates the manifests are followed, because the
/// lock file also names what only their tests use.
fn closure(krate: &str, manifests: &BTreeMap<String, String>, lock: &str) -> BTreeSet<String> {
    let locked = locked(lock);
    let (mut seen, mut open) = (BTreeSet::new(), vec![format!("punctual-{krate}")]);
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match name.strip_prefix("punctual-").and_then(|rest| manifests.get(rest)) {
            Some(manifest) => open.extend(dependencies(manifest).into_keys()),
            None => open
                .extend(locked.get(name.as_str()).into_iter().flatten().map(|locked| (*locked).to_owned())),
        }
    }
    seen
}

#[test]
fn the_engine_rests_on_no_back_end() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let manifests: BTreeMap<String, String> =
        manifests().into_iter().map(|(name, manifest)| (name, manifest.text)).collect();
    let engine = closure("engine", &manifests, &lock);
    assert!(engine.contains("punctual-domain") && engine.contains("serde_core"), "the walk goes all the way");
    for text in NEVER_UNDER_ENGINE {
        assert!(!engine.contains(text), "the engine rests on {text}");
    }
    assert!(closure("store", &manifests, &lock).contains("libsqlite3-sys"), "and would find one");
}
