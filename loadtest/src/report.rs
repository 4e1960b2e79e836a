//! The results of a run, as one JSON object or as a table. Fields are only ever added: scripts read them.

use crate::{check::Counts, measure::Percentiles, proc::Usage};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

pub(crate) trait Report: Serialize {
    /// The table for people, without the verdict.
    fn table(&self) -> String;
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunReport {
    pub(crate) scenario: String,
    pub(crate) tasks: u64,
    pub(crate) seed: u64,
    pub(crate) queue: String,
    /// True if every promise was kept, everything was done in time, and the run was what had been planned.
    pub(crate) ok: bool,
    /// Why not.
    pub(crate) broken: Vec<String>,
    pub(crate) counts: Counts,
    pub(crate) rates: Rates,
    /// First receipt at an executor − `execute_at`.
    pub(crate) lateness: Percentiles,
    /// `fired_at` − `execute_at`, as the server says.
    pub(crate) fired_lateness: Percentiles,
    /// First receipt at an executor − `fired_at`.
    pub(crate) hand_over: Percentiles,
    /// Insert call to answer.
    pub(crate) insert: Percentiles,
    /// Insert call − its planned instant.
    pub(crate) insert_lag: Percentiles,
    /// Outcome call to answer.
    pub(crate) outcome: Percentiles,
    /// Longest time without any receipt, from the first due time to the last receipt.
    pub(crate) longest_gap_ms: f64,
    pub(crate) kill: Option<KillReport>,
    /// The faults in the order in which they began.
    pub(crate) faults: Vec<FaultReport>,
    pub(crate) outage: Option<OutageReport>,
    /// With --count: the calls to MariaDB and Redis.
    pub(crate) counted: Option<CountReport>,
    /// All engines together.
    pub(crate) server: Option<ProcessReport>,
    pub(crate) mariadb: Option<ProcessReport>,
    pub(crate) redis: Option<ProcessReport>,
    pub(crate) loadtest: Option<ProcessReport>,
}

/// The counts per task of the run, except the hand-overs, which are transactions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountReport {
    pub(crate) redis_calls: f64,
    /// Of the calls, those of scripts.
    pub(crate) scripts: f64,
    /// BEGIN, COMMIT and ROLLBACK among them.
    pub(crate) statements: f64,
    pub(crate) transactions: f64,
    pub(crate) transactions_undone: f64,
    /// Reads of tasks before a hand-over, in its transaction, and the rows that they found.
    pub(crate) looks: f64,
    pub(crate) rows_read_before: f64,
    /// Rows of tasks that were locked by a read; those of them that were not changed then, and what was undone.
    pub(crate) rows_locked: f64,
    pub(crate) rows_locked_for_nothing: f64,
    /// The hand-overs among the undone transactions.
    pub(crate) hand_overs: u64,
    pub(crate) hand_overs_undone: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Accepted tasks over first call to last answer.
    pub(crate) insert_per_s: f64,
    pub(crate) insert_s: f64,
    /// Accepted outcomes over first due time to last accepted outcome; in a burst, the drain.
    pub(crate) end_to_end_per_s: f64,
    /// First due time to last accepted outcome.
    pub(crate) end_to_end_s: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KillReport {
    /// Seconds since the start of the run.
    pub(crate) killed_after_s: f64,
    /// Kill to readiness of the new process.
    pub(crate) ready_after_ms: f64,
    /// Kill to the next task in an executor's hands; none came if null.
    pub(crate) first_task_after_ms: Option<f64>,
}

/// A fault of one of several engines, and the executors' observations until the next such event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultReport {
    /// kill, stop or pause
    pub(crate) what: String,
    pub(crate) engine: usize,
    /// Seconds since the start of the run.
    pub(crate) after_s: f64,
    /// The duration of a pause, to SIGCONT, or of a stop, from SIGTERM to its end. Null if it was not over when the
    /// run was.
    pub(crate) lasted_ms: Option<f64>,
    /// The time until an executor received the next task.
    pub(crate) first_task_after_ms: Option<f64>,
    pub(crate) longest_gap_ms: f64,
    /// The time until the last task that was more than 250 ms late; null if there was none.
    pub(crate) late_until_ms: Option<f64>,
}

/// The outage of the Redis or MariaDB of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutageReport {
    /// redis-kill, redis-pause, …
    pub(crate) what: String,
    /// Seconds since the start of the run.
    pub(crate) after_s: f64,
    /// The time until it answered again. Null if it was not over when the run was.
    pub(crate) lasted_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ProcessReport {
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_system_s: f64,
    /// User and system time over the tasks of the run.
    pub(crate) cpu_us_per_task: f64,
    pub(crate) rss_peak_mib: f64,
}

