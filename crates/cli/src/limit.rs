//! `punctual limit`: what all namespaces together may do. Limits of one namespace are its settings: `punctual namespace`.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    fields::{self, Written},
    output::{self, Form},
};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{Limits, PutLimits};
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum LimitCommand {
    /// Show the limits that apply to all namespaces together
    Get(ConnectArgs),
    /// Change some limits (concurrency=1000), or replace all with a JSON object
    Set(SetArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// Limits such as `concurrency=1000`, `max_waiting=50000000` or `rate={"limit":5000,"period_ms":"1s","burst":50}`. Other
    /// limits are unchanged; a limit without a value (`concurrency=`) is removed. Or one JSON object, or `-` to read one from
    /// stdin, which replaces all limits
    #[arg(required = true, value_name = "LIMITS")]
    limits: Vec<String>,
    /// Set the limits only if they have this revision
    #[arg(long, value_name = "NUMBER")]
    if_revision: Option<i64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: LimitCommand) -> Result<ExitCode> {
    match command {
        LimitCommand::Get(connect) => {
            let limits = connect.client(TRIES_OF_ONE_CALL)?.limits().await?;
            show(&limits, connect.form())
        }
        LimitCommand::Set(args) => set(args).await,
    }
}

async fn set(SetArgs { limits, if_revision, connect }: SetArgs) -> Result<ExitCode> {
    let client = connect.client(TRIES_OF_ONE_CALL)?;
    let (document, revision) = match fields::read(&limits)? {
        Written::Whole(document) => (document, if_revision),
        Written::Named(named) => {
            let current = client.limits().await?;
            // What another sets meanwhile must not be lost.
            (fields::changed(&current, named)?, Some(if_revision.unwrap_or(current.revision)))
        }
    };
    let limits = client.put_limits(&PutLimits::from_json(document.as_bytes())?, revision).await?;
    show(&limits, connect.form())
}

fn show(limits: &Limits, form: Form) -> Result<ExitCode> {
    if form == Form::Json {
        output::json(limits)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line("everything");
    let facts = [("revision", limits.revision.to_string())];
    output::settings(&facts, &fields::lines(limits, &["namespace", "revision"]));
    Ok(ExitCode::SUCCESS)
}
