//! The console while the database does not answer: the store hangs until the page has been answered. Seen to fail: with a console
//! that waits for its rendering.

use super::browser::{Browser, BrowserPage};
use crate::access::site::{ADMIN, AccessSite, ask};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use serde_json::json;
use tokio::time::timeout;

const PAGE: &str = "/console/tasks";
const KEPT: &str = "id=\"kept\" role=\"status\"";

fn is_fresh(page: &BrowserPage) -> bool {
    page.status == 200 && !page.text.contains(KEPT)
}

/// The page, once it is rendered in time and has this in it.
async fn fresh(browser: &mut Browser<'_>, text: &str) {
    let browser = tokio::sync::Mutex::new(browser);
    until("a fresh rendering", || async {
        let page = browser.lock().await.get(PAGE).await;
        is_fresh(&page) && page.text.contains(text)
    })
    .await;
}

/// While the store hangs.
async fn answered(browser: &mut Browser<'_>) -> BrowserPage {
    timeout(HANG_LIMIT, browser.get(PAGE)).await.expect("the page is answered while the store hangs")
}

async fn task(site: &AccessSite) -> String {
    site.insert("default", json!({"queue": "mail", "delay_ms": 600_000})).await
}

#[tokio::test]
async fn a_page_is_answered_with_its_last_rendering_while_the_store_hangs() {
    let site = AccessSite::sqlite().await.impatient();
    let first = task(&site).await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    fresh(&mut browser, &first).await;
    let second = task(&site).await;
    let gate = site.store.faults.hold(StoreGroup::Read);
    let page = answered(&mut browser).await.expect(200);
    gate.reached().await;
    page.must_have(KEPT).must_have(": the database does not answer.").must_have(&first);
    // The site's clock is at 17:46:40.
    page.must_have(">17:46:40</time>");
    assert!(!page.text.contains(&second), "nothing was read since");
    let under_way = gate.came();
    answered(&mut browser).await.expect(200).must_have(KEPT);
    assert_eq!(gate.came(), under_way, "the next request joins the rendering that waits");
    gate.open();
    fresh(&mut browser, &second).await;
}

#[tokio::test]
async fn a_page_whose_store_refuses_is_answered_with_its_last_rendering() {
    let site = AccessSite::sqlite().await.impatient();
    let first = task(&site).await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    fresh(&mut browser, &first).await;
    site.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    answered(&mut browser).await.expect(200).must_have(KEPT).must_have(&first);
    let never_shown = browser.get(&format!("{PAGE}/{first}")).await.expect(503);
    never_shown.must_have("What this engine knows without the database").must_have("Up since");
    never_shown.must_have(&format!("content=\"2;url={PAGE}/{first}\""));
    site.store.faults.heal();
    fresh(&mut browser, &first).await;
}

#[tokio::test]
async fn another_token_never_sees_what_is_kept() {
    let site = AccessSite::sqlite().await.impatient();
    let first = task(&site).await;
    let (_, token) = site.token("viewer", &["*"], &["*"]).await;
    let (mut admin, mut viewer) =
        (Browser::signed_in(&site, ADMIN).await, Browser::signed_in(&site, &token).await);
    fresh(&mut admin, &first).await;
    let gate = site.store.faults.hold(StoreGroup::Read);
    let page = answered(&mut viewer).await.expect(503);
    gate.reached().await;
    assert!(!page.text.contains(&first) && !page.text.contains(KEPT), "{}", page.text);
    page.must_have("The database does not answer").must_have("http-equiv=\"refresh\"");
    let nobody = Browser::at(&site).get(PAGE).await.expect(303);
    assert!(nobody.location().starts_with("/console/login"));
    answered(&mut admin).await.expect(200).must_have(KEPT).must_have(&first);
    gate.open();
}

#[tokio::test]
async fn what_is_kept_of_a_token_ends_with_its_logout_and_its_revocation() {
    let site = AccessSite::sqlite().await.impatient();
    let first = task(&site).await;
    let (id, token) = site.token("viewer", &["*"], &["*"]).await;
    let (mut admin, mut viewer) =
        (Browser::signed_in(&site, ADMIN).await, Browser::signed_in(&site, &token).await);
    fresh(&mut admin, &first).await;
    fresh(&mut viewer, &first).await;
    let gate = site.store.faults.hold(StoreGroup::Read);
    answered(&mut viewer).await.expect(200).must_have(KEPT);
    site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
    let refused = answered(&mut viewer).await.expect(303);
    assert_eq!(refused.location(), "/console/login?next=%2Fconsole%2Ftasks&why=refused");
    let seal = answered(&mut admin).await.expect(200).must_have(KEPT).seal();
    admin.post("/console/logout", &[("form_token", &seal)]).await.expect(303);
    let mut again = Browser::signed_in(&site, ADMIN).await;
    let page = answered(&mut again).await.expect(503);
    assert!(!page.text.contains(&first), "{}", page.text);
    gate.open();
    fresh(&mut again, &first).await;
}
