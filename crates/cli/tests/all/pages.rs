//! The other pages, as their readers type them: every page of docs/ with blocks of commands is in the table below. What is said
//! to be run here is run letter for letter, but for what represents something of the reader's own.

use crate::{
    binary::{DURABLE, blocking, servers, wait_for},
    newcomer::{Machine, all_blocks, with},
};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// How many blocks a page has, and what runs them.
const BLOCKS: [(&str, usize, &str); 24] = [
    ("archive", 2, "here"),
    ("backup", 7, "backup::…"),
    ("bulk", 2, "here"),
    ("capacity", 1, "nothing: two minutes of a quiet machine"),
    ("cli", 1, "profile::…, command by command"),
    ("clients", 6, "clients::…"),
    ("cluster", 1, "here"),
    ("doctor", 1, "here, but for jq"),
    ("fair-shares", 1, "here"),
    ("figures", 1, "nothing: it wants a release build"),
    ("from-cron", 2, "here"),
    ("inbox", 2, "inbox::…, command by command"),
    ("install", 7, "newcomer::…"),
    ("queues", 3, "here"),
    ("recipes", 6, "here"),
    ("schedules", 1, "here"),
    ("search", 2, "here"),
    ("sharding", 1, "here"),
    ("troubleshooting", 1, "here"),
    ("testing", 3, "nothing: it is how these tests are run"),
    ("tls", 3, "here"),
    ("tutorial", 9, "newcomer::…"),
    ("upgrade", 1, "newcomer::…"),
    ("workflows", 1, "here"),
];

fn page(name: &str) -> String {
    fs::read_to_string(format!("{DOCS}/{name}.md")).unwrap()
}

fn block(name: &str, nth: usize) -> String {
    all_blocks(&page(name), "sh")[nth].1.to_owned()
}

#[test]
fn every_page_with_commands_is_known_here() {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(DOCS).unwrap().map(|entry| entry.unwrap().path()) {
        let Some(name) = path.to_str().and_then(|text| text.strip_suffix(".md")) else { continue };
        let name = name.rsplit('/').next().unwrap().to_owned();
        let count = all_blocks(&page(&name), "sh").len();
        if count > 0 {
            found.insert(name, count);
        }
    }
    let known = BLOCKS.iter().map(|block| (block.0.to_owned(), block.1)).collect();
    assert_eq!(found, known);
}

/// The command of a block that begins so.
fn line<'b>(block: &'b str, beginning: &str) -> &'b str {
    block.lines().find(|line| line.starts_with(beginning)).expect(beginning)
}

/// What the page of bulk operations finds there.
struct Bulk(Machine);

impl Bulk {
    /// The newest bulk operation of a kind.
    fn newest(&self, action: &str) -> String {
        let all = self.0.ask("bulk list").remove(0)["items"].as_array().unwrap().clone();
        let ids =
            all.iter().filter(|entry| entry["action"] == action).map(|entry| entry["id"].as_i64().unwrap());
        ids.max().expect(action).to_string()
    }

    /// Inserted, and dead of this at once.
    fn dead(&self, error: &str) {
        self.0.run("punctual task insert --queue mail --max-attempts 1");
        let lease = "curl -s localhost:7450/v1/queues/mail/lease -H 'content-type: application/json' -d '{\"max\":1,\"wait_ms\":10000,\"executor\":\"me\"}'";
        let leased: Value = serde_json::from_str(&self.0.run(lease)).unwrap();
        let task = &leased["tasks"][0];
        let outcome = serde_json::json!({"outcomes": [
            {"ref": task["ref"], "token": task["token"], "outcome": "failed", "status_msg": error}]});
        let reported = self.0.run(&format!(
            "curl -s localhost:7450/v1/outcomes -H 'content-type: application/json' -d '{outcome}'"
        ));
        assert!(reported.contains("accepted"), "{reported}");
    }
}

#[test]
fn pages_of_what_an_engine_does() {
    let machine = Machine::new();
    machine.run("punctual serve");
    let queues = machine.run(&block("queues", 0));
    for word in ["concurrency", "the provider is down", "REVISION"] {
        assert!(queues.contains(word), "{word}: {queues}");
    }
    let scanned = machine.run(&block("queues", 1));
    assert!(scanned.contains("found"), "{scanned}");
    machine.run(&block("queues", 2));
    assert_eq!(machine.ask("queue get sms")[0]["while_store_is_away"], "hand_over");
    let schedules = machine.run(&block("schedules", 0));
    assert!(schedules.matches("(in ").count() > 5, "{schedules}");
    machine.run(&block("search", 0));
    machine.run(&block("search", 1));
    assert_eq!(machine.ask("queue get mail")[0]["indexed_labels"], serde_json::json!(["customer", "order"]));
    machine.run(&block("fair-shares", 0));
    let shop = machine.run("punctual namespace get shop --json");
    assert!(shop.contains("\"weight\":3"), "{shop}");
    let log = machine.run(&block("cluster", 0));
    assert!(log.contains("punctual_engine=debug"), "{log}");
    machine.run("punctual work --queue demo --exec cat");
    let workflow = machine.run(&block("workflows", 0));
    assert!(workflow.contains("succeeded"), "{workflow}");
}

