//! Reads a request body. A fault carries a JSON pointer; finding it costs a second, slower reading, which only a
//! body that is refused pays for.

use serde::de::DeserializeOwned;
use serde_json::{error::Category, value::RawValue};
use serde_path_to_error::{Path, Segment};
use std::collections::BTreeMap;
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::codes::Code;
use crate::fields::{FieldError, Invalid, escape};
use crate::words::{fault_in_words, fault_of_field, is_unknown_field, malformed, no_word};

/// Reads `T`, which is an object; malformed JSON, unknown fields and wrong types each have their code.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Invalid> {
    if json.trim_ascii_start().first() == Some(&b'[') {
        return Err(an_array(json));
    }
    serde_json::from_slice(json)
        .map_err(|first| locate::<T>(json).unwrap_or_else(|| invalid(&first, String::new())))
}

/// Parses settings. An answer can be changed and sent back, so fields that only answers have are ignored; for
/// an unknown field, only settable ones are suggested.
pub fn parse_settings<T: DeserializeOwned + PartialSchema>(json: &[u8]) -> Result<T, Invalid> {
    parse(json).map_err(|mut invalid| {
        if let [fault] = invalid.errors.as_mut_slice()
            && invalid.code == Code::RequestUnknownField
            && let Some(field) = fault.pointer.strip_prefix('/').filter(|field| !field.contains('/'))
            && let RefOr::T(Schema::Object(object)) = T::schema()
        {
            let settable =
                object.properties.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            fault.detail = fault_in_words(&format!("unknown field `{field}`, expected {settable}"));
        }
        invalid
    })
}

/// The parser would accept an array for an object, as its fields without names.
fn an_array(json: &[u8]) -> Invalid {
    match serde_json::from_slice::<serde::de::IgnoredAny>(json) {
        Ok(_) => FieldError::new("", "must be an object, not a list").into(),
        Err(error) => invalid(&error, String::new()),
    }
}

fn locate<T: DeserializeOwned>(json: &[u8]) -> Option<Invalid> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    let detail = not_a_word::<T>(json, error.path());
    let wrong = detail.map(|detail| FieldError::new(pointer(error.path()), detail).into());
    Some(wrong.unwrap_or_else(|| invalid(error.inner(), pointer(error.path()))))
}

/// Describes a value of another kind in the place of a word. The parser's error does not list the words then, so the
/// function parses an unknown word to get the list.
fn not_a_word<T: DeserializeOwned>(json: &[u8], path: &Path) -> Option<String> {
    let whole: &RawValue = serde_json::from_slice(json).ok()?;
    let value = path.iter().try_fold(whole, inner)?.get();
    if value.starts_with('"') {
        return None;
    }
    let at = value.as_ptr().addr().checked_sub(json.as_ptr().addr())?;
    let (before, after) = (json.get(..at)?, json.get(at + value.len()..)?);
    let asked = [before, b"\"\"", after].concat();
    let mut deserializer = serde_json::Deserializer::from_slice(&asked);
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    let said = error.inner().to_string();
    no_word(without_place(&said), value)
}

/// The value at one step of a path.
fn inner<'j>(value: &'j RawValue, step: &Segment) -> Option<&'j RawValue> {
    match step {
        Segment::Seq { index } => {
            serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(*index).copied()
        }
        Segment::Map { key } => {
            serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()).ok()?.remove(key)
        }
        Segment::Enum { variant } => {
            let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get());
            Some(fields.ok().and_then(|mut fields| fields.remove(variant)).unwrap_or(value))
        }
        Segment::Unknown => None,
    }
}

/// The parser's message, without its line and column.
fn without_place(said: &str) -> &str {
    said.rsplit_once(" at line ").map_or(said, |(detail, _)| detail)
}

fn pointer(path: &Path) -> String {
    path.iter().fold(String::new(), |mut pointer, segment| {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", escape(key))),
            // An enum's variant is no place in the document.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
        pointer
    })
}

fn invalid(error: &serde_json::Error, mut pointer: String) -> Invalid {
    let said = error.to_string();
    if error.classify() != Category::Data {
        return Invalid {
            code: Code::RequestMalformedJson,
            errors: vec![FieldError::new("", malformed(&said))],
        };
    }
    let detail = without_place(&said);
    let code = if is_unknown_field(detail) { Code::RequestUnknownField } else { Code::RequestInvalid };
    if let Some(field) = named(detail).map(|field| format!("/{}", escape(field)))
        && !(code == Code::RequestUnknownField && pointer.ends_with(&field))
    {
        pointer.push_str(&field);
    }
    let field = pointer.rsplit('/').next().unwrap_or_default();
    let words = fault_of_field(field, detail);
    Invalid { code, errors: vec![FieldError::new(pointer, words)] }
}

