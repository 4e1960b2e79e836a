//! The effects of forms, and their refusals without a seal or against the caller's role. Seen to fail: with a
//! seal that is not checked; with a caller's address that is not carried over.

use super::browser::{Browser, BrowserPage, FROM};
use crate::access::site::{ADMIN, AccessSite, get};
use serde_json::json;

async fn queue(site: &AccessSite) -> serde_json::Value {
    site.admin(get("/v1/queues/mail")).await.expect(200)
}

async fn one_task(site: &AccessSite) -> String {
    site.insert("default", json!({"queue": "mail", "delay_ms": 60_000, "payload": {"n": 1}})).await
}

#[tokio::test]
async fn a_form_without_its_seal_or_of_another_site_does_nothing() {
    let site = AccessSite::sqlite().await;
    one_task(&site).await;
    let (_, other) = site.token("operator", &["*"], &["*"]).await;
    let foreign_seal = Browser::signed_in(&site, &other).await.get("/console/queues/mail/pause").await.seal();
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let seal = browser.get("/console/queues/mail/pause").await.expect(200).seal();
    let path = "/console/queues/mail/pause";
    for fields in
        [&[][..], &[("form_token", "")], &[("form_token", "1.2")], &[("form_token", foreign_seal.as_str())]]
    {
        browser.post(path, fields).await.expect(403).must_have("did not come from the console");
    }
    for header in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        browser.headers = vec![header];
        browser.post(path, &[("form_token", &seal)]).await.expect(403);
    }
    assert!(queue(&site).await["pause"].is_null(), "nothing was done");
    browser.headers = vec![("origin", "http://localhost")];
    browser.post(path, &[("form_token", &seal)]).await.expect(303);
    assert!(queue(&site).await["pause"].is_object());
}

#[tokio::test]
async fn a_queue_is_paused_with_a_reason_after_being_asked_and_resumed() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        one_task(&site).await;
        let mut browser = Browser::signed_in(&site, ADMIN).await;
        browser
            .get("/console/queues/mail/pause")
            .await
            .expect(200)
            .must_have("No task of")
            .must_have("Nothing has been done yet.");
        let page =
            browser.submit("/console/queues/mail/pause", &[("reason", "maintenance")]).await.expect(303);
        assert_eq!(page.location(), "/console/queues/mail");
        let page = browser.get("/console/queues/mail").await.expect(200);
        page.must_have("mail is paused").must_have("maintenance").must_have("/console/queues/mail/resume");
        assert!(!browser.get("/console/queues/mail").await.text.contains("id=\"flash\""), "it is said once");
        browser.submit("/console/queues/mail/resume", &[]).await.expect(303);
        assert!(queue(&site).await["pause"].is_null());
    }
}

#[tokio::test]
async fn settings_are_checked_as_the_api_does_and_nobodys_change_is_overwritten_unseen() {
    let site = AccessSite::sqlite().await;
    one_task(&site).await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let path = "/console/queues/mail/settings";
    let good = [
        ("revision", "0"),
        ("concurrency", "7"),
        ("rate_limit", "10"),
        ("rate_period", "2 s"),
        ("lateness_budget", "1 min"),
        ("indexed_labels", "team, city"),
    ];
    browser.submit(path, &good).await.expect(303);
    let set = queue(&site).await;
    assert_eq!((&set["concurrency"], &set["lateness_budget_ms"]), (&json!(7), &json!(60_000)));
    assert_eq!(set["rate"], json!({"limit": 10, "period_ms": 2_000, "burst": 10}));
    assert_eq!(set["indexed_labels"], json!(["city", "team"]));
    browser
        .get(path)
        .await
        .expect(200)
        .must_have("value=\"7\"")
        .must_have("value=\"2 s\"")
        .must_have("value=\"1 min\"");
    let page = browser.submit(path, &[("revision", "0"), ("concurrency", "8")]).await.expect(422);
    page.must_have("Another user has changed it since").must_have("value=\"8\"");
    let revision = set["revision"].to_string();
    let page = browser.submit(path, &[("revision", &revision), ("concurrency", "0")]).await.expect(422);
    page.must_have("must be between 1 and");
    browser
        .submit(path, &[("revision", &revision), ("concurrency", "many")])
        .await
        .expect(422)
        .must_have("is not a number");
    assert_eq!(queue(&site).await["concurrency"], 7, "nothing of it was set");
    browser
        .get("/console/queues/mail")
        .await
        .expect(200)
        .must_have("Who changed it")
        .must_have("Attempts at a time");
}

async fn state(site: &AccessSite, reference: &str) -> String {
    site.admin(get(format!("/v1/tasks/{reference}"))).await.expect(200)["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_is_changed_and_cancelled_and_its_payload_keeps_its_digits() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let reference = one_task(&site).await;
        let mut browser = Browser::signed_in(&site, ADMIN).await;
        let path = format!("/console/tasks/{reference}/change");
        let payload = "{\"n\": 12345678901234567890123}";
        browser
            .submit(&path, &[("delay", "2 h"), ("payload", payload), ("queue", "mail"), ("priority", "3")])
            .await
            .expect(303);
        let task = site.admin(get(format!("/v1/tasks/{reference}"))).await;
        assert!(task.text.contains(payload), "{}", task.text);
        browser
            .submit(&path, &[("payload", payload)])
            .await
            .expect(422)
            .must_have("Nothing of it is different.");
        browser.submit(&path, &[("payload", "{")]).await.expect(422).must_have("not JSON");
        browser
            .get(&format!("/console/tasks/{reference}"))
            .await
            .expect(200)
            .must_have("Its time has not come");
        browser.submit(&format!("/console/tasks/{reference}/cancel"), &[]).await.expect(303);
        assert_eq!(state(&site, &reference).await, "cancelled");
        let again = browser.submit(&format!("/console/tasks/{reference}/cancel"), &[]).await;
        assert!(again.status == 422 || again.status == 303, "{}", again.text);
    }
}

