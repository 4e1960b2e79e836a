//! An exclusion of a schedule: a date (`2026-12-24`), a range of dates or of instants
//! (`2026-12-24/2026-12-26`), including both ends, or the instants of a cron expression. Dates and
//! expressions are read in the schedule's zone.

use super::{
    Invalid,
    budget::{Budget, Spent},
    cron::Expression,
    fields::Times,
};
use crate::time::Millis;
use jiff::{
    Timestamp,
    civil::Date,
    tz::{Offset, TimeZone},
};

#[derive(Clone, Debug)]
pub(super) enum Exclusion {
    Dates(Date, Date),
    Instants(Millis, Millis),
    Cron(Box<Expression>),
}

impl Exclusion {
    pub(super) fn parse(text: &str, field: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        if let Ok(date) = text.parse::<Date>()
            && is_date(text)
        {
            return Ok(Self::Dates(date, date));
        }
        // An expression may have a slash too, but no dash between four digits and two at its beginning.
        let range = text.split_once('/').filter(|(from, _)| begins_with_a_year(from));
        let Some((from, to)) = range else {
            let parsed = Expression::parse(text, field);
            return parsed.map(|expression| Self::Cron(Box::new(expression.excluding()))).map_err(
                |invalid| {
                    let ways = "or give a date, a range of dates or instants `from/to`";
                    Invalid::new(invalid.field, format!("{}; {ways}", invalid.problem))
                },
            );
        };
        let wrong = |problem: &str| Invalid::new(field, format!("{text:?} {problem}"));
        let (from, to) = (from.trim(), to.trim());
        let excluded = match (date(from), date(to)) {
            (Some(from), Some(to)) if from <= to => Self::Dates(from, to),
            (Some(_), Some(_)) => return Err(wrong("ends before it begins")),
            (None, None) => match (from.parse::<Timestamp>(), to.parse::<Timestamp>()) {
                (Ok(from), Ok(to)) if from <= to => {
                    Self::Instants(Millis(from.as_millisecond()), Millis(to.as_millisecond()))
                }
                (Ok(_), Ok(_)) => return Err(wrong("ends before it begins")),
                _ => return Err(wrong("is no range of RFC 3339 instants")),
            },
            _ => return Err(wrong("must have two dates or two instants")),
        };
        Ok(excluded)
    }

    /// Up to where it leaves everything out that is at the times of `of`, if it leaves `at` out.
    pub(super) fn ends(
        &self,
        at: Millis,
        zone: &TimeZone,
        of: impl Fn(Offset) -> Times,
        budget: &mut Budget,
    ) -> Result<Option<Millis>, Spent> {
        Ok(match self {
            Self::Instants(from, to) => (*from <= at && at <= *to).then_some(*to),
            Self::Cron(expression) => expression.covers_until(at, zone, of, budget)?,
            Self::Dates(from, to) => dates_end((*from, *to), at, zone),
        })
    }
}

fn dates_end((from, to): (Date, Date), at: Millis, zone: &TimeZone) -> Option<Millis> {
    let local = Timestamp::from_millisecond(at.0).ok()?.to_zoned(zone.clone());
    if local.date() < from || local.date() > to {
        return None;
    }
    let after = to.tomorrow().ok()?.to_zoned(zone.clone()).ok()?;
    Some(Millis(after.timestamp().as_millisecond() - 1))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && begins_with_a_year(text)
}

fn date(text: &str) -> Option<Date> {
    is_date(text).then(|| text.parse().ok()).flatten()
}

fn begins_with_a_year(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.by_ref().take(4).filter(u8::is_ascii_digit).count() == 4 && bytes.next() == Some(b'-')
}
