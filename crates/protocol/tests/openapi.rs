//! The schemas of the OpenAPI document: they must match the wire, and none may shadow another.

use punctual_protocol::{
    ActionAnswer, BatchAnswer, CancelRequest, HeartbeatAnswer, HeartbeatRequest, InsertBatch, InsertTask,
    LeaseAnswer, LeaseRequest, OutcomeBatch, OutcomesAnswer, Page, PatchTask, Problem, Task, Why,
};
use serde_json::{Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(components(schemas(
    ActionAnswer,
    BatchAnswer,
    CancelRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    InsertBatch,
    InsertTask,
    LeaseAnswer,
    LeaseRequest,
    OutcomeBatch,
    OutcomesAnswer,
    Page<Task>,
    PatchTask,
    Problem,
    Why,
)))]
struct Document;

fn schemas() -> Value {
    let document = serde_json::to_value(Document::openapi()).expect("a document is plain data");
    document.pointer("/components/schemas").cloned().expect("the document has schemas")
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    let all = schemas();
    let mut found = Vec::new();
    references(&all, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(all.get(name).is_some(), "{reference}");
    }
}

#[test]
fn values_are_described_as_they_are_written() {
    let all = schemas();
    assert_eq!((&all["Int64"]["type"], &all["Int64"]["format"]), (&json!("integer"), &json!("int64")));
    assert_eq!((&all["At"]["type"], &all["At"]["format"]), (&json!("string"), &json!("date-time")));
    assert_eq!(all["Json"].get("type"), None);
    assert_eq!(all["InsertTask"]["required"], json!(["queue"]));
    assert_eq!(all["InsertBatch"]["properties"]["tasks"]["items"]["$ref"], "#/components/schemas/InsertTask");
    assert_eq!(
        all["OutcomeBatch"]["properties"]["outcomes"]["items"]["$ref"],
        "#/components/schemas/Outcome"
    );
    assert_eq!(all["State"]["enum"].as_array().map(Vec::len), Some(12));
    assert!(all["Problem"]["properties"]["existing"].to_string().contains("#/components/schemas/Task"));
}

#[test]
fn requests_refuse_unknown_fields_in_the_schema_too() {
    let all = schemas();
    for request in [
        "InsertTask",
        "InsertBatch",
        "PatchTask",
        "CancelRequest",
        "LeaseRequest",
        "OutcomeBatch",
        "Outcome",
        "HeartbeatRequest",
        "LeaseBeat",
    ] {
        assert_eq!(all[request]["additionalProperties"], json!(false), "{request}");
    }
}
