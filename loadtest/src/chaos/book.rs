//! The external record of every task: the requests and answers at insert and change, and the executors' notes of each
//! attempt, all by the true clock. Decides nothing about promises; must never trust an engine's clock.

use super::tasks::{RETRY_MS, Spec, TaskChange, TaskDue};
use crate::{measure::Spans, wire::OutcomeStatus};
use serde::Serialize;
use std::collections::BTreeSet;

/// An attempt in an executor's hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Receipt {
    pub(crate) attempt: u32,
    /// The call for work.
    pub(crate) asked_us: i64,
    /// The instant at which its answer was read.
    pub(crate) at_us: i64,
    pub(crate) executor: String,
    pub(crate) report: Option<AttemptReport>,
}

/// The end of an attempt, as its executor reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct AttemptReport {
    pub(crate) is_success: bool,
    /// First sent; it is repeated until it is answered.
    pub(crate) sent_us: i64,
    pub(crate) answered_us: Option<i64>,
    pub(crate) status: Option<OutcomeStatus>,
    /// An answer was lost before: `stale` may mean that it had counted.
    pub(crate) is_repeat: bool,
}

impl AttemptReport {
    pub(crate) fn is_accepted(&self) -> bool {
        self.status == Some(OutcomeStatus::Accepted)
    }

    /// It counted, or may have.
    pub(crate) fn may_count(&self) -> bool {
        self.is_accepted() || self.status.is_none() || self.is_repeat
    }
}

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerAnswer {
    /// It holds; the attempts that the task had had then.
    Confirmed { attempt: u32 },
    /// Nothing was done. The text is the code.
    Refused(String),
    /// It may hold.
    Unknown(String),
}

/// A cancel or a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeCall {
    /// `None` for a cancel.
    pub(crate) to_ms: Option<i64>,
    pub(crate) sent_us: i64,
    pub(crate) answered_us: i64,
    pub(crate) answer: CallerAnswer,
}

/// The record of one task.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Track {
    #[serde(serialize_with = "debugged")]
    pub(crate) spec: Spec,
    pub(crate) first_sent_us: i64,
    pub(crate) acked_us: Option<i64>,
    pub(crate) reference: Option<String>,
    /// Sends that may have arrived beside the one that was acknowledged: a late one may replace the task.
    pub(crate) unknown_sends: u32,
    pub(crate) change: Option<ChangeCall>,
    pub(crate) receipts: Vec<Receipt>,
    /// When it should come next, or `None` if an executor has it, or it is over.
    pub(crate) expected_ms: Option<i64>,
}

fn debugged<S: serde::Serializer>(spec: &Spec, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{spec:?}"))
}

/// A call for work without an answer: no executor has what it leased.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LostCall {
    pub(crate) queue: &'static str,
    pub(crate) executor: String,
    pub(crate) sent_us: i64,
    pub(crate) ended_us: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) tracks: Vec<Track>,
    pub(crate) lost_calls: Vec<LostCall>,
    /// Violations that do not depend on the tasks' ends, in words.
    pub(crate) strange: Vec<(Option<usize>, String)>,
    /// Expected, by time.
    open: BTreeSet<(i64, usize)>,
    /// The tasks to change, by time.
    changes: BTreeSet<(i64, usize)>,
    pub(crate) unacked: usize,
    pub(crate) acked: usize,
    pub(crate) executions: usize,
    pub(crate) accepted: usize,
    pub(crate) stale: usize,
    pub(crate) in_hand: usize,
    pub(crate) changing: usize,
    pub(crate) lateness: Spans,
}

impl Track {
    /// It may not run before, by the true clock.
    pub(crate) fn earliest_ms(&self) -> i64 {
        match self.spec.due {
            TaskDue::AtMs(at_ms) => at_ms,
            TaskDue::AfterMs(delay_ms) => self.first_sent_us.div_euclid(1_000) + delay_ms,
        }
    }
}

impl Book {
    /// A task that is about to be inserted; answers its number.
    pub(crate) fn planned(&mut self, spec: Spec) -> usize {
        let (acked_us, reference, change, expected_ms) = (None, None, None, None);
        let (first_sent_us, unknown_sends, receipts) = (0, 0, Vec::new());
        self.tracks.push(Track {
            spec,
            first_sent_us,
            acked_us,
            reference,
            unknown_sends,
            change,
            receipts,
            expected_ms,
        });
        self.unacked += 1;
        self.tracks.len() - 1
    }

    pub(crate) fn sent(&mut self, n: usize, at_us: i64) {
        if let Some(track) = self.tracks.get_mut(n).filter(|track| track.first_sent_us == 0) {
            track.first_sent_us = at_us;
        }
    }

    pub(crate) fn sent_into_the_dark(&mut self, n: usize) {
        if let Some(track) = self.tracks.get_mut(n) {
            track.unknown_sends += 1;
        }
    }

    /// `is_new`: the answer says that no such task had been there.
    pub(crate) fn acknowledged(&mut self, n: usize, at_us: i64, reference: &str, is_new: bool) {
        let Some(track) = self.tracks.get_mut(n) else { return };
        track.acked_us = Some(at_us);
        track.reference = Some(reference.to_owned());
        self.acked += 1;
        self.unacked -= 1;
        if !is_new && track.unknown_sends == 0 {
            let text = "the insert was answered `nothing was done`, and the next one found the task there";
            self.strange.push((Some(n), text.to_owned()));
        }
        let due_ms = match track.spec.due {
            TaskDue::AtMs(at_ms) => at_ms,
            TaskDue::AfterMs(delay_ms) => at_us / 1_000 + delay_ms,
        };
        if let Some(planned) = track.spec.change.filter(|_| track.unknown_sends == 0) {
            let span_us = (due_ms * 1_000 - at_us).max(0);
            let beyond_us = (planned.at - 1_000).max(0) * 1_000;
            self.changes.insert((at_us + span_us / 1_000 * planned.at.min(1_000) + beyond_us, n));
        }
        if track.receipts.is_empty() {
            self.expect(n, Some(due_ms));
        }
    }

