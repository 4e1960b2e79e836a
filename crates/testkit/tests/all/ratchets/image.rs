//! What an image is built of, and that its dependencies are a layer of their own: `deploy/Containerfile`, `deploy/stubs` and
//! `.dockerignore`. Builds no image: there need be no container engine where the tests run.

use super::{
    licences::metadata,
    tree::{File, all, root},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

/// What is compiled: each package but for where it lies, with its features.
fn resolved(metadata: &Value) -> BTreeSet<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| {
            let id = node["id"].as_str().unwrap();
            let id = if id.starts_with("path+") { id.rsplit('/').next().unwrap() } else { id };
            format!("{id} {}", node["features"])
        })
        .collect()
}

/// What cargo builds or must find of the workspace's own: programs, libraries, benches. Tests and examples may be missing.
fn targets(metadata: &Value) -> BTreeSet<String> {
    let own = metadata["packages"].as_array().unwrap().iter().filter(|package| package["source"].is_null());
    let mut found = BTreeSet::new();
    for package in own {
        for target in package["targets"].as_array().unwrap() {
            let is_there = Path::new(target["src_path"].as_str().unwrap()).is_file();
            let kind = target["kind"][0].as_str().unwrap();
            if is_there && !["test", "example"].contains(&kind) {
                found.insert(format!("{} {kind} {}", package["name"], target["name"]));
            }
        }
    }
    found
}

fn stubs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let said = Command::new(root().join("deploy/stubs")).arg(dir.path()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    dir
}

/// A manifest or a target that was forgotten would be refused by cargo or missing here.
#[test]
fn the_layer_of_the_dependencies_has_every_manifest_and_resolves_as_the_workspace_does() {
    let dir = stubs();
    let (whole, stubbed) = (metadata(root()), metadata(dir.path()));
    assert_eq!(resolved(&stubbed), resolved(&whole));
    assert_eq!(targets(&stubbed), targets(&whole));
    assert!(targets(&whole).len() > 20, "{:?}", targets(&whole));
}

#[test]
fn the_layer_of_the_dependencies_rests_on_manifests_and_on_nothing_else() {
    let dir = stubs();
    let files = files_below(dir.path());
    assert!(files.len() > 40, "{files:?}");
    let mut sources = BTreeSet::new();
    for path in files {
        let name = path.strip_prefix(dir.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH, "{name:?}");
        if name.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(text);
        } else {
            assert_eq!(text, read(name.to_str().unwrap()), "{name:?}");
        }
    }
    assert_eq!(sources.len(), 1, "a stub has nothing of the source in its place: {sources:?}");
}

/// The commands of each stage, by the stage's name; a line that goes on is one.
fn stages(image: &str) -> BTreeMap<String, Vec<String>> {
    let joined = image.replace("\\\n", " ");
    let (mut stages, mut stage) = (BTreeMap::<String, Vec<String>>::new(), String::new());
    for line in joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let command = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match command.strip_prefix("FROM ") {
            Some(from) => stage = from.split(" AS ").nth(1).unwrap_or("last").to_owned(),
            None => stages.entry(stage.clone()).or_default().push(command),
        }
    }
    stages
}

#[test]
fn the_image_compiles_its_dependencies_before_it_sees_a_source() {
    let image = read("deploy/Containerfile");
    let stages = stages(&image);
    assert!(stages["manifests"].contains(&"RUN deploy/stubs /stubs".to_owned()));

    let copies = |name: &str| -> Vec<&str> {
        stages[name].iter().filter_map(|command| command.strip_prefix("COPY ")).collect()
    };
    assert_eq!(copies("dependencies"), ["--from=manifests /stubs ."]);
    assert_eq!(copies("build"), [". ."]);
    assert!(image.contains("\nFROM dependencies AS build\n"));

    let builds = |name: &str| -> Vec<&str> {
        let parts = stages[name].iter().flat_map(|command| command.split("&&"));
        parts
            .map(|part| part.trim().trim_start_matches("RUN "))
            .filter(|part| part.contains("cargo build"))
            .collect()
    };
    assert_eq!(builds("dependencies").len(), 1);
    assert_eq!(
        builds("dependencies"),
        builds("build"),
        "another command would compile the dependencies again"
    );
    let seen_as_new = stages["build"].iter().any(|command| command.contains("touch {} + && cargo build"));
    assert!(seen_as_new, "sources that are older than the stubs' build are taken for built");
}

/// As `.dockerignore` must have it: without a slash a pattern of `.gitignore` is for any directory.
fn ignored(gitignore: &str) -> BTreeSet<String> {
    let patterns = gitignore.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let everywhere = patterns.map(|line| match line.strip_prefix('/') {
        Some(at_the_root) => at_the_root.to_owned(),
        None if line.contains('/') => line.to_owned(),
        None => format!("**/{line}"),
    });
    everywhere.chain([".git", "docs"].map(str::to_owned)).collect()
}

#[test]
fn an_image_is_not_built_of_what_is_not_committed_nor_of_pages() {
    let dockerignore = read(".dockerignore");
    let patterns = dockerignore.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(patterns.map(str::to_owned).collect::<BTreeSet<_>>(), ignored(&read(".gitignore")));
}

fn is_built_of_a_page(file: &File) -> Vec<String> {
    if !file.is_rust() || !file.is_product() {
        return vec![];
    }
    let lines = file.product_lines().filter(|line| line.contains(concat!("../do", "cs/")));
    lines.map(|line| format!("{}: {}", file.path, line.trim())).collect()
}

#[test]
fn no_source_of_the_product_is_built_of_a_page() {
    let found: Vec<String> = all().iter().flat_map(is_built_of_a_page).collect();
    assert_eq!(found, [""; 0]);
    let text = concat!("//! Top.\nconst PAGE: &str = include_str!(\"../../../do", "cs/a.md\");\n");
    assert_eq!(is_built_of_a_page(&File::new("crates/a/src/b.rs", text)).len(), 1);
}
