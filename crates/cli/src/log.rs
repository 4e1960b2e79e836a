//! `punctual log`: reads and changes the log filter of a running server.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    times,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{LogFilter, PutLogFilter};
use std::{process::ExitCode, time::Duration};

#[derive(Subcommand, Debug)]
pub(crate) enum LogCommand {
    /// Show the log filter of the server
    Get(ConnectArgs),
    /// Change the log filter of the server, until its restart or for a limited time
    ///
    /// Applies only to the server that is called: each server has its own filter.
    Set(SetArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// Log levels, also per module, such as info,punctual_engine=debug [default: the filter of the start]
    filter: Option<String>,
    /// Restore the filter of the start after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    lasts: Option<Duration>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: LogCommand) -> Result<ExitCode> {
    match command {
        LogCommand::Get(connect) => {
            let current = connect.client(TRIES_OF_ONE_CALL)?.log_filter().await?;
            shown(connect.form(), &current)
        }
        LogCommand::Set(SetArgs { filter, lasts, connect }) => {
            let for_ms = lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
            let asked = PutLogFilter { filter, for_ms };
            let current = connect.client(TRIES_OF_ONE_CALL)?.put_log_filter(&asked).await?;
            shown(connect.form(), &current)
        }
    }
}

fn shown(form: Form, current: &LogFilter) -> Result<ExitCode> {
    if form == Form::Json {
        output::json(current)?;
        return Ok(ExitCode::SUCCESS);
    }
    let until = current.until.map_or_else(|| "it is changed".to_owned(), times::full);
    output::facts(&[
        ("logs", current.filter.clone()),
        ("until", until),
        ("started with", current.started_with.clone()),
    ]);
    Ok(ExitCode::SUCCESS)
}
