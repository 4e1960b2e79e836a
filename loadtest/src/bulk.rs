//! Measures the cost of a bulk cancel of very many tasks, also for others: fills a queue, measures the lateness of
//! the tasks of another queue in peace, then the same while the cancel runs; optionally, with the engine killed in
//! the middle of it. Judged: every task is cancelled once, nothing failed, and no task of the other queue is lost,
//! early or done twice. The additional lateness is reported.

use crate::{
    ask::ask_about_open,
    beside::{SteadyLoad, load_beside},
    clock::{now_ms, now_us, seconds},
    fill::fill,
    http::{Connection, Target},
    job::RunJob,
    measure::Percentiles,
    options::{ServerOptions, parse_ms},
    progress::note,
    report::Report,
    run::prepare,
    scenario::{LoadSite, Scenario},
    server::Server,
};
use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt::Write as _, time::Duration};

#[derive(Args, Debug, Clone)]
pub(crate) struct BulkOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    /// Tasks a second that the operation may cancel
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Tasks a second of the other queue, inserted and due
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) beside: u64,
    /// How long it is measured alone
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) peace: i64,
    /// So long after the confirmation the engine is killed (SIGKILL) and started again; it must be one that is started here
    #[arg(long, value_parser = parse_ms)]
    pub(crate) kill_after: Option<i64>,
    /// Connections that fill
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
/// The cancelled tasks are due in a week: none of them fires.
const DUE_IN_MS: i64 = 7 * 86_400_000;
/// The operation may take so many times what its rate makes of it.
const TIMES: i64 = 10;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BulkReport {
    pub(crate) tasks: usize,
    pub(crate) rate: u32,
    pub(crate) fill_s: f64,
    pub(crate) preview_ms: f64,
    pub(crate) took_s: f64,
    pub(crate) cancelled_per_s: f64,
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    /// The progress of the operation when the engine was killed.
    pub(crate) killed_at_done: Option<u64>,
    /// First receipt − `execute_at` of the other queue's tasks.
    pub(crate) peace: Percentiles,
    pub(crate) beside: Percentiles,
    pub(crate) rss_before_mib: Option<f64>,
    pub(crate) rss_peak_mib: Option<f64>,
}

/// The operation that runs beside the load, and when its engine is killed.
#[derive(Clone, Copy)]
struct Operation {
    id: i64,
    kill_at_us: Option<i64>,
    killed_at_done: Option<u64>,
}

impl Operation {
    /// Kills the engine when it is time, and starts it again.
    async fn kill_in_time(&mut self, server: &mut Server, target: &Target) -> anyhow::Result<()> {
        if self.kill_at_us.is_none_or(|kill_at_us| now_us() < kill_at_us) {
            return Ok(());
        }
        self.kill_at_us = None;
        let before = look(&mut Connection::new(target.clone()), self.id).await?;
        anyhow::ensure!(!is_over(&before), "the operation was over before its engine was killed: {before}");
        let engine = server.engines().first_mut().context("only an engine that is started here is killed")?;
        engine.kill().await?;
        engine.start_again().await?;
        self.killed_at_done = before.get("done").and_then(Value::as_u64);
        note("the engine was killed, and is there again");
        Ok(())
    }
}

impl Scenario for BulkOptions {
    type Report = BulkReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<BulkReport> {
        let target = site.target.clone();
        let (base, due_ms) = (now_ms() * 1_000, now_ms() + DUE_IN_MS);
        note(&format!("filling in {} tasks", self.tasks));
        let began_us = now_us();
        fill(&target, (self.tasks, self.connections), move |body, nth| {
            let id = base + i64::try_from(nth).unwrap_or(i64::MAX);
            let at_ms = due_ms + i64::try_from(nth).unwrap_or(0);
            let _ = write!(
                body,
                r#"{{"queue":"bulk","task_id":{id},"execute_at_ms":{at_ms},"payload":{{"n":{nth}}}}}"#
            );
        })
        .await?;
        let fill_s = seconds(now_us() - began_us);
        note("the other queue alone");
        let peace = beside(self, site, None).await?;
        let mut connection = Connection::new(target.clone());
        let began_us = now_us();
        let id = preview(&mut connection, self).await?;
        let preview_ms = seconds(now_us() - began_us) * 1e3;
        let rss_before_mib = site.rss_mib();
        note("the other queue beside the operation");
        confirm(&mut connection, id).await?;
        let began_us = now_us();
        let kill_at_us = self.kill_after.map(|kill_after| began_us + kill_after * 1_000);
        let mut operation = Operation { id, kill_at_us, killed_at_done: None };
        let beside = beside(self, site, Some(&mut operation)).await?;
        // The other one may have been to an engine that was killed.
        let ended = ended(&mut Connection::new(target.clone()), self, id).await?;
        let count = |name: &str| ended.get(name).and_then(Value::as_u64).unwrap_or(0);
        let took_s = took_s(&ended).unwrap_or_else(|| seconds(now_us() - began_us));
        let (done, skipped, failed) = (count("done"), count("skipped"), count("failed"));
        Ok(BulkReport {
            tasks: self.tasks,
            rate: self.rate,
            fill_s,
            preview_ms,
            took_s,
            cancelled_per_s: done as f64 / took_s.max(0.001),
            done,
            skipped,
            failed,
            killed_at_done: operation.killed_at_done,
            peace,
            beside,
            rss_before_mib,
            rss_peak_mib: site.rss_peak_mib(),
        })
    }

