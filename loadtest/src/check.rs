//! Holds every promise against what was seen from outside: which tasks were accepted, when they reached an executor,
//! which outcomes counted. Judges by events alone; must never read a clock or talk to the server, so that its tests can
//! feed it any history.

use crate::{
    measure::Spans,
    plan::Plan,
    wire::{InsertOutcome, OutcomeStatus},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A task in an executor's hands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receipt {
    pub(crate) at_us: i64,
    pub(crate) attempt: u32,
    pub(crate) execute_at_ms: i64,
    pub(crate) fired_at_ms: i64,
    pub(crate) is_payload_intact: bool,
}

/// The answer to one reported outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) at_us: i64,
    /// When this report was sent, each repetition by itself.
    pub(crate) sent_us: i64,
    pub(crate) attempt: u32,
    pub(crate) status: OutcomeStatus,
    /// An answer to the same report had been lost before: `stale` may mean that the first one counted.
    pub(crate) is_repeat: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Track {
    is_inserted: bool,
    receipts: u32,
    last_attempt: u32,
    accepted: u32,
    accepted_attempt: u32,
    /// When success was learnt by asking, because no answer to its outcome had come.
    settled_at_us: Option<i64>,
    is_doubtful: bool,
}

impl Track {
    const fn is_done(&self) -> bool {
        self.accepted > 0 || self.settled_at_us.is_some()
    }

    const fn is_open(&self) -> bool {
        self.is_inserted && !self.is_done()
    }

    /// True if an outcome that is accepted now is a second one. A success that was learnt by a question may be that
    /// of a report that was still under way: the question can overtake its answer.
    fn is_completed_before(&self, sent_us: i64) -> bool {
        self.accepted > 0 || self.settled_at_us.is_some_and(|settled_us| sent_us > settled_us)
    }
}

/// First executions that come later than this are what a fault has held up.
const LATE_US: i64 = 250_000;

/// The executors' observations after a disturbance of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aftermath {
    since_us: i64,
    first_us: Option<i64>,
    /// When the last task came that was late.
    last_late_us: Option<i64>,
    last_us: i64,
    /// The longest time without any receipt.
    pub(crate) longest_gap_us: i64,
}

impl Aftermath {
    pub(crate) const fn new(since_us: i64) -> Self {
        Self { since_us, first_us: None, last_late_us: None, last_us: since_us, longest_gap_us: 0 }
    }

    fn receipt(&mut self, at_us: i64, is_late: bool) {
        if at_us < self.since_us {
            return;
        }
        self.first_us.get_or_insert(at_us);
        self.longest_gap_us = self.longest_gap_us.max(at_us - self.last_us);
        self.last_us = self.last_us.max(at_us);
        if is_late {
            self.last_late_us = Some(at_us);
        }
    }

    /// The time from the event to the next receipt.
    pub(crate) fn first_after_us(&self) -> Option<i64> {
        self.first_us.map(|first_us| first_us - self.since_us)
    }

    /// The time from the event to the last receipt that was late. `None` if there was none.
    pub(crate) fn late_until_us(&self) -> Option<i64> {
        self.last_late_us.map(|last_late_us| last_late_us - self.since_us)
    }
}

/// Everything that was counted; the field names are those of the JSON report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) inserted: u64,
    /// Inserts by what the answer said; `existing` and `replaced` happen when an insert is repeated.
    pub(crate) created: u64,
    pub(crate) replaced: u64,
    pub(crate) existing: u64,
    pub(crate) refused: u64,
    /// Tasks whose insert was repeated because an answer was lost.
    pub(crate) inserts_repeated: u64,
    /// Acknowledged only when they were due already.
    pub(crate) inserted_after_due: u64,
    /// Receipts of tasks by executors.
    pub(crate) executions: u64,
    /// Tasks that were handed over more than once.
    pub(crate) executed_again: u64,
    /// Receipts with an attempt number that the task had had before.
    pub(crate) attempts_repeated: u64,
    pub(crate) outcomes_accepted: u64,
    pub(crate) outcomes_stale: u64,
    /// Done as the server says when asked, after the answer to the outcome was lost.
    pub(crate) settled_by_asking: u64,
    pub(crate) lost: u64,
    pub(crate) early: u64,
    pub(crate) completed_twice: u64,
    /// Tasks that were handed over with a later attempt than the one whose outcome was accepted.
    pub(crate) run_after_completion: u64,
    /// First attempts with another `execute_at` than the one inserted.
    pub(crate) wrong_time: u64,
    pub(crate) wrong_payload: u64,
    /// Tasks that were handed over although this run never inserted them.
    pub(crate) foreign: u64,
}

