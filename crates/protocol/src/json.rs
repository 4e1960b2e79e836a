//! Any JSON value, stored verbatim: an executor gets a payload as the caller sent it, with the same number digits and
//! key order. The server never parses it into a tree.

use serde::de::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Base64;
use crate::readable::unreadable;

/// Any JSON value, stored as it was written.
#[derive(Clone, Debug, utoipa::ToSchema)]
#[schema(value_type = serde_json::Value)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The value of anything that can be serialised.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// A text that holds exactly one JSON value.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The text of the value.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type of the caller's.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// The text, without copying it.
    pub fn into_text(self) -> String {
        Box::<str>::from(self.0).into_string()
    }

    /// True if every parser accepts the value. Other values are refused in payloads and results. A valid JSON text is
    /// unreadable if it is nested too deeply, has half of a surrogate pair, or a number beyond any double.
    pub fn is_readable(&self) -> bool {
        unreadable(self.get()).is_none()
    }

    /// Deserializes an optional field in which `null` is a value, and not an absent field.
    pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// A payload or a result: a JSON value, or bytes that were sent as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Json(Json),
    Bytes(Vec<u8>),
}

impl Body {
    /// Splits the body into the two wire fields, `x` and `x_base64`. At most one of them is set.
    pub fn into_fields(self) -> (Option<Json>, Option<Base64>) {
        match self {
            Self::Json(json) => (Some(json), None),
            Self::Bytes(bytes) => (None, Some(Base64(bytes))),
        }
    }

    /// The inverse of `into_fields`; JSON wins, but a checked request never has both.
    pub fn from_fields(json: Option<Json>, bytes: Option<Base64>) -> Option<Self> {
        json.map(Self::Json).or_else(|| bytes.map(|b| Self::Bytes(b.0)))
    }

    /// The bytes that are stored: the text of JSON, or the decoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Json(json) => json.into_text().into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Holder {
        #[serde(default, deserialize_with = "Json::some")]
        payload: Option<Json>,
    }

    #[test]
    fn a_value_is_kept_letter_for_letter() {
        for text in
            [r#"{"b":1.10,"a":[1e400,12345678901234567890123]}"#, "null", "\"\\u0041\"", "{\"a\" : 1}"]
        {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(json.get(), text);
            assert_eq!(serde_json::to_string(&json).unwrap(), text);
        }
    }

    #[test]
    fn null_is_a_value_and_an_absent_field_is_none() {
        let null: Holder = serde_json::from_str(r#"{"payload":null}"#).unwrap();
        assert_eq!(null.payload.unwrap().get(), "null");
        assert!(serde_json::from_str::<Holder>("{}").unwrap().payload.is_none());
    }

    #[test]
    fn text_that_is_not_one_value_is_refused() {
        for text in ["", "{", "1 2", "nul", "{]"] {
            assert!(Json::from_text(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_body_is_stored_as_its_bytes() {
        assert_eq!(Body::Json(Json::of(&[1, 2]).unwrap()).into_bytes(), b"[1,2]");
        assert_eq!(Body::Bytes(vec![0, 255]).into_bytes(), [0, 255]);
    }
}
