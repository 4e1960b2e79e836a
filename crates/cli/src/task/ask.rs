//! `punctual task get` and `why`.

use super::show;
use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    times,
};
use anyhow::{Result, bail};
use clap::Args;
use std::process::ExitCode;

/// Show a task with its history, by reference or by your own id
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// What the insert answered as `ref`
    #[arg(required_unless_present = "task_id", conflicts_with = "task_id")]
    reference: Option<String>,
    /// Your own id: shows all its versions, the highest first
    #[arg(long)]
    task_id: Option<i64>,
    /// Only this version
    #[arg(long, requires = "task_id")]
    task_version: Option<i64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn get(args: GetArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let tasks = match (&args.reference, args.task_id) {
        (Some(reference), _) => vec![client.get(reference).await?],
        (None, Some(task_id)) => client.find(task_id, args.task_version).await?,
        (None, None) => Vec::new(),
    };
    if tasks.is_empty() {
        bail!("no such task");
    }
    for task in &tasks {
        show::task(task, args.connect.form())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Explain why a task has not run, and what happens next
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// What the insert answered as `ref`
    reference: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn why(args: WhyArgs) -> Result<ExitCode> {
    let why = args.connect.client(TRIES_OF_ONE_CALL)?.why(&args.reference).await?;
    if args.connect.form() == Form::Json {
        output::json(&why)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&why.reason);
    let mut facts = vec![("state", show::word(&why.state)), ("next", why.next_step.clone())];
    facts.extend(why.blocking.clone().map(|it| ("blocked by", it)));
    facts.extend(why.owner.clone().map(|it| ("with", it)));
    facts.extend(why.expected_at.map(|it| ("expected", times::full(it))));
    output::facts(&facts);
    Ok(ExitCode::SUCCESS)
}