impl ProcessReport {
    pub(crate) fn new(usage: Usage, tasks: u64) -> Self {
        Self {
            cpu_user_s: usage.user_us as f64 / 1e6,
            cpu_system_s: usage.system_us as f64 / 1e6,
            cpu_us_per_task: usage.cpu_us() as f64 / tasks.max(1) as f64,
            rss_peak_mib: usage.rss_peak_kib as f64 / 1024.0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IdleReport {
    pub(crate) tasks: u64,
    pub(crate) insert_per_s: f64,
    pub(crate) insert_s: f64,
    /// The use of one core, while nothing was due; null without a process to read.
    pub(crate) idle_cpu_percent: Option<f64>,
    /// The same of a MariaDB and a Redis that were started with the server.
    pub(crate) mariadb_cpu_percent: Option<f64>,
    pub(crate) redis_cpu_percent: Option<f64>,
    pub(crate) rss_before_mib: Option<f64>,
    pub(crate) rss_mib: Option<f64>,
    pub(crate) rss_peak_mib: Option<f64>,
    /// Receipt − `execute_at` of each task due in 10 ms, in order.
    pub(crate) probe_lateness_ms: Vec<f64>,
    /// Insert call to answer, of each.
    pub(crate) probe_insert_ms: Vec<f64>,
}

/// The result of a limit while executors were killed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LimitReport {
    pub(crate) tasks: usize,
    pub(crate) limit: u32,
    /// The maximum number of concurrent executions, by the executors' own clocks.
    pub(crate) most_at_once: usize,
    pub(crate) finished: u64,
    /// Begun, by the executors' own account: more than tasks, where some were killed.
    pub(crate) executions: usize,
    pub(crate) executors_killed: usize,
    pub(crate) worked_s: f64,
    /// The number of held slots at the end.
    pub(crate) slots_held: u64,
}

impl Report for LimitReport {
    fn table(&self) -> String {
        let mut out = format!("limit: {} tasks, at most {} at once\n\n", self.tasks, self.limit);
        line(&mut out, "most at once", format_args!("{}", self.most_at_once));
        line(&mut out, "finished", format_args!("{} in {:.1} s", self.finished, self.worked_s));
        let (executions, killed) = (self.executions, self.executors_killed);
        line(&mut out, "executions", format_args!("{executions}, {killed} executors killed"));
        line(&mut out, "slots held at the end", format_args!(" {}", self.slots_held));
        out
    }
}

impl FaultReport {
    fn write(&self, out: &mut String) {
        let ms = |number: Option<f64>, none: &str| {
            number.map_or_else(|| none.into(), |number| format!("{number:.0} ms"))
        };
        line(
            out,
            &format!("{} of engine {}", self.what, self.engine),
            format_args!(
                "at {:.1} s, lasted {}; next task after {}, longest gap {:.0} ms, tasks late for {}",
                self.after_s,
                ms(self.lasted_ms, "to the end"),
                ms(self.first_task_after_ms, "the end"),
                self.longest_gap_ms,
                ms(self.late_until_ms, "0 ms")
            ),
        );
    }
}

impl RunReport {
    pub(crate) fn table(&self) -> String {
        let mut out =
            format!("{}: {} tasks, queue {}, seed {}\n\n", self.scenario, self.tasks, self.queue, self.seed);
        self.write_spans(&mut out);
        self.write_counts(&mut out);
        self.write_rates(&mut out);
        self.counted.iter().for_each(|counted| counted.write(&mut out));
        self.write_processes(&mut out);
        write_verdict(&mut out, self.ok, &self.broken);
        out
    }

    fn write_spans(&self, out: &mut String) {
        line(
            out,
            "ms",
            format_args!("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "count", "p50", "p90", "p99", "p99.9", "max"),
        );
        for (name, percentiles) in [
            ("lateness at executor", self.lateness),
            ("  fired by server", self.fired_lateness),
            ("  hand-over", self.hand_over),
            ("insert call", self.insert),
            ("  behind its plan", self.insert_lag),
            ("outcome call", self.outcome),
        ] {
            let [p50, p90, p99, p999, max] = [
                percentiles.p50_ms,
                percentiles.p90_ms,
                percentiles.p99_ms,
                percentiles.p999_ms,
                percentiles.max_ms,
            ];
            let spans = format_args!("{p50:>9.2} {p90:>9.2} {p99:>9.2} {p999:>9.2} {max:>9.2}");
            line(out, name, format_args!("{:>9} {spans}", percentiles.count));
        }
        out.push('\n');
    }

    fn write_counts(&self, out: &mut String) {
        let counts = &self.counts;
        line(
            out,
            "inserted",
            format_args!(
                "{} (refused {}, repeated {}, existing {}, replaced {}, after due {})",
                counts.inserted,
                counts.refused,
                counts.inserts_repeated,
                counts.existing,
                counts.replaced,
                counts.inserted_after_due
            ),
        );
        line(
            out,
            "executed",
            format_args!("{} (tasks more than once {})", counts.executions, counts.executed_again),
        );
        line(
            out,
            "outcomes accepted",
            format_args!(
                "{} (stale {}, learnt by asking {})",
                counts.outcomes_accepted, counts.outcomes_stale, counts.settled_by_asking
            ),
        );
        line(
            out,
            "breaches",
            format_args!(
                "lost {}, early {}, completed twice {}, run after completion {}",
                counts.lost, counts.early, counts.completed_twice, counts.run_after_completion
            ),
        );
        out.push('\n');
    }

    fn write_rates(&self, out: &mut String) {
        let rates = &self.rates;
        line(out, "insert", format_args!("{:.0}/s ({:.2} s)", rates.insert_per_s, rates.insert_s));
        line(
            out,
            "end to end",
            format_args!("{:.0}/s ({:.2} s)", rates.end_to_end_per_s, rates.end_to_end_s),
        );
        if let Some(kill) = &self.kill {
            let next =
                kill.first_task_after_ms.map_or_else(|| "never".into(), |ms| format!("after {ms:.0} ms"));
            line(
                out,
                "killed",
                format_args!(
                    "at {:.1} s, ready after {:.0} ms, next task {next}",
                    kill.killed_after_s, kill.ready_after_ms
                ),
            );
        }
        line(out, "longest gap", format_args!("{:.0} ms without a task", self.longest_gap_ms));
        self.faults.iter().for_each(|fault| fault.write(out));
        if let Some(OutageReport { what, after_s, lasted_ms }) = &self.outage {
            let lasted = lasted_ms.map_or_else(|| "to the end".into(), |ms| format!("{ms:.0} ms"));
            line(out, what, format_args!("at {after_s:.1} s, lasted {lasted}"));
        }
    }

    fn write_processes(&self, out: &mut String) {
        for (name, process) in [
            ("server", self.server),
            ("MariaDB", self.mariadb),
            ("Redis", self.redis),
            ("load test", self.loadtest),
        ] {
            if let Some(process) = process {
                line(
                    out,
                    name,
                    format_args!(
                        "CPU {:.2} s user + {:.2} s system, {:.1} us a task; peak {:.0} MiB",
                        process.cpu_user_s,
                        process.cpu_system_s,
                        process.cpu_us_per_task,
                        process.rss_peak_mib
                    ),
                );
            }
        }
    }
}

impl CountReport {
    pub(crate) fn write(&self, out: &mut String) {
        line(
            out,
            "Redis, a task",
            format_args!("{:.2} calls, {:.2} of them scripts", self.redis_calls, self.scripts),
        );
        line(
            out,
            "MySQL, a task",
            format_args!(
                "{:.2} statements, {:.3} transactions, {:.3} of them undone",
                self.statements, self.transactions, self.transactions_undone
            ),
        );
        line(
            out,
            "  before hand-overs",
            format_args!(
                "{:.3} looks, {:.2} rows read; {} of {} hand-overs undone",
                self.looks, self.rows_read_before, self.hand_overs_undone, self.hand_overs
            ),
        );
        line(
            out,
            "  rows locked",
            format_args!("{:.2}, {:.2} for nothing", self.rows_locked, self.rows_locked_for_nothing),
        );
    }
}

impl Report for IdleReport {
    fn table(&self) -> String {
        let mut out = format!("idle: {} tasks far in the future\n\n", self.tasks);
        line(&mut out, "insert", format_args!("{:.0}/s ({:.2} s)", self.insert_per_s, self.insert_s));
        if let (Some(cpu), Some(rss), Some(before), Some(peak)) =
            (self.idle_cpu_percent, self.rss_mib, self.rss_before_mib, self.rss_peak_mib)
        {
            line(&mut out, "idle CPU", format_args!("{cpu:.2} % of a core"));
            line(&mut out, "memory", format_args!("{rss:.0} MiB ({before:.0} before, peak {peak:.0})"));
        }
        for (name, cpu) in
            [("  of MariaDB", self.mariadb_cpu_percent), ("  of Redis", self.redis_cpu_percent)]
        {
            if let Some(cpu) = cpu {
                line(&mut out, name, format_args!("{cpu:.2} % of a core"));
            }
        }
        for (name, spans) in
            [("probe lateness, ms", &self.probe_lateness_ms), ("probe insert, ms", &self.probe_insert_ms)]
        {
            let reported: Vec<String> = spans.iter().map(|span| format!("{span:.2}")).collect();
            line(&mut out, name, format_args!("{}", reported.join(" ")));
        }
        out
    }
}

pub(crate) fn line(out: &mut String, name: &str, rest: std::fmt::Arguments<'_>) {
    writeln!(out, "{name:<22}{rest}").expect("a string takes every write");
}

pub(crate) fn write_verdict(out: &mut String, ok: bool, broken: &[String]) {
    out.push_str(if ok {
        "\nkept: nothing lost, early or completed twice; done in time\n"
    } else {
        "\nBROKEN\n"
    });
    for breach in broken {
        out.push_str("  ");
        out.push_str(breach);
        out.push('\n');
    }
}
