//! Spans of time as they are written on the command line.

/// `250ms`, `30s`, `10m`, `2h`, `7d`.
pub(crate) fn parse_ms(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ms = match text.strip_prefix(digits) {
        Some("ms") => 1,
        Some("s") => 1_000,
        Some("m") => 60_000,
        Some("h") => 3_600_000,
        Some("d") => 86_400_000,
        _ => return Err("expected a number with ms, s, m, h or d".into()),
    };
    let count: u32 = digits.parse().map_err(|_| "expected a whole number before the unit")?;
    Ok(i64::from(count) * unit_ms)
}
