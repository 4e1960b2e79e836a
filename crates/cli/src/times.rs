//! Instants as people read and write them: in the zone of this machine, and how far off. Answers for programs have none of it.

use crate::{clock::SystemClock, duration, look, spans};
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};
use punctual_contract::Clock as _;
use punctual_protocol::{At, TimeBound};

/// An instant of one object: `2026-11-24 09:00:00 +01:00 (in 3 h 2 min)`, with milliseconds if there are some.
pub(crate) fn full(at: At) -> String {
    let away = spans::relative(at.ms(), SystemClock.now().0);
    format!("{} ({away})", written(at, look::zone(), Offset::Minutes, at.ms() % 1_000 != 0))
}

/// An instant in a table: `2026-11-24 09:00:00+01`.
pub(crate) fn stamp(at: At) -> String {
    written(at, look::zone(), Offset::Hours, false)
}

/// An instant in a table in which the order counts: `2026-11-24 09:00:00.250+01`.
pub(crate) fn stamp_ms(at: At) -> String {
    written(at, look::zone(), Offset::Hours, true)
}

/// The time until an instant, or since, for a table.
pub(crate) fn away(at: At) -> String {
    spans::relative(at.ms(), SystemClock.now().0)
}

#[derive(Clone, Copy)]
enum Offset {
    /// `+01`, `+05:30`.
    Hours,
    /// ` +01:00`.
    Minutes,
}

fn written(at: At, zone: &TimeZone, offset: Offset, has_ms: bool) -> String {
    // The last day of the year 9999 is none of its.
    let Ok(instant) = Timestamp::from_millisecond(at.ms()) else { return at.to_string() };
    let format = match (offset, has_ms) {
        (Offset::Hours, false) => "%Y-%m-%d %H:%M:%S%:::z",
        (Offset::Hours, true) => "%Y-%m-%d %H:%M:%S%.3f%:::z",
        (Offset::Minutes, false) => "%Y-%m-%d %H:%M:%S %:z",
        (Offset::Minutes, true) => "%Y-%m-%d %H:%M:%S%.3f %:z",
    };
    instant.to_zoned(zone.clone()).strftime(format).to_string()
}

/// The accepted forms of an instant.
pub(crate) const FORMS: &str = "RFC 3339 (2026-11-24T09:00:00+01:00), 2026-11-24 09:00 in the zone of this machine, \
                                epoch milliseconds, now, \"in 1h30m\", or \"1h30m ago\"";

/// Parses a bound in the past: a duration alone counts back from now.
pub(crate) fn since(text: &str) -> Result<TimeBound, String> {
    let at = parse(text, SystemClock.now().0, local(), Way::Back)?;
    Ok(TimeBound(at.ms()))
}

/// Parses a bound of due times: a duration alone counts ahead from now.
pub(crate) fn due(text: &str) -> Result<TimeBound, String> {
    let at = parse(text, SystemClock.now().0, local(), Way::Ahead)?;
    Ok(TimeBound(at.ms()))
}

/// Parses a time to set, in the form of the API.
pub(crate) fn instant(text: &str) -> Result<String, String> {
    Ok(parse(text, SystemClock.now().0, local(), Way::Ahead)?.to_string())
}

/// Parses a time in the past, in the form of the API.
pub(crate) fn past(text: &str) -> Result<String, String> {
    Ok(parse(text, SystemClock.now().0, local(), Way::Back)?.to_string())
}

/// Arguments are read before `--utc` is known, which is about answers alone.
fn local() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Back,
    Ahead,
}

fn parse(text: &str, now_ms: i64, zone: TimeZone, way: Way) -> Result<At, String> {
    let text = text.trim();
    if let Some(at) = At::from_rfc3339(text) {
        return Ok(at);
    }
    let ms = match text.parse::<i64>() {
        Ok(ms) => Some(ms),
        Err(_) => relative(text, now_ms, way),
    };
    let ms = match ms {
        Some(ms) => ms,
        None => of_zone(text, zone)?.ok_or_else(|| format!("{text:?} is no instant: {FORMS}"))?,
    };
    let is_in_range = (0..=punctual_protocol::limits::INSTANT_MAX_MS).contains(&ms);
    is_in_range.then(|| At::from_ms(ms)).ok_or_else(|| format!("{text:?} is not between 1970 and 9999"))
}

