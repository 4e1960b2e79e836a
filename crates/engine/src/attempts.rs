//! Outcomes counted by queue and by how long their attempts took, as the move that settled one has found them: whichever engine
//! handed over, the one that accepts the outcome counts. Nothing rests on it.

use parking_lot::Mutex;
use punctual_contract::store::EndedAttempt;
use punctual_domain::{outcome::Report, time::Millis};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of the histogram of processing times, in milliseconds; above the last: the rest.
pub const PROCESSING_BOUNDS_MS: [i64; 14] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 30_000, 120_000, 600_000, 3_600_000];
/// What an accepted outcome said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Succeeded,
    Failed,
    Snoozed,
    Rejected,
}

impl Ended {
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
fn sampled_trace(traceparent: &str) -> Option<Box<str>> {
    let mut fields = traceparent.split('-');
    let (trace_id, _, flags) = (fields.nth(1)?, fields.next()?, fields.next()?);
    let is_sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
    (is_sampled && trace_id.len() == 32).then(|| trace_id.into())
}

/// The last attempt of a bucket whose trace is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub trace_id: Box<str>,
    pub took_ms: i64,
    pub at: Millis,
}

/// Outcomes of one queue since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// In the order of [`Ended::ALL`].
    pub counts: [u64; Ended::ALL.len()],
    /// Attempts that took at most a bound and more than the one before, the last without bound.
    pub processing: [u64; PROCESSING_BOUNDS_MS.len() + 1],
    pub processing_sum_ms: u64,
    pub exemplars: [Option<Exemplar>; PROCESSING_BOUNDS_MS.len() + 1],
}

#[derive(Debug, Default)]
pub(crate) struct OutcomeMeters {
    counts: [AtomicU64; Ended::ALL.len()],
    processing: [AtomicU64; PROCESSING_BOUNDS_MS.len() + 1],
    processing_sum_ms: AtomicU64,
    exemplars: Mutex<[Option<Exemplar>; PROCESSING_BOUNDS_MS.len() + 1]>,
}

impl OutcomeMeters {
    pub(crate) fn ended(&self, ended: Ended) {
        if let Some(count) = self.counts.get(ended as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn took(&self, took_ms: i64, trace_id: Option<Box<str>>, at: Millis) {
        let took_ms = took_ms.max(0);
        let nth = PROCESSING_BOUNDS_MS.partition_point(|bound| *bound < took_ms);
        if let Some(count) = self.processing.get(nth) {
            count.fetch_add(1, Relaxed);
        }
        self.processing_sum_ms.fetch_add(took_ms.unsigned_abs(), Relaxed);
        if let Some(trace_id) = trace_id
            && let Some(exemplar) = self.exemplars.lock().get_mut(nth)
        {
            *exemplar = Some(Exemplar { trace_id, took_ms, at });
        }
    }

    pub(crate) fn numbers(&self) -> Outcomes {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Outcomes {
            counts: self.counts.each_ref().map(read),
            processing: self.processing.each_ref().map(read),
            processing_sum_ms: read(&self.processing_sum_ms),
            exemplars: self.exemplars.lock().clone(),
        }
    }
}

impl crate::core::Core {
    /// By its queue and by how long it took.
    pub(crate) fn count_outcome(&self, report: Report, attempt: &EndedAttempt, now: Millis) {
        let meters = self.meters.queue(&attempt.queue);
        meters.outcomes.ended(Ended::of(report));
        let trace_id = attempt.traceparent.as_deref().and_then(sampled_trace);
        meters.outcomes.took(now.since(attempt.leased_since), trace_id, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_where_its_caller_samples_it() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(sampled_trace(&format!("00-{id}-b7ad6b7169203331-01")).as_deref(), Some(id));
        for text in [format!("00-{id}-b7ad6b7169203331-00"), format!("00-{id}"), "00-a-b-01".to_owned()] {
            assert_eq!(sampled_trace(&text), None, "{text}");
        }
    }

    #[test]
    fn the_buckets_have_what_took_at_most_their_bound_and_keep_the_last_trace() {
        let meters = OutcomeMeters::default();
        for (took_ms, trace) in [(-3, None), (5, Some("a")), (6, Some("b")), (10, None), (3_600_001, None)] {
            meters.took(took_ms, trace.map(Into::into), Millis(7));
        }
        let numbers = meters.numbers();
        assert_eq!((numbers.processing[0], numbers.processing[1], numbers.processing[14]), (2, 2, 1));
        assert_eq!(numbers.processing_sum_ms, 3_600_022);
        let of = |nth: usize| numbers.exemplars[nth].as_ref().map(|it| (&*it.trace_id, it.took_ms));
        assert_eq!((of(0), of(1), of(2)), (Some(("a", 5)), Some(("b", 6)), None));
    }
}