#[test]
fn pages_of_patterns_and_of_a_crontab() {
    let machine = Machine::new();
    machine.run("punctual serve");
    for nth in 0..6 {
        machine.run(&block("recipes", nth));
    }
    assert_eq!(machine.tasks("--queue index").len(), 1, "the second insert replaced the first");
    assert_eq!(machine.tasks("--queue reminders --state cancelled").len(), 1);
    machine.run("punctual work --queue approvals --exec 'jq -e .approved'");
    machine.run("punctual work --queue bank --exec cat");
    wait_for("the approved payout", || {
        let all = machine.ask("workflow list --state succeeded").remove(0);
        (all["items"].as_array().unwrap().len() == 1).then_some(())
    });
    fs::write(machine.path("here/crontab.txt"), "0 4 * * * /bin/true\n").unwrap();
    assert!(machine.run(&block("from-cron", 0)).contains("crontab-001"));
    assert!(machine.run(&block("from-cron", 1)).contains("nightly"));
}

#[test]
fn the_page_of_bulk_operations() {
    let bulk = Bulk(Machine::new());
    let machine = &bulk.0;
    machine.run("punctual serve");
    machine.run("punctual task insert --queue mail --delay 1h --label campaign=spring");
    bulk.dead("mailbox full");
    let operations = block("bulk", 0);
    machine.run(line(&operations, "punctual bulk cancel"));
    let id = bulk.newest("cancel");
    machine.run(&with(line(&operations, "punctual bulk confirm"), &[("17", &id)]));
    assert_eq!(machine.tasks("--queue mail --state cancelled").len(), 1);
    machine.run(line(&operations, "punctual bulk redrive"));
    wait_for("the redrive", || machine.tasks("--queue mail --state dead").is_empty().then_some(()));

    bulk.dead("mailbox full");
    let lines = "{\"queue\":\"mail\",\"delay_ms\":90000}\n{\"queue\":\"\"}\n{\"queue\":\"mail\",\"delay_ms\":90000}\n";
    fs::write(machine.path("here/tasks.ndjson"), lines).unwrap();
    let other = Machine::new();
    other.run("punctual serve");
    let there = format!("127.0.0.1:{}", other.port);
    let files = block("bulk", 1);
    for command in files.lines() {
        let command = match command {
            // Some of its lines are refused, and it says so with its exit code.
            command if command.starts_with("punctual task import tasks") => {
                format!("{command} || [ $? = 1 ]")
            }
            command if command.contains("http://other:7450") => command.replace("other:7450", &there),
            command if command.contains("bulk tasks 18") => command.replace("18", &bulk.newest("export")),
            command => command.to_owned(),
        };
        machine.run(&command);
    }
    let read = |name: &str| fs::read_to_string(machine.path(&format!("here/{name}"))).unwrap();
    assert_eq!(other.tasks("--queue mail").len(), 5, "what the one had, the other has");
    assert_eq!(read("rejected.ndjson").lines().count(), 1);
    assert!(read("dead.ndjson").contains("mailbox full") && read("found.ndjson").contains("mailbox full"));
}

#[test]
fn pages_of_an_operator() {
    let machine = Machine::new();
    let (mysql, redis) = blocking(servers());
    let stores: Vec<String> = (0..3).map(|_| blocking(mysql.fresh_database())).collect();
    let stores = stores.join(",");
    let archive = format!("file://{}", machine.text("run/archive"));
    let settings = format!(
        "[store]\nurl = \"{stores}\"\n[hot]\nurl = \"{}\"\n[archive]\nurl = \"{archive}\"\n",
        redis.url()
    );
    fs::create_dir_all(machine.path("root/etc/punctual")).unwrap();
    let file = machine.path("root/etc/punctual/punctual.toml");
    fs::write(&file, settings).unwrap();
    let there = [
        ("PUNCTUAL_STORE_URL", stores),
        ("PUNCTUAL_HOT_URL", redis.url()),
        ("PUNCTUAL_ARCHIVE_URL", archive),
    ];
    machine.run_with("punctual serve", &there);
    for _ in 0..20 {
        machine.run("punctual task insert --queue mail --delay 1h");
    }
    let doctor = block("doctor", 0);
    let own = [("/etc/punctual/punctual.toml", file.to_str().unwrap())];
    // On a busy machine this may be reported.
    let said = machine.run(&format!("{} || true", with(line(&doctor, "punctual doctor --config"), &own)));
    assert!(said.contains("mysql.schema") && said.contains("redis."), "{said}");

    for command in block("sharding", 0).lines() {
        let said = match command {
            // Nothing is there to be revoked.
            command if command.contains("--undo") => {
                machine.run_with(&format!("! {}", command.split('#').next().unwrap()), &there)
            }
            command => machine.run_with(command, &there),
        };
        if command.contains("move --partition 3,7") {
            assert!(said.contains("partition 3 is in database 1 now"), "{said}");
        }
    }
    for command in block("archive", 0).lines() {
        machine.run_with(command, &there);
    }
    assert_eq!(machine.tasks("--queue mail").len(), 20, "none was lost on the way");
}

