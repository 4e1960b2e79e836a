//! An executor that is there to be killed: some hands, each of which takes one task, writes down that it begins, works, writes
//! down that it ends, and reports. Started by `limit`, as a process of its own.

use crate::{
    clock::now_us,
    http::{Connection, Target},
    options::parse_ms,
    wire::{self, LeaseAnswer},
};
use anyhow::Context as _;
use clap::Args;
use std::{fs::File, io::Write as _, path::PathBuf, sync::Arc, time::Duration};
use tokio::task::JoinSet;

#[derive(Args, Debug, Clone)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) queue: String,
    #[arg(long)]
    pub(crate) log: PathBuf,
    #[arg(long, value_parser = parse_ms)]
    pub(crate) work: i64,
    #[arg(long, value_parser = parse_ms)]
    pub(crate) lease: i64,
    #[arg(long)]
    pub(crate) hands: usize,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const WAIT_MS: u64 = 1_000;
const PAUSE: Duration = Duration::from_millis(100);

/// Never ends by itself, except with an error.
pub(crate) async fn execute(options: &ChildOptions) -> anyhow::Result<()> {
    let target = Target::new(&options.url, None, None)?;
    let log =
        File::options().create(true).append(true).open(&options.log).context("the log of executions")?;
    let (log, mut hands) = (Arc::new(log), JoinSet::new());
    for number in 0..options.hands {
        let hand = Hand { options: options.clone(), log: Arc::clone(&log), number };
        hands.spawn(hand.work(target.beginning_at(number)));
    }
    while let Some(ended) = hands.join_next().await {
        ended.context("a hand panicked")??;
    }
    Ok(())
}

struct Hand {
    options: ChildOptions,
    log: Arc<File>,
    number: usize,
}

impl Hand {
    async fn work(self, target: Target) -> anyhow::Result<()> {
        let mut connection = Connection::new(target);
        let path = format!("/v1/queues/{}/lease", self.options.queue);
        let name = format!("executor-{}-{}", std::process::id(), self.number);
        let lease_ms = u64::try_from(self.options.lease).unwrap_or(0);
        let request = wire::lease_request(1, WAIT_MS, lease_ms, &name);
        loop {
            let taken = match connection.post(&path, &request, ANSWER_LIMIT).await {
                Ok(answer) if answer.is_success() => {
                    let leased: LeaseAnswer<'_> =
                        serde_json::from_slice(answer.body).context("answer to a lease")?;
                    leased.tasks.first().map(|task| (task.task_id, task.attempt, task.succeeded()))
                }
                Ok(answer) if !answer.is_passing() => anyhow::bail!("lease: {}", answer.describe()),
                Ok(_) | Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    None
                }
            };
            if let Some((task, attempt, outcome)) = taken {
                self.execute(task, attempt).await?;
                report(&mut connection, &outcome).await;
            }
        }
    }

    async fn execute(&self, task: i64, attempt: u32) -> anyhow::Result<()> {
        self.write(task, attempt, 'B')?;
        tokio::time::sleep(Duration::from_millis(u64::try_from(self.options.work).unwrap_or(0))).await;
        self.write(task, attempt, 'E')
    }

    /// Writes one entry with one write, which the system appends atomically.
    fn write(&self, task: i64, attempt: u32, what: char) -> anyhow::Result<()> {
        let line = format!("{} {task} {attempt} {what} {}\n", std::process::id(), now_us());
        (&*self.log).write_all(line.as_bytes()).context("the log of executions")
    }
}

/// Reports until there is an answer: whatever it is, the attempt is over.
async fn report(connection: &mut Connection, outcome: &str) {
    let mut body = Vec::new();
    wire::write_outcomes(std::iter::once(outcome), &mut body);
    while !connection.post("/v1/outcomes", &body, ANSWER_LIMIT).await.is_ok_and(|answer| !answer.is_passing())
    {
        tokio::time::sleep(PAUSE).await;
    }
}