/// Spans by what they measure.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// First receipt at an executor − execute_at.
    pub(crate) lateness: Spans,
    /// The server's `fired_at` − `execute_at`; full milliseconds.
    pub(crate) fired: Spans,
    /// First receipt at an executor − `fired_at`.
    pub(crate) hand_over: Spans,
    /// Insert call to its answer.
    pub(crate) insert: Spans,
    /// Insert call − the instant it was planned for.
    pub(crate) insert_lag: Spans,
    /// Outcome call to its answer.
    pub(crate) outcome: Spans,
}

#[derive(Debug)]
pub(crate) struct Checker {
    plan: Arc<Plan>,
    tracks: Vec<Track>,
    counts: Counts,
    open: u64,
    open_doubtful: u64,
    pub(crate) measured: Measured,
    pub(crate) first_insert_us: Option<i64>,
    pub(crate) last_insert_us: i64,
    pub(crate) last_accepted_us: i64,
    /// The observations since the first task was due.
    whole: Aftermath,
    /// One for each thing that was done to the server, in order; the latest is the one that continues.
    aftermaths: Vec<Aftermath>,
}

impl Checker {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self {
            tracks: vec![Track::default(); plan.len()],
            whole: Aftermath::new(plan.first_due_ms * 1_000),
            aftermaths: Vec::new(),
            plan,
            counts: Counts::default(),
            open: 0,
            open_doubtful: 0,
            measured: Measured::default(),
            first_insert_us: None,
            last_insert_us: 0,
            last_accepted_us: 0,
        }
    }

    pub(crate) fn insert_sent(&mut self, at_us: i64, planned_at_us: i64) {
        self.first_insert_us.get_or_insert(at_us);
        self.measured.insert_lag.record_us(at_us - planned_at_us);
    }

    pub(crate) const fn inserts_repeated(&mut self, tasks: u64) {
        self.counts.inserts_repeated += tasks;
    }

    pub(crate) const fn insert_refused(&mut self) {
        self.counts.refused += 1;
    }

    pub(crate) fn inserted(&mut self, n: usize, outcome: InsertOutcome, at_us: i64) {
        let (Some(track), Some(due_ms)) = (self.tracks.get_mut(n), self.plan.due_ms().get(n)) else { return };
        match outcome {
            InsertOutcome::Created => self.counts.created += 1,
            InsertOutcome::Replaced => self.counts.replaced += 1,
            InsertOutcome::Existing => self.counts.existing += 1,
        }
        self.counts.inserted += u64::from(!track.is_inserted);
        self.counts.inserted_after_due += u64::from(at_us > due_ms * 1_000);
        self.last_insert_us = self.last_insert_us.max(at_us);
        let was_open = track.is_open();
        track.is_inserted = true;
        self.open += u64::from(track.is_open() && !was_open);
    }

    /// `n` is None, or beyond the plan, for a task that is not of this run.
    pub(crate) fn received(&mut self, n: Option<usize>, receipt: Receipt) {
        let known = n.and_then(|n| Some((self.tracks.get_mut(n)?, *self.plan.due_ms().get(n)?)));
        let Some((track, due_ms)) = known else {
            self.counts.foreign += 1;
            return;
        };
        let is_early = receipt.at_us < due_ms * 1_000 || receipt.fired_at_ms < due_ms;
        self.counts.early += u64::from(is_early);
        self.counts.wrong_payload += u64::from(!receipt.is_payload_intact);
        self.counts.wrong_time += u64::from(receipt.attempt == 1 && receipt.execute_at_ms != due_ms);
        self.counts.executions += 1;
        self.counts.executed_again += u64::from(track.receipts == 1);
        self.counts.attempts_repeated += u64::from(receipt.attempt <= track.last_attempt);
        if track.receipts == 0 {
            self.measured.lateness.record_us(receipt.at_us - due_ms * 1_000);
            self.measured.fired.record_us((receipt.fired_at_ms - due_ms) * 1_000);
            self.measured.hand_over.record_us(receipt.at_us - receipt.fired_at_ms * 1_000);
        }
        track.receipts += 1;
        track.last_attempt = track.last_attempt.max(receipt.attempt);
        if track.is_doubtful {
            track.is_doubtful = false;
            self.open_doubtful -= 1;
        }
        let is_late = track.receipts == 1 && receipt.at_us - due_ms * 1_000 > LATE_US;
        for aftermath in std::iter::once(&mut self.whole).chain(self.aftermaths.last_mut()) {
            aftermath.receipt(receipt.at_us, is_late);
        }
    }

    pub(crate) fn reported(&mut self, n: usize, verdict: Verdict) {
        let Some(track) = self.tracks.get_mut(n) else { return };
        if verdict.status.is_reported_again() {
            // It is sent again, and then either counts or is stale.
            return;
        }
        let was_open = track.is_open();
        if verdict.status == OutcomeStatus::Accepted {
            self.counts.outcomes_accepted += 1;
            self.counts.completed_twice += u64::from(track.is_completed_before(verdict.sent_us));
            track.accepted += 1;
            track.accepted_attempt = track.accepted_attempt.max(verdict.attempt);
            self.last_accepted_us = self.last_accepted_us.max(verdict.at_us);
        } else {
            self.counts.outcomes_stale += 1;
            let is_doubtful = was_open && verdict.is_repeat && verdict.attempt == track.last_attempt;
            self.open_doubtful += u64::from(is_doubtful && !track.is_doubtful);
            track.is_doubtful |= is_doubtful;
        }
        if was_open && !track.is_open() {
            self.open -= 1;
            self.open_doubtful -= u64::from(std::mem::take(&mut track.is_doubtful));
        }
    }

    /// The server says that the task has succeeded; `at_us`: when its answer came.
    pub(crate) fn settled(&mut self, n: usize, at_us: i64) {
        let Some(track) = self.tracks.get_mut(n).filter(|track| track.is_open()) else { return };
        track.settled_at_us = Some(at_us);
        self.counts.settled_by_asking += 1;
        self.open -= 1;
        self.open_doubtful -= u64::from(std::mem::take(&mut track.is_doubtful));
    }

    /// Accepted by the server and without an accepted outcome yet.
    pub(crate) const fn open(&self) -> u64 {
        self.open
    }

    /// The open tasks whose outcome may have counted although its answer was lost.
    pub(crate) const fn open_doubtful(&self) -> u64 {
        self.open_doubtful
    }

    /// The first `max` open tasks.
    pub(crate) fn open_tasks(&self, max: usize) -> Vec<usize> {
        let open = self.tracks.iter().enumerate().filter(|(_, track)| track.is_open());
        open.map(|(n, _)| n).take(max).collect()
    }

    /// Something was done to the server.
    pub(crate) fn watch_aftermath(&mut self, since_us: i64) {
        self.aftermaths.push(Aftermath::new(since_us));
    }

    pub(crate) fn aftermaths(&self) -> &[Aftermath] {
        &self.aftermaths
    }

    /// The longest time without a receipt, from the first due time to the last receipt.
    pub(crate) const fn longest_gap_us(&self) -> i64 {
        self.whole.longest_gap_us
    }

    /// So far; what is only known at the end is zero.
    pub(crate) const fn so_far(&self) -> &Counts {
        &self.counts
    }

    /// Judges at the end, when nothing more will arrive.
    pub(crate) fn judge(&self) -> Counts {
        let rerun = |track: &&Track| track.accepted > 0 && track.last_attempt > track.accepted_attempt;
        let run_after_completion = self.tracks.iter().filter(rerun).count();
        Counts {
            lost: self.open,
            run_after_completion: u64::try_from(run_after_completion).unwrap_or(u64::MAX),
            ..self.counts.clone()
        }
    }
}

impl Counts {
    /// The broken promises, in words; empty when all were kept.
    pub(crate) fn broken(&self) -> Vec<String> {
        [
            (self.lost, "lost: accepted, but no outcome was accepted in time"),
            (self.early, "early: handed out or fired before its time"),
            (self.completed_twice, "completed twice: a second outcome was accepted"),
            (self.run_after_completion, "handed out again after its outcome was accepted"),
            (self.wrong_time, "handed out with another execute_at than inserted"),
            (self.wrong_payload, "handed out with another payload than inserted"),
            (self.foreign, "handed out although this run never inserted it"),
            (self.refused, "refused at insert"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
