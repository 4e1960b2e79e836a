//! Every command of the binary, found by walking its own help: one that changes something leaves an entry in the audit, or the
//! histories of tasks say who did it. A command that is not in the table fails the walk.
//!
//! Seen to fail: with a command taken out of the table; with `migrate` as it was, without an entry; with an upgrade by `serve`
//! that is not noted.

use crate::binary::{Running, Server, blocking, documents, mariadb, punctual, run, servers, stderr, stdout};
use std::{collections::BTreeSet, process::Command};

#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// It changes nothing that anybody else sees.
    Nothing,
    /// What it does to tasks, their histories say.
    Histories,
    /// It runs an engine, or what an engine has; what is asked of that is audited there.
    Engine,
    /// This entry, by the server that it asks: what is said after its name, `{ref}` being a task, `{crontab}` a file.
    ByServer(&'static [&'static str], &'static str),
    /// This entry, written by itself on a store, `{id}` being a token.
    ByItself(&'static [&'static str], &'static str),
}

use Leaves::{ByItself, ByServer, Engine, Histories, Nothing};

/// In the order in which the commands on a store are tried: some need what others have made.
const COMMANDS: &[(&str, Leaves)] = &[
    ("dev", Engine),
    ("serve", Engine),
    ("work", Histories),
    ("task insert", Histories),
    ("task import", Histories),
    ("task export", Nothing),
    ("task get", Nothing),
    ("task list", Nothing),
    ("task why", Nothing),
    ("task reschedule", ByServer(&["{ref}", "--delay", "2h"], "patch_task")),
    ("task run-now", ByServer(&["{ref}"], "run_task_now")),
    ("task cancel", ByServer(&["{ref}"], "cancel_task")),
    ("task redrive", ByServer(&["{ref}"], "redrive_task")),
    ("task bury", ByServer(&["{ref}"], "bury_task")),
    ("task delete", ByServer(&["{ref}"], "delete_task")),
    ("dead list", Nothing),
    ("dead show", Nothing),
    ("dead redrive", ByServer(&["--queue", "q"], "redrive_dead_letters")),
    ("executor list", Nothing),
    ("executor get", Nothing),
    ("executor drain", ByServer(&["x"], "drain_executor")),
    ("executor quiet", ByServer(&["x"], "quiet_executor")),
    ("executor resume", ByServer(&["x"], "resume_executor")),
    ("queue list", Nothing),
    ("queue get", Nothing),
    ("queue history", Nothing),
    ("queue set", ByServer(&["q", "{}"], "put_queue")),
    ("queue pause", ByServer(&["q"], "pause_queue")),
    ("queue resume", ByServer(&["q"], "resume_queue")),
    ("queue scan", Histories),
    ("namespace list", Nothing),
    ("namespace get", Nothing),
    ("namespace set", ByServer(&["shop", "{}"], "put_namespace")),
    ("namespace delete", ByServer(&["shop", "--confirm", "shop", "--no-wait"], "delete_namespace")),
    ("limit get", Nothing),
    ("limit set", ByServer(&["concurrency=5"], "put_limits")),
    // They change a database of the user's own, in which Punctual keeps no audit.
    ("inbox install", Nothing),
    ("inbox uninstall", Nothing),
    ("inbox status", Nothing),
    ("inbox refused", Nothing),
    // They change a file of the user's own.
    ("profile list", Nothing),
    ("profile set", Nothing),
    ("profile use", Nothing),
    ("profile remove", Nothing),
    ("schedule create", ByServer(&["s", "--every", "1h", "--queue", "q"], "put_schedule")),
    ("schedule list", Nothing),
    ("schedule get", Nothing),
    ("schedule next", Nothing),
    ("schedule runs", Nothing),
    ("schedule pause", ByServer(&["s"], "pause_schedule")),
    ("schedule resume", ByServer(&["s"], "resume_schedule")),
    ("schedule run", ByServer(&["s"], "run_schedule")),
    (
        "schedule backfill",
        ByServer(
            &["s", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T02:00:00Z"],
            "backfill_schedule",
        ),
    ),
    ("schedule delete", ByServer(&["s"], "delete_schedule")),
    ("schedule import crontab", ByServer(&["{crontab}", "--queue", "q"], "put_schedule")),
    ("workflow run", Histories),
    ("workflow list", Nothing),
    ("workflow get", Nothing),
    ("workflow cancel", ByServer(&["{workflow}"], "cancel_workflow")),
    ("workflow retry", ByServer(&["{workflow}"], "retry_workflow")),
    ("workflow skip", ByServer(&["{workflow}", "a"], "skip_node")),
    ("workflow rerun", Histories),
    ("workflow graph", Nothing),
    ("bulk cancel", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk reschedule", ByServer(&["--queue", "q", "--later", "1h"], "create_bulk")),
    ("bulk set-priority", ByServer(&["1", "--queue", "q"], "create_bulk")),
    ("bulk set-queue", ByServer(&["r", "--queue", "q"], "create_bulk")),
    ("bulk run-now", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk redrive", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk bury", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk delete", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk export", ByServer(&["--queue", "q"], "create_bulk")),
    ("bulk tasks", Nothing),
    ("bulk list", Nothing),
    ("bulk get", Nothing),
    ("bulk failures", Nothing),
    ("bulk confirm", ByServer(&["1"], "confirm_bulk")),
    ("bulk pause", ByServer(&["1"], "pause_bulk")),
    ("bulk resume", ByServer(&["1"], "resume_bulk")),
    ("bulk stop", ByServer(&["1"], "stop_bulk")),
    ("bulk repeat", ByServer(&["1"], "repeat_bulk")),
    ("events", Nothing),
    ("engine list", Nothing),
    ("partition list", Nothing),
    ("alert list", Nothing),
    ("log get", Nothing),
    ("log set", ByServer(&["debug"], "put_log_filter")),
    ("stats", Nothing),
    ("top", Nothing),
    ("tail", Nothing),
    ("audit list", Nothing),
    ("audit export", Nothing),
    ("migrate", ByItself(&[], "migrate")),
    ("token list", Nothing),
    ("token create", ByItself(&["--name", "n", "--role", "viewer"], "create_token")),
    ("token rotate", ByItself(&["{id}"], "rotate_token")),
    ("token revoke", ByItself(&["{id}"], "revoke_token")),
    ("shard plan", Nothing),
    ("shard list", Nothing),
    ("shard check", Nothing),
    ("shard add", ByItself(&[], "shard_add")),
    ("shard move", ByItself(&["--partition", "1", "--to", "1"], "shard_move")),
    ("shard split", ByItself(&["--from", "0", "--to", "1"], "shard_split")),
    ("shard archive", ByItself(&[], "shard_archive")),
    ("shard repair", ByItself(&[], "shard_repair")),
    // Its probe of commits changes one row that nothing else reads.
    ("doctor", Nothing),
    ("config", Nothing),
    ("man", Nothing),
    ("openapi", Nothing),
    ("completions", Nothing),
];

/// All commands that have no more below them, as the binary itself lists them.
fn leaves(path: &str) -> Vec<String> {
    let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
    let help = stdout(&run(&words));
    let Some((_, listed)) = help.split_once("\nCommands:\n") else { return vec![path.to_owned()] };
    let names = listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        // A long description continues in lines that are indented further.
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| format!("{path} {name}").trim().to_owned())
    });
    names.flat_map(|name| leaves(&name)).collect()
}

