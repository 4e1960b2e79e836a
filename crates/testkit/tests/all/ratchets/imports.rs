//! Which files of a crate import each other, and how many are in the largest circle: in it none can be read, tested or
//! changed without the others. The numbers may only fall. Looked at is the product's code: `use`, and paths such as
//! `super::fire::offer`. An item that a module passes on (`pub use`) counts as its own module's; the root of a crate is a table
//! of contents and counts for none.

use super::{
    structure::not_as_noted,
    tree::{File, RUST, before_tests, without_words},
};
use std::collections::{BTreeMap, BTreeSet};

/// Files in the largest circle of each crate that has one.
const CIRCLES: [(&str, usize); 18] = [
    ("bus", 5),
    ("cli", 3),
    ("cluster", 7),
    ("console", 2),
    ("contract", 2),
    ("domain", 4),
    ("engine", 10),
    ("expressions", 3),
    ("hot", 3),
    ("loadtest", 2),
    ("protocol", 3),
    ("schedules", 7),
    ("sdk", 9),
    ("store", 3),
    ("test-servers", 2),
    ("testkit", 8),
    ("wheel", 2),
    ("workflows", 10),
];

/// From the root of the crate: `pipeline::ahead` is `["pipeline", "ahead"]`.
type Path = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    /// What a `use` brings, by the name that it has here.
    names: BTreeMap<String, Path>,
    /// Every path that is written here.
    paths: BTreeSet<Path>,
}

#[derive(Debug, Default)]
struct Modules {
    files: BTreeMap<Path, Module>,
    /// Modules that are files, and those around them.
    known: BTreeSet<Path>,
}

/// The crate and the module that a file is; None: it is no product's.
fn module_of(file: &File) -> Option<(&str, Path)> {
    let rest = file.path.strip_prefix("crates/").unwrap_or(&file.path);
    let (krate, rest) = rest.split_once("/src/")?;
    let is_test = rest.contains("tests/") || rest.ends_with("tests.rs");
    let name = rest.strip_suffix(".rs").filter(|_| !is_test && !krate.contains('/'))?;
    let name = name.strip_suffix("/mod").unwrap_or(name);
    let is_root = ["lib", "main"].contains(&name);
    let path = if is_root { Path::new() } else { name.split('/').map(str::to_owned).collect() };
    Some((krate, path))
}

fn crates(files: &[(File, String)]) -> BTreeMap<&str, Modules> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (file, code) in files {
        let Some((krate, path)) = module_of(file) else { continue };
        let module = Module::of(&tokens(before_tests(code)));
        let modules = crates.entry(krate).or_default();
        modules.known.extend((0..=path.len()).map(|length| path[..length].to_vec()));
        let known = modules.files.entry(path).or_default();
        known.names.extend(module.names);
        known.paths.extend(module.paths);
    }
    crates
}