    fn judge(&self, report: &BulkReport) -> Vec<String> {
        let mut broken = Vec::new();
        if self.kill_after.is_some() && report.killed_at_done.is_none() {
            broken.push("the engine was to be killed, and the load was over before".to_owned());
        }
        let BulkReport { tasks, done, skipped, failed, .. } = report;
        if usize::try_from(*done).ok() != Some(*tasks) || *failed != 0 {
            broken.push(format!(
                "of {tasks} tasks {done} were cancelled, {skipped} passed over, {failed} failed"
            ));
        }
        broken
    }
}

async fn preview(connection: &mut Connection, options: &BulkOptions) -> anyhow::Result<i64> {
    let body = format!(
        r#"{{"action":"cancel","filter":{{"queue":"bulk","state":"scheduled"}},"rate":{},"reason":"load test"}}"#,
        options.rate
    );
    let answer = connection.post("/v1/bulk", body.as_bytes(), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "a preview: {}", answer.describe());
    let made: Value = serde_json::from_slice(answer.body)?;
    made.get("id").and_then(Value::as_i64).context("a preview has an id")
}

async fn confirm(connection: &mut Connection, id: i64) -> anyhow::Result<()> {
    let answer = connection.post(&format!("/v1/bulk/{id}/confirm"), b"", ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "confirming: {}", answer.describe());
    Ok(())
}

async fn look(connection: &mut Connection, id: i64) -> anyhow::Result<Value> {
    let answer = connection.get(&format!("/v1/bulk/{id}"), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "looking at the operation: {}", answer.describe());
    Ok(serde_json::from_slice(answer.body)?)
}

fn is_over(value: &Value) -> bool {
    value.get("state").and_then(Value::as_str).is_some_and(|text| text != "running")
}

async fn ended(connection: &mut Connection, options: &BulkOptions, id: i64) -> anyhow::Result<Value> {
    let until_us = now_us() + 1_000 * planned_ms(options) * TIMES + 60_000_000;
    loop {
        let value = look(connection, id).await?;
        if is_over(&value) {
            return Ok(value);
        }
        anyhow::ensure!(now_us() < until_us, "the operation does not end: {value}");
        tokio::time::sleep(LOOK).await;
    }
}

/// The duration by the server's own clock.
fn took_s(ended: &Value) -> Option<f64> {
    let at = |name: &str| ended.get(name).and_then(Value::as_i64);
    Some(seconds(1_000 * (at("ended_at_ms")? - at("confirmed_at_ms")?)))
}

fn planned_ms(options: &BulkOptions) -> i64 {
    let tasks = i64::try_from(options.tasks).unwrap_or(i64::MAX);
    tasks.saturating_mul(1_000) / i64::from(options.rate.max(1))
}

/// When nothing but doubt is left (an outcome whose answer was lost with an engine), the server is asked.
async fn ask_in_doubt(job: &RunJob) {
    let is_all_doubt = {
        let checker = job.checker.lock();
        checker.open() > 0 && checker.open() == checker.open_doubtful()
    };
    if is_all_doubt && now_us() > job.plan.last_due_ms * 1_000 {
        ask_about_open(job).await;
    }
}

/// Load on the other queue, for as long as it is measured in peace, or as the operation is planned to take.
async fn beside(
    options: &BulkOptions,
    site: &mut LoadSite,
    mut operation: Option<&mut Operation>,
) -> anyhow::Result<Percentiles> {
    let duration_ms =
        if operation.is_some() { planned_ms(options).max(options.peace) } else { options.peace };
    let load = SteadyLoad { rate: options.beside, duration_ms, executors: 4 };
    let each_look = async |server: &mut Server, job: &RunJob| {
        if let Some(operation) = &mut operation {
            operation.kill_in_time(server, &site.target).await?;
        }
        ask_in_doubt(job).await;
        anyhow::Ok(())
    };
    let (lateness, broken) = load_beside(load, &mut site.server, &site.target, each_look).await?;
    site.broken.extend(broken.into_iter().map(|text| format!("the other queue: {text}")));
    Ok(lateness)
}

impl Report for BulkReport {
    fn table(&self) -> String {
        let mut text = String::new();
        let rss =
            |server: Option<f64>| server.map_or_else(|| "?".to_owned(), |server| format!("{server:.0}"));
        let _ = writeln!(
            text,
            "bulk cancel of {} tasks at {}/s: {:.0}/s, {:.1} s; done {}, passed over {}, failed {}\nfilled in within {:.0} s, previewed in {:.0} ms; memory of the engines {} MiB before, {} at the most",
            self.tasks,
            self.rate,
            self.cancelled_per_s,
            self.took_s,
            self.done,
            self.skipped,
            self.failed,
            self.fill_s,
            self.preview_ms,
            rss(self.rss_before_mib),
            rss(self.rss_peak_mib),
        );
        if let Some(done) = self.killed_at_done {
            let _ = writeln!(text, "its engine was killed when {done} were done, and started again");
        }
        for (name, percentiles) in [("alone", self.peace), ("beside it", self.beside)] {
            let _ = writeln!(
                text,
                "lateness of others, {name:<10} p50 {:>7.1}  p99 {:>7.1}  p99.9 {:>7.1}  max {:>7.1} ms  ({} tasks)",
                percentiles.p50_ms,
                percentiles.p99_ms,
                percentiles.p999_ms,
                percentiles.max_ms,
                percentiles.count
            );
        }
        text
    }
}
