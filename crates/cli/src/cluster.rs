//! `punctual events | engine | partition | stats | alert | top | tail`: what an operator asks of a running cluster. Changes
//! nothing.

mod lists;
pub(crate) mod stats;
mod tail;
mod top;

use crate::{connect::ConnectArgs, times};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{SearchEvents, TimeBound};
use std::{process::ExitCode, time::Duration};

/// Show the events of the cluster, newest first: lost engines, partitions with a new owner, Redis or a database that becomes
/// unavailable or available again
#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Only events of this kind, such as engine_lost
    #[arg(long, value_name = "KIND")]
    event: Option<String>,
    /// Only events of this engine
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// At or after this time: RFC 3339, local time, or a duration ago, such as 1h30m
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    since: Option<TimeBound>,
    /// Before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    until: Option<TimeBound>,
    /// Events per page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl EventsArgs {
    fn into_search(self) -> SearchEvents {
        SearchEvents {
            event: self.event,
            engine: self.engine,
            since: self.since,
            until: self.until,
            limit: Some(self.limit),
            cursor: self.cursor,
        }
    }
}

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

#[derive(Args, Debug)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PartitionsArgs {
    /// Partitions per page
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Show statistics of the cluster or of one queue: rates, lateness, stored tasks, the last hour, tasks that become due
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// Only this queue: rates, lateness and the last hour
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Also show each minute of the last hour and of the next
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Show the cluster live: rates, lateness, backlog, engines, alerts, the last events
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Interval between two updates
    #[arg(long, default_value = "2s", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    every: Duration,
    /// Stop after this many updates [default: when interrupted]
    #[arg(long, value_name = "N")]
    times: Option<u32>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Follow the cluster: one line for each event and for each alert that begins or ends
#[derive(Args, Debug)]
pub(crate) struct TailArgs {
    /// Number of earlier events to show first
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    lines: u32,
    /// Interval between two updates
    #[arg(long, default_value = "1s", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    every: Duration,
    /// Stop after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    lasts: Option<Duration>,
    #[command(flatten)]
    connect: ConnectArgs,
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
