//! Durations and distances in time, in words.

const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];

/// Below this the milliseconds are what a person wants to know.
const MS_COUNT_BELOW_MS: i64 = 10_000;

/// A duration in at most two units: `3 h 2 min`, `5 s`, `20 ms`.
pub(crate) fn span(ms: i64) -> String {
    let Some(first) = UNITS.iter().position(|unit| ms >= unit.0) else { return format!("{} ms", ms.max(0)) };
    let mut left = ms;
    let mut said = Vec::new();
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        if left >= *unit {
            said.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    said.join(" ")
}

/// The same as `span`, but with milliseconds if it is short: for lateness and run times.
pub(crate) fn short_span(ms: i64) -> String {
    if ms < MS_COUNT_BELOW_MS { format!("{} ms", ms.max(0)) } else { span(ms) }
}

/// All of it, with no unit left out: `1 d 30 min`, `1 s 500 ms`.
pub(crate) fn whole_span(ms: i64) -> String {
    let (mut left, mut said) = (ms.max(0), Vec::new());
    for (unit, name) in UNITS.into_iter().chain([(1, "ms")]) {
        if left >= unit {
            said.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    if said.is_empty() { "0 ms".to_owned() } else { said.join(" ") }
}

/// `in 5 min`, `3 h 2 min ago`.
pub(crate) fn relative(at_ms: i64, now_ms: i64) -> String {
    let away = at_ms.saturating_sub(now_ms);
    if away > 0 { format!("in {}", span(away)) } else { format!("{} ago", span(away.saturating_neg())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough() {
        for (ms, said) in [
            (-5, "0 ms"),
            (20, "20 ms"),
            (1_999, "1 s"),
            (61_000, "1 min 1 s"),
            (10_920_500, "3 h 2 min"),
            (7_200_000, "2 h"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(span(ms), said);
        }
    }

    #[test]
    fn what_is_short_is_told_to_the_millisecond_and_what_was_set_without_loss() {
        assert_eq!((short_span(1_999), short_span(9_999)), ("1999 ms".to_owned(), "9999 ms".to_owned()));
        assert_eq!(short_span(10_920_500), "3 h 2 min");
        for (ms, said) in [
            (0, "0 ms"),
            (1_500, "1 s 500 ms"),
            (88_200_000, "1 d 30 min"),
            (90_061_001, "1 d 1 h 1 min 1 s 1 ms"),
        ] {
            assert_eq!(whole_span(ms), said);
        }
    }

    #[test]
    fn an_instant_is_ahead_or_behind() {
        assert_eq!(relative(301_000, 1_000), "in 5 min");
        assert_eq!(relative(1_000, 10_921_500), "3 h 2 min ago");
        assert_eq!(relative(7, 7), "0 ms ago");
        assert_eq!(relative(i64::MIN, i64::MAX), relative(0, i64::MAX), "no overflow");
    }
}
