//! How tokens begin and end. Seen to fail: with a rotation that forgets the secret before; with a guard that
//! asks the store before it honours a token.

use super::site::{ADMIN, AccessSite, ask, get, post};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const HOUR_MS: u64 = 3_600_000;

#[tokio::test]
async fn without_any_token_anybody_may_and_after_the_first_nobody_without_one() {
    let site = AccessSite::open().await;
    site.send(get("/v1/tasks")).await.expect(200);
    let asked = json!({"name": "first", "roles": ["admin"]});
    let first = site.send(post("/v1/tokens", asked)).await.expect(201);
    let token = first["token"].as_str().unwrap();
    site.send(get("/v1/tasks")).await.expect_problem(401, "auth.required");
    site.send(get("/v1/tasks").with(token)).await.expect(200);
    let revoke = ask("DELETE", format!("/v1/tokens/{}", first["id"].as_str().unwrap()));
    assert_eq!(site.send(revoke.with(token)).await.expect(200)["state"], "revoked");
    site.send(get("/v1/tasks").with(token)).await.expect_problem(401, "auth.required");
    site.send(get("/v1/tasks")).await.expect_problem(401, "auth.required");
    for path in ["/livez", "/readyz", "/openapi.json", "/docs/", "/docs/errors"] {
        assert_eq!(site.send(get(path)).await.status, 200, "{path}");
    }
    for path in ["/nothing", "/metrics", "/v1/nothing"] {
        site.send(get(path)).await.expect_problem(401, "auth.required");
    }
}

#[tokio::test]
async fn the_first_token_leaves_a_time_in_which_none_is_required() {
    let site = AccessSite::open().await;
    let asked = json!({"name": "first", "roles": ["admin"], "grace_ms": HOUR_MS});
    let first = site.send(post("/v1/tokens", asked)).await.expect(201);
    let required_at = site.engine.now().0 + i64::try_from(HOUR_MS).unwrap();
    assert_eq!(first["required_at_ms"], required_at);
    let admin = first["token"].as_str().unwrap();
    // Callers continue as before, with their token too; one that is wrong is found before it matters.
    site.send(get("/v1/tasks")).await.expect(200);
    site.send(get("/v1/tasks").with(admin)).await.expect(200);
    site.send(get("/v1/tasks").with("wrong")).await.expect_problem(401, "auth.required");
    assert_eq!(site.send(get("/v1/me")).await.expect(200)["needs_token"], false);
    // A second one neither shortens the time nor names another.
    let second = json!({"name": "worker", "roles": ["executor"]});
    let second = site.send(post("/v1/tokens", second)).await.expect(201);
    assert_eq!(second["required_at_ms"], required_at);
    let longer = json!({"name": "longer", "roles": ["executor"], "grace_ms": 2 * HOUR_MS});
    let refused = site.send(post("/v1/tokens", longer)).await;
    assert!(refused.text.contains("grace_ms") && refused.text.contains("first token"), "{}", refused.text);
    refused.expect_problem(400, "request.invalid");
    let rotate = post(format!("/v1/tokens/{}/rotate", first["id"].as_str().unwrap()), json!({}));
    let admin = site.send(rotate).await.expect(200)["token"].as_str().unwrap().to_owned();
    site.clock.advance_ms(HOUR_MS - 1);
    site.send(get("/v1/tasks")).await.expect(200);
    site.clock.advance_ms(1);
    site.send(get("/v1/tasks")).await.expect_problem(401, "auth.required");
    site.send(get("/v1/tasks").with(&admin)).await.expect(200);
    let third = json!({"name": "third", "roles": ["viewer"]});
    let third = site.send(post("/v1/tokens", third).with(&admin)).await.expect(201);
    assert!(third["required_at_ms"].is_null(), "{third}");
    site.send(get("/v1/tasks")).await.expect_problem(401, "auth.required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_at_another_engine_at_once_and_not_after_it_was_revoked() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let beside = site.beside();
        beside.send(get("/v1/tasks").with(ADMIN)).await.expect(200);
        let (id, token) = site.token("viewer", &["*"], &["*"]).await;
        beside.send(get("/v1/tasks").with(&token)).await.expect(200);
        site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
        site.send(get("/v1/tasks").with(&token)).await.expect_problem(401, "auth.required");
        // What a running engine does three times a second.
        beside.engine.run_once().await.unwrap();
        beside.send(get("/v1/tasks").with(&token)).await.expect_problem(401, "auth.required");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_token_has_two_secrets_for_a_while_and_then_the_new_one() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (id, first) = site.token("viewer", &["*"], &["*"]).await;
        let rotate = post(format!("/v1/tokens/{id}/rotate"), json!({"overlap_ms": HOUR_MS}));
        let rotated = site.admin(rotate).await.expect(200);
        let second = rotated["token"].as_str().unwrap();
        assert_ne!(first, second);
        for token in [first.as_str(), second] {
            site.send(get("/v1/tasks").with(token)).await.expect(200);
        }
        site.clock.advance_ms(HOUR_MS);
        site.send(get("/v1/tasks").with(&first)).await.expect_problem(401, "auth.required");
        site.send(get("/v1/tasks").with(second)).await.expect(200);
        let at_once = post(format!("/v1/tokens/{id}/rotate"), json!({"overlap_ms": 0}));
        let third = site.admin(at_once).await.expect(200);
        site.send(get("/v1/tasks").with(second)).await.expect_problem(401, "auth.required");
        site.send(get("/v1/tasks").with(third["token"].as_str().unwrap())).await.expect(200);
        site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
        let rotate = post(format!("/v1/tokens/{id}/rotate"), json!({}));
        site.admin(rotate).await.expect_problem(409, "token.revoked");
    }
}

