//! Instants as UTC epoch milliseconds. Never reads a clock: callers pass "now".

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// An instant: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);
    pub const ZERO: Self = Self(0);

    /// `self + ms`, held inside `ZERO..=MAX`, so that no arithmetic on user input can overflow.
    #[must_use]
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).clamp(0, Self::MAX.0))
    }

    /// Milliseconds from `earlier` to `self`; negative when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A duration as people read it, in two units, as `3 h 2 min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub i64);

impl Span {
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] =
            [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
        let ms = self.0.unsigned_abs();
        let largest = UNITS.iter().position(|unit| ms >= unit.0).unwrap_or(UNITS.len() - 1);
        let mut left = ms;
        for (nth, (unit_ms, word)) in UNITS.iter().enumerate().skip(largest).take(2) {
            let count = left / unit_ms;
            left %= unit_ms;
            if count == 0 && nth > largest {
                break;
            }
            let word = if count == 1 && *word == "days" { "day" } else { word };
            let space = if nth > largest { " " } else { "" };
            write!(f, "{space}{count} {word}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn spans_are_said_in_two_units() {
        for (ms, said) in [
            (0, "0 ms"),
            (Span::of(std::time::Duration::from_nanos(137_348_291)).0, "137 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_500, "1 s 500 ms"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h"),
            (10_920_000, "3 h 2 min"),
            (10_980_999, "3 h 3 min"),
            (86_400_000, "1 day"),
            (200_000_000, "2 days 7 h"),
            (-61_000, "1 min 1 s"),
            (i64::MIN, "106751991167 days 7 h"),
        ] {
            assert_eq!(Span(ms).to_string(), said, "{ms}");
        }
    }
}
