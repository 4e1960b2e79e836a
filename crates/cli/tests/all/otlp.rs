//! A request of OTLP in protobuf, as the same document that one in JSON is. Knows no more fields than the tests of traces.

use serde_json::{Map, Value, json};

/// Number of the field, and what it holds.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            break;
        }
    }
    number
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Field::Number(u64::from_le_bytes(*eight))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (field, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(field)
            }
            other => panic!("a field of the wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// How a field of a message is called in JSON, and what it is there.
type Known = (u64, &'static str, fn(&Field<'_>) -> Value, bool);

fn message(field: &Field<'_>, known: &[Known]) -> Value {
    let Field::Bytes(bytes) = field else { panic!("no message") };
    let mut document: Map<String, Value> =
        known.iter().filter(|known| known.3).map(|known| (known.1.to_owned(), json!([]))).collect();
    for (number, field) in fields(bytes) {
        let (_, name, read, is_list) = known.iter().find(|known| known.0 == number).unwrap();
        let value = read(&field);
        match document.get_mut(*name).and_then(Value::as_array_mut).filter(|_| *is_list) {
            Some(list) => list.push(value),
            None => assert!(document.insert((*name).to_owned(), value).is_none(), "{name} twice"),
        }
    }
    document.into()
}

fn hex(field: &Field<'_>) -> Value {
    let Field::Bytes(bytes) = field else { panic!("no bytes") };
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn text(field: &Field<'_>) -> Value {
    let Field::Bytes(bytes) = field else { panic!("no text") };
    String::from_utf8(bytes.to_vec()).unwrap().into()
}

fn number(field: &Field<'_>) -> Value {
    let Field::Number(number) = field else { panic!("no number") };
    json!(number)
}

fn digits(field: &Field<'_>) -> Value {
    number(field).to_string().into()
}

fn attribute(field: &Field<'_>) -> Value {
    let value: fn(&Field<'_>) -> Value =
        |field| message(field, &[(1, "stringValue", text, false), (3, "intValue", digits, false)]);
    message(field, &[(1, "key", text, false), (2, "value", value, false)])
}

fn resource(field: &Field<'_>) -> Value {
    message(field, &[(1, "attributes", attribute, true)])
}

fn scope(field: &Field<'_>) -> Value {
    message(field, &[(1, "name", text, false), (2, "version", text, false)])
}

fn link(field: &Field<'_>) -> Value {
    message(field, &[(1, "traceId", hex, false), (2, "spanId", hex, false)])
}

fn status(field: &Field<'_>) -> Value {
    message(field, &[(2, "message", text, false), (3, "code", number, false)])
}

fn span(field: &Field<'_>) -> Value {
    let known: &[Known] = &[
        (1, "traceId", hex, false),
        (2, "spanId", hex, false),
        (4, "parentSpanId", hex, false),
        (5, "name", text, false),
        (6, "kind", number, false),
        (7, "startTimeUnixNano", digits, false),
        (8, "endTimeUnixNano", digits, false),
        (9, "attributes", attribute, true),
        (13, "links", link, true),
        (15, "status", status, false),
    ];
    message(field, known)
}

fn scope_spans(field: &Field<'_>) -> Value {
    message(field, &[(1, "scope", scope, false), (2, "spans", span, true)])
}

fn resource_spans(field: &Field<'_>) -> Value {
    message(field, &[(1, "resource", resource, false), (2, "scopeSpans", scope_spans, true)])
}

pub(crate) fn request(bytes: &[u8]) -> Value {
    message(&Field::Bytes(bytes), &[(1, "resourceSpans", resource_spans, true)])
}
