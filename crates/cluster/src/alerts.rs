//! Alerts of all engines, exchanged together with their counts, so that any engine answers for all, up to ten
//! seconds late. Nothing depends on them, and there are never more than a few lines.

use crate::{
    counts::{ReportedCounts, STEP_MS, step_of},
    views::known,
    watcher::{Watcher, WatcherCore},
};
use punctual_contract::{Error, cluster::Sample};
use punctual_domain::time::Millis;
use punctual_engine::Alert;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// The maximum number of alerts of one engine, the gravest first.
const REPORTED_MAX: usize = 20;
const TEXT_MAX_CHARS: usize = 300;
/// An engine without a sample for this long has no alerts here.
const GOOD_FOR_MS: i64 = 30_000;
/// The age of an answer for callers that accept an older one.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// An alert as its engine reported it; fields may be missing from another release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedAlert {
    pub name: String,
    pub is_critical: bool,
    pub since_ms: i64,
    /// The namespace and name of the queue.
    pub queue: Option<(String, String)>,
    pub text: String,
    pub what_to_do: String,
    pub count: u64,
}

impl ReportedAlert {
    fn of(one: &Alert) -> Self {
        Self {
            name: one.kind.name().to_owned(),
            is_critical: one.kind.is_critical(),
            since_ms: one.since.0,
            queue: one
                .queue
                .as_ref()
                .map(|one| (one.namespace.as_str().to_owned(), one.queue.as_str().to_owned())),
            text: one.text.chars().take(TEXT_MAX_CHARS).collect(),
            what_to_do: one.kind.what_to_do().to_owned(),
            count: one.count,
        }
    }
}

/// The alerts by engine, in its order.
pub type Elsewhere = Vec<(String, ReportedAlert)>;

#[derive(Debug, Default)]
pub(crate) struct ElsewhereCache(tokio::sync::Mutex<Option<(Instant, Elsewhere)>>);

/// The valid part of the samples: the newest of each live engine.
fn reported(samples: &[Sample], now: Millis, lives: impl Fn(&str) -> bool) -> Elsewhere {
    let mut newest: BTreeMap<&str, ReportedCounts> = BTreeMap::new();
    for one in samples {
        let Some(reported) = ReportedCounts::read(one) else { continue };
        let is_newer = newest.get(&*one.engine).is_none_or(|known| known.until_ms <= reported.until_ms);
        if is_newer && lives(&one.engine) {
            newest.insert(&one.engine, reported);
        }
    }
    newest.retain(|_, one| now.since(Millis(one.until_ms)).abs() < GOOD_FOR_MS);
    let each = |(engine, reported): (&str, ReportedCounts)| {
        let engine = engine.to_owned();
        reported.alerts.into_iter().map(move |one| (engine.clone(), one))
    };
    newest.into_iter().flat_map(each).collect()
}

impl WatcherCore {
    /// The alerts of this engine, as of its last check.
    pub(crate) async fn own_alerts(&self) -> Vec<ReportedAlert> {
        if !self.engine.is_shared() {
            return Vec::new();
        }
        let mut alerts = self.engine.alerts_within(Duration::MAX).await.unwrap_or_default();
        alerts.sort_by_key(|one| !one.kind.is_critical());
        alerts.iter().take(REPORTED_MAX).map(ReportedAlert::of).collect()
    }
}

impl Watcher {
    /// The last reported alerts of the other live engines.
    ///
    /// # Errors
    /// A failing store.
    pub async fn alerts_elsewhere(&self, max_age: Duration) -> Result<Elsewhere, Error> {
        let inner = &self.inner;
        if !inner.engine.is_shared() {
            return Ok(Vec::new());
        }
        let mut kept = inner.elsewhere.0.lock().await;
        if let Some((at, reported)) = kept.as_ref()
            && at.elapsed() < KEPT_FOR.min(max_age)
        {
            return Ok(reported.clone());
        }
        let (now, engines, me) = (inner.engine.now(), known(inner), inner.engine.name());
        let samples = inner.store.samples(step_of(now).plus(-STEP_MS)).await?;
        let lives = |one: &str| one != me && engines.get(one).is_some_and(|one| one.silent_ms == 0);
        let reported = reported(&samples, now, lives);
        *kept = Some((Instant::now(), reported.clone()));
        Ok(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(step_ms: i64, engine: &str, until_ms: i64, texts: &[&str]) -> Sample {
        let alert = |one: &&str| ReportedAlert { text: (*one).to_owned(), ..ReportedAlert::default() };
        let reported = ReportedCounts {
            until_ms,
            alerts: texts.iter().map(alert).collect(),
            ..ReportedCounts::default()
        };
        let body = serde_json::to_string(&reported).unwrap();
        Sample { step_at: Millis(step_ms), engine: engine.to_owned(), body }
    }

    #[test]
    fn what_each_engine_that_lives_told_last_is_told() {
        let samples = [
            sample(0, "a", 60_000, &["is over"]),
            sample(60_000, "a", 70_000, &["one", "two"]),
            sample(60_000, "dead", 70_000, &["of the dead"]),
            sample(60_000, "silent", 41_000, &["long ago"]),
            Sample { step_at: Millis(0), engine: "b".to_owned(), body: "{}".to_owned() },
        ];
        let reported = reported(&samples, Millis(75_000), |one| one != "dead");
        let texts: Vec<_> = reported.iter().map(|one| (one.0.as_str(), one.1.text.as_str())).collect();
        assert_eq!(texts, [("a", "one"), ("a", "two")]);
    }
}
