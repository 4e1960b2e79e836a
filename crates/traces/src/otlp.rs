//! Spans in the JSON form of OTLP (`ExportTraceServiceRequest`). Pure.

use crate::{context::TraceContext, spans::TraceSpan};
use punctual_domain::{task::Task, time::Millis};
use serde_json::{Value, json};

const INTERNAL: u8 = 1;
const CONSUMER: u8 = 5;
const STATUS_ERROR: u8 = 2;

/// Numbers of 64 bits are text there.
fn nanos(at: Millis) -> String {
    format!("{}", i128::from(at.0) * 1_000_000)
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: i64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

pub(crate) fn request(engine: &str, spans: &[Value]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        text("service.name", "punctual"),
        text("service.version", version),
        text("service.instance.id", engine),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "punctual", "version": version }, "spans": spans }],
    }] })
}

pub(crate) fn span(task: &Task, context: &TraceContext, span: &TraceSpan) -> Value {
    let mut attributes = vec![
        text("punctual.namespace", task.ask.queue.namespace.as_str()),
        text("punctual.queue", task.ask.queue.queue.as_str()),
        text("punctual.kind", task.ask.kind.as_str()),
        text("punctual.ref", &task.place.to_string()),
        number("punctual.task_id", task.task_id()),
    ];
    if span.attempt > 0 {
        attributes.push(number("punctual.attempt", i64::from(span.attempt)));
    }
    attributes.extend(span.by.as_ref().map(|by| text("punctual.by", by)));
    attributes.extend(span.outcome.map(|outcome| text("punctual.outcome", outcome)));
    if span.name == "task" {
        attributes.extend(task.lateness_ms().map(|lateness_ms| number("punctual.lateness_ms", lateness_ms)));
    }
    let link = |id: &_| json!([{ "traceId": context.trace_id(), "spanId": format!("{id}") }]);
    let status = span.error.as_ref().map(|error| json!({ "code": STATUS_ERROR, "message": error }));
    json!({
        "traceId": context.trace_id(),
        "spanId": span.id.to_string(),
        "parentSpanId": span.parent.map_or_else(|| context.parent_id(), |span_id| span_id.to_string()),
        "name": span.name,
        "kind": if span.name == "run" { CONSUMER } else { INTERNAL },
        "startTimeUnixNano": nanos(span.from),
        "endTimeUnixNano": nanos(span.until),
        "attributes": attributes,
        "links": span.link.as_ref().map_or_else(|| json!([]), link),
        "status": status.unwrap_or_else(|| json!({})),
    })
}
