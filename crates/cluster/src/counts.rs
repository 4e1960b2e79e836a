//! Task counts of engines, as differences that can be added: within a step, and over all engines. Pure.

use crate::{alerts::ReportedAlert, queues::QueueReport};
use punctual_contract::cluster::Sample;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_engine::{AttemptEnd, LATENESS_BOUNDS_MS, Meters, QueueNumbers};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

/// One step of the list: a minute.
pub(crate) const STEP_MS: i64 = 60_000;
/// Represents every lateness beyond the last bound.
pub const LATENESS_BEYOND_MS: i64 = match LATENESS_BOUNDS_MS.last() {
    Some(last) => *last + 1,
    None => 0,
};

/// Fields may be missing from another release: they count as 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineCounts {
    #[serde(skip_serializing_if = "is_zero")]
    pub inserted: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub fired: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub dispatched: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub retried: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub dead: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cancelled: u64,
    /// Fired before their time: 0, or the first promise is broken.
    #[serde(skip_serializing_if = "is_zero")]
    pub early: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub over_budget: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub lateness_sum_ms: u64,
    /// The counts by the bounds of the engine's meters, and the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lateness: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An engine's counts since its process began.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) all: EngineCounts,
    pub(crate) queues: HashMap<Arc<QueueKey>, EngineCounts>,
}

impl Totals {
    pub(crate) fn of(meters: &Meters) -> Self {
        let mut totals = Self::default();
        for queue in meters.queues() {
            let counts = EngineCounts::of_queue(&queue);
            totals.all.add(&counts);
            totals.queues.insert(queue.queue, counts);
        }
        // Of queues that are long idle it is all that is left.
        totals.all.succeeded = meters.succeeded_total();
        totals
    }
}

impl EngineCounts {
    /// An engine's counts of one queue.
    #[must_use]
    pub fn of_queue(numbers: &QueueNumbers) -> Self {
        Self {
            inserted: numbers.inserted,
            fired: numbers.fired,
            dispatched: numbers.dispatched,
            succeeded: numbers.outcomes.counts.get(AttemptEnd::Succeeded as usize).copied().unwrap_or(0),
            retried: numbers.retried,
            dead: numbers.dead,
            cancelled: numbers.cancelled,
            early: numbers.early,
            over_budget: numbers.over_budget,
            lateness_sum_ms: numbers.lateness_sum_ms,
            lateness: numbers.lateness.iter().map(|bucket| bucket.tasks).collect(),
        }
    }

    /// The number of counted events.
    pub(crate) fn changes(&self) -> u64 {
        let counts = [self.inserted, self.fired, self.dispatched, self.succeeded, self.retried, self.dead];
        counts.iter().fold(self.cancelled, |sum, count| sum.saturating_add(*count))
    }

    /// The same, written shorter.
    pub(crate) fn cut_short(mut self) -> Self {
        let length = self.lateness.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        self.lateness.truncate(length);
        self
    }

    pub fn add(&mut self, more: &Self) {
        self.each(more, u64::saturating_add);
    }

    pub(crate) fn minus(mut self, base: &Self) -> Self {
        self.each(base, u64::saturating_sub);
        self
    }

    fn each(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        let fields: [(&mut u64, u64); 10] = [
            (&mut self.inserted, other.inserted),
            (&mut self.fired, other.fired),
            (&mut self.dispatched, other.dispatched),
            (&mut self.succeeded, other.succeeded),
            (&mut self.retried, other.retried),
            (&mut self.dead, other.dead),
            (&mut self.cancelled, other.cancelled),
            (&mut self.early, other.early),
            (&mut self.over_budget, other.over_budget),
            (&mut self.lateness_sum_ms, other.lateness_sum_ms),
        ];
        for (value, by) in fields {
            *value = change(*value, by);
        }
        self.lateness.resize(self.lateness.len().max(other.lateness.len()), 0);
        for (value, by) in self.lateness.iter_mut().zip(&other.lateness) {
            *value = change(*value, *by);
        }
    }

    /// The bucket bound within which this share of tasks (in thousandths) fired; [`LATENESS_BEYOND_MS`]: beyond the
    /// last bound. `None` means no task fired.
    #[must_use]
    pub fn lateness_ms(&self, per_thousand: u64) -> Option<i64> {
        let all: u64 = self.lateness.iter().sum();
        let wanted = (all.saturating_mul(per_thousand)).div_ceil(1_000).max(1);
        let mut passed = 0;
        for (nth, tasks) in self.lateness.iter().enumerate() {
            passed += tasks;
            if passed >= wanted {
                return Some(LATENESS_BOUNDS_MS.get(nth).copied().unwrap_or(LATENESS_BEYOND_MS));
            }
        }
        None
    }
}

