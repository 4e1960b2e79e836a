//! Measures the answers to callers when more is inserted than the store accepts: batches without a pause on some
//! connections, single inserts on others. Accepted inserts must not have waited for long, the others must be refused
//! with a time for the next try, and the engines' memory must stay bounded. Fires nothing: the tasks are due in a
//! week.

use crate::{
    clock::{now_ms, now_us},
    http::{Connection, HttpAnswer, Target},
    measure::{Percentiles, Spans},
    options::{ServerOptions, parse_ms},
    progress::note,
    report::{Report, line},
    run::prepare,
    scenario::{LoadSite, Scenario, too_much_memory},
    server::Server,
    wire::Shape,
};
use anyhow::Context as _;
use clap::Args;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const DUE_IN_MS: i64 = 7 * 24 * 3_600_000;
const PAYLOAD_BYTES: usize = 200;
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// The maximum pause of a refused caller: the store must stay at its bound.
const AGAIN_MAX: Duration = Duration::from_millis(200);

#[derive(Args, Debug, Clone)]
pub(crate) struct OverloadOptions {
    /// Connections that send batches without a pause
    #[arg(long, default_value_t = 64)]
    pub(crate) flood: usize,
    /// Tasks of a batch
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// Connections that insert one task at a time
    #[arg(long, default_value_t = 256)]
    pub(crate) singles: usize,
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) duration: i64,
    /// Fails when the 99th percentile of the singles that were taken is more, ms: limits.insert_wait_max_ms
    #[arg(long, default_value_t = 1_000)]
    pub(crate) within_ms: u32,
    /// Fails when an engine's memory was ever more
    #[arg(long)]
    pub(crate) rss_max_mib: Option<f64>,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OverloadReport {
    /// The duration of accepted single inserts: from the call to its answer.
    pub(crate) taken: Percentiles,
    /// The duration of single inserts that were refused with a time for the next try.
    pub(crate) refused: Percentiles,
    pub(crate) batches_taken: u64,
    pub(crate) batches_refused: u64,
    /// The peak memory of all engines together; null without a process to read.
    pub(crate) rss_peak_mib: Option<f64>,
}

#[derive(Debug)]
struct Flood {
    target: Target,
    shape: Shape,
    next: AtomicU64,
    until_us: i64,
    taken: Mutex<Spans>,
    refused: Mutex<Spans>,
    batches_taken: AtomicU64,
    batches_refused: AtomicU64,
    /// Answers that are neither, or refusals that do not say when to try again: the first of them, and how many.
    odd: Mutex<Option<(String, u64)>>,
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Taken,
    Refused { again: Duration },
    Odd(String),
}

impl Came {
    fn of(answer: &HttpAnswer<'_>) -> Self {
        if answer.is_success() {
            return Self::Taken;
        }
        let is_overload = answer.status == 429 && answer.describe().contains(r#""overload""#);
        match answer.retry_after {
            Some(again) if is_overload => Self::Refused { again },
            _ => Self::Odd(format!("Retry-After {:?}: {}", answer.retry_after, answer.describe())),
        }
    }
}

impl Scenario for OverloadOptions {
    type Report = OverloadReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        anyhow::ensure!(self.flood > 0 && self.singles > 0, "nothing that floods, or nothing to time");
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<OverloadReport> {
        let flood = Arc::new(Flood {
            target: site.target.clone(),
            shape: Shape::new("overload".to_owned(), now_ms() * 1_000, PAYLOAD_BYTES),
            next: AtomicU64::new(0),
            until_us: now_us() + self.duration * 1_000,
            taken: Mutex::default(),
            refused: Mutex::default(),
            batches_taken: AtomicU64::new(0),
            batches_refused: AtomicU64::new(0),
            odd: Mutex::default(),
        });
        let mut callers = JoinSet::new();
        let batch = usize::try_from(self.batch)?;
        for (count, size) in [(self.flood, batch), (self.singles, 1)] {
            for number in 0..count {
                callers.spawn(Arc::clone(&flood).call_again_and_again(number, size));
            }
        }
        while let Some(ended) = callers.join_next().await {
            ended.context("a caller panicked")?;
        }
        if let Some((what, count)) = flood.odd.lock().take() {
            site.broken.push(format!("{count} answers are neither taken nor say when to try again: {what}"));
        }
        Ok(OverloadReport {
            taken: flood.taken.lock().percentiles(),
            refused: flood.refused.lock().percentiles(),
            batches_taken: flood.batches_taken.load(Relaxed),
            batches_refused: flood.batches_refused.load(Relaxed),
            rss_peak_mib: site.rss_peak_mib(),
        })
    }

