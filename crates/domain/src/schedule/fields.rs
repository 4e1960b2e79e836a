//! The fields of one cron expression on a clock without a zone: which second, minute, hour and day they have, and the next one
//! that they have or do not have. `croner` reads the text and knows which day is meant by `L`, `15W` and `FRI#2`; the search is
//! here, so that its steps are counted. Days are walked through one by one, months that are not meant in one step.

use super::budget::{Budget, Spent};
use croner::{CronPattern, Weekday};
use jiff::civil::{Date, DateTime, Time, date};

/// A year of each kind: seven first weekdays, with and without a 29 February. A day that occurs in none of
/// these never occurs.
const KINDS_OF_YEARS: [i16; 14] =
    [2000, 2001, 2002, 2003, 2004, 2005, 2006, 2008, 2009, 2010, 2012, 2016, 2020, 2024];
const MINUTES: u32 = 60;
const HOURS: u32 = 24;
const MONTHS: u32 = 12;

#[derive(Clone, Debug)]
pub(super) struct Fields {
    days: CronPattern,
    times: Times,
    /// Bit n for month n.
    months: u64,
    /// True if at least one day matches.
    has_a_day: bool,
}

impl Fields {
    pub(super) fn of(pattern: CronPattern) -> Self {
        let bits = |values: Vec<u16>| values.into_iter().fold(0_u64, |all, value| all | (1 << (value % 64)));
        let mut fields = Self {
            times: Times {
                seconds: bits(pattern.seconds.values()),
                minutes: bits(pattern.minutes.values()),
                hours: bits(pattern.hours.values()),
            },
            months: bits(pattern.months.values()),
            days: pattern,
            has_a_day: true,
        };
        fields.has_a_day = fields.has_a_day();
        fields
    }

    /// Every second of the minutes that it has.
    pub(super) fn of_whole_minutes(self) -> Self {
        Self { times: Times { seconds: full(MINUTES), ..self.times }, ..self }
    }

    pub(super) const fn times(&self) -> Times {
        self.times
    }

    pub(super) fn matches(&self, at: DateTime) -> bool {
        self.has_day(at.date()) && self.times.has(Clock::of(at.time()))
    }

    /// The first matching second at or after `from`. `None` if there is none.
    pub(super) fn next(&self, from: DateTime, budget: &mut Budget) -> Result<Option<DateTime>, Spent> {
        if !self.has_a_day {
            return Ok(None);
        }
        budget.step()?;
        let (mut day, mut from) = (from.date(), Some(Clock::of(from.time())));
        loop {
            if let Some(from) = from.take().filter(|_| self.has_day(day)) {
                if let Some(found) = self.times.next(from) {
                    return Ok(found.on(day));
                }
            } else if self.has_day(day) {
                return Ok(self.times.next(Clock::MIDNIGHT).and_then(|time| time.on(day)));
            }
            let Some(next) = self.day_after(day) else { return Ok(None) };
            day = next;
            budget.step()?;
        }
    }

    /// The first second at or after `from` that does not match, among those at the given times. `None` means all of
    /// them match. A second that is at none of these times may also be returned.
    pub(super) fn next_other(
        &self,
        from: DateTime,
        of: Times,
        budget: &mut Budget,
    ) -> Result<Option<DateTime>, Spent> {
        budget.step()?;
        let (mut day, mut clock) = (from.date(), Clock::of(from.time()));
        let times = self.times.or_not(of);
        let has_whole_days = times.next_other(Clock::MIDNIGHT).is_none();
        if has_whole_days && self.has_every_day() {
            return Ok(None);
        }
        loop {
            if !self.has_day(day) {
                return Ok(clock.on(day));
            }
            if let Some(found) = times.next_other(clock) {
                return Ok(found.on(day));
            }
            let Ok(next) = day.tomorrow() else { return Ok(None) };
            (day, clock) = (next, Clock::MIDNIGHT);
            budget.step()?;
        }
    }

    fn has_day(&self, day: Date) -> bool {
        self.has_month(day) && {
            let weekday = u32::try_from(day.weekday().to_sunday_zero_offset()).unwrap_or(0);
            let weekday = Weekday::from_days_from_sunday(weekday);
            let (month, of_month) = (positive(day.month()), positive(day.day()));
            self.days.day_match(i32::from(day.year()), month, of_month, weekday).unwrap_or(false)
        }
    }

    fn has_month(&self, day: Date) -> bool {
        has(self.months, positive(day.month()))
    }

    /// The next day, or the first one of the next month that it has.
    fn day_after(&self, day: Date) -> Option<Date> {
        let next = day.tomorrow().ok()?;
        if self.has_month(next) {
            return Some(next);
        }
        let (year, month) = match next_set(self.months, positive(next.month())) {
            Some(month) => (next.year(), month),
            None => (next.year().checked_add(1)?, next_set(self.months, 1)?),
        };
        Date::new(year, i8::try_from(month).ok()?, 1).ok()
    }