#[tokio::test]
async fn what_was_picked_is_done_one_by_one_and_each_says_what_became_of_it() {
    let site = AccessSite::sqlite().await;
    let (first, second) = (one_task(&site).await, one_task(&site).await);
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    browser.get("/console/tasks").await.expect(200).must_have(&first).must_have(&second);
    let path = format!("/console/tasks/picked?action=redrive&ref={first}");
    browser.submit(&path, &[]).await.expect(200).must_have("0 done, 1 not").must_have("not done");
    let path = format!("/console/tasks/picked?action=cancel&ref={first}&ref={second}");
    browser.get(&path).await.expect(200).must_have("Cancel: 2 tasks");
    browser.submit(&path, &[]).await.expect(200).must_have("2 done, 0 not");
    assert_eq!(
        (state(&site, &first).await, state(&site, &second).await),
        ("cancelled".to_owned(), "cancelled".to_owned())
    );
}

#[tokio::test]
async fn a_bulk_operation_is_counted_first_and_confirmed_as_it_was_seen() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        for _ in 0..3 {
            one_task(&site).await;
        }
        let mut browser = Browser::signed_in(&site, ADMIN).await;
        let fields = [("action", "cancel"), ("queue", "mail"), ("reason", "wrong text")];
        let page = browser.submit("/console/bulk/new?action=cancel&queue=mail", &fields).await.expect(303);
        let operation = page.location().to_owned();
        browser
            .get(&operation)
            .await
            .expect(200)
            .must_have("previewed")
            .must_have("wrong text")
            .must_have("Some of them");
        browser
            .get(&format!("{operation}/confirm"))
            .await
            .expect(200)
            .must_have("3 tasks")
            .must_have("queue mail");
        browser.submit(&format!("{operation}/confirm"), &[("revision", "99")]).await.expect(422);
        let revision =
            site.admin(get(operation.replace("/console", "/v1"))).await.expect(200)["revision"].to_string();
        browser.submit(&format!("{operation}/confirm"), &[("revision", &revision)]).await.expect(303);
        let confirmed = site.admin(get(operation.replace("/console", "/v1"))).await.expect(200);
        assert_ne!(confirmed["state"], "previewed", "{confirmed}");
        let page = browser.submit("/console/bulk/new", &[("action", "cancel")]).await.expect(422);
        page.must_have("all tasks of the namespace would be meant");
    }
}

#[tokio::test]
async fn a_viewer_sees_dead_buttons_with_the_reason_and_is_refused_by_the_api_anyway() {
    let site = AccessSite::sqlite().await;
    let reference = one_task(&site).await;
    let (_, token) = site.token("viewer", &["*"], &["*"]).await;
    let mut browser = Browser::signed_in(&site, &token).await;
    let page = browser.get("/console/queues/mail").await.expect(200);
    page.must_have("Needs the permission operate, which your role (viewer) does not have.");
    assert!(!page.text.contains("/console/queues/mail/pause"), "there is no way to it");
    assert!(!page.text.contains("/console/tokens"), "nor to what is not theirs");
    let seal = page.seal();
    for path in ["/console/queues/mail/pause".to_owned(), format!("/console/tasks/{reference}/cancel")] {
        let page: BrowserPage = browser.post(&path, &[("form_token", &seal)]).await;
        assert!(matches!(page.status, 403 | 422), "{path}: {}", page.status);
        page.must_have("auth.denied");
    }
    assert!(queue(&site).await["pause"].is_null());
    assert_eq!(state(&site, &reference).await, "scheduled");
    browser.get("/console/tokens").await.expect(403);
}

#[tokio::test]
async fn the_audit_says_from_where_and_that_it_was_the_console() {
    let site = AccessSite::sqlite().await;
    one_task(&site).await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    browser.submit("/console/queues/mail/pause", &[]).await.expect(303);
    let entries = site.admin(get("/v1/audit?action=pause_queue")).await.expect(200);
    let entry = &entries["items"][0];
    assert_eq!(entry["address"], FROM.to_string());
    assert!(entry["request_id"].as_str().unwrap().starts_with("console-"), "{entry}");
    browser.get("/console/audit").await.expect(200).must_have("pause_queue").must_have(">console</span>");
}

#[tokio::test]
async fn a_token_is_made_shown_once_and_revoked() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let page = browser
        .submit("/console/tokens/new", &[("name", "ci"), ("role", "viewer"), ("queues", "mail-*")])
        .await
        .expect(200);
    let secret = page.text.split("<code>punctual_").nth(1).unwrap().split('<').next().unwrap();
    let secret = format!("punctual_{secret}");
    site.send(get("/v1/me").with(&secret)).await.expect(200);
    let list = browser.get("/console/tokens").await.expect(200);
    list.must_have("ci").must_have("mail-*");
    assert!(!list.text.contains(&secret), "and nowhere again");
    let id = secret.split('_').nth(1).unwrap();
    browser.submit(&format!("/console/tokens/{id}/revoke"), &[]).await.expect(303);
    site.send(get("/v1/me").with(&secret)).await.expect(401);
    browser.submit("/console/tokens/new", &[("name", "")]).await.expect(422).must_have("/roles");
}
