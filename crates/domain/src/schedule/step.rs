//! The next step of a schedule: bounded, computed from its document, its progress and the known state of its
//! last run. Makes nothing itself: the caller commits the step together with its runs, and asks again at
//! `wake_at`.

use super::{
    Budget, LastRun, LookAgain, Missed, Overlap, Progress, RunKind, Schedule, Timing, identity::jitter_ms,
};
use crate::{name::Name, time::Millis};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A run that was not made this long after its instant was missed. Until then it is only late.
pub const LATE_AFTER_MS: i64 = 10_000;
/// Runs of one step.
const RUNS_MAX: usize = 200;
/// Runs that wait for each other.
const BUFFERED_MAX: usize = 1_000;
/// The pause between two checks whether the last run has ended, while an instant is near.
const LOOK_MIN_MS: i64 = 200;
/// The same, where it is far.
const LOOK_MAX_MS: i64 = 15_000;
/// The same, for a run that waits for nothing else.
const LOOK_BUFFERED_MS: i64 = 1_000;
/// The pause before the next step, if the budget was exhausted before the next instant was found.
const LOOK_AGAIN_MS: i64 = 5_000;

/// Facts about the payloads of runs.
#[derive(Clone, Copy)]
pub struct Fills<'a> {
    /// Checks that the payload of a run has a value, by its instant and number. The error is the reason why not.
    pub value: &'a dyn Fn(Millis, u64) -> Result<(), String>,
    /// The payloads of this step have reached their cost limit: the rest is continued later.
    pub are_dear: &'a dyn Fn() -> bool,
}

impl fmt::Debug for Fills<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fills").field("are_dear", &(self.are_dear)()).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub namespace: &'a Name,
    pub name: &'a Name,
    /// The revision of the document.
    pub revision: i64,
    pub now: Millis,
    /// The time by which a run is created before its instant.
    pub lead_ms: i64,
    /// True if the run that `Progress::last` names has ended, or if there is none.
    pub last_is_over: bool,
}

/// The result for one instant. The codes are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Created,
    /// The last run had not ended; or a later one replaced it before it began, or its payload has no value.
    Skipped,
    /// It waits for the end of the last run.
    Buffered,
    Missed,
    /// It was made, and revoked before it fired.
    Cancelled,
}

impl Outcome {
    pub const ALL: [Self; 5] = [Self::Created, Self::Skipped, Self::Buffered, Self::Missed, Self::Cancelled];

    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Created => 1,
            Self::Skipped => 2,
            Self::Buffered => 3,
            Self::Missed => 4,
            Self::Cancelled => 5,
        }
    }

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Skipped => "skipped",
            Self::Buffered => "buffered",
            Self::Missed => "missed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    pub kind: RunKind,
    /// The instant of the schedule.
    pub at: Millis,
    /// The instant at which the run's task fires: later than `at` by the jitter, or because it was missed or waited.
    pub execute_at: Millis,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// The ordinal number of the run; 0: none is made.
    pub number: u64,
    /// The version of its task; 0: none is made.
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub progress: Progress,
    pub runs: Vec<PlannedRun>,
    /// The instant of the next step, or `None` if there is none before the schedule is changed.
    pub wake_at: Option<Millis>,
    /// The run of an earlier step that must be stopped.
    pub cancels: Option<LastRun>,
}

/// The next bounded step.
#[must_use]
pub fn step(
    schedule: &Schedule,
    timing: &Timing,
    progress: &Progress,
    facts: &Facts<'_>,
    fills: Fills<'_>,
    budget: &mut Budget,
) -> Step {
    let mut stepping = Stepping {
        schedule,
        timing,
        facts,
        fills,
        budget,
        last_is_over: facts.last_is_over || progress.last.is_none(),
        step: Step { progress: progress.clone(), runs: Vec::new(), wake_at: None, cancels: None },
    };
    stepping.step.progress.look(facts.now);
    if !schedule.enabled {
        return stepping.step;
    }
    if schedule.is_paused(facts.now) {
        stepping.step.progress.was_paused = true;
        stepping.step.wake_at = schedule.pause.as_ref().and_then(|pause| pause.until);
        return stepping.step;
    }
    match stepping.make_up_for_missed() {
        Ok(()) => {
            stepping.step.wake_at = stepping.plan();
            stepping.step.progress.was_paused = false;
        }
        Err(again) => stepping.step.wake_at = Some(stepping.looks_again_after(again)),
    }
    stepping.step
}

