//! Measures the cost of many far tasks while nothing is due: inserts them, reads the server's CPU and memory, then
//! measures the lateness of a single near task (bar P9). Nothing may run beside it, or the CPU is not the idle one.

use crate::{
    check::Counts,
    clock::{now_ms, now_us, seconds},
    http::{Connection, Target},
    insert::{InsertCall, insert_all},
    job::{JobThread, RunJob},
    options::{CommonOptions, ServerOptions, parse_ms},
    plan::{Frame, LoadShape, Plan},
    proc::Usage,
    progress::{LoadProgress, note},
    report::IdleReport,
    run::{count, prepare, rates, shape},
    scenario::{LoadSite, Scenario},
    server::{Server, Used},
    wire::{self, LeaseAnswer, LeasedTask, OutcomeStatus, OutcomesAnswer, Shape},
};
use anyhow::Context as _;
use clap::Args;
use std::{ops::Range, sync::Arc, time::Duration};
use tokio::sync::watch;

#[derive(Args, Debug, Clone)]
pub(crate) struct IdleOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    /// How far in the future they are due; spread over an hour from there
    #[arg(long = "in", default_value = "7d", value_parser = parse_ms)]
    pub(crate) ahead: i64,
    /// How long CPU is measured while nothing is due
    #[arg(long, default_value = "20s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    /// Between the last insert and the measurement
    #[arg(long, default_value = "2s", value_parser = parse_ms)]
    pub(crate) settle: i64,
    /// Tasks due in 10 ms, one after the other
    #[arg(long, default_value_t = 10)]
    pub(crate) probes: usize,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// The far tasks are due within this.
const WINDOW_MS: i64 = 3_600_000;
const PROBE_AHEAD_MS: i64 = 10;
/// A probe that takes longer has not come.
const PROBE_LIMIT_MS: u64 = 10_000;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(20);

impl Scenario for IdleOptions {
    type Report = IdleReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<IdleReport> {
        let rss_before_mib = site.rss_mib();
        let job = insert_far(self, site.target.clone()).await?;
        let [idle_cpu_percent, mariadb_cpu_percent, redis_cpu_percent] = measure(self, &site.server).await;
        let (rss_mib, rss_peak_mib) = (site.rss_mib(), site.rss_peak_mib());
        // A queue and ids of their own, behind those of the far tasks.
        let base = job.shape.task_id(self.tasks);
        let shape = Shape::new(format!("{}-probe", job.shape.queue), base, self.common.payload_bytes);
        let probes = probe(&site.target, &shape, 0..self.probes).await?;
        let checker = job.checker.lock();
        let counts = checker.judge();
        let rates = rates(&checker, &counts, 0);
        site.broken.extend(broken(&counts, &probes));
        Ok(IdleReport {
            tasks: counts.inserted,
            insert_per_s: rates.insert_per_s,
            insert_s: rates.insert_s,
            idle_cpu_percent,
            mariadb_cpu_percent,
            redis_cpu_percent,
            rss_before_mib,
            rss_mib,
            rss_peak_mib,
            probe_lateness_ms: probes.iter().map(|probe| probe.lateness_us as f64 / 1e3).collect(),
            probe_insert_ms: probes.iter().map(|probe| probe.insert_us as f64 / 1e3).collect(),
        })
    }
}

async fn insert_far(options: &IdleOptions, target: Target) -> anyhow::Result<Arc<RunJob>> {
    let start_ms = now_ms();
    let queue = options.common.queue.clone().unwrap_or_else(|| format!("loadtest-{start_ms}"));
    let batch = options.common.batch.unwrap_or(1_000);
    let load = LoadShape::Uniform { tasks: options.tasks, window_ms: WINDOW_MS };
    let plan = Plan::new(load, Frame { start_ms, ahead_ms: options.ahead, batch, seed: fastrand::u64(..) });
    let job = RunJob::new(target, shape(&options.common, queue, start_ms)?, plan);
    let (inserted, connections) = (Arc::clone(&job), options.common.connections.unwrap_or(2));
    let (stop, stopped) = watch::channel(false);
    let mut lane =
        JobThread::start("insert", stopped, move || insert_all(inserted, InsertCall::Batch, connections))?;
    let mut progress = LoadProgress::new(options.common.progress);
    loop {
        if let Some(result) = lane.poll() {
            result?;
            drop(stop);
            return Ok(job);
        }
        tokio::time::sleep(TICK).await;
        progress.tick(&job.checker);
    }
}

