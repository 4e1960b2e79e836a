//! Every page, over an empty engine and a filled one, on both kinds of store. Seen to fail: with a page that is not named here, and with one
//! that has a style in it.

use super::browser::{Browser, BrowserPage};
use crate::access::site::{ADMIN, AccessSite, ask, get, post};
use serde_json::json;
use std::collections::BTreeSet;

/// Existing objects, to name in addresses.
#[derive(Clone)]
pub(super) struct There {
    pub(super) task: String,
    pub(super) bulk: String,
    pub(super) token: String,
    pub(super) workflow: String,
}

impl There {
    /// Names of things that do not exist.
    fn nothing() -> Self {
        Self {
            task: "none".to_owned(),
            bulk: "1".to_owned(),
            token: "none".to_owned(),
            workflow: "none".to_owned(),
        }
    }
}

/// Also there where nothing is.
const ALWAYS: [&str; 19] = [
    "/console",
    "/console/queues",
    "/console/tasks",
    "/console/schedules",
    "/console/schedules/new",
    "/console/workflows",
    "/console/dead-letters",
    "/console/bulk",
    "/console/bulk/new",
    "/console/executors",
    "/console/engines",
    "/console/events",
    "/console/lateness",
    "/console/namespaces",
    "/console/settings",
    "/console/tokens",
    "/console/tokens/new",
    "/console/audit",
    "/console/preferences",
];

