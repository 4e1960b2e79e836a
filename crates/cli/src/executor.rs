//! `punctual executor …`: who runs tasks, and how they are sent home.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    logs,
    output::{self, Form},
    times,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{Executor, ListExecutors};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum ExecutorCommand {
    List(ExecutorListArgs),
    /// Show one executor, with the tasks that it holds
    Get(NameArgs),
    /// Send an executor no new tasks; it finishes those that it has, and ends
    Drain(NameArgs),
    /// Send an executor no new tasks until it is resumed
    Quiet(NameArgs),
    /// Undo a drain or a quiet
    Resume(NameArgs),
}

/// List the executors by name
#[derive(Args, Debug)]
pub(crate) struct ExecutorListArgs {
    /// Executors per page
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// Name of the executor
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: ExecutorCommand) -> Result<ExitCode> {
    logs::start_for_client();
    match command {
        ExecutorCommand::List(args) => list(args).await?,
        ExecutorCommand::Get(args) => {
            let client = args.connect.client(TRIES_OF_ONE_CALL)?;
            show(&client.executor(&args.name).await?, args.connect.form())?;
        }
        ExecutorCommand::Drain(args) => {
            let client = args.connect.client(TRIES_OF_ONE_CALL)?;
            show(&client.drain_executor(&args.name).await?, args.connect.form())?;
        }
        ExecutorCommand::Quiet(args) => {
            let client = args.connect.client(TRIES_OF_ONE_CALL)?;
            show(&client.quiet_executor(&args.name).await?, args.connect.form())?;
        }
        ExecutorCommand::Resume(args) => {
            let client = args.connect.client(TRIES_OF_ONE_CALL)?;
            show(&client.resume_executor(&args.name).await?, args.connect.form())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: ExecutorListArgs) -> Result<()> {
    let asked = ListExecutors { limit: Some(args.limit), cursor: args.cursor };
    let page = args.connect.client(TRIES_OF_ONE_CALL)?.executors(&asked).await?;
    if args.connect.form() == Form::Json {
        return Ok(output::json(&page)?);
    }
    let rows = page.items.iter().map(|executor| {
        [
            executor.name.clone(),
            word(&executor.state),
            executor.host.clone().unwrap_or_default(),
            executor.version.clone().unwrap_or_default(),
            running(executor),
            executor.queues.iter().cloned().collect::<Vec<_>>().join(", "),
            times::away(executor.last_seen_at),
        ]
    });
    output::table(["NAME", "STATE", "HOST", "VERSION", "RUNNING", "QUEUES", "LAST SEEN"], rows);
    if let Some(cursor) = &page.next_cursor {
        output::error_line(&format!("more with --cursor {cursor}"));
    }
    Ok(())
}

fn running(executor: &Executor) -> String {
    let running = executor.running.map_or_else(|| "?".to_owned(), |number| number.to_string());
    executor.capacity.map_or_else(|| running.clone(), |capacity| format!("{running} of {capacity}"))
}

fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn show(executor: &Executor, form: Form) -> Result<()> {
    if form == Form::Json {
        return Ok(output::json(executor)?);
    }
    output::line(&format!("{} is {}", executor.name, word(&executor.state)));
    let joined =
        |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    let mut facts = vec![("running", running(executor)), ("queues", joined(&executor.queues))];
    facts.extend(executor.host.clone().map(|host| ("host", host)));
    facts.extend(executor.concurrency.map(|concurrency| ("at most", concurrency.to_string())));
    facts.extend(executor.version.clone().map(|version| ("version", version)));
    if !executor.kinds.is_empty() {
        facts.push(("kinds", joined(&executor.kinds)));
    }
    facts.extend(executor.labels.iter().map(|(key, value)| ("label", format!("{key}={value}"))));
    facts.push(("first seen", times::full(executor.first_seen_at)));
    facts.push(("last seen", times::full(executor.last_seen_at)));
    output::facts(&facts);
    let leases = executor.leases.as_deref().unwrap_or_default();
    if !leases.is_empty() {
        output::line("");
        let rows = leases.iter().map(|lease| {
            [
                lease.r#ref.clone(),
                lease.queue.clone(),
                lease.kind.clone(),
                word(&lease.state),
                times::away(lease.lease_until),
            ]
        });
        output::table(["REF", "QUEUE", "KIND", "STATE", "LEASE ENDS"], rows);
    }
    Ok(())
}
