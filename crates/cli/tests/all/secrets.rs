//! Secrets: from files of their own, and in nothing that the program says, at whatever level.

use crate::binary::{DURABLE, Running, Server, address, blocking, documents, punctual, run, stderr, stdout};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

const SECRET: &str = "Geheim-5f3a";

fn secret_file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_secret_may_stand_in_a_file_that_the_environment_or_the_configuration_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = secret_file(dir.path(), "store", &format!("mysql://u:{SECRET}@h/d"));
    let hot = secret_file(dir.path(), "hot", &format!("rediss://u:{SECRET}@h"));
    let config = dir.path().join("p.toml");
    fs::write(&config, format!("[hot]\nurl_file = '{hot}'\n")).unwrap();
    let shown = punctual(&["config", "--json", "--config", config.to_str().unwrap()])
        .env("PUNCTUAL_STORE_URL_FILE", &store)
        .output()
        .unwrap();
    assert!(shown.status.success(), "{}", stderr(&shown));
    let document = documents(&shown).remove(0);
    let setting = |key: &str| {
        document["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(
        (&setting("store.url")["value"], &setting("store.url")["source"]),
        (&json!("mysql://u@h/d"), &json!("env"))
    );
    assert_eq!(
        (&setting("hot.url")["value"], &setting("hot.url")["source"]),
        (&json!("rediss://u@h"), &json!("file"))
    );
    assert_eq!(setting("hot.url")["from"], hot);
    assert_eq!(document["warnings"], json!([]));
    assert!(!(stdout(&shown) + &stderr(&shown)).contains(SECRET));
}

#[test]
fn what_is_wrong_with_a_file_of_a_secret_is_said_without_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let good = secret_file(dir.path(), "good", &format!("mysql://u:{SECRET}@h/d"));
    let two = secret_file(dir.path(), "two", &format!("mysql://u:{SECRET}@h/d\nmysql://u:{SECRET}@h/e"));
    let empty = secret_file(dir.path(), "empty", "");
    let config = dir.path().join("p.toml");
    fs::write(&config, format!("[store]\nurl = 'mysql://u:{SECRET}@h/d'\nurl_file = '{good}'\n")).unwrap();
    let broken = dir.path().join("broken.toml");
    fs::write(&broken, format!("[store]\nurl = 'mysql://u:{SECRET}@h/d\n")).unwrap();
    let url = format!("mysql://u:{SECRET}@h/d");
    let with = |variables: &[(&str, &str)], args: &[&str]| {
        punctual(&[&["config"][..], args].concat()).envs(variables.iter().copied()).output().unwrap()
    };
    let both = [("PUNCTUAL_STORE_URL", url.as_str()), ("PUNCTUAL_STORE_URL_FILE", good.as_str())];
    for (output, part) in [
        (with(&both, &[]), "given twice"),
        (with(&[], &["--config", config.to_str().unwrap()]), "given twice"),
        (with(&[], &["--set", &format!("store.url_file={good}"), "--store-url", &url]), "given twice"),
        (with(&[("PUNCTUAL_STORE_URL_FILE", "/no/such/file")], &[]), "/no/such/file"),
        (with(&[("PUNCTUAL_STORE_URL_FILE", &empty)], &[]), "empty"),
        (with(&[("PUNCTUAL_STORE_URL_FILE", &two)], &[]), "more than one line"),
        (with(&[], &["--config", broken.to_str().unwrap()]), "line 2"),
        (with(&[], &["--set", "listen_file=/x"]), "listen_file"),
    ] {
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part:?} in {}", stderr(&output));
        assert!(!(stdout(&output) + &stderr(&output)).contains(SECRET), "{part}");
    }
}