/// `now`, `in 1h`, `1h ago`, `1h`.
fn relative(text: &str, now_ms: i64, way: Way) -> Option<i64> {
    if text == "now" {
        return Some(now_ms);
    }
    let (span, way) = match (text.strip_prefix("in "), text.strip_suffix(" ago")) {
        (Some(span), _) => (span, Way::Ahead),
        (None, Some(span)) => (span, Way::Back),
        (None, None) => (text, way),
    };
    let span_ms = duration::ms(duration::parse(span.trim()).ok()?);
    Some(if way == Way::Back { now_ms.saturating_sub(span_ms) } else { now_ms.saturating_add(span_ms) })
}

/// A date and a time without an offset, or a date alone: its midnight. `None` if it is none.
fn of_zone(text: &str, zone: TimeZone) -> Result<Option<i64>, String> {
    let civil = match text.parse::<Date>() {
        Ok(date) if text.len() == "2026-11-24".len() => date.to_datetime(jiff::civil::Time::midnight()),
        _ => match text.parse::<DateTime>() {
            // Whatever else is in it (a zone, an offset that is none of RFC 3339) would be passed over.
            Ok(time) if text.bytes().all(|byte| byte.is_ascii_digit() || b"-:. T".contains(&byte)) => time,
            _ => return Ok(None),
        },
    };
    match zone.into_ambiguous_zoned(civil).unambiguous() {
        Ok(zoned) => Ok(Some(zoned.timestamp().as_millisecond())),
        Err(_) => Err(format!(
            "{text:?} is skipped, or comes twice, where clocks change: write its offset behind it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-24T08:00:00Z.
    const NOW: i64 = 1_795_507_200_000;

    fn berlin() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    #[test]
    fn an_instant_is_written_in_its_zone() {
        let winter = At::from_ms(NOW);
        let summer = At::from_rfc3339("2026-07-01T12:00:00.250Z").unwrap();
        for (at, zone, offset, has_ms, text) in [
            (winter, "Europe/Berlin", Offset::Minutes, false, "2026-11-24 09:00:00 +01:00"),
            (winter, "UTC", Offset::Minutes, false, "2026-11-24 08:00:00 +00:00"),
            (winter, "America/New_York", Offset::Minutes, true, "2026-11-24 03:00:00.000 -05:00"),
            (winter, "Europe/Berlin", Offset::Hours, false, "2026-11-24 09:00:00+01"),
            (winter, "Asia/Kolkata", Offset::Hours, false, "2026-11-24 13:30:00+05:30"),
            (summer, "Europe/Berlin", Offset::Hours, true, "2026-07-01 14:00:00.250+02"),
        ] {
            assert_eq!(written(at, &TimeZone::get(zone).unwrap(), offset, has_ms), text);
        }
        let last = At::from_ms(punctual_protocol::limits::INSTANT_MAX_MS);
        assert_eq!(written(last, &berlin(), Offset::Hours, false), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn an_instant_is_read_in_every_form() {
        let read = |text: &str, way| parse(text, NOW, berlin(), way).map(|at| at.ms() - NOW);
        for (text, from_now_ms) in [
            ("2026-11-24T08:00:00Z", 0),
            ("2026-11-24T10:00:00+01:00", 3_600_000),
            ("1795507200001", 1),
            ("now", 0),
            ("in 1h30m", 5_400_000),
            ("2d12h ago", -216_000_000),
            ("2026-11-24 09:00", 0),
            ("2026-11-24T09:00:01", 1_000),
            ("2026-11-24 09:00:00.250", 250),
            ("2026-11-24", -32_400_000),
            (" now ", 0),
        ] {
            assert_eq!(read(text, Way::Ahead), Ok(from_now_ms), "{text}");
            assert_eq!(read(text, Way::Back), Ok(from_now_ms), "{text}");
        }
        assert_eq!((read("5m", Way::Ahead), read("5m", Way::Back)), (Ok(300_000), Ok(-300_000)));
    }

    #[test]
    fn what_is_no_instant_or_two_of_them_is_refused_with_the_way_out() {
        for (text, part) in [
            ("yesterday", "RFC 3339"),
            ("", "RFC 3339"),
            ("2026-13-01", "RFC 3339"),
            ("2026-11-24 09:00[Europe/Paris]", "RFC 3339"),
            ("-5m", "RFC 3339"),
            ("2026-03-29 02:30", "clocks change"),
            ("2026-10-25 02:30", "clocks change"),
            ("-1", "between 1970"),
            ("99999d ago", "between 1970"),
        ] {
            let said = parse(text, NOW, berlin(), Way::Ahead).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
