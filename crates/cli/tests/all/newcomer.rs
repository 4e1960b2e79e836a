//! README.md, docs/tutorial.md, docs/install.md and docs/upgrade.md as a newcomer types them: every block of commands is run, letter for
//! letter, but for what is said to stand for something of the reader's own (a reference, a token, a host). What would touch the machine meets
//! `tests/newcomer/shim`: packages, services and ports are the test's own.
//!
//! Seen to fail: with `cargo run -- serve` in the README; with an older version in the name of the package.

use crate::binary::{blocking, servers, stderr, stdout, wait_for};
use punctual_testkit::{certificates::Authority, servers::free_port};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");
const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
const INSTALL: &str = include_str!("../../../../docs/install.md");
const UPGRADE: &str = include_str!("../../../../docs/upgrade.md");
const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/newcomer/shim");
const COMMANDS: [&str; 12] = [
    "punctual",
    "cargo",
    "curl",
    "pkill",
    "install",
    "sudo",
    "apt",
    "sudoedit",
    "systemctl",
    "journalctl",
    "podman",
    "kubectl",
];

/// Blocks that a page has below a heading, and what of them is run here; why not, where it is not.
const OF_README: [(&str, usize, &str); 2] =
    [("Punctual", 1, "dev is run by dev::…, and scripts/test runs this"), ("Five minutes", 4, "")];
const OF_TUTORIAL: [(&str, usize, &str); 9] = [
    ("Crash and recovery", 1, ""),
    ("A worker in one line", 1, ""),
    ("Executors and dead letters", 1, ""),
    ("Limits, pause, caps", 1, ""),
    ("A file of tasks", 1, ""),
    ("Schedules", 1, ""),
    ("Workflows, and many tasks at once", 1, ""),
    ("Many engines", 1, ""),
    ("On a network", 1, ""),
];
const OF_INSTALL: [(&str, usize, &str); 5] = [
    ("From source", 1, ""),
    ("Debian package, systemd", 2, ""),
    ("A first token", 2, ""),
    ("Kubernetes, containers", 1, ""),
    ("Monitoring", 1, ""),
];
const OF_UPGRADE: [(&str, usize, &str); 1] = [("One engine", 1, "")];

/// The unit's `ExecStart`, but for the port, which is the test's.
const AS_THE_UNIT: &str = "sudo env -u PUNCTUAL_LISTEN punctual serve --config /etc/punctual/punctual.toml";

/// Of one language, with the headings that they are below.
pub(crate) fn all_blocks<'p>(page: &'p str, language: &str) -> Vec<(&'p str, &'p str)> {
    let fence = format!("```{language}");
    let (mut heading, mut found, mut block, mut offset) = ("", Vec::new(), None, 0);
    for line in page.split_inclusive('\n') {
        match (line.trim_end(), block) {
            (text, None) if text == fence => block = Some(offset + line.len()),
            ("```", Some(from)) => {
                found.push((heading, &page[from..offset]));
                block = None;
            }
            (text, None) if text.starts_with('#') => heading = text.trim_start_matches('#').trim(),
            _ => {}
        }
        offset += line.len();
    }
    found
}

fn blocks<'p>(page: &'p str, heading: &str) -> Vec<&'p str> {
    let all = all_blocks(page, "sh");
    let found: Vec<&str> = all.into_iter().filter(|pair| pair.0 == heading).map(|pair| pair.1).collect();
    assert!(!found.is_empty(), "{heading}");
    found
}

#[test]
fn every_block_of_commands_of_these_pages_is_known_here() {
    for (page, known) in [
        (README, &OF_README[..]),
        (TUTORIAL, &OF_TUTORIAL[..]),
        (INSTALL, &OF_INSTALL[..]),
        (UPGRADE, &OF_UPGRADE[..]),
    ] {
        let mut counted = Vec::<(&str, usize)>::new();
        for (heading, _) in all_blocks(page, "sh") {
            match counted.iter_mut().find(|pair| pair.0 == heading) {
                Some(pair) => pair.1 += 1,
                None => counted.push((heading, 1)),
            }
        }
        assert_eq!(counted, known.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>());
    }
}

/// What represents something of the reader's own.
pub(crate) fn with(block: &str, own: &[(&str, &str)]) -> String {
    own.iter().fold(block.to_owned(), |block, (current, own)| {
        assert!(block.contains(current), "{current} in {block}");
        block.replace(current, own)
    })
}

