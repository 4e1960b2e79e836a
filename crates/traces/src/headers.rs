//! Lists of `name=value`, as in OpenTelemetry's variables: headers that a collector requires, such as a
//! token, and attributes of the resource. Never shows a value.

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// `name=value`, several with commas. `is_encoded`: values are percent-encoded, as in `OTEL_RESOURCE_ATTRIBUTES`.
///
/// # Errors
/// The error, without any value.
pub fn pairs(text: &str, is_encoded: bool) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').ok_or("each must be NAME=VALUE, several with commas")?;
        let (name, value) = (name.trim(), value.trim());
        if !is_encoded {
            return Ok((name.to_owned(), value.to_owned()));
        }
        let decoded = percent_decode_str(value).decode_utf8();
        let decoded = decoded.map_err(|_| format!("the value of {name} is not UTF-8 when it is decoded"))?;
        Ok((name.to_owned(), decoded.into_owned()))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

/// The same of `OTEL_EXPORTER_OTLP_HEADERS`.
///
/// # Errors
/// The error, without any value.
pub fn headers(text: &str, is_encoded: bool) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(text, is_encoded)? {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| format!("the value of {name} has characters that no header may have"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_and_values_are_not_shown() {
        let read = headers(" authorization=Bearer a=b== , x-scope=7,", false).unwrap();
        assert_eq!(read["authorization"], "Bearer a=b==");
        assert_eq!(read["x-scope"], "7");
        assert!(!format!("{read:?}").contains("Bearer"));
        assert!(headers("", false).unwrap().is_empty());
    }

    #[test]
    fn what_opentelemetry_encodes_is_decoded_and_what_is_written_here_stays() {
        assert_eq!(headers("authorization=Bearer%20a%2Cb", true).unwrap()["authorization"], "Bearer a,b");
        assert_eq!(headers("authorization=50%20", false).unwrap()["authorization"], "50%20");
    }

    #[test]
    fn what_is_wrong_is_said_without_a_value() {
        for text in ["geheim", "a b=geheim", "a=ge\u{7}heim", "a=geheim%FF"] {
            let said = headers(text, true).unwrap_err();
            assert!(!said.contains("geheim"), "{said}");
        }
    }
}
