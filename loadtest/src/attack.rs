//! Measures the cost of callers that do no work for those that do: inserts at a steady rate, in peace and beside
//! thousands of calls that wait and hundreds that send a byte a second. Latency counts from the planned instant, so
//! that a stall is not hidden.

use crate::{
    clock::{now_ms, now_us, sleep_until_us},
    http::{Connection, Error, Target},
    measure::{Percentiles, Spans},
    options::{CommonOptions, ServerOptions, parse_ms},
    progress::note,
    report::{Report, line},
    run::{prepare, shape},
    scenario::{LoadSite, Scenario},
    server::Server,
    wire::{self, Shape},
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
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

#[derive(Args, Debug, Clone)]
pub(crate) struct AttackOptions {
    /// Calls that wait for tasks, each on a connection of its own
    #[arg(long, default_value_t = 5_000)]
    pub(crate) idle: usize,
    /// Connections that send a byte a second: heads and bodies that never come whole
    #[arg(long, default_value_t = 500)]
    pub(crate) slow: usize,
    /// Single inserts a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How long inserts are measured, in peace and under attack
    #[arg(long, default_value = "15s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// The inserted tasks are due far in the future: nothing fires.
const DUE_IN_MS: i64 = 7 * 24 * 3_600_000;
const INSERTERS: usize = 16;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const WAIT_MS: u64 = 60_000;
/// The time limit until all waiting calls are accepted.
const TAKEN_LIMIT_US: i64 = 60_000_000;
const LOOK: Duration = Duration::from_millis(100);
const BYTE_EVERY: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttackReport {
    pub(crate) idle: usize,
    pub(crate) slow: usize,
    pub(crate) rate: u32,
    /// The latency of inserts.
    pub(crate) peace: Percentiles,
    pub(crate) attacked: Percentiles,
    pub(crate) failed: u64,
    /// The maximum number of waiting calls that the server reported.
    pub(crate) waiting: u64,
    /// Slow connections that the server ended.
    pub(crate) slow_ended: u64,
    pub(crate) rss_before_mib: Option<f64>,
    /// The memory with all calls waiting, before the inserts continue.
    pub(crate) rss_waiting_mib: Option<f64>,
    pub(crate) kib_per_waiting: Option<f64>,
    pub(crate) rss_peak_mib: Option<f64>,
}

impl Scenario for AttackOptions {
    type Report = AttackReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<AttackReport> {
        let target = &site.target;
        let start_ms = now_ms();
        let queue = self.common.queue.clone().unwrap_or_else(|| format!("loadtest-{start_ms}"));
        let inserts = Inserts::new(target.clone(), shape(&self.common, queue, start_ms)?);
        // Once through everything, so that peace is not measured cold.
        inserts.run(self.rate, self.measure / 5).await?;
        let peace = inserts.run(self.rate, self.measure).await?;
        let before = site.rss_mib();
        let mut attackers = JoinSet::new();
        for n in 0..self.idle {
            attackers.spawn(wait_for_ever(target.clone(), n));
        }
        let waiting = until_taken(target, self.idle).await?;
        let with_all = site.rss_mib();
        let ended = Arc::new(AtomicU64::new(0));
        for n in 0..self.slow {
            attackers.spawn(send_slowly(target.clone(), n, Arc::clone(&ended)));
        }
        let attacked = inserts.run(self.rate, self.measure).await?;
        let still_waiting = waiting_calls(target).await?;
        let peak = site.rss_peak_mib();
        attackers.shutdown().await;
        let grown_kib = with_all.zip(before).map(|(with, without)| (with - without) * 1024.0);
        Ok(AttackReport {
            idle: self.idle,
            slow: self.slow,
            rate: self.rate,
            peace,
            attacked,
            failed: inserts.failed.load(Relaxed),
            waiting: waiting.min(still_waiting),
            slow_ended: ended.load(Relaxed),
            rss_before_mib: before,
            rss_waiting_mib: with_all,
            kib_per_waiting: grown_kib.map(|grown_kib| grown_kib / self.idle.max(1) as f64),
            rss_peak_mib: peak,
        })
    }

    fn judge(&self, report: &AttackReport) -> Vec<String> {
        let mut broken = Vec::new();
        if report.failed > 0 {
            broken.push(format!("{} inserts failed", report.failed));
        }
        if usize::try_from(report.waiting).is_ok_and(|number| number < self.idle) {
            broken.push(format!("{} of {} calls were waiting", report.waiting, self.idle));
        }
        broken
    }
}

struct Inserts {
    target: Target,
    shape: Shape,
    next: AtomicU64,
    failed: AtomicU64,
    spans: Mutex<Spans>,
}

impl Inserts {
    fn new(target: Target, shape: Shape) -> Arc<Self> {
        let (next, failed, spans) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { target, shape, next, failed, spans })
    }

    /// Inserts one task at each planned instant, whatever happened to the one before.
    async fn run(self: &Arc<Self>, rate: u32, for_ms: i64) -> anyhow::Result<Percentiles> {
        *self.spans.lock() = Spans::default();
        let (start_us, every_us) = (now_us(), 1_000_000 / i64::from(rate));
        let count = for_ms * 1_000 / every_us;
        let mut inserters = JoinSet::new();
        for first in 0..INSERTERS {
            let (all, step) = (Arc::clone(self), i64::try_from(INSERTERS)?);
            let first = i64::try_from(first)?;
            inserters.spawn(async move {
                let mut connection = Connection::new(all.target.clone());
                let mut nth = first;
                while nth < count {
                    let planned_us = start_us + nth * every_us;
                    sleep_until_us(planned_us).await;
                    all.insert(&mut connection, planned_us).await;
                    nth += step;
                }
            });
        }
        while let Some(ended) = inserters.join_next().await {
            ended.context("an inserter panicked")?;
        }
        Ok(self.spans.lock().percentiles())
    }

    async fn insert(&self, connection: &mut Connection, planned_us: i64) {
        let n = usize::try_from(self.next.fetch_add(1, Relaxed)).unwrap_or(usize::MAX);
        let mut body = Vec::new();
        self.shape.write_task(n, now_ms() + DUE_IN_MS, &mut body);
        match connection.post("/v1/tasks", &body, ANSWER_LIMIT).await {
            Ok(answer) if answer.status == 201 => self.spans.lock().record_us(now_us() - planned_us),
            Ok(answer) => self.fail(&answer.describe()),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&self, what: &str) {
        if self.failed.fetch_add(1, Relaxed) == 0 {
            note(&format!("first insert that failed: {what}"));
        }
    }
}

/// Waits like an executor with nothing to do.
async fn wait_for_ever(target: Target, n: usize) {
    let mut connection = Connection::new(target);
    let request = wire::lease_request(1, WAIT_MS, WAIT_MS, &format!("idle-{n}"));
    loop {
        let limit = Duration::from_millis(WAIT_MS) + ANSWER_LIMIT;
        match connection.post("/v1/queues/loadtest-nothing/lease", &request, limit).await {
            Ok(answer) if answer.is_success() => {}
            Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn until_taken(target: &Target, wanted: usize) -> anyhow::Result<u64> {
    let until_us = now_us() + TAKEN_LIMIT_US;
    loop {
        let waiting = waiting_calls(target).await?;
        if usize::try_from(waiting).is_ok_and(|number| number >= wanted) || now_us() > until_us {
            return Ok(waiting);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn waiting_calls(target: &Target) -> anyhow::Result<u64> {
    let mut connection = Connection::new(target.clone());
    let answer = connection.get("/metrics", ANSWER_LIMIT).await?;
    let text = String::from_utf8_lossy(answer.body);
    let line = text.lines().find_map(|line| line.strip_prefix("punctual_http_long_polls "));
    line.context("the server does not say how many calls wait")?.parse().context("punctual_http_long_polls")
}

/// Every second one a head that never ends, the others a body.
async fn send_slowly(target: Target, n: usize, ended: Arc<AtomicU64>) {
    let (address, headers) = target.raw();
    let beginning = match n % 2 {
        0 => format!("POST /v1/tasks HTTP/1.1\r\n{headers}x-slow: "),
        _ => format!(
            "POST /v1/tasks HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
        ),
    };
    loop {
        let begun = begin(address, &beginning).await;
        if let Ok(mut stream) = begun {
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(BYTE_EVERY).await;
            }
            ended.fetch_add(1, Relaxed);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn begin(address: &str, beginning: &str) -> Result<TcpStream, Error> {
    let not_sent = |source| Error::NotSent { address: address.to_owned(), source };
    let mut stream = TcpStream::connect(address).await.map_err(not_sent)?;
    stream.write_all(beginning.as_bytes()).await.map_err(not_sent)?;
    Ok(stream)
}

impl Report for AttackReport {
    fn table(&self) -> String {
        let Self { idle, slow, rate, .. } = self;
        let mut out =
            format!("attack: {rate} inserts/s beside {idle} waiting calls and {slow} slow senders\n\n");
        for (name, percentiles) in
            [("insert in peace, ms", &self.peace), ("insert attacked, ms", &self.attacked)]
        {
            let Percentiles { p50_ms, p99_ms, p999_ms, max_ms, .. } = percentiles;
            line(
                &mut out,
                name,
                format_args!("p50 {p50_ms:.2}  p99 {p99_ms:.2}  p99.9 {p999_ms:.2}  max {max_ms:.2}"),
            );
        }
        line(&mut out, "waiting calls", format_args!("{}", self.waiting));
        line(&mut out, "slow senders ended", format_args!("{} times", self.slow_ended));
        if let (Some(before), Some(with), Some(each), Some(peak)) =
            (self.rss_before_mib, self.rss_waiting_mib, self.kib_per_waiting, self.rss_peak_mib)
        {
            let rest = format_args!("{before:.0} MiB before, {with:.0} with all waiting, peak {peak:.0}");
            line(&mut out, "memory", rest);
            line(&mut out, "a waiting call", format_args!("{each:.1} KiB"));
        }
        out
    }
}
