//! Maps the end of an attempt to the event that follows. Pure: now and the random number are arguments.

use crate::{retry::RetryPolicy, state::Event, time::Millis};

/// The end of an attempt, as reported by its executor or found by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Succeeded,
    /// `after_ms` overrides the retry policy.
    Failed {
        after_ms: Option<i64>,
    },
    /// The executor postpones the task: it runs again later, and this attempt does not count.
    Snooze {
        after_ms: i64,
    },
    /// Never: no further attempt would help.
    Reject,
    /// The executor fell silent.
    LeaseExpired,
    /// The attempt exceeded its `timeout_ms`.
    TimedOut,
    /// The payload of the attempt is lost: no executor received it.
    PayloadLost,
}

/// The facts for the decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub attempt: u32,
    pub max_attempts: u32,
    pub retry: &'a RetryPolicy,
    pub cancel_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub event: Event,
    /// The instant at which the next attempt fires.
    pub due_at: Option<Millis>,
    /// One word for the history.
    pub reason: &'static str,
}

/// `unit` is uniform in 0..1.
#[must_use]
pub fn decide(report: Report, facts: Facts<'_>, now: Millis, unit: f64) -> Verdict {
    let end = |event, reason| Verdict { event, due_at: None, reason };
    match report {
        Report::Succeeded => end(Event::Succeed, "succeeded"),
        _ if facts.cancel_requested => end(Event::Abort, "stopped_on_request"),
        Report::Reject => end(Event::Bury, "rejected"),
        Report::Snooze { after_ms } => {
            Verdict { event: Event::Snooze, due_at: Some(now.plus(after_ms.max(0))), reason: "snoozed" }
        }
        Report::Failed { after_ms } => again_or_dead("failed", after_ms, facts, now, unit),
        Report::LeaseExpired => again_or_dead("lease_expired", None, facts, now, unit),
        Report::TimedOut => again_or_dead("timed_out", None, facts, now, unit),
        Report::PayloadLost => again_or_dead("payload_lost", None, facts, now, unit),
    }
}

fn again_or_dead(
    reason: &'static str,
    after_ms: Option<i64>,
    facts: Facts<'_>,
    now: Millis,
    unit: f64,
) -> Verdict {
    if facts.attempt >= facts.max_attempts {
        return Verdict { event: Event::Bury, due_at: None, reason };
    }
    let delay_ms =
        after_ms.map_or_else(|| facts.retry.delay_ms(facts.attempt, unit), |after_ms| after_ms.max(0));
    Verdict { event: Event::Retry, due_at: Some(now.plus(delay_ms)), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000);

    fn on(report: Report, attempt: u32, cancel_requested: bool) -> (Event, Option<i64>) {
        let retry = RetryPolicy::Fixed { delay_ms: 300 };
        let facts = Facts { attempt, max_attempts: 3, retry: &retry, cancel_requested };
        let verdict = decide(report, facts, NOW, 0.0);
        (verdict.event, verdict.due_at.map(|due_at| due_at.0))
    }

    #[test]
    fn each_report_leads_where_it_should() {
        let failed = Report::Failed { after_ms: None };
        let table = [
            (Report::Succeeded, 1, (Event::Succeed, None)),
            (failed, 1, (Event::Retry, Some(1_300))),
            (failed, 3, (Event::Bury, None)),
            (Report::Failed { after_ms: Some(5) }, 1, (Event::Retry, Some(1_005))),
            (Report::Failed { after_ms: Some(-5) }, 1, (Event::Retry, Some(1_000))),
            (Report::Snooze { after_ms: 50 }, 3, (Event::Snooze, Some(1_050))),
            (Report::Reject, 1, (Event::Bury, None)),
            (Report::LeaseExpired, 2, (Event::Retry, Some(1_300))),
            (Report::LeaseExpired, 3, (Event::Bury, None)),
            (Report::TimedOut, 3, (Event::Bury, None)),
            (Report::PayloadLost, 2, (Event::Retry, Some(1_300))),
            (Report::PayloadLost, 3, (Event::Bury, None)),
        ];
        for (report, attempt, want) in table {
            assert_eq!(on(report, attempt, false), want, "{report:?}, attempt {attempt}");
        }
    }

    #[test]
    fn a_task_that_was_asked_to_stop_is_not_run_again() {
        for report in
            [Report::Failed { after_ms: None }, Report::Snooze { after_ms: 1 }, Report::LeaseExpired]
        {
            assert_eq!(on(report, 1, true), (Event::Abort, None), "{report:?}");
        }
        assert_eq!(on(Report::Succeeded, 1, true), (Event::Succeed, None), "success stays success");
    }
}
