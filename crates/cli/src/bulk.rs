//! `punctual bulk`: one action on all tasks that match, previewed first.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    duration, logs,
    output::{self, Form},
    queue, spans,
    task::{export, word},
    times,
};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use punctual_protocol::{
    BulkAction, BulkArgs, BulkFilter, BulkOperation, BulkState, CreateBulk, Instant, PauseRequest, Phase,
    State,
};
use punctual_sdk::Client;
use serde::Serialize;
use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

/// The pause between two reads of an operation's progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Subcommand, Debug)]
pub(crate) enum BulkCommand {
    /// Cancel tasks
    Cancel(CancelArgs),
    /// Change the due time of tasks
    Reschedule(RescheduleArgs),
    /// Change the priority of tasks
    SetPriority(PriorityArgs),
    /// Move tasks to another queue
    SetQueue(QueueArgs),
    /// Make tasks due now
    RunNow(FilterArgs),
    /// Redrive dead tasks: run them again, with new attempts
    Redrive(FilterArgs),
    /// Move waiting tasks to the dead letters, where they can be inspected and redriven
    Bury(FilterArgs),
    /// Delete finished tasks, with their histories and payloads
    Delete(FilterArgs),
    /// Find and count tasks; `punctual bulk tasks` writes them
    Export(FilterArgs),
    /// Write the tasks of an operation, one per line (NDJSON): the result of an export, or the remaining tasks of another
    /// operation
    Tasks(OneArgs),
    /// List the operations of the namespace, newest first
    List(ListArgs),
    /// Show one operation and its progress
    Get(OneArgs),
    /// Show the failures of an operation
    Failures(FailuresArgs),
    /// Start a previewed operation
    Confirm(ConfirmArgs),
    /// Pause an operation until it is resumed
    Pause(PauseArgs),
    /// Resume a paused operation
    Resume(OneArgs),
    /// Stop an operation permanently; changes that it has made remain
    Stop(PauseArgs),
    /// Retry the failures of an operation
    Repeat(OneArgs),
}

/// Filters and rate
///
/// The tasks are counted first. With --yes the operation starts at once, otherwise with `punctual bulk confirm`.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct FilterArgs {
    /// Only tasks of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only tasks in this state: scheduled, ready, retrying, succeeded, dead, cancelled, …
    #[arg(long, value_parser = word::<State>)]
    state: Option<State>,
    /// Only tasks in this phase (a group of states): pending, processing, success, failed, stopped
    #[arg(long, value_parser = word::<Phase>)]
    phase: Option<Phase>,
    /// Only tasks of this kind
    #[arg(long, short)]
    kind: Option<String>,
    /// Only tasks with this label
    #[arg(long, value_name = "KEY=VALUE")]
    label: Option<String>,
    /// Due at or after this time: RFC 3339, local time, or a duration from now or ago, such as 1h30m or "2d ago"
    #[arg(long, value_name = "INSTANT", value_parser = times::instant)]
    due_after: Option<String>,
    /// Due before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::instant)]
    due_before: Option<String>,
    /// Only tasks whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Every task of the namespace; required if no filter is given
    #[arg(long)]
    all: bool,
    /// Tasks per second [default: 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Reason, shown with the operation and in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Start without a separate confirmation
    #[arg(long, short)]
    yes: bool,
    /// Wait until the operation has ended; exit code 1 if something failed
    #[arg(long, requires = "yes")]
    wait: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// Also cancel tasks that have fired and wait, and ask executors to stop those that run
    #[arg(long)]
    stop_if_fired: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("time").required(true))]