/// A machine of the newcomer's: a directory to stand in, a root, a port.
pub(crate) struct Machine {
    directory: TempDir,
    pub(crate) port: u16,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["shims", "run", "root", "here/scripts"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for command in COMMANDS {
            symlink(SHIM, directory.path().join("shims").join(command)).unwrap();
        }
        for script in ["package", "stack"] {
            symlink(SHIM, directory.path().join("here/scripts").join(script)).unwrap();
        }
        let port = free_port();
        Self { directory, port }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A block, letter for letter; what it said.
    pub(crate) fn run(&self, block: &str) -> String {
        self.run_with(block, &[])
    }

    pub(crate) fn run_with(&self, block: &str, variables: &[(&str, String)]) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let find =
            |name: &str| path.split(':').map(|part| Path::new(part).join(name)).find(|path| path.is_file());
        let curl = find("curl").expect("these pages ask for curl");
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", block]).current_dir(self.path("here"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
            bash.env_remove(name);
        }
        bash.env("PATH", format!("{}:{}:{path}", self.text("shims"), self.text("root/usr/local/bin")))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("NEWCOMER_BIN", env!("CARGO_BIN_EXE_punctual"))
            .env("NEWCOMER_ROOT", self.path("root"))
            .env("NEWCOMER_RUN", self.path("run"))
            .env("NEWCOMER_SHIMS", self.path("shims"))
            .env("NEWCOMER_REPO", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("NEWCOMER_PORT", self.port.to_string())
            .env("NEWCOMER_VERSION", env!("CARGO_PKG_VERSION"))
            .env("NEWCOMER_CURL", curl)
            .env("PUNCTUAL_LISTEN", format!("127.0.0.1:{}", self.port))
            .envs(variables.iter().map(|(name, value)| (name, value)));
        let ran = bash.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "{}{}\n{block}", stderr(&ran), stdout(&ran));
        stdout(&ran)
    }

    /// What a person does in an editor: each line of a block of the page comes below its table.
    fn edit_settings(&self, block: &str) {
        let path = self.path("root/etc/punctual/punctual.toml");
        let mut settings: Vec<String> =
            fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let mut below = 0;
        for line in block.lines().filter(|line| !line.is_empty()) {
            if line.starts_with('[') {
                below =
                    1 + settings.iter().position(|there| there == line).expect("the package's file has it");
            } else {
                settings.insert(below, line.to_owned());
            }
        }
        fs::write(&path, settings.join("\n")).unwrap();
    }

    /// The documents that a command with `--json` says.
    pub(crate) fn ask(&self, args: &str) -> Vec<Value> {
        self.run(&format!("punctual {args} --json"))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn tasks(&self, query: &str) -> Vec<Value> {
        self.ask(&format!("task list {query}")).remove(0)["items"].as_array().unwrap().clone()
    }
}

/// What the page says to write into the settings.
fn settings_below(heading: &str) -> &'static str {
    all_blocks(INSTALL, "toml").into_iter().find(|block| block.0 == heading).expect(heading).1
}

impl Drop for Machine {
    fn drop(&mut self) {
        let started = fs::read_to_string(self.path("run/pids")).unwrap_or_default();
        let pids: Vec<&str> = started.lines().collect();
        if !pids.is_empty() {
            let _ = Command::new("kill").arg("-9").args(pids).stderr(std::process::Stdio::null()).status();
        }
    }
}

