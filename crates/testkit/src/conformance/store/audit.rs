//! The audit: stored completely, completed once, read in bounded pages, trimmed at its old end.

use super::sample::{LATER, NOW};
use punctual_contract::{
    Store,
    audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
};
use punctual_domain::time::Millis;
use std::sync::Arc;

fn entry(action: &str) -> AuditEntry {
    AuditEntry {
        at: NOW,
        caller: "local".to_owned(),
        action: action.to_owned(),
        request: "POST /v1/x".to_owned(),
        times: 1,
        ..AuditEntry::default()
    }
}

fn full() -> AuditEntry {
    AuditEntry {
        token_id: Some("abcdefghijkl".to_owned()),
        caller: "ann \u{1F980}".to_owned(),
        address: Some("2001:db8::1".to_owned()),
        namespace: Some("shop".to_owned()),
        request_id: Some("r-1".to_owned()),
        ..entry("pause_queue")
    }
}

fn result() -> AuditResult {
    AuditResult {
        at: LATER,
        status: 200,
        reason: Some("a flood".to_owned()),
        before: Some("{}".to_owned()),
        after: Some(r#"{"pause":true}"#.to_owned()),
    }
}

fn query() -> AuditQuery {
    AuditQuery { limit: 100, ..AuditQuery::default() }
}

async fn found(store: &dyn Store, query: AuditQuery) -> Vec<AuditEntry> {
    let page = store.audit_entries(query).await.unwrap();
    assert_eq!(page.next_before_id, None, "all of them are in one page");
    page.entries.into_iter().map(|pair| pair.1).collect()
}

pub async fn an_empty_audit_has_no_entries(store: Arc<dyn Store>) {
    assert_eq!(store.audit_entries(query()).await.unwrap(), AuditPage::default());
    let since = AuditQuery { since: Some(NOW), ..query() };
    assert_eq!(store.audit_entries(since).await.unwrap(), AuditPage::default());
    assert_eq!(store.trim_audit(Millis::MAX, 10).await.unwrap(), 0);
}

pub async fn an_entry_is_completed_once_and_comes_back_as_it_was_written(store: Arc<dyn Store>) {
    let first = store.append_audit(full()).await.unwrap();
    let second = store.append_audit(AuditEntry { result: Some(result()), ..entry("refused") }).await.unwrap();
    assert!(0 < first && first < second);
    let expected = [AuditEntry { result: Some(result()), ..entry("refused") }, full()];
    assert_eq!(found(&*store, query()).await, expected, "without a result until it is completed");
    store.complete_audit(first, result()).await.unwrap();
    for id in [first, second] {
        store.complete_audit(id, AuditResult { status: 500, ..AuditResult::default() }).await.unwrap();
    }
    let completed = AuditEntry { result: Some(result()), ..full() };
    assert_eq!(found(&*store, query()).await, [expected[0].clone(), completed], "the first result stays");
}

pub async fn an_entry_that_is_appended_again_by_its_key_stands_once(store: Arc<dyn Store>) {
    let keyed = |key: u8| AuditEntry { key: Some([key; 16]), ..full() };
    let first = store.append_audit(keyed(1)).await.unwrap();
    let other = store.append_audit(keyed(2)).await.unwrap();
    // The first answer was lost; the other content of the second call does not count.
    let again = AuditEntry { times: 9, ..keyed(1) };
    assert_eq!(store.append_audit(again).await.unwrap(), first);
    assert_ne!(first, other);
    assert_eq!(found(&*store, query()).await, [full(), full()]);
    // Without a key each is one of its own.
    store.append_audit(full()).await.unwrap();
    store.append_audit(full()).await.unwrap();
    assert_eq!(found(&*store, query()).await.len(), 4);
    store.complete_audit(first, result()).await.unwrap();
    store.append_audit(keyed(1)).await.unwrap();
    let completed = found(&*store, query()).await.pop().unwrap();
    assert_eq!(completed.result, Some(result()), "its result stays");
}

pub async fn each_condition_on_the_audit_holds_and_all_hold_together(store: Arc<dyn Store>) {
    store.append_audit(full()).await.unwrap();
    store.append_audit(AuditEntry { at: LATER, ..full() }).await.unwrap();
    store.append_audit(AuditEntry { at: LATER, ..entry("put_limits") }).await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    for (asked, count) in [
        (AuditQuery { token_id: some("abcdefghijkl"), ..query() }, 2),
        (AuditQuery { token_id: some("other"), ..query() }, 0),
        (AuditQuery { action: some("put_limits"), ..query() }, 1),
        (AuditQuery { namespace: some("shop"), ..query() }, 2),
        (AuditQuery { since: Some(LATER), ..query() }, 2),
        (AuditQuery { until: Some(LATER), ..query() }, 1),
        (AuditQuery { since: Some(LATER), namespace: some("shop"), ..query() }, 1),
        (AuditQuery { since: Some(LATER.plus(1)), ..query() }, 0),
    ] {
        assert_eq!(found(&*store, asked.clone()).await.len(), count, "{asked:?}");
    }
}

pub async fn pages_of_the_audit_find_everything_once_the_newest_first(store: Arc<dyn Store>) {
    for nth in 0..7 {
        store.append_audit(entry(&format!("a{nth}"))).await.unwrap();
    }
    let (mut actions, mut before_id) = (Vec::new(), None);
    loop {
        let page = store.audit_entries(AuditQuery { before_id, limit: 3, ..query() }).await.unwrap();
        assert!(page.entries.len() <= 3);
        actions.extend(page.entries.into_iter().map(|pair| pair.1.action));
        before_id = page.next_before_id;
        if before_id.is_none() {
            break;
        }
    }
    assert_eq!(actions, ["a6", "a5", "a4", "a3", "a2", "a1", "a0"]);
}

pub async fn the_oldest_entries_are_forgotten_first_and_so_many_at_most(store: Arc<dyn Store>) {
    for at in [5_000, 1_000, 2_000, 3_000, 4_000] {
        store.append_audit(AuditEntry { at: Millis(at), ..entry("a") }).await.unwrap();
    }
    assert_eq!(store.trim_audit(Millis(4_000), 2).await.unwrap(), 2);
    let left = |all: Vec<AuditEntry>| all.into_iter().map(|entry| entry.at.0).collect::<Vec<_>>();
    assert_eq!(left(found(&*store, query()).await), [4_000, 3_000, 5_000]);
    assert_eq!(store.trim_audit(Millis(4_000), 2).await.unwrap(), 1);
    assert_eq!(store.trim_audit(Millis(4_000), 2).await.unwrap(), 0);
    assert_eq!(left(found(&*store, query()).await), [4_000, 5_000]);
}
