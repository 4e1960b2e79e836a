//! Durations as people write them: `500ms`, `5s`, `1.5h`, `1h30m`, `2d12h`. Every number has its unit, and the units become
//! smaller, so that nothing is ambiguous.

use std::time::Duration;

const UNITS: [(&str, f64); 5] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("m", 60_000.0), ("s", 1_000.0), ("ms", 1.0)];

/// `5s`, also `1.5s` and `1m30s`; a number without a unit is refused, because it could mean anything.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.strip_prefix('-').is_some_and(|rest| total_ms(rest).is_some()) {
        return Err(format!(
            "{text:?} is below zero: a duration is 0s or more, such as 500ms, 1.5h or 1h30m"
        ));
    }
    let ms = total_ms(text).ok_or_else(|| expected(text))?;
    Duration::try_from_secs_f64(ms.round() / 1_000.0).map_err(|_| expected(text))
}

fn total_ms(text: &str) -> Option<f64> {
    let (mut rest, mut units, mut sum) = (text, UNITS.as_slice(), 0.0);
    while !rest.is_empty() {
        let (number, unit, after) = first(rest)?;
        let place = units.iter().position(|pair| pair.0 == unit)?;
        let (unit_ms, smaller) =
            units.get(place..)?.split_first().map(|(pair, smaller)| (pair.1, smaller))?;
        // A fraction of what is followed by smaller units would say the same thing twice.
        if number.contains('.') && !after.is_empty() {
            return None;
        }
        sum += number.parse::<f64>().ok()? * unit_ms;
        (rest, units) = (after, smaller);
    }
    (!text.is_empty()).then_some(sum)
}

/// A number, its unit, and what follows.
fn first(text: &str) -> Option<(&str, &str, &str)> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, rest) = text.split_at(split);
    let end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
    let (unit, after) = rest.split_at(end);
    Some((number, unit, after))
}

fn expected(text: &str) -> String {
    format!("{text:?} is not a duration: use numbers and d, h, m, s or ms, such as 500ms, 1.5h or 1h30m")
}

/// Full milliseconds, for the wire.
pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Converts durations in a document to milliseconds: `{"period_ms": "1s"}`.
pub(crate) fn in_document(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                in_field(name, field);
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(in_document),
        _ => {}
    }
}

/// The same of one field.
pub(crate) fn in_field(name: &str, field: &mut serde_json::Value) {
    if name.ends_with("_ms") {
        read_field(field);
    }
    in_document(field);
}

fn read_field(field: &mut serde_json::Value) {
    match field {
        serde_json::Value::String(text) => {
            if let Ok(read) = parse(text) {
                *field = ms(read).into();
            }
        }
        // The delays of a list.
        serde_json::Value::Array(items) => items.iter_mut().for_each(read_field),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood() {
        for (text, ms) in [
            ("0ms", 0),
            ("500ms", 500),
            ("5s", 5_000),
            ("1.5s", 1_500),
            ("0.001s", 1),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("3650d", 315_360_000_000),
            ("1h30m", 5_400_000),
            ("2d12h", 216_000_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m1.5s", 61_500),
        ] {
            assert_eq!(parse(text).map(super::ms), Ok(ms), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "5S",
            "1h30",
            "30m1h",
            "1h1h",
            "1.5h30m",
            "1h30m ",
            "1.2.3s",
            "∞s",
            "5w",
            ".s",
            "99999999999999999999d",
        ] {
            assert!(parse(text).is_err_and(|said| said.contains("500ms")), "{text}");
        }
    }

    #[test]
    fn a_document_may_have_durations_where_milliseconds_are_meant() {
        let mut document = serde_json::json!({
            "timeout_ms": "1h30m", "rate": {"limit": 5, "period_ms": "1s"}, "delays_ms": ["1m", 7], "kept_ms": 5,
            "note": "5m", "by_ms": "soon"
        });
        in_document(&mut document);
        let read = serde_json::json!({
            "timeout_ms": 5_400_000, "rate": {"limit": 5, "period_ms": 1_000}, "delays_ms": [60_000, 7], "kept_ms": 5,
            "note": "5m", "by_ms": "soon"
        });
        assert_eq!(document, read);
    }
}
