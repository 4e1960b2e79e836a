//! The instants of a schedule, one after the other: of all its expressions, its interval and its list together, without
//! what is excluded, between its start and its end. Each search is bounded.

use super::{Invalid, Schedule, cron::Expression, exclusion::Exclusion};
use crate::time::Millis;
use jiff::tz::TimeZone;

/// Excluded instants that one search passes by before it gives up.
const EXCLUDED_MAX: usize = 100_000;
/// Nothing is planned before it: the beginning of 1970.
const FIRST: Millis = Millis(-1);

/// A schedule's instants, ready to be asked for.
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
}

impl Timing {
    /// # Errors
    /// The first field that cannot be read.
    pub fn of(schedule: &Schedule) -> Result<Self, Invalid> {
        let expressions = schedule.cron.iter().enumerate();
        let expressions = expressions.map(|(nth, it)| Expression::parse(it, &format!("cron/{nth}")));
        let exclusions = schedule.exclude.iter().enumerate();
        let exclusions = exclusions.map(|(nth, it)| Exclusion::parse(it, &format!("exclude/{nth}")));
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

    /// The first instant after one; None: there is none any more.
    #[must_use]
    pub fn next_after(&self, after: Millis) -> Option<Millis> {
        let mut after = self.start_at.map_or(after, |it| after.max(Millis(it.0 - 1))).max(FIRST);
        for _ in 0..EXCLUDED_MAX {
            let next = self.candidate(after).filter(|it| *it <= self.end_at)?;
            match self.excluded_until(next) {
                None => return Some(next),
                Some(until) => after = until.max(next),
            }
        }
        None
    }

    /// At most `count` of them, in order.
    #[must_use]
    pub fn occurrences(&self, after: Millis, count: usize) -> Vec<Millis> {
        let first = self.next_after(after);
        std::iter::successors(first, |it| self.next_after(*it)).take(count).collect()
    }

    /// The last instant in a range (its begin exclusive, its end inclusive), and whether it is the only one.
    #[must_use]
    pub fn last_within(&self, after: Millis, until: Millis) -> Option<(Millis, bool)> {
        let first = self.next_after(after).filter(|it| *it <= until)?;
        // Backwards in growing steps: what is walked through then is short compared with what was found empty.
        let mut window_ms = 1_000_i64;
        loop {
            let from = Millis(until.0.saturating_sub(window_ms)).max(after);
            let mut last = None;
            let mut next = self.next_after(from);
            while let Some(at) = next.filter(|it| *it <= until) {
                last = Some(at);
                next = self.next_after(at);
            }
            match last {
                Some(last) => return Some((last, last == first)),
                None if from <= after => return None,
                None => window_ms = window_ms.saturating_mul(8),
            }
        }
    }

    fn candidate(&self, after: Millis) -> Option<Millis> {
        let of_expressions = self.expressions.iter().filter_map(|it| it.next_after(after, &self.zone));
        let of_interval = self.interval.and_then(|it| it.next_after(after));
        let of_list = self.list.iter().copied().find(|it| *it > after);
        of_expressions.chain(of_interval).chain(of_list).min()
    }

    fn excluded_until(&self, at: Millis) -> Option<Millis> {
        self.exclusions.iter().filter_map(|it| it.ends(at, &self.zone)).max()
    }
}

fn zone(name: &str) -> Result<TimeZone, Invalid> {
    TimeZone::get(name).map_err(|_| {
        let ways = "take a name of the IANA database, such as Europe/Berlin, or UTC";
        Invalid::new("time_zone", format!("{name:?} is no time zone: {ways}"))
    })
}
