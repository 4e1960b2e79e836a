//! Every call, as every role, without a token, with a wrong one, in one's own namespace and in another's: against the table.
//! Seen to fail: with a `Who::sees` that always says yes.

use super::{
    site::{AccessCall, AccessSite, Answer, ask, get, post},
    table::{Foreign, PermissionRow, ROLES, TABLE},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const OWN: &str = "a";
const OTHER: &str = "b";
/// In the contents of the other namespace, and in no name: no answer to a stranger contains the mark.
const MARK: &str = "not-for-strangers";
/// Open to everybody; but a token that is shown to it must be good.
const LOOKS_AT_TOKENS: &str = "/readyz";
const METHODS: [&str; 5] = ["get", "post", "patch", "put", "delete"];

#[test]
fn the_table_has_every_documented_call_and_each_says_its_permission() {
    let document = serde_json::to_value(punctual_server::document()).unwrap();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in
            item.as_object().unwrap().iter().filter(|pair| METHODS.contains(&pair.0.as_str()))
        {
            let call = format!("{} {path}", method.to_uppercase());
            let is_open = TABLE.iter().any(|row| row.roles.is_empty() && row.path == path);
            assert_eq!(operation["x-permission"].is_string(), !is_open, "{call} says no permission");
            assert_eq!(operation["security"].is_array(), !is_open, "{call}");
            let may_refuse = !is_open || path == LOOKS_AT_TOKENS;
            assert_eq!(operation["responses"]["401"].is_object(), may_refuse, "{call}");
            documented.insert(call);
        }
    }
    let table: BTreeSet<String> = TABLE.iter().map(|row| format!("{} {}", row.method, row.path)).collect();
    assert_eq!(table, documented);
}

