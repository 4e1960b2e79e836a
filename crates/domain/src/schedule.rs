//! A schedule: when a task is repeated, and what happens to a run that outlasts its period or was missed.
//! Pure and deterministic: the same document, instants and facts always give the same runs. Stored as JSON: a
//! field is never renamed, and an unknown one is refused, not ignored.

mod budget;
mod cron;
mod exclusion;
mod fields;
mod identity;
mod invalid;
mod occurrences;
mod progress;
mod step;
mod template;

pub use budget::{Budget, LookAgain};
pub use identity::{RunIdentity, RunKind, UnkeyedIdentity, jitter_ms};
pub use invalid::Invalid;
pub use occurrences::Timing;
pub use progress::{LastRun, Line, Progress, TakenBack};
pub use step::{Facts, Fills, LATE_AFTER_MS, Outcome, PlannedRun, Step, step};
pub use template::{Payload, TaskTemplate};

use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// Most cron expressions, and most exclusions, of one schedule.
pub const RULES_MAX: usize = 100;
/// Most instants of one list.
pub const INSTANTS_MAX: usize = 1_000;
/// Shortest interval.
pub const EVERY_MIN_MS: i64 = 100;
/// Longest interval, jitter and window: 366 days.
pub const SPAN_MAX_MS: i64 = 366 * DAY_MS;
/// Runs that were missed longer ago are not made up for, unless the schedule says otherwise.
pub const MISSED_WINDOW_DEFAULT_MS: i64 = DAY_MS;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// The document that a user submits. Its name and namespace are stored beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub enabled: bool,
    /// Expressions of five or six fields; their instants count together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<i64>,
    /// An instant of the interval, in ms since the epoch. `None` means `start_at`, or the epoch itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Millis>,
    /// The time zone of `cron` and of the dates of `exclude`.
    pub time_zone: String,
    /// Inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Millis>,
    /// Inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u64>,
    /// A run fires up to this much after its instant: each by an amount of its own, which is always the same.
    #[serde(default)]
    pub jitter_ms: i64,
    /// Dates, ranges of dates or instants (`a/b`), or cron expressions, whose instants are excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    pub overlap: Overlap,
    pub missed: Missed,
    pub missed_window_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SchedulePause>,
    pub task: TaskTemplate,
}

/// The treatment of an instant at which the previous run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The new run is left out.
    Skip,
    /// One run waits for the end; further ones are skipped.
    BufferOne,
    /// All wait for each other.
    BufferAll,
    /// They run beside each other.
    #[default]
    Allow,
    /// The old run is stopped, and the new one does not wait for that.
    CancelOther,
}

/// The treatment of runs that were not created at their instant: no engine was available, or the schedule was paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    Skip,
    /// The last one within the window runs, once.
    #[default]
    Latest,
    /// All within the window run.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulePause {
    pub at: Millis,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pause ends by itself then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

impl Schedule {
    /// One without any instants, every other part at its default.
    #[must_use]
    pub fn new(task: TaskTemplate) -> Self {
        Self {
            description: None,
            owner: None,
            enabled: true,
            cron: Vec::new(),
            every_ms: None,
            phase_ms: None,
            at: Vec::new(),
            time_zone: "UTC".to_owned(),
            start_at: None,
            end_at: None,
            max_runs: None,
            jitter_ms: 0,
            exclude: Vec::new(),
            overlap: Overlap::default(),
            missed: Missed::default(),
            missed_window_ms: MISSED_WINDOW_DEFAULT_MS,
            pause: None,
            task,
        }
    }

    /// True if the schedule creates no run at this instant.
    #[must_use]
    pub fn is_paused(&self, now: Millis) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.until.is_none_or(|until| now < until))
    }

    /// Checks every rule of a document, including that it has a next run.
    ///
    /// # Errors
    /// The first invalid field, with its value and a valid form.
    pub fn check(&self, now: Millis, budget: &mut Budget) -> Result<Timing, Invalid> {
        self.check_bounds()?;
        self.task.check()?;
        let timing = Timing::of(self)?;
        // If the budget is used up, there may be a next run: the planner continues the search.
        if timing.next_after(now, budget) == Ok(None) {
            return Err(self.never_again(now));
        }
        Ok(timing)
    }

    fn check_bounds(&self) -> Result<(), Invalid> {
        let sources = [!self.cron.is_empty(), self.every_ms.is_some(), !self.at.is_empty()];
        if !sources.contains(&true) {
            return Err(Invalid::new("cron", "is missing: give `cron`, `every_ms` or `at`"));
        }
        few("cron", self.cron.len(), RULES_MAX)?;
        few("exclude", self.exclude.len(), RULES_MAX)?;
        few("at", self.at.len(), INSTANTS_MAX)?;
        between("every_ms", self.every_ms, EVERY_MIN_MS, SPAN_MAX_MS)?;
        between("phase_ms", self.phase_ms, 0, Millis::MAX.0)?;
        between("jitter_ms", Some(self.jitter_ms), 0, SPAN_MAX_MS)?;
        between("missed_window_ms", Some(self.missed_window_ms), 0, SPAN_MAX_MS)?;
        if self.phase_ms.is_some() && self.every_ms.is_none() {
            return Err(Invalid::new("phase_ms", "belongs to `every_ms`, which is not given"));
        }
        if self.max_runs == Some(0) {
            return Err(Invalid::new("max_runs", "must be at least 1, not 0; leave it out for no limit"));
        }
        match (self.start_at, self.end_at) {
            (Some(start), Some(end)) if end < start => {
                Err(Invalid::new("end_at", "is before `start_at`, so nothing would ever run"))
            }
            _ => Ok(()),
        }
    }

    /// Names the field that prevents all further runs.
    fn never_again(&self, now: Millis) -> Invalid {
        if self.end_at.is_some_and(|end_at| end_at <= now) {
            return Invalid::new("end_at", "has passed, so that nothing would ever run");
        }
        let field = match () {
            () if !self.cron.is_empty() => "cron",
            () if self.every_ms.is_some() => "every_ms",
            () => "at",
        };
        let given = match field {
            "cron" => format!("{:?} has", self.cron.join(", ")),
            _ => "has".to_owned(),
        };
        let because = if self.exclude.is_empty() { "" } else { " that `exclude` leaves" };
        Invalid::new(field, format!("{given} no instant after now{because}, so that nothing would ever run"))
    }
}

fn few(field: &'static str, given: usize, most: usize) -> Result<(), Invalid> {
    if given > most {
        return Err(Invalid::new(field, format!("has {given} entries, and may have at most {most}")));
    }
    Ok(())
}

fn between(field: &'static str, given: Option<i64>, least: i64, most: i64) -> Result<(), Invalid> {
    match given {
        Some(given) if given < least || given > most => {
            Err(Invalid::new(field, format!("must be {least} to {most}, not {given}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
