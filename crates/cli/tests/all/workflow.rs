//! `workflow …` against a server: the example of the page in its current state there; each subcommand once; a fan-out of a thousand with
//! a join whose engine is killed in the middle.

use crate::binary::{Running, Server, blocking, documents, punctual, run, servers, stderr, stdout, wait_for};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../docs/workflows.md");
const ITEMS: usize = 1_000;

fn done(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

/// Between the lines that `cat` writes to the file.
fn example() -> String {
    let (_, rest) = PAGE.split_once("<<'END'\n").unwrap();
    let (text, _) = rest.split_once("\nEND\n").unwrap();
    text.to_owned()
}

#[test]
fn the_example_of_the_page_runs_as_it_stands_there() {
    let (server, data) = Server::on_new_data();
    let file = data.path().join("order.json");
    std::fs::write(&file, example()).unwrap();
    let _executor =
        Running::start(&mut punctual(&["work", "--queue", "demo", "--exec", "cat", "--url", &server.url]));
    let over = done(&server.client(&["workflow", "run", file.to_str().unwrap(), "--wait"]));
    assert_eq!(
        (&over["state"], &over["name"], &over["version"]),
        (&json!("succeeded"), &json!("order"), &json!(1))
    );
    assert_eq!(over["nodes"]["pack"]["result"], json!(["book", "pen"]), "{over}");
    let place = over["ref"].as_str().unwrap();
    let drawn = run(&["workflow", "graph", place, "--url", &server.url]);
    assert!(
        stdout(&drawn).contains("flowchart TD") && stdout(&drawn).contains("pack<br/>succeeded, 2 items"),
        "{drawn:?}"
    );
    let graph = done(&server.client(&["workflow", "graph", place, "--format", "json"]));
    assert_eq!(graph["edges"], json!([{"from": "charge", "to": "pack"}, {"from": "pack", "to": "send"}]));
    let again = done(&server.client(&["workflow", "rerun", place, "--input", r#"{"items": []}"#]));
    assert_ne!(again["ref"], over["ref"]);
    wait_for("the copy", || {
        let entry = done(&server.client(&["workflow", "get", again["ref"].as_str().unwrap()]));
        (entry["state"] == "succeeded").then_some(())
    });
    let listed = done(&server.client(&["workflow", "list", "--name", "order", "--state", "succeeded"]));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let task = server.get(&format!("/v1/tasks/{}", over["nodes"]["send"]["task_ref"].as_str().unwrap())).1;
    assert_eq!(task["labels"]["workflow"], over["ref"]);
}

#[test]
fn a_workflow_is_cancelled_retried_and_a_node_skipped_by_commands() {
    let (server, data) = Server::on_new_data();
    let file = data.path().join("w.json");
    std::fs::write(
        &file,
        r#"{"nodes": {"a": {"task": {"queue": "q"}}, "b": {"task": {"queue": "q"}, "after": ["a"]}}}"#,
    )
    .unwrap();
    let begun = done(&server.client(&["workflow", "run", file.to_str().unwrap(), "--input", "7"]));
    assert_eq!((&begun["input"], &begun["nodes"]["b"]["state"]), (&json!(7), &json!("blocked")));
    let place = begun["ref"].as_str().unwrap();
    let cancelled = done(&server.client(&["workflow", "cancel", place, "--reason", "why not"]));
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&json!("cancelled"), &json!("why not")));
    let refused = server.client(&["workflow", "cancel", place]);
    assert!(!refused.status.success() && stderr(&refused).contains("is over"), "{refused:?}");
    assert_eq!(done(&server.client(&["workflow", "retry", place]))["state"], "running");
    let skipped = done(&server.client(&["workflow", "skip", place, "b"]));
    assert_eq!(skipped["nodes"]["b"]["state"], "skipped");
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert!(leased["token"].as_str().unwrap().ends_with(&format!("-{place}")), "{leased}");
    assert_eq!(server.succeed(&leased), "accepted");
    wait_for("its end", || {
        (server.get(&format!("/v1/workflows/{place}")).1["state"] == "succeeded").then_some(())
    });
    let wrong = data.path().join("wrong.json");
    std::fs::write(&wrong, r#"{"nodes": {"a": {"task": {"queue": "q", "payload": {"$expr": "nodes.b.result"}}}, "b": {"task": {"queue": "q"}}}}"#).unwrap();
    let refused = server.client(&["workflow", "run", wrong.to_str().unwrap()]);
    assert!(
        stderr(&refused).contains("/nodes/a/task/payload") && stderr(&refused).contains("after"),
        "{}",
        stderr(&refused)
    );
}

/// Which items have run, and how often the join has.
struct Ran {
    items: Vec<usize>,
    joins: usize,
}

impl Ran {
    /// Reports that these have succeeded, each item with itself as its result.
    fn report(&mut self, server: &Server, leased: &[Value]) {
        for some in leased.chunks(100) {
            let outcome = |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "succeeded", "result": task["payload"]});
            let outcomes: Vec<Value> = some.iter().map(outcome).collect();
            let (status, answer) = server.post("/v1/outcomes", json!({ "outcomes": outcomes }));
            assert_eq!(status, 200, "{answer}");
            let receipts = answer["results"].as_array().unwrap();
            for (value, _) in some.iter().zip(receipts).filter(|pair| pair.1["status"] == "accepted") {
                if value["kind"] == "join" {
                    self.joins += 1;
                    assert_eq!(value["payload"], json!(ITEMS));
                    assert!(self.items.iter().all(|item| *item == 1), "not before all of them");
                } else {
                    self.items[usize::try_from(value["payload"].as_u64().unwrap()).unwrap()] += 1;
                }
            }
        }
    }
}

/// `next` kills the server when half of the items are done, and answers the one that continues.
fn a_fan_out_with_a_kill(first: Server, next: impl FnOnce(Server) -> Server) {
    let items: Vec<usize> = (0..ITEMS).collect();
    let document = json!({"input": items, "nodes": {
        "list": {"task": {"queue": "q", "kind": "list"}},
        "each": {"task": {"queue": "q", "kind": "each", "payload": {"$expr": "item"}}, "after": ["list"],
            "for_each": "input"},
        "join": {"task": {"queue": "q", "kind": "join", "payload": {"$expr": "size(nodes.each.result)"}},
            "after": ["each"]}
    }});
    let (status, begun) = first.post("/v1/workflows", document);
    assert_eq!(status, 201, "{begun}");
    let place = begun["ref"].as_str().unwrap().to_owned();
    let list = wait_for("the first node", || first.lease("q", 1, 600_000).pop());
    first.succeed(&list);
    let mut leased = Vec::new();
    wait_for("all items to be ready", || {
        leased.extend(first.lease("q", 1_000, 10_000));
        (leased.len() >= ITEMS).then_some(())
    });
    let mut ran = Ran { items: vec![0; ITEMS], joins: 0 };
    let (done, left) = leased.split_at(ITEMS / 2);
    ran.report(&first, done);
    let server = next(first);
    ran.report(&server, left);
    wait_for("the end", || {
        let more = server.lease("q", 1_000, 10_000);
        ran.report(&server, &more);
        (server.get(&format!("/v1/workflows/{place}")).1["state"] == "succeeded").then_some(())
    });
    assert!(ran.joins == 1 && ran.items.iter().all(|item| *item == 1), "each once");
    let tasks = server.get(&format!("/v1/tasks?label=workflow:{place}&limit=1000")).1;
    assert_eq!(tasks["items"].as_array().unwrap().len(), 1_000, "a page of 1,002");
}

fn kill(mut server: Server) {
    server.process.signal("-KILL");
    server.process.ended();
}

#[test]
fn a_fan_out_of_a_thousand_goes_on_after_its_engine_was_killed() {
    let (server, data) = Server::on_new_data();
    a_fan_out_with_a_kill(server, |server| {
        kill(server);
        Server::start(data.path())
    });
}

#[test]
fn a_fan_out_of_a_thousand_goes_on_at_another_engine_after_its_own_was_killed() {
    let (mariadb, redis) = blocking(servers());
    let store_url = blocking(mariadb.fresh_database());
    let data = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Server::command(data.path(), &[]);
        command.env("PUNCTUAL_STORE_URL", &store_url).env("PUNCTUAL_HOT_URL", redis.url());
        let mut process = Running::start(&mut command);
        let first: Value = serde_json::from_str(&process.first_line()).unwrap();
        let url = first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned();
        Server { process, url }
    };
    let (first, second) = (start(), start());
    a_fan_out_with_a_kill(first, |server| {
        kill(server);
        second
    });
}
