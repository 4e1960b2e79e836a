//! From a row to the task that it asks for. Refuses only what cannot be read; the rules of a task are those of the API, which
//! the intake applies.

use punctual_contract::inbox::InboxRow;
use punctual_domain::name::Name;
use punctual_protocol::{Base64, InsertTask, Int64, Json, OnConflict, Retry};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The key of a row without one: no other row of any table has it, also after the table was emptied or restored.
pub(crate) fn key(row: &InboxRow) -> String {
    let own = || format!("inbox:{}:{}:{}", row.table, row.head.id, row.created_at_ms);
    row.head.key.clone().unwrap_or_else(own)
}

pub(crate) fn namespace(row: &InboxRow) -> Result<Name, String> {
    Name::chosen(&row.head.namespace)
        .map_err(|error| format!("namespace = {:?}: {error}", row.head.namespace))
}

pub(crate) fn task(row: InboxRow) -> Result<InsertTask, String> {
    let key = key(&row);
    let json = |text| Json::from_text(text).map_err(|error| format!("payload: is not JSON ({error})"));
    Ok(InsertTask {
        queue: row.head.queue,
        kind: row.kind,
        key: Some(key),
        on_conflict: Some(OnConflict::Keep),
        name: row.name,
        task_version: Some(Int64(row.version)),
        priority: row.priority.map(|level| u8::try_from(level).unwrap_or(0)),
        execute_at_ms: row.execute_at_ms,
        // From the INSERT, by the user's clock alone.
        delay_ms: row.delay_ms.map(|delay_ms| delay_ms.saturating_sub(row.age_ms.max(0)).max(0)),
        payload: row.payload.map(json).transpose()?,
        payload_base64: row.payload_bytes.map(Base64),
        max_attempts: row.max_attempts.map(|attempts| u32::try_from(attempts).unwrap_or(0)),
        retry: parsed::<Retry>("retry", row.retry)?,
        timeout_ms: row.timeout_ms,
        deadline_ms: row.deadline_ms,
        labels: parsed::<BTreeMap<String, String>>("labels", row.labels)?.unwrap_or_default(),
        concurrency_key: row.concurrency_key,
        handler_versions: row.handler_versions,
        traceparent: row.traceparent,
        ..InsertTask::default()
    })
}

fn parsed<T: DeserializeOwned>(column: &str, text: Option<String>) -> Result<Option<T>, String> {
    let read =
        |text: String| serde_json::from_str(&text).map_err(|error| format!("{column} = {text:?}: {error}"));
    text.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::inbox::RowHead;

    fn row() -> InboxRow {
        let head = RowHead { id: 7, namespace: "default".into(), queue: "mail".into(), ..RowHead::default() };
        InboxRow { head, table: "t".into(), created_at_ms: 5, ..InboxRow::default() }
    }

    #[test]
    fn a_row_without_a_key_gets_a_key() {
        assert_eq!(key(&row()), "inbox:t:7:5");
        let mut named = row();
        named.head.key = Some("order-7".into());
        assert_eq!(task(named).unwrap().key.as_deref(), Some("order-7"));
    }

    #[test]
    fn a_delay_counts_from_the_insert() {
        for (delay_ms, age_ms, left) in [(1_000, 300, 700), (1_000, 5_000, 0), (1_000, -20, 1_000)] {
            let task = task(InboxRow { delay_ms: Some(delay_ms), age_ms, ..row() }).unwrap();
            assert_eq!(task.delay_ms, Some(left));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_the_column() {
        let labels = task(InboxRow { labels: Some("{\"a\":1}".into()), ..row() }).unwrap_err();
        assert!(labels.starts_with("labels = \"{\\\"a\\\":1}\""), "{labels}");
        let payload = task(InboxRow { payload: Some("{".into()), ..row() }).unwrap_err();
        assert!(payload.starts_with("payload: is not JSON"), "{payload}");
        assert!(task(InboxRow { priority: Some(900), ..row() }).unwrap().check().is_err());
    }
}
