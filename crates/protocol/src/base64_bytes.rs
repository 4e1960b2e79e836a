//! Bytes as base64 (standard alphabet, padded): payloads and results that are not JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};

/// Bytes, written as base64 with the standard alphabet and padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, utoipa::ToSchema)]
#[schema(value_type = String, format = Byte, example = "aGVsbG8=")]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&base64::display::Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Self)
            .map_err(|e| D::Error::custom(format_args!("expected base64 with padding: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_way_there_and_back() {
        let all = Base64((0..=255).collect());
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Base64>(&json).unwrap(), all);
        assert_eq!(serde_json::to_string(&Base64(b"hello".to_vec())).unwrap(), "\"aGVsbG8=\"");
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for json in ["\"aGVsbG8\"", "\"a b\"", "\"_-==\"", "1"] {
            assert!(serde_json::from_str::<Base64>(json).is_err(), "{json}");
        }
    }
}