    fn days_of_all_kinds(&self) -> impl Iterator<Item = Date> {
        let first = |year: i16| date(year, 1, 1);
        KINDS_OF_YEARS.into_iter().flat_map(move |year| {
            let days = std::iter::successors(Some(first(year)), |day| day.tomorrow().ok());
            days.take_while(move |day| day.year() == year)
        })
    }

    fn has_a_day(&self) -> bool {
        self.days_of_all_kinds().any(|day| self.has_day(day))
    }

    fn has_every_day(&self) -> bool {
        (1..=MONTHS).all(|month| has(self.months, month))
            && self.days_of_all_kinds().all(|day| self.has_day(day))
    }
}

/// Times of the day: bit n for second n of a minute; so minutes of an hour and hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
}

impl Times {
    pub(super) const NONE: Self = Self { seconds: 0, minutes: 0, hours: 0 };
    pub(super) const ALL: Self = Self { seconds: full(MINUTES), minutes: full(MINUTES), hours: full(HOURS) };

    /// A superset of both sets of times.
    #[must_use]
    pub(super) const fn or(self, other: Self) -> Self {
        Self {
            seconds: self.seconds | other.seconds,
            minutes: self.minutes | other.minutes,
            hours: self.hours | other.hours,
        }
    }

    /// Keeps the units that `of` has; of the others, as many as possible.
    const fn or_not(self, of: Self) -> Self {
        let Self { seconds, minutes, hours } = Self::ALL;
        let not =
            Self { seconds: seconds & !of.seconds, minutes: minutes & !of.minutes, hours: hours & !of.hours };
        self.or(not)
    }

    fn has(self, at: Clock) -> bool {
        has(self.hours, at.hour) && has(self.minutes, at.minute) && has(self.seconds, at.second)
    }

    /// The first time of a day that it has, at or after one.
    fn next(self, from: Clock) -> Option<Clock> {
        let first_second = next_set(self.seconds, 0)?;
        let first_minute = next_set(self.minutes, 0)?;
        if has(self.hours, from.hour) {
            if has(self.minutes, from.minute)
                && let Some(second) = next_set(self.seconds, from.second)
            {
                return Some(Clock { second, ..from });
            }
            if let Some(minute) = next_set(self.minutes, from.minute + 1) {
                return Some(Clock { hour: from.hour, minute, second: first_second });
            }
        }
        let hour = next_set(self.hours, from.hour + 1)?;
        Some(Clock { hour, minute: first_minute, second: first_second })
    }

    /// The first time of a day that it does not have, at or after one.
    fn next_other(self, from: Clock) -> Option<Clock> {
        let mut at = from;
        while at.hour < HOURS {
            if !self.has(at) {
                return Some(at);
            }
            if let Some(second) = next_unset(self.seconds, at.second, MINUTES) {
                return Some(Clock { second, ..at });
            }
            // The rest of the minute is all there; so is the rest of the hour, where each minute is whole.
            let minute = match self.seconds == full(MINUTES) {
                true => next_unset(self.minutes, at.minute, MINUTES),
                false => Some(at.minute + 1).filter(|minute| *minute < MINUTES),
            };
            at = match minute {
                Some(minute) => Clock { minute, second: 0, ..at },
                None => Clock { hour: at.hour + 1, minute: 0, second: 0 },
            };
        }
        None
    }
}

/// A time of the day, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    hour: u32,
    minute: u32,
    second: u32,
}

impl Clock {
    const MIDNIGHT: Self = Self { hour: 0, minute: 0, second: 0 };

    fn of(time: Time) -> Self {
        let (hour, minute, second) =
            (positive(time.hour()), positive(time.minute()), positive(time.second()));
        Self { hour, minute, second }
    }

    fn on(self, day: Date) -> Option<DateTime> {
        let part = |value: u32| i8::try_from(value).ok();
        let time = Time::new(part(self.hour)?, part(self.minute)?, part(self.second)?, 0).ok()?;
        Some(day.to_datetime(time))
    }
}

fn positive(value: i8) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

const fn full(count: u32) -> u64 {
    (1 << count) - 1
}

const fn has(bits: u64, at: u32) -> bool {
    at < u64::BITS && (bits >> at) & 1 == 1
}

/// The first bit that is set, at or after one.
fn next_set(bits: u64, from: u32) -> Option<u32> {
    let rest = bits.checked_shr(from)?;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

/// The first bit of `count` that is not set, at or after one.
fn next_unset(bits: u64, from: u32, count: u32) -> Option<u32> {
    next_set(!bits & full(count), from)
}
