//! From a row to the task that it asks for. Refuses only what cannot be read; the rules of a task are those of the API, which
//! the intake applies.

use punctual_contract::inbox::{InboxRow, RowHead};
use punctual_domain::name::Name;
use punctual_protocol::{Base64, InsertTask, Int64, Json, OnConflict, Retry};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// What the column has if the INSERT leaves it out.
const UNNAMED: &str = "default";

/// The key of a row without one: no other row of any table has it, also after the table was emptied or restored.
pub(crate) fn key(row: &InboxRow) -> String {
    let own = || format!("inbox:{}:{}:{}", row.table, row.head.id, row.created_at_ms);
    row.head.key.clone().unwrap_or_else(own)
}

/// A row that names no namespace goes into that of its inbox. Its column then has the default of the table.
pub(crate) fn into_namespace(head: &mut RowHead, of_inbox: Option<&Name>) {
    if let Some(namespace) = of_inbox.filter(|_| head.namespace == UNNAMED) {
        namespace.as_str().clone_into(&mut head.namespace);
    }
}

/// After `into_namespace`.
pub(crate) fn namespace(row: &InboxRow, of_inbox: Option<&Name>) -> Result<Name, String> {
    let named = &row.head.namespace;
    let wrong = |problem: String| format!("namespace = {named:?}: {problem}");
    match of_inbox {
        Some(namespace) if namespace.as_str() != named => Err(wrong(format!(
            "all tasks of this inbox go into namespace {:?}; leave the column out",
            namespace.as_str()
        ))),
        _ => Name::chosen(named).map_err(|error| wrong(error.to_string())),
    }
}

pub(crate) fn task(row: InboxRow) -> Result<InsertTask, String> {
    let key = key(&row);
    let json = |text| Json::from_text(text).map_err(|error| format!("payload: is not JSON ({error})"));
    let options = options(row.options.as_deref(), &row.head.queue)?;
    Ok(InsertTask {
        queue: row.head.queue,
        kind: row.kind.or(options.kind),
        key: Some(key),
        on_conflict: Some(OnConflict::Keep),
        name: row.name.or(options.name),
        task_version: Some(Int64(row.version)),
        priority: row.priority.map(|level| u8::try_from(level).unwrap_or(0)).or(options.priority),
        execute_at_ms: row.execute_at_ms.or(options.execute_at_ms),
        // From the INSERT, by the user's clock alone.
        delay_ms: row.delay_ms.map(|delay_ms| delay_ms.saturating_sub(row.age_ms.max(0)).max(0)),
        payload: row.payload.map(json).transpose()?,
        payload_base64: row.payload_bytes.map(Base64),
        max_attempts: row
            .max_attempts
            .map(|attempts| u32::try_from(attempts).unwrap_or(0))
            .or(options.max_attempts),
        retry: parsed::<Retry>("retry", row.retry)?.or(options.retry),
        timeout_ms: row.timeout_ms.or(options.timeout_ms),
        deadline_ms: row.deadline_ms.or(options.deadline_ms),
        labels: parsed::<BTreeMap<String, String>>("labels", row.labels)?.unwrap_or(options.labels),
        concurrency_key: row.concurrency_key.or(options.concurrency_key),
        handler_versions: row.handler_versions.or(options.handler_versions),
        traceparent: row.traceparent.or(options.traceparent),
        ..InsertTask::default()
    })
}

/// The fields of a task in the column `options`. What identifies a task, its queue and its payload have columns of their own.
fn options(text: Option<&str>, queue: &str) -> Result<InsertTask, String> {
    let Some(text) = text else { return Ok(InsertTask::default()) };
    let wrong = |problem: String| format!("options = {text:?}: {problem}");
    let mut fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    for own in [
        "queue",
        "key",
        "task_id",
        "task_version",
        "on_conflict",
        "payload",
        "payload_base64",
        "execute_at",
        "delay_ms",
    ] {
        if fields.contains_key(own) {
            return Err(wrong(format!("`{own}` must not be in it; use the columns of the row")));
        }
    }
    fields.insert("queue".to_owned(), queue.into());
    serde_json::from_value(fields.into()).map_err(|error| wrong(error.to_string()))
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
    fn rows_of_an_inbox_with_a_namespace_go_into_it_and_no_row_names_another() {
        let billing = Name::chosen("billing").unwrap();
        for (column, of_inbox, expected) in [
            ("default", None, Ok("default")),
            ("other", None, Ok("other")),
            ("default", Some(&billing), Ok("billing")),
            ("billing", Some(&billing), Ok("billing")),
            ("other", Some(&billing), Err("leave the column out")),
        ] {
            let mut row = row();
            column.clone_into(&mut row.head.namespace);
            into_namespace(&mut row.head, of_inbox);
            match (namespace(&row, of_inbox), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
                (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
                (found, _) => panic!("{column}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_delay_counts_from_the_insert() {
        for (delay_ms, age_ms, left) in [(1_000, 300, 700), (1_000, 5_000, 0), (1_000, -20, 1_000)] {
            let task = task(InboxRow { delay_ms: Some(delay_ms), age_ms, ..row() }).unwrap();
            assert_eq!(task.delay_ms, Some(left));
        }
    }

    #[test]
    fn options_are_fields_of_the_task_and_columns_win() {
        let options = r#"{"max_attempts":3,"labels":{"team":"a"},"kind":"bill","timeout_ms":500}"#;
        let row_of =
            |options: &str| InboxRow { options: Some(options.into()), kind: Some("mail".into()), ..row() };
        let task_of = task(row_of(options)).unwrap();
        assert_eq!(
            (task_of.max_attempts, task_of.kind.as_deref(), task_of.timeout_ms),
            (Some(3), Some("mail"), Some(500))
        );
        assert_eq!(task_of.labels["team"], "a");
        for (wrong, named) in [(r#"{"key":"a"}"#, "`key`"), (r#"{"colour":1}"#, "colour"), ("[]", "options")]
        {
            let refused = task(row_of(wrong)).unwrap_err();
            assert!(refused.starts_with("options = ") && refused.contains(named), "{refused}");
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