/// Route, address; `true`: also there where nothing is.
pub(super) fn every_page(there: &There) -> Vec<(&'static str, String, bool)> {
    let always = |text: &'static str| (text, text.to_owned(), true);
    let mut all: Vec<(&'static str, String, bool)> = ALWAYS.into_iter().map(always).collect();
    all.push(("/console/find", "/console/find?q=mail".to_owned(), true));
    all.push(("/console/queues/{queue}/settings", "/console/queues/mail/settings".to_owned(), true));
    all.push(("/console/namespaces/{namespace}", "/console/namespaces/default".to_owned(), true));
    all.push((
        "/console/namespaces/{namespace}/delete",
        "/console/namespaces/default/delete".to_owned(),
        true,
    ));
    for (route, name, value) in [
        ("/console/queues/{queue}", "{queue}", "mail"),
        ("/console/queues/{queue}/pause", "{queue}", "mail"),
        ("/console/queues/{queue}/resume", "{queue}", "mail"),
        ("/console/queues/{queue}/scan", "{queue}", "mail"),
        ("/console/queues/{queue}/reset", "{queue}", "mail"),
        ("/console/tasks/{ref}", "{ref}", there.task.as_str()),
        ("/console/tasks/{ref}/run-now", "{ref}", &there.task),
        ("/console/tasks/{ref}/cancel", "{ref}", &there.task),
        ("/console/tasks/{ref}/redrive", "{ref}", &there.task),
        ("/console/tasks/{ref}/bury", "{ref}", &there.task),
        ("/console/tasks/{ref}/delete", "{ref}", &there.task),
        ("/console/tasks/{ref}/change", "{ref}", &there.task),
        ("/console/schedules/{schedule}", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/change", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/pause", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/resume", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/run", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/backfill", "{schedule}", "digest"),
        ("/console/schedules/{schedule}/delete", "{schedule}", "digest"),
        ("/console/workflows/{workflow}", "{workflow}", &there.workflow),
        ("/console/workflows/{workflow}/cancel", "{workflow}", &there.workflow),
        ("/console/workflows/{workflow}/retry", "{workflow}", &there.workflow),
        ("/console/workflows/{workflow}/rerun", "{workflow}", &there.workflow),
        ("/console/executors/{executor}", "{executor}", "x"),
        ("/console/executors/{executor}/quiet", "{executor}", "x"),
        ("/console/executors/{executor}/drain", "{executor}", "x"),
        ("/console/executors/{executor}/resume", "{executor}", "x"),
        ("/console/bulk/{bulk}", "{bulk}", &there.bulk),
        ("/console/bulk/{bulk}/confirm", "{bulk}", &there.bulk),
        ("/console/bulk/{bulk}/pause", "{bulk}", &there.bulk),
        ("/console/bulk/{bulk}/resume", "{bulk}", &there.bulk),
        ("/console/bulk/{bulk}/stop", "{bulk}", &there.bulk),
        ("/console/bulk/{bulk}/repeat", "{bulk}", &there.bulk),
        ("/console/tokens/{id}/rotate", "{id}", &there.token),
        ("/console/tokens/{id}/revoke", "{id}", &there.token),
    ] {
        all.push((route, route.replace(name, value), false));
    }
    all.push((
        "/console/tasks/picked",
        format!("/console/tasks/picked?action=cancel&ref={}", there.task),
        true,
    ));
    let skip = format!("/console/workflows/{}/nodes/last/skip", there.workflow);
    all.push(("/console/workflows/{workflow}/nodes/{node}/skip", skip, false));
    // What the engine of these tests was started without.
    all.push(("/console/settings/log", "/console/settings/log".to_owned(), false));
    all
}

/// No pages: they have tests of their own, or are no HTML.
const OTHERS: [&str; 7] = [
    "/console/login",
    "/console/logout",
    "/console/live",
    "/console/json",
    "/console/assets/{file}",
    "/console/",
    "/console/{*rest}",
];

#[test]
fn every_route_of_the_console_is_walked() {
    let walked: BTreeSet<&str> =
        every_page(&There::nothing()).into_iter().map(|row| row.0).chain(OTHERS).collect();
    let routes: BTreeSet<&str> = punctual_console::routes().into_iter().map(|route| route.1).collect();
    assert_eq!(walked, routes);
}

/// Each is looked at in Chromium as well: by axe, at the width of a telephone, with what looks like scripts in it.
#[test]
fn every_page_of_the_console_is_looked_at_in_chromium() {
    let flow = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/console/flows/every_page.mjs");
    let flow = std::fs::read_to_string(flow).unwrap();
    // Addresses are the strings that begin with `/console`; what is filled in represents a name.
    let quoted = flow.split(['"', '`']).filter(|part| part.starts_with("/console"));
    let paths: Vec<Vec<&str>> =
        quoted.map(|text| text.split('?').next().unwrap().split('/').collect()).collect();
    let fits = |route: &str, path: &[&str]| {
        let route: Vec<&str> = route.split('/').collect();
        let fits_part = |(wanted, given): (&&str, &&str)| {
            wanted == given || (wanted.starts_with('{') && !given.is_empty())
        };
        route.len() == path.len() && route.iter().zip(path).all(fits_part)
    };
    let routes: BTreeSet<&str> = punctual_console::routes().into_iter().map(|route| route.1).collect();
    let is_looked_at = |route: &&&str| paths.iter().any(|path| fits(route, path));
    let left_out: Vec<_> =
        routes.iter().filter(|route| !OTHERS.contains(route) && !is_looked_at(route)).collect();
    assert_eq!(left_out, [] as [&&str; 0]);
}

/// A page of any caller: whole, guarded, and without content that the policy would refuse.
#[track_caller]
pub(super) fn check(address: &str, page: &BrowserPage) {
    let policy = page.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{address}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{address}: {policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff", "{address}");
    assert_eq!(page.header("referrer-policy"), "same-origin", "{address}");
    assert_eq!(page.header("cache-control"), "no-store", "{address}");
    let text = &page.text;
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"), "{address}");
    assert_eq!(text.matches("<h1>").count(), 1, "{address} has one title");
    for never in [" style=\"", "<style", " onclick=", " onload=", "href=\"http", "src=\"http"] {
        assert!(!text.contains(never), "{address} has {never}");
    }
    assert_eq!(
        text.matches("<script").count(),
        text.matches("<script src=\"/console/assets/").count(),
        "{address}"
    );
}

#[tokio::test]
async fn every_page_is_whole_over_an_engine_that_has_nothing() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    for (_, address, is_always) in every_page(&There::nothing()) {
        let page = browser.get(&address).await;
        let expected = if is_always { page.status == 200 } else { matches!(page.status, 200 | 400 | 404) };
        assert!(expected, "{address}: {} {}", page.status, page.text);
        check(&address, &page);
    }
    browser.get("/console").await.expect(200).must_have("Nothing. No alert");
    browser.get("/console/queues").await.expect(200).must_have("There are no queues yet.");
    browser.get("/console/nowhere").await.expect(404).must_have("There is no such page");
}

/// Tasks that wait, run, are retried and are dead, a paused queue, an executor, a bulk operation, a token.
pub(super) async fn fill(site: &AccessSite, text: &str) -> There {
    let labels = json!({"team": text});
    let task = |more: serde_json::Value| {
        let mut task = json!({"queue": "mail", "kind": "welcome", "payload": {"to": text, text: [1, null, true]}, "labels": labels});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let waits = site.insert("default", task(json!({"delay_ms": 3_600_000, "key": text}))).await;
    site.insert("default", task(json!({"delay_ms": 50, "payload": text, "max_attempts": 1}))).await;
    site.insert("default", task(json!({"delay_ms": 60, "queue": "other"}))).await;
    for _ in 0..3 {
        site.run_once(1_000).await;
    }
    let leased = site.lease("default", "mail").await;
    let beat = json!({"executor": "x", "host": text, "leases": [{"ref": leased[0]["ref"], "token": leased[0]["token"], "progress": {"said": text}}]});
    site.admin(post("/v1/heartbeats", beat)).await.expect(200);
    let failed = json!({"outcomes": [{"ref": leased[0]["ref"], "token": leased[0]["token"], "outcome": "reject", "status_code": 7, "status_msg": text}]});
    site.admin(post("/v1/outcomes", failed)).await.expect(200);
    site.admin(post("/v1/queues/mail/pause", json!({"reason": text}))).await.expect(200);
    let bulk = json!({"action": "cancel", "filter": {"queue": "mail"}, "reason": text});
    let bulk = site.admin(post("/v1/bulk", bulk)).await.expect(201)["id"].to_string();
    let (token, _) = site.token("viewer", &["*"], &["*"]).await;
    let made = json!({"queue": "mail", "payload": {"said": text}, "labels": labels});
    let digest = json!({"cron": ["0 9 * * MON-FRI"], "time_zone": "Europe/Berlin", "description": text, "owner": text, "task": made});
    site.admin(ask("PUT", "/v1/schedules/digest").body(Some(digest))).await.expect(201);
    site.admin(post("/v1/schedules/digest/pause", json!({"reason": text}))).await.expect(200);
    let nodes = json!({"first": {"task": made}, "last": {"task": made, "after": ["first"]}});
    let workflow = json!({"name": "order", "input": {"said": text}, "nodes": nodes});
    let workflow = site.admin(post("/v1/workflows", workflow)).await.expect(201);
    site.run_once(1_000).await;
    There { task: waits, bulk, token, workflow: workflow["ref"].as_str().unwrap().to_owned() }
}

#[tokio::test]
async fn every_page_is_whole_over_an_engine_that_has_something_on_both_kinds_of_store() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let there = fill(&site, "ada").await;
        let mut browser = Browser::signed_in(&site, ADMIN).await;
        for (route, address, _) in every_page(&there) {
            let page = browser.get(&address).await;
            let has_no_log = route == "/console/settings/log";
            assert!(page.status == 200 || has_no_log, "{address}: {} {}", page.status, page.text);
            check(&address, &page);
        }
        browser
            .get("/console")
            .await
            .expect(200)
            .must_have("Queue mail is paused")
            .must_have("In and out, per second");
        browser.get("/console/dead-letters").await.expect(200).must_have("1 cause").must_have("ada");
        browser.get("/console/tasks?state=dead").await.expect(200).must_have("dead</span>");
        browser.get("/console/find?q=mail").await.expect(200).must_have("/console/queues/mail");
        browser
            .get(&format!("/console/tasks/{}", there.task))
            .await
            .expect(200)
            .must_have("Its life, to scale")
            .must_have("welcome");
        browser.get("/console/executors/x").await.expect(200).must_have("Last heard");
    }
}

#[tokio::test]
async fn each_page_has_its_json_beside_it() {
    let site = AccessSite::sqlite().await;
    fill(&site, "ada").await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    browser
        .get("/console/queues/mail")
        .await
        .expect(200)
        .must_have("/console/json?call=%2Fv1%2Fqueues%2Fmail")
        .must_have("curl");
    let page = browser.get("/console/json?call=%2Fv1%2Fqueues%2Fmail").await.expect(200);
    assert!(page.header("content-type").starts_with("application/json"));
    let reported = site.admin(get("/v1/queues/mail")).await;
    assert_eq!(page.text, reported.text, "byte for byte: nothing reads its numbers and writes them anew");
    for beyond in [
        "/console/json",
        "/console/json?call=%2Fmetrics",
        "/console/json?call=https%3A%2F%2Fevil.example%2Fv1%2F",
    ] {
        browser.get(beyond).await.expect(404);
    }
    Browser::at(&site).get("/console/json?call=%2Fv1%2Fqueues").await.expect(303);
}

#[tokio::test]
async fn a_namespace_stays_in_the_addresses_of_its_pages() {
    let site = AccessSite::sqlite().await;
    site.insert("shop", json!({"queue": "carts", "delay_ms": 60_000})).await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    browser
        .get("/console/queues?ns=shop")
        .await
        .expect(200)
        .must_have("href=\"/console/queues/carts?ns=shop\"");
    let page = browser.submit("/console/queues/carts/pause?ns=shop", &[]).await.expect(303);
    assert_eq!(page.location(), "/console/queues/carts?ns=shop");
    browser.get("/console/queues?ns=no%20name").await.expect(400).must_have("Punctual-Namespace");
}

#[tokio::test]
async fn assets_are_kept_for_ever_under_names_that_change_with_them() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::at(&site);
    let page = browser.get("/console/login").await.expect(200);
    check("/console/login", &page);
    let addresses: Vec<&str> =
        page.text.split('"').filter(|part| part.starts_with("/console/assets/")).collect();
    assert!(addresses.len() >= 6, "{addresses:?}");
    for address in addresses {
        let asset = browser.get(address).await.expect(200);
        assert!(asset.header("cache-control").contains("immutable"), "{address}");
        assert!(!asset.text.is_empty());
    }
    browser.get("/console/assets/console.css").await.expect(404);
}

#[tokio::test]
async fn times_are_in_the_zone_that_was_chosen() {
    let site = AccessSite::open().await;
    let reference = {
        let task = json!({"queue": "mail", "execute_at_ms": 1_900_000_100_000_i64});
        site.send(post("/v1/tasks", task)).await.expect(201)["ref"].as_str().unwrap().to_owned()
    };
    let mut browser = Browser::at(&site);
    let address = format!("/console/tasks/{reference}");
    browser.get(&address).await.expect(200).must_have("2030-03-17 17:48:20");
    let page = browser
        .submit(
            "/console/preferences",
            &[("zone", "Asia/Kolkata"), ("theme", "dark"), ("back", "/console/tasks")],
        )
        .await
        .expect(303);
    assert_eq!(page.location(), "/console/tasks");
    browser.get(&address).await.expect(200).must_have("2030-03-17 23:18:20").must_have("data-theme=\"dark\"");
    browser.submit("/console/preferences", &[("zone", "Mars/Olympus")]).await.expect(422);
}