/// These faults are reported at the parent, an unknown field only sometimes; its name is in the message.
fn named(detail: &str) -> Option<&str> {
    let begins = ["missing field `", "duplicate field `", "unknown field `"];
    begins.iter().find_map(|begin| detail.strip_prefix(begin))?.split('`').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Int64, Json};

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde only")]
    struct Outer {
        id: Int64,
        body: Option<Json>,
        inner: Option<Vec<Inner>>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde only")]
    struct Inner {
        size: u8,
    }

    fn refused(json: &str) -> (Code, String, String) {
        let mut invalid = parse::<Outer>(json.as_bytes()).unwrap_err();
        let error = invalid.errors.remove(0);
        (invalid.code, error.pointer, error.detail)
    }

    #[test]
    fn malformed_json_says_where_it_broke() {
        for json in ["", "{", "{\"id\":1,}", "nope", "{\"id\":1} x", "{\"id\":1,\"body\":{]}"] {
            let (code, pointer, detail) = refused(json);
            assert_eq!((code, pointer.as_str()), (Code::RequestMalformedJson, ""), "{json}");
            assert!(detail.contains("line 1 column"), "{detail}");
        }
    }

    #[test]
    fn an_unknown_field_is_pointed_at() {
        let (code, pointer, detail) = refused(r#"{"id":1,"inner":[{"size":1},{"sizé/":2}]}"#);
        assert_eq!((code, pointer.as_str()), (Code::RequestUnknownField, "/inner/1/sizé~1"));
        assert!(detail.contains("expected `size`"), "{detail}");
    }

    #[test]
    fn a_missing_a_repeated_and_a_wrong_field_are_pointed_at() {
        assert_eq!(refused("{}").1, "/id");
        assert_eq!(refused(r#"{"id":1,"inner":[{}]}"#).1, "/inner/0/size");
        assert_eq!(refused(r#"{"id":1,"id":2}"#).1, "/id");
        let (code, pointer, detail) = refused(r#"{"id":1,"inner":[{"size":"x"}]}"#);
        assert_eq!((code, pointer.as_str()), (Code::RequestInvalid, "/inner/0/size"));
        assert_eq!(detail, "must be a whole number from 0 to 255, not the text \"x\"");
        assert_eq!(refused(r#"{"id":"x"}"#).1, "/id");
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "read by serde only")]
    enum Size {
        Small,
        Large(u32),
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde only")]
    struct Order {
        body: Option<Json>,
        sizes: Option<BTreeMap<String, Vec<Size>>>,
        retry: Option<crate::Retry>,
        priority: Option<u8>,
        queue: Option<String>,
    }

    fn detail(json: &str) -> String {
        parse::<Order>(json.as_bytes()).unwrap_err().summary()
    }

    /// Seen to fail: with `not valid JSON: expected value`.
    #[test]
    fn a_value_of_another_kind_in_place_of_a_word_is_told_with_the_words() {
        for (value, shown) in [("5", "5"), (" true ", "true"), ("[1]", "a list"), ("-1.5e3", "-1.5e3")] {
            let json = format!(
                r#"{{"body": [5, {{}}],
                "sizes": {{"a": ["small", {{"large": 1}}], "b/c": ["small",{value}]}} }}"#
            );
            let invalid = parse::<Order>(json.as_bytes()).unwrap_err();
            assert_eq!(invalid.code, Code::RequestInvalid);
            let words = format!("/sizes/b~1c/1: must be one of `small`, `large`, not {shown}");
            assert_eq!(invalid.summary(), words);
        }
        let strategies = "one of `immediate`, `fixed`, `exponential`, `list`";
        assert_eq!(
            detail(r#"{"retry":{"strategy":5}}"#),
            format!("/retry/strategy: must be {strategies}, not 5")
        );
        assert_eq!(
            detail(r#"{"sizes":{"a":[{"large":"x"}]}}"#),
            "/sizes/a/0: must be a whole number from 0 to 4294967295, not the text \"x\""
        );
    }

    #[test]
    fn what_is_missing_twice_or_unknown_is_told_in_words_and_a_priority_with_its_bounds() {
        for (json, words) in [
            (r#"{"retry":{}}"#, "/retry/strategy: is missing, and must be given"),
            (r#"{"retry":{"strategy":"fixed"}}"#, "/retry/delay_ms: is missing, and must be given"),
            (r#"{"priority":1,"priority":2}"#, "/priority: is there twice"),
            (
                r#"{"priority":"high"}"#,
                "/priority: must be a whole number from 1 to 5, not the text \"high\"",
            ),
            (r#"{"priority":300}"#, "/priority: must be a whole number from 1 to 5, not 300"),
            (
                r#"{"retry":{"strategy":"fixed","delay_ms":1,"delays":1}}"#,
                "/retry/delays: there is no `delays`; did you mean `delay_ms`? expected `delay_ms`",
            ),
            (
                r#"{"prio":1}"#,
                "/prio: there is no `prio`; did you mean `priority`? expected `body`, `sizes`, `retry`, `priority`, `queue`",
            ),
            ("", "not valid JSON: the body ends too early, at line 1 column 0: a value is missing"),
            ("{", "not valid JSON: the body ends too early, at line 1 column 1: an object is not closed"),
        ] {
            assert_eq!(detail(json), words, "{json}");
        }
    }

    #[test]
    fn a_body_of_another_kind_is_refused_as_a_whole() {
        assert_eq!(refused("[1]").0, Code::RequestInvalid);
        assert_eq!((refused(" [1]").1.as_str(), refused("[1").0), ("", Code::RequestMalformedJson));
        assert_eq!(refused("3").1, "");
    }
}
