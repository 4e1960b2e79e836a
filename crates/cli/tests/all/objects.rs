//! A server whose archives and long payloads are in a bucket, from the outside: what it is given, what it says of a bucket
//! that is none, and what becomes of its tasks while the bucket does not answer.

use crate::binary::{Running, Server, address, blocking, stderr, wait_for};
use punctual_testkit::servers::{ObjectServer, Proxy, Way, object_variables};
use serde_json::{Value, json};
use std::{path::Path, process::Command};

const BUCKET: &str = "tasks";

struct ObjectsSite {
    objects: ObjectServer,
    way: Proxy,
    data: tempfile::TempDir,
}

impl ObjectsSite {
    fn new() -> Self {
        let objects = blocking(async {
            let objects = ObjectServer::open().await;
            objects.make_bucket(BUCKET).await;
            objects
        });
        let way = Proxy::before(objects.port());
        Self { objects, way, data: tempfile::tempdir().unwrap() }
    }

    fn command(&self, bucket: &str) -> Command {
        command(self.data.path(), bucket, self.way.port())
    }

    fn serve(&self) -> Server {
        let mut process = Running::start(&mut self.command(BUCKET));
        let url = address(&process.first_line());
        Server { process, url }
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let names = blocking(self.objects.names(BUCKET));
        names.into_iter().filter(|name| name.starts_with(prefix)).collect()
    }
}

fn command(data: &Path, bucket: &str, port: u16) -> Command {
    let mut command = Server::command(data, &["--set", "payloads.inline_max_bytes=1024"]);
    command
        .env("PUNCTUAL_ARCHIVE_URL", format!("s3://{bucket}/archive"))
        .env("PUNCTUAL_PAYLOADS_URL", format!("s3://{bucket}/payloads"))
        .envs(object_variables(port, "key", "secret"));
    command
}

fn long(of: &str) -> Value {
    json!({ "text": of.repeat(2_000) })
}

#[test]
fn long_payloads_and_results_come_back_from_the_bucket_also_after_a_restart() {
    let site = ObjectsSite::new();
    let mut server = site.serve();
    let task = server.insert(json!({ "queue": "q", "kind": "k", "payload": long("in") }));
    let waiting =
        server.insert(json!({ "queue": "q", "kind": "k", "delay_ms": 900_000, "payload": long("later") }));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["payload"], long("in"));
    let outcome = json!({
        "ref": leased["ref"], "token": leased["token"], "outcome": "succeeded", "result": long("out")
    });
    let (status, answer) = server.post("/v1/outcomes", json!({ "outcomes": [outcome] }));
    assert_eq!((status, &answer["results"][0]["status"]), (200, &json!("accepted")), "{answer}");
    assert_eq!(site.names("payloads/").len(), 4, "two payloads, a result, and whose they are");
    assert_eq!(site.names("archive/").len(), 1, "whose it is");
    server.process.signal("-TERM");
    assert!(server.process.ended().success());
    let server = site.serve();
    let get = |task: &Value| server.get(&format!("/v1/tasks/{}", task["ref"].as_str().unwrap())).1;
    assert_eq!(get(&task)["result"]["result"], long("out"), "{}", get(&task));
    assert_eq!(get(&waiting)["payload"], long("later"));
}

#[test]
fn a_bucket_that_is_none_is_named_at_the_start() {
    let site = ObjectsSite::new();
    let output = site.command("nowhere").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("s3://nowhere/") && said.contains("bucket does not exist"), "{said}");
}

#[test]
fn what_is_in_a_bucket_that_goes_away_comes_when_it_is_back() {
    let site = ObjectsSite::new();
    let server = site.serve();
    let task = server.insert(json!({ "queue": "q", "kind": "k", "delay_ms": 300, "payload": long("in") }));
    site.way.set(Way::Cut);
    let (status, refused) =
        server.post("/v1/tasks", json!({ "queue": "q", "kind": "k", "payload": long("in") }));
    assert_eq!((status, &refused["code"]), (503, &json!("store.unavailable")), "{refused}");
    let short = server.insert(json!({ "queue": "other", "kind": "k", "payload": "short" }));
    let leased = wait_for("what needs no bucket", || server.lease("other", 1, 600_000).pop());
    assert_eq!(leased["ref"], short["ref"]);
    assert_eq!(server.lease("q", 1, 10_000), Vec::<Value>::new());
    // A list shows no payload, and so needs none.
    let state = || server.get("/v1/tasks?queue=q").1["items"][0]["state"].clone();
    wait_for("it is brought back later", || (state() == "dispatch_failed").then_some(()));
    let (status, refused) = server.get(&format!("/v1/tasks/{}", task["ref"].as_str().unwrap()));
    assert_eq!(status, 503, "not that it has no payload: {refused}");
    site.way.set(Way::Open);
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(
        (&leased["ref"], &leased["attempt"], &leased["payload"]),
        (&task["ref"], &json!(1), &long("in"))
    );
}
