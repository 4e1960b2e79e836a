//! One cron expression in one time zone. Its fields are searched on a clock without a zone (`fields`). This
//! file applies clock changes, by the rule of Debian's cron (docs/schedules.md):
//! - If neither the minute nor the hour begins with `*`, an instant that the clock skips runs at the first
//!   instant after the jump, and one that occurs twice runs the first time.
//! - Otherwise a skipped instant does not run, and one that occurs twice runs both times.

use super::{
    Invalid,
    budget::{Budget, Spent},
    fields::{Fields, Times},
};
use crate::time::Millis;
use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

/// Longest expression, in bytes.
const TEXT_MAX: usize = 256;
#[derive(Clone, Debug)]
pub(super) struct Expression {
    fields: Fields,
    /// True if the expression has minutes and hours as numbers.
    is_fixed: bool,
    /// True if the expression has no seconds.
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
        let cron = parser.parse(plain).map_err(|error| wrong(format!("is no cron expression: {error}")))?;
        let is_fixed = !minute.starts_with('*') && !hour.starts_with('*');
        let is_of_minutes = fields.len() == 5;
        Ok(Self { fields: Fields::of(cron.pattern), is_fixed, is_of_minutes })
    }

    /// The expression as an exclusion: without seconds, it covers complete minutes.
    pub(super) fn excluding(self) -> Self {
        if !self.is_of_minutes {
            return self;
        }
        Self { fields: self.fields.of_whole_minutes(), ..self }
    }

    /// The first instant after one, or `None` if there are no more.
    pub(super) fn next_after(
        &self,
        after: Millis,
        zone: &TimeZone,
        budget: &mut Budget,
    ) -> Result<Option<Millis>, Spent> {
        let Ok(after) = Timestamp::from_millisecond(after.0) else { return Ok(None) };
        let found = match self.is_fixed {
            true => self.fixed(after, zone, budget)?,
            false => self.running(after, zone, budget)?,
        };
        Ok(found.map(|at| Millis(at.as_millisecond())).filter(|at| *at <= Millis::MAX))
    }

    /// The times of the day at which the expression has instants, except for those that the clock jumps over.
    pub(super) const fn times(&self) -> Times {
        self.fields.times()
    }

    /// Up to where it has each second of the times of `of`, if it has the one of `at`: no later than the next change of the clock.
    /// `of` is given the offset of the clock until then.
    pub(super) fn covers_until(
        &self,
        at: Millis,
        zone: &TimeZone,
        of: impl Fn(Offset) -> Times,
        budget: &mut Budget,
    ) -> Result<Option<Millis>, Spent> {
        let Ok(at) = Timestamp::from_millisecond(at.0) else { return Ok(None) };
        let offset = zone.to_offset(at);
        let local = offset.to_datetime(at);
        if !self.fields.matches(local) {
            return Ok(None);
        }
        let other = self.fields.next_other(local, of(offset), budget)?;
        let other = other.and_then(|other| offset.to_timestamp(other).ok());
        let change = zone.following(at).next().map(|change| change.timestamp());
        let ends = other.into_iter().chain(change).min().map(|end| Millis(end.as_millisecond() - 1));
        Ok(Some(ends.unwrap_or(Millis::MAX)))
    }

    /// Finds the next time by the wall clock: each time of the expression occurs once, wherever it is on the time
    /// line.
    fn fixed(
        &self,
        after: Timestamp,
        zone: &TimeZone,
        budget: &mut Budget,
    ) -> Result<Option<Timestamp>, Spent> {
        let mut from = second_after(zone.to_datetime(after));
        while let Some(at) = from {
            let Some(local) = self.fields.next(at, budget)? else { break };
            match once(local, zone) {
                Some(at) if at > after => return Ok(Some(at)),
                // The clock was set back: this one has been.
                Some(_) => from = second_after(local),
                None => break,
            }
        }
        Ok(None)
    }

    /// Finds the next time on the time line: each instant at which the clock shows a time of the expression.
    fn running(
        &self,
        after: Timestamp,
        zone: &TimeZone,
        budget: &mut Budget,
    ) -> Result<Option<Timestamp>, Spent> {
        let mut from = after;
        let mut local = second_after(zone.to_datetime(after));
        let mut changes = zone.following(after);
        while let Some(begin) = local {
            let offset = zone.to_offset(from);
            let Some(found) = self.fields.next(begin, budget)? else { break };
            let Ok(at) = offset.to_timestamp(found) else { break };
            match changes.next().map(|change| change.timestamp()) {
                Some(change) if change <= at => {
                    from = change;
                    local = Some(zone.to_datetime(change));
                }
                _ => return Ok(Some(at)),
            }
        }
        Ok(None)
    }
}

/// The next full second.
fn second_after(at: DateTime) -> Option<DateTime> {
    let whole = at.with().subsec_nanosecond(0).build().ok()?;
    whole.checked_add(jiff::SignedDuration::from_secs(1)).ok()
}

fn once(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let found = zone.to_ambiguous_timestamp(local);
    match found.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset after the jump it is before the jump: the next change is that jump.
            let before_jump = after.to_timestamp(local).ok()?;
            zone.following(before_jump).next().map(|time_zone_transition| time_zone_transition.timestamp())
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
    known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|pair| pair.1)
}
