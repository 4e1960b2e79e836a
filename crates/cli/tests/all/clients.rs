//! Clients that generators make of the OpenAPI document, as `docs/clients.md` says: its own blocks are run, with a token and
//! over TLS. What it installs is installed by `scripts/install-clients`, in the same versions.
//!
//! Seen to fail: with an operation that the generator leaves out; with a required field that answers leave out.

use crate::binary::{Running, Server, address, punctual, stderr, stdout};
use punctual_testkit::certificates::{Authority, Files};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../../docs/clients.md");
const PYTHON: &str = include_str!("../../../../scripts/clients/requirements.txt");
const NODE: &str = include_str!("../../../../scripts/clients/package.json");
const TOKEN: &str = "clients-of-generators-0123456789abcdef";

/// The blocks of a language below a heading.
fn blocks(section: &str, language: &str) -> Vec<&'static str> {
    let heading = format!("\n## {section}\n");
    let (_, rest) = PAGE.split_once(&heading).unwrap();
    let part = rest.split("\n## ").next().unwrap();
    let fence = format!("```{language}\n");
    part.split(&fence).skip(1).map(|part| part.split_once("```").unwrap().0).collect()
}

/// What `scripts/install-clients` has installed.
pub(crate) fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("clients");
    assert!(tools.join("installed").is_file(), "these tests need what scripts/install-clients installs");
    tools
}

/// A server with TLS and a token, and a directory where the page is followed.
struct ClientsSite {
    server: Server,
    files: Files,
    directory: TempDir,
}

impl ClientsSite {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(tools().join("node_modules"), directory.path().join("node_modules"))
            .unwrap();
        let files = Authority::new().issue_loopback().write_to(directory.path());
        let data = directory.path().join("data");
        let mut command = Server::command(&data, &[]);
        command.env("PUNCTUAL_TLS_CERT", &files.cert).env("PUNCTUAL_TLS_KEY", &files.key);
        let mut process = Running::start(command.env("PUNCTUAL_AUTH_ADMIN_TOKEN", TOKEN));
        let url = address(&process.first_line());
        Self { server: Server { process, url }, files, directory }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// A block of the page, letter for letter.
    fn run(&self, block: &str) -> Output {
        let binary = Path::new(env!("CARGO_BIN_EXE_punctual")).parent().unwrap();
        let mut path = vec![binary.to_owned(), tools().join("venv/bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", block]).current_dir(self.directory.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
            bash.env_remove(name);
        }
        bash.env("PATH", std::env::join_paths(path).unwrap())
            .env("PUNCTUAL_URL", &self.server.url)
            .env("PUNCTUAL_TOKEN", TOKEN)
            .env("PUNCTUAL_CA_FILE", &self.files.ca)
            .env("NODE_EXTRA_CA_CERTS", &self.files.ca);
        let ran = bash.output().unwrap();
        assert!(ran.status.success(), "{block}\n{}{}", stdout(&ran), stderr(&ran));
        ran
    }

    /// By name, as the command line says them: what the worker believes is not what counts.
    fn states(&self, queue: &str) -> Vec<(String, String)> {
        let mut list = punctual(&["task", "list", "--queue", queue, "--json"]);
        list.env("PUNCTUAL_URL", &self.server.url).env("PUNCTUAL_CA_FILE", &self.files.ca);
        let listed = list.env("PUNCTUAL_TOKEN", TOKEN).output().unwrap();
        assert!(listed.status.success(), "{}", stderr(&listed));
        let page = crate::binary::documents(&listed).remove(0);
        let word = |task: &Value, name: &str| task[name].as_str().unwrap().to_owned();
        let mut states: Vec<_> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (word(entry, "kind"), word(entry, "state")))
            .collect();
        states.sort();
        states
    }
}

/// Three tasks: two ran, one has no handler.
fn ended() -> Vec<(String, String)> {
    let states = [("greet", "succeeded"), ("greet", "succeeded"), ("unknown", "dead")];
    states.map(|(kind, state)| (kind.to_owned(), state.to_owned())).into()
}

/// All but the first block of the section, which installs what is installed.
fn follow(section: &str, language: &str, file: &str) {
    let site = ClientsSite::new();
    let shell = blocks(section, "sh");
    assert_eq!(shell.len(), 3, "a block stands where this test does not look");
    site.write(file, blocks(section, language)[0]);
    let made = site.run(shell[1]);
    // The generator says what it cannot express, and leaves it out.
    let said = stdout(&made) + &stderr(&made);
    assert!(!said.to_lowercase().contains("warning"), "{said}");
    assert_eq!(stdout(&site.run(shell[2])), blocks(section, "text")[0]);
    assert_eq!(site.states(section.to_lowercase().as_str()), ended());
}

#[test]
fn a_worker_in_python_with_a_generated_client_runs_tasks_with_a_token_over_tls() {
    follow("Python", "python", "worker.py");
}

#[test]
fn a_worker_in_typescript_with_a_generated_client_runs_tasks_with_a_token_over_tls() {
    follow("TypeScript", "ts", "worker.mts");
}

#[test]
fn the_versions_that_the_page_names_are_those_that_are_installed() {
    for named in blocks("Python", "sh")[0].split_whitespace().filter(|word| word.contains("==")) {
        assert!(PYTHON.lines().any(|line| line.split_whitespace().next() == Some(named)), "{named}");
    }
    let pinned: Value = serde_json::from_str(NODE).unwrap();
    let named = blocks("TypeScript", "sh")[0].split_whitespace().filter_map(|word| word.rsplit_once('@'));
    let mut count = 0;
    for (package, version) in named {
        let of = |kind: &str| pinned[kind][package].as_str() == Some(version);
        assert!(of("dependencies") || of("devDependencies"), "{package}");
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn the_document_is_the_same_from_the_command_line_and_from_the_server() {
    let (server, _data) = Server::on_new_data();
    let printed = crate::binary::run(&["openapi"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, server.get("/openapi.json").1);
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("openapi.json");
    assert!(crate::binary::run(&["openapi", "--to", to.to_str().unwrap()]).status.success());
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(to).unwrap()).unwrap(), printed);
}
