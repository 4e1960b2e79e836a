//! Numbers, times and durations as people read them. Pure.

use jiff::{Timestamp, tz::TimeZone};
use punctual_protocol::{BulkAction, BulkState, ExecutorState, Phase, State};
use std::sync::LazyLock;

/// Thousands are apart by it; it does not break.
const THIN: char = '\u{202f}';
const MINUS: char = '\u{2212}';

/// A time zone, by the name under which it was found.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) name: String,
    zone: TimeZone,
}

impl Zone {
    /// UTC, where there is no such zone.
    pub(crate) fn named(name: &str) -> Self {
        match TimeZone::get(name) {
            Ok(zone) if !name.is_empty() && name.len() <= 64 => Self { name: name.to_owned(), zone },
            _ => Self { name: "UTC".to_owned(), zone: TimeZone::UTC },
        }
    }

    fn format(&self, ms: i64, format: &str) -> String {
        let Ok(at) = Timestamp::from_millisecond(ms) else { return ms.to_string() };
        at.to_zoned(self.zone.clone()).strftime(format).to_string()
    }

    /// `2026-11-24 21:03:07`
    pub(crate) fn second(&self, ms: i64) -> String {
        self.format(ms, "%Y-%m-%d %H:%M:%S")
    }

    /// `2026-11-24 21:03:07.123`
    pub(crate) fn exact(&self, ms: i64) -> String {
        self.format(ms, "%Y-%m-%d %H:%M:%S%.3f")
    }

    /// `21:03:07`
    pub(crate) fn time_of_day(&self, ms: i64) -> String {
        self.format(ms, "%H:%M:%S")
    }

    /// `21:03`
    pub(crate) fn minute(&self, ms: i64) -> String {
        self.format(ms, "%H:%M")
    }

    /// `Tue 2026-11-24 21:03:07 CET`
    pub(crate) fn day_and_second(&self, ms: i64) -> String {
        self.format(ms, "%a %Y-%m-%d %H:%M:%S %Z")
    }

    /// The day there.
    pub(crate) fn date(&self, ms: i64) -> Option<jiff::civil::Date> {
        Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(self.zone.clone()).date())
    }

    /// The form of `input type=datetime-local`, to the second.
    pub(crate) fn for_input(&self, ms: i64) -> String {
        self.format(ms, "%Y-%m-%dT%H:%M:%S")
    }

    /// Parses the value of `datetime-local`, or RFC 3339, or epoch milliseconds. `None` if it is none of these.
    pub(crate) fn read(&self, text: &str) -> Option<i64> {
        let text = text.trim();
        if text.len() >= 11 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok();
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Some(at.as_millisecond());
        }
        let local: jiff::civil::DateTime = text.replace(' ', "T").parse().ok()?;
        Some(local.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond())
    }
}

/// All that are known, UTC first.
pub(crate) fn zone_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let mut names: Vec<String> =
            jiff::tz::db().available().map(|available| available.to_string()).collect();
        names.retain(|name| name != "UTC");
        names.sort();
        names.insert(0, "UTC".to_owned());
        names
    });
    &NAMES
}

/// RFC 3339 in UTC.
pub(crate) fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |millisecond| millisecond.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

/// `12 345`
pub(crate) fn number(number: impl Into<i128>) -> String {
    let number: i128 = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    if number < 0 {
        text.push(MINUS);
    }
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(THIN);
        }
        text.push(digit);
    }
    text
}

