//! Archives from the outside: what a server with `archive.url` remembers, and what it refuses afterwards.

use crate::binary::{Server, documents, run, stderr, wait_for};
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
    let leased = wait_for("the task", || server.lease("q", 1, 10_000).pop());
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
        shown["settings"].as_array().unwrap().iter().find(|it| it["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!((of("archive.url"), of("archive.after_days")), (json!(""), json!("30")));
    let output = run(&["shard", "archive", "--store-url", "mysql://host/db", "--after-days", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--after-days"), "{}", stderr(&output));
}
