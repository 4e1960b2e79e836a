//! The options of `loadtest console`. Decides nothing.

use crate::options::{ServerOptions, parse_ms};
use clap::Args;

#[derive(Args, Debug, Clone)]
pub(crate) struct ConsoleOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    #[arg(long, default_value_t = 10_000)]
    pub(crate) queues: usize,
    /// Of the tasks, those that are due within the hour, so that the hot set has them [default: a tenth]
    #[arg(long)]
    pub(crate) near: Option<usize>,
    /// How often each page is asked for
    #[arg(long, default_value_t = 40)]
    pub(crate) repeat: usize,
    /// Each page comes within this at the 95th percentile, and so do all pages the first time they are asked for, ms
    #[arg(long, default_value_t = 200)]
    pub(crate) within_ms: u32,
    /// Pages that are open and live, each with a login of its own
    #[arg(long, default_value_t = 50)]
    pub(crate) open: usize,
    /// What they may take of one core, in percent, engines, MariaDB and Redis together, beyond what the load takes alone
    #[arg(long, default_value_t = 5.0)]
    pub(crate) core_percent: f64,
    /// Tasks a second of the load beside them
    #[arg(long, default_value_t = 200)]
    pub(crate) rate: u64,
    /// Its 99th percentile of lateness may be so many percent higher with all pages open, or 2 ms
    #[arg(long, default_value_t = 20)]
    pub(crate) lateness_percent: u32,
    /// How long that is measured, twice
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    /// Connections that insert
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}
