//! Holds every promise against the records of a run and the tasks' ends. Judges by these alone; must never read a clock
//! or talk to an engine, so that its tests can feed it any history.

use super::{
    book::{Book, CallerAnswer, Track},
    tasks::{CONCURRENCY, Lane, RETRY_MS},
};
use serde::Serialize;
use std::collections::HashMap;

/// The state of a task when all is quiet, as an engine says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TaskEnd {
    pub(crate) state: String,
    pub(crate) attempt: u32,
    /// The history of a dead task: attempts that were leased, and when in milliseconds.
    pub(crate) leases: Vec<(u32, i64)>,
}

/// The circumstances of a run.
#[derive(Debug, Default)]
pub(crate) struct Circumstances {
    /// The spans in which some engine's clock was wrong, true microseconds.
    pub(crate) clock_faults_us: Vec<(i64, i64)>,
    /// The time by which a task may be early during such a span: the deviation that an engine accepts of its clock.
    pub(crate) clock_bound_ms: i64,
    pub(crate) lease_ms: i64,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Broken {
    /// The name of the promise, the same words for each of a kind.
    pub(crate) promise: &'static str,
    pub(crate) task: Option<usize>,
    pub(crate) text: String,
}

impl Circumstances {
    /// A clock was wrong at some time between these.
    fn had_wrong_clock(&self, from_us: i64, to_us: i64) -> bool {
        self.clock_faults_us.iter().any(|(begun, ended)| *begun <= to_us && from_us <= *ended)
    }

    pub(crate) fn slack_us(&self, from_us: i64, to_us: i64) -> i64 {
        if self.had_wrong_clock(from_us, to_us) { self.clock_bound_ms * 1_000 } else { 0 }
    }
}

struct Judge<'a> {
    book: &'a Book,
    around: &'a Circumstances,
    broken: Vec<Broken>,
}

/// `ends`: every task that is there.
pub(crate) fn judge(book: &Book, ends: &HashMap<usize, TaskEnd>, around: &Circumstances) -> Vec<Broken> {
    let mut judge = Judge { book, around, broken: Vec::new() };
    for (task, text) in &book.strange {
        judge.broken.push(Broken { promise: "answer", task: *task, text: text.clone() });
    }
    for (n, track) in book.tracks.iter().enumerate() {
        judge.is_never_early(n, track);
        judge.counts_once(n, track);
        judge.keeps_its_changes(n, track);
        match ends.get(&n) {
            Some(end) => judge.ends_rightly(n, track, end),
            None if track.acked_us.is_some() => judge.breach("lost", n, "acknowledged, and not there".into()),
            None => {}
        }
    }
    judge.limit_holds();
    judge.broken
}

