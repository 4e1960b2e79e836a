//! Sends the planned inserts, each at its planned instant or as soon after it as the server allows, and repeats what was
//! not answered under the same task id. Must never drop a planned task to catch up.

use crate::{
    clock::{now_us, sleep_until_us},
    http::{Connection, Error},
    job::{Pause, RunJob},
    plan::PlannedBatch,
    wire::{BatchAnswer, InsertOutcome, InsertedTask},
};
use anyhow::Context as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The call that inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertCall {
    Batch,
    Single,
}

/// Ends when every task of the plan has a definite answer.
pub(crate) async fn insert_all(job: Arc<RunJob>, call: InsertCall, connections: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for number in 0..connections.max(1) {
        let inserter = Inserter::new(Arc::clone(&job), call, number);
        workers.spawn(inserter.run(Arc::clone(&next)));
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("an inserter panicked")??;
    }
    Ok(())
}

struct Inserter {
    job: Arc<RunJob>,
    call: InsertCall,
    connection: Connection,
    body: Vec<u8>,
    /// Tasks of the batch at hand without a definite answer.
    open: Vec<usize>,
}

impl Inserter {
    fn new(job: Arc<RunJob>, call: InsertCall, number: usize) -> Self {
        let connection = Connection::new(job.inserts_at.beginning_at(number));
        Self { job, call, connection, body: Vec::new(), open: Vec::new() }
    }

    async fn run(mut self, next: Arc<AtomicUsize>) -> anyhow::Result<()> {
        let plan = Arc::clone(&self.job.plan);
        while let Some(batch) = plan.batch(next.fetch_add(1, Ordering::Relaxed)) {
            sleep_until_us(batch.send_at_us).await;
            self.insert(batch).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, batch: &PlannedBatch) -> anyhow::Result<()> {
        let sent_us = now_us();
        self.job.checker.lock().insert_sent(sent_us, batch.send_at_us);
        self.open.extend(batch.tasks.clone());
        let mut pause = Pause::default();
        loop {
            self.call(sent_us).await?;
            if self.open.is_empty() {
                return Ok(());
            }
            pause.wait().await;
        }
    }

    /// One call for everything open; what it settles is open no more.
    async fn call(&mut self, sent_us: i64) -> anyhow::Result<()> {
        let Self { job, connection, body, open, call } = self;
        body.clear();
        let path = write_body(job, *call, open, body);
        let answer = match connection.post(path, body, job.inserts_at.limit(ANSWER_LIMIT)).await {
            Ok(answer) => answer,
            Err(Error::NotSent { .. }) => return Ok(()),
            Err(Error::AnswerLost(_) | Error::Silent(_)) => {
                job.checker.lock().inserts_repeated(u64::try_from(open.len())?);
                return Ok(());
            }
            Err(error @ Error::Malformed(_)) => return Err(error.into()),
        };
        let at_us = now_us();
        if answer.is_passing() {
            return Ok(());
        }
        // A batch succeeds or fails by its items; what refuses the whole of it is a fault of the run.
        anyhow::ensure!(answer.is_success() || *call == InsertCall::Single, "insert: {}", answer.describe());
        job.checker.lock().measured.insert.record_us(at_us - sent_us);
        match call {
            InsertCall::Batch => {
                let results = serde_json::from_slice(answer.body).context("answer to a batch")?;
                take_batch(job, open, results, at_us)
            }
            InsertCall::Single if answer.is_success() => {
                let task = serde_json::from_slice(answer.body).context("answer to an insert")?;
                take_single(job, open, &task, at_us)
            }
            InsertCall::Single => {
                open.clear();
                job.checker.lock().insert_refused();
                Ok(())
            }
        }
    }
}

/// Writes the body and returns its path.
fn write_body(job: &RunJob, call: InsertCall, open: &[usize], body: &mut Vec<u8>) -> &'static str {
    let mut tasks = open.iter().filter_map(|n| Some((*n, *job.plan.due_ms().get(*n)?)));
    match call {
        InsertCall::Batch => {
            job.shape.write_batch(tasks, body);
            "/v1/tasks/batch"
        }
        InsertCall::Single => {
            if let Some((n, due_ms)) = tasks.next() {
                job.shape.write_task(n, due_ms, body);
            }
            "/v1/tasks"
        }
    }
}

fn take_single(job: &RunJob, open: &mut Vec<usize>, task: &InsertedTask, at_us: i64) -> anyhow::Result<()> {
    for n in open.drain(..) {
        let outcome = confirmed(job, n, task)?;
        job.checker.lock().inserted(n, outcome, at_us);
    }
    Ok(())
}

/// Items that the server could not take just now stay open.
fn take_batch(
    job: &RunJob,
    open: &mut Vec<usize>,
    answer: BatchAnswer<'_>,
    at_us: i64,
) -> anyhow::Result<()> {
    let (asked, reported) = (open.len(), answer.results.len());
    anyhow::ensure!(asked == reported, "{reported} results for {asked} tasks");
    let mut checker = job.checker.lock();
    let mut again = Vec::new();
    for (n, item) in open.drain(..).zip(answer.results) {
        match item.task {
            Some(task) if item.status < 300 => checker.inserted(n, confirmed(job, n, &task)?, at_us),
            _ if item.status == 429 || item.status >= 500 => again.push(n),
            _ => {
                if checker.so_far().refused == 0 {
                    let error = item.error.map_or("", serde_json::value::RawValue::get);
                    crate::progress::note(&format!("first refused insert: {} {error}", item.status));
                }
                checker.insert_refused();
            }
        }
    }
    *open = again;
    Ok(())
}

/// The answer must be about the task that was sent.
fn confirmed(job: &RunJob, n: usize, task: &InsertedTask) -> anyhow::Result<InsertOutcome> {
    let sent = job.shape.task_id(n);
    anyhow::ensure!(task.task_id == sent, "task {sent} was answered as {}", task.task_id);
    Ok(task.outcome)
}
