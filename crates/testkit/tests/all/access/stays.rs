//! What takes a while ends with the token that it began with: calls that wait for tasks, a body that is sent slowly, an export.

use super::site::{ADMIN, AccessCall, AccessSite, Answer, ask, get, post};
use axum::body::{Body, Bytes};
use futures_util::{StreamExt as _, stream};
use punctual_domain::access::TokenId;
use punctual_testkit::{
    faults::StoreGroup,
    patience::{HANG_LIMIT, until},
};
use serde_json::json;
use tokio::sync::oneshot;

/// A call that is not ended answers 200 after it.
const WAIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

/// Sends the call, runs `what` once `number` calls wait for tasks, and returns the answer to the first.
async fn meanwhile(
    site: &AccessSite,
    waits: AccessCall,
    number: usize,
    what: impl Future<Output = ()>,
) -> Answer {
    let then = async {
        let line = format!("punctual_http_long_polls {number}");
        until(&line, || async {
            site.send(get("/metrics").with(ADMIN)).await.text.lines().any(|given| given == line)
        })
        .await;
        what.await;
    };
    tokio::join!(site.send(waits), then).0
}

fn lease(token: &str, executor: &str) -> AccessCall {
    let body = json!({"wait_ms": WAIT_MS, "executor": executor});
    post("/v1/queues/q/lease", body).within("shop").with(token)
}

fn lease_any(token: &str) -> AccessCall {
    let body = json!({"wait_ms": WAIT_MS, "executor": "x", "queues": [{"name": "q"}, {"name": "r"}]});
    post("/v1/lease", body).within("shop").with(token)
}

async fn revoke(site: &AccessSite, id: &str) {
    site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_end_when_their_token_is_revoked_at_another_engine() {
    both(async |site| {
        let beside = site.beside();
        for several in [false, true] {
            let (id, token) = site.token("executor", &["shop"], &["*"]).await;
            let asked = if several { lease_any(&token) } else { lease(&token, "x") };
            let refused = meanwhile(&beside, asked, 1, async {
                revoke(&site, &id).await;
                // What a running engine does three times a second.
                beside.engine.run_once().await.unwrap();
            })
            .await;
            assert!(refused.headers.contains_key("www-authenticate"));
            refused.expect_problem(401, "auth.required");
            // What comes then is not its.
            site.insert("shop", json!({"queue": "q"})).await;
            site.run_once(1_000).await;
            let leased = site.lease("shop", "q").await;
            assert_eq!((leased.len(), &leased[0]["attempt"]), (1, &json!(1)), "{leased:?}");
        }
    })
    .await;
}

/// An executor that is to get no tasks waits as long as for one.
#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_quiet_does_not_wait_on_without_its_token() {
    both(async |site| {
        let (id, token) = site.token("executor", &["shop"], &["*"]).await;
        let beat = json!({"executor": "x", "queues": ["q"], "leases": []});
        site.admin(post("/v1/heartbeats", beat).within("shop")).await.expect(200);
        site.run_once(5_000).await;
        site.admin(post("/v1/executors/x/quiet", json!({})).within("shop")).await.expect(200);
        let refused = meanwhile(&site, lease(&token, "x"), 1, revoke(&site, &id)).await;
        refused.expect_problem(401, "auth.required");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_ends_when_its_token_expires_or_its_secret_is_over() {
    both(async |site| {
        let now = site.engine.now().0;
        let asked = json!({"name": "short", "roles": ["executor"], "expires_at_ms": now + 1_000});
        let made = site.admin(post("/v1/tokens", asked)).await.expect(201);
        let token = made["token"].as_str().unwrap();
        meanwhile(&site, lease(token, "x"), 1, site.run_once(1_000))
            .await
            .expect_problem(401, "auth.required");
        let (id, first) = site.token("executor", &["shop"], &["*"]).await;
        let rotate = post(format!("/v1/tokens/{id}/rotate"), json!({"overlap_ms": 5_000}));
        let second = site.admin(rotate).await.expect(200)["token"].as_str().unwrap().to_owned();
        // Of two who wait with the secrets of one token, one goes.
        let stays = site.send(lease(&second, "y"));
        let goes = async {
            let refused = meanwhile(&site, lease(&first, "x"), 2, site.run_once(5_000)).await;
            refused.expect_problem(401, "auth.required");
            site.insert("shop", json!({"queue": "q"})).await;
            site.run_once(1_000).await;
        };
        let (leased, ()) = tokio::join!(stays, goes);
        assert_eq!(leased.expect(200)["tasks"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_without_a_token_is_asked_for_one_when_the_first_is_made() {
    let site = AccessSite::open().await;
    let body = json!({"wait_ms": WAIT_MS, "executor": "x"});
    let waits = site.send(post("/v1/queues/q/lease", body));
    let then = async {
        until("it waits", || async {
            site.send(get("/metrics")).await.text.contains("\npunctual_http_long_polls 1\n")
        })
        .await;
        site.send(post("/v1/tokens", json!({"name": "first", "roles": ["admin"]}))).await.expect(201);
    };
    let (answer, ()) = tokio::join!(waits, then);
    answer.expect_problem(401, "auth.required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_sent_while_its_token_ends_inserts_nothing() {
    both(async |site| {
        for key in [None, Some("k")] {
            let (id, token) = site.token("submitter", &["shop"], &["*"]).await;
            let (send, rest) = oneshot::channel::<Bytes>();
            let (reads, is_read) = oneshot::channel::<()>();
            let first = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"{\"queue\":")) });
            let second = stream::once(async move {
                reads.send(()).unwrap();
                Ok(rest.await.unwrap())
            });
            let asked = ask("POST", "/v1/tasks").within("shop").with(&token);
            let mut asked = asked.header("content-type", "application/json");
            if let Some(key) = key {
                asked = asked.header("idempotency-key", key);
            }
            let slow = site.open_with(asked, Body::from_stream(first.chain(second)));
            let then = async {
                is_read.await.unwrap();
                revoke(&site, &id).await;
                send.send(Bytes::from_static(b"\"q\"}")).unwrap();
            };
            let (answer, ()) = tokio::join!(slow, then);
            assert_eq!(answer.status(), 401);
        }
        let tasks = site.admin(get("/v1/tasks").within("shop")).await.expect(200);
        assert_eq!(tasks["items"], json!([]));
    })
    .await;
}

/// Its status is sent: it breaks off.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_the_audit_breaks_off_when_its_token_is_revoked() {
    both(async |site| {
        let (id, token) = site.token("admin", &["*"], &["*"]).await;
        let export = get("/v1/audit").header("accept", "application/x-ndjson").with(&token);
        let answer = site.open_answer(export.clone()).await;
        assert_eq!(answer.status(), 200);
        let gate = site.store.faults.hold(StoreGroup::Audit);
        let mut lines = answer.into_body().into_data_stream();
        let then = async {
            gate.reached().await;
            // Beside the API, whose audit waits too.
            site.engine.revoke_token(TokenId::new(&id).unwrap(), "a test").await.unwrap();
            gate.open();
        };
        let (first, ()) = tokio::join!(lines.next(), then);
        assert!(first.unwrap().is_err(), "it is broken off, and has not come to its end");
    })
    .await;
}
