//! `punctual task …`: what a client can ask of tasks, from the command line.

mod ask;
mod change;
mod draft;
pub(crate) mod export;
mod file;
mod lines;
mod list;
mod load;
mod progress;
mod show;

pub(crate) use ask::{GetArgs, get};

use crate::logs;
use anyhow::Result;
use clap::Subcommand;
pub(crate) use list::word;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum TaskCommand {
    Insert(Box<draft::InsertArgs>),
    Import(Box<file::ImportArgs>),
    Export(Box<export::ExportArgs>),
    Get(ask::GetArgs),
    List(Box<list::TaskListArgs>),
    Cancel(change::CancelArgs),
    Reschedule(change::RescheduleArgs),
    /// Make tasks due now
    RunNow(change::RefArgs),
    /// Redrive dead tasks: run them again, with new attempts
    Redrive(change::RefArgs),
    Bury(change::BuryArgs),
    /// Delete finished tasks, with their histories and payloads
    Delete(change::RefArgs),
    Why(ask::WhyArgs),
}

pub(crate) async fn run(command: TaskCommand) -> Result<ExitCode> {
    logs::start_for_client();
    match command {
        TaskCommand::Insert(args) => draft::run(*args).await,
        TaskCommand::Import(args) => file::import(*args).await,
        TaskCommand::Export(args) => export::run(*args).await,
        TaskCommand::Get(args) => ask::get(args).await,
        TaskCommand::List(args) => list::run(*args).await,
        TaskCommand::Cancel(args) => change::cancel(args).await,
        TaskCommand::Reschedule(args) => change::reschedule(args).await,
        TaskCommand::RunNow(args) => change::run_now(args).await,
        TaskCommand::Redrive(args) => change::redrive(args).await,
        TaskCommand::Bury(args) => change::bury(args).await,
        TaskCommand::Delete(args) => change::delete(args).await,
        TaskCommand::Why(args) => ask::why(args).await,
    }
}
