//! The verdict of the checker of histories over a run of chaos: each history that no single task can have had is a broken
//! promise, printed as its shortest beginning, and so is each that could not be decided. Must never judge by itself.

use super::{
    field::Field,
    judge::{Broken, Circumstances, TaskEnd},
};
use anyhow::Context as _;
use punctual_linear::{LinearReport, Recording, SpecRules, check, report::STATES_MAX};
use serde::Serialize;
use std::{collections::HashMap, path::Path};

/// A lease may be made so long before the instant; if its engine dies then, a change is answered "already fired".
const LEASED_AHEAD_US: i64 = 100_000;

#[derive(Debug, Serialize)]
pub(crate) struct HistoryReport {
    /// Histories of tasks, and calls in them.
    pub(crate) tasks: usize,
    pub(crate) calls: usize,
    pub(crate) not_linearizable: usize,
    /// Their search met its bound: nothing is known of them.
    pub(crate) undecided: usize,
    #[serde(skip)]
    pub(crate) text: String,
}

impl From<&LinearReport> for HistoryReport {
    fn from(report: &LinearReport) -> Self {
        Self {
            tasks: report.tasks,
            calls: report.ops,
            not_linearizable: report.violations.len(),
            undecided: report.undecided.len(),
            text: report.to_string(),
        }
    }
}

/// Ends the recording, and adds what it shows to be broken.
pub(crate) fn judged(
    field: &Field,
    ends: &HashMap<usize, TaskEnd>,
    around: &Circumstances,
    broken: &mut Vec<Broken>,
) -> (Recording, HistoryReport) {
    let tasks = field.book.lock().tracks.len();
    let recording = field.recorder.lock().finished(tasks, ends, around);
    let rules = SpecRules { ahead_us: LEASED_AHEAD_US, ..SpecRules::default() };
    let report = check(&recording, rules, STATES_MAX);
    let task = |task: i64| usize::try_from(task).ok();
    let violated = report.violations.iter().map(|violation| Broken {
        promise: "linearizable",
        task: task(violation.task),
        text: violation.to_string(),
    });
    let undecided = report.undecided.iter().map(|undecided| Broken {
        promise: "undecided",
        task: task(*undecided),
        text: "the checker of histories met its bound".to_owned(),
    });
    broken.extend(violated.chain(undecided));
    let report = HistoryReport::from(&report);
    (recording, report)
}

/// Beside the logs, to be checked again.
pub(crate) fn write_if(is_wanted: bool, recording: &Recording, directory: &Path) -> anyhow::Result<()> {
    if !is_wanted {
        return Ok(());
    }
    std::fs::write(directory.join("history.jsonl"), recording.to_lines()).context("the history")
}