#[test]
fn of_every_command_it_is_said_what_it_leaves() {
    let listed: BTreeSet<String> = leaves("").into_iter().collect();
    let known: BTreeSet<String> = COMMANDS.iter().map(|command| command.0.to_owned()).collect();
    assert!(listed.len() > 30, "{listed:?}");
    assert_eq!(listed, known, "each command stands in the table above, with the entry that it leaves");
}

fn words<'a>(command: &'a str, said: &'a [&'a str], given: &[(&str, &'a str)]) -> Vec<&'a str> {
    let value = |word: &'a str| given.iter().find(|pair| pair.0 == word).map_or(word, |pair| pair.1);
    command.split(' ').chain(said.iter().map(|word| value(word))).collect()
}

#[test]
fn every_command_that_changes_something_through_a_server_is_in_the_audit() {
    let (server, data) = Server::on_new_data();
    let task = server.insert(serde_json::json!({ "queue": "q", "delay_ms": 3_600_000 }));
    let crontab = data.path().join("crontab");
    std::fs::write(&crontab, "0 9 * * 1 /bin/report\n").unwrap();
    let document = data.path().join("workflow");
    std::fs::write(&document, r#"{"nodes": {"a": {"task": {"queue": "q"}}}}"#).unwrap();
    let begun = documents(&server.client(&["workflow", "run", document.to_str().unwrap()])).remove(0);
    let given = [
        ("{ref}", task["ref"].as_str().unwrap()),
        ("{crontab}", crontab.to_str().unwrap()),
        ("{workflow}", begun["ref"].as_str().unwrap()),
    ];
    let mut last = 0;
    for (command, leaves) in COMMANDS {
        let ByServer(said, action) = leaves else { continue };
        // What it comes to does not matter: there is no executor, and the task is not dead.
        let done = server.client(&words(command, said, &given));
        assert_ne!(done.status.code(), Some(2), "{command}: {}", stderr(&done));
        let listed = server.client(&["audit", "list", "--action", action]);
        let page = documents(&listed).remove(0);
        assert_eq!(page["items"][0]["action"], *action, "{command}: {page}");
        assert_eq!(page["items"][0]["caller"], "local", "{page}");
        let id = page["items"][0]["id"].as_i64().unwrap();
        assert!(id > last, "{command} has no entry of its own: {page}");
        last = id;
    }
}

#[test]
fn every_command_that_changes_a_store_itself_is_in_the_audit() {
    let mariadb = blocking(mariadb());
    let urls = blocking(async { [mariadb.fresh_database().await, mariadb.fresh_database().await] });
    let database = urls[0].rsplit('/').next().unwrap();
    let on_store = |words: &[&str], urls: &[String]| -> Command {
        let mut command = punctual(words);
        command.env("PUNCTUAL_STORE_URL", urls.join(",")).env("PUNCTUAL_HOT_URL", "redis://127.0.0.1:1");
        command
    };
    let mut id = String::new();
    for (command, leaves) in COMMANDS {
        let ByItself(said, action) = leaves else { continue };
        let known = if command.starts_with("shard") { &urls[..] } else { &urls[..1] };
        let words = [words(command, said, &[("{id}", id.as_str())]), vec!["--json"]].concat();
        let done = on_store(&words, known).output().unwrap();
        assert!(done.status.success(), "{command}: {}", stderr(&done));
        if *command == "token create" {
            documents(&done)[0]["id"].as_str().unwrap().clone_into(&mut id);
        }
        let last = "SELECT action, status, caller FROM audit ORDER BY id DESC LIMIT 1";
        let entry = blocking(mariadb.sql(database, last));
        assert!(entry.starts_with(&format!("{action}\t200\t")), "{command}: {entry:?}");
        let reported =
            "SELECT before_json IS NOT NULL, after_json IS NOT NULL FROM audit ORDER BY id DESC LIMIT 1";
        let expected = if matches!(*action, "migrate" | "create_token") { "0\t1" } else { "1\t1" };
        assert_eq!(blocking(mariadb.sql(database, reported)).trim(), expected, "{command}");
        assert!(entry.contains("command"), "who runs it, as far as the system says: {entry:?}");
    }
    let moved = "SELECT COUNT(*) > 0, MIN(text) FROM event WHERE kind = 'partition_moved'";
    let said = "1\tpartition 1 has moved from database 0 to 1";
    assert_eq!(blocking(mariadb.sql(database, moved)).trim(), said);
    let after = "SELECT before_json, after_json FROM audit WHERE action = 'shard_add'";
    assert_eq!(blocking(mariadb.sql(database, after)).trim(), "{\"databases\":1}\t{\"databases\":2}");
}

#[test]
fn a_file_that_is_made_or_brought_up_to_date_by_a_command_says_so_in_its_audit() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    for _ in 0..2 {
        let done = run(&["migrate", "--data", directory, "--json"]);
        assert!(done.status.success(), "{}", stderr(&done));
    }
    let server = Server::start(data.path());
    let exported = documents(&server.client(&["audit", "export"]));
    assert_eq!(exported.len(), 1, "the second changed nothing: {exported:?}");
    assert_eq!(exported[0]["action"], "migrate");
    assert!(exported[0]["after"]["applied"].as_array().unwrap().len() >= 3, "{exported:?}");
}

/// A database that a newer program opens on the way to something else is brought up to date, and that is in the audit.
#[test]
fn an_upgrade_on_the_way_is_in_the_audit_whichever_command_made_it() {
    let (mariadb, redis) = blocking(servers());
    let url = blocking(mariadb.fresh_database());
    let database = url.rsplit('/').next().unwrap();
    let command = |words: &[&str]| {
        let mut command = punctual(words);
        command.env("PUNCTUAL_STORE_URL", &url).env("PUNCTUAL_HOT_URL", redis.url());
        command
    };
    let sql = |text: &str| blocking(mariadb.sql(database, text)).trim().to_owned();
    let older = || {
        let last = sql("SELECT name FROM migration ORDER BY position DESC LIMIT 1");
        sql(&format!("DELETE FROM migration WHERE name = '{last}'"));
        last
    };
    let last = "SELECT request, status, CAST(after_json AS CHAR) FROM audit WHERE action = 'migrate' ORDER BY id DESC LIMIT 1";
    let noted = |request: &str, name: &str| {
        assert_eq!(sql(last), format!("punctual {request}\t200\t{{\"applied\":[\"{name}\"]}}"));
    };
    let listed = || assert!(command(&["token", "list"]).output().unwrap().status.success());
    listed();
    assert_eq!(sql(last), "", "a store that is made anew was not changed");
    let name = older();
    listed();
    noted("token", &name);
    let name = older();
    let mut server = Running::start(&mut command(&["serve", "--listen", "127.0.0.1:0", "--json"]));
    server.first_line();
    noted("serve", &name);
    assert_eq!(sql("SELECT COUNT(*) FROM audit WHERE action = 'migrate'"), "2");
    server.signal("-TERM");
    assert!(server.ended().success());
}

#[test]
fn the_audit_is_read_page_by_page_filtered_and_exported() {
    let (server, _data) = Server::on_new_data();
    for queue in ["a", "b", "c", "d", "e"] {
        assert!(server.client(&["queue", "pause", queue]).status.success());
    }
    assert!(server.client(&["queue", "resume", "a"]).status.success());
    let ids = |args: &[&str]| -> Vec<i64> {
        let pages = documents(&server.client(&[&["audit"], args].concat()));
        let one = |entry: &serde_json::Value| entry["id"].as_i64().unwrap();
        pages
            .iter()
            .flat_map(|entry| {
                entry["items"]
                    .as_array()
                    .map_or_else(|| vec![one(entry)], |all| all.iter().map(one).collect())
            })
            .collect()
    };
    let all = ids(&["export"]);
    assert!(all.len() == 6 && all.is_sorted_by(|a, b| a > b), "{all:?}");
    assert_eq!(ids(&["list", "--limit", "2", "--all"]), all);
    let first = documents(&server.client(&["audit", "list", "--limit", "2"])).remove(0);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&["list", "--limit", "2", "--cursor", cursor]), all[2..4]);
    assert_eq!(ids(&["list", "--action", "resume_queue"]), all[..1]);
    assert_eq!(ids(&["export", "--of-namespace", "default"]), all);
    assert_eq!(ids(&["export", "--of-namespace", "other"]), [] as [i64; 0]);
    assert_eq!(ids(&["export", "--until", "2020-01-01T00:00:00Z"]), [] as [i64; 0]);
    let shown = run(&["audit", "list", "--url", &server.url, "--limit", "2"]);
    let text = stdout(&shown);
    for word in ["ACTION", "resume_queue", "POST /v1/queues/a/resume", "local", "127.0.0.1", "200"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(stderr(&shown).contains("--cursor"), "{}", stderr(&shown));
    let wrong = run(&["audit", "list", "--url", &server.url, "--since", "yesterday"]);
    assert_eq!(wrong.status.code(), Some(2));
}
