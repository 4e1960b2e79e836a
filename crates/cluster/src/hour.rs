//! The last hour in steps of a minute, summed from the engines' samples: of all queues, or of one. Pure
//! except for reading.

use crate::{
    counts::{EngineCounts, ReportedCounts, STEP_MS, step_of},
    watcher::WatcherCore,
};
use punctual_contract::{Error, cluster::Sample};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{collections::BTreeMap, time::Duration};

/// Steps of the list: the last hour.
const STEPS: i64 = 60;
/// An engine without a sample for this long has no rates.
const SILENT_MS: i64 = 60_000;

/// Per second, over the last minute or two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub inserted: f64,
    pub fired: f64,
    pub dispatched: f64,
    pub succeeded: f64,
    pub retried: f64,
    pub dead: f64,
    pub cancelled: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsSample {
    pub at: Millis,
    pub counts: EngineCounts,
}

/// The counts of the last hour.
#[derive(Clone, Debug, PartialEq)]
pub struct HourView {
    pub at: Millis,
    pub rates: Rates,
    /// The counts of the complete hour.
    pub total: EngineCounts,
    /// The counts of the last complete step and the present one.
    pub lately: EngineCounts,
    pub step_ms: i64,
    /// The oldest first, without gaps; the last is not over.
    pub steps: Vec<CountsSample>,
}

impl Rates {
    pub(crate) fn of(counts: &EngineCounts, over_ms: i64) -> Self {
        let seconds = Duration::from_millis(u64::try_from(over_ms.max(1_000)).unwrap_or(1_000)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
        let per_second = |count: u64| count as f64 / seconds;
        Self {
            inserted: per_second(counts.inserted),
            fired: per_second(counts.fired),
            dispatched: per_second(counts.dispatched),
            succeeded: per_second(counts.succeeded),
            retried: per_second(counts.retried),
            dead: per_second(counts.dead),
            cancelled: per_second(counts.cancelled),
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.inserted += more.inserted;
        self.fired += more.fired;
        self.dispatched += more.dispatched;
        self.succeeded += more.succeeded;
        self.retried += more.retried;
        self.dead += more.dead;
        self.cancelled += more.cancelled;
    }
}

/// One engine's samples of its last two steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lately {
    pub(crate) version: String,
    pub(crate) started_at: Millis,
    until: Millis,
    counts: EngineCounts,
}

/// The engines' samples of the last hour.
#[derive(Debug, Default)]
pub(crate) struct Hour {
    steps: BTreeMap<Millis, EngineCounts>,
    pub(crate) lately: BTreeMap<String, Lately>,
}

impl Hour {
    pub(crate) async fn read(inner: &WatcherCore, now: Millis) -> Result<Self, Error> {
        Ok(Self::of(now, inner.store.samples(first(now)).await?))
    }

    /// The last hour of one queue, as far as it was sampled.
    pub(crate) async fn read_queue(
        inner: &WatcherCore,
        now: Millis,
        queue: &QueueKey,
    ) -> Result<Self, Error> {
        Ok(Self::of(now, inner.store.queue_samples(first(now), Some(queue)).await?))
    }

    fn of(now: Millis, samples: Vec<Sample>) -> Self {
        let mut hour = Self::default();
        for sample in samples {
            if let Some(reported) = ReportedCounts::read(&sample) {
                hour.add(now, sample.step_at, sample.engine, &reported);
            }
        }
        hour
    }

    pub(crate) fn view(&self, now: Millis) -> HourView {
        let (mut rates, mut total, mut lately) =
            (Rates::default(), EngineCounts::default(), EngineCounts::default());
        self.lately.keys().filter_map(|key| self.rates(key, now)).for_each(|rate| rates.add(&rate));
        self.steps.values().for_each(|step| total.add(step));
        self.steps.range(since(now)..).for_each(|step| lately.add(step.1));
        let step = |nth: i64| {
            let at = step_of(now).plus(-STEP_MS * nth);
            CountsSample { at, counts: self.steps.get(&at).cloned().unwrap_or_default() }
        };
        let steps = (0..STEPS).rev().map(step).collect();
        HourView { at: now, rates, total, lately, step_ms: STEP_MS, steps }
    }

    fn add(&mut self, now: Millis, step_at: Millis, engine: String, reported: &ReportedCounts) {
        self.steps.entry(step_at).or_default().add(&reported.counts);
        let lately = self.lately.entry(engine).or_default();
        lately.version.clone_from(&reported.version);
        lately.started_at = Millis(reported.started_ms);
        lately.until = lately.until.max(Millis(reported.until_ms));
        if step_at >= since(now) {
            lately.counts.add(&reported.counts);
        }
    }

    pub(crate) fn rates(&self, engine: &str, now: Millis) -> Option<Rates> {
        let lately = self.lately.get(engine)?;
        Some(Rates::of(&lately.counts, reported_for_ms(now, lately.started_at, lately.until)?))
    }
}

/// The time that an engine's last two steps cover. `None` if it has sent no sample for a while.
pub(crate) fn reported_for_ms(now: Millis, started_at: Millis, until: Millis) -> Option<i64> {
    (now.since(until) < SILENT_MS).then(|| until.since(since(now).max(started_at)))
}

/// The beginning of the first step of the hour.
fn first(now: Millis) -> Millis {
    step_of(now).plus(-STEP_MS * (STEPS - 1))
}

/// The beginning of the step before the present one.
pub(crate) fn since(now: Millis) -> Millis {
    step_of(now).plus(-STEP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(until_ms: i64, fired: u64) -> ReportedCounts {
        ReportedCounts {
            until_ms,
            counts: EngineCounts { fired, ..EngineCounts::default() },
            ..ReportedCounts::default()
        }
    }

    #[test]
    fn rates_are_of_the_last_two_steps_as_far_as_they_were_told() {
        let (now, mut hour) = (Millis(190_000), Hour::default());
        hour.add(now, Millis(60_000), "a".to_owned(), &reported(120_000, 9_000));
        hour.add(now, Millis(120_000), "a".to_owned(), &reported(180_000, 600));
        hour.add(now, Millis(180_000), "a".to_owned(), &reported(185_000, 50));
        assert_eq!(hour.rates("a", now).unwrap().fired, 10.0, "650 in 65 s");
        assert_eq!(hour.rates("a", Millis(245_000)), None, "it has fallen silent");
        assert_eq!(hour.rates("b", now), None);
        assert_eq!(hour.steps[&Millis(60_000)].fired, 9_000);
    }
}
