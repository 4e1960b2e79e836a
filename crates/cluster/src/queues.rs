//! Counts per queue, stored beside the totals, and only for the busiest queues of a step, so that they stay
//! small with any number of queues. Frequent requests cause one read a second.

use crate::{
    counts::EngineCounts,
    hour::{Hour, HourView, Rates, reported_for_ms, since},
    watcher::{Watcher, WatcherCore},
};
use punctual_contract::{
    Error,
    cluster::{Sample, in_sample},
};
use punctual_domain::{name::QueueKey, time::Millis};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// Queues that an engine reports in one step.
const REPORTED_MAX: usize = 500;
/// Samples change every ten seconds. A failed read is cached as well, so that callers do not queue for a
/// silent database.
const CACHED_MS: i64 = 1_000;
/// A view of queues waits no longer for their rates.
const WITHIN: Duration = Duration::from_secs(1);

/// The content of a queue sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueReport {
    pub(crate) started_ms: i64,
    /// Everything up to here is in it.
    pub(crate) until_ms: i64,
    /// More queues were active than are reported.
    pub(crate) is_cut: bool,
    pub(crate) queues: BTreeMap<String, EngineCounts>,
}

impl QueueReport {
    /// `counted`: of each queue, since the step began.
    pub(crate) fn of(
        (started_ms, until_ms): (i64, i64),
        counted: impl Iterator<Item = (Arc<QueueKey>, EngineCounts)>,
    ) -> Self {
        let mut busy: Vec<(Arc<QueueKey>, EngineCounts)> =
            counted.filter(|busy| busy.1.changes() > 0).collect();
        busy.sort_by(|a, b| (Reverse(a.1.changes()), &a.0).cmp(&(Reverse(b.1.changes()), &b.0)));
        let is_cut = busy.len() > REPORTED_MAX;
        busy.truncate(REPORTED_MAX);
        let queues =
            busy.into_iter().map(|(queue, counts)| (in_sample(&queue), counts.cut_short())).collect();
        Self { started_ms, until_ms, is_cut, queues }
    }
}

/// The rates of each queue over the last minute or two, of all engines together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueRates {
    by_queue: HashMap<String, Rates>,
    is_cut: bool,
}

#[derive(Debug, Default)]
pub(crate) struct QueueRatesCache(tokio::sync::Mutex<Option<(Millis, Option<Arc<QueueRates>>)>>);

impl QueueRates {
    /// Returns `None` if the queue was not reported, because others were busier.
    #[must_use]
    pub fn of(&self, queue: &QueueKey) -> Option<Rates> {
        let reported = self.by_queue.get(&in_sample(queue)).copied();
        reported.or_else(|| (!self.is_cut).then(Rates::default))
    }

    fn add_up(now: Millis, samples: Vec<Sample>) -> Self {
        let mut engines: HashMap<String, QueueReport> = HashMap::new();
        for Sample { engine, body, .. } in samples {
            let Ok(reported) = serde_json::from_str::<QueueReport>(&body) else { continue };
            let all = engines.entry(engine).or_default();
            all.started_ms = reported.started_ms;
            all.until_ms = all.until_ms.max(reported.until_ms);
            all.is_cut |= reported.is_cut;
            for (queue, counts) in reported.queues {
                all.queues.entry(queue).or_default().add(&counts);
            }
        }
        let mut rates = Self::default();
        for engine in engines.into_values() {
            let Some(over_ms) = reported_for_ms(now, Millis(engine.started_ms), Millis(engine.until_ms))
            else {
                continue;
            };
            rates.is_cut |= engine.is_cut;
            for (queue, counts) in engine.queues {
                rates.by_queue.entry(queue).or_default().add(&Rates::of(&counts, over_ms));
            }
        }
        rates
    }
}

impl Watcher {
    /// The rates as of a second ago. `None` if the samples cannot be read.
    pub async fn queue_rates(&self) -> Option<Arc<QueueRates>> {
        let inner = &self.inner;
        let mut cached = inner.queue_rates.0.lock().await;
        let now = inner.engine.now();
        if let Some((at, rates)) = &*cached
            && now.since(*at).abs() < CACHED_MS
        {
            return rates.clone();
        }
        let rates = match timeout(WITHIN, inner.store.queue_samples(since(now), None)).await {
            Ok(Ok(samples)) => Some(Arc::new(QueueRates::add_up(now, samples))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the rates of queues cannot be read");
                None
            }
            Err(_) => None,
        };
        *cached = Some((inner.engine.now(), rates.clone()));
        rates
    }

    /// The last hour of one queue, as far as it was sampled.
    ///
    /// # Errors
    /// When the samples cannot be read.
    pub async fn queue_hour(&self, queue: &QueueKey) -> Result<HourView, Error> {
        let now = self.inner.engine.now();
        Ok(Hour::read_queue(&self.inner, now, queue).await?.view(now))
    }
}

impl WatcherCore {
    pub(crate) async fn keep_queues(&self, step_at: Millis, reported: &QueueReport) -> Result<(), Error> {
        let body =
            serde_json::to_string(reported).map_err(|error| Error::did_not_happen("keep a sample", error))?;
        self.store.save_queue_sample(Sample { step_at, engine: self.engine.name().to_owned(), body }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    fn queue(name: &str) -> Arc<QueueKey> {
        Arc::new(QueueKey { namespace: Name::new("n").unwrap(), queue: Name::new(name).unwrap() })
    }

    fn counts(fired: u64) -> EngineCounts {
        EngineCounts { fired, lateness: vec![0, fired, 0, 0], ..EngineCounts::default() }
    }

    fn sample(engine: &str, step_at: i64, reported: &QueueReport) -> Sample {
        let body = serde_json::to_string(reported).unwrap();
        Sample { step_at: Millis(step_at), engine: engine.to_owned(), body }
    }

    #[test]
    fn of_very_many_queues_the_busiest_are_told_and_the_others_are_not_said_to_be_idle() {
        let many = (1..=600).map(|number| (queue(&format!("q{number}")), counts(number)));
        let reported = QueueReport::of((0, 60_000), many.chain([(queue("idle"), counts(0))]));
        assert_eq!((reported.is_cut, reported.queues.len()), (true, 500));
        assert!(reported.queues.contains_key("n/q101") && !reported.queues.contains_key("n/q100"));
        let body = serde_json::to_string(&reported).unwrap();
        assert!(body.len() < 500 * 60, "what is 0 is left out: {} bytes", body.len());
        let rates = QueueRates::add_up(Millis(60_000), vec![sample("a", 0, &reported)]);
        assert_eq!(rates.of(&queue("q600")).unwrap().fired, 10.0);
        assert_eq!(rates.of(&queue("q1")), None);
    }

    #[test]
    fn rates_are_of_all_engines_that_still_tell_and_of_their_last_two_steps() {
        let reported =
            |until_ms, fired| QueueReport::of((0, until_ms), [(queue("q"), counts(fired))].into_iter());
        let all = vec![
            sample("a", 60_000, &reported(120_000, 600)),
            sample("b", 60_000, &reported(120_000, 60)),
            sample("a", 120_000, &reported(140_000, 200)),
            sample("c", 60_000, &reported(79_000, 9_000)),
            Sample { body: "of another release".to_owned(), ..sample("d", 120_000, &reported(1, 1)) },
        ];
        let rates = QueueRates::add_up(Millis(140_000), all);
        assert_eq!(rates.of(&queue("q")).unwrap().fired, 11.0, "800 in 80 s, 60 in 60 s; c is silent");
        assert_eq!(rates.of(&queue("other")), Some(Rates::default()));
    }
}
