//! Attempts that this engine has handed over and of which no outcome has come yet, so that an outcome is counted by its queue
//! and by how long the attempt took, without a read of the store. Nothing else rests on it: what is forgotten here is counted
//! without a queue, and a restart forgets all.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{limiter::Member, store::Assignment};
use punctual_domain::{name::QueueKey, outcome::Report, task::Task, time::Millis};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Upper bounds of the histogram of processing times, in milliseconds; above the last: the rest.
pub const PROCESSING_BOUNDS_MS: [i64; 14] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 30_000, 120_000, 600_000, 3_600_000];
/// So many that never end are remembered before the older half is forgotten: some 10 MB.
const GENERATION: usize = 50_000;

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

/// One that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    fence: i64,
    pub(crate) queue: Arc<QueueKey>,
    handed_at: Millis,
    /// Where its caller samples the trace.
    trace_id: Option<Box<str>>,
}

/// By task. What has not ended while so many others were handed over goes with its generation.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<i64, Attempt>,
    old: HashMap<i64, Attempt>,
}

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Generations>);

impl Attempts {
    pub(crate) fn handed_over(&self, queue: &Arc<QueueKey>, leased: &[Assignment], now: Millis) {
        let mut all = self.0.lock();
        for assignment in leased {
            let trace_id = assignment.traceparent.as_deref().and_then(sampled_trace);
            let queue = Arc::clone(queue);
            let attempt = Attempt { fence: assignment.fence, queue, handed_at: now, trace_id };
            all.old.remove(&assignment.place.id);
            all.young.insert(assignment.place.id, attempt);
        }
        if all.young.len() >= GENERATION {
            all.old = mem::take(&mut all.young);
        }
    }

    /// None: this engine has not handed it over, or has forgotten it.
    pub(crate) fn ended(&self, member: Member) -> Option<Attempt> {
        let mut all = self.0.lock();
        let attempt = all.young.remove(&member.id).or_else(|| all.old.remove(&member.id))?;
        Some(attempt).filter(|attempt| attempt.fence == member.fence)
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
    /// By its queue and by how long it took, where that is known without a read: this engine handed it over, or its task was
    /// read for the outcome.
    pub(crate) fn count_outcome(&self, report: Report, member: Member, task: Option<&Task>, now: Millis) {
        let ended = Ended::of(report);
        match (self.attempts.ended(member), task) {
            (Some(attempt), _) => {
                let meters = self.meters.queue(&attempt.queue);
                meters.outcomes.ended(ended);
                meters.outcomes.took(now.since(attempt.handed_at), attempt.trace_id, now);
            }
            (None, Some(task)) => {
                let meters = self.meters.queue(&task.ask.queue);
                meters.outcomes.ended(ended);
                if let Some(lease) = &task.lease {
                    meters.outcomes.took(now.since(lease.since), None, now);
                }
            }
            (None, None) => self.meters.elsewhere.ended(ended),
        }
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

    #[test]
    fn what_never_ends_is_forgotten_and_what_was_just_handed_over_is_not() {
        let attempts = Attempts::default();
        let queue: Arc<QueueKey> = Arc::new(QueueKey {
            namespace: punctual_domain::name::Name::default_namespace(),
            queue: punctual_domain::name::Name::new("q").unwrap(),
        });
        let attempt =
            || Attempt { fence: 1, queue: Arc::clone(&queue), handed_at: Millis(1), trace_id: None };
        {
            let mut all = attempts.0.lock();
            all.old.insert(1, attempt());
            all.young.extend((2..=GENERATION).map(|id| (i64::try_from(id).unwrap(), attempt())));
        }
        attempts.handed_over(&queue, &[], Millis(2));
        assert!(attempts.ended(Member { id: 1, fence: 1 }).is_some());
        assert_eq!(attempts.ended(Member { id: 2, fence: 2 }), None, "of another attempt");
        assert!(attempts.ended(Member { id: 3, fence: 1 }).is_some());
        assert_eq!(attempts.ended(Member { id: 3, fence: 1 }), None, "once");
        attempts.0.lock().young.extend((1..=GENERATION).map(|id| (i64::try_from(id).unwrap(), attempt())));
        attempts.handed_over(&queue, &[], Millis(3));
        let all = attempts.0.lock();
        assert_eq!((all.young.len(), all.old.len()), (0, GENERATION));
    }
}
