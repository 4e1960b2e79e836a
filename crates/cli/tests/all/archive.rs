//! Archives from the outside: what a server with `archive.url` remembers, and what it refuses afterwards.

use crate::binary::{
    Running, Server, address, blocking, documents, http, punctual, run, servers, stderr, wait_for,
};
use serde_json::json;

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    stderr(&output)
}

#[test]
fn a_file_that_has_archives_is_served_with_them_or_not_at_all() {
    let data = tempfile::tempdir().unwrap();
    let set = |directory: &str| format!("archive.url=file://{}/{directory}", data.path().display());
    let (ours, others) = (set("archive"), set("elsewhere"));
    let mut server = Server::start_with(data.path(), &["--set", &ours]);
    let task = server.insert(json!({ "queue": "q", "kind": "k", "delay_ms": 10 }));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(server.succeed(&leased), "accepted");
    server.process.signal("-TERM");
    assert!(server.process.ended().success());
    drop(server);

    let place =
        std::fs::read_to_string(data.path().join("archive").join("punctual-archive-place.json")).unwrap();
    assert!(place.contains("punctual_archive_place"), "{place}");
    let base = ["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()];
    let said = refused(&base);
    assert!(said.contains("has archives") && said.contains("archive.url is not set"), "{said}");
    let said = refused(&[&base[..], &["--set", &others]].concat());
    assert!(said.contains(&others["archive.url=".len()..]) && said.contains("it is empty"), "{said}");
    let server = Server::start_with(data.path(), &["--set", &ours]);
    assert_eq!(server.state(&task), "succeeded");
}

#[test]
fn a_place_of_archives_that_cannot_be_used_is_named() {
    let data = tempfile::tempdir().unwrap();
    let base = ["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()];
    let said = refused(&[&base[..], &["--set", "archive.url=file:///dev/null/archive"]].concat());
    assert!(said.contains("archive.url") && said.contains("file:///dev/null/archive"), "{said}");
}

#[test]
fn archives_are_off_by_default_and_shown_with_the_other_settings() {
    let shown = documents(&run(&["config", "--json", "--set", "archive.after_days=30"])).remove(0);
    let of = |key: &str| {
        shown["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap()["value"]
            .clone()
    };
    assert_eq!((of("archive.url"), of("archive.after_days")), (json!(""), json!("30")));
    let output = run(&["shard", "archive", "--store-url", "mysql://host/db", "--after-days", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--after-days"), "{}", stderr(&output));
}

/// Of an old bucket with three tasks that are still needed.
#[test]
fn how_many_tasks_are_carried_out_of_an_old_bucket_is_a_setting_that_a_run_holds_to() {
    const DAY_MS: i64 = 86_400_000;
    let (mariadb, redis) = blocking(servers());
    let store_url = blocking(mariadb.fresh_database());
    let database = store_url.rsplit('/').next().unwrap();
    let serve = |carry_rows: u32| {
        let set = format!("buckets.carry_rows={carry_rows}");
        let mut serve = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--set", &set]);
        serve.env("PUNCTUAL_STORE_URL", &store_url).env("PUNCTUAL_HOT_URL", redis.url());
        let mut process = Running::start(&mut serve);
        let url = address(&process.first_line());
        Server { process, url }
    };
    let end = |mut server: Server| {
        server.process.signal("-TERM");
        assert!(server.process.ended().success());
    };
    let sql = |text: &str| blocking(mariadb.sql(database, text)).trim().to_owned();
    let named = |which: &str| {
        let read = format!(
            "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = 'task' \
             AND {which} ORDER BY PARTITION_ORDINAL_POSITION LIMIT 1"
        );
        sql(&read)
    };
    let server = serve(100_000);
    let now_ms: i64 = sql("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)").parse().unwrap();
    for _ in 0..3 {
        server.insert(json!({ "queue": "q" }));
    }
    end(server);
    let first = named("TRUE");
    let ends = sql(&format!(
        "SELECT PARTITION_DESCRIPTION FROM information_schema.PARTITIONS \
         WHERE TABLE_SCHEMA = '{database}' AND PARTITION_NAME = '{first}' AND TABLE_NAME = 'task'"
    ));
    let old_ends = now_ms - 20 * DAY_MS;
    sql(&format!(
        "ALTER TABLE task REORGANIZE PARTITION {first} INTO \
         (PARTITION pold VALUES LESS THAN ({old_ends}), PARTITION {first} VALUES LESS THAN ({ends}))"
    ));
    let due_at = old_ends - DAY_MS;
    sql(&format!(
        "UPDATE task SET due_at = {due_at}, place_due_at = {due_at}; UPDATE registry SET due_at = {due_at}"
    ));
    assert_eq!(sql("SELECT COUNT(*) FROM task PARTITION (pold)"), "3");
    let server = serve(2);
    wait_for("a run of the buckets", || {
        let url = format!("{}/metrics", server.url);
        let text = blocking(async move { http().get(url).send().await.unwrap().text().await.unwrap() });
        let ran = r#"punctual_service_last_success_time_seconds{service="buckets"} "#;
        let at = text.lines().find_map(|line| line.strip_prefix(ran)?.parse::<f64>().ok());
        at.filter(|at| *at > 0.0)
    });
    assert_eq!(named("PARTITION_NAME = 'pold'"), "pold", "three are more than two");
    end(server);
    let server = serve(3);
    wait_for("the old bucket to go", || named("PARTITION_NAME = 'pold'").is_empty().then_some(()));
    assert_eq!(sql("SELECT COUNT(*) FROM task"), "3");
    end(server);
}

/// The bucket of three cancelled tasks that were kept for long enough goes into one archive.
#[test]
fn how_often_a_database_was_archived_is_told_by_metrics_and_by_the_api() {
    const DAY_MS: i64 = 86_400_000;
    let (mariadb, redis) = blocking(servers());
    let store_url = blocking(mariadb.fresh_database());
    let database = store_url.rsplit('/').next().unwrap();
    let place = tempfile::tempdir().unwrap();
    let serve = || {
        let set = format!("archive.url=file://{}", place.path().display());
        let mut serve = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--set", &set]);
        serve.env("PUNCTUAL_STORE_URL", &store_url).env("PUNCTUAL_HOT_URL", redis.url());
        let mut process = Running::start(&mut serve);
        let url = address(&process.first_line());
        Server { process, url }
    };
    let sql = |text: &str| blocking(mariadb.sql(database, text)).trim().to_owned();
    let archives = |server: &Server| {
        let name = r#"punctual_database_archives_published_total{database="0"} "#;
        let counted: Option<i64> =
            server.page("/metrics").lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        let (_, shards) = server.get("/v1/shards");
        (counted, shards["items"][0]["archives_published"].as_i64())
    };
    let mut server = serve();
    let tasks: Vec<_> =
        (0..3).map(|_| server.insert(json!({ "queue": "q", "delay_ms": 3_600_000 }))).collect();
    for task in &tasks {
        let reference = task["ref"].as_str().unwrap();
        assert_eq!(server.post(&format!("/v1/tasks/{reference}/cancel"), json!({})).0, 200);
    }
    assert_eq!(archives(&server), (None, None));
    server.process.signal("-TERM");
    assert!(server.process.ended().success());
    drop(server);

    let first = sql(&format!(
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = 'task' \
         ORDER BY PARTITION_ORDINAL_POSITION LIMIT 1"
    ));
    let ends = sql(&format!(
        "SELECT PARTITION_DESCRIPTION FROM information_schema.PARTITIONS \
         WHERE TABLE_SCHEMA = '{database}' AND PARTITION_NAME = '{first}' AND TABLE_NAME = 'task'"
    ));
    let now_ms: i64 = sql("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)").parse().unwrap();
    let old_ends = now_ms - 20 * DAY_MS;
    sql(&format!(
        "ALTER TABLE task REORGANIZE PARTITION {first} INTO \
         (PARTITION pold VALUES LESS THAN ({old_ends}), PARTITION {first} VALUES LESS THAN ({ends}))"
    ));
    let due_at = old_ends - DAY_MS;
    sql(&format!(
        "UPDATE task SET due_at = {due_at}, place_due_at = {due_at}, keep_until = {due_at}; \
         UPDATE registry SET due_at = {due_at}"
    ));
    let server = serve();
    let reported = wait_for("an archive", || {
        Some(archives(&server)).filter(|archives| archives.0.is_some() && archives.1.is_some())
    });
    assert_eq!(reported, (Some(1), Some(1)));
    assert_eq!(sql("SELECT COUNT(*) FROM task"), "0");
    for task in &tasks {
        let (_, found) = server.get(&format!("/v1/tasks?task_id={}", task["task_id"]));
        let found = &found["items"][0];
        assert_eq!((&found["task_id"], &found["state"]), (&task["task_id"], &json!("cancelled")), "{found}");
    }
}
