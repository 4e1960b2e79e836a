//! Executors: each asks its own engine for work of one queue, and another one when that fails; runs what it gets beside
//! each other, and writes down every attempt by the true clock before it answers. An outcome is repeated until it is
//! answered; must never be reported without a lease.

use super::{
    book::{LostCall, Receipt},
    field::{Field, No, code, no, value},
    recorder::Stamp,
    tasks::Lane,
};
use crate::{
    http::{Connection, Error},
    job::Pause,
    wire::{self, LeaseAnswer, OutcomeStatus, OutcomesAnswer},
};
use anyhow::Context as _;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

const WAIT_MS: u64 = 1_000;
/// Beyond what the engine was asked to wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
pub(crate) const LEASE_MS: u64 = 5_000;
const LEASE_MAX: usize = 50;
const REPORT_MAX: usize = 100;
const LINGER: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct DoneTask {
    n: usize,
    nth: usize,
    is_success: bool,
    token: i64,
    item: String,
}

/// One of a queue at each engine.
pub(crate) fn start(
    field: &Arc<Field>,
    lane: Lane,
    engine: usize,
    workers: &mut JoinSet<anyhow::Result<()>>,
) {
    let (done, outcomes) = mpsc::channel(1_000);
    workers.spawn(pull(Arc::clone(field), lane, engine, done));
    workers.spawn(report_all(Arc::clone(field), engine, outcomes));
}

struct ChaosExecutor {
    field: Arc<Field>,
    lane: Lane,
    name: String,
    handlers: JoinSet<()>,
    done: mpsc::Sender<DoneTask>,
}

async fn pull(
    field: Arc<Field>,
    lane: Lane,
    engine: usize,
    done: mpsc::Sender<DoneTask>,
) -> anyhow::Result<()> {
    let mut home = Connection::new(field.target.only(engine));
    let mut others = Connection::new(field.target.beginning_at(engine + 1));
    let path = format!("/v1/queues/{}/lease", lane.queue());
    let name = format!("{}-{engine}", lane.queue());
    let request = wire::lease_request(LEASE_MAX, WAIT_MS, LEASE_MS, &name);
    let mut executor = ChaosExecutor { field, lane, name, handlers: JoinSet::new(), done };
    let mut is_at_home = true;
    let mut pause = Pause::default();
    loop {
        let connection = if is_at_home { &mut home } else { &mut others };
        let has_come = executor.ask(connection, &path, &request).await?;
        while executor.handlers.try_join_next().is_some() {}
        if !has_come {
            pause.wait().await;
        }
        is_at_home = has_come || !is_at_home;
    }
}

impl ChaosExecutor {
    /// True if the call was answered.
    async fn ask(&mut self, connection: &mut Connection, path: &str, request: &[u8]) -> anyhow::Result<bool> {
        let asked = Stamp::now();
        let limit = Duration::from_millis(WAIT_MS) + ANSWER_LIMIT;
        let is_lost = match connection.post(path, request, limit).await {
            Ok(answer) if answer.is_success() => {
                let received = Stamp::now();
                let leased = serde_json::from_slice(answer.body).context("answer to a lease")?;
                self.take(&leased, asked, received);
                return Ok(true);
            }
            Ok(answer) => match no(answer.status, code(&value(&answer))) {
                No::Passing(_) => false,
                No::Unknown(_) => true,
                No::Final(_) => anyhow::bail!("lease: {}", answer.describe()),
            },
            Err(Error::NotSent { .. }) => false,
            Err(error @ Error::Malformed(_)) => return Err(error.into()),
            Err(Error::AnswerLost(_) | Error::Silent(_)) => true,
        };
        if is_lost {
            let (queue, executor) = (self.lane.queue(), self.name.clone());
            let ended = Stamp::now();
            let lost = LostCall { queue, executor, sent_us: asked.clock_us, ended_us: ended.clock_us };
            self.field.book.lock().lost_calls.push(lost);
            self.field.recorder.lock().lost_call(self.lane, asked, ended);
        }
        Ok(false)
    }