/// The CPU over the measurement, in percent of a core: of the engines, MariaDB and Redis.
async fn measure(options: &IdleOptions, server: &Server) -> [Option<f64>; 3] {
    let wait = |ms: i64| tokio::time::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    if server.used().engines.is_none() {
        note("no --server-pid: CPU and memory of the server are left out");
        return [None; 3];
    }
    wait(options.settle).await;
    let (from, from_us) = (server.used(), now_us());
    wait(options.measure).await;
    let (to, to_us) = (server.used(), now_us());
    let percent = |part: fn(&Used) -> Option<Usage>| {
        let spent = part(&to)?.since(part(&from)?);
        Some(spent.cpu_us() as f64 / 1e6 / seconds(to_us - from_us) * 100.0)
    };
    [percent(|used| used.engines), percent(|used| used.mariadb), percent(|used| used.redis)]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) lateness_us: i64,
    insert_us: i64,
    pub(crate) is_early: bool,
    pub(crate) is_accepted: bool,
}

/// One after the other.
pub(crate) async fn probe(
    target: &Target,
    shape: &Shape,
    numbers: Range<usize>,
) -> anyhow::Result<Vec<Probe>> {
    let mut connections = [Connection::new(target.clone()), Connection::new(target.clone())];
    let mut probes = Vec::with_capacity(numbers.len());
    for n in numbers {
        probes.push(probe_once(&mut connections, shape, n).await?);
    }
    Ok(probes)
}

async fn probe_once(connections: &mut [Connection; 2], shape: &Shape, n: usize) -> anyhow::Result<Probe> {
    let [executor, inserter] = connections;
    let path = format!("/v1/queues/{}/lease", shape.queue);
    let request = wire::lease_request(1, PROBE_LIMIT_MS, PROBE_LIMIT_MS, "loadtest-probe");
    let due_ms = now_ms() + PROBE_AHEAD_MS;
    let take = async {
        let answer = executor.post(&path, &request, ANSWER_LIMIT).await?;
        let at_us = now_us();
        anyhow::ensure!(answer.is_success(), "lease: {}", answer.describe());
        let leased: LeaseAnswer<'_> = serde_json::from_slice(answer.body).context("answer to a lease")?;
        let task = leased.tasks.first().context("the probe did not come")?;
        anyhow::ensure!(task.task_id == shape.task_id(n), "task {} came instead of the probe", task.task_id);
        Ok((at_us, is_early(task, at_us, due_ms), task.succeeded()))
    };
    let ((at_us, is_early, item), insert_us) =
        tokio::try_join!(take, insert_probe(inserter, shape, n, due_ms))?;
    let is_accepted = report(inserter, &item).await?;
    Ok(Probe { lateness_us: at_us - due_ms * 1_000, insert_us, is_early, is_accepted })
}

fn is_early(task: &LeasedTask<'_>, at_us: i64, due_ms: i64) -> bool {
    at_us < due_ms * 1_000 || task.fired_at_ms < due_ms
}

async fn insert_probe(
    connection: &mut Connection,
    shape: &Shape,
    n: usize,
    due_ms: i64,
) -> anyhow::Result<i64> {
    let mut body = Vec::new();
    shape.write_task(n, due_ms, &mut body);
    let sent_us = now_us();
    let answer = connection.post("/v1/tasks", &body, ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "insert: {}", answer.describe());
    Ok(now_us() - sent_us)
}

async fn report(connection: &mut Connection, item: &str) -> anyhow::Result<bool> {
    let mut body = Vec::new();
    wire::write_outcomes(std::iter::once(item), &mut body);
    let answer = connection.post("/v1/outcomes", &body, ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "outcomes: {}", answer.describe());
    let answer: OutcomesAnswer = serde_json::from_slice(answer.body).context("answer to outcomes")?;
    Ok(answer.results.first().is_some_and(|receipt| receipt.status == OutcomeStatus::Accepted))
}

/// The far tasks are neither lost nor late: they are not due. Everything else must be right.
fn broken(counts: &Counts, probes: &[Probe]) -> Vec<String> {
    let early = probes.iter().filter(|probe| probe.is_early).count();
    let unaccepted = probes.iter().filter(|probe| !probe.is_accepted).count();
    [
        (counts.refused, "refused at insert"),
        (count(early), "probes early"),
        (count(unaccepted), "probes whose outcome was not accepted"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect()
}