/// Names, `::`, and every other letter by itself.
fn tokens(code: &str) -> Vec<&str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while !rest.is_empty() {
        let length = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        let length = if rest.starts_with("::") { 2 } else { length.max(1) };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

fn is_name(token: Option<&&str>) -> bool {
    token.is_some_and(|token| token.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_'))
}

impl Module {
    fn of(tokens: &[&str]) -> Self {
        let (mut module, mut at) = (Self::default(), 0);
        while at < tokens.len() {
            let follows_path = at > 0 && tokens[at - 1] == "::";
            if tokens[at] == "use" && is_name(tokens.get(at + 1)) {
                at = module.take_tree(tokens, at + 1, &Path::new());
            } else if is_name(tokens.get(at)) && !follows_path {
                let mut path = vec![tokens[at].to_owned()];
                at += 1;
                while tokens.get(at) == Some(&"::") && is_name(tokens.get(at + 1)) {
                    path.push(tokens[at + 1].to_owned());
                    at += 2;
                }
                if path.len() > 1 {
                    module.paths.insert(path);
                }
            } else {
                at += 1;
            }
        }
        module
    }

    /// One tree of a `use`, from there; answers where it ends.
    fn take_tree(&mut self, tokens: &[&str], mut at: usize, before: &Path) -> usize {
        let mut path = before.clone();
        while is_name(tokens.get(at)) {
            path.push(tokens[at].to_owned());
            at += 1;
            if tokens.get(at) == Some(&"::") {
                at += 1;
            } else {
                break;
            }
        }
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    at = if tokens[at] == "," { at + 1 } else { self.take_tree(tokens, at, &path) };
                }
                at + 1
            }
            Some(&"*") => {
                self.paths.insert(path);
                at + 1
            }
            Some(&"as") => {
                self.take_name(tokens.get(at + 1).unwrap_or(&"_"), path);
                at + 2
            }
            _ => {
                // What no tree has is passed over all the same.
                let next = if path.len() > before.len() { at } else { at + 1 };
                let name = path.last().cloned().unwrap_or_default();
                self.take_name(&name, path);
                next
            }
        }
    }

    fn take_name(&mut self, name: &str, mut path: Path) {
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_owned() };
        self.paths.insert(path.clone());
        self.names.insert(name, path);
    }
}

/// A chain of names that are passed on is shorter.
const STEPS_MAX: usize = 16;

/// The module that has what a path of a module names; None: it is of another crate.
fn home(modules: &Modules, from: &Path, path: &[String], steps: usize) -> Option<Path> {
    let (mut module, mut rest) = (from.clone(), path);
    let first = rest.first()?;
    match first.as_str() {
        "crate" => (module, rest) = (Path::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                module.pop();
                rest = &rest[1..];
            }
        }
        _ => {
            let child: Path = module.iter().chain([first]).cloned().collect();
            let is_known =
                modules.known.contains(&child) || modules.files.get(&module)?.names.contains_key(first);
            if !is_known || steps == 0 {
                return None;
            }
        }
    }
    while let Some(name) = rest.first() {
        let child: Path = module.iter().chain([name]).cloned().collect();
        if modules.known.contains(&child) {
            (module, rest) = (child, &rest[1..]);
            continue;
        }
        let passed_on = modules.files.get(&module).and_then(|module| module.names.get(name));
        let Some(passed_on) = passed_on.filter(|path| steps > 0 && path.first() != Some(name)) else { break };
        let whole: Path = passed_on.iter().chain(&rest[1..]).cloned().collect();
        return home(modules, &module, &whole, steps - 1);
    }
    Some(module)
}

/// Of each file, those that it imports.
fn imports(modules: &Modules) -> BTreeMap<&Path, BTreeSet<Path>> {
    let of = |(path, module): (_, &Module)| {
        let homes = module.paths.iter().filter_map(|written| home(modules, path, written, STEPS_MAX));
        let homes = homes.filter(|home| home != path && !home.is_empty() && modules.files.contains_key(home));
        (path, homes.collect())
    };
    modules.files.iter().filter(|(path, _)| !path.is_empty()).map(of).collect()
}

/// What each file imports, over any number of steps.
fn reached(modules: &Modules) -> BTreeMap<&Path, BTreeSet<Path>> {
    let imports = imports(modules);
    let reached = |from: &Path| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(path) = open.pop() {
            let next = imports.get(&path).into_iter().flatten();
            open.extend(next.filter(|path| seen.insert((*path).clone())).cloned());
        }
        seen
    };
    imports.keys().map(|path| (*path, reached(path))).collect()
}

