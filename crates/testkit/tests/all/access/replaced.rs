//! The state before a change in the audit: the one that the change itself replaced, even if another change
//! came between the caller's read and the change. Seen to fail, each: with the state that the caller had
//! read.

use super::site::{AccessCall, AccessSite, ask, get, post};
use punctual_contract::{schedules::ScheduleKey, workflows::WorkflowId};
use punctual_domain::{access::TokenId, name::Name};
use punctual_testkit::faults::{BulkGroup, ScheduleGroup, StoreGroup, WorkflowGroup};
use serde_json::{Value, json};

const NS: &str = "shop";

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

fn namespace() -> Name {
    Name::new(NS).unwrap()
}

fn call(path: impl Into<String>) -> AccessCall {
    post(path, json!({})).within(NS)
}

/// The newest entry of an action: before, after.
async fn reported(site: &AccessSite, action: &str) -> (Value, Value) {
    let mut page = site.admin(get(format!("/v1/audit?limit=1&action={action}"))).await.expect(200);
    let entry = page["items"][0].take();
    (entry["before"].clone(), entry["after"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_bulk_operation() {
    both(async |site| {
        site.insert(NS, json!({"queue": "q", "delay_ms": 60_000})).await;
        let asked = json!({"action": "cancel", "filter": {"queue": "q"}});
        let id = site.admin(post("/v1/bulk", asked).within(NS)).await.expect(201)["id"].as_i64().unwrap();
        site.admin(call(format!("/v1/bulk/{id}/confirm"))).await.expect(200);
        let gate = site.bulks.faults.hold(BulkGroup::Write);
        let overtakes = async {
            gate.reached().await;
            site.another.bulk.pause(&namespace(), id, None, "another").await.unwrap();
            gate.open();
        };
        let (answer, ()) = tokio::join!(site.admin(call(format!("/v1/bulk/{id}/stop"))), overtakes);
        let answer = answer.expect(200);
        let (before, after) = reported(&site, "stop_bulk").await;
        assert_eq!((&before["state"], &after["state"]), (&json!("paused"), &json!("stopped")));
        // The answer is what is stored.
        let current = site.admin(get(format!("/v1/bulk/{id}")).within(NS)).await.expect(200);
        assert_eq!(answer, current);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_schedule_that_is_paused_and_resumed() {
    both(async |site| {
        let schedule = json!({"cron": "@yearly", "owner": "ada", "task": {"queue": "q"}});
        site.admin(ask("PUT", "/v1/schedules/s").within(NS).body(Some(schedule))).await.expect(201);
        let key = ScheduleKey { namespace: namespace(), name: Name::new("s").unwrap() };
        for (what, owner) in [("pause", "bob"), ("resume", "eve")] {
            let gate = site.schedules.faults.hold(ScheduleGroup::Write);
            let overtakes = async {
                gate.reached().await;
                let mut schedule = site.another.planner.get(&key).await.unwrap().schedule;
                schedule.owner = Some(owner.to_owned());
                site.another.planner.put(&key, schedule, "another", |_| true).await.unwrap();
                gate.open();
            };
            let asked = site.admin(call(format!("/v1/schedules/s/{what}")));
            let (answer, ()) = tokio::join!(asked, overtakes);
            answer.expect(200);
            let (before, after) = reported(&site, &format!("{what}_schedule")).await;
            assert_eq!((&before["owner"], &after["owner"]), (&json!(owner), &json!(owner)), "{before}");
            assert_eq!(
                (before["pause"].is_object(), after["pause"].is_object()),
                (what == "resume", what == "pause")
            );
        }
    })
    .await;
}

/// Replicas of a caller store the same document when they start: a lost race is no error, unless the caller
/// has named the revision to replace.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_overtaken_changes_a_schedule_all_the_same_unless_a_revision_is_demanded() {
    both(async |site| {
        let put = || {
            let schedule = json!({"cron": "@yearly", "owner": "ada", "task": {"queue": "q"}});
            ask("PUT", "/v1/schedules/s").within(NS).body(Some(schedule))
        };
        let patch = || ask("PATCH", "/v1/schedules/s").within(NS).body(Some(json!({"description": "b"})));
        let delete = || ask("DELETE", "/v1/schedules/s").within(NS);
        let key = ScheduleKey { namespace: namespace(), name: Name::new("s").unwrap() };
        for (nth, asked) in [put as fn() -> AccessCall, patch, delete].into_iter().enumerate() {
            let first = site.admin(put()).await;
            let tag = first.headers["etag"].to_str().unwrap().to_owned();
            for demands in [true, false] {
                let gate = site.schedules.faults.hold(ScheduleGroup::Write);
                let overtakes = async {
                    gate.reached().await;
                    let mut schedule = site.another.planner.get(&key).await.unwrap().schedule;
                    schedule.owner = Some(format!("{nth} {demands}"));
                    site.another.planner.put(&key, schedule, "another", |_| true).await.unwrap();
                    gate.open();
                };
                let asked = if demands { asked().header("if-match", tag.clone()) } else { asked() };
                // What changes nothing is not written: it is another document each time.
                let asked = match nth {
                    0 => asked.body(Some(json!({"cron": "@daily", "owner": "eve", "task": {"queue": "q"}}))),
                    _ => asked,
                };
                let (answer, ()) = tokio::join!(site.admin(asked), overtakes);
                assert_eq!(answer.status, if demands { 412 } else { 200 }, "{nth}: {}", answer.text);
            }
        }
        let storing = (0..4).map(|_| site.admin(put()));
        let stored = futures_util::future::join_all(storing).await;
        assert!(stored.iter().all(|answer| [200, 201].contains(&answer.status)), "four at once");
        let revisions: Vec<&Value> = stored.iter().map(|answer| &answer.body["revision"]).collect();
        assert!(revisions.iter().all(|revision| *revision == revisions[0]), "one document: {revisions:?}");
    })
    .await;
}

/// Another caller puts it into a queue that the token does not reach, after the token's look.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_does_not_reach_any_more_when_it_is_changed_is_not_there_for_it() {
    both(async |site| {
        let (_, token) = site.token("operator", &[NS], &["q"]).await;
        let key = ScheduleKey { namespace: namespace(), name: Name::new("s").unwrap() };
        for what in ["pause", "resume", "run"] {
            let schedule = json!({"cron": "@yearly", "task": {"queue": "q"}});
            let put = ask("PUT", "/v1/schedules/s").within(NS).body(Some(schedule));
            let status = if what == "pause" { 201 } else { 200 };
            site.admin(put).await.expect(status);
            // What changes nothing is not written: there is a pause to end.
            if what == "resume" {
                site.admin(call("/v1/schedules/s/pause")).await.expect(200);
            }
            let gate = site.schedules.faults.hold(ScheduleGroup::Write);
            let overtakes = async {
                gate.reached().await;
                let mut schedule = site.another.planner.get(&key).await.unwrap().schedule;
                schedule.task.queue = Name::new("hidden").unwrap();
                site.another.planner.put(&key, schedule, "another", |_| true).await.unwrap();
                gate.open();
            };
            let asked = site.send(call(format!("/v1/schedules/s/{what}")).with(&token));
            let (answer, ()) = tokio::join!(asked, overtakes);
            answer.expect_problem(404, "schedule.not_found");
            let current = site.another.planner.get(&key).await.unwrap();
            assert_eq!(current.schedule.pause.is_some(), what == "resume", "{what}");
            assert_eq!(current.progress.runs, 0, "{what}");
            if what == "resume" {
                site.admin(call("/v1/schedules/s/resume")).await.expect(200);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_token_that_is_rotated_and_revoked() {
    both(async |site| {
        let (id, _) = site.token("viewer", &[NS], &["*"]).await;
        let token = TokenId::new(&id).unwrap();
        let calls = [
            ("rotate_token", post(format!("/v1/tokens/{id}/rotate"), json!({}))),
            ("revoke_token", ask("DELETE", format!("/v1/tokens/{id}"))),
        ];
        for (action, asked) in calls {
            let gate = site.store.faults.hold(StoreGroup::Access);
            let overtakes = async {
                // The caller's look, and that of the change: then it is to be saved.
                for _ in 0..2 {
                    gate.reached().await;
                    gate.pass_one();
                }
                gate.reached().await;
                site.clock.advance_ms(1_000);
                site.another.engine.rotate_token(token.clone(), 5_000).await.unwrap();
                gate.open();
                site.engine.now().0
            };
            let (answer, rotated_at) = tokio::join!(site.admin(asked), overtakes);
            answer.expect(200);
            let (before, after) = reported(&site, action).await;
            assert_eq!(before["rotated_at_ms"], json!(rotated_at), "{before}");
            assert!(
                before["revoked_at_ms"].is_null() && before["id"] == *id && after["id"] == *id,
                "{after}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_workflow() {
    both(async |site| {
        let asked = json!({"input": {}, "nodes": {"a": {"task": {"queue": "w", "max_attempts": 1}}}});
        let begun = site.admin(post("/v1/workflows", asked).within(NS)).await.expect(201);
        let place = begun["ref"].as_str().unwrap();
        site.run_once(1_000).await;
        let leased = site.lease(NS, "w").await.remove(0);
        let dead = json!({"ref": leased["ref"], "token": leased["token"], "outcome": "reject"});
        site.admin(post("/v1/outcomes", json!({"outcomes": [dead]})).within(NS)).await.expect(200);
        site.workflows.run_once(site.engine.now()).await.unwrap();
        let failed = site.admin(get(format!("/v1/workflows/{place}")).within(NS)).await.expect(200);
        assert_eq!(failed["state"], "failed", "{failed}");
        let gate = site.flows.faults.hold(WorkflowGroup::Read);
        let overtakes = async {
            gate.reached().await;
            gate.pass_one();
            gate.reached().await;
            site.another.workflows.retry(place.parse::<WorkflowId>().unwrap()).await.unwrap();
            gate.open();
        };
        let asked = site.admin(call(format!("/v1/workflows/{place}/cancel")));
        let (answer, ()) = tokio::join!(asked, overtakes);
        answer.expect(200);
        let (before, after) = reported(&site, "cancel_workflow").await;
        assert_eq!((&before["state"], &after["state"]), (&json!("running"), &json!("cancelled")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_executor_and_of_what_is_logged() {
    both(async |site| {
        let beat = json!({"executor": "x", "queues": ["q"], "leases": []});
        site.admin(post("/v1/heartbeats", beat).within(NS)).await.expect(200);
        for (what, action, before, after) in [
            ("quiet", "quiet_executor", "alive", "quiet"),
            ("drain", "drain_executor", "quiet", "draining"),
            ("resume", "resume_executor", "draining", "alive"),
        ] {
            site.admin(call(format!("/v1/executors/x/{what}"))).await.expect(200);
            let (stood, current) = reported(&site, action).await;
            assert_eq!((&stood["state"], &current["state"]), (&json!(before), &json!(after)), "{what}");
        }
        for (filter, stood) in [("debug", "info"), ("trace", "debug")] {
            let put = ask("PUT", "/v1/log-filter").body(Some(json!({"filter": filter})));
            site.admin(put).await.expect(200);
            let (before, after) = reported(&site, "put_log_filter").await;
            assert_eq!((&before["filter"], &after["filter"]), (&json!(stood), &json!(filter)));
        }
    })
    .await;
}