#[test]
fn the_page_of_a_missing_task() {
    let machine = Machine::new();
    machine.run("punctual serve");
    machine.run("punctual task insert --queue mail --delay 1h");
    for command in block("troubleshooting", 0).lines() {
        let answer = machine.run(command.split('#').next().unwrap());
        if command.contains("shard check") {
            assert!(answer.contains("shard"), "{answer}");
        }
    }
}

/// With what the page names, and nothing of ours, on what a release has written.
#[test]
fn the_page_of_archives_for_whoever_reads_one_without_us() {
    let machine = Machine::new();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/released/0.1.0/days-places.tar.gz");
    machine.run(&format!("tar --no-same-owner -xzf {kept}"));
    let file = machine.run("ls archive/shard-*/*/*.tasks.zst | head -1").trim().to_owned();
    let (directory, name) = file.rsplit_once('/').unwrap();
    let day = directory.rsplit('/').next().unwrap();
    let task: Value = serde_json::from_str(&machine.run(&format!("zstdcat {file} | sed -n 2p"))).unwrap();
    let (reference, id) = (task["ref"].as_str().unwrap(), task["task_id"].to_string());
    let reads = block("archive", 1);
    for (nth, command) in reads.lines().enumerate() {
        let there = if command.contains("shard-*") { "archive" } else { directory };
        let own = command
            .replace("x.tasks.zst", name)
            .replace("2026-11-14", day)
            .replace("t000…", reference)
            .replace("task_id == 42", &format!("task_id == {id}"));
        let said = machine.run(&format!("cd {there}\n{own}"));
        match nth {
            0 => {}
            2 => assert!(said.contains("{\"punctual_archive_end\":1}"), "{said}"),
            _ => assert!(said.contains(reference), "{command}: {said}"),
        }
    }
    assert_eq!(reads.lines().count(), 6);
}

/// A certificate of one's own, a server that has it, a user of Redis with the rights that are named, and addresses in files.
#[test]
fn the_page_of_tls() {
    let machine = Machine::new();
    machine.run(&block("tls", 1));
    let here = machine.text("here");
    let server = [
        format!("--ssl-ca={here}/ca.pem"),
        format!("--ssl-cert={here}/server.pem"),
        format!("--ssl-key={here}/server.key"),
    ];
    let settings = [DURABLE[0], &server[0], &server[1], &server[2], "--require-secure-transport=ON"];
    let (mariadb, redis) = blocking(async { (MariaDb::with(&settings).await, Redis::own().await) });
    let store = blocking(mariadb.fresh_database());
    let port = redis.url().rsplit(':').next().unwrap().to_owned();
    machine.run(&with(&block("tls", 0), &[("redis-cli", &format!("redis-cli -p {port}"))]));
    let etc = machine.path("root/etc/punctual");
    fs::create_dir_all(&etc).unwrap();
    fs::write(etc.join("hot-url"), format!("redis://punctual:PASSWORD@127.0.0.1:{port}\n")).unwrap();
    let addresses = block("tls", 2);
    let store = format!("{}?ssl-ca={here}/ca.pem", store.split('?').next().unwrap());
    let page = "mysql://punctual:PASSWORD@db.example/punctual?ssl-ca=/etc/punctual/ca.pem";
    let own = [(page, store.as_str()), ("/etc/punctual", etc.to_str().unwrap())];
    machine.run(&with(&addresses, &own));
    machine.run("punctual task insert --queue mail --delay 1h");
    assert_eq!(machine.tasks("--queue mail").len(), 1);
    let clients = machine.run(&format!("redis-cli -p {port} CLIENT LIST"));
    assert!(clients.contains("user=punctual"), "{clients}");
}
