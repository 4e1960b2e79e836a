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
/// A file has one task a line, as POST /v1/tasks takes it. Lines that are refused are reported
/// by number and do not hold back the others. Loading a file again is safe for lines with a
/// `task_id`: such a task is not inserted twice.
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
    /// The lane it goes through
    #[arg(long, short, required_unless_present = "file", conflicts_with = "file")]
    queue: Option<String>,
    /// Selects the handler
    #[arg(long, short, requires = "queue")]
    kind: Option<String>,
    /// Your own id; an insert with the same id and version does not make a second task
    #[arg(long, requires = "queue", allow_negative_numbers = true)]
    task_id: Option<i64>,
    /// Your own identity in words, instead of a number: up to 128 bytes. `punctual task get key:KEY` finds it
    #[arg(long, requires = "queue", conflicts_with = "task_id")]
    key: Option<String>,
    /// What becomes of a task that stands under the same id or key: replace (one that has not begun), keep or fail
    #[arg(long, requires = "queue", value_name = "WORD", value_parser = word::<OnConflict>)]
    on_conflict: Option<OnConflict>,
    /// For people
    #[arg(long, requires = "queue")]
    name: Option<String>,
    /// A higher version supersedes a lower one
    #[arg(long, requires = "queue")]
    task_version: Option<i64>,
    /// 1 (first) to 5 (last)
    #[arg(long, requires = "queue")]
    priority: Option<u8>,
    /// Fire after this long, such as 500ms, 5s, 1h30m, 7d
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue", conflicts_with = "at")]
    delay: Option<Duration>,
    /// Fire at this instant: RFC 3339, or a time of this zone, such as "2026-11-24 09:00"
    #[arg(long, value_name = "INSTANT", value_parser = times::instant, requires = "queue")]
    at: Option<String>,
    /// JSON, or @ and a file with JSON, or @- for stdin
    #[arg(long, short, value_name = "JSON|@FILE", requires = "queue")]
    payload: Option<String>,
    /// Attempts in all
    #[arg(long, requires = "queue")]
    max_attempts: Option<u32>,
    /// Retry policy as JSON, such as '{"strategy":"fixed","delay_ms":"5m"}'
    #[arg(long, value_name = "JSON", value_parser = retry, requires = "queue")]
    retry: Option<Retry>,
    /// How long one attempt may run
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue")]
    timeout: Option<Duration>,
    /// How long after its time an attempt may still begin
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, requires = "queue")]
    deadline: Option<Duration>,
    /// Text to search by; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair, requires = "queue")]
    labels: Vec<(String, String)>,
    /// W3C trace context that the task belongs to, or those of a file that name none
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

/// JSON as it stands, or the content of a file.
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
