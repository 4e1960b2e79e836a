//! One run: plan, insert and execute beside each other, watch until all is done or time is up, then judge.

pub(crate) mod options;

use crate::{
    ask::{ask_about_open, print_open},
    check::{Checker, Counts},
    clock::{now_ms, seconds},
    count::until_shared,
    http::{Connection, Target},
    job::RunJob,
    options::{CommonOptions, ServerOptions},
    plan::{Frame, Plan},
    proc::Usage,
    report::{ProcessReport, Rates, RunReport},
    server::{Push, Server, Started, Used},
    watch::{Disturbance, RunEnd, Watcher},
    wire::Shape,
};
use anyhow::Context as _;
use options::{LoadPattern, RunOptions};
use std::{sync::Arc, time::Duration};

/// The time from planning to the first insert: threads and connections start meanwhile.
const LEAD_MS: i64 = 50;
const TOKEN_LIMIT: Duration = Duration::from_secs(10);
const SETTING_LIMIT: Duration = Duration::from_secs(10);

/// Starts the server, or connects to the one that runs.
pub(crate) async fn prepare(options: &ServerOptions, push: Option<Push>) -> anyhow::Result<(Server, Target)> {
    prepare_as(options, push, &["viewer", "submitter", "executor", "operator"]).await
}

/// The server with a token of these roles, if tokens are requested.
pub(crate) async fn prepare_as(
    options: &ServerOptions,
    push: Option<Push>,
    roles: &[&str],
) -> anyhow::Result<(Server, Target)> {
    options.check()?;
    let mut token = options.token.clone();
    let (server, url) = match &options.url {
        Some(url) => (Server::Running { pid: options.server_pid }, url.clone()),
        None => {
            let admin = options.with_token.then(|| format!("{:032x}", fastrand::u128(..)));
            let started = Started::start(options, push, admin.as_deref()).await?;
            let url = started.urls();
            if let Some(admin) = admin {
                token = Some(make_token(&url, &admin, roles).await?);
            }
            (Server::Started(Box::new(started)), url)
        }
    };
    let target =
        Target::trusting(&url, options.namespace.as_deref(), token.as_deref(), options.ca.as_deref())?;
    Ok((server, target))
}

/// Creates a token as for a service: not the one of the configuration, which is in no store and is compared first.
async fn make_token(url: &str, admin: &str, roles: &[&str]) -> anyhow::Result<String> {
    let mut connection = Connection::new(Target::new(url, None, Some(admin))?);
    let body = serde_json::json!({"name": "loadtest", "roles": roles}).to_string();
    let answer = connection.post("/v1/tokens", body.as_bytes(), TOKEN_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "no token was made: {}", answer.describe());
    let made: serde_json::Value = serde_json::from_slice(answer.body)?;
    made.get("token")
        .and_then(serde_json::Value::as_str)
        .map(str::to_owned)
        .context("the answer has no token")
}

/// Ids below 2^53, of this run alone: a million a second since 1970.
pub(crate) fn shape(common: &CommonOptions, queue: String, start_ms: i64) -> anyhow::Result<Shape> {
    let is_plain = queue.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
    anyhow::ensure!(is_plain && !queue.is_empty(), "queue {queue:?}: letters, digits and ._:- only");
    Ok(Shape::new(queue, start_ms * 1_000, common.payload_bytes))
}

pub(crate) async fn run(options: &RunOptions) -> anyhow::Result<RunReport> {
    let load = options.load()?;
    options.check()?;
    let queue = options.common.queue.clone().unwrap_or_else(|| format!("loadtest-{}", now_ms()));
    let mut servers = options.server.clone();
    servers.is_counted = options.count;
    let (server, target) = prepare(&servers, options.push(&queue)).await?;
    let counter = if options.count {
        until_shared(&target, options.server.engines()).await?;
        Some(server.counter().await?)
    } else {
        None
    };
    if let Some(concurrency) = options.concurrency {
        limit(target.clone(), &queue, concurrency).await?;
    }
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let start_ms = now_ms() + LEAD_MS;
    let frame = Frame { start_ms, ahead_ms: options.ahead_ms(), batch: options.batch(), seed };
    let targets = options.targets(&target);
    let shape = shape(&options.common, queue, start_ms)?.with_priorities(options.priorities);
    let job = RunJob::at(target, targets, shape, Plan::new(load, frame));
    let before = (server.used(), Usage::of_self());
    let mut watcher = Watcher::new(options, server, Arc::clone(&job), start_ms)?;
    let end = watcher.watch().await?;
    let after = (watcher.used(), Usage::of_self());
    let counted = match counter {
        Some(counter) => Some(watcher.server().counted(counter, tasks_of(&job)).await?),
        None => None,
    };
    let (server, disturbance) = watcher.stop().await?;
    if !options.insert_only && end != RunEnd::Interrupted {
        ask_about_open(&job).await;
        print_open(&job).await;
    }
    server.end().await?;
    let mut report = judge(&job, options, end);
    report.seed = seed;
    report.counted = counted;
    report.spent(before, after);
    report.disturbed(disturbance);
    Ok(report)
}

