//! The progress of a schedule. Stored as JSON beside the document: a field is never renamed.

use super::Outcome;
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the first task of an instant. Each task that replaces a revoked one has the next version.
const FIRST_VERSION: i64 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Every instant up to here is decided.
    pub decided_until: Millis,
    /// Runs that were made, by whatever cause.
    #[serde(default)]
    pub runs: u64,
    /// Runs that were skipped, because their payload had no value or a later one replaced them: they have a
    /// number, and do not count as runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The latest run whose instant had passed when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<Millis>,
    /// Runs that were made, and whose instants were in the future then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_ahead: Vec<Millis>,
    /// The run that has to be over before the next may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRun>,
    /// Instants whose run waits for the end of the preceding one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffered: Vec<Millis>,
    /// It was paused, and the runs that it missed meanwhile are not decided yet.
    #[serde(default)]
    pub was_paused: bool,
    /// It was changed, and runs that were made before have to be revoked first.
    #[serde(default)]
    pub takes_back: bool,
    /// The longest jitter of the documents that made those.
    #[serde(default)]
    pub jitter_ms: i64,
    /// The instant of that change, or of the first of several: runs that were to fire later are revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Millis>,
    /// Instants whose run was revoked. One up to `decided_until` is still to be decided, unless it is buffered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<TakenBack>,
    /// Instants after `decided_until` that are decided: their run had fired when the others were revoked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided_apart: Vec<Millis>,
}

/// An instant whose run was revoked, and the version of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenBack {
    pub at: Millis,
    pub version: i64,
}

/// One history line of a planned instant, as a revocation has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: Millis,
    /// The version of its task; 0: it has none, or its name was derived from a revision.
    pub version: i64,
    pub outcome: Outcome,
    /// This taking back has cancelled it before it fired.
    pub is_taken_back: bool,
}

/// The key by which a run is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    pub at: Millis,
    /// The version of the run's task: the revision of the document that created it.
    pub version: i64,
    pub planned_at: Millis,
}

impl Progress {
    /// The progress of a schedule that begins now.
    #[must_use]
    pub fn beginning(now: Millis) -> Self {
        Self { decided_until: now, ..Self::default() }
    }

    /// The latest run whose instant has passed.
    #[must_use]
    pub fn last_run(&self, now: Millis) -> Option<Millis> {
        self.made_ahead.iter().copied().filter(|at| *at <= now).max().max(self.last_run_at)
    }

    /// Runs that were made ahead and whose instants have passed become the last run.
    pub(crate) fn look(&mut self, now: Millis) {
        self.last_run_at = self.last_run(now);
        self.made_ahead.retain(|at| *at > now);
    }

    /// The number of the next run.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.runs.saturating_add(self.left_out).saturating_add(1)
    }

    /// The run of an instant is made. Answers the version of its task.
    pub(crate) fn made(&mut self, at: Millis, now: Millis) -> i64 {
        let version = self
            .taken_back
            .iter()
            .find(|answer| answer.at == at)
            .map_or(FIRST_VERSION, |answer| answer.version + 1);
        self.is_recorded(at);
        self.runs += 1;
        self.made_ahead.push(at);
        self.look(now);
        version
    }

    /// An instant is over with a run or without one.
    pub(crate) fn is_recorded(&mut self, at: Millis) {
        self.taken_back.retain(|answer| answer.at != at);
    }

    /// The first instant that was revoked and is still to be decided.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Millis> {
        let open = |at: &Millis| *at <= self.decided_until && !self.buffered.contains(at);
        self.taken_back.iter().map(|answer| answer.at).filter(open)
    }

    /// Every instant up to one is decided, but for those that are pending.
    pub(crate) fn decide_until(&mut self, until: Millis) {
        let from = self.decided_until;
        if until > from {
            let buffered = &self.buffered;
            self.taken_back
                .retain(|answer| answer.at <= from || answer.at > until || buffered.contains(&answer.at));
            self.decided_apart.retain(|at| *at > until);
            self.decided_until = until;
        }
    }

    /// A change is committed: later runs of older documents must be revoked. `goes_on`: the schedule was
    /// active and still is; otherwise it has missed nothing.
    pub fn begin_taking_back(&mut self, changed_at: Millis, jitter_ms: i64, goes_on: bool) {
        self.jitter_ms = self.jitter_ms.max(jitter_ms);
        self.takes_back |= self.decided_until > changed_at.plus(-self.jitter_ms);
        self.changed_at =
            self.takes_back.then(|| self.changed_at.map_or(changed_at, |at| at.min(changed_at)));
        if goes_on {
            self.put_back(self.decided_until.min(changed_at));
        } else {
            self.put_back(changed_at);
            self.taken_back.retain(|answer| answer.at > changed_at);
        }
    }

    /// The schedule is paused, disabled or about to be deleted: runs that were decided and not made are
    /// withdrawn too, even if none of them is in the future.
    pub fn rest(&mut self, changed_at: Millis) {
        self.takes_back = true;
        self.changed_at = Some(self.changed_at.map_or(changed_at, |before| before.min(changed_at)));
    }

    fn put_back(&mut self, to: Millis) {
        self.decided_until = to;
    }

    /// The taking back is done. `lines`: all that the history has of planned instants after `decided_until`, and those before it
    /// that were revoked now. An instant of which every line was revoked is decided anew, once; every other one is decided.
    pub fn end_taking_back(&mut self, lines: &[Line], now: Millis) {
        let mut instants: BTreeMap<Millis, Instant> = BTreeMap::new();
        for line in lines {
            let instant = instants.entry(line.at).or_default();
            instant.version = instant.version.max(line.version);
            instant.is_decided |= match line.outcome {
                Outcome::Created => !line.is_taken_back,
                Outcome::Skipped | Outcome::Missed => true,
                Outcome::Buffered => self.buffered.contains(&line.at),
                Outcome::Cancelled => false,
            };
            instant.is_taken_back |= line.is_taken_back;
        }
        let base = self.decided_until;
        let before = std::mem::take(&mut self.taken_back);
        let was = |at: Millis| before.iter().find(|answer| answer.at == at && at <= base);
        let mut left = before.clone();
        left.retain(|answer| answer.at <= base && !instants.contains_key(&answer.at));
        self.decided_apart.clear();
        for (at, Instant { version, is_decided, is_taken_back }) in instants {
            let version = version.max(was(at).map_or(0, |answer| answer.version));
            let is_open = !is_decided && (at > base || is_taken_back || was(at).is_some());
            // One that is buffered has no task yet, and must not get the name of one that was cancelled.
            if is_open || (version > 0 && self.buffered.contains(&at)) {
                left.push(TakenBack { at, version });
            }
            if is_decided && at > base {
                self.decided_apart.push(at);
            }
        }
        self.taken_back = left;
        let taken: Vec<Millis> = lines.iter().filter(|line| line.is_taken_back).map(|line| line.at).collect();
        self.runs = self.runs.saturating_sub(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        self.made_ahead.retain(|at| !taken.contains(at));
        self.last = self.last.filter(|last_run| !taken.contains(&last_run.at));
        (self.takes_back, self.jitter_ms, self.changed_at) = (false, 0, None);
        self.look(now);
    }
}

