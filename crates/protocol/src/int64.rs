//! A 64-bit id: a JSON integer, accepted as a decimal string too, because many clients hold numbers as doubles and
//! lose digits above 2^53. Always written as an integer.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A 64-bit integer; requests may send it as a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, utoipa::ToSchema)]
#[schema(value_type = i64)]
pub struct Int64(pub i64);

impl From<i64> for Int64 {
    fn from(value: i64) -> Self {
        Self(value)
    }
}

impl From<Int64> for i64 {
    fn from(value: Int64) -> Self {
        value.0
    }
}

impl Serialize for Int64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Int64Visitor)
    }
}

struct Int64Visitor;

impl Visitor<'_> for Int64Visitor {
    type Value = Int64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 64-bit integer, or one as a decimal string")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Int64, E> {
        Ok(Int64(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Int64, E> {
        i64::try_from(value)
            .map(Int64)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Int64, E> {
        let digits = value.strip_prefix('-').unwrap_or(value);
        let decimal = digits.bytes().all(|b| b.is_ascii_digit());
        let parsed = if decimal { value.parse().ok() } else { None };
        parsed.map(Int64).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(value), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Int64, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn integers_and_decimal_strings_are_the_same_id() {
        for (json, id) in [
            ("7", 7),
            ("\"7\"", 7),
            ("-9223372036854775808", i64::MIN),
            ("\"9223372036854775807\"", i64::MAX),
        ] {
            assert_eq!(read(json).unwrap(), Int64(id), "{json}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_was_expected() {
        for json in [
            "1.0",
            "\"+1\"",
            "\"\"",
            "\"-\"",
            "\"1e3\"",
            "\" 1\"",
            "9223372036854775808",
            "true",
            "[1]",
            "null",
        ] {
            let said = read(json).unwrap_err().to_string();
            assert!(said.contains("a 64-bit integer, or one as a decimal string"), "{json}: {said}");
        }
    }

    #[test]
    fn it_is_written_as_an_integer() {
        assert_eq!(serde_json::to_string(&Int64(i64::MAX)).unwrap(), "9223372036854775807");
    }
}
