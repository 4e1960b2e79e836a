//! How late the tasks of the databases came that were well, while the way to another was broken (requirement A6: one
//! fault must not stop the rest). Computes from the records alone; must never judge.

use super::{
    book::{Book, Track},
    plan::What,
    tasks::{Lane, TaskDue},
};
use crate::measure::{Percentiles, Spans};
use punctual_domain::place::TaskRef;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The span in which one database was unavailable, for some engine or for all.
#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) what: What,
    pub(crate) whom: String,
    pub(crate) database: u64,
    pub(crate) from_us: i64,
    pub(crate) to_us: i64,
}

/// First receipt − due time, or − acknowledgement where that was later, of tasks with an unchanged due time and no
/// limit held back.
#[derive(Debug, Serialize)]
pub(crate) struct Healthy {
    /// Null: due while nothing was broken.
    pub(crate) what: Option<String>,
    /// The unavailable database had the catalog: owners may have changed, and these include a takeover.
    pub(crate) is_of_catalog: bool,
    pub(crate) late: Percentiles,
}

/// The first is what was due in `peace`. `databases`: of each partition.
pub(crate) fn lateness(
    book: &Book,
    databases: &HashMap<u16, u64>,
    away: &[Away],
    peace: &[(i64, i64)],
) -> Vec<Healthy> {
    let mut spans: Vec<Spans> = std::iter::repeat_with(Spans::default).take(away.len() + 1).collect();
    for (database, due_us, late_us) in book.tracks.iter().filter_map(|track| arrival(track, databases)) {
        let is_within = |&(from_us, to_us): &(i64, i64)| from_us <= due_us && due_us < to_us;
        let (in_peace, in_faults) = spans.split_first_mut().expect("one more than there are faults");
        if peace.iter().any(is_within) {
            in_peace.record_us(late_us);
        }
        for (fault, spans) in away.iter().zip(in_faults) {
            if fault.database != database && is_within(&(fault.from_us, fault.to_us)) {
                spans.record_us(late_us);
            }
        }
    }
    let of = |away: &Away| (Some(format!("{} {}", away.what.name(), away.whom)), away.database == CATALOG);
    let whats = std::iter::once((None, false)).chain(away.iter().map(of));
    let reported = whats.zip(&spans);
    reported
        .map(|((what, is_of_catalog), spans)| Healthy { what, is_of_catalog, late: spans.percentiles() })
        .collect()
}

/// The span from the beginning of a fault that nothing else came with until all had recovered from it.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) what: String,
    pub(crate) at_s: f64,
    pub(crate) from_us: i64,
    pub(crate) to_us: i64,
}

/// The lateness of everything that was due within a window, whichever database has it: the cost of the fault, however
/// soon it was over.
#[derive(Debug, Serialize)]
pub(crate) struct OfWindow {
    pub(crate) what: String,
    /// Seconds since the start of the load.
    pub(crate) at_s: f64,
    pub(crate) late: Percentiles,
}

pub(crate) fn of_windows(book: &Book, databases: &HashMap<u16, u64>, windows: &[Window]) -> Vec<OfWindow> {
    let mut spans: Vec<Spans> = std::iter::repeat_with(Spans::default).take(windows.len()).collect();
    for (_, due_us, late_us) in book.tracks.iter().filter_map(|track| arrival(track, databases)) {
        let within = windows
            .iter()
            .zip(&mut spans)
            .filter(|(window, _)| (window.from_us..window.to_us).contains(&due_us));
        within.for_each(|(_, spans)| spans.record_us(late_us));
    }
    let reported = windows.iter().zip(&spans);
    reported
        .map(|(window, spans)| OfWindow {
            what: window.what.clone(),
            at_s: window.at_s,
            late: spans.percentiles(),
        })
        .collect()
}

/// The first database: it has the catalog, and with it the heartbeats of all engines.
const CATALOG: u64 = 0;

/// The lateness above which a task of a healthy database is reported.
const LATE_US: i64 = 100_000;

/// The number of each task that was late while another database was unavailable, with the fault and the known facts.
pub(crate) fn late(book: &Book, databases: &HashMap<u16, u64>, away: &[Away]) -> Vec<(usize, Value)> {
    let of = |fault: &Away| {
        let what = format!("{} {}", fault.what.name(), fault.whom);
        let is_late = |(_, track): &(usize, &Track)| {
            arrival(track, databases).is_some_and(|(database, due_us, late_us)| {
                database != fault.database
                    && (fault.from_us..fault.to_us).contains(&due_us)
                    && late_us > LATE_US
            })
        };
        let reported = move |(n, track): (usize, &Track)| {
            let (_, due_us, late_us) = arrival(track, databases).unwrap_or_default();
            let place = track.reference.as_ref().and_then(|reference| reference.parse::<TaskRef>().ok());
            let reported = json!({
                "fault": what, "fault_for_us": fault.to_us - fault.from_us, "due_after_us": due_us - fault.from_us,
                "late_us": late_us, "partition": place.map(|place| place.partition.0), "track": track,
            });
            (n, reported)
        };
        book.tracks.iter().enumerate().filter(is_late).map(reported).collect::<Vec<_>>()
    };
    away.iter().flat_map(of).collect()
}