/// The combined lines of one instant.
#[derive(Default)]
struct Instant {
    version: i64,
    is_decided: bool,
    is_taken_back: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_is_the_latest_that_has_come_however_many_are_made_ahead() {
        let mut progress = Progress::beginning(Millis(0));
        let last = |progress: &Progress, now| progress.last_run(Millis(now)).map(|at| at.0);
        for at in [60, 120] {
            progress.made(Millis(at), Millis(10));
        }
        assert_eq!(
            (last(&progress, 59), last(&progress, 60), last(&progress, 500)),
            (None, Some(60), Some(120))
        );
        progress.made(Millis(180), Millis(70));
        assert_eq!((progress.last_run_at, progress.made_ahead.len()), (Some(Millis(60)), 2));
        assert_eq!(last(&progress, 130), Some(120));
        let stored: Progress = serde_json::from_str(&serde_json::to_string(&progress).unwrap()).unwrap();
        assert_eq!(stored, progress);
    }

    fn line(at: i64, outcome: Outcome, is_taken_back: bool) -> Line {
        Line { at: Millis(at), version: 1, outcome, is_taken_back }
    }

    fn instants(all: &[TakenBack]) -> Vec<(i64, i64)> {
        all.iter().map(|answer| (answer.at.0, answer.version)).collect()
    }

    #[test]
    fn what_has_fired_is_decided_and_what_was_taken_back_is_decided_again_once() {
        let mut progress = Progress { jitter_ms: 0, ..Progress::beginning(Millis(0)) };
        for at in [90, 110, 120, 130] {
            assert_eq!(progress.made(Millis(at), Millis(80)), 1);
            progress.decide_until(Millis(at));
        }
        progress.last = Some(LastRun { at: Millis(130), version: 3, planned_at: Millis(80) });
        // The instant 90 is put off by its jitter, 110 fires while the others are revoked.
        progress.begin_taking_back(Millis(100), 50, true);
        assert_eq!((progress.decided_until, progress.changed_at), (Millis(100), Some(Millis(100))));
        let created = |at, taken| line(at, Outcome::Created, taken);
        let lines = [created(90, true), created(110, false), created(120, true), created(130, true)];
        progress.end_taking_back(&lines, Millis(112));
        assert_eq!(instants(&progress.taken_back), [(90, 1), (120, 1), (130, 1)]);
        assert_eq!(progress.decided_apart, [Millis(110)]);
        assert_eq!((progress.runs, progress.last, progress.takes_back), (1, None, false));
        assert_eq!(progress.last_run_at, Some(Millis(110)));
        assert_eq!(progress.pending().collect::<Vec<_>>(), [Millis(90)]);
        assert_eq!(progress.made(Millis(90), Millis(112)), 2, "the next task of that instant");
        assert_eq!(progress.pending().count(), 0);
        progress.decide_until(Millis(125));
        assert_eq!((instants(&progress.taken_back), progress.decided_apart.len()), (vec![(130, 1)], 0));
    }

    #[test]
    fn versions_come_from_the_history_also_where_a_document_between_had_no_such_instant() {
        let mut progress = Progress::beginning(Millis(0));
        progress.decide_until(Millis(200));
        progress.begin_taking_back(Millis(100), 0, true);
        let lines = [line(150, Outcome::Cancelled, false), line(160, Outcome::Skipped, false)];
        progress.end_taking_back(&lines, Millis(100));
        assert_eq!(instants(&progress.taken_back), [(150, 1)]);
        assert_eq!(progress.decided_apart, [Millis(160)]);
    }

    #[test]
    fn one_that_was_not_at_work_has_missed_nothing() {
        let mut progress = Progress::beginning(Millis(0));
        progress.taken_back = vec![TakenBack { at: Millis(50), version: 1 }];
        progress.decide_until(Millis(60));
        progress.taken_back = vec![TakenBack { at: Millis(50), version: 1 }];
        progress.begin_taking_back(Millis(100), 0, false);
        assert_eq!((progress.decided_until, progress.pending().count()), (Millis(100), 0));
        assert!(!progress.takes_back, "nothing was made ahead");
    }
}
