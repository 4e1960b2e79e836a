//! An instant on the wire: RFC 3339 in UTC with exactly three decimals. Reading never moves an instant
//! earlier: digits below the millisecond are rounded up, because a task must not fire before its requested
//! time.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer, ser};

use crate::limits::INSTANT_MAX_MS;

/// POSIX time has no leap seconds, so this second is refused.
const LEAP_SECOND: &str = ":60";

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// An instant, RFC 3339 in UTC with milliseconds, for example `2026-11-20T23:11:00.250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, utoipa::ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-20T23:11:00.250Z")]
pub struct At(i64);

impl At {
    /// Converts epoch milliseconds.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Epoch milliseconds.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339 with any offset; `None` if it is anything else or outside 1970 to 9999.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (civil, offset_ms) = split_offset(text)?;
        let (seconds, fraction) = civil.split_at_checked(19)?;
        let seconds = canonical(seconds)?;
        let local: DateTime = seconds.parse().ok()?;
        let elapsed = local.duration_since(EPOCH);
        let mut beyond_ms = fraction_up_ms(fraction)?;
        if seconds.ends_with(LEAP_SECOND) {
            // It is parsed as the second before, which would be early; a leap second ends where the next
            // second begins.
            beyond_ms = 1_000;
        }
        let ms = i64::try_from(elapsed.as_millis()).ok()? + beyond_ms - offset_ms;
        (0..=INSTANT_MAX_MS).contains(&ms).then_some(Self(ms))
    }

    fn civil(self) -> Option<DateTime> {
        match Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => Some(Offset::UTC.to_datetime(timestamp)),
            // A timestamp ends a day before the year 9999 does; civil arithmetic does not, and is a hundred times slower.
            Err(_) => EPOCH.checked_add(SignedDuration::from_millis(self.0)).ok(),
        }
    }

    /// The 24 bytes of the canonical form; `None` outside 1970 to 9999.
    fn format(self) -> Option<[u8; 24]> {
        if !(0..=INSTANT_MAX_MS).contains(&self.0) {
            return None;
        }
        let t = self.civil()?;
        let mut out = *b"0000-00-00T00:00:00.000Z";
        let [y0, y1, y2, y3, _, mo0, mo1, _, d0, d1, _, h0, h1, _, mi0, mi1, _, s0, s1, _, f0, f1, f2, _] =
            &mut out;
        digits([y0, y1, y2, y3], i32::from(t.year()));
        digits([mo0, mo1], i32::from(t.month()));
        digits([d0, d1], i32::from(t.day()));
        digits([h0, h1], i32::from(t.hour()));
        digits([mi0, mi1], i32::from(t.minute()));
        digits([s0, s1], i32::from(t.second()));
        digits([f0, f1, f2], i32::from(t.millisecond()));
        Some(out)
    }
}

/// Writes a value that is not negative, right to left.
fn digits<const N: usize>(places: [&mut u8; N], value: i32) {
    let mut rest = value.unsigned_abs();
    for place in places.into_iter().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

/// `(the part before the offset, the offset in milliseconds)`.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(civil) = text.strip_suffix(['Z', 'z']) {
        return Some((civil, 0));
    }
    let (civil, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] = *offset.as_bytes() else { return None };
    let (hours, minutes) = (two_digits(h0, h1)?, two_digits(m0, m1)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset_ms = (hours * 60 + minutes) * 60_000;
    Some((civil, if sign == b'-' { -offset_ms } else { offset_ms }))
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// `YYYY-MM-DDTHH:MM:SS` exactly; the `T` may be a `t` or a space.
fn canonical(seconds: &str) -> Option<String> {
    let shape = seconds.bytes().enumerate().all(|(i, b)| match i {
        4 | 7 => b == b'-',
        10 => matches!(b, b'T' | b't' | b' '),
        13 | 16 => b == b':',
        _ => b.is_ascii_digit(),
    });
    shape.then(|| seconds.to_ascii_uppercase().replace(' ', "T"))
}

/// Milliseconds of `.123` (any number of digits, rounded up), 0 if empty.
fn fraction_up_ms(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    let decimals = fraction.strip_prefix('.')?;
    if decimals.is_empty() || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut places = decimals.bytes().map(|b| i64::from(b - b'0'));
    let whole = (0..3).fold(0, |ms, _| ms * 10 + places.next().unwrap_or(0));
    Some(whole + i64::from(places.any(|digit| digit > 0)))
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format() {
            Some(bytes) => f.write_str(std::str::from_utf8(&bytes).unwrap_or_default()),
            None => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.format().ok_or_else(|| ser::Error::custom("instant outside 1970 to 9999"))?;
        serializer.serialize_str(std::str::from_utf8(&bytes).map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_rfc3339(&text).ok_or_else(|| {
            D::Error::custom("expected an RFC 3339 date and time with an offset, between 1970 and 9999")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<i64> {
        At::from_rfc3339(text).map(At::ms)
    }

    #[test]
    fn an_instant_is_written_in_utc_with_exactly_three_decimals() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_216_260_250, "2026-11-20T23:11:00.250Z"),
            (INSTANT_MAX_MS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(At::from_ms(ms).to_string(), text);
            assert_eq!(serde_json::to_string(&At::from_ms(ms)).unwrap(), format!("\"{text}\""));
            assert_eq!(At::from_rfc3339(text), Some(At::from_ms(ms)));
        }
    }

    #[test]
    fn offsets_are_taken_into_account() {
        let utc = ms("2026-11-20T23:11:00Z");
        assert!(utc.is_some());
        for same in [
            "2026-11-21T01:11:00+02:00",
            "2026-11-20T17:41:00-05:30",
            "2026-11-20t23:11:00z",
            "2026-11-20 23:11:00Z",
        ] {
            assert_eq!(ms(same), utc, "{same}");
        }
    }

    #[test]
    fn what_lies_below_the_millisecond_is_rounded_up_so_that_nothing_fires_early() {
        assert_eq!(ms("1970-01-01T00:00:00.1230000Z"), Some(123));
        assert_eq!(ms("1970-01-01T00:00:00.1230001Z"), Some(124));
        assert_eq!(ms("1970-01-01T00:00:00.9999Z"), Some(1_000));
        assert_eq!(ms("1970-01-01T00:00:00.5Z"), Some(500));
    }

    #[test]
    fn a_leap_second_is_where_the_next_second_begins_so_that_nothing_fires_early() {
        let next = ms("2017-01-01T00:00:00Z");
        for leap in [
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:60.001Z",
            "2016-12-31T23:59:60.999Z",
            "2017-01-01T01:59:60+02:00",
        ] {
            assert_eq!(ms(leap), next, "{leap}");
        }
        for text in ["2016-12-31T23:59:61Z", "2016-12-31T23:59:60.Z", "9999-12-31T23:59:60Z"] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn anything_but_rfc_3339_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-11-20",
            "2026-11-20T23:11Z",
            "2026-11-20T23:11:00",
            "2026-13-20T23:11:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T23:11:00.Z",
            "2026-11-20T23:11:00+0200",
            "2026-11-20T23:11:00+24:00",
            "1969-12-31T23:59:59Z",
            "9999-12-31T23:59:59.9999Z",
            "+10000-01-01T00:00:00Z",
            "2026-11-20T23:11:00[UTC]",
            "2026-11-20T23:11:00é",
            "1795216260250",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn an_instant_that_cannot_be_written_is_an_error_and_not_a_lie() {
        assert!(serde_json::to_string(&At::from_ms(-1)).is_err());
        assert!(serde_json::to_string(&At::from_ms(INSTANT_MAX_MS + 1)).is_err());
    }
}
