//! `punctual queue list`: the queues that have tasks, with the counts of the running account.

use crate::{
    connect::ConnectArgs,
    output::{self, Form},
};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use punctual_protocol::{Page, Problem, headers};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, process::ExitCode, time::Duration};

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// Show the queues that have tasks, and how many stand in which state
    List(ConnectArgs),
}

#[derive(Debug, Serialize, Deserialize)]
struct Queue {
    queue: String,
    /// By state.
    tasks: BTreeMap<String, i64>,
    /// Wait for an executor.
    ready: u64,
}

const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn run(command: QueueCommand) -> Result<ExitCode> {
    let QueueCommand::List(connect) = command;
    let page = queues(&connect).await?;
    match connect.form() {
        Form::Json => output::json(&page)?,
        Form::Text => print(&page.items),
    }
    Ok(ExitCode::SUCCESS)
}

async fn queues(connect: &ConnectArgs) -> Result<Page<Queue>> {
    let http = reqwest::Client::builder().timeout(TIMEOUT).build()?;
    let mut request = http.get(format!("{}/v1/queues", connect.url.trim_end_matches('/')));
    if let Some(token) = std::env::var("PUNCTUAL_TOKEN").ok().filter(|it| !it.is_empty()) {
        request = request.bearer_auth(token);
    }
    if let Some(namespace) = &connect.namespace {
        request = request.header(headers::NAMESPACE, namespace);
    }
    let response = request.send().await.context("the server cannot be reached")?;
    if !response.status().is_success() {
        let status = response.status();
        let problem: Problem =
            response.json().await.with_context(|| format!("the server answered {status}"))?;
        bail!("refused: {problem}");
    }
    response.json().await.context("the answer is not a page of queues")
}

fn print(queues: &[Queue]) {
    let rows = queues.iter().map(|it| {
        let tasks = it.tasks.iter().map(|(state, count)| format!("{state} {count}")).collect::<Vec<_>>();
        [it.queue.clone(), it.ready.to_string(), tasks.join(", ")]
    });
    output::table(["QUEUE", "READY", "TASKS BY STATE"], rows);
}
