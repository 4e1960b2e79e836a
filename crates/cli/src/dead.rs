//! `punctual dead …`: lists dead letters, and redrives them in batches.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    logs,
    output::{self, Form},
    queue, task, times,
};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use punctual_protocol::{RedriveDead, SearchDead, TimeBound};
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum DeadCommand {
    List(ListArgs),
    /// Show a dead task with its history and the errors of its handlers
    Show(task::GetArgs),
    Redrive(RedriveArgs),
}

/// Filters of tasks; all given filters must match
#[derive(Args, Debug)]
struct Filters {
    /// Only tasks of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only tasks of this kind
    #[arg(long, short)]
    kind: Option<String>,
    /// Only tasks with this label
    #[arg(long, value_name = "KEY=VALUE")]
    label: Option<String>,
    /// Only tasks whose last error contains exactly this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only tasks that died at or after this time: RFC 3339, local time, or a duration ago, such as 1h30m
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    since: Option<TimeBound>,
}

/// List dead tasks, newest first
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filters: Filters,
    /// Tasks per page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Redrive dead tasks: run them again, with new attempts
///
/// With --rate the tasks become due evenly spread over time. --dry-run only counts them.
#[derive(Args, Debug)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    filters: Filters,
    /// Redrive at most this many tasks
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Redrive all matching tasks, in as many calls as needed; --limit then applies to each call. Required if no filter is
    /// given
    #[arg(long)]
    all: bool,
    /// Tasks that become due per second [default: all at once]
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Only count the tasks
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: DeadCommand) -> Result<ExitCode> {
    logs::start_for_client();
    match command {
        DeadCommand::List(args) => list(args).await,
        DeadCommand::Show(args) => task::get(args).await,
        DeadCommand::Redrive(args) => redrive(args).await,
    }
}

async fn list(args: ListArgs) -> Result<ExitCode> {
    let Filters { queue, kind, label, error, since } = args.filters;
    let search =
        SearchDead { queue, kind, label, error, since, limit: Some(args.limit), cursor: args.cursor };
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let page = client.dead_letters(&search).await?;
    if args.connect.form() == Form::Json {
        output::json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = page.items.iter().map(|task| {
        let error = task.last_error.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        [
            task.r#ref.clone(),
            task.queue.clone(),
            task.kind.clone(),
            times::away(task.updated_at),
            error.to_owned(),
        ]
    });
    output::table(["REF", "QUEUE", "KIND", "DIED", "ERROR"], rows);
    if page.items.is_empty() {
        queue::say_if_unknown(&client, search.queue.as_deref()).await;
    }
    if let Some(cursor) = &page.next_cursor {
        output::error_line(&format!("more with --cursor {cursor}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn redrive(args: RedriveArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let (form, all, dry_run) = (args.connect.form(), args.all, args.dry_run);
    let Filters { queue, kind, label, error, since } = args.filters;
    let (limit, rate_per_second) = (Some(args.limit), args.rate);
    let mut request = RedriveDead {
        queue,
        kind,
        label,
        error,
        since,
        limit,
        rate_per_second,
        all,
        dry_run,
        ..RedriveDead::default()
    };
    if request.is_unbounded() {
        bail!(
            "which of them? Give --queue, --kind, --label, --error or --since, or --all for all dead tasks"
        );
    }
    loop {
        let done = client.redrive_dead(&request).await?;
        if done.tasks == 0 {
            queue::say_if_unknown(&client, request.queue.as_deref()).await;
        }
        let verb = if dry_run { "would redrive" } else { "redriven" };
        match form {
            Form::Json => output::json(&done)?,
            Form::Text => {
                output::line(&format!("{verb} {}, the last before {}", done.tasks, times::full(done.until)))
            }
        }
        request.start_at_ms = Some(done.until_ms);
        request.cursor = done.next_cursor;
        match &request.cursor {
            Some(_) if all => {}
            Some(_) => {
                if form == Form::Text {
                    output::error_line("there may be more: again, or with --all");
                }
                return Ok(ExitCode::SUCCESS);
            }
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}
