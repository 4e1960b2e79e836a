//! One line a second on stderr while a run continues. Never on stdout, which belongs to the report.

use crate::{check::Checker, clock::now_us};
use std::io::{IsTerminal as _, Write as _};

const INTERVAL_US: i64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct LoadProgress {
    is_shown: bool,
    started_us: i64,
    next_us: i64,
    accepted_before: u64,
}

impl LoadProgress {
    /// Creates the display. Without a request, it is shown to people only: if stderr is a terminal.
    pub(crate) fn new(is_asked: bool) -> Self {
        let now_us = now_us();
        let is_shown = is_asked || std::io::stderr().is_terminal();
        Self { is_shown, started_us: now_us, next_us: now_us + INTERVAL_US, accepted_before: 0 }
    }

    pub(crate) fn tick(&mut self, checker: &parking_lot::Mutex<Checker>) {
        if !self.is_shown || now_us() < self.next_us {
            return;
        }
        self.next_us += INTERVAL_US;
        let line = self.line(&checker.lock());
        note(&line);
    }

    /// The same with a line of another kind.
    pub(crate) fn say(&mut self, line: &str) {
        if self.is_shown && now_us() >= self.next_us {
            self.next_us += INTERVAL_US;
            note(&format!("{:>4} s  {line}", (now_us() - self.started_us) / 1_000_000));
        }
    }

    fn line(&mut self, checker: &Checker) -> String {
        let counts = checker.so_far();
        let rate =
            counts.outcomes_accepted - std::mem::replace(&mut self.accepted_before, counts.outcomes_accepted);
        let lateness = checker.measured.lateness.percentiles();
        format!(
            "{:>4} s  inserted {:>9}  executed {:>9}  done {:>9}  open {:>9}  {:>6}/s  late p50 {:.1} p99 {:.1} ms",
            (now_us() - self.started_us) / 1_000_000,
            counts.inserted,
            counts.executions,
            counts.outcomes_accepted,
            checker.open(),
            rate,
            lateness.p50_ms,
            lateness.p99_ms,
        )
    }
}

/// A line of progress; a closed stderr is no reason to end a run.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
