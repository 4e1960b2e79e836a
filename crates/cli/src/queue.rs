//! `punctual queue list`: the queues that have tasks, with the counts of the running account.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
};
use anyhow::Result;
use clap::Subcommand;
use punctual_protocol::QueueSummary;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// Show the queues that have tasks, and how many stand in which state
    List(ConnectArgs),
}

pub(crate) async fn run(command: QueueCommand) -> Result<ExitCode> {
    let QueueCommand::List(connect) = command;
    let page = connect.client(TRIES_OF_ONE_CALL)?.queues().await?;
    match connect.form() {
        Form::Json => output::json(&page)?,
        Form::Text => print(&page.items),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(queues: &[QueueSummary]) {
    let rows = queues.iter().map(|it| {
        let tasks = it.tasks.iter().map(|(state, count)| format!("{state} {count}")).collect::<Vec<_>>();
        [it.queue.clone(), it.ready.to_string(), tasks.join(", ")]
    });
    output::table(["QUEUE", "READY", "TASKS BY STATE"], rows);
}
