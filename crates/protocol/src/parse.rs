//! Reads a request body. A fault carries a JSON pointer; finding it costs a second, slower reading, which only a
//! body that is refused pays for.

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::codes::Code;
use crate::fields::{FieldError, Invalid, escape};
use crate::words::{fault_in_words, is_unknown_field};

/// Reads `T`, which is an object; malformed JSON, unknown fields and wrong types each have their code.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Invalid> {
    if json.trim_ascii_start().first() == Some(&b'[') {
        return Err(an_array(json));
    }
    serde_json::from_slice(json)
        .map_err(|first| locate::<T>(json).unwrap_or_else(|| invalid(&first, String::new())))
}

/// The reader would take an array for an object whose fields come without their names.
fn an_array(json: &[u8]) -> Invalid {
    match serde_json::from_slice::<serde::de::IgnoredAny>(json) {
        Ok(_) => FieldError::new("", "must be an object, not a list").into(),
        Err(error) => invalid(&error, String::new()),
    }
}

fn locate<T: DeserializeOwned>(json: &[u8]) -> Option<Invalid> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    Some(invalid(error.inner(), pointer(error.path())))
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
            errors: vec![FieldError::new("", format!("not valid JSON: {said}"))],
        };
    }
    let detail = said.rsplit_once(" at line ").map_or(said.as_str(), |(detail, _)| detail);
    let code = if is_unknown_field(detail) { Code::RequestUnknownField } else { Code::RequestInvalid };
    if let Some(field) = absent_or_twice(detail) {
        pointer = format!("{pointer}/{}", escape(field));
    }
    Invalid { code, errors: vec![FieldError::new(pointer, fault_in_words(detail))] }
}

/// These two faults are found at the parent; the field's name stands in the message only.
fn absent_or_twice(detail: &str) -> Option<&str> {
    let rest = detail.strip_prefix("missing field `").or_else(|| detail.strip_prefix("duplicate field `"))?;
    rest.strip_suffix('`')
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

    #[test]
    fn a_body_of_another_kind_is_refused_as_a_whole() {
        assert_eq!(refused("[1]").0, Code::RequestInvalid);
        assert_eq!((refused(" [1]").1.as_str(), refused("[1").0), ("", Code::RequestMalformedJson));
        assert_eq!(refused("3").1, "");
    }
}
