//! The results of a run of chaos: a line for each fault and a verdict, or one JSON object. Fields are only ever
//! added.

use super::{
    healthy::{Healthy, OfWindow},
    history::HistoryReport,
    inbox::InboxFound,
    judge::Broken,
    plan::PlannedFault,
};
use crate::measure::Percentiles;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _};

#[derive(Debug, Serialize)]
pub(crate) struct ChaosReport {
    pub(crate) seed: u64,
    pub(crate) store: String,
    pub(crate) hot: String,
    pub(crate) engines: usize,
    pub(crate) databases: usize,
    /// True if every promise was kept, everything recovered, and all was quiet in the end.
    pub(crate) ok: bool,
    /// Why not.
    pub(crate) broken: Vec<String>,
    /// The number of times that each promise was broken.
    pub(crate) promises: BTreeMap<&'static str, usize>,
    pub(crate) faults: Vec<FaultLine>,
    pub(crate) counts: ChaosCounts,
    /// What the checker says of the tasks' histories.
    pub(crate) history: HistoryReport,
    /// First receipt at an executor − due time, of unchanged tasks; what faults held up is in it.
    pub(crate) lateness: Percentiles,
    /// The lateness of healthy databases while the way to another was broken and nothing else was; the first entry is
    /// in peace.
    pub(crate) healthy: Vec<Healthy>,
    /// The lateness of everything that was due from the beginning of a fault of a way, alone, until all had recovered
    /// from it.
    pub(crate) ways: Vec<OfWindow>,
    /// Tasks that a user's own transactions inserted; null without MySQL.
    pub(crate) inbox: Option<InboxFound>,
    /// The time from the last fault's recovery until all was quiet.
    pub(crate) quiet_after_s: f64,
    /// Logs of the engines and records of the tasks; null when all was well and they are gone.
    pub(crate) logs: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ChaosCounts {
    pub(crate) acknowledged: usize,
    /// Inserted with an answer that never came: they may be there.
    pub(crate) unknown: usize,
    pub(crate) executions: usize,
    pub(crate) outcomes_accepted: usize,
    pub(crate) outcomes_stale: usize,
    /// Calls for work that ended without an answer.
    pub(crate) lost_calls: usize,
    pub(crate) cancels_confirmed: usize,
    pub(crate) moves_confirmed: usize,
    pub(crate) changes_refused: usize,
    pub(crate) changes_unknown: usize,
    /// The number of tasks by their end.
    pub(crate) ends: BTreeMap<String, usize>,
    pub(crate) faults: usize,
    pub(crate) faults_impossible: usize,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultLine {
    /// Seconds since the start of the load.
    pub(crate) at_s: f64,
    pub(crate) what: String,
    pub(crate) whom: String,
    /// The duration of the fault.
    pub(crate) for_s: f64,
    /// The time from its end (of two that came together: of the later one) until everything due by then was done and
    /// each engine was ready; null if that was not in time.
    pub(crate) recovered_after_s: Option<f64>,
    /// Why it did not happen.
    pub(crate) impossible: Option<String>,
}

impl FaultLine {
    pub(crate) fn new(fault: &PlannedFault, at_s: f64) -> Self {
        let (what, whom) = (fault.what.name(), fault.whom());
        Self { at_s, what, whom, for_s: 0.0, recovered_after_s: None, impossible: None }
    }

    pub(crate) fn line(&self) -> String {
        let head = format!("{:>7.1} s  {:<19} {:<26}", self.at_s, self.what, self.whom);
        match (&self.impossible, self.recovered_after_s) {
            (Some(why), _) => format!("{head} not done: {why}"),
            (None, Some(after_s)) => {
                format!("{head} for {:>5.1} s, recovered after {after_s:>5.1} s", self.for_s)
            }
            (None, None) => format!("{head} for {:>5.1} s, NOT RECOVERED", self.for_s),
        }
    }
}

/// The maximum number of violations of each promise that are described.
const REPORTED_MAX: usize = 8;

pub(crate) fn in_words(broken: &[Broken]) -> (BTreeMap<&'static str, usize>, Vec<String>) {
    let (mut promises, mut reported) = (BTreeMap::new(), Vec::new());
    for broken in broken {
        let count = promises.entry(broken.promise).or_insert(0);
        *count += 1;
        if *count <= REPORTED_MAX {
            let task = broken.task.map_or_else(String::new, |n| format!("task {n}: "));
            reported.push(format!("{}: {task}{}", broken.promise, broken.text));
        }
    }
    (promises, reported)
}

impl ChaosReport {
    fn write_lateness(&self, text: &mut String) {
        if self.databases > 1 {
            let heads = [
                "databases that were well, while the way to another was broken:",
                "the same, while that was the catalog's database (takeovers are in it):",
            ];
            for (head, is_of_catalog) in heads.into_iter().zip([false, true]) {
                let mut reported =
                    self.healthy.iter().filter(|healthy| healthy.is_of_catalog == is_of_catalog).peekable();
                if reported.peek().is_some() {
                    let _ = writeln!(text, "{head}");
                }
                reported.for_each(|healthy| text.extend([healthy.line().as_str(), "\n"]));
            }
        }
        if !self.ways.is_empty() {
            let _ =
                writeln!(text, "everything that was due while a way was broken, until all had recovered:");
        }
        self.ways.iter().for_each(|way| text.extend([way.line().as_str(), "\n"]));
    }

    /// The lines of faults have been printed as they happened.
    pub(crate) fn text(&self) -> String {
        let counts = &self.counts;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} faults; {} tasks acknowledged, {} unknown; {} executions, {} outcomes accepted, {} stale; \
             {} cancels and {} moves confirmed, {} refused, {} unknown",
            counts.faults,
            counts.acknowledged,
            counts.unknown,
            counts.executions,
            counts.outcomes_accepted,
            counts.outcomes_stale,
            counts.cancels_confirmed,
            counts.moves_confirmed,
            counts.changes_refused,
            counts.changes_unknown,
        );
        let ends: Vec<String> = counts.ends.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let _ = writeln!(
            text,
            "ends: {}; late p50 {:.1} p99 {:.1} max {:.1} ms; quiet after {:.1} s",
            ends.join(", "),
            self.lateness.p50_ms,
            self.lateness.p99_ms,
            self.lateness.max_ms,
            self.quiet_after_s,
        );
        let _ = writeln!(text, "{}", self.history.text);
        if let Some(inbox) = &self.inbox {
            let InboxFound { committed, tasks, lost, out_of_order, doubled, commit_to_accepted } = inbox;
            let _ = writeln!(
                text,
                "inbox: {committed} rows committed, {tasks} tasks, {lost} lost ({out_of_order} out of order), {doubled} doubled; \
                 from commit to accepted, in peace, p50 {:.0} p99 {:.0} max {:.0} ms",
                commit_to_accepted.p50_ms, commit_to_accepted.p99_ms, commit_to_accepted.max_ms,
            );
        }
        self.write_lateness(&mut text);
        for word in &self.broken {
            let _ = writeln!(text, "  {word}");
        }
        if let Some(logs) = &self.logs {
            let _ = writeln!(text, "logs and records: {logs}");
        }
        let verdict =
            if self.ok { "every promise held".to_owned() } else { format!("BROKEN {:?}", self.promises) };
        let _ = writeln!(text, "{verdict} (seed {}, {} and {})", self.seed, self.store, self.hot);
        text
    }
}