#[tokio::test]
async fn every_call_of_every_role_is_answered_as_the_table_says_on_sqlite() {
    Box::pin(walk(AccessSite::sqlite().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_every_role_is_answered_as_the_table_says_on_mysql_and_redis() {
    Box::pin(walk(AccessSite::mysql().await)).await;
}

async fn walk(site: AccessSite) {
    for namespace in [OWN, OTHER] {
        furnish(&site, namespace).await;
    }
    let before = stock(&site).await;
    let mut from = 0;
    for row in TABLE {
        for (nth, token) in [None, Some("punctual_aaaaaaaaaaaa_nonsense")].into_iter().enumerate() {
            from += 1;
            let asked = request(&site, &row, OWN).await.from(from);
            let answer = site
                .send(match token {
                    Some(token) => asked.with(token),
                    None => asked,
                })
                .await;
            let is_open = row.roles.is_empty() && (token.is_none() || row.path != LOOKS_AT_TOKENS);
            let expected = if is_open { 200 } else { 401 };
            assert_eq!(answer.status, expected, "{} {} {nth}: {}", row.method, row.path, answer.text);
            assert_eq!(answer.headers.contains_key("www-authenticate"), expected == 401);
        }
    }
    for role in ROLES {
        let (_, token) = site.token(role, &[OWN], &["*"]).await;
        for row in TABLE {
            let what = format!("{role}: {} {}", row.method, row.path);
            let is_allowed = row.roles.is_empty() || row.roles.contains(&role);
            let own = site.send(request(&site, &row, OWN).await.with(&token)).await;
            let expected = if is_allowed { row.own.unwrap_or(403) } else { 403 };
            assert_eq!(own.status, expected, "{what}: {}", own.text);
            let foreign = site.send(request(&site, &row, OTHER).await.with(&token)).await;
            assert!(!foreign.text.contains(MARK), "{what} shows what is another's: {}", foreign.text);
            if is_allowed {
                check_foreign(&what, row, foreign);
            } else {
                foreign.expect_problem(403, "auth.denied");
            }
        }
    }
    assert_eq!(stock(&site).await, before, "nothing of the other namespace has changed");
}

fn check_foreign(what: &str, row: PermissionRow, answer: Answer) {
    match row.foreign {
        Foreign::Denied => answer.expect_problem(403, "auth.denied"),
        Foreign::Hidden(code) => answer.expect_problem(404, code),
        Foreign::Same => drop(answer.expect(200)),
        Foreign::Empty(pointer, expected) => {
            let found = answer.body.pointer(pointer).map(Value::to_string);
            assert_eq!((answer.status, found.as_deref()), (200, Some(expected)), "{what}: {}", answer.text);
        }
    }
}

/// The call of a row on what a namespace has.
async fn request(site: &AccessSite, row: &PermissionRow, namespace: &str) -> AccessCall {
    let needs_task = row.path.contains("{ref}") || row.path == "/v1/outcomes" || row.path == "/v1/heartbeats";
    let place = if needs_task { site.insert(namespace, task()).await } else { String::new() };
    let needs_token = row.path.contains("{id}");
    let id = if needs_token { site.token("viewer", &[namespace], &["*"]).await.0 } else { String::new() };
    if row.path.contains("{schedule}") {
        let schedule = json!({"cron": "@yearly", "owner": MARK, "task": {"queue": "q"}});
        let put = ask("PUT", "/v1/schedules/s").within(namespace).body(Some(schedule));
        assert!(site.admin(put).await.status < 300);
    }
    let needs_workflow = row.path.contains("{workflow}");
    let workflow = if needs_workflow { Box::pin(begun(site, namespace)).await } else { String::new() };
    let bulk = if row.path.contains("{bulk}") { bulk(site, namespace).await } else { String::new() };
    let path = format!("{}{}", row.path, row.query).replace("{schedule}", "s").replace("{bulk}", &bulk);
    let path = path.replace("{workflow}", &workflow).replace("{node}", "a");
    let path = path.replace("{ref}", &place).replace("{id}", &id).replace("{namespace}", namespace);
    let path = path.replace("{queue}", "q").replace("{executor}", "x").replace("{shard}", "0");
    let told = if row.path == "/v1/tokens" { namespace } else { place.as_str() };
    ask(row.method, path).within(namespace).body(row.body.map(|body| body(told)))
}

async fn begun(site: &AccessSite, namespace: &str) -> String {
    // It is over at once: no task of it is left.
    let asked = json!({"input": MARK, "nodes": {"a": {"task": {"queue": "q"}, "when": "false"}}});
    let begun = site.admin(post("/v1/workflows", asked).within(namespace)).await.expect(201);
    begun["ref"].as_str().unwrap().to_owned()
}

/// One that is previewed, and finds nothing.
async fn bulk(site: &AccessSite, namespace: &str) -> String {
    let asked = json!({"action": "cancel", "filter": {"queue": "none"}, "reason": MARK});
    site.admin(post("/v1/bulk", asked).within(namespace)).await.expect(201)["id"].to_string()
}

fn task() -> Value {
    json!({"queue": "q", "delay_ms": 3_600_000, "payload": MARK, "labels": {"mark": MARK}})
}

/// A dead task, a task to come, settings, an executor with a lease.
async fn furnish(site: &AccessSite, namespace: &str) {
    let due = json!({"queue": "q", "payload": MARK});
    site.insert(namespace, due.clone()).await;
    site.run_once(1_000).await;
    let leased = site.lease(namespace, "q").await.remove(0);
    let dead =
        json!({"ref": leased["ref"], "token": leased["token"], "outcome": "reject", "status_msg": MARK});
    let reported = site.admin(post("/v1/outcomes", json!({"outcomes": [dead]})).within(namespace)).await;
    assert_eq!(reported.expect(200)["results"][0]["status"], "accepted");
    site.insert(namespace, task()).await;
    let settings = json!({"concurrency": 7, "pause": {"reason": MARK}});
    site.admin(ask("PUT", "/v1/queues/q").within(namespace).body(Some(settings))).await.expect(200);
    site.admin(post("/v1/queues/q/resume", json!({})).within(namespace)).await.expect(200);
    let limits =
        ask("PUT", format!("/v1/namespaces/{namespace}")).body(Some(json!({"max_waiting": 777_777})));
    site.admin(limits).await.expect(200);
    let beat = json!({"executor": "x", "labels": {"mark": MARK}, "queues": ["q"], "leases": []});
    site.admin(post("/v1/heartbeats", beat).within(namespace)).await.expect(200);
    site.run_once(5_000).await;
}

/// The contents of the other namespace, except scheduled tasks and tokens, which the walk itself adds.
async fn stock(site: &AccessSite) -> Vec<String> {
    let seen = async |path: &str| site.admin(get(path).within(OTHER)).await.expect(200);
    let dead = seen("/v1/dead-letters").await["items"].as_array().unwrap().len();
    let queue = seen("/v1/queues/q").await;
    let executor = seen("/v1/executors/x").await;
    let mut limits = seen("/v1/namespaces/b").await;
    // The walk itself puts tasks there.
    limits.as_object_mut().unwrap().remove("usage");
    let states: BTreeSet<String> = seen("/v1/tasks?limit=1000").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            format!(
                "{} {}",
                task["state"],
                task["updated_at_ms"] == task["created_at_ms"] || task["state"] == "dead"
            )
        })
        .collect();
    let tokens = site.admin(get("/v1/tokens?limit=1000")).await.expect(200);
    let of_other = |entry: &&Value| entry["namespaces"] == json!([OTHER]);
    let revoked = tokens["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_other)
        .filter(|token| token["state"] != "active");
    vec![
        format!("{dead} dead"),
        format!("{} {} {}", queue["revision"], queue["pause"], queue["concurrency"]),
        executor["state"].to_string(),
        limits.to_string(),
        format!("{states:?}"),
        format!("{} revoked", revoked.count()),
    ]
}