#[test]
fn five_minutes_with_the_readme_and_the_tutorial() {
    let machine = Machine::new();
    let minutes = blocks(README, "Five minutes");
    machine.run(minutes[0]);
    let said = machine.run(minutes[1]);
    let mut answers = serde_json::Deserializer::from_str(&said).into_iter::<Value>().map(Result::unwrap);
    let (inserted, leased) = (answers.next().unwrap(), answers.next().unwrap());
    let task = &leased["tasks"][0];
    assert_eq!((&task["ref"], &task["payload"]["to"]), (&inserted["ref"], &"ada".into()));
    assert!(machine.run(minutes[2]).contains("accepted"));
    let cancelled = machine.run(minutes[3]);
    assert!(cancelled.contains("\"outcome\":\"cancelled\"") && cancelled.contains("\"state\":\"cancelled\""));
    machine.run(blocks(TUTORIAL, "Crash and recovery")[0]);
    assert_eq!(machine.tasks("--queue mail --phase pending").len(), 3, "they outlived the plug");
    machine.run(blocks(TUTORIAL, "A worker in one line")[0]);
    machine.run("punctual task insert --queue mail --payload '{\"to\":\"grace\"}'");
    wait_for("the worker's task", || {
        let done = machine.tasks("--queue mail --state succeeded");
        done.iter().any(|entry| entry["result"]["result"] == "grace").then_some(())
    });
    let worker = wait_for("the worker's name", || {
        let executors = machine.ask("executor list").remove(0)["items"].as_array().unwrap().clone();
        let mut names = executors.iter().map(|executor| executor["name"].as_str().unwrap().to_owned());
        names.find(|name| name.starts_with("worker-"))
    });
    machine.run(&with(blocks(TUTORIAL, "Executors and dead letters")[0], &[("worker-4711-a1b2", &*worker)]));
    let limits = machine.run(blocks(TUTORIAL, "Limits, pause, caps")[0]);
    assert!(limits.contains("provider is down"), "{limits}");
    fs::write(
        machine.path("here/tasks.ndjson"),
        "{\"queue\":\"mail\",\"delay_ms\":90000}\n{\"queue\":\"mail\"}\n",
    )
    .unwrap();
    machine.run(blocks(TUTORIAL, "A file of tasks")[0]);
    let next = machine.run(blocks(TUTORIAL, "Schedules")[0]);
    assert!(next.lines().count() >= 5, "{next}");
    machine.run(blocks(TUTORIAL, "Workflows, and many tasks at once")[0]);
    assert_eq!(machine.ask("workflow list")[0]["items"].as_array().unwrap().len(), 1);
}

/// Seen to fail: with partition 3, as the page said once, which is in database 1 from the start.
#[test]
fn many_engines_with_the_tutorial() {
    let machine = Machine::new();
    let (mysql, redis) = blocking(servers());
    let stores = [blocking(mysql.fresh_database()), blocking(mysql.fresh_database())].join(",");
    let hot = redis.url();
    let block = with(blocks(TUTORIAL, "Many engines")[0], &[("mysql://…", &stores), ("redis://…", &hot)]);
    let (until_serve, rest) = block.split_at(block.find("cargo run --release -- shard plan").unwrap());
    machine.run(until_serve);
    let there = [("PUNCTUAL_STORE_URL", stores), ("PUNCTUAL_HOT_URL", hot)];
    machine.run_with("punctual serve --listen 127.0.0.1:0", &there);
    wait_for("both to share", || {
        let engines = machine.ask("engine list").remove(0)["items"].as_array().unwrap().clone();
        let owned = engines.iter().filter(|engine| engine["partitions"].as_u64() > Some(0));
        (owned.count() == 2).then_some(())
    });
    let said = machine.run_with(rest, &there);
    assert!(said.contains("partition 2 is in database 1 now"), "{said}");
    machine.run("punctual task insert --queue mail");
    assert_eq!(machine.tasks("--queue mail").len(), 1);
}

#[test]
fn on_a_network_with_the_tutorial() {
    let machine = Machine::new();
    let files = Authority::new().issue_loopback().write_to(&machine.path("here"));
    let block = blocks(TUTORIAL, "On a network")[0];
    let (token, rest) = block.split_at(block.find("cargo run --release -- serve").unwrap());
    let made = machine.run(token);
    let secret =
        made.split_whitespace().find(|word| word.starts_with("punctual_")).expect("it is printed").to_owned();
    let url = format!("https://127.0.0.1:{}", machine.port);
    let cert = files.cert.to_str().unwrap();
    let own = [
        ("server.pem", cert),
        ("server.key", files.key.to_str().unwrap()),
        ("https://punctual.example:7450", &url),
        ("punctual_…", &secret),
        ("=ca.pem", &format!("={}", files.ca.display())),
    ];
    let said = machine.run(&with(rest, &own));
    assert!(said.contains("shop"), "{said}");
}

#[test]
fn from_source_with_the_install_page() {
    let machine = Machine::new();
    machine.run(blocks(INSTALL, "From source")[0]);
    machine.run("punctual task insert --queue mail");
    assert!(machine.path("here/punctual-data").is_dir());
    machine.run(blocks(INSTALL, "Kubernetes, containers")[0]);
}

