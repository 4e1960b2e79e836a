//! `namespace …` against a server: listed, set, shown, and deleted with its name said twice.

use crate::binary::{Server, documents, run, stderr, stdout};
use serde_json::{Value, json};

fn done(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

fn said(server: &Server, args: &[&str]) -> String {
    let output = run(&[args, &["--url", &server.url]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn refused(server: &Server, args: &[&str], words: &[&str]) {
    let output = run(&[args, &["--url", &server.url]].concat());
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stdout(&output));
    let text = stderr(&output);
    assert!(words.iter().all(|word| text.contains(word)), "{args:?} does not say {words:?}: {text}");
}

fn insert(server: &Server, task_id: &str) {
    let args =
        ["task", "insert", "--queue", "q", "--delay", "1h", "--task-id", task_id, "--namespace", "shop"];
    done(&server.client(&args));
}

#[test]
fn a_namespace_is_set_shown_listed_and_deleted_by_its_name() {
    let (server, _data) = Server::on_new_data();
    let made =
        done(&server.client(&["namespace", "set", "shop", r#"{"max_waiting": 9, "description": "orders"}"#]));
    assert_eq!((&made["namespace"], &made["max_waiting"]), (&json!("shop"), &json!(9)));
    insert(&server, "1");
    insert(&server, "2");
    let got = done(&server.client(&["namespace", "get", "shop"]));
    assert_eq!((&got["usage"]["tasks"], &got["state"]), (&json!(2), &json!("active")));
    assert_eq!(done(&server.client(&["namespace", "list"]))["items"], json!([got]));
    let shown = said(&server, &["namespace", "get", "shop"]);
    for word in ["shop", "active", "orders", "max_waiting  9", "waiting"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(said(&server, &["namespace", "list"]).contains("orders"));
    for (filter, found) in [
        (&["--prefix", "sh"][..], true),
        (&["--prefix", "x"], false),
        (&["--state", "active"], true),
        (&["--state", "deleting"], false),
    ] {
        let listed = done(&server.client(&[&["namespace", "list"], filter].concat()));
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(found), "{filter:?}");
    }

    refused(&server, &["namespace", "set", "shop", r#"{"max_waitng": 9}"#], &["max_waitng"]);
    refused(&server, &["namespace", "set", "shop", "{}", "--if-revision", "77"], &["ETag"]);
    refused(&server, &["namespace", "delete", "shop"], &["--confirm shop"]);
    refused(&server, &["namespace", "delete", "shop", "--confirm", "shpo"], &["nothing was deleted", "shpo"]);
    refused(&server, &["namespace", "delete", "stop", "--confirm", "stop"], &["stop"]);
    assert_eq!(done(&server.client(&["namespace", "get", "shop"]))["usage"]["tasks"], 2);

    let begun = done(&server.client(&["namespace", "delete", "shop", "--confirm", "shop", "--no-wait"]));
    assert_eq!((&begun["state"], &begun["deletion"]["left"]), (&json!("deleting"), &json!(2)));
    let output = run(&["namespace", "delete", "shop", "--confirm", "shop", "--url", &server.url]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).trim(), "shop is deleted");
    assert!(stderr(&output).contains("deleted"), "{}", stderr(&output));
    assert_eq!(done(&server.client(&["namespace", "get", "shop"]))["state"], "absent");
    assert_eq!(done(&server.client(&["namespace", "list"]))["items"], json!([]));
}

#[test]
fn where_namespaces_are_explicit_one_must_be_set_before_it_is_used() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), &["--set", "namespaces.explicit=true"]);
    let args = ["task", "insert", "--queue", "q", "--namespace", "shop"];
    refused(&server, &args, &["shop", "was not made"]);
    done(&server.client(&["namespace", "set", "shop"]));
    done(&server.client(&args));
    done(&server.client(&["task", "insert", "--queue", "q"]));
}