/// Per second: `0`, `0.03`, `4.2`, `1 234`.
pub(crate) fn rate(count: f64) -> String {
    if count >= 99.95 {
        return number(whole(count));
    }
    let text = if count >= 9.995 { format!("{count:.1}") } else { format!("{count:.2}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a rate that is beyond 64 bits is shown as the largest number"
)]
pub(crate) fn whole(count: f64) -> i64 {
    count.round() as i64
}

/// `1.4 GiB`
pub(crate) fn bytes(count: i64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count.unsigned_abs() < 1_024 {
        return format!("{} B", number(count));
    }
    let (mut scaled, mut unit) = (lossy(count) / 1_024.0, UNITS[0]);
    for larger in UNITS.into_iter().skip(1) {
        if scaled.abs() < 1_024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1_024.0, larger);
    }
    if scaled.abs() >= 100.0 { format!("{scaled:.0} {unit}") } else { format!("{scaled:.1} {unit}") }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
pub(crate) const fn lossy(count: i64) -> f64 {
    count as f64
}

/// The share of a total that is not 0.
#[expect(clippy::cast_precision_loss, reason = "it is drawn a hundred pixels wide")]
pub(crate) const fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The two largest units: `850 ms`, `12.3 s`, `3 h 2 min`, `4 d 6 h`.
pub(crate) fn duration(ms: i64) -> String {
    let sign = if ms < 0 { MINUS.to_string() } else { String::new() };
    let ms = ms.unsigned_abs();
    if ms < 1_000 {
        return format!("{sign}{ms} ms");
    }
    if ms < 60_000 {
        let tenths = ms / 100;
        return match tenths % 10 {
            0 => format!("{sign}{} s", tenths / 10),
            rest => format!("{sign}{}.{rest} s", tenths / 10),
        };
    }
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let first = units.iter().position(|unit| ms >= unit.1).unwrap_or(3);
    let mut text = sign;
    let mut rest = ms;
    for (nth, (unit, size)) in units.iter().enumerate().skip(first).take(2) {
        let count = rest / size;
        rest %= size;
        if count > 0 || nth == first {
            if nth > first {
                text.push(' ');
            }
            text.push_str(&format!("{} {unit}", number(count)));
        }
    }
    text
}

/// `in 5 min`, `3 h 2 min ago`, `now`.
pub(crate) fn relative(ms: i64, now_ms: i64) -> String {
    match ms.saturating_sub(now_ms) {
        -999..=999 => "now".to_owned(),
        ms if ms > 0 => format!("in {}", duration(ms / 1_000 * 1_000)),
        ms => format!("{} ago", duration(-ms / 1_000 * 1_000)),
    }
}

/// `1h 30min`, `500ms`, `7 d`; a bare number is milliseconds. `None` if it is none of them.
pub(crate) fn read_duration(text: &str) -> Option<i64> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    if text.is_empty() {
        return None;
    }
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    let mut rest = text.as_str();
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (digits, after) = rest.split_at(end);
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let size = match unit {
            "ms" => 1.0,
            "s" | "sec" => 1_000.0,
            "m" | "min" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            "w" => 604_800_000.0,
            _ => return None,
        };
        total += digits.parse::<f64>().ok()? * size;
        rest = after;
    }
    (total < 9e15).then(|| whole(total))
}

/// The duration in a field, in a form that is parsed to the same value.
pub(crate) fn duration_for_input(ms: i64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let unit = units.into_iter().find(|unit| ms != 0 && ms % unit.1 == 0);
    unit.map_or_else(|| format!("{ms} ms"), |(unit, size)| format!("{} {unit}", ms / size))
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// The state of a task that changes only if a caller changes it.
pub(crate) const fn has_ended(state: State) -> bool {
    matches!(state, State::Succeeded | State::Dead | State::Cancelled | State::Stopped)
}

pub(crate) const fn state(state: State) -> &'static str {
    match state {
        State::Scheduled => "scheduled",
        State::Dispatching => "dispatching",
        State::Ready => "ready",
        State::Dispatched => "dispatched",
        State::Running => "running",
        State::DispatchFailed => "dispatch_failed",
        State::Retrying => "retrying",
        State::Succeeded => "succeeded",
        State::Dead => "dead",
        State::Cancelled => "cancelled",
        State::Stopped => "stopped",
        State::Blocked => "blocked",
    }
}

pub(crate) const STATES: [State; 12] = [
    State::Scheduled,
    State::Blocked,
    State::Dispatching,
    State::Ready,
    State::Dispatched,
    State::Running,
    State::DispatchFailed,
    State::Retrying,
    State::Succeeded,
    State::Dead,
    State::Cancelled,
    State::Stopped,
];

/// The meaning of the state, in one clause.
pub(crate) const fn state_means(state: State) -> &'static str {
    match state {
        State::Scheduled => "waits for its time",
        State::Dispatching => "claimed by an engine, about to fire",
        State::Ready => "fired, waits for a slot or a free executor",
        State::Dispatched => "handed to an executor",
        State::Running => "its executor has begun",
        State::DispatchFailed => "could not be sent, will be tried again",
        State::Retrying => "failed, its next attempt has a time",
        State::Succeeded => "done",
        State::Dead => "out of attempts, refused or timed out for good",
        State::Cancelled => "withdrawn, or stopped on request",
        State::Stopped => "its retention is over",
        State::Blocked => "waits for others of its workflow",
    }
}

pub(crate) const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Processing => "processing",
        Phase::Success => "success",
        Phase::Failed => "failed",
        Phase::Stopped => "stopped",
    }
}

