//! Outcomes counted by queue and by duration of their attempts. The engine that accepts an outcome counts it, whichever engine
//! dispatched the task. No decision depends on these counts.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, exemplar::HistogramWithExemplars},
};
use punctual_contract::store::EndedAttempt;
use punctual_domain::{outcome::Report, time::Millis};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

/// Upper bounds of the histogram of processing times, in seconds; above the last: the rest.
const PROCESSING_BOUNDS_S: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 3_600.0];

/// The end of an attempt, by its accepted outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    Succeeded,
    Failed,
    Snoozed,
    Rejected,
}

impl AttemptEnd {
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Snoozed, Self::Rejected];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Snoozed => "snoozed",
            Self::Rejected => "rejected",
        }
    }

    pub(crate) const fn of(report: Report) -> Self {
        match report {
            Report::Succeeded => Self::Succeeded,
            Report::Snooze { .. } => Self::Snoozed,
            Report::Reject => Self::Rejected,
            Report::Failed { .. } | Report::LeaseExpired | Report::TimedOut | Report::PayloadLost => {
                Self::Failed
            }
        }
    }
}

/// `00-<trace id>-<parent>-<flags>`, with the lowest flag.
fn sampled_trace(traceparent: &str) -> Option<Trace> {
    let mut fields = traceparent.split('-');
    let (trace_id, _, flags) = (fields.nth(1)?, fields.next()?, fields.next()?);
    let is_sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
    (is_sampled && trace_id.len() == 32).then(|| Trace { trace_id: trace_id.to_owned() })
}

/// The example that a bucket shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Trace {
    trace_id: String,
}

/// The durations of attempts in seconds, with the last sampled trace of each bucket. A clone is the same
/// histogram.
#[derive(Clone, Debug)]
pub struct Processing(HistogramWithExemplars<Trace>);

impl Default for Processing {
    fn default() -> Self {
        Self(HistogramWithExemplars::new(PROCESSING_BOUNDS_S.into_iter()))
    }
}

impl EncodeMetric for Processing {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

impl Processing {
    fn took(&self, took_ms: i64, trace: Option<Trace>, at: Millis) {
        let took = Duration::from_millis(took_ms.max(0).unsigned_abs());
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.max(0).unsigned_abs());
        self.0.observe(took.as_secs_f64(), trace, Some(at));
    }
}

/// Outcomes of one queue since the process began.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// The counts, in the order of [`AttemptEnd::ALL`].
    pub counts: [u64; AttemptEnd::ALL.len()],
    pub processing: Processing,
    /// `processing` is shared by all queues that were added too late for a histogram of their own.
    pub shares_histogram: bool,
}

#[derive(Debug, Default)]
pub(crate) struct OutcomeMeters {
    counts: [AtomicU64; AttemptEnd::ALL.len()],
    processing: Processing,
    shares_histogram: bool,
}

impl OutcomeMeters {
    /// `with`: the shared histogram, or `None` if this queue gets its own.
    pub(crate) fn new(with: Option<&Processing>) -> Self {
        Self {
            counts: Default::default(),
            processing: with.cloned().unwrap_or_default(),
            shares_histogram: with.is_some(),
        }
    }

    /// Counts an attempt by its duration.
    pub(crate) fn count(&self, report: Report, attempt: &EndedAttempt, now: Millis) {
        self.ended(AttemptEnd::of(report));
        let trace = attempt.traceparent.as_deref().and_then(sampled_trace);
        self.processing.took(now.since(attempt.leased_since), trace, now);
    }

    fn ended(&self, ended: AttemptEnd) {
        if let Some(count) = self.counts.get(ended as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn numbers(&self) -> Outcomes {
        Outcomes {
            counts: self.counts.each_ref().map(|counter| counter.load(Relaxed)),
            processing: self.processing.clone(),
            shares_histogram: self.shares_histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    #[test]
    fn a_trace_is_named_where_its_caller_samples_it() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let trace = sampled_trace(&format!("00-{id}-b7ad6b7169203331-01"));
        assert_eq!(trace.map(|trace| trace.trace_id).as_deref(), Some(id));
        for text in [format!("00-{id}-b7ad6b7169203331-00"), format!("00-{id}"), "00-a-b-01".to_owned()] {
            assert_eq!(sampled_trace(&text), None, "{text}");
        }
    }

    #[test]
    fn the_buckets_have_what_took_at_most_their_bound_and_keep_the_last_trace() {
        let processing = Processing::default();
        let named = |trace_id: &str| Some(Trace { trace_id: trace_id.to_owned() });
        let took = [(-3, None), (5, named("a")), (6, named("b")), (10, None), (3_600_001, None)];
        for (took_ms, trace) in took {
            processing.took(took_ms, trace, Millis(7_000));
        }
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register("p", "", processing);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "p_sum 3600.022",
            "p_count 5",
            "p_bucket{le=\"0.005\"} 2 # {trace_id=\"a\"} 0.005 7.0",
            "p_bucket{le=\"0.01\"} 4 # {trace_id=\"b\"} 0.006 7.0",
            "p_bucket{le=\"0.025\"} 4",
            "p_bucket{le=\"3600.0\"} 4",
            "p_bucket{le=\"+Inf\"} 5",
        ] {
            // The sum is one of floats.
            assert!(text.lines().any(|candidate| candidate.starts_with(line)), "{line}: {text}");
        }
    }
}