/// The database of a task, its due time, and its lateness.
fn arrival(track: &Track, databases: &HashMap<u16, u64>) -> Option<(u64, i64, i64)> {
    // A delay begins when the engine gets to it, which an earlier fault may have kept from it.
    let TaskDue::AtMs(due_ms) = track.spec.due else { return None };
    if track.change.is_some() || track.spec.lane == Lane::Limited {
        return None;
    }
    let reference: TaskRef = track.reference.as_ref()?.parse().ok()?;
    let database = *databases.get(&reference.partition.0)?;
    let due_us = (due_ms * 1_000).max(track.acked_us?);
    let first = track.receipts.first()?;
    Some((database, due_us, first.at_us - due_us))
}

impl Healthy {
    pub(crate) fn line(&self) -> String {
        in_words(self.late, self.what.as_deref().unwrap_or("nothing broken"))
    }
}

impl OfWindow {
    pub(crate) fn line(&self) -> String {
        in_words(self.late, &format!("{} at {:.1} s", self.what, self.at_s))
    }
}

fn in_words(late: Percentiles, what: &str) -> String {
    let Percentiles { count, p50_ms, p99_ms, max_ms, .. } = late;
    format!("{count:>7} tasks late by p50 {p50_ms:.1} p99 {p99_ms:.1} max {max_ms:.1} ms: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::{book::Receipt, tasks::Spec};
    use punctual_domain::{place::Partition, time::Millis};

    const DUE_MS: i64 = 11_000;

    /// Due and acknowledged at those times, in that partition, and came so late.
    fn add(book: &mut Book, lane: Lane, partition: u16, acked_us: i64, late_us: i64) {
        let due = TaskDue::AtMs(DUE_MS);
        let spec = Spec { lane, due, priority: 3, max_attempts: 1, fails: 0, work_ms: 0, change: None };
        let n = book.planned(spec);
        book.sent(n, 1);
        let reference = TaskRef { partition: Partition(partition), due_at: Millis(DUE_MS), id: 1 };
        book.acknowledged(n, acked_us, &reference.to_string(), true);
        let at_us = (DUE_MS * 1_000).max(acked_us) + late_us;
        let receipt = Receipt { attempt: 1, asked_us: 0, at_us, executor: "e".to_owned(), report: None };
        book.received(n, receipt).unwrap();
    }

    #[test]
    fn only_what_was_due_meanwhile_in_the_other_databases_counts() {
        let mut book = Book::default();
        add(&mut book, Lane::Plain, 0, 10, 90_000);
        add(&mut book, Lane::Plain, 1, 10, 3_000);
        add(&mut book, Lane::Plain, 1, DUE_MS * 1_000 + 50, 7_000);
        // Waits for a slot, whatever is broken.
        add(&mut book, Lane::Limited, 1, 10, 500_000);
        // Was acknowledged when all was over.
        add(&mut book, Lane::Plain, 1, DUE_MS * 1_000 + 2_000_000, 40_000);
        let away = |database, (from_us, to_us)| Away {
            what: What::MysqlCut,
            whom: "all engines".to_owned(),
            database,
            from_us,
            to_us,
        };
        let (due_us, databases) = (DUE_MS * 1_000, HashMap::from([(0, 0), (1, 1)]));
        let meanwhile = (due_us - 1_000, due_us + 1_000);
        let faults = [away(0, meanwhile), away(1, meanwhile), away(0, (0, due_us))];
        let reported = lateness(&book, &databases, &faults, &[(due_us + 1_000_000, due_us + 3_000_000)]);
        let of = |n: usize| (reported[n].late.count, reported[n].late.max_ms.round());
        assert_eq!([of(0), of(1), of(2), of(3)], [(1, 40.0), (2, 7.0), (1, 90.0), (0, 0.0)]);
        assert_eq!(reported[1].what.as_deref(), Some("mysql-cut all engines"));
        assert_eq!([0, 1, 2, 3].map(|n: usize| reported[n].is_of_catalog), [false, true, false, true]);
    }

    #[test]
    fn a_fault_tells_the_worst_of_all_that_was_due_from_its_beginning_until_all_had_recovered() {
        let mut book = Book::default();
        add(&mut book, Lane::Plain, 0, 10, 1_300_000);
        add(&mut book, Lane::Plain, 1, 10, 3_000);
        let due_us = DUE_MS * 1_000;
        let window = |from_us, to_us| Window {
            what: "redis-one-silent engine 1".to_owned(),
            at_s: 3.0,
            from_us,
            to_us,
        };
        let windows = [window(due_us - 5, due_us + 5), window(due_us + 1, due_us + 5)];
        let reported = of_windows(&book, &HashMap::from([(0, 0), (1, 1)]), &windows);
        assert_eq!(
            [&reported[0], &reported[1]]
                .map(|of_window| (of_window.late.count, of_window.late.max_ms.round())),
            [(2, 1_300.0), (0, 0.0)]
        );
        assert!(reported[0].line().ends_with("redis-one-silent engine 1 at 3.0 s"), "{}", reported[0].line());
    }
}
