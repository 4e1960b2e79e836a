//! `punctual task export`: a selection of tasks, one a line, as they stand or as `punctual task import` takes them.

use super::list::word;
use crate::{connect::ConnectArgs, output, times};
use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_protocol::{InsertTask, Int64, SearchTasks, State, Task, TimeBound};
use punctual_sdk::Client;
use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Tasks of one request.
const PAGE: u32 = 1_000;
/// An export outlasts a server that is restarted.
const TRIES: u32 = 12;

/// Write tasks to stdout, one per line (NDJSON), newest first
///
/// Examples:
///   punctual task export --queue mail --state dead > dead.ndjson
///   punctual task export --queue mail --as-inserts | punctual task import - --url http://other:7450
///   punctual task export --state-file export.state >> all.ndjson
///
/// Without filters, all tasks of the namespace are written. Histories are not included.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ExportArgs {
    /// Only tasks of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only tasks in this state: scheduled, ready, dispatched, running, retrying, succeeded, dead, cancelled, …
    #[arg(long, value_parser = word::<State>)]
    state: Option<State>,
    /// Only tasks of this kind
    #[arg(long, short)]
    kind: Option<String>,
    /// Only tasks with this label
    #[arg(long, value_name = "KEY=VALUE")]
    label: Option<String>,
    /// Due at or after this time: RFC 3339, local time, or a duration from now or ago, such as 1h30m or "2d ago"
    #[arg(long, value_name = "INSTANT", value_parser = times::due)]
    due_after: Option<TimeBound>,
    /// Due before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::due)]
    due_before: Option<TimeBound>,
    /// Write each task as an insert, in the format that `punctual task import` reads, instead of its current state
    #[arg(long)]
    as_inserts: bool,
    /// Record the progress in this file. If the file exists, the export continues from there: append its output. A page that
    /// was written just before a crash is written again
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: ExportArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES)?;
    let mut search = SearchTasks {
        queue: args.queue,
        state: args.state,
        kind: args.kind,
        label: args.label,
        due_after: args.due_after,
        due_before: args.due_before,
        limit: Some(PAGE),
        cursor: args.state_file.as_deref().map(begun).transpose()?.flatten(),
        ..SearchTasks::default()
    };
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{spinner} {pos} tasks  {per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    loop {
        let page = client.list(&search).await?;
        write(&client, &page.items, args.as_inserts).await?;
        bar.inc(u64::try_from(page.items.len()).unwrap_or(0));
        if let (Some(path), Some(cursor)) = (&args.state_file, &page.next_cursor) {
            keep(path, cursor)?;
        }
        search.cursor = page.next_cursor;
        if search.cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    if let Some(path) = args.state_file.filter(|state_file| state_file.exists()) {
        std::fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An output that fails (a full disk, a closed pipe) ends the export.
pub(crate) async fn write(client: &Client, tasks: &[Task], as_inserts: bool) -> Result<()> {
    let mut lines = Vec::new();
    for task in tasks {
        // Those that are kept outside of the store are left out of lists.
        let whole = match task.payload_outside_bytes {
            Some(_) => Some(client.get(&task.r#ref).await?),
            None => None,
        };
        let task = whole.as_ref().unwrap_or(task);
        match as_inserts {
            true => serde_json::to_writer(&mut lines, &insert_of(task))?,
            false => serde_json::to_writer(&mut lines, task)?,
        }
        lines.push(b'\n');
    }
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        lines = output::clean::json(String::from_utf8_lossy(&lines).into_owned()).into_bytes();
    }
    out.write_all(&lines).and_then(|()| out.flush()).context("what is exported cannot be written")
}

fn insert_of(task: &Task) -> InsertTask {
    InsertTask {
        kind: Some(task.kind.clone()),
        // One below zero is of a run or a node: what is inserted from here is another task.
        task_id: (task.key.is_none() && task.task_id >= 0).then_some(Int64(task.task_id)),
        key: task.key.clone(),
        name: task.name.clone(),
        task_version: Some(Int64(task.task_version)),
        priority: Some(task.priority),
        execute_at_ms: Some(task.execute_at_ms),
        payload: task.payload.clone(),
        payload_base64: task.payload_base64.clone(),
        max_attempts: Some(task.max_attempts),
        retry: task.retry.clone(),
        timeout_ms: task.timeout_ms,
        deadline_ms: task.deadline_ms,
        labels: task.labels.clone(),
        concurrency_key: task.concurrency_key.clone(),
        handler_versions: task.handler_versions.clone(),
        ..InsertTask::new(task.queue.clone())
    }
}

/// The position where an earlier export stopped.
fn begun(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Writes the file atomically.
pub(super) fn keep(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("next");
    let kept = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    kept.with_context(|| format!("{} cannot be written", path.display()))
}
