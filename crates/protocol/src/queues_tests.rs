//! The valid settings of a queue, and the messages of faults.

use super::*;
use crate::PutLimits;

fn faults(json: &str) -> Vec<String> {
    PutQueue::from_json(json.as_bytes()).unwrap_err().errors.into_iter().map(|error| error.pointer).collect()
}

#[test]
fn every_fault_of_a_queue_is_named_at_once_with_its_value_and_a_way_out() {
    let json = concat!(
        r#"{"concurrency":0,"key_concurrency":2000000,"rate":{"limit":0,"period_ms":0,"burst":0},"#,
        r#""choice":{"by":"weights","weights":[0,0,0,0,0]},"retries":{"lower_by":5,"share_percent":101},"#,
        r#""max_waiting":0,"retry":{"strategy":"list","delays_ms":[]},"max_attempts":0,"timeout_ms":0,"#,
        r#""pending_timeout_ms":-1,"lateness_budget_ms":-1,"keep":{"succeeded_ms":-1},"weight":1001,"indexed_labels":["a","","b=c","a"],"#,
        r#""source":"store","mode":"push","scan_interval_ms":99,"scan_concurrency":0,"scan_batch":1001,"while_store_is_away":"hand_over"}"#
    );
    let all = [
        "/concurrency",
        "/key_concurrency",
        "/rate/limit",
        "/rate/period_ms",
        "/rate/burst",
        "/choice/weights",
        "/retries/lower_by",
        "/retries/share_percent",
        "/max_waiting",
        "/retry/delays_ms",
        "/max_attempts",
        "/timeout_ms",
        "/pending_timeout_ms",
        "/lateness_budget_ms",
        "/weight",
        "/indexed_labels/1",
        "/indexed_labels/2",
        "/indexed_labels/3",
        "/scan_interval_ms",
        "/scan_concurrency",
        "/scan_batch",
        "/mode",
        "/while_store_is_away",
        "/keep/succeeded_ms",
    ];
    assert_eq!(faults(json), all);
    let one = PutQueue::from_json(br#"{"concurrency":0}"#).unwrap_err();
    let said = "must be between 1 and 1000000, not 0; leave it out for no limit";
    assert_eq!(one.errors[0].detail, said);
}

#[test]
fn what_is_handed_over_while_its_database_is_away_is_pulled_and_preloaded() {
    let said = |beside: &str| {
        let json = format!(r#"{{"while_store_is_away":"hand_over"{beside}}}"#);
        PutQueue::from_json(json.as_bytes()).map_err(|faults| faults.summary())
    };
    assert_eq!(said("").unwrap().while_store_is_away, Some(WhileStoreIsAway::HandOver));
    assert!(said(r#","mode":"pull","source":"hot""#).is_ok());
    let pushed = said(r#","mode":"push""#).unwrap_err();
    assert!(pushed.contains("/while_store_is_away") && pushed.contains("Set `mode` to `pull`"), "{pushed}");
    let scanned = said(r#","source":"store""#).unwrap_err();
    assert!(scanned.contains("Leave `source` at `hot`"), "{scanned}");
    for waits in [r#"{"while_store_is_away":"wait","mode":"push"}"#, r#"{"mode":"push"}"#] {
        assert!(PutQueue::from_json(waits.as_bytes()).is_ok());
    }
}

#[test]
fn what_was_read_can_be_put_back() {
    let read = Queue {
        queue: "mail".to_owned(),
        pause: Some(Pause { at: At::from_ms(0), at_ms: 0, by: "ann".to_owned(), reason: None }),
        concurrency: Some(7),
        choice: Some(Choice::HighestFirst { percent: 90 }),
        ..Queue::default()
    };
    let json = serde_json::to_string(&read).unwrap();
    let put = PutQueue::from_json(json.as_bytes()).unwrap();
    assert_eq!((put.concurrency, put.choice), (read.concurrency, read.choice));
    assert!(matches!(put.pause, Some(PauseWish::Because { .. })));
    let written = serde_json::to_string(&put).unwrap();
    assert_eq!(written, r#"{"concurrency":7,"choice":{"by":"highest_first","percent":90}}"#);
}

#[test]
fn where_a_setting_is_not_known_only_those_are_named_that_can_be_set() {
    let said = |json: &str| PutQueue::from_json(json.as_bytes()).unwrap_err().summary();
    let unknown = said(r#"{"start_rate":5}"#);
    assert!(unknown.starts_with("/start_rate: there is no `start_rate`; "), "{unknown}");
    assert!(unknown.contains("`concurrency`") && unknown.contains("`rate`"), "{unknown}");
    for only_answered in ["slots", "indexing", "updated_at_ms", "revision", "ready"] {
        assert!(!unknown.contains(&format!("`{only_answered}`")), "{only_answered}: {unknown}");
    }
    let inner = said(r#"{"rate":{"limit":1,"per":1}}"#);
    assert!(inner.starts_with("/rate/per: there is no `per`; did you mean `period_ms`?"), "{inner}");
    let limit = PutLimits::from_json(br#"{"x":1}"#).unwrap_err().summary();
    assert!(limit.contains("`weight`") && !limit.contains("`revision`"), "{limit}");
}

#[test]
fn misspelt_settings_are_refused_and_a_pause_is_a_word_or_a_reason() {
    assert_eq!(faults(r#"{"concurency":1}"#), ["/concurency"]);
    assert_eq!(faults(r#"{"retries":{"concurrency":9},"concurrency":3}"#), ["/retries/concurrency"]);
    let wish = |json: &str| PutQueue::from_json(json.as_bytes()).unwrap().pause;
    assert_eq!(wish(r#"{"pause":true}"#), Some(PauseWish::Is(true)));
    assert_eq!(wish(r#"{"pause":null}"#), None);
    let reason = Some("flood".to_owned());
    assert_eq!(wish(r#"{"pause":{"reason":"flood"}}"#), Some(PauseWish::Because { reason }));
}

#[test]
fn a_queue_that_is_delivered_needs_a_receiver() {
    let pointers = |json: &str| match PutQueue::from_json(json.as_bytes()) {
        Ok(_) => Vec::new(),
        Err(invalid) => invalid.errors.into_iter().map(|error| error.pointer).collect(),
    };
    assert_eq!(pointers(r#"{"mode":"webhook"}"#), ["/webhook"]);
    let all = r#"{"mode":"webhook","webhook":{"timeout_ms":99,"concurrency":0}}"#;
    assert_eq!(pointers(all), ["/webhook/url", "/webhook/timeout_ms", "/webhook/concurrency"]);
    let good = r#"{"mode":"webhook","webhook":{"url":"https://example.org","secret":"whsec_hidden"}}"#;
    assert_eq!(pointers(good), [""; 0]);
    let shown = format!("{:?}", PutQueue::from_json(good.as_bytes()).unwrap());
    assert!(!shown.contains("hidden"), "{shown}");
    assert_eq!(pointers(r#"{"mode":"pull","webhook":{"url":"https://example.org"}}"#), [""; 0], "it is kept");
}