/// The content of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReportedCounts {
    pub(crate) version: String,
    /// The start of the engine.
    pub(crate) started_ms: i64,
    /// Everything up to here is in it.
    pub(crate) until_ms: i64,
    pub(crate) counts: EngineCounts,
    /// Alerts for an operator.
    pub(crate) alerts: Vec<ReportedAlert>,
}

impl ReportedCounts {
    /// Returns `None` if another release wrote an unknown form.
    pub(crate) fn read(sample: &Sample) -> Option<Self> {
        serde_json::from_str(&sample.body).ok()
    }
}

/// Splits an engine's counts into steps.
#[derive(Debug)]
pub(crate) struct Sampling {
    started_at: Millis,
    step_at: Millis,
    /// The totals when the step began.
    base: Totals,
    reported_at: Option<Millis>,
}

pub(crate) const fn step_of(now: Millis) -> Millis {
    Millis(now.0.div_euclid(STEP_MS) * STEP_MS)
}

impl Sampling {
    pub(crate) fn new(now: Millis) -> Self {
        Self { started_at: now, step_at: step_of(now), base: Totals::default(), reported_at: None }
    }

    /// The sample to store now: of the step that has ended, or, at an interval, of the running one.
    pub(crate) fn next(
        &mut self,
        now: Millis,
        every_ms: i64,
        totals: impl FnOnce() -> Totals,
    ) -> Option<(Millis, ReportedCounts, QueueReport)> {
        let is_over = step_of(now) != self.step_at;
        let is_due = self.reported_at.is_none_or(|reported_at| now.since(reported_at).abs() >= every_ms);
        if !is_over && !is_due {
            return None;
        }
        let totals = totals();
        let (step_at, counts) = (self.step_at, totals.all.clone().minus(&self.base.all));
        let until = if is_over { now.min(step_at.plus(STEP_MS)) } else { now };
        let since = |(queue, counts): (&Arc<QueueKey>, &EngineCounts)| {
            let counts = match self.base.queues.get(queue) {
                Some(base) => counts.clone().minus(base),
                None => counts.clone(),
            };
            (Arc::clone(queue), counts)
        };
        let of_queues = QueueReport::of((self.started_at.0, until.0), totals.queues.iter().map(since));
        if is_over {
            (self.step_at, self.base) = (step_of(now), totals);
        }
        self.reported_at = (!is_over).then_some(now);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (started_ms, until_ms) = (self.started_at.0, until.0);
        let reported = ReportedCounts { version, started_ms, until_ms, counts, alerts: Vec::new() };
        Some((step_at, reported, of_queues))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(fired: u64) -> EngineCounts {
        EngineCounts { fired, ..EngineCounts::default() }
    }

    #[test]
    fn what_is_counted_is_in_one_step_and_none_is_lost_between_two() {
        let mut sampling = Sampling::new(Millis(60_000));
        let mut next = |now: i64, total: u64| {
            sampling
                .next(Millis(now), 10_000, || Totals { all: fired(total), ..Totals::default() })
                .map(|row| (row.0.0, row.1.until_ms, row.1.counts.fired))
        };
        assert_eq!(next(60_000, 1), Some((60_000, 60_000, 1)));
        assert_eq!(next(69_999, 2), None);
        assert_eq!(next(70_000, 5), Some((60_000, 70_000, 5)));
        assert_eq!(next(121_000, 9), Some((60_000, 120_000, 9)), "the step that is over, whole");
        assert_eq!(next(122_000, 10), Some((120_000, 122_000, 1)));
        assert_eq!(next(500_000, 12), Some((120_000, 180_000, 3)), "after a standstill");
        assert_eq!(next(500_001, 20), Some((480_000, 500_001, 8)));
    }

    #[test]
    fn a_lateness_is_the_bound_of_the_bucket_that_has_it() {
        let mut counts = EngineCounts::default();
        assert_eq!(counts.lateness_ms(990), None);
        counts.lateness = vec![0; LATENESS_BOUNDS_MS.len() + 1];
        counts.lateness[1] = 990;
        counts.lateness[4] = 9;
        counts.lateness[LATENESS_BOUNDS_MS.len()] = 1;
        let at = |number| counts.lateness_ms(number);
        assert_eq!(
            [at(500), at(990), at(991), at(999), at(1_000)].map(Option::unwrap),
            [1, 1, 10, 10, 300_001]
        );
    }

    #[test]
    fn what_other_releases_tell_is_added_as_far_as_it_is_known() {
        let reported: ReportedCounts =
            serde_json::from_str(r#"{"until_ms":5,"counts":{"fired":2,"new":7}}"#).unwrap();
        let mut counts = fired(1);
        counts.lateness = vec![1, 1];
        counts.add(&reported.counts);
        counts.add(&EngineCounts { lateness: vec![0, 0, 3], ..EngineCounts::default() });
        assert_eq!((counts.fired, counts.lateness), (3, vec![1, 1, 3]));
    }
}
