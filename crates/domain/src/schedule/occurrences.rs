//! The instants of a schedule in order: of all its expressions, its interval and its list together, without
//! exclusions, between its start and its end. Each search has a budget of steps; an excluded range is skipped
//! in one step, up to its end.

use super::{
    Invalid, Schedule,
    budget::{Budget, LookAgain, Spent},
    cron::Expression,
    exclusion::Exclusion,
    fields::Times,
};
use crate::time::Millis;
use jiff::tz::{Offset, TimeZone};

/// The earliest instant of a plan: the beginning of 1970.
const FIRST: Millis = Millis(-1);

/// A schedule's instants, ready for searches.
#[derive(Clone, Debug)]
pub struct Timing {
    expressions: Vec<Expression>,
    interval: Option<Interval>,
    /// Sorted.
    list: Vec<Millis>,
    exclusions: Vec<Exclusion>,
    zone: TimeZone,
    start_at: Option<Millis>,
    end_at: Millis,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    every_ms: i64,
    phase: Millis,
}

impl Interval {
    fn next_after(self, after: Millis) -> Option<Millis> {
        let periods = after.since(self.phase).div_euclid(self.every_ms).checked_add(1)?;
        let next = self.phase.0.checked_add(periods.checked_mul(self.every_ms)?)?;
        Some(Millis(next))
    }

    /// The times of day that it can have by a clock of this offset: all of a unit, unless the interval is a
    /// multiple of it.
    fn times(self, offset: Offset) -> Times {
        let local_ms = self.phase.0.saturating_add(i64::from(offset.seconds()).saturating_mul(1_000));
        let bits = |unit_ms: i64, count: i64, all: u64| {
            if self.every_ms % unit_ms != 0 {
                return all;
            }
            let (first, step) = (local_ms.div_euclid(unit_ms), self.every_ms / unit_ms);
            let nth = |nth: i64| (first.rem_euclid(count) + nth * step.rem_euclid(count)) % count;
            (0..count).fold(0, |bits, at| bits | 1 << nth(at))
        };
        let Times { seconds, minutes, hours } = Times::ALL;
        Times {
            seconds: bits(1_000, 60, seconds),
            minutes: bits(60_000, 60, minutes),
            hours: bits(3_600_000, 24, hours),
        }
    }
}

impl Timing {
    /// # Errors
    /// The first field that cannot be read.
    pub fn of(schedule: &Schedule) -> Result<Self, Invalid> {
        let expressions = schedule.cron.iter().enumerate();
        let expressions =
            expressions.map(|(nth, expression)| Expression::parse(expression, &format!("cron/{nth}")));
        let exclusions = schedule.exclude.iter().enumerate();
        let exclusions =
            exclusions.map(|(nth, exclusion)| Exclusion::parse(exclusion, &format!("exclude/{nth}")));
        let mut list = schedule.at.clone();
        list.sort_unstable();
        let phase = schedule.phase_ms.map(Millis).or(schedule.start_at).unwrap_or(Millis::ZERO);
        Ok(Self {
            expressions: expressions.collect::<Result<_, _>>()?,
            interval: schedule.every_ms.map(|every_ms| Interval { every_ms: every_ms.max(1), phase }),
            list,
            exclusions: exclusions.collect::<Result<_, _>>()?,
            zone: zone(&schedule.time_zone)?,
            start_at: schedule.start_at,
            end_at: schedule.end_at.unwrap_or(Millis::MAX),
        })
    }

    /// The first instant after one, or `None` if there are no more.
    ///
    /// # Errors
    /// The budget is exhausted: there is no instant up to the one that the error names.
    pub fn next_after(&self, after: Millis, budget: &mut Budget) -> Result<Option<Millis>, LookAgain> {
        let mut after = self.start_at.map_or(after, |start_at| after.max(Millis(start_at.0 - 1))).max(FIRST);
        loop {
            let (next, until) = self.try_next(after, budget).map_err(|Spent| LookAgain { from: after })?;
            match (next, until) {
                (None, _) => return Ok(None),
                (Some(next), None) => return Ok(Some(next)),
                (Some(next), Some(until)) => after = until.max(next),
            }
        }
    }

