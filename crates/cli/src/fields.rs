//! Settings of queues, namespaces and everything, as people write them (`concurrency=10 timeout_ms=5m`) and read them.

use crate::{duration, spans};
use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Read as _;

/// The settings as they were written.
pub(crate) enum Written {
    /// Some of them; `null`: its default.
    Named(Map<String, Value>),
    /// All of them, as one JSON document.
    Whole(String),
}

/// `name=value` each, or one JSON document, or `-` for one from stdin.
pub(crate) fn read(settings: &[String]) -> Result<Written> {
    let whole = match settings {
        [one] if one == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("the settings cannot be read from stdin")?;
            text
        }
        [one] if one.trim_start().starts_with(['{', '[']) => one.clone(),
        named => return Ok(Written::Named(named.iter().map(|text| setting(text)).collect::<Result<_>>()?)),
    };
    // What is no JSON is refused by the reader that reads it, with its place.
    let Ok(mut document) = serde_json::from_str(&whole) else { return Ok(Written::Whole(whole)) };
    duration::in_document(&mut document);
    Ok(Written::Whole(document.to_string()))
}

/// One of `name=value`: JSON, a duration where milliseconds are meant, or a word. Nothing: its default.
fn setting(text: &str) -> Result<(String, Value)> {
    let example = "write a setting as name=value, such as concurrency=10, or all of them as one JSON object";
    let (name, value) = text.split_once('=').with_context(|| format!("{text:?}: {example}"))?;
    let name = name.trim().to_owned();
    let mut value = match value {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    };
    duration::in_field(&name, &mut value);
    Ok((name, value))
}

/// The stored document, with some of it changed.
pub(crate) fn changed(current: &impl Serialize, named: Map<String, Value>) -> Result<String> {
    let mut document = serde_json::to_value(current)?;
    if let Some(fields) = document.as_object_mut() {
        for (name, value) in named {
            if value.is_null() {
                fields.remove(&name);
            } else {
                fields.insert(name, value);
            }
        }
    }
    Ok(document.to_string())
}

/// Some of the names are of fields within a setting: `webhook.url`.
pub(crate) fn are_nested(named: &Map<String, Value>) -> bool {
    named.keys().any(|name| name.contains('.'))
}

/// The change with complete settings: a field within a setting changes the current value of that setting.
pub(crate) fn nested(current: &impl Serialize, named: Map<String, Value>) -> Result<Map<String, Value>> {
    let current = serde_json::to_value(current)?;
    let mut change = Map::new();
    for (name, value) in named {
        match name.split_once('.') {
            None => drop(change.insert(name, value)),
            Some((setting, field)) => {
                let stored = current.get(setting).cloned().unwrap_or(Value::Null);
                put(change.entry(setting).or_insert(stored), field, value);
            }
        }
    }
    Ok(change)
}

/// Sets a field of an object, or removes it.
fn put(object: &mut Value, name: &str, value: Value) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return };
    // The names of headers have no dots as a rule; one that has is set with all headers as JSON.
    match name.split_once('.') {
        Some((first, rest)) => put(fields.entry(first).or_insert(Value::Null), rest, value),
        None if value.is_null() => drop(fields.remove(name)),
        None => drop(fields.insert(name.to_owned(), value)),
    }
}

/// A line each, but for those that are shown elsewhere: `keep.succeeded_ms` and `7 d`.
pub(crate) fn lines(answer: &impl Serialize, others: &[&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(answer) else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, value) in fields.into_iter().filter(|entry| !others.contains(&entry.0.as_str())) {
        flatten(name, value, &mut lines);
    }
    lines
}

fn flatten(name: String, value: Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(format!("{name}.{field}"), value, lines);
            }
        }
        value => {
            let said = match value.as_i64().filter(|_| name.ends_with("_ms")) {
                Some(ms) => spans::whole_span(ms),
                None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            };
            lines.push((name, said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(settings: &[&str]) -> Value {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        match read(&settings).unwrap() {
            Written::Named(named) => Value::Object(named),
            Written::Whole(text) => serde_json::from_str(&text).unwrap(),
        }
    }

    #[test]
    fn settings_are_json_durations_and_words() {
        let read = named(&[
            "concurrency=10",
            "timeout_ms=1h30m",
            "mode=push",
            "weight=",
            "rate={\"limit\":5,\"period_ms\":\"1s\"}",
            "lateness_budget_ms=250",
        ]);
        assert_eq!(
            read,
            json!({
                "concurrency": 10, "timeout_ms": 5_400_000, "mode": "push", "weight": null,
                "rate": {"limit": 5, "period_ms": 1_000}, "lateness_budget_ms": 250
            })
        );
        assert_eq!(named(&["{\"timeout_ms\": \"5m\"}"]), json!({"timeout_ms": 300_000}));
        assert!(super::read(&["concurrency".to_owned()]).is_err());
    }

    #[test]
    fn what_is_not_named_stays_and_nothing_takes_it_away() {
        let current = json!({"concurrency": 3, "max_waiting": 100, "revision": 7});
        let Written::Named(change) = super::read(&["concurrency=5".into(), "max_waiting=".into()]).unwrap()
        else {
            panic!("not named")
        };
        let changed: Value = serde_json::from_str(&changed(&current, change).unwrap()).unwrap();
        assert_eq!(changed, json!({"concurrency": 5, "revision": 7}));
    }

    #[test]
    fn a_field_within_a_setting_changes_nothing_else_of_it() {
        let current = json!({"webhook": {"url": "https://a/", "secret": "***"}, "revision": 7});
        let words =
            ["mode=webhook", "webhook.url=https://b/", "webhook.timeout_ms=2s", "webhook.headers.x-a=1 2"];
        let Written::Named(change) = super::read(&words.map(str::to_owned)).unwrap() else {
            panic!("not named")
        };
        assert!(are_nested(&change));
        let webhook =
            json!({"url": "https://b/", "secret": "***", "timeout_ms": 2_000, "headers": {"x-a": "1 2"}});
        assert_eq!(
            Value::Object(nested(&current, change).unwrap()),
            json!({"mode": "webhook", "webhook": webhook})
        );
        let removed = Map::from_iter([("webhook.secret".to_owned(), Value::Null)]);
        assert_eq!(nested(&current, removed).unwrap()["webhook"], json!({"url": "https://a/"}));
    }

    #[test]
    fn what_is_set_is_told_line_by_line_with_durations_in_words() {
        let queue = json!({
            "queue": "mail", "concurrency": 10, "mode": "pull", "timeout_ms": 5_400_000,
            "keep": {"succeeded_ms": 604_800_000}, "rate": {"limit": 5, "period_ms": 1_000}
        });
        let reported: Vec<String> =
            lines(&queue, &["queue"]).into_iter().map(|(name, said)| format!("{name} {said}")).collect();
        assert_eq!(
            reported,
            [
                "concurrency 10",
                "keep.succeeded_ms 7 d",
                "mode pull",
                "rate.limit 5",
                "rate.period_ms 1 s",
                "timeout_ms 1 h 30 min"
            ]
        );
    }
}
