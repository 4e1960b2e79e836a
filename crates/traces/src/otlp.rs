//! Spans as messages of OTLP, and a request in either form of HTTP. Pure.

use crate::{
    context::TraceContext,
    messages::{
        AnyValue, Attribute, AttributeValue, InstrumentationScope, Link, OtlpSpan as Message, Request,
        Resource, ResourceSpans, ScopeSpans, Status,
    },
    spans::TraceSpan,
};
use prost::Message as _;
use punctual_domain::{task::Task, time::Millis};
use std::str::FromStr;

/// The encoding of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Json,
    Protobuf,
}

impl Protocol {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    pub(crate) fn write(self, request: &Request) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Json => serde_json::to_vec(request),
            Self::Protobuf => Ok(request.encode_to_vec()),
        }
    }
}

/// Parses the names of `OTEL_EXPORTER_OTLP_PROTOCOL`.
impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "http/json" => Ok(Self::Json),
            "http/protobuf" => Ok(Self::Protobuf),
            "grpc" => {
                Err("must be http/protobuf or http/json: a collector has them at another port, often 4318"
                    .into())
            }
            _ => Err("must be http/protobuf or http/json".into()),
        }
    }
}

fn nanos(at: Millis) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}

fn attribute(key: &str, value: AttributeValue) -> Attribute {
    Attribute { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

fn text(key: &str, value: &str) -> Attribute {
    attribute(key, AttributeValue::Text(value.to_owned()))
}

fn number(key: &str, value: i64) -> Attribute {
    attribute(key, AttributeValue::Number(value))
}

/// `named`: attributes of the resource that were set; they override the own ones.
pub(crate) fn request(engine: &str, named: &[(String, String)], spans: Vec<Message>) -> Request {
    let version = env!("CARGO_PKG_VERSION");
    let own = [("service.name", "punctual"), ("service.version", version), ("service.instance.id", engine)];
    let is_unset = |pair: &&(&str, &str)| named.iter().all(|(key, _)| key != pair.0);
    let attributes = own.iter().filter(is_unset).map(|(key, value)| text(key, value));
    let attributes = attributes.chain(named.iter().map(|(key, value)| text(key, value))).collect();
    let scope = InstrumentationScope { name: "punctual".to_owned(), version: version.to_owned() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource = Some(Resource { attributes });
    Request { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;
const PRODUCER: i32 = 4;
const CONSUMER: i32 = 5;
const STATUS_ERROR: i32 = 2;

/// The span's kind and `messaging.operation.type`, by the semantic conventions of messaging; the engine's own spans
/// have none.
const fn operation(span: &str) -> (i32, Option<&'static str>) {
    match span.as_bytes() {
        b"insert" => (PRODUCER, Some("send")),
        b"lease" => (CLIENT, Some("receive")),
        b"run" => (CONSUMER, Some("process")),
        b"outcome" => (CLIENT, Some("settle")),
        _ => (INTERNAL, None),
    }
}

fn attributes(task: &Task, span: &TraceSpan) -> Vec<Attribute> {
    let (queue, task_ref) = (&task.ask.queue, task.place.to_string());
    let mut attributes = vec![
        text("messaging.system", "punctual"),
        text("messaging.destination.name", queue.queue.as_str()),
        text("messaging.message.id", &task_ref),
        text("punctual.namespace", queue.namespace.as_str()),
        text("punctual.queue", queue.queue.as_str()),
        text("punctual.kind", task.ask.kind.as_str()),
        text("punctual.ref", &task_ref),
        number("punctual.task_id", task.task_id()),
    ];
    if let Some(of_kind) = operation(span.name).1 {
        attributes.push(text("messaging.operation.name", span.name));
        attributes.push(text("messaging.operation.type", of_kind));
    }
    if span.attempt > 0 {
        attributes.push(number("punctual.attempt", i64::from(span.attempt)));
    }
    if let Some(by) = &span.by {
        attributes.extend([text("messaging.client.id", by), text("punctual.by", by)]);
    }
    if let Some(outcome) = span.outcome {
        attributes.push(text("punctual.outcome", outcome));
        // A few words, as the conventions require; the status message has the rest.
        attributes.extend(span.error.as_ref().map(|_| text("error.type", outcome)));
    }
    if span.name == "task" {
        attributes.extend(task.lateness_ms().map(|lateness_ms| number("punctual.lateness_ms", lateness_ms)));
    }
    attributes
}

pub(crate) fn span(task: &Task, context: &TraceContext, span: &TraceSpan) -> Message {
    let trace_id = context.trace_bytes();
    let link = |id| Link { trace_id: trace_id.clone(), span_id: context.span_bytes(Some(id)) };
    let status = span.error.clone().map(|message| Status { message, code: STATUS_ERROR });
    Message {
        span_id: context.span_bytes(Some(span.id)),
        parent_span_id: context.span_bytes(span.parent),
        name: span.name.to_owned(),
        kind: operation(span.name).0,
        start_time_unix_nano: nanos(span.from),
        end_time_unix_nano: nanos(span.until),
        attributes: attributes(task, span),
        links: span.link.map(link).into_iter().collect(),
        status: Some(status.unwrap_or_default()),
        trace_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn example() -> Request {
        let set = [("service.name", "shop"), ("team", "mail")].map(|(key, value)| (key.into(), value.into()));
        let span = Message {
            trace_id: vec![0xA7; 16],
            span_id: vec![2; 8],
            parent_span_id: vec![3; 8],
            name: "run".to_owned(),
            kind: CONSUMER,
            start_time_unix_nano: 1_000_000,
            end_time_unix_nano: 2_000_000,
            attributes: vec![number("n", -7)],
            links: vec![Link { trace_id: vec![0xA7; 16], span_id: vec![4; 8] }],
            status: Some(Status { message: "full".to_owned(), code: STATUS_ERROR }),
        };
        request("engine-1", &set, vec![span])
    }

    #[test]
    fn both_forms_say_the_same_and_what_was_set_overrides() {
        let request = example();
        let protobuf = Protocol::Protobuf.write(&request).unwrap();
        assert_eq!(Request::decode(protobuf.as_slice()).unwrap(), request);
        let json = Protocol::Json.write(&request).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let of = &json["resourceSpans"][0];
        let set = json!({"key": "service.name", "value": {"stringValue": "shop"}});
        assert_eq!(of["resource"]["attributes"][2], set);
        assert_eq!(of["resource"]["attributes"].as_array().unwrap().len(), 4);
        assert_eq!(of["scopeSpans"][0]["scope"]["name"], "punctual");
        let span = json!({
            "traceId": "a7".repeat(16), "spanId": "02".repeat(8), "parentSpanId": "03".repeat(8), "name": "run", "kind": 5,
            "startTimeUnixNano": "1000000", "endTimeUnixNano": "2000000",
            "attributes": [{"key": "n", "value": {"intValue": "-7"}}],
            "links": [{"traceId": "a7".repeat(16), "spanId": "04".repeat(8)}],
            "status": {"message": "full", "code": 2},
        });
        assert_eq!(of["scopeSpans"][0]["spans"][0], span);
    }

    /// Verified with `opentelemetry-proto` 0.33 when this was written.
    #[test]
    fn the_protobuf_form_is_the_one_of_the_standard() {
        let span = example().resource_spans.remove(0).scope_spans.remove(0).spans.remove(0);
        let hex: String = span.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        let known = "0a10a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a712080202020202020202220803030303030303032a0372756e30053940420f00000000004180841e00000000004a100a016e120b18f9ffffffffffffffff016a1c0a10a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7120804040404040404047a08120466756c6c1802";
        assert_eq!(hex, known);
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_refused_with_those_that_are() {
        for (text, protocol) in [("http/json", Protocol::Json), ("http/protobuf", Protocol::Protobuf)] {
            assert_eq!(text.parse(), Ok(protocol));
        }
        for text in ["grpc", "", "json"] {
            assert!(text.parse::<Protocol>().is_err_and(|said| said.contains("http/protobuf")), "{text}");
        }
    }
}
