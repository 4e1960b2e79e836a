//! The console as a person has it: the binary, on both kinds of store, driven by real Chromium through the flows of `tests/console`.
//! One browser for all flows of a kind; each flow has its own cookies and its own queues. A flow that fails says what it waited for, and
//! where there is a picture of what it saw. What they need is installed by `scripts/install-servers` and `scripts/install-clients`.

use crate::{
    binary::{Running, address, blocking, punctual, servers},
    clients::tools,
};
use jiff::Timestamp;
use punctual_testkit::patience::HANG_LIMIT;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const TOKEN: &str = "console-driven-by-chromium-0123456789abcdef";
/// A walk through each page: what `scripts/test` does.
const WALK: &str = "every_page";
/// What the nightly run does, too, beside each other, the longest first.
const FLOWS: [&str; 13] = [
    "sessions",
    "live",
    "cancel",
    "bulk",
    "redrive",
    "limits",
    "changes",
    "machines",
    "access",
    "looks",
    "roles",
    "schedules",
    "workflows",
];
/// Others would not survive it.
const ALONE: [&str; 1] = ["dying"];

/// Where the flows find a server, and how it is started again.
struct ConsoleSite {
    settings: Vec<(&'static str, String)>,
    process: Running,
    url: String,
}

impl ConsoleSite {
    fn start(settings: Vec<(&'static str, String)>) -> Self {
        let mut process = Running::start(&mut Self::command(&settings, "127.0.0.1:0"));
        let url = address(&process.first_line());
        Self { settings, process, url }
    }

    fn command(settings: &[(&'static str, String)], listen: &str) -> Command {
        let mut command = punctual(&["serve", "--listen", listen, "--json"]);
        command.env("PUNCTUAL_AUTH_ADMIN_TOKEN", TOKEN);
        command.envs(settings.iter().map(|setting| (setting.0, &setting.1)));
        command
    }

    fn kill(&mut self) {
        self.process.signal("-KILL");
        self.process.ended();
    }

    /// At the same address.
    fn start_again(&mut self) {
        let listen = self.url.trim_start_matches("http://");
        self.process = Running::start(&mut Self::command(&self.settings, listen));
        assert_eq!(address(&self.process.first_line()), self.url);
    }
}

/// Killed with the test; the browser ends with it, as the pipe between them does.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The flows, and beside them what they import.
fn copied(to: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console");
    for below in ["", "flows"] {
        fs::create_dir_all(to.join(below)).unwrap();
        for file in fs::read_dir(from.join(below)).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                fs::copy(file.path(), to.join(below).join(file.file_name())).unwrap();
            }
        }
    }
    std::os::unix::fs::symlink(tools().join("node_modules"), to.join("node_modules")).unwrap();
    to.join("main.mjs")
}

/// The cookie of a session that ended a second ago, as the server would have sealed it for the holder of the token twelve hours before.
fn ended_session() -> String {
    const CONTEXT: &str = "punctual console 2026-11-24 seals of sessions and forms";
    let until_ms = Timestamp::now().as_millisecond() - 1_000;
    let key = blake3::derive_key(CONTEXT, TOKEN.as_bytes());
    let seal = blake3::keyed_hash(&key, format!("session\n{until_ms}").as_bytes()).to_hex();
    format!("v1.{until_ms}.{}.{seal}", TOKEN.replace('-', "%2D"))
}

fn drive(site: &mut ConsoleSite) {
    // It stays when a flow has failed: pictures are in it.
    let directory = tempfile::tempdir().unwrap();
    let main = copied(directory.path());
    let only = std::env::var("CONSOLE_FLOW").ok();
    let is_nightly = std::env::var_os("PUNCTUAL_NIGHTLY").is_some();
    let is_wanted = |flow: &&str| match only.as_deref() {
        Some(only) => *flow == only,
        None => is_nightly || *flow == WALK,
    };
    let flows: Vec<&str> = [WALK].into_iter().chain(FLOWS).chain(ALONE).filter(is_wanted).collect();
    let setup = json!({"url": site.url, "token": TOKEN, "directory": directory.path(), "axe": true, "ended": ended_session(), "hang_limit_ms": HANG_LIMIT.as_secs() * 1_000, "flows": flows, "alone": ALONE});
    let file = directory.path().join("setup.json");
    fs::write(&file, setup.to_string()).unwrap();
    let mut node = Command::new("node");
    node.arg(main).arg(file).current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut driver = Driver(node.spawn().unwrap());
    let mut answers = driver.0.stdin.take().unwrap();
    let mut ended = Vec::new();
    let mut faults = Vec::new();
    for line in BufReader::new(driver.0.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        match said["please"].as_str() {
            Some("kill") => site.kill(),
            Some("start") => site.start_again(),
            Some(other) => panic!("{other}"),
            None => {
                ended.push(said["flow"].as_str().unwrap().to_owned());
                faults.extend(said["fault"].as_str().map(|fault| format!("{}: {fault}", said["flow"])));
                continue;
            }
        }
        writeln!(answers, "done").unwrap();
    }
    if !faults.is_empty() {
        let kept = directory.keep();
        panic!(
            "{} of {} flows failed: {}\n\npictures in {}\n\n{}",
            faults.len(),
            flows.len(),
            faults.iter().filter_map(|fault| fault.lines().next()).collect::<Vec<_>>().join("; "),
            kept.display(),
            faults.join("\n\n")
        );
    }
    ended.sort();
    let mut wanted = flows;
    wanted.sort_unstable();
    assert_eq!(ended, wanted, "every flow has ended");
}

#[test]
fn an_operator_works_with_the_console_of_the_embedded_default_in_chromium() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap().to_owned();
    drive(&mut ConsoleSite::start(vec![("PUNCTUAL_DATA", data)]));
}

#[test]
fn an_operator_works_with_the_console_on_mysql_and_redis_in_chromium() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    let site = vec![("PUNCTUAL_STORE_URL", store), ("PUNCTUAL_HOT_URL", redis.url())];
    drive(&mut ConsoleSite::start(site));
}
