//! Many tasks that are due in days, as fast as the server takes them: what searches and bulk operations are measured over.
//! Nothing of it fires while it is measured.

use crate::{
    http::{Connection, Target},
    progress::note,
};
use anyhow::Context as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// Tasks of one call.
const BATCH: usize = 5_000;
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Tasks between two lines of progress.
const SAID_EVERY: usize = 500_000;
/// A server that is busy says so; the batch is sent again: each task has an id of its own.
const AGAIN: Duration = Duration::from_millis(200);
const TRIES: usize = 50;

/// Inserts the tasks 0 to `tasks`, each as `write` has it: a JSON object.
pub(crate) async fn fill(
    target: &Target,
    (tasks, connections): (usize, usize),
    write: impl Fn(&mut String, usize) + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let (next, write) = (Arc::new(AtomicUsize::new(0)), Arc::new(write));
    let mut workers = JoinSet::new();
    for number in 0..connections.max(1) {
        let (mut connection, next) = (Connection::new(target.beginning_at(number)), Arc::clone(&next));
        let write = Arc::clone(&write);
        workers.spawn(async move {
            let mut body = String::new();
            loop {
                let from = next.fetch_add(BATCH, Relaxed);
                if from >= tasks {
                    return anyhow::Ok(());
                }
                if from % SAID_EVERY < BATCH && from >= BATCH {
                    note(&format!("{from} of {tasks} tasks are sent"));
                }
                body.clear();
                body.push_str(r#"{"tasks":["#);
                for nth in from..(from + BATCH).min(tasks) {
                    body.push_str(if nth == from { "" } else { "," });
                    write(&mut body, nth);
                }
                body.push_str("]}");
                send(&mut connection, &body).await?;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker of the fill panicked")??;
    }
    Ok(())
}

async fn send(connection: &mut Connection, body: &str) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        let refused = match connection.post("/v1/tasks/batch", body.as_bytes(), ANSWER_LIMIT).await {
            Ok(answer) if answer.is_success() => {
                let text = String::from_utf8_lossy(answer.body);
                anyhow::ensure!(!text.contains(r#""error":{"#), "a task was refused: {}", clip(&text));
                return Ok(());
            }
            Ok(answer) => answer.describe(),
            Err(error) => error.to_string(),
        };
        note(&format!("a batch is sent again: {}", clip(&refused)));
        tokio::time::sleep(AGAIN).await;
    }
    anyhow::bail!("a batch was not accepted")
}

fn clip(text: &str) -> &str {
    text.get(..text.len().min(400)).unwrap_or(text)
}