    fn judge(&self, report: &OverloadReport) -> Vec<String> {
        let mut broken = Vec::new();
        if report.refused.count + report.batches_refused == 0 {
            broken.push("nothing was refused: this was no overload".to_owned());
        }
        if report.taken.count == 0 {
            broken.push("no single insert was taken".to_owned());
        }
        if report.taken.p99_ms > f64::from(self.within_ms) {
            let (p99, most) = (report.taken.p99_ms, self.within_ms);
            broken.push(format!("singles that were taken waited for {p99:.0} ms (p99), {most} are allowed"));
        }
        broken.extend(too_much_memory(self.rss_max_mib, report.rss_peak_mib));
        broken
    }
}

impl Flood {
    async fn call_again_and_again(self: Arc<Self>, number: usize, size: usize) {
        let mut connection = Connection::new(self.target.beginning_at(number));
        let mut body = Vec::new();
        while now_us() < self.until_us {
            body.clear();
            let first = self.next.fetch_add(u64::try_from(size).unwrap_or(1), Relaxed);
            let (first, due_ms) = (usize::try_from(first).unwrap_or(usize::MAX), now_ms() + DUE_IN_MS);
            let path = if size == 1 {
                self.shape.write_task(first, due_ms, &mut body);
                "/v1/tasks"
            } else {
                self.shape.write_batch((first..first + size).map(|number| (number, due_ms)), &mut body);
                "/v1/tasks/batch"
            };
            let began_us = now_us();
            let came = match connection.post(path, &body, ANSWER_LIMIT).await {
                Ok(answer) => Came::of(&answer),
                Err(error) => Came::Odd(error.to_string()),
            };
            let again = self.count(came, size == 1, now_us() - began_us);
            tokio::time::sleep(again.min(AGAIN_MAX)).await;
        }
    }

    /// The pause before the next call.
    fn count(&self, came: Came, is_single: bool, took_us: i64) -> Duration {
        match came {
            Came::Taken if is_single => self.taken.lock().record_us(took_us),
            Came::Taken => drop(self.batches_taken.fetch_add(1, Relaxed)),
            Came::Refused { again } => {
                if is_single {
                    self.refused.lock().record_us(took_us);
                } else {
                    self.batches_refused.fetch_add(1, Relaxed);
                }
                return again;
            }
            Came::Odd(what) => {
                let mut odd = self.odd.lock();
                if odd.is_none() {
                    note(&format!("first odd answer: {what}"));
                }
                odd.get_or_insert((what, 0)).1 += 1;
                return AGAIN_MAX;
            }
        }
        Duration::ZERO
    }
}

impl Report for OverloadReport {
    fn table(&self) -> String {
        let mut out = String::new();
        for (name, percentiles) in
            [("singles taken, ms", &self.taken), ("singles refused, ms", &self.refused)]
        {
            let Percentiles { count, p50_ms, p99_ms, max_ms, .. } = percentiles;
            line(&mut out, name, format_args!("{count}: p50 {p50_ms:.2}  p99 {p99_ms:.2}  max {max_ms:.2}"));
        }
        let Self { batches_taken, batches_refused, .. } = self;
        line(&mut out, "batches", format_args!("{batches_taken} taken, {batches_refused} refused"));
        if let Some(peak) = self.rss_peak_mib {
            line(&mut out, "memory", format_args!("{peak:.0} MiB at most"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_come_again_or_is_odd() {
        let overload = br#"{"code":"overload"}"#;
        let answer = |status, retry_after: Option<u64>, body| {
            Came::of(&HttpAnswer { status, retry_after: retry_after.map(Duration::from_secs), body })
        };
        assert_eq!(answer(201, None, b"{}"), Came::Taken);
        assert_eq!(answer(429, Some(2), overload), Came::Refused { again: Duration::from_secs(2) });
        for (status, again) in [(429, None), (503, Some(1)), (500, None)] {
            assert!(matches!(answer(status, again, overload), Came::Odd(_)), "{status}");
        }
        assert!(matches!(answer(429, Some(1), br#"{"code":"queue.full"}"#), Came::Odd(_)));
    }
}
