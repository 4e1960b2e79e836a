//! Inserts at a steady rate through all engines, alone and in batches, each repeated until it is acknowledged. Must keep
//! its rate whatever hangs: a call that waits holds up nothing but itself.

use super::{
    book::Book,
    field::{Field, No, attempt, code, integer, no, text, value},
    recorder::Stamp,
    tasks::Maker,
};
use crate::{
    clock::{now_ms, now_us},
    http::{Connection, Error},
    job::Pause,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
};

const ANSWER_LIMIT: Duration = Duration::from_secs(8);
const TICK: Duration = Duration::from_millis(50);
const BATCH_MAX: usize = 10;
/// Calls that may hang at one time.
const CALLERS: usize = 48;

#[derive(Debug)]
pub(crate) struct InsertPace {
    pub(crate) rate: u32,
    pub(crate) seed: u64,
}

/// The time until due of tasks that are inserted after the planned end of the load.
const DUE_WITHIN_MS: i64 = 5_000;

/// Starts the inserts; they end by themselves, when the field says.
pub(crate) fn start(field: &Arc<Field>, pace: InsertPace, workers: &mut JoinSet<anyhow::Result<()>>) {
    let (planned, taken) = mpsc::channel(CALLERS);
    let taken = Arc::new(Mutex::new(taken));
    workers.spawn(plan(Arc::clone(field), pace, planned));
    for n in 0..CALLERS {
        workers.spawn(call_all(Arc::clone(field), n, Arc::clone(&taken)));
    }
}

async fn plan(field: Arc<Field>, pace: InsertPace, planned: mpsc::Sender<Vec<usize>>) -> anyhow::Result<()> {
    let (mut maker, mut sizes) =
        (Maker::new(pace.seed, field.ends_us() / 1_000), fastrand::Rng::with_seed(pace.seed));
    let begun_us = now_us();
    let mut made = 0;
    while now_us() < field.ends_us() {
        maker.due_until(now_ms() + DUE_WITHIN_MS);
        let owed = (now_us() - begun_us) * i64::from(pace.rate) / 1_000_000;
        while made < owed {
            let size = if sizes.bool() { 1 } else { sizes.usize(2..=BATCH_MAX) };
            let batch: Vec<usize> = {
                let mut book = field.book.lock();
                (0..size).map(|_| book.planned(maker.next(now_ms()))).collect()
            };
            made += i64::try_from(size)?;
            // Full only while every caller hangs.
            if planned.send(batch).await.is_err() {
                return Ok(());
            }
        }
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

async fn call_all(
    field: Arc<Field>,
    number: usize,
    taken: Arc<Mutex<mpsc::Receiver<Vec<usize>>>>,
) -> anyhow::Result<()> {
    let mut connection = Connection::new(field.target.beginning_at(number));
    loop {
        let Some(mut open) = taken.lock().await.recv().await else { return Ok(()) };
        let mut pause = Pause::default();
        loop {
            call(&field, &mut connection, &mut open).await?;
            if open.is_empty() {
                break;
            }
            if field.has_given_up() {
                let mut book = field.book.lock();
                open.drain(..).for_each(|n| book.given_up(n));
                break;
            }
            pause.wait().await;
        }
        // The next one goes to another engine.
        connection = Connection::new(field.target.beginning_at(fastrand::usize(..field.engines)));
    }
}

/// One call for everything open; what it settles is open no more.
async fn call(field: &Field, connection: &mut Connection, open: &mut Vec<usize>) -> anyhow::Result<()> {
    let (path, body) = request(field, open);
    let sent = Stamp::now();
    open.iter().for_each(|n| field.book.lock().sent(*n, sent.clock_us));
    let answer = match connection.post(path, body.as_bytes(), ANSWER_LIMIT).await {
        Ok(answer) => answer,
        Err(Error::NotSent { .. }) => return Ok(()),
        Err(error @ Error::Malformed(_)) => return Err(error.into()),
        Err(Error::AnswerLost(_) | Error::Silent(_)) => {
            let mut book = field.book.lock();
            open.iter().for_each(|n| book.sent_into_the_dark(*n));
            open.iter().for_each(|n| record(field, &book, *n, sent, None));
            return Ok(());
        }
    };
    let (answered, status, body) = (Stamp::now(), answer.status, value(&answer));
    let items = match body.get("results").and_then(Value::as_array) {
        Some(results) if status == 200 => results.iter().map(item).collect(),
        _ => vec![(status, body); open.len()],
    };
    anyhow::ensure!(items.len() == open.len(), "{} results for {} inserts", items.len(), open.len());
    let mut book = field.book.lock();
    let mut left = Vec::new();
    for (n, (status, body)) in open.drain(..).zip(items) {
        if status < 300 {
            anyhow::ensure!(
                integer(&body, "task_id") == field.task_id(n),
                "an answer about another task: {body}"
            );
            let is_new = text(&body, "outcome") == "created";
            book.acknowledged(n, answered.clock_us, text(&body, "ref"), is_new);
            record(field, &book, n, sent, Some((answered, text(&body, "outcome"))));
            if attempt(&body) > 0 && is_new {
                book.strange.push((Some(n), format!("created, with attempts: {body}")));
            }
            continue;
        }
        match no(status, code(&body)) {
            No::Passing(_) => {}
            No::Unknown(_) => {
                book.sent_into_the_dark(n);
                record(field, &book, n, sent, None);
            }
            No::Final(_) => anyhow::bail!("an insert was refused: {status} {body}"),
        }
        left.push(n);
    }
    drop(book);
    *open = left;
    Ok(())
}

fn record(field: &Field, book: &Book, n: usize, sent: Stamp, answer: Option<(Stamp, &str)>) {
    if let Some(track) = book.tracks.get(n) {
        field.recorder.lock().inserted(n, &track.spec, sent, answer);
    }
}

fn request(field: &Field, open: &[usize]) -> (&'static str, String) {
    let book = field.book.lock();
    let tasks = open.iter().filter_map(|n| Some(book.tracks.get(*n)?.spec.body(*n, field.task_id(*n))));
    let mut tasks: Vec<Value> = tasks.collect();
    match tasks.pop() {
        Some(one) if tasks.is_empty() => ("/v1/tasks", one.to_string()),
        last => {
            tasks.extend(last);
            ("/v1/tasks/batch", json!({ "tasks": tasks }).to_string())
        }
    }
}

/// Status and task, or problem, of one item of a batch.
fn item(result: &Value) -> (u16, Value) {
    let status = u16::try_from(integer(result, "status")).unwrap_or(500);
    let body = result.get("task").or_else(|| result.get("error")).cloned();
    (status, body.unwrap_or(Value::Null))
}
