//! One cron expression in one zone. The fields are `croner`'s business, on a clock without a zone; what a change of the
//! clock does to them is decided here, by one rule (docs/schedules.md), which is that of Debian's cron:
//! - If neither the minute nor the hour begins with `*`, an instant that the clock jumps over runs at the first instant
//!   after the jump, and one that comes twice runs the first time.
//! - Otherwise an instant that does not exist does not run, and one that comes twice runs both times.

use super::Invalid;
use crate::time::Millis;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

/// Longest expression, in bytes.
const TEXT_MAX: usize = 256;
/// Changes of the clock that one search passes: more than there are in a thousand years.
const CHANGES_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Expression {
    cron: Cron,
    /// It says minutes and hours by their numbers.
    is_fixed: bool,
    /// It says no seconds.
    is_of_minutes: bool,
}

impl Expression {
    pub(super) fn parse(text: &str, field: &str) -> Result<Self, Invalid> {
        let wrong = |problem: String| Invalid::new(field, format!("{text:?} {problem}"));
        if text.len() > TEXT_MAX {
            return Err(Invalid::new(field, format!("has more than {TEXT_MAX} characters")));
        }
        let plain = nickname(text.trim()).unwrap_or_else(|| text.trim());
        if plain.starts_with('@') {
            let known = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
            return Err(wrong(format!("is not known; there are {known}")));
        }
        let fields: Vec<&str> = plain.split_whitespace().collect();
        let (minute, hour) = match fields.as_slice() {
            [minute, hour, _, _, _] | [_, minute, hour, _, _, _] => (*minute, *hour),
            _ => {
                let rule = "minute hour day month weekday, with seconds before them if needed";
                return Err(wrong(format!("has {} fields, and must have 5 or 6: {rule}", fields.len())));
            }
        };
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(plain).map_err(|it| wrong(format!("is no cron expression: {it}")))?;
        let is_fixed = !minute.starts_with('*') && !hour.starts_with('*');
        Ok(Self { cron, is_fixed, is_of_minutes: fields.len() == 5 })
    }

    /// The first instant after one; None: there is none, or not before the year 5000.
    pub(super) fn next_after(&self, after: Millis, zone: &TimeZone) -> Option<Millis> {
        let after = Timestamp::from_millisecond(after.0).ok()?;
        let found = if self.is_fixed { self.fixed(after, zone) } else { self.running(after, zone) };
        found.map(|it| Millis(it.as_millisecond())).filter(|it| *it <= Millis::MAX)
    }

    /// Whether it has this instant, or its minute if it says no seconds.
    pub(super) fn matches(&self, at: Millis, zone: &TimeZone) -> bool {
        let Ok(at) = Timestamp::from_millisecond(at.0) else { return false };
        let local = zone.to_datetime(at);
        let of_minute = local.with().second(0).subsec_nanosecond(0).build();
        let looked_at = if self.is_of_minutes { of_minute.unwrap_or(local) } else { local };
        self.cron.is_time_matching(&looked_at).unwrap_or(false)
    }

    fn civil(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        self.cron.find_next_occurrence(&from, inclusive).ok()
    }

    /// By the clock on the wall: each of its times once, wherever on the time line it lies.
    fn fixed(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut local = self.civil(zone.to_datetime(after), false)?;
        loop {
            let at = once(local, zone)?;
            if at > after {
                return Some(at);
            }
            // The clock was set back: this one has been.
            local = self.civil(local, false)?;
        }
    }

    /// By the time line: wherever the clock shows one of its times.
    fn running(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (mut from, mut inclusive) = (after, false);
        let mut changes = zone.following(after);
        for _ in 0..CHANGES_MAX {
            let offset = zone.to_offset(from);
            let local = self.civil(offset.to_datetime(from), inclusive)?;
            let at = offset.to_timestamp(local).ok()?;
            match changes.next().map(|it| it.timestamp()) {
                Some(change) if change <= at => (from, inclusive) = (change, true),
                _ => return Some(at),
            }
        }
        None
    }
}

fn once(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let found = zone.to_ambiguous_timestamp(local);
    match found.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset from after the jump it lies before the jump: the next change is that jump.
            let before_jump = after.to_timestamp(local).ok()?;
            zone.following(before_jump).next().map(|it| it.timestamp())
        }
    }
}

fn nickname(text: &str) -> Option<&'static str> {
    let known = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ];
    known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|it| it.1)
}
