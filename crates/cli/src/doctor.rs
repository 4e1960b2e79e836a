//! `punctual doctor`: reaches every server that the settings name, and says what is good, doubtful or wrong.

use clap::Args;
use std::process::ExitCode;

/// Reach every server that the settings name, and say what is good, doubtful or wrong, with the way out
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {}

pub(crate) async fn run(_args: DoctorArgs) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