#[tokio::test]
async fn a_token_ends_when_it_expires() {
    let site = AccessSite::sqlite().await;
    let now = site.engine.now().0;
    let asked = json!({"name": "short", "roles": ["viewer"], "expires_at_ms": now + 1_000});
    let made = site.admin(post("/v1/tokens", asked)).await.expect(201);
    let token = made["token"].as_str().unwrap();
    site.send(get("/v1/tasks").with(token)).await.expect(200);
    site.clock.advance_ms(1_000);
    let refused = site.send(get("/v1/tasks").with(token)).await;
    assert!(refused.text.contains("expired"), "{}", refused.text);
    refused.expect_problem(401, "auth.required");
    let past = json!({"name": "late", "roles": ["viewer"], "expires_at_ms": now});
    site.admin(post("/v1/tokens", past)).await.expect_problem(400, "request.invalid");
}

#[tokio::test]
async fn a_store_that_is_away_locks_out_nobody_who_is_known() {
    let site = AccessSite::sqlite().await;
    let (_, token) = site.token("viewer", &["*"], &["*"]).await;
    for group in [StoreGroup::Access, StoreGroup::Audit] {
        site.store.faults.set(group, Dials::REFUSES);
    }
    site.send(get("/v1/tasks").with(&token)).await.expect(200);
    site.send(get("/v1/tasks")).await.expect_problem(401, "auth.required");
    let unknown = "punctual_aaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    site.send(get("/v1/tasks").with(unknown)).await.expect_problem(503, "store.unavailable");
    // An engine that has never read the tokens admits no caller.
    let beside = site.beside();
    beside.send(get("/v1/tasks").with(ADMIN)).await.expect_problem(503, "store.unavailable");
    beside.send(get("/livez")).await.expect(200);
}

#[tokio::test]
async fn a_secret_is_shown_once_and_kept_under_no_key() {
    let site = AccessSite::sqlite().await;
    let asked = json!({"name": "mailer", "roles": ["submitter"]});
    let keyed = post("/v1/tokens", asked.clone()).header("idempotency-key", "k");
    site.admin(keyed).await.expect_problem(400, "request.invalid");
    let made = site.admin(post("/v1/tokens", asked)).await.expect(201);
    let secret = made["token"].as_str().unwrap().rsplit('_').next().unwrap().to_owned();
    for path in ["/v1/tokens", "/v1/audit"] {
        let shown = site.admin(get(path)).await;
        assert!(shown.text.contains("mailer") && !shown.text.contains(&secret), "{path}: {}", shown.text);
    }
}

#[tokio::test]
async fn nobody_gives_away_sees_or_changes_more_than_they_have() {
    let site = AccessSite::sqlite().await;
    let (_, of_a) = site.token("admin", &["a"], &["*"]).await;
    let (of_b, _) = site.token("viewer", &["b"], &["*"]).await;
    for (namespaces, queues, status) in [
        (json!(["a"]), json!(["*"]), 201),
        (json!(["*"]), json!(["*"]), 403),
        (json!(["a", "b"]), json!(["x"]), 403),
    ] {
        let asked = json!({"name": "t", "roles": ["admin"], "namespaces": namespaces, "queues": queues});
        assert_eq!(site.send(post("/v1/tokens", asked).with(&of_a)).await.status, status);
    }
    let all = json!({"name": "t", "roles": ["viewer"]});
    site.send(post("/v1/tokens", all).with(&of_a)).await.expect_problem(403, "auth.denied");
    let shown = site.send(get("/v1/tokens").with(&of_a)).await;
    assert!(!shown.text.contains(&of_b), "{}", shown.text);
    let revoke = ask("DELETE", format!("/v1/tokens/{of_b}"));
    site.send(revoke.with(&of_a)).await.expect_problem(404, "token.not_found");
}

