//! `punctual events | engine | partition | stats | alert | top | tail`: what an operator asks of a running cluster. Changes
//! nothing.

mod args;
mod lists;
pub(crate) mod stats;
mod tail;
mod top;

use anyhow::Result;
use args::{AskArgs, PartitionsArgs};
pub(crate) use args::{EventsArgs, StatsArgs, TailArgs, TopArgs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum EngineCommand {
    /// List the engines of the cluster: which are alive, since when, and the load of each
    List(AskArgs),
}

#[derive(Subcommand, Debug)]
pub(crate) enum PartitionCommand {
    /// List the partitions and the engine that owns each
    List(PartitionsArgs),
}

#[derive(Subcommand, Debug)]
pub(crate) enum AlertCommand {
    /// List the active alerts, most severe first
    List(AskArgs),
}

pub(crate) async fn events(args: EventsArgs) -> Result<ExitCode> {
    lists::events(args).await
}

pub(crate) async fn engine(command: EngineCommand) -> Result<ExitCode> {
    match command {
        EngineCommand::List(args) => lists::engines(args).await,
    }
}

pub(crate) async fn partition(command: PartitionCommand) -> Result<ExitCode> {
    match command {
        PartitionCommand::List(args) => lists::partitions(args).await,
    }
}

pub(crate) async fn alert(command: AlertCommand) -> Result<ExitCode> {
    match command {
        AlertCommand::List(args) => lists::alerts(args).await,
    }
}

pub(crate) async fn stats(args: StatsArgs) -> Result<ExitCode> {
    stats::run(args).await
}

pub(crate) async fn top(args: TopArgs) -> Result<ExitCode> {
    top::run(args).await
}

pub(crate) async fn tail(args: TailArgs) -> Result<ExitCode> {
    tail::run(args).await
}
