//! What a collector of traces asks to be sent beside the spans, such as a token, out of one text. Never tells a value.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// `name=value`, several with commas, as `OTEL_EXPORTER_OTLP_HEADERS` has them, but for the percent-encoding.
///
/// # Errors
/// What is wrong, without any value.
pub fn headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or("each must be NAME=VALUE, several with commas")?;
        let name = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| format!("{:?} is no name of a header", name.trim()))?;
        let mut value = HeaderValue::from_str(value.trim())
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
        let read = headers(" authorization=Bearer a=b== , x-scope=7,").unwrap();
        assert_eq!(read["authorization"], "Bearer a=b==");
        assert_eq!(read["x-scope"], "7");
        assert!(!format!("{read:?}").contains("Bearer"));
        assert!(headers("").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_without_a_value() {
        for text in ["geheim", "a b=geheim", "a=ge\u{7}heim"] {
            let said = headers(text).unwrap_err();
            assert!(!said.contains("geheim"), "{said}");
        }
    }
}