pub(crate) struct RescheduleArgs {
    /// Move the due time later by this duration, such as 1h
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, group = "time")]
    later: Option<Duration>,
    /// Move the due time earlier by this duration
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, group = "time")]
    earlier: Option<Duration>,
    /// New due time: RFC 3339, or local time, such as "2026-11-24 09:00"
    #[arg(long, value_name = "INSTANT", value_parser = times::instant, group = "time")]
    at: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PriorityArgs {
    /// Priority, 1 (first) to 5 (last)
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    priority: u8,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct QueueArgs {
    /// Target queue
    #[arg(value_name = "QUEUE")]
    into: String,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct OneArgs {
    /// Id of the operation, as the preview printed it
    id: i64,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ConfirmArgs {
    /// Id of the operation, as the preview printed it
    id: i64,
    /// Only if the operation has this revision
    #[arg(long, value_name = "NUMBER")]
    if_revision: Option<i64>,
    /// Wait until the operation has ended; exit code 1 if something failed
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// Id of the operation, as the preview printed it
    id: i64,
    /// Reason, shown with the operation and in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Name of the person who does this
    #[arg(long, env = "USER", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Maximum number of operations to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FailuresArgs {
    /// Id of the operation, as the preview printed it
    id: i64,
    /// Maximum number of failures to show
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: BulkCommand) -> Result<ExitCode> {
    logs::start_for_client();
    let none = BulkArgs::default;
    match command {
        BulkCommand::Cancel(CancelArgs { stop_if_fired, filter }) => {
            preview(BulkAction::Cancel, BulkArgs { stop_if_fired, ..none() }, filter).await
        }
        BulkCommand::Reschedule(RescheduleArgs { later, earlier, at, filter }) => {
            let by_ms = later.map(duration::ms).or_else(|| earlier.map(|earlier| -duration::ms(earlier)));
            let args = BulkArgs { by_ms, execute_at: at.map(Instant::Text), ..none() };
            preview(BulkAction::Reschedule, args, filter).await
        }
        BulkCommand::SetPriority(PriorityArgs { priority, filter }) => {
            preview(BulkAction::SetPriority, BulkArgs { priority: Some(priority), ..none() }, filter).await
        }
        BulkCommand::SetQueue(QueueArgs { into, filter }) => {
            preview(BulkAction::SetQueue, BulkArgs { queue: Some(into), ..none() }, filter).await
        }
        BulkCommand::RunNow(filter) => preview(BulkAction::RunNow, none(), filter).await,
        BulkCommand::Redrive(filter) => preview(BulkAction::Redrive, none(), filter).await,
        BulkCommand::Bury(filter) => preview(BulkAction::Bury, none(), filter).await,
        BulkCommand::Delete(filter) => preview(BulkAction::Delete, none(), filter).await,
        BulkCommand::Export(filter) => preview(BulkAction::Export, none(), filter).await,
        BulkCommand::Tasks(OneArgs { id, connect }) => tasks(id, &connect).await,
        BulkCommand::List(ListArgs { limit, connect }) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.bulks(limit, None).await?;
            shown(connect.form(), &page, || print(&page.items))
        }
        BulkCommand::Get(OneArgs { id, connect }) => {
            let bulk = connect.client(TRIES_OF_ONE_CALL)?.bulk(id).await?;
            shown(connect.form(), &bulk, || print_one(&bulk))
        }
        BulkCommand::Failures(FailuresArgs { id, limit, connect }) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.bulk_failures(id, limit, None).await?;
            shown(connect.form(), &page, || {
                let rows = page.items.iter().map(|failure| {
                    [failure.task_ref.clone(), times::stamp(failure.at), failure.error.clone()]
                });
                output::table(["TASK", "AT", "ERROR"], rows);
            })
        }
        BulkCommand::Confirm(ConfirmArgs { id, if_revision, wait, connect }) => {
            let client = connect.client(TRIES_OF_ONE_CALL)?;
            let bulk = client.confirm_bulk(id, if_revision).await?;
            if wait { until_its_end(&client, bulk, connect.form()).await } else { one(&bulk, connect.form()) }
        }
        BulkCommand::Pause(PauseArgs { id, reason, by, connect }) => {
            let request = PauseRequest { reason, by: by.filter(|by| !by.is_empty()) };
            one(&connect.client(TRIES_OF_ONE_CALL)?.pause_bulk(id, &request).await?, connect.form())
        }
        BulkCommand::Resume(OneArgs { id, connect }) => {
            one(&connect.client(TRIES_OF_ONE_CALL)?.resume_bulk(id).await?, connect.form())
        }
        BulkCommand::Stop(PauseArgs { id, reason, by, connect }) => {
            let request = PauseRequest { reason, by: by.filter(|by| !by.is_empty()) };
            one(&connect.client(TRIES_OF_ONE_CALL)?.stop_bulk(id, &request).await?, connect.form())
        }
        BulkCommand::Repeat(OneArgs { id, connect }) => {
            one(&connect.client(TRIES_OF_ONE_CALL)?.repeat_bulk(id).await?, connect.form())
        }
    }
}

async fn preview(action: BulkAction, args: BulkArgs, filter_args: FilterArgs) -> Result<ExitCode> {
    let filter = BulkFilter {
        queue: filter_args.queue,
        state: filter_args.state,
        phase: filter_args.phase,
        kind: filter_args.kind,
        label: filter_args.label,
        due_after: filter_args.due_after.map(Instant::Text),
        due_before: filter_args.due_before.map(Instant::Text),
        error: filter_args.error,
    };
    let request = CreateBulk {
        action,
        filter,
        all: filter_args.all,
        args,
        rate: filter_args.rate,
        reason: filter_args.reason,
    };
    if request.filter == BulkFilter::default() && !request.all {
        bail!(
            "which tasks? Give --queue, --state, --kind, --label, --due-after, --due-before or --error, or --all for every task"
        );
    }
    let (client, form) = (filter_args.connect.client(TRIES_OF_ONE_CALL)?, filter_args.connect.form());
    let mut previewed = client.preview_bulk(&request).await?;
    if previewed.count == 0 {
        queue::say_if_unknown(&client, request.filter.queue.as_deref()).await;
    }
    if !filter_args.yes {
        counted_all(&client, &mut previewed, form).await?;
        return shown(form, &previewed, || {
            print_preview(&previewed);
            let how = format!("punctual bulk confirm {} --if-revision {}", previewed.id, previewed.revision);
            output::error_line(&format!("nothing has been done; begin with: {how}"));
        });
    }
    if form == Form::Text {
        print_preview(&previewed);
    }
    let confirmed = client.confirm_bulk(previewed.id, Some(previewed.revision)).await?;
    if filter_args.wait {
        return until_its_end(&client, confirmed, form).await;
    }
    one(&confirmed, form)
}

/// Waits for the count of a preview. A confirmation without it covers at least the tasks that were counted.
async fn counted_all(client: &Client, operation: &mut BulkOperation, form: Form) -> Result<()> {
    let (mut said, sample) = (None, operation.sample.take());
    while !operation.counted_all && operation.state == BulkState::Previewed {
        if form == Form::Text && said != Some(operation.count) {
            output::error_line(&format!(
                "at least {} tasks, still counting …",
                output::count(operation.count)
            ));
            said = Some(operation.count);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        *operation = client.bulk(operation.id).await?;
    }
    operation.sample = sample;
    Ok(())
}

async fn tasks(id: i64, connect: &ConnectArgs) -> Result<ExitCode> {
    let (client, mut cursor) = (connect.client(TRIES_OF_ONE_CALL)?, None::<String>);
    loop {
        let page = client.bulk_tasks(id, 1_000, cursor.as_deref()).await?;
        export::write(&client, &page.items, false).await?;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Waits for the end of a running operation, with a bar on stderr if that is a terminal.
async fn until_its_end(client: &Client, mut operation: BulkOperation, form: Form) -> Result<ExitCode> {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(operation.count)
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    while matches!(operation.state, BulkState::Running | BulkState::Paused) {
        tokio::time::sleep(LOOK_EVERY).await;
        operation = client.bulk(operation.id).await?;
        bar.set_position(operation.done + operation.skipped + operation.failed);
    }
    bar.finish_and_clear();
    one(&operation, form)?;
    if operation.state != BulkState::Done {
        bail!("it was stopped before its end");
    }
    Ok(if operation.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn one(operation: &BulkOperation, form: Form) -> Result<ExitCode> {
    shown(form, operation, || print_one(operation))
}

fn shown(form: Form, answer: &impl Serialize, print: impl FnOnce()) -> Result<ExitCode> {
    match form {
        Form::Json => output::json(answer)?,
        Form::Text => print(),
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a value in the API.
fn spelt(body: &impl Serialize) -> String {
    match serde_json::to_value(body) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

fn counted(operation: &BulkOperation) -> String {
    let count = output::count(operation.count);
    match (operation.counted_all, operation.state) {
        (true, _) => count,
        (false, BulkState::Previewed) => format!("at least {count} (still counting)"),
        (false, _) => format!("at least {count}"),
    }
}

fn took(ms: u64) -> String {
    if ms >= 60_000 {
        return spans::span(i64::try_from(ms).unwrap_or(i64::MAX));
    }
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

fn print_preview(operation: &BulkOperation) {
    output::line(&format!(
        "{} {} tasks: {}",
        spelt(&operation.action),
        counted(operation),
        spelt(&operation.filter)
    ));
    let states: Vec<String> = operation.states.iter().map(spelt).collect();
    output::facts(&[
        ("operation", operation.id.to_string()),
        ("in states", states.join(", ")),
        ("takes", format!("{} at {} a second", took(operation.takes_ms), operation.rate)),
    ]);
    let rows = operation.sample.iter().flatten().map(|task| {
        [task.r#ref.clone(), task.queue.clone(), spelt(&task.state), times::away(task.execute_at)]
    });
    output::table(["FIRST OF THEM", "QUEUE", "STATE", "DUE"], rows);
}

fn print_one(operation: &BulkOperation) {
    output::line(&format!(
        "{} {} ({}): {}",
        operation.id,
        spelt(&operation.action),
        operation.namespace,
        spelt(&operation.state)
    ));
    let mut facts = vec![
        ("filter", spelt(&operation.filter)),
        ("count", counted(operation)),
        ("done", output::count(operation.done)),
        ("skipped", output::count(operation.skipped)),
        ("failed", output::count(operation.failed)),
        ("created", format!("by {} at {}", operation.created_by, times::full(operation.created_at))),
    ];
    facts.extend(operation.reason.clone().map(|reason| ("reason", reason)));
    facts.extend(operation.note.clone().map(|note| ("note", note)));
    facts.extend(operation.waits_for.clone().map(|waits_for| ("waits for", waits_for)));
    facts.extend(operation.set_aside.clone().map(output::set_aside));
    if operation.state == BulkState::Running {
        facts.push(("left", took(operation.takes_ms)));
    }
    facts.extend(operation.ended_at.map(|ended_at| ("ended", times::full(ended_at))));
    output::facts(&facts);
}

fn print(all: &[BulkOperation]) {
    let rows = all.iter().map(|operation| {
        let came = format!("{}/{}", output::count(operation.done), counted(operation));
        [
            operation.id.to_string(),
            spelt(&operation.action),
            spelt(&operation.state),
            came,
            operation.failed.to_string(),
            spelt(&operation.filter),
        ]
    });
    output::table(["ID", "ACTION", "STATE", "DONE", "FAILED", "FILTER"], rows);
}