    fn take(&mut self, leased: &LeaseAnswer<'_>, asked: Stamp, received: Stamp) {
        for task in &leased.tasks {
            let mut book = self.field.book.lock();
            let n = self.field.index(task.task_id).filter(|n| *n < book.tracks.len());
            let payload = task.payload.map_or("", serde_json::value::RawValue::get);
            let Some(n) = n else {
                book.strange.push((None, format!("task {} came, which nobody inserted", task.task_id)));
                continue;
            };
            if payload != format!(r#"{{"n":{n}}}"#) {
                book.strange.push((Some(n), format!("came with the payload {payload:?}")));
            }
            let (attempt, executor) = (task.attempt, self.name.clone());
            let (asked_us, at_us) = (asked.clock_us, received.clock_us);
            let receipt = Receipt { attempt, asked_us, at_us, executor, report: None };
            let Some(nth) = book.received(n, receipt) else { continue };
            let spec = book.tracks.get(n).map(|track| track.spec.clone());
            drop(book);
            let Some(spec) = spec else { continue };
            let is_success = task.attempt > spec.fails;
            let (reference, token) = (task.r#ref.get(), task.token.get());
            let given = (self.lane, attempt);
            let mut recorder = self.field.recorder.lock();
            let token_number =
                recorder.handed_over(n, given, (reference, token, task.lease_until_ms), (asked, received));
            drop(recorder);
            let word = if is_success { "succeeded" } else { "failed" };
            let item = format!(r#"{{"ref":{reference},"token":{token},"outcome":"{word}"}}"#);
            let (done, outcome) =
                (self.done.clone(), DoneTask { n, nth, is_success, token: token_number, item });
            self.handlers.spawn(async move {
                tokio::time::sleep(Duration::from_millis(spec.work_ms)).await;
                // No receiver is left at the end of a run.
                let _ = done.send(outcome).await;
            });
        }
    }
}

async fn report_all(
    field: Arc<Field>,
    engine: usize,
    mut outcomes: mpsc::Receiver<DoneTask>,
) -> anyhow::Result<()> {
    let mut connection = Connection::new(field.target.beginning_at(engine));
    let (mut batch, mut body) = (Vec::new(), Vec::new());
    while outcomes.recv_many(&mut batch, REPORT_MAX).await > 0 {
        tokio::time::sleep(LINGER).await;
        while let Some(more) = (batch.len() < REPORT_MAX).then(|| outcomes.try_recv().ok()).flatten() {
            batch.push(more);
        }
        body.clear();
        wire::write_outcomes(batch.iter().map(|done| done.item.as_str()), &mut body);
        report(&field, &mut connection, &body, &batch).await?;
        batch.clear();
    }
    Ok(())
}

async fn report(
    field: &Field,
    connection: &mut Connection,
    body: &[u8],
    batch: &[DoneTask],
) -> anyhow::Result<()> {
    let mut sent = Stamp::now();
    let record = |sent, answer: Option<(Stamp, &OutcomesAnswer)>| {
        let mut recorder = field.recorder.lock();
        for (nth, done) in batch.iter().enumerate() {
            let status = answer.and_then(|(stamp, answer)| Some((stamp, answer.results.get(nth)?.status)));
            recorder.reported(done.n, (done.token, done.is_success), sent, status);
        }
    };
    {
        let mut book = field.book.lock();
        batch.iter().for_each(|done| book.reporting(done.n, done.nth, done.is_success, sent.clock_us));
    }
    let (mut pause, mut is_repeat) = (Pause::default(), false);
    loop {
        match connection.post("/v1/outcomes", body, ANSWER_LIMIT).await {
            Ok(answer) if answer.is_success() => {
                let answered = Stamp::now();
                let answer: OutcomesAnswer =
                    serde_json::from_slice(answer.body).context("answer to outcomes")?;
                anyhow::ensure!(answer.results.len() == batch.len(), "results for other outcomes");
                record(sent, Some((answered, &answer)));
                if answer.results.iter().any(|receipt| receipt.status.is_reported_again()) {
                    // Of one database of several, or for later: all are reported again, and the others' are stale then.
                    is_repeat = true;
                    pause.wait().await;
                    sent = Stamp::now();
                    continue;
                }
                let mut book = field.book.lock();
                for (done, receipt) in batch.iter().zip(&answer.results) {
                    anyhow::ensure!(receipt.status != OutcomeStatus::Invalid, "not valid: {}", done.item);
                    book.reported(done.n, done.nth, answered.clock_us, (receipt.status, is_repeat));
                }
                return Ok(());
            }
            Ok(answer) => match no(answer.status, code(&value(&answer))) {
                No::Passing(_) => {}
                No::Unknown(_) => {
                    is_repeat = true;
                    record(sent, None);
                }
                No::Final(_) => anyhow::bail!("outcomes: {}", answer.describe()),
            },
            Err(Error::NotSent { .. }) => {}
            Err(error @ Error::Malformed(_)) => return Err(error.into()),
            Err(Error::AnswerLost(_) | Error::Silent(_)) => {
                is_repeat = true;
                record(sent, None);
            }
        }
        pause.wait().await;
        sent = Stamp::now();
    }
}