    /// True if `at` is an instant of this timing.
    ///
    /// # Errors
    /// Fails like [`Timing::next_after`].
    pub fn has(&self, at: Millis, budget: &mut Budget) -> Result<bool, LookAgain> {
        Ok(self.next_after(Millis(at.0 - 1), budget)? == Some(at))
    }

    /// Returns at most `count` instants, in order. It returns fewer if the budget is exhausted.
    #[must_use]
    pub fn occurrences(&self, after: Millis, count: usize, budget: &mut Budget) -> Vec<Millis> {
        let mut next = |from: Millis| self.next_after(from, budget).ok().flatten();
        let first = next(after);
        std::iter::successors(first, |at| next(*at)).take(count).collect()
    }

    /// The last instant in a range (begin exclusive, end inclusive), and whether it is the only one.
    ///
    /// # Errors
    /// Fails like [`Timing::next_after`], if not even the first instant was found.
    pub fn last_within(
        &self,
        after: Millis,
        until: Millis,
        budget: &mut Budget,
    ) -> Result<Option<(Millis, bool)>, LookAgain> {
        if after >= until {
            return Ok(None);
        }
        let Some(first) = self.next_after(after, budget)?.filter(|at| *at <= until) else { return Ok(None) };
        // `last` is an instant, and there is none after `end`: the range between them is halved.
        let (mut last, mut end) = (first, until);
        while last < end {
            let middle = Millis(last.0 + (end.0 - last.0) / 2);
            match self.next_after(middle, budget) {
                Ok(Some(at)) if at <= end => last = at,
                Ok(_) => end = middle,
                // Later ones are searched next time.
                Err(_) => break,
            }
        }
        Ok(Some((last, last == first)))
    }

    /// The next instant of all sources, and up to where it is left out.
    fn try_next(
        &self,
        after: Millis,
        budget: &mut Budget,
    ) -> Result<(Option<Millis>, Option<Millis>), Spent> {
        budget.step()?;
        let Some(next) = self.candidate(after, budget)?.filter(|candidate| *candidate <= self.end_at) else {
            return Ok((None, None));
        };
        let mut until = None;
        for exclusion in &self.exclusions {
            until = until.max(exclusion.ends(next, &self.zone, |offset| self.times(offset), budget)?);
        }
        // An instant of the list may be at any time of day: it is handled separately.
        let listed = until.and_then(|_| self.listed_after(next)).map(|at| Millis(at.0 - 1));
        Ok((Some(next), until.map(|until| listed.map_or(until, |before| until.min(before)))))
    }

    /// The times of the day that its expressions and its interval can have while the clock has this offset.
    fn times(&self, offset: Offset) -> Times {
        let of_interval = self.interval.map(|interval| interval.times(offset));
        self.expressions.iter().map(Expression::times).chain(of_interval).fold(Times::NONE, Times::or)
    }

    fn listed_after(&self, after: Millis) -> Option<Millis> {
        self.list.iter().copied().find(|at| *at > after)
    }

    fn candidate(&self, after: Millis, budget: &mut Budget) -> Result<Option<Millis>, Spent> {
        let of_interval = self.interval.and_then(|interval| interval.next_after(after));
        let of_list = self.listed_after(after);
        let mut next = of_interval.into_iter().chain(of_list).min();
        for expression in &self.expressions {
            let of_expression = expression.next_after(after, &self.zone, budget)?;
            next = next.into_iter().chain(of_expression).min();
        }
        Ok(next)
    }
}

fn zone(name: &str) -> Result<TimeZone, Invalid> {
    TimeZone::get(name).map_err(|_| {
        let ways = "take a name of the IANA database, such as Europe/Berlin, or UTC";
        Invalid::new("time_zone", format!("{name:?} is no time zone: {ways}"))
    })
}
