//! `punctual openapi`: the document that the server serves at `/openapi.json`, for generators of clients, without a server.

use crate::output;
use anyhow::{Context, Result};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

/// Print the OpenAPI document of the HTTP API, for client generators
#[derive(Args, Debug)]
pub(crate) struct OpenapiArgs {
    /// File to write to, instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &OpenapiArgs) -> Result<ExitCode> {
    let document = serde_json::to_string_pretty(&punctual_server::document())
        .context("the document cannot be written")?;
    match &args.to {
        Some(to) => std::fs::write(to, document + "\n")
            .with_context(|| format!("{} cannot be written", to.display()))?,
        None => output::text(&document),
    }
    Ok(ExitCode::SUCCESS)
}
