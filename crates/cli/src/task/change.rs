//! `punctual task cancel | reschedule | run-now | redrive | bury | delete`. Several references are processed one
//! after the other; a refusal does not stop the others, and makes the exit code 1.

use super::{draft::payload, show};
use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    duration, output,
    output::Form,
    say, times,
};
use anyhow::Result;
use clap::{ArgGroup, Args};
use punctual_domain::place::TaskRef;
use punctual_protocol::{ActionAnswer, BuryRequest, PatchTask};
use punctual_sdk::{Client, Error};
use std::{process::ExitCode, time::Duration};

#[derive(Args, Debug)]
pub(crate) struct RefArgs {
    /// Reference of the task (`ref` in the answer of the insert)
    #[arg(required = true)]
    references: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Cancel tasks that have not fired
#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    refs: RefArgs,
    /// Also cancel tasks that have fired and wait, and ask executors to stop those that run
    #[arg(long)]
    stop_if_fired: bool,
}

/// Move tasks that no executor holds to the dead letters, where they can be inspected and redriven
#[derive(Args, Debug)]
pub(crate) struct BuryArgs {
    #[command(flatten)]
    refs: RefArgs,
    /// Reason; becomes the last error of the tasks
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Change the due time, priority, payload or queue of a task that has not fired; or priority, payload, attempts and timeout of
/// a dead task, which stays dead until it is redriven
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changed").required(true).multiple(true))]
pub(crate) struct RescheduleArgs {
    /// Reference of the task (`ref` in the answer of the insert)
    reference: String,
    /// Delay from now until the task fires
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, conflicts_with = "at", group = "changed")]
    delay: Option<Duration>,
    /// Time at which the task fires: RFC 3339, or local time, such as "2026-11-24 09:00"
    #[arg(long, value_name = "INSTANT", value_parser = times::instant, group = "changed")]
    at: Option<String>,
    /// Priority, 1 (first) to 5 (last)
    #[arg(long, group = "changed")]
    priority: Option<u8>,
    /// JSON, or @FILE to read it from a file, or @- for stdin
    #[arg(long, value_name = "JSON|@FILE", group = "changed")]
    payload: Option<String>,
    /// Move the task to this queue of its namespace
    #[arg(long, value_name = "QUEUE", group = "changed")]
    queue: Option<String>,
    /// Maximum number of attempts after a redrive, of a dead task
    #[arg(long, value_name = "NUMBER", group = "changed")]
    max_attempts: Option<u32>,
    /// Maximum run time of an attempt after a redrive, of a dead task
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, group = "changed")]
    timeout: Option<Duration>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn cancel(args: CancelArgs) -> Result<ExitCode> {
    let stop_if_fired = args.stop_if_fired;
    each(args.refs, async |client, reference| {
        if stop_if_fired { client.cancel_or_stop(reference).await } else { client.cancel(reference).await }
    })
    .await
}

pub(crate) async fn bury(args: BuryArgs) -> Result<ExitCode> {
    let request = BuryRequest { reason: args.reason };
    each(args.refs, async |client, reference| client.bury(reference, &request).await).await
}

pub(crate) async fn delete(args: RefArgs) -> Result<ExitCode> {
    each(args, async |client, reference| client.delete(reference).await).await
}

pub(crate) async fn run_now(args: RefArgs) -> Result<ExitCode> {
    each(args, async |client, reference| client.run_now(reference).await).await
}

pub(crate) async fn redrive(args: RefArgs) -> Result<ExitCode> {
    each(args, async |client, reference| client.redrive(reference).await).await
}

pub(crate) async fn reschedule(args: RescheduleArgs) -> Result<ExitCode> {
    let patch = PatchTask {
        execute_at: args.at,
        delay_ms: args.delay.map(duration::ms),
        priority: args.priority,
        payload: args.payload.map(|text| payload(&text)).transpose()?,
        queue: args.queue,
        max_attempts: args.max_attempts,
        timeout_ms: args.timeout.map(duration::ms),
        ..PatchTask::default()
    };
    let task = args.connect.client(TRIES_OF_ONE_CALL)?.reschedule(&args.reference, &patch).await?;
    show::rescheduled(&task, args.connect.form())?;
    Ok(ExitCode::SUCCESS)
}

async fn each(
    args: RefArgs,
    ask: impl AsyncFn(&Client, &str) -> Result<ActionAnswer, Error>,
) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let mut ended = ExitCode::SUCCESS;
    for reference in &args.references {
        let what = format!("the change of {reference}");
        match args.connect.waited(&what, ask(&client, reference)).await {
            Ok(answer) => show::acted(reference, &answer, args.connect.form())?,
            Err(error) => ended = refused(reference, error, args.connect.form())?,
        }
    }
    Ok(ended)
}

/// Refuses text that cannot be a reference, with advice: a guess must not change a task.
fn named(reference: &str) -> String {
    if reference.starts_with("key:") || reference.parse::<TaskRef>().is_ok() {
        return reference.to_owned();
    }
    format!(
        "{reference:?} is no reference (t and 26 more letters and digits); a task of that key is key:{reference}"
    )
}

fn refused(reference: &str, error: Error, form: Form) -> Result<ExitCode> {
    if let (Form::Json, Some(problem)) = (form, error.problem()) {
        output::json(&serde_json::json!({ "ref": reference, "error": problem }))?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(say::failed(&anyhow::Error::new(error).context(named(reference))))
}