/// The class that colours it.
pub(crate) fn tone_of_state(word: &str) -> &'static str {
    match word {
        "scheduled" | "blocked" => "wait",
        "dispatching" | "ready" => "due",
        "dispatched" | "running" => "run",
        "dispatch_failed" | "retrying" => "warn",
        "succeeded" => "good",
        "dead" => "bad",
        _ => "off",
    }
}

pub(crate) const fn executor_state(state: ExecutorState) -> (&'static str, &'static str) {
    match state {
        ExecutorState::Alive => ("alive", "good"),
        ExecutorState::Quiet => ("quiet", "warn"),
        ExecutorState::Draining => ("draining", "warn"),
        ExecutorState::Dead => ("silent", "bad"),
    }
}

pub(crate) const fn bulk_state(state: BulkState) -> (&'static str, &'static str) {
    match state {
        BulkState::Previewed => ("previewed", "wait"),
        BulkState::Running => ("running", "run"),
        BulkState::Paused => ("paused", "warn"),
        BulkState::Stopped => ("stopped", "off"),
        BulkState::Done => ("done", "good"),
    }
}

pub(crate) const fn bulk_action(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Cancel => "cancel",
        BulkAction::Reschedule => "reschedule",
        BulkAction::SetPriority => "set priority",
        BulkAction::SetQueue => "move to a queue",
        BulkAction::RunNow => "run now",
        BulkAction::Redrive => "redrive",
        BulkAction::Bury => "bury",
        BulkAction::Delete => "delete",
        BulkAction::Export => "export",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(-1_000), "\u{2212}1\u{202f}000");
        for (number, text) in [
            (0.0, "0"),
            (0.034, "0.03"),
            (4.2, "4.2"),
            (12.34, "12.3"),
            (99.99, "100"),
            (1234.4, "1\u{202f}234"),
        ] {
            assert_eq!(rate(number), text);
        }
        for (number, text) in [(0, "0 B"), (1_536, "1.5 KiB"), (200 << 20, "200 MiB"), (3 << 40, "3.0 TiB")] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn durations_are_said_in_their_two_largest_units_and_read_back() {
        for (ms, text) in [
            (0, "0 ms"),
            (850, "850 ms"),
            (12_000, "12 s"),
            (12_340, "12.3 s"),
            (61_000, "1 min 1 s"),
            (60_000, "1 min"),
            (10_920_000, "3 h 2 min"),
            (367_200_000, "4 d 6 h"),
            (-61_000, "\u{2212}1 min 1 s"),
        ] {
            assert_eq!(duration(ms), text);
        }
        for (text, ms) in [("500", 500), ("1h 30min", 5_400_000), ("1.5 s", 1_500), ("7d", 604_800_000)] {
            assert_eq!(read_duration(text), Some(ms), "{text}");
        }
        for bad in ["", "soon", "5 parsecs", "h", "1h30"] {
            assert_eq!(read_duration(bad), None, "{bad}");
        }
        for ms in [0, 1, 999, 1_000, 90_000, 5_400_000, 86_400_000] {
            assert_eq!(read_duration(&duration_for_input(ms)), Some(ms));
        }
    }

    #[test]
    fn what_is_far_is_said_from_now_on() {
        assert_eq!(relative(10_000, 10_500), "now");
        assert_eq!(relative(10_000, 5_000), "in 5 s");
        assert_eq!(relative(0, 10_920_123), "3 h 2 min ago");
    }

    #[test]
    fn times_are_shown_in_the_zone_and_read_in_it() {
        let berlin = Zone::named("Europe/Berlin");
        assert_eq!(berlin.exact(1_767_225_600_123), "2026-01-01 01:00:00.123");
        assert_eq!(berlin.read("2026-01-01T01:00:00"), Some(1_767_225_600_000));
        assert_eq!(berlin.read("2026-01-01 01:00"), Some(1_767_225_600_000));
        assert_eq!(berlin.read("2026-01-01T01:00:00Z"), Some(1_767_229_200_000));
        assert_eq!(berlin.read("1767225600000"), Some(1_767_225_600_000));
        assert_eq!(berlin.read("tomorrow"), None);
        assert_eq!(Zone::named("Mars/Olympus").name, "UTC");
        assert_eq!(rfc3339(1_767_225_600_123), "2026-01-01T00:00:00.123Z");
        assert!(zone_names().len() > 300 && zone_names()[0] == "UTC");
    }
}