#[tokio::test(start_paused = true)]
async fn many_bad_tokens_of_an_address_are_slowed_and_its_good_ones_are_not() {
    let site = AccessSite::sqlite().await;
    let (_, good) = site.token("viewer", &["*"], &["*"]).await;
    for nth in 0..10 {
        let bad = get("/v1/tasks").with(&format!("bad-{nth}"));
        site.send(bad).await.expect_problem(401, "auth.required");
    }
    let began = tokio::time::Instant::now();
    let slowed = site.send(get("/v1/tasks").with("bad")).await;
    assert!(began.elapsed().as_millis() >= 500, "{:?}", began.elapsed());
    assert!(slowed.headers.contains_key("retry-after"));
    slowed.expect_problem(429, "auth.slowed");
    site.send(get("/v1/tasks").with(&good)).await.expect(200);
    site.send(get("/v1/tasks").with("bad").from(9)).await.expect_problem(401, "auth.required");
}

/// Bad tokens are no way to load the store.
#[tokio::test(start_paused = true)]
async fn however_many_bad_tokens_come_the_store_is_asked_a_few_times() {
    let site = AccessSite::sqlite().await;
    site.admin(get("/v1/tasks")).await.expect(200);
    let before = site.store.faults.counts(StoreGroup::Access).passed;
    for nth in 0..500 {
        site.send(get("/v1/tasks").with("bad").from(nth)).await.expect_problem(401, "auth.required");
    }
    let asked = site.store.faults.counts(StoreGroup::Access).passed - before;
    assert!(asked <= 2, "{asked} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_listed_in_pages_and_by_their_state() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let mut made = Vec::new();
        for nth in 0..7 {
            // Two at each instant.
            site.clock.advance_ms(nth % 2);
            made.push(site.token("viewer", &["*"], &["*"]).await.0);
        }
        for id in &made[..2] {
            site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
        }
        let listed = async |query: &str, limit: usize| {
            let (mut all, mut cursor) = (Vec::new(), String::new());
            loop {
                let asked = format!("/v1/tokens?limit={limit}{query}{cursor}");
                let page = site.admin(get(&asked)).await.expect(200);
                all.extend(page["items"].as_array().unwrap().clone());
                let Some(next) = page["next_cursor"].as_str() else { return all };
                assert_eq!(page["items"].as_array().unwrap().len(), limit);
                cursor = format!("&cursor={next}");
            }
        };
        let ids = |all: &[Value]| {
            all.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let whole = listed("", 1_000).await;
        assert_eq!(ids(&whole).into_iter().collect::<BTreeSet<_>>(), made.iter().cloned().collect());
        assert!(whole.is_sorted_by_key(|entry| std::cmp::Reverse(entry["created_at_ms"].as_i64().unwrap())));
        for limit in [1, 2, 3, 7] {
            assert_eq!(ids(&listed("", limit).await), ids(&whole), "{limit}");
        }
        assert_eq!(listed("&state=active", 2).await.len(), 5);
        assert_eq!(listed("&state=revoked", 2).await.len(), 2);
        site.admin(get("/v1/tokens?cursor=x")).await.expect_problem(400, "request.invalid");
    }
}

/// Together with the audit, which is the last place that names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_over_is_forgotten_when_the_audit_of_its_time_is() {
    const DAY_MS: u64 = 86_400_000;
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (revoked, _) = site.token("viewer", &["*"], &["*"]).await;
        let (active, _) = site.token("viewer", &["*"], &["*"]).await;
        site.admin(ask("DELETE", format!("/v1/tokens/{revoked}"))).await.expect(200);
        let ids = async || {
            let all = site.admin(get("/v1/tokens")).await.expect(200);
            let items = all["items"].as_array().unwrap();
            items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        site.run_once(364 * DAY_MS).await;
        assert_eq!(ids().await, BTreeSet::from([revoked.clone(), active.clone()]));
        site.run_once(2 * DAY_MS).await;
        assert_eq!(ids().await, BTreeSet::from([active.clone()]));
    }
}

#[tokio::test]
async fn when_a_token_was_last_used_is_written_within_a_minute() {
    let site = AccessSite::sqlite().await;
    let (id, token) = site.token("viewer", &["*"], &["*"]).await;
    site.send(get("/v1/tasks").with(&token)).await.expect(200);
    let used_at = site.engine.now().0;
    site.run_once(60_000).await;
    let listed = site.admin(get("/v1/tokens?limit=1000")).await.expect(200);
    let shown = listed["items"].as_array().unwrap().iter().find(|entry| entry["id"] == id.as_str()).unwrap();
    assert_eq!(shown["used_at_ms"], used_at, "{shown}");
}