#[test]
fn from_the_package_to_the_first_task_with_a_token_over_tls() {
    let machine = Machine::new();
    let (live, first) = (blocks(INSTALL, "Debian package, systemd")[0], blocks(INSTALL, "A first token"));
    let (install, look) = live.split_once("systemctl status").unwrap();
    machine.run(install);
    let made = machine.run(first[0]);
    let secret =
        made.split_whitespace().find(|word| word.starts_with("punctual_")).expect("it is printed").to_owned();
    let tls = machine.path("root/etc/punctual/tls");
    fs::create_dir_all(&tls).unwrap();
    let files = Authority::new().issue_loopback().write_to(&tls);
    let (cert, key) = (files.cert.to_str().unwrap(), files.key.to_str().unwrap());
    let own = [
        ("/etc/punctual/tls/cert.pem", cert),
        ("/etc/punctual/tls/key.pem", key),
        ("0.0.0.0:7450", &format!("0.0.0.0:{}", machine.port)),
    ];
    machine.edit_settings(&with(settings_below("A first token"), &own));
    machine.run(AS_THE_UNIT);
    machine.run(&format!("systemctl status{look}"));
    let url = format!("https://127.0.0.1:{}", machine.port);
    let token = format!("TOKEN={secret}");
    let own = [("https://punctual.example:7450", &*url), ("TOKEN=...", &*token)];
    let ca = [("PUNCTUAL_CA_FILE", files.ca.to_str().unwrap().to_owned())];
    machine.run_with(&with(first[1], &own), &ca);
    let there = [("PUNCTUAL_URL", url.clone()), ("PUNCTUAL_TOKEN", secret), ca[0].clone()];
    let monitoring = with(blocks(INSTALL, "Monitoring")[0], &[("https://punctual.example:7450", &*url)]);
    assert!(machine.run_with(&monitoring, &there[1..]).contains("punctual_"));
    wait_for("the first task", || {
        let listed = machine.run_with("punctual task list --queue mail --json", &there);
        let listed: Value = serde_json::from_str(listed.trim()).unwrap();
        (listed["items"][0]["result"]["result"]["to"] == "ada").then_some(())
    });
    let upgrade = blocks(UPGRADE, "One engine")[0];
    let package = format!("target/debian/punctual_{}_amd64.deb", env!("CARGO_PKG_VERSION"));
    let own = [("scripts/backup ...", "true"), ("punctual_NEW_amd64.deb", package.as_str())];
    // In a terminal it is no failure that grep finds nothing.
    let own = [own[0], own[1], ("grep -i migrat ", "grep -ic migrat || true ")];
    assert!(machine.run(&with(upgrade, &own)).contains("0 wrong"));
}

#[test]
fn the_first_token_comes_into_mysql_and_the_doctor_looks_at_it() {
    let machine = Machine::new();
    let blocks_of_package = blocks(INSTALL, "Debian package, systemd");
    machine.run(blocks_of_package[0].split_once("systemctl status").unwrap().0);
    machine.run(blocks_of_package[1]);
    let (mysql, redis) = blocking(servers());
    let store_url = blocking(mysql.fresh_database());
    for (name, url) in [("store.url", store_url), ("hot.url", redis.url())] {
        let file = machine.path(&format!("root/etc/punctual/{name}"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        // As an editor leaves it.
        fs::write(file, url + "\n").unwrap();
    }
    let root = machine.text("root");
    let etc = format!("{root}/etc/punctual/");
    let own = [("/etc/punctual/", etc.as_str())];
    machine.edit_settings(&with(settings_below("Debian package, systemd"), &own));
    let listen = format!("listen = \"127.0.0.1:{}\"\n", machine.port);
    machine.edit_settings(&listen);

    let made = machine.run(blocks(INSTALL, "A first token")[0]);
    let secret = made.split_whitespace().find(|word| word.starts_with("punctual_")).expect("it is printed");
    machine.run(AS_THE_UNIT);
    let there = [("PUNCTUAL_TOKEN", secret.to_owned())];
    assert!(machine.run_with("punctual token list --server http://localhost:7450", &there).contains("admin"));
    let files = fs::read_dir(machine.path("root/var/lib/punctual")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["journal"], "no database was made there");
    let doctor = blocks(UPGRADE, "One engine")[0].lines().find(|line| line.contains("doctor")).unwrap();
    // On a busy machine this may be reported.
    let said = machine.run(&format!("{doctor} || true"));
    assert!(said.contains("mysql.schema") && said.contains("redis."), "{said}");
}