impl Judge<'_> {
    fn breach(&mut self, promise: &'static str, n: usize, text: String) {
        self.broken.push(Broken { promise, task: Some(n), text });
    }

    fn is_never_early(&mut self, n: usize, track: &Track) {
        let moved = track.change.as_ref().and_then(|change| Some((change.to_ms?, &change.answer)));
        // The answer shows the task as it is by then: what it was moved to may have come before.
        let answered_us =
            track.change.as_ref().map_or(0..0, |change| change.sent_us..change.answered_us.saturating_add(1));
        let mut retry_from_us: Option<(u32, i64)> = None;
        for receipt in &track.receipts {
            let earliest_ms = match moved {
                Some((to_ms, CallerAnswer::Confirmed { attempt })) if receipt.attempt > *attempt => to_ms,
                Some((to_ms, CallerAnswer::Confirmed { .. })) if answered_us.contains(&receipt.at_us) => {
                    to_ms.min(track.earliest_ms())
                }
                Some((to_ms, CallerAnswer::Unknown(_))) => to_ms.min(track.earliest_ms()),
                _ => track.earliest_ms(),
            };
            let slack_us = self.around.slack_us(track.first_sent_us, receipt.at_us);
            let early_us = earliest_ms * 1_000 - slack_us - receipt.at_us;
            if early_us > 0 {
                self.breach("early", n, format!("attempt {} came {early_us} us early", receipt.attempt));
            }
            if let Some((attempt, from_us)) = retry_from_us.filter(|(attempt, _)| receipt.attempt > *attempt)
            {
                let early_us = from_us / 1_000 * 1_000 + RETRY_MS * 1_000 - slack_us - receipt.at_us;
                if early_us > 0 && moved.is_none() {
                    let text =
                        format!("attempt {} came {early_us} us early after {attempt}", receipt.attempt);
                    self.breach("early", n, text);
                }
            }
            if let Some(report) = receipt.report.filter(|report| report.is_accepted() && !report.is_success) {
                retry_from_us = Some((receipt.attempt, report.sent_us));
            }
        }
    }

    fn counts_once(&mut self, n: usize, track: &Track) {
        // A duplicate of its insert that came late may have replaced it, and then it began again.
        let is_clean = track.unknown_sends == 0;
        let mut accepted: Vec<(u32, bool)> = Vec::new();
        for receipt in &track.receipts {
            if receipt.attempt > track.spec.max_attempts {
                self.breach(
                    "attempts",
                    n,
                    format!("attempt {} of {}", receipt.attempt, track.spec.max_attempts),
                );
            }
            let success = accepted.iter().find(|(_, is_success)| *is_success);
            if let Some((attempt, _)) = success.filter(|(attempt, _)| receipt.attempt > *attempt) {
                self.breach(
                    "run after success",
                    n,
                    format!("attempt {} after {attempt} had succeeded", receipt.attempt),
                );
            }
            let Some(report) = receipt.report.filter(super::book::AttemptReport::is_accepted) else {
                continue;
            };
            let is_double = accepted.iter().any(|(attempt, is_success)| {
                (is_clean && *attempt == receipt.attempt) || (*is_success && report.is_success)
            });
            if is_double {
                self.breach(
                    "accepted twice",
                    n,
                    format!("attempt {}: a second outcome was accepted", receipt.attempt),
                );
            }
            accepted.push((receipt.attempt, report.is_success));
        }
    }

    fn keeps_its_changes(&mut self, n: usize, track: &Track) {
        let Some(change) = track.change.as_ref().filter(|change| change.to_ms.is_none()) else { return };
        let CallerAnswer::Confirmed { attempt } = change.answer else { return };
        if let Some(receipt) = track.receipts.iter().find(|receipt| receipt.attempt > attempt) {
            let text = format!(
                "cancelled after {attempt} attempts, and attempt {} came {} ms after the answer",
                receipt.attempt,
                (receipt.at_us - change.answered_us) / 1_000
            );
            self.breach("run after cancel", n, text);
        }
    }

    fn ends_rightly(&mut self, n: usize, track: &Track, end: &TaskEnd) {
        let reports = || track.receipts.iter().filter_map(|receipt| receipt.report.as_ref());
        let has_success = reports().any(|report| report.is_success && report.is_accepted());
        let cancel =
            track.change.as_ref().filter(|change| change.to_ms.is_none()).map(|change| &change.answer);
        if has_success && end.state != "succeeded" {
            self.breach(
                "lost success",
                n,
                format!("an outcome `succeeded` was accepted, and it is {}", end.state),
            );
        }
        match end.state.as_str() {
            "succeeded" => {
                if !reports().any(|report| report.is_success && report.may_count()) {
                    self.breach("made up", n, "it succeeded, and no executor said so".into());
                }
            }
            "cancelled" => match cancel {
                Some(CallerAnswer::Confirmed { .. } | CallerAnswer::Unknown(_)) => {}
                Some(CallerAnswer::Refused(code)) => {
                    self.breach("answer", n, format!("it is cancelled, and the cancel was answered {code}"));
                }
                None => self.breach("made up", n, "it is cancelled, and nobody cancelled it".into()),
            },
            "dead" => self.died_rightly(n, track, end),
            state => {
                let text =
                    format!("acknowledged, and at the end it is {state} after {} attempts", end.attempt);
                self.breach("unfinished", n, text);
            }
        }
        if matches!(cancel, Some(CallerAnswer::Confirmed { .. })) && end.state != "cancelled" {
            self.breach("answer", n, format!("its cancel was confirmed, and it is {}", end.state));
        }
    }

    /// Each of its attempts was with an executor, or went to one whose call ended without an answer.
    fn died_rightly(&mut self, n: usize, track: &Track, end: &TaskEnd) {
        if end.attempt < track.spec.max_attempts {
            self.breach(
                "dead",
                n,
                format!("dead after {} of {} attempts", end.attempt, track.spec.max_attempts),
            );
        }
        for attempt in 1..=end.attempt {
            if track.receipts.iter().any(|receipt| receipt.attempt == attempt) {
                continue;
            }
            let leased =
                end.leases.iter().find(|(lease, _)| *lease == attempt).map(|(_, at_ms)| at_ms * 1_000);
            if !leased.is_some_and(|at_us| self.was_lost_on_its_way(track, at_us)) {
                let text = format!("dead, and attempt {attempt} was never with an executor");
                self.breach("dead unseen", n, text);
            }
        }
    }

    /// A call for work of its queue was going on then, and was never answered.
    fn was_lost_on_its_way(&self, track: &Track, leased_us: i64) -> bool {
        // The engine's clock may be off by as much as it may without being found out.
        let slack_us = self.around.clock_bound_ms * 1_000;
        self.book.lost_calls.iter().any(|lost_call| {
            lost_call.queue == track.spec.lane.queue()
                && lost_call.sent_us - slack_us <= leased_us
                && leased_us <= lost_call.ended_us + slack_us
        })
    }

    /// Checks the limit by leases: from the receipt until the outcome was sent, or the lease had to be over.
    fn limit_holds(&mut self) {
        let limited =
            self.book.tracks.iter().enumerate().filter(|(_, track)| track.spec.lane == Lane::Limited);
        let mut edges = Vec::new();
        for (n, track) in limited {
            for receipt in &track.receipts {
                let over_us = receipt.asked_us + self.around.lease_ms * 1_000;
                let over_us = over_us - self.around.slack_us(receipt.asked_us, over_us);
                let to_us = receipt.report.map_or(over_us, |report| report.sent_us.min(over_us));
                if to_us > receipt.at_us {
                    edges.extend([(receipt.at_us, 1, n), (to_us, -1, n)]);
                }
            }
        }
        // What ends in the microsecond in which another begins has ended before it.
        edges.sort_unstable();
        let (mut now, mut most, mut at) = (0_usize, 0, (0, 0));
        for (at_us, change, n) in edges {
            now = if change > 0 { now + 1 } else { now - 1 };
            if now > most {
                (most, at) = (now, (at_us, n));
            }
        }
        if most > CONCURRENCY {
            let text = format!("{most} at one time, and the limit is {CONCURRENCY}; at {} us", at.0);
            self.broken.push(Broken { promise: "limit", task: Some(at.1), text });
        }
    }
}