    /// Never to be acknowledged any more: it may be there, or not.
    pub(crate) fn given_up(&mut self, n: usize) {
        self.sent_into_the_dark(n);
        self.unacked -= 1;
    }

    fn expect(&mut self, n: usize, at_ms: Option<i64>) {
        let Some(track) = self.tracks.get_mut(n) else { return };
        if let Some(before) = std::mem::replace(&mut track.expected_ms, at_ms) {
            self.open.remove(&(before, n));
        }
        if let Some(at_ms) = at_ms {
            self.open.insert((at_ms, n));
        }
    }

    /// Returns the index of the receipt among those of its task. `None` if the task is none of this run.
    pub(crate) fn received(&mut self, n: usize, receipt: Receipt) -> Option<usize> {
        let track = self.tracks.get_mut(n)?;
        self.executions += 1;
        self.in_hand += 1;
        if track.receipts.is_empty() && track.change.is_none() {
            let late_us =
                receipt.at_us - track.expected_ms.map_or(receipt.at_us, |expected_ms| expected_ms * 1_000);
            self.lateness.record_us(late_us.max(0));
        }
        track.receipts.push(receipt);
        let nth = track.receipts.len() - 1;
        self.expect(n, None);
        Some(nth)
    }

    pub(crate) fn reporting(&mut self, n: usize, nth: usize, is_success: bool, sent_us: i64) {
        if let Some(receipt) = self.tracks.get_mut(n).and_then(|track| track.receipts.get_mut(nth)) {
            let (answered_us, status, is_repeat) = (None, None, false);
            receipt.report = Some(AttemptReport { is_success, sent_us, answered_us, status, is_repeat });
        }
    }

    pub(crate) fn reported(
        &mut self,
        n: usize,
        nth: usize,
        at_us: i64,
        (status, is_repeat): (OutcomeStatus, bool),
    ) {
        let Some(track) = self.tracks.get_mut(n) else { return };
        let (max_attempts, change) = (track.spec.max_attempts, &track.change);
        let is_cancelled = change.as_ref().is_some_and(|change| {
            change.to_ms.is_none() && !matches!(change.answer, CallerAnswer::Refused(_))
        });
        let Some(receipt) = track.receipts.get_mut(nth) else { return };
        let attempt = receipt.attempt;
        let Some(report) = &mut receipt.report else { return };
        (report.answered_us, report.status, report.is_repeat) = (Some(at_us), Some(status), is_repeat);
        let (is_success, sent_us) = (report.is_success, report.sent_us);
        self.in_hand -= 1;
        let is_accepted = status == OutcomeStatus::Accepted;
        self.accepted += usize::from(is_accepted);
        self.stale += usize::from(!is_accepted);
        let is_last = nth + 1 == track.receipts.len();
        let is_over = (is_success && (is_accepted || is_repeat)) || attempt >= max_attempts || is_cancelled;
        if is_last && !is_over {
            let from_us = if is_accepted { sent_us } else { at_us };
            self.expect(n, Some(from_us / 1_000 + RETRY_MS));
        }
    }

    /// The tasks whose change is due; each is returned once.
    pub(crate) fn changes_due(&mut self, now_us: i64) -> Vec<(usize, TaskChange, String)> {
        let mut due = Vec::new();
        while let Some(first) = self.changes.first().copied().filter(|(at_us, _)| *at_us <= now_us) {
            self.changes.remove(&first);
            let track = self.tracks.get(first.1);
            let found =
                track.and_then(|track| Some((first.1, track.spec.change?.wish, track.reference.clone()?)));
            due.extend(found);
        }
        self.changing += due.len();
        due
    }

    pub(crate) fn changed(&mut self, n: usize, change: ChangeCall) {
        self.changing -= 1;
        let Some(track) = self.tracks.get_mut(n) else { return };
        let is_waiting = track.expected_ms.is_some();
        let expected_ms = match (&change.answer, change.to_ms) {
            (CallerAnswer::Refused(_), _) => track.expected_ms,
            (CallerAnswer::Confirmed { .. } | CallerAnswer::Unknown(_), None) => None,
            (CallerAnswer::Confirmed { .. }, Some(to_ms)) => Some(to_ms),
            (CallerAnswer::Unknown(_), Some(to_ms)) => Some(to_ms.max(track.earliest_ms())),
        };
        if matches!(&change.answer, CallerAnswer::Refused(code) if code == "task.not_found") {
            self.strange.push((Some(n), "acknowledged, and then not found by a change".to_owned()));
        }
        track.change = Some(change);
        if is_waiting {
            self.expect(n, expected_ms);
        }
    }

    /// Should have come more than `by_ms` ago.
    pub(crate) fn overdue(&self, now_ms: i64, by_ms: i64) -> Vec<usize> {
        self.open.range(..(now_ms - by_ms, 0)).map(|(_, n)| *n).collect()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// It is over, as the server says; the end of the run says whether rightly.
    pub(crate) fn settled(&mut self, n: usize) {
        self.expect(n, None);
    }
}
