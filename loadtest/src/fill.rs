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
/// The pause before a failed insert is sent again: each task has an id of its own.
const AGAIN: Duration = Duration::from_millis(200);
const TRIES: usize = 50;
/// A server that takes no more for now says when to try again; a call is repeated for no longer than this.
const BUSY_MAX: Duration = Duration::from_secs(1_800);

/// Inserts the tasks 0 to `tasks`, each as `write` has it: a JSON object.
pub(crate) async fn fill(
    target: &Target,
    (tasks, connections): (usize, usize),
    write: impl Fn(&mut String, usize) + Send + Sync + 'static,
) -> anyhow::Result<()> {
    fill_from(target, (0, tasks, connections), write).await
}

/// Fills from a number on.
pub(crate) async fn fill_from(
    target: &Target,
    (first, tasks, connections): (usize, usize, usize),
    write: impl Fn(&mut String, usize) + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let (next, write) = (Arc::new(AtomicUsize::new(first)), Arc::new(write));
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
    let (mut tries, mut busy) = (0, Duration::ZERO);
    while tries < TRIES && busy < BUSY_MAX {
        let mut again = None;
        let refused = match connection.post("/v1/tasks/batch", body.as_bytes(), ANSWER_LIMIT).await {
            Ok(answer) if answer.is_success() => {
                let text = String::from_utf8_lossy(answer.body);
                anyhow::ensure!(!text.contains(r#""error":{"#), "a task was refused: {}", clip(&text));
                return Ok(());
            }
            Ok(answer) => {
                again = answer.retry_after.filter(|_| answer.is_passing());
                answer.describe()
            }
            Err(error) => error.to_string(),
        };
        match again {
            Some(again) => {
                busy += again;
                tokio::time::sleep(again).await;
            }
            None => {
                tries += 1;
                note(&format!("a batch is sent again: {}", clip(&refused)));
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    anyhow::bail!("a batch was not accepted: {tries} tries, and {busy:?} in which it was told to come again")
}

fn clip(text: &str) -> &str {
    text.get(..text.len().min(400)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    /// A refused call is repeated, however often, after the time that the refusal named.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the server of a test is a composition root of its own")]
    async fn a_busy_server_is_waited_for() {
        const REFUSALS: usize = 2 * TRIES;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
        let answers = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1_024];
            for nth in 0..=REFUSALS {
                assert!(stream.read(&mut request).await.unwrap() > 0);
                let (status, again) =
                    if nth < REFUSALS { ("429 Busy", "retry-after: 0\r\n") } else { ("200 OK", "") };
                let answer = format!("HTTP/1.1 {status}\r\n{again}content-length: 2\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        fill(&target, (1, 1), |body, _| body.push_str("{}")).await.unwrap();
        answers.await.unwrap();
    }
}
