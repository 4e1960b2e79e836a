//! The account of the demo: what was planned, what ran, how late, how often. Pure: instants are arguments. Trusts
//! neither the engine nor the server: it compares with the time that it chose itself.

use crate::output;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// The lateness after which a task that has not run counts as lost for the live line.
const OVERDUE_MS: i64 = 10_000;
/// An hour, in microseconds; later is counted as this.
const LATEST_US: u64 = 3_600_000_000;

#[derive(Debug)]
pub(super) struct Tally {
    inserted: u64,
    /// Inserts that failed; whether such a task exists is not known.
    not_inserted: u64,
    /// Planned and not run yet: number → `execute_at_ms`.
    waiting: HashMap<u64, i64>,
    /// One bit for each number: it has run.
    ran: Vec<u64>,
    finished: u64,
    early: u64,
    duplicates: u64,
    /// Tasks of other runs, and the user's.
    others: u64,
    lateness_us: Histogram<u64>,
}

/// The result of one run of a demo task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// Below zero: early.
    pub(super) late_us: i64,
    pub(super) is_first: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) inserted: u64,
    pub(super) executed: u64,
    pub(super) early: u64,
    pub(super) lost: u64,
    pub(super) duplicates: u64,
    pub(super) not_inserted: u64,
    /// Tasks that are not due for long; they run at the next start.
    pub(super) unfinished: u64,
    /// Outcomes that did not count, so that their tasks run again.
    pub(super) unsettled: u64,
    /// Left over from earlier runs, or inserted by others.
    pub(super) others: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    pub(super) rate: f64,
    pub(super) took_s: f64,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            inserted: 0,
            not_inserted: 0,
            waiting: HashMap::new(),
            ran: Vec::new(),
            finished: 0,
            early: 0,
            duplicates: 0,
            others: 0,
            lateness_us: Histogram::new_with_bounds(1, LATEST_US, 3)
                .expect("the bounds are constants in order"),
        }
    }

    /// Counts a task before it is sent: it may run before the answer is here.
    pub(super) fn planned(&mut self, number: u64, execute_at_ms: i64) {
        self.inserted += 1;
        self.waiting.insert(number, execute_at_ms);
    }

    /// The insert failed. It may have happened all the same, and then it may run, once.
    pub(super) fn failed(&mut self, number: u64) {
        self.inserted -= 1;
        self.not_inserted += 1;
        self.waiting.remove(&number);
    }

    pub(super) fn ran(&mut self, number: u64, execute_at_ms: i64, at: Duration) -> Ran {
        let at_us = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let late_us = at_us.saturating_sub(execute_at_ms.saturating_mul(1_000));
        let is_first = self.mark(number);
        self.waiting.remove(&number);
        self.early += u64::from(late_us < 0);
        self.duplicates += u64::from(!is_first);
        if is_first {
            self.finished += 1;
            self.lateness_us.saturating_record(u64::try_from(late_us).unwrap_or(0).max(1));
        }
        Ran { late_us, is_first }
    }

    pub(super) fn ran_other(&mut self) {
        self.others += 1;
    }

    /// Marks the task. Returns true at the first time.
    fn mark(&mut self, number: u64) -> bool {
        let word = usize::try_from(number / 64).unwrap_or(usize::MAX);
        let bit = 1 << (number % 64);
        if self.ran.len() <= word {
            self.ran.resize(word + 1, 0);
        }
        let Some(word) = self.ran.get_mut(word) else { return true };
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }

    pub(super) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// `is_over`: whatever waits now is not waited for any more, because it had its time.
    pub(super) fn summary(&self, now_ms: i64, took: Duration, is_over: bool) -> Summary {
        let overdue = self.waiting.values().filter(|at| is_over || now_ms - **at > OVERDUE_MS).count();
        let lost = u64::try_from(overdue).unwrap_or(u64::MAX);
        let ms = |us: u64| Duration::from_micros(us).as_secs_f64() * 1_000.0;
        let quantile =
            |q| if self.lateness_us.is_empty() { 0.0 } else { ms(self.lateness_us.value_at_quantile(q)) };
        let took_s = took.as_secs_f64();
        Summary {
            inserted: self.inserted,
            executed: self.finished,
            early: self.early,
            lost,
            duplicates: self.duplicates,
            not_inserted: self.not_inserted,
            unfinished: u64::try_from(self.waiting.len()).unwrap_or(u64::MAX) - lost,
            unsettled: 0,
            others: self.others,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            max_ms: if self.lateness_us.is_empty() { 0.0 } else { ms(self.lateness_us.max()) },
            rate: per_second(self.finished, took_s),
            took_s,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn per_second(count: u64, took_s: f64) -> f64 {
    count as f64 / took_s.max(0.001)
}

impl Summary {
    /// One sentence for each promise that does not hold.
    pub(super) fn broken(&self) -> Vec<String> {
        let count = output::count;
        let promises = [
            (self.lost, "kept: {} demo tasks were accepted and did not run"),
            (self.early, "never early: {} demo tasks ran before their time"),
            (self.duplicates, "once: {} demo tasks ran a second time"),
            (self.unsettled, "once: {} outcomes did not count, and their tasks run again"),
            (self.not_inserted, "accepted: {} inserts of demo tasks failed"),
        ];
        promises
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, said)| said.replace("{}", &count(*number)))
            .collect()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let count = output::count;
        let mut facts = vec![
            (
                "demo tasks",
                format!("{} in {:.1} s, {:.0} a second", count(self.executed), self.took_s, self.rate),
            ),
            (
                "lateness",
                format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", self.p50_ms, self.p99_ms, self.max_ms),
            ),
            ("early", count(self.early)),
            ("lost", count(self.lost)),
            ("duplicates", count(self.duplicates)),
        ];
        if self.unfinished > 0 {
            facts.push(("unfinished", format!("{}, they run at the next start", count(self.unfinished))));
        }
        if self.others > 0 {
            facts.push(("others", format!("{} of earlier runs or of yours", count(self.others))));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_MS: i64 = 1_000;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn summary(tally: &Tally, is_over: bool) -> Summary {
        tally.summary(AT_MS, Duration::from_secs(2), is_over)
    }

    fn with_two() -> Tally {
        let mut tally = Tally::new();
        tally.planned(0, AT_MS);
        tally.planned(64, AT_MS);
        tally
    }

    #[test]
    fn a_run_in_which_every_task_ran_once_and_in_time_breaks_nothing() {
        let mut tally = with_two();
        assert_eq!(tally.ran(0, AT_MS, us(1_000_000)), Ran { late_us: 0, is_first: true });
        assert_eq!(tally.ran(64, AT_MS, us(1_002_000)), Ran { late_us: 2_000, is_first: true });
        assert!(tally.is_drained());
        let summary = summary(&tally, true);
        assert_eq!(summary.broken(), Vec::<String>::new());
        assert_eq!((summary.executed, summary.lost, summary.rate), (2, 0, 1.0));
        assert!((summary.max_ms - 2.0).abs() < 0.01, "{summary:?}");
    }

    #[test]
    fn a_microsecond_before_its_time_is_early() {
        let mut tally = with_two();
        tally.ran(0, AT_MS, us(999_999));
        assert!(summary(&tally, false).broken()[0].contains("never early: 1 "));
    }

    #[test]
    fn a_second_run_is_a_duplicate_and_does_not_count_as_executed() {
        let mut tally = with_two();
        for _ in 0..2 {
            tally.ran(64, AT_MS, us(1_000_000));
        }
        let summary = summary(&tally, false);
        assert_eq!((summary.executed, summary.duplicates, summary.unfinished), (1, 1, 1));
        assert!(summary.broken()[0].contains("once: 1 "));
    }

    #[test]
    fn what_has_not_run_is_lost_when_it_is_over_or_long_overdue_and_unfinished_before() {
        let tally = with_two();
        assert_eq!((summary(&tally, false).lost, summary(&tally, false).unfinished), (0, 2));
        assert_eq!(tally.summary(AT_MS + OVERDUE_MS + 1, us(1), false).lost, 2);
        assert!(summary(&tally, true).broken()[0].contains("kept: 2 "));
    }

    #[test]
    fn an_insert_that_failed_is_told_and_is_neither_lost_nor_a_duplicate_if_it_runs() {
        let mut tally = with_two();
        tally.failed(0);
        tally.ran(0, AT_MS, us(1_000_000));
        tally.ran(64, AT_MS, us(1_000_000));
        let summary = summary(&tally, true);
        assert_eq!((summary.lost, summary.duplicates, summary.not_inserted), (0, 0, 1));
        assert_eq!(summary.broken().len(), 1);
    }

    #[test]
    fn tasks_of_others_break_nothing() {
        let mut tally = with_two();
        tally.ran_other();
        assert_eq!((summary(&tally, false).others, summary(&tally, false).broken()), (1, Vec::new()));
    }
}