/// Those that import each other, over any number of steps: the most that do.
fn largest_circle(modules: &Modules) -> BTreeSet<&Path> {
    let reached = reached(modules);
    let circle_of = |(path, there): (&&Path, &BTreeSet<Path>)| -> BTreeSet<&Path> {
        let is_back = |other: &&Path| there.contains(*other) && reached[*other].contains(*path);
        reached.keys().copied().filter(is_back).collect()
    };
    reached.iter().map(circle_of).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn circles_of_files_only_get_smaller() {
    let crates = crates(&RUST);
    assert!(crates["engine"].files.len() > 50 && crates.contains_key("loadtest"), "the crates are seen");
    let found: Vec<String> = crates
        .iter()
        .filter_map(|(krate, modules)| {
            let noted = CIRCLES.iter().find(|(name, _)| name == krate).map_or(0, |(_, count)| *count);
            let circle = largest_circle(modules);
            let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
            let what = format!("files of {krate} that import each other ({})", names.join(", "));
            not_as_noted(&what, circle.len(), noted)
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    for (krate, _) in CIRCLES {
        assert!(crates.contains_key(krate), "{krate} must leave the list");
    }
}

/// State below, steps above: what is imported by all steps imports none of them.
#[test]
fn what_the_engines_steps_share_imports_no_step() {
    let crates = crates(&RUST);
    let reached = reached(&crates["engine"]);
    let [core, engine] = ["core", "engine"].map(|name| vec![name.to_owned()]);
    assert!(reached.values().filter(|below| below.contains(&core)).count() > 50, "the steps are seen");
    let circles = [&core, &engine].into_iter().filter(|path| reached[*path].contains(*path));
    assert_eq!(circles.collect::<Vec<_>>(), Vec::<&Path>::new());
    let is_state = |path: &&&Path| path.last().is_some_and(|name| name == "state");
    let states: Vec<_> = reached.keys().filter(is_state).collect();
    assert!(states.len() > 20, "the states are seen");
    let above: Vec<_> = states.into_iter().filter(|path| reached[**path].contains(&core)).collect();
    assert!(above.is_empty(), "{above:?} must not know what they are a part of");
}

fn circle(files: &[(&str, &str)]) -> Vec<String> {
    let file =
        |(path, text): &(&str, &str)| (File::new(&format!("crates/a/src/{path}"), text), without_words(text));
    let files: Vec<(File, String)> = files.iter().map(file).collect();
    let crates = crates(&files);
    largest_circle(&crates["a"]).into_iter().map(|path| path.join("::")).collect()
}

#[test]
fn a_circle_is_found_in_every_way_to_write_it() {
    let ways = [
        "use crate::b::c::D;",
        "use super::b::{c, e::F as G};\nfn f() { c::D }",
        "use crate::{std::x, b::{self, c::{D, E}}};",
        "use crate::b;\nfn f() { b::c::D }",
        "fn f() -> super::b::c::D {}",
        "use crate::D;",
        "use super::passes::D;",
        "use crate::b::c::*;",
    ];
    for way in ways {
        let root = "mod a; mod passes; mod b { mod c; }\npub use b::c::D;";
        let passes = "pub(crate) use crate::b::c::D;";
        let files = [("lib.rs", root), ("a.rs", way), ("b/c.rs", "use crate::a::A;"), ("passes.rs", passes)];
        let found = circle(&files);
        assert!(found.contains(&"a".to_owned()) && found.contains(&"b::c".to_owned()), "{way}: {found:?}");
    }
}

#[test]
fn what_is_no_import_makes_no_circle() {
    let harmless = [
        "// use crate::b::B;",
        "const TEXT: &str = \"use crate::b::B;\";",
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "use other::b::B;",
        "use std::{b::B, c};",
        "fn f() -> impl Iterator<Item = u8> + use<> { b() }",
    ];
    for text in harmless {
        let found = circle(&[("a.rs", text), ("b.rs", "use crate::a::A;")]);
        assert!(found.is_empty(), "{text}: {found:?}");
    }
    let child = circle(&[("a.rs", "mod b;\nuse b::B;"), ("a/b.rs", "use super::A;")]);
    assert_eq!(child, ["a", "a::b"], "a child is a file like any other");
}
