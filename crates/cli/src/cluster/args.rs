//! The flags of the commands about the cluster. Must never call a server.

use crate::{connect::ConnectArgs, times};
use clap::Args;
use punctual_protocol::{SearchEvents, TimeBound};
use std::time::Duration;

/// Show the events of the cluster, newest first: lost engines, partitions with a new owner, Redis or a database that becomes
/// unavailable or available again
#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Only events of this kind, such as engine_lost
    #[arg(long, value_name = "KIND")]
    pub(super) event: Option<String>,
    /// Only events of this engine
    #[arg(long, value_name = "NAME")]
    pub(super) engine: Option<String>,
    /// At or after this time: RFC 3339, local time, or a duration ago, such as 1h30m
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    pub(super) since: Option<TimeBound>,
    /// Before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    pub(super) until: Option<TimeBound>,
    /// Events per page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    pub(super) cursor: Option<String>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

impl EventsArgs {
    pub(super) fn into_search(self) -> SearchEvents {
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

#[derive(Args, Debug)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PartitionsArgs {
    /// Partitions per page
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    pub(super) cursor: Option<String>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Show statistics of the cluster or of one queue: rates, lateness, stored tasks, the last hour, tasks that become due
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// Only this queue: rates, lateness and the last hour
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Also show each minute of the last hour and of the next
    #[arg(long)]
    pub(super) steps: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Show the cluster live: rates, lateness, backlog, engines, alerts, the last events
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Interval between two updates
    #[arg(long, default_value = "2s", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    pub(super) every: Duration,
    /// Stop after this many updates [default: when interrupted]
    #[arg(long, value_name = "N")]
    pub(super) times: Option<u32>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Follow the cluster: one line for each event and for each alert that begins or ends
#[derive(Args, Debug)]
pub(crate) struct TailArgs {
    /// Number of earlier events to show first
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(super) lines: u32,
    /// Interval between two updates
    #[arg(long, default_value = "1s", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    pub(super) every: Duration,
    /// Stop after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    pub(super) lasts: Option<Duration>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}
