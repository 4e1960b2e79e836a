//! Bulk operations through the binary: kill -9 in the middle of one, files in, selections out.

use crate::binary::{Server, documents, run, stderr, stdout, wait_for};
use serde_json::{Value, json};

const TASKS: i64 = 3_000;

fn filled(server: &Server, queue: &str, tasks: i64) {
    let all: Vec<Value> =
        (1..=tasks).map(|id| json!({ "queue": queue, "task_id": id, "delay_ms": 3_600_000 })).collect();
    let (status, _) = server.post("/v1/tasks/batch", json!({ "tasks": all }));
    assert_eq!(status, 200);
}

fn operation(server: &Server, id: i64) -> Value {
    server.get(&format!("/v1/bulk/{id}")).1
}

#[test]
fn a_bulk_cancel_goes_on_after_kill_9_and_cancels_each_task_once() {
    let (mut server, data) = Server::on_new_data();
    filled(&server, "q", TASKS);
    server.insert(json!({ "queue": "other", "delay_ms": 3_600_000 }));
    let previewed =
        documents(&server.client(&["bulk", "cancel", "--queue", "q", "--rate", "1500"])).remove(0);
    assert_eq!((&previewed["state"], &previewed["count"]), (&json!("previewed"), &json!(TASKS)));
    assert_eq!(previewed["sample"].as_array().unwrap().len(), 10);
    let id = previewed["id"].as_i64().unwrap();
    let number = id.to_string();
    let confirmed = server.client(&["bulk", "confirm", &number, "--if-revision", "1"]);
    assert!(confirmed.status.success(), "{}", stderr(&confirmed));
    for _ in 0..3 {
        let done = wait_for("some that are cancelled", || {
            let done = operation(&server, id)["done"].as_i64().unwrap();
            (done > 0).then_some(done)
        });
        assert!(done <= TASKS);
        server.process.signal("-KILL");
        server.process.ended();
        server = Server::start(data.path());
    }
    let ended =
        wait_for("its end", || Some(operation(&server, id)).filter(|operation| operation["state"] == "done"));
    let counts = ["done", "skipped", "failed"].map(|name| ended[name].as_i64().unwrap());
    assert_eq!(counts, [TASKS, 0, 0], "{ended}");
    let listed = documents(&server.client(&["task", "list", "--all", "--limit", "1000"]));
    let states: Vec<String> = listed
        .iter()
        .flat_map(|entry| entry["items"].as_array().unwrap().clone())
        .map(|entry| format!("{} {}", entry["queue"].as_str().unwrap(), entry["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states.iter().filter(|state| *state == "q cancelled").count(),
        usize::try_from(TASKS).unwrap()
    );
    assert_eq!(states.iter().filter(|state| *state == "other scheduled").count(), 1);
    assert_eq!(states.len(), usize::try_from(TASKS).unwrap() + 1);
}

#[test]
fn an_operation_is_previewed_confirmed_and_waited_for_and_refused_where_it_makes_no_sense() {
    let (server, _data) = Server::on_new_data();
    filled(&server, "q", 30);
    let text = run(&["bulk", "bury", "--url", &server.url, "--queue", "q", "--reason", "gone"]);
    assert!(text.status.success(), "{}", stderr(&text));
    assert!(stdout(&text).contains("bury 30 tasks"), "{}", stdout(&text));
    assert!(stderr(&text).contains("punctual bulk confirm 1 --if-revision 1"), "{}", stderr(&text));
    let done = server.client(&["bulk", "bury", "--queue", "q", "--reason", "gone", "--yes", "--wait"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let ended = documents(&done).pop().unwrap();
    assert_eq!((&ended["state"], &ended["done"]), (&json!("done"), &json!(30)));
    let dead = documents(&server.client(&["dead", "list"])).remove(0);
    assert!(dead["items"].as_array().unwrap().iter().all(|entry| entry["last_error"] == "gone"), "{dead}");
    // The first preview finds none of them any more.
    assert!(server.client(&["bulk", "confirm", "1", "--wait"]).status.success());
    assert_eq!(operation(&server, 1)["done"], 0);
    let empty = server.client(&["bulk", "cancel"]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(stdout(&empty).is_empty() && stderr(&empty).contains("--all"), "{}", stderr(&empty));
    let other = server.client(&["bulk", "confirm", "2", "--if-revision", "7"]);
    assert!(stderr(&other).contains("If-Match"), "{}", stderr(&other));
    let exported = documents(&server.client(&["bulk", "export", "--queue", "q", "--yes", "--wait"]));
    let exported = exported.last().unwrap();
    assert_eq!((&exported["state"], &exported["done"]), (&json!("done"), &json!(30)));
    let tasks = run(&["bulk", "tasks", &exported["id"].to_string(), "--url", &server.url]);
    assert_eq!(stdout(&tasks).lines().count(), 30, "{}", stderr(&tasks));
    let listed = documents(&server.client(&["bulk", "list", "--limit", "2"])).remove(0);
    let ids: Vec<i64> =
        listed["items"].as_array().unwrap().iter().map(|entry| entry["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [3, 2], "the newest first");
    assert!(listed["next_cursor"].is_string());
    let failures = documents(&server.client(&["bulk", "failures", "2"])).remove(0);
    assert_eq!(failures, json!({ "items": [], "next_cursor": null }));
    let redriven = server.client(&["bulk", "redrive", "--all", "--yes", "--wait"]);
    assert_eq!(documents(&redriven).pop().unwrap()["done"], 30);
}

#[test]
fn a_file_is_imported_once_however_often_it_is_begun_and_what_is_exported_can_be_imported() {
    let (server, data) = Server::on_new_data();
    let lines: Vec<String> = (1..=2_500)
        .map(|id| {
            json!({
                "queue": "q", "kind": "k", "task_id": id, "delay_ms": 3_600_000, "labels": {"a": "b"},
                "payload": {"n": id}
            })
            .to_string()
        })
        .collect();
    let path = data.path().join("tasks.ndjson");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let path = path.to_str().unwrap();
    let state = data.path().join("import.state");
    let dry = server.client(&["task", "import", path, "--dry-run"]);
    assert!(dry.status.success(), "{}", stderr(&dry));
    assert_eq!(server.get("/v1/tasks").1["items"], json!([]), "nothing is inserted");
    let import = ["task", "import", path, "--batch", "500", "--state-file", state.to_str().unwrap()];
    let first = server.client(&import);
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(documents(&first).pop().unwrap()["summary"]["inserted"], 2_500);
    assert_eq!(std::fs::read_to_string(&state).unwrap().trim(), "2500", "every line has its answer");
    let again = server.client(&import);
    assert_eq!(documents(&again).pop().unwrap()["summary"]["lines"], 0, "it goes on behind the last");

    let bad = data.path().join("bad.ndjson");
    std::fs::write(&bad, "{\"queue\":\"q\"}\n{\"queue\":\"a b\"}\n\nnot JSON\n").unwrap();
    let dry = run(&["task", "import", bad.to_str().unwrap(), "--dry-run"]);
    assert_eq!(dry.status.code(), Some(1));
    let said = stderr(&dry);
    assert!(said.contains("line 2: ") && said.contains("line 4: ") && !said.contains("line 1: "), "{said}");

    let exported = run(&["task", "export", "--url", &server.url, "--queue", "q", "--as-inserts"]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let copied = data.path().join("copied.ndjson");
    std::fs::write(&copied, &exported.stdout).unwrap();
    let (other, _data) = Server::on_new_data();
    assert!(other.client(&["task", "import", copied.to_str().unwrap()]).status.success());
    let back = run(&["task", "export", "--url", &other.url, "--as-inserts"]);
    let sorted = |text: &str| {
        let mut all: Vec<String> = text.lines().map(str::to_owned).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&stdout(&back)), sorted(&stdout(&exported)));
    assert_eq!(stdout(&back).lines().count(), 2_500);
    let whole = run(&["task", "export", "--url", &other.url, "--kind", "k", "--label", "a=b"]);
    let first: Value = serde_json::from_str(stdout(&whole).lines().next().unwrap()).unwrap();
    assert_eq!((&first["state"], &first["labels"]["a"]), (&json!("scheduled"), &json!("b")));
}
