//! Executors that do nothing but take tasks and report success. Each has two connections: one polls without ever
//! waiting for outcomes, the other reports them in batches, so that what is measured is the server and not a queue in
//! here. An outcome is repeated until it is answered; must never be reported without a lease.

use crate::{
    check::{Receipt, Verdict},
    clock::now_us,
    http::{Connection, Error},
    job::{Pause, RunJob},
    subscribe::{Subscription, subscribe_all},
    wire::{self, LeaseAnswer, OutcomeStatus, OutcomesAnswer},
};
use anyhow::Context as _;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

/// Beyond what the server was asked to wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Outcomes of one report.
const REPORT_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) executors: usize,
    pub(crate) lease_max: usize,
    pub(crate) wait_ms: u64,
    pub(crate) lease_ms: u64,
    /// The time for which a reporter waits for more outcomes before it sends.
    pub(crate) linger: Duration,
    /// The time for which an executor works on the tasks of one call.
    pub(crate) work: Duration,
}

/// Never ends by itself, except with an error.
pub(crate) async fn execute_all(
    job: Arc<RunJob>,
    manner: Manner,
    subscription: Option<Subscription>,
) -> anyhow::Result<()> {
    let mut workers = JoinSet::new();
    for number in 0..manner.executors {
        // A full channel makes the executor stop polling: it does not hoard leases that it cannot report.
        let (done, outcomes) = mpsc::channel(manner.lease_max.saturating_mul(4).max(1));
        workers.spawn(poll(Arc::clone(&job), manner, number, done));
        workers.spawn(report(Arc::clone(&job), manner, number, outcomes));
    }
    if let Some(subscription) = subscription {
        subscribe_all(&job, manner, &subscription, &mut workers).await?;
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("an executor panicked")??;
    }
    Ok(())
}

/// An outcome to report.
#[derive(Debug)]
pub(crate) struct ExecutedTask {
    pub(crate) n: Option<usize>,
    pub(crate) attempt: u32,
    pub(crate) item: String,
}

async fn poll(
    job: Arc<RunJob>,
    manner: Manner,
    number: usize,
    done: mpsc::Sender<ExecutedTask>,
) -> anyhow::Result<()> {
    let mut connection = Connection::new(job.executes_at.beginning_at(number));
    let path = format!("/v1/queues/{}/lease", job.shape.queue);
    let name = format!("loadtest-{number}");
    let request = wire::lease_request(manner.lease_max, manner.wait_ms, manner.lease_ms, &name);
    let limit = Duration::from_millis(manner.wait_ms) + job.executes_at.limit(ANSWER_LIMIT);
    let mut pause = Pause::default();
    loop {
        let answer = match connection.post(&path, &request, limit).await {
            Ok(answer) if answer.is_success() => answer,
            Ok(answer) if !answer.is_passing() => anyhow::bail!("lease: {}", answer.describe()),
            Err(error @ Error::Malformed(_)) => return Err(error.into()),
            Ok(_) | Err(_) => {
                pause.wait().await;
                continue;
            }
        };
        let at_us = now_us();
        pause = Pause::default();
        let leased = serde_json::from_slice(answer.body).context("answer to a lease")?;
        let outcomes = take(&job, &leased, at_us);
        if !outcomes.is_empty() && !manner.work.is_zero() {
            tokio::time::sleep(manner.work).await;
        }
        for outcome in outcomes {
            done.send(outcome).await.context("the reporter has ended")?;
        }
    }
}

/// Tells the checker and makes the outcomes.
fn take(job: &RunJob, leased: &LeaseAnswer<'_>, at_us: i64) -> Vec<ExecutedTask> {
    let mut checker = job.checker.lock();
    let mut outcomes = Vec::with_capacity(leased.tasks.len());
    for task in &leased.tasks {
        let n = job.shape.index(task.task_id);
        let payload = task.payload.map_or("", serde_json::value::RawValue::get);
        let receipt = Receipt {
            at_us,
            attempt: task.attempt,
            execute_at_ms: task.execute_at_ms,
            fired_at_ms: task.fired_at_ms,
            is_payload_intact: n.is_some_and(|n| job.shape.is_payload(n, payload)),
        };
        checker.received(n, receipt);
        outcomes.push(ExecutedTask { n, attempt: task.attempt, item: task.succeeded() });
    }
    outcomes
}