#[test]
fn a_secret_that_others_can_read_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let file = secret_file(dir.path(), "store", &format!("mysql://u:{SECRET}@h/d"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let hot = ["config", "--hot-url", "redis://h"];
    let open = punctual(&hot).env("PUNCTUAL_STORE_URL_FILE", &file).output().unwrap();
    assert!(open.status.success() && stderr(&open).contains("chmod 600"), "{}", stderr(&open));
    let flag = run(&[&hot[..], &["--store-url", &format!("mysql://u:{SECRET}@h/d")]].concat());
    let said = stderr(&flag);
    assert!(
        flag.status.success() && said.contains("(ps)") && said.contains("PUNCTUAL_STORE_URL_FILE"),
        "{said}"
    );
    let quiet = punctual(&hot).env("PUNCTUAL_STORE_URL", format!("mysql://u:{SECRET}@h/d")).output().unwrap();
    assert!(!stderr(&quiet).contains("warning"), "{}", stderr(&quiet));
}

/// Everything that an engine says while it starts, works, loses both its servers, gets them back, and ends.
#[test]
fn no_level_of_the_log_has_a_password_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mariadb, redis) = blocking(async {
        let mariadb = MariaDb::with(&DURABLE).await;
        let user = format!(
            "CREATE USER s@'127.0.0.1' IDENTIFIED BY '{SECRET}'; GRANT ALL ON *.* TO s@'127.0.0.1'; CREATE DATABASE d;"
        );
        mariadb.sql("mysql", &user).await;
        (mariadb, Redis::with(&["--user", "s", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]).await)
    });
    let store = mariadb.plain_url("d").replace("t:t@", &format!("s:{SECRET}@"));
    let store = secret_file(dir.path(), "store", &store);
    let hot = secret_file(dir.path(), "hot", &redis.url().replace("://", &format!("://s:{SECRET}@")));
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("PUNCTUAL_STORE_URL_FILE", &store).env("PUNCTUAL_HOT_URL_FILE", &hot);
    let mut process = Running::start(command.env("PUNCTUAL_LOG_FILTER", "trace"));
    let first = process.first_line();
    let mut server = Server { process, url: address(&first) };
    let task = server.insert(json!({ "queue": "q", "payload": 1 }));
    let leased = crate::binary::wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["ref"], task["ref"]);
    redis.kill();
    mariadb.kill();
    let (status, refused) = server.post("/v1/tasks", json!({ "queue": "q", "payload": 1 }));
    assert!(status >= 500 && !refused.to_string().contains(SECRET), "{refused}");
    blocking(redis.start_again());
    blocking(mariadb.start_again());
    crate::binary::wait_for("an insert", || {
        (server.post("/v1/tasks", json!({ "queue": "q", "payload": 1 })).0 == 201).then_some(())
    });
    let (_, alerts) = server.get("/v1/alerts");
    server.process.signal("-TERM");
    let (_, said) = server.process.ended_saying();
    assert!(said.contains("DEBUG") || said.contains("TRACE"), "more than usual is said: {said}");
    for text in [&said, &first, &alerts.to_string()] {
        assert!(
            !text.contains(SECRET),
            "{}",
            text.lines().find(|line| line.contains(SECRET)).unwrap_or_default()
        );
    }
    let seen = punctual(&["doctor", "--json"])
        .env("PUNCTUAL_STORE_URL_FILE", &store)
        .env("PUNCTUAL_HOT_URL_FILE", &hot)
        .env("PUNCTUAL_LOG_FILTER", "trace")
        .output()
        .unwrap();
    assert!(!(stdout(&seen) + &stderr(&seen)).contains(SECRET));
}

#[test]
fn commands_for_databases_take_their_addresses_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = blocking(crate::binary::mariadb());
    let store = secret_file(dir.path(), "store", &blocking(mariadb.fresh_database()));
    let listed = run(&["shard", "list", "--store-url-file", &store, "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    let by_variable =
        punctual(&["shard", "list", "--json"]).env("PUNCTUAL_STORE_URL_FILE", &store).output().unwrap();
    assert!(by_variable.status.success(), "{}", stderr(&by_variable));
}