struct Stepping<'a> {
    schedule: &'a Schedule,
    timing: &'a Timing,
    facts: &'a Facts<'a>,
    fills: Fills<'a>,
    budget: &'a mut Budget,
    last_is_over: bool,
    step: Step,
}

impl Stepping<'_> {
    fn is_exhausted(&self) -> bool {
        let waiting = u64::try_from(self.step.progress.buffered.len()).unwrap_or(u64::MAX);
        self.schedule.max_runs.is_some_and(|most| self.step.progress.runs.saturating_add(waiting) >= most)
    }

    /// It has as many runs as one step has, or they have cost as much.
    fn is_full(&self) -> bool {
        self.step.runs.len() >= RUNS_MAX || (self.fills.are_dear)()
    }

    /// If runs are expensive, other schedules have their turn first.
    fn continues_at(&self) -> Millis {
        self.facts.now.plus(i64::from((self.fills.are_dear)()))
    }

    /// The next instant to decide: a revoked one, or an upcoming one.
    fn next(&mut self) -> Result<Option<Millis>, LookAgain> {
        let upcoming = self.upcoming()?;
        Ok(self.step.progress.pending().chain(upcoming).min())
    }

    fn upcoming(&mut self) -> Result<Option<Millis>, LookAgain> {
        let progress = &self.step.progress;
        let mut after = progress.decided_until;
        loop {
            match self.timing.next_after(after, self.budget)? {
                Some(at) if progress.decided_apart.contains(&at) => after = at,
                upcoming => return Ok(upcoming),
            }
        }
    }

    /// There is no instant up to where the search has got: that range is decided, as far as runs are made
    /// ahead.
    fn looks_again_after(&mut self, LookAgain { from }: LookAgain) -> Millis {
        let Facts { now, lead_ms, .. } = *self.facts;
        self.step.progress.decide_until(from.min(now.plus(lead_ms)));
        now.plus(LOOK_AGAIN_MS).max(from.plus(-lead_ms))
    }

    fn fires_at(&self, at: Millis) -> Millis {
        let Facts { namespace, name, .. } = *self.facts;
        at.plus(jitter_ms(namespace, name, at, self.schedule.jitter_ms))
    }

    fn note(&mut self, at: Millis, outcome: Outcome, reason: impl Into<String>) {
        if outcome != Outcome::Buffered {
            self.step.progress.is_recorded(at);
        }
        let run = PlannedRun {
            kind: RunKind::Planned,
            at,
            execute_at: at,
            outcome,
            reason: Some(reason.into()),
            number: 0,
            version: 0,
        };
        self.step.runs.push(run);
    }

    /// False if it is skipped, because its payload has no value. Then nothing waits for it, and it does not count as
    /// a run.
    fn make(&mut self, at: Millis, execute_at: Millis, reason: Option<String>) -> bool {
        let number = self.step.progress.next_number();
        if let Err(problem) = (self.fills.value)(at, number) {
            self.step.progress.left_out += 1;
            self.note(at, Outcome::Skipped, format!("its payload could not be filled in: {problem}"));
            return false;
        }
        let progress = &mut self.step.progress;
        let version = progress.made(at, self.facts.now);
        if self.schedule.overlap != Overlap::Allow {
            progress.last = Some(LastRun { at, version: self.facts.revision, planned_at: self.facts.now });
            self.last_is_over = false;
        }
        let (kind, outcome) = (RunKind::Planned, Outcome::Created);
        self.step.runs.push(PlannedRun { kind, at, execute_at, outcome, reason, number, version });
        true
    }

    /// Handles instants that were not decided in time, and revoked ones that have passed meanwhile.
    fn make_up_for_missed(&mut self) -> Result<(), LookAgain> {
        let until = Millis(self.facts.now.0 - LATE_AFTER_MS);
        let taken_back = self.missed_of_taken_back(until)?;
        let from = self.step.progress.decided_until;
        let found = self.last_missed(from, until)?;
        if found.is_none() && taken_back.is_empty() {
            return Ok(());
        }
        let window_from = Millis(self.facts.now.0.saturating_sub(self.schedule.missed_window_ms));
        let because = if self.step.progress.was_paused { "it was paused" } else { "no engine ran" };
        let latest = found.map(|pair| pair.0).max(taken_back.last().copied());
        let latest = latest.filter(|latest| *latest > window_from && self.schedule.missed == Missed::Latest);
        let latest = latest.filter(|_| !self.is_exhausted());
        for at in taken_back {
            if self.is_full() {
                return Ok(());
            }
            match self.schedule.missed {
                Missed::All if at > window_from && !self.is_exhausted() => {
                    self.run_late(at, format!("it was missed: {because}"));
                }
                _ if latest == Some(at) => {
                    self.run_late(at, format!("the latest that was missed: {because}"));
                }
                _ => self.note(at, Outcome::Missed, because),
            }
        }
        let Some((last, is_only)) = found else { return Ok(()) };
        match self.schedule.missed {
            Missed::All if last > window_from => self.run_all(from, (window_from, until), because)?,
            Missed::Latest if latest == Some(last) => {
                if !is_only {
                    self.report_missed(from, Millis(last.0 - 1), because)?;
                }
                self.run_late(last, format!("the latest that was missed: {because}"));
                self.step.progress.decide_until(last);
            }
            Missed::All | Missed::Latest | Missed::Skip => {
                self.report_missed(from, last, because)?;
                self.step.progress.decide_until(last);
            }
        }
        Ok(())
    }

    /// Revoked instants whose run would have fired by then, in order. Those that the document no longer has
    /// are dropped: their line says that they were revoked.
    fn missed_of_taken_back(&mut self, until: Millis) -> Result<Vec<Millis>, LookAgain> {
        let mut pending: Vec<Millis> = self.step.progress.pending().collect();
        pending.sort_unstable();
        let decided_until = self.step.progress.decided_until;
        let mut missed = Vec::new();
        for at in pending {
            if !self.timing.has(at, self.budget).map_err(|_| LookAgain { from: decided_until })? {
                self.step.progress.is_recorded(at);
            } else if self.fires_at(at) <= until {
                missed.push(at);
            }
        }
        Ok(missed)
    }

    /// The last undecided instant, and whether it is the only one. Runs that fired while the others were
    /// revoked are skipped.
    fn last_missed(&mut self, from: Millis, until: Millis) -> Result<Option<(Millis, bool)>, LookAgain> {
        let apart = &self.step.progress.decided_apart;
        let mut until = until;
        loop {
            match self.timing.last_within(from, until, self.budget)? {
                Some((at, _)) if apart.contains(&at) => until = Millis(at.0 - 1),
                found => return Ok(found),
            }
        }
    }

    fn run_all(
        &mut self,
        from: Millis,
        (window_from, until): (Millis, Millis),
        because: &str,
    ) -> Result<(), LookAgain> {
        if from < window_from {
            self.report_missed(from, window_from, because)?;
            self.step.progress.decide_until(window_from);
        }
        while let Some(at) = self.upcoming()?.filter(|at| *at <= until) {
            if self.is_full() || self.is_exhausted() {
                break;
            }
            self.run_late(at, format!("it was missed: {because}"));
            self.step.progress.decide_until(at);
        }
        Ok(())
    }

    /// One line for all of a range, its begin exclusive.
    fn report_missed(&mut self, after: Millis, until: Millis, because: &str) -> Result<(), LookAgain> {
        let Some((last, is_only)) = self.last_missed(after, until)? else { return Ok(()) };
        let reason = match self.timing.next_after(after, self.budget)? {
            Some(first) if !is_only => {
                format!("{because}, from {} to this one", timestamp(first))
            }
            _ => because.to_owned(),
        };
        self.note(last, Outcome::Missed, reason);
        Ok(())
    }

    /// Makes a late run: beside the others, or after those that are buffered.
    fn run_late(&mut self, at: Millis, reason: String) {
        let is_free = self.last_is_over && self.step.progress.buffered.is_empty();
        if self.schedule.overlap == Overlap::Allow || is_free {
            self.make(at, self.facts.now, Some(reason));
        } else if self.schedule.overlap == Overlap::CancelOther {
            self.replace_last(at, self.facts.now, Some(reason));
        } else {
            self.buffer(at, BUFFERED_MAX);
        }
    }

    fn buffer(&mut self, at: Millis, most: usize) {
        if self.step.progress.buffered.len() < most {
            self.step.progress.buffered.push(at);
            self.note(at, Outcome::Buffered, "the run before is not over");
        } else {
            self.note(at, Outcome::Skipped, format!("the run before is not over, and {most} wait already"));
        }
    }

    /// The run replaces the last one, which is stopped. A run that this same step has made has not begun: it
    /// is skipped, so that a crash after the commit leaves one run and not several.
    fn replace_last(&mut self, at: Millis, execute_at: Millis, own_reason: Option<String>) {
        let last = self.step.progress.last.filter(|_| !self.last_is_over);
        let is_last =
            |run: &PlannedRun| run.outcome == Outcome::Created && last.is_some_and(|last| last.at == run.at);
        let not_begun = self.step.runs.iter().position(is_last);
        let stopped = if not_begun.is_some() { self.step.cancels } else { last };
        let reason = stopped.map(|last_run| format!("the run of {} was stopped", timestamp(last_run.at)));
        if self.make(at, execute_at, reason.or(own_reason)) {
            self.step.cancels = stopped;
            if let Some(nth) = not_begun {
                self.leave_out_for(nth, at);
            }
        }
    }

    /// A run of this step is skipped after all. Its number stays used.
    fn leave_out_for(&mut self, nth: usize, at: Millis) {
        let Some(run) = self.step.runs.get_mut(nth) else { return };
        let reason = Some(format!("the run of {} took its place", timestamp(at)));
        let left_out = PlannedRun {
            execute_at: run.at,
            outcome: Outcome::Skipped,
            reason,
            number: 0,
            version: 0,
            ..run.clone()
        };
        *run = left_out;
        let left_out_at = run.at;
        let progress = &mut self.step.progress;
        progress.runs = progress.runs.saturating_sub(1);
        progress.left_out += 1;
        progress.made_ahead.retain(|made_at| *made_at != left_out_at);
    }

    /// Plans upcoming instants. Returns the time of the next step.
    fn plan(&mut self) -> Option<Millis> {
        let Facts { now, lead_ms, .. } = *self.facts;
        while self.last_is_over && !self.step.progress.buffered.is_empty() && !self.is_full() {
            let at = self.step.progress.buffered.remove(0);
            self.make(at, now, Some("the run before is over".to_owned()));
        }
        let horizon = now.plus(lead_ms);
        loop {
            let waits = (!self.step.progress.buffered.is_empty()).then(|| now.plus(LOOK_BUFFERED_MS));
            if self.is_exhausted() {
                return waits;
            }
            let at = match self.next() {
                Ok(Some(at)) => at,
                Ok(None) => return waits,
                Err(again) => {
                    let looks_again_at = self.looks_again_after(again);
                    return waits.into_iter().chain([looks_again_at]).min();
                }
            };
            if at > horizon {
                return waits.into_iter().chain([Millis(at.0 - lead_ms)]).min();
            }
            if self.is_full() {
                return Some(self.continues_at());
            }
            let must_wait = self.schedule.overlap != Overlap::Allow
                && !(self.last_is_over && self.step.progress.buffered.is_empty());
            if must_wait && at > now {
                return waits.into_iter().chain([self.looks_again_at(at)]).min();
            }
            match self.schedule.overlap {
                _ if !must_wait => {
                    self.make(at, self.fires_at(at), None);
                }
                Overlap::Skip => self.note(at, Outcome::Skipped, "the run before is not over"),
                Overlap::BufferOne => self.buffer(at, 1),
                Overlap::BufferAll => self.buffer(at, BUFFERED_MAX),
                Overlap::Allow | Overlap::CancelOther => self.replace_last(at, self.fires_at(at), None),
            }
            // Not earlier: this also forgets revoked tasks of this instant, and its next task would have the
            // same version.
            self.step.progress.decide_until(at);
            if must_wait && self.schedule.overlap == Overlap::CancelOther {
                // One run is stopped in one step.
                return Some(now);
            }
        }
    }

    /// While the last run is under way before an instant: more often the nearer that is. Before it has begun it is not over.
    fn looks_again_at(&self, at: Millis) -> Millis {
        let now = self.facts.now;
        let pause_ms = (at.since(now) / 4).clamp(LOOK_MIN_MS, LOOK_MAX_MS);
        let begins_at = self.step.progress.last.map_or(now, |last_run| last_run.at.max(now));
        at.min(begins_at.plus(pause_ms))
    }
}

fn timestamp(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| at.to_string(), |millisecond| millisecond.to_string())
}
