//! Durations as people write them: `500ms`, `5s`, `2m`, `1h`, `7d`. One unit each, so that nothing is ambiguous.

use std::time::Duration;

/// `5s`, also `1.5s`; a number without a unit is refused, because it could mean anything.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_ms = match unit {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return Err(expected(text)),
    };
    let number: f64 = number.parse().map_err(|_| expected(text))?;
    Duration::try_from_secs_f64((number * unit_ms).round() / 1_000.0).map_err(|_| expected(text))
}

fn expected(text: &str) -> String {
    format!("{text:?} is not a duration: use a number and ms, s, m, h or d, such as 500ms or 1.5h")
}

/// Whole milliseconds, for the wire.
pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
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
        ] {
            assert_eq!(parse(text).map(super::ms), Ok(ms), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in
            ["", "5", "s", "5 s", "-5s", "5S", "1h30m", "1.2.3s", "∞s", "5w", ".s", "99999999999999999999d"]
        {
            assert!(parse(text).is_err_and(|said| said.contains("500ms")), "{text}");
        }
    }
}