async fn limit(target: Target, queue: &str, concurrency: u32) -> anyhow::Result<()> {
    let body = format!(r#"{{"concurrency":{concurrency}}}"#);
    let mut connection = Connection::new(target);
    let answer = connection.put(&format!("/v1/queues/{queue}"), body.as_bytes(), SETTING_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "limiting the queue: {}", answer.describe());
    Ok(())
}

impl RunOptions {
    /// The engines' push settings, if the run has subscribers.
    fn push(&self, queue: &str) -> Option<Push> {
        let namespace = self.server.namespace.as_deref().unwrap_or("default");
        let queue = format!("{namespace}/{queue}");
        (self.subscribers > 0).then_some(Push { queue, lease_ms: self.lease })
    }
}

impl RunReport {
    fn spent(&mut self, before: (Used, Option<Usage>), after: (Used, Option<Usage>)) {
        let tasks = self.tasks;
        let spent =
            |then: Option<Usage>, now: Option<Usage>| Some(ProcessReport::new(now?.since(then?), tasks));
        let ((parts, own), (parts_now, own_now)) = (before, after);
        self.server = spent(parts.engines, parts_now.engines);
        self.mariadb = spent(parts.mariadb, parts_now.mariadb);
        self.redis = spent(parts.redis, parts_now.redis);
        self.loadtest = spent(own, own_now);
    }

    fn disturbed(&mut self, by: Disturbance) {
        (self.kill, self.faults, self.outage) = (by.kill, by.faults, by.outage);
        self.broken.extend(by.broken);
        self.ok = self.broken.is_empty();
    }
}

/// Everything but what processes spent.
fn judge(job: &RunJob, options: &RunOptions, end: RunEnd) -> RunReport {
    let checker = job.checker.lock();
    let mut counts = checker.judge();
    if options.insert_only {
        // There were no executors.
        counts.lost = 0;
    }
    let mut broken = counts.broken();
    let answered = counts.inserted + counts.refused;
    let unanswered = count(job.plan.len()).saturating_sub(answered);
    if unanswered > 0 {
        broken.push(format!("{unanswered} inserts without a definite answer"));
    }
    if options.scenario == LoadPattern::Burst && !options.insert_only && counts.inserted_after_due > 0 {
        broken.push("no burst: inserts were still going on when it was due; give more --ahead".into());
    }
    broken.extend(end.broken());
    let measured = &checker.measured;
    RunReport {
        scenario: format!("{:?}", options.scenario).to_lowercase(),
        tasks: tasks_of(job),
        seed: 0,
        queue: job.shape.queue.clone(),
        ok: broken.is_empty(),
        broken,
        rates: rates(&checker, &counts, job.plan.first_due_ms * 1_000),
        counts,
        lateness: measured.lateness.percentiles(),
        fired_lateness: measured.fired.percentiles(),
        hand_over: measured.hand_over.percentiles(),
        insert: measured.insert.percentiles(),
        insert_lag: measured.insert_lag.percentiles(),
        outcome: measured.outcome.percentiles(),
        longest_gap_ms: checker.longest_gap_us() as f64 / 1e3,
        kill: None,
        faults: Vec::new(),
        outage: None,
        counted: None,
        server: None,
        mariadb: None,
        redis: None,
        loadtest: None,
    }
}

pub(crate) fn rates(checker: &Checker, counts: &Counts, first_due_us: i64) -> Rates {
    let insert_us = checker.last_insert_us - checker.first_insert_us.unwrap_or(checker.last_insert_us);
    let run_us = if counts.outcomes_accepted > 0 { checker.last_accepted_us - first_due_us } else { 0 };
    let per_s = |count: u64, span_us: i64| if span_us > 0 { count as f64 / seconds(span_us) } else { 0.0 };
    Rates {
        insert_per_s: per_s(counts.inserted, insert_us),
        insert_s: insert_us as f64 / 1e6,
        end_to_end_per_s: per_s(counts.outcomes_accepted, run_us),
        end_to_end_s: run_us as f64 / 1e6,
    }
}

fn tasks_of(job: &RunJob) -> u64 {
    count(job.plan.len())
}

pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
