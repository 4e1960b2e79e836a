//! `punctual task insert`: one task from flags, or a file of them.

use super::{file, show, word};
use crate::{
    config::pair,
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    duration, times,
};
use anyhow::{Context, Result};
use clap::Args;
use punctual_protocol::{InsertTask, Int64, Json, OnConflict, Retry};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Insert one task, or a file of any size
///
/// Examples:
///   punctual task insert --queue mail --kind welcome --delay 5s --payload '{"to":"ada"}'
///   punctual task insert --file tasks.ndjson --rejects rejected.ndjson
///
/// A file has one task per line, in the format of POST /v1/tasks. Rejected lines are reported by
/// number and do not stop the others. A file can be loaded again if its lines have a `task_id`:
/// such a task is not inserted twice.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    task: DraftArgs,
    #[command(flatten)]
    file: file::FileArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "One task")]
struct DraftArgs {
    /// Queue of the task
    #[arg(long, short, required_unless_present = "file", conflicts_with = "file")]
    queue: Option<String>,
    /// Kind of the task; selects the handler
    #[arg(long, short, requires = "queue")]
    kind: Option<String>,
    /// Your own id, a number; a second insert with the same id and version creates no second task
    #[arg(long, requires = "queue", allow_negative_numbers = true)]
    task_id: Option<i64>,
    /// Your own key, text instead of a number, up to 128 bytes. `punctual task get key:KEY` finds the task
    #[arg(long, requires = "queue", conflicts_with = "task_id")]
    key: Option<String>,
    /// If a task with the same id or key exists: replace it (unless it has begun), keep it, or fail
    #[arg(long, requires = "queue", value_name = "WORD", value_parser = word::<OnConflict>)]
    on_conflict: Option<OnConflict>,
    /// Name for display
    #[arg(long, requires = "queue")]
    name: Option<String>,
    /// Version of the task; a higher version supersedes a lower one
    #[arg(long, requires = "queue")]
    task_version: Option<i64>,
    /// Priority, 1 (first) to 5 (last)
    #[arg(long, requires = "queue")]
    priority: Option<u8>,
    /// Delay until the task fires, such as 500ms, 5s, 1h30m, 7d
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue", conflicts_with = "at")]
    delay: Option<Duration>,
    /// Time at which the task fires: RFC 3339, or local time, such as "2026-11-24 09:00"
    #[arg(long, value_name = "INSTANT", value_parser = times::instant, requires = "queue")]
    at: Option<String>,
    /// JSON, or @FILE to read it from a file, or @- for stdin
    #[arg(long, short, value_name = "JSON|@FILE", requires = "queue")]
    payload: Option<String>,
    /// Maximum number of attempts
    #[arg(long, requires = "queue")]
    max_attempts: Option<u32>,
    /// Retry policy as JSON, such as '{"strategy":"fixed","delay_ms":"5m"}'
    #[arg(long, value_name = "JSON", value_parser = retry, requires = "queue")]
    retry: Option<Retry>,
    /// Maximum run time of one attempt
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue")]
    timeout: Option<Duration>,
    /// How long after its due time an attempt may still begin
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue")]
    deadline: Option<Duration>,
    /// Label to search by; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair, requires = "queue")]
    labels: Vec<(String, String)>,
    /// W3C trace context of the task, or of those tasks of a file that have none
    #[arg(long, value_name = "CONTEXT", env = "TRACEPARENT", hide_env_values = true)]
    traceparent: Option<String>,
}

fn retry(text: &str) -> Result<Retry, String> {
    const FORMS: &str = r#"take one of {"strategy":"immediate"}, {"strategy":"fixed","delay_ms":"30s"}, {"strategy":"exponential","delay_ms":"1s","factor":2,"max_delay_ms":"10m"} and {"strategy":"list","delays_ms":["1s","1m"]}"#;
    let mut document =
        serde_json::from_str(text).map_err(|_| format!("{text:?} is no JSON object: {FORMS}"))?;
    duration::in_document(&mut document);
    punctual_protocol::parse(document.to_string().as_bytes()).map_err(|invalid| invalid.summary())
}

pub(crate) async fn run(args: InsertArgs) -> Result<ExitCode> {
    if args.file.is_given() {
        return file::run(args.file, args.task.traceparent, &args.connect).await;
    }
    let task = args.task.into_task()?;
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let inserted = args.connect.waited("the insert of one task", client.insert(&task)).await?;
    show::inserted(&inserted, args.connect.form())?;
    Ok(ExitCode::SUCCESS)
}

impl DraftArgs {
    fn into_task(self) -> Result<InsertTask> {
        let payload = self.payload.map(|text| payload(&text)).transpose()?;
        Ok(InsertTask {
            kind: self.kind,
            task_id: self.task_id.map(Int64),
            key: self.key,
            on_conflict: self.on_conflict,
            name: self.name,
            task_version: self.task_version.map(Int64),
            priority: self.priority,
            execute_at: self.at,
            delay_ms: self.delay.map(duration::ms),
            payload,
            max_attempts: self.max_attempts,
            retry: self.retry,
            timeout_ms: self.timeout.map(duration::ms),
            deadline_ms: self.deadline.map(duration::ms),
            labels: self.labels.into_iter().collect(),
            traceparent: self.traceparent,
            ..InsertTask::new(self.queue.unwrap_or_default())
        })
    }
}

/// JSON as it is given, or the content of a file.
pub(super) fn payload(text: &str) -> Result<Json> {
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => {
            std::io::read_to_string(std::io::stdin()).context("the payload cannot be read from stdin")?
        }
        Some(path) => std::fs::read_to_string(PathBuf::from(path))
            .with_context(|| format!("the payload cannot be read from {path}"))?,
    };
    Json::from_text(text.trim().to_owned())
        .context("the payload is not JSON (a text needs its quotes: '\"text\"')")
}