pub(crate) async fn report(
    job: Arc<RunJob>,
    manner: Manner,
    number: usize,
    mut outcomes: mpsc::Receiver<ExecutedTask>,
) -> anyhow::Result<()> {
    let mut connection = Connection::new(job.executes_at.beginning_at(number));
    let (mut batch, mut body) = (Vec::new(), Vec::new());
    while outcomes.recv_many(&mut batch, REPORT_MAX).await > 0 {
        if batch.len() < REPORT_MAX && !manner.linger.is_zero() {
            tokio::time::sleep(manner.linger).await;
            while let Some(more) = (batch.len() < REPORT_MAX).then(|| outcomes.try_recv().ok()).flatten() {
                batch.push(more);
            }
        }
        deliver(&job, &mut connection, &mut body, &mut batch).await?;
    }
    Ok(())
}

/// Repeats the report until each of it is answered: those that a database that is unavailable keeps open too.
async fn deliver(
    job: &RunJob,
    connection: &mut Connection,
    body: &mut Vec<u8>,
    batch: &mut Vec<ExecutedTask>,
) -> anyhow::Result<()> {
    let mut pause = Pause::default();
    let mut is_repeat = false;
    let sent_us = now_us();
    while !batch.is_empty() {
        body.clear();
        wire::write_outcomes(batch.iter().map(|done| done.item.as_str()), body);
        let repeated_us = now_us();
        match connection.post("/v1/outcomes", body, job.executes_at.limit(ANSWER_LIMIT)).await {
            Ok(answer) if answer.is_success() => {
                let at_us = now_us();
                let answer = serde_json::from_slice(answer.body).context("answer to outcomes")?;
                job.checker.lock().measured.outcome.record_us(at_us - sent_us);
                apply_receipts(job, batch, &answer, (repeated_us, at_us), is_repeat)?;
                is_repeat = true;
            }
            // A 5xx may come after the commit, as a lost answer may.
            Ok(answer) if answer.is_passing() => is_repeat |= answer.status >= 500,
            Ok(answer) => anyhow::bail!("outcomes: {}", answer.describe()),
            Err(error @ Error::Malformed(_)) => return Err(error.into()),
            Err(Error::NotSent { .. }) => {}
            Err(Error::AnswerLost(_) | Error::Silent(_)) => is_repeat = true,
        }
        if !batch.is_empty() {
            pause.wait().await;
        }
    }
    Ok(())
}

/// Applies receipts. Outcomes that are left in the batch may have counted, and must be sent again.
fn apply_receipts(
    job: &RunJob,
    batch: &mut Vec<ExecutedTask>,
    answer: &OutcomesAnswer,
    (sent_us, at_us): (i64, i64),
    is_repeat: bool,
) -> anyhow::Result<()> {
    let (asked, told) = (batch.len(), answer.results.len());
    anyhow::ensure!(asked == told, "{told} results for {asked} outcomes");
    let mut checker = job.checker.lock();
    for (done, receipt) in batch.iter().zip(&answer.results) {
        anyhow::ensure!(receipt.status != OutcomeStatus::Invalid, "refused as not valid: {}", done.item);
        if let Some(n) = done.n {
            let status = receipt.status;
            checker.reported(n, Verdict { at_us, sent_us, attempt: done.attempt, status, is_repeat });
        }
    }
    let mut results = answer.results.iter();
    batch.retain(|_| results.next().is_some_and(|receipt| receipt.status.is_reported_again()));
    Ok(())
}
