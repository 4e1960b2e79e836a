//! The options of `loadtest chaos`. Decides nothing.

use super::What;
use crate::options::{Hot, Store, Usage, parse_ms};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug, Clone)]
pub(crate) struct ChaosOptions {
    /// How long load and faults continue
    #[arg(long, default_value_t = 10.0)]
    pub(crate) minutes: f64,
    /// They continue beyond --minutes until so many faults, or pairs of them, have come: a slow machine takes longer for them
    #[arg(long, default_value_t = 0)]
    pub(crate) steps_min: usize,
    /// Decides faults and load [default: random, and reported]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// mysql is a private MariaDB, durable at every commit
    #[arg(long, value_enum, default_value_t = Store::Sqlite)]
    pub(crate) store: Store,
    /// [default: memory with sqlite, redis with mysql]
    #[arg(long, value_enum)]
    pub(crate) hot: Option<Hot>,
    /// Tasks inserted a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=5_000))]
    pub(crate) rate: u32,
    /// [default: 3 with mysql and redis, else 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    engines: Option<u16>,
    /// Of --store mysql, in one MariaDB [default: 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    databases: Option<u16>,
    /// Only these faults, with commas [default: all that are possible]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) faults: Vec<What>,
    /// Everything that is due must have come this long after a fault is over
    #[arg(long, default_value = "60s", value_parser = parse_ms)]
    pub(crate) recover_within: i64,
    /// Nothing lost, early or doubled, and everything due by the end of a fault comes: that decides, and not how soon, for which there
    /// is but a minute against hanging. Times are reported all the same
    #[arg(long, conflicts_with = "recover_within")]
    pub(crate) promises_only: bool,
    /// All is well for at least so long between two faults, so that what is late is late because of one
    #[arg(long, default_value = "500ms", value_parser = parse_ms)]
    pub(crate) rest: i64,
    /// No fault lasts longer
    #[arg(long, default_value = "10s", value_parser = parse_ms)]
    pub(crate) longest: i64,
    /// Queues hand over while their database is unavailable (`while_store_is_away`), so that executors continue in its outages; with one engine
    /// each attempt is handed over once all the same
    #[arg(long)]
    pub(crate) hand_over: bool,
    /// The binary of the engines [default: $PUNCTUAL_BIN, or `punctual` beside this program]
    #[arg(long)]
    pub(crate) server_bin: Option<PathBuf>,
    /// Keep the logs even when all is well
    #[arg(long)]
    pub(crate) keep: bool,
    /// One JSON object on stdout instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    /// A line a second on stderr even when it is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
}

impl ChaosOptions {
    pub(crate) fn hot(&self) -> Hot {
        self.hot.unwrap_or(if self.store == Store::Mysql { Hot::Redis } else { Hot::Memory })
    }

    pub(crate) fn engines(&self) -> usize {
        let is_shared = self.store == Store::Mysql && self.hot() == Hot::Redis;
        self.engines.map_or(if is_shared { 3 } else { 1 }, usize::from)
    }

    pub(crate) fn databases(&self) -> usize {
        if self.store == Store::Sqlite { 0 } else { self.databases.map_or(2, usize::from) }
    }

    /// The faults that may happen. Fails if a requested one cannot.
    pub(crate) fn whats(&self) -> Result<Vec<What>, Usage> {
        let possible = What::possible(self.store == Store::Mysql, self.hot() == Hot::Redis);
        if !(self.minutes > 0.0 && self.minutes <= 10_000.0) {
            return Err(Usage("--minutes must be more than 0"));
        }
        if self.engines() > 1 && !(self.store == Store::Mysql && self.hot() == Hot::Redis) {
            return Err(Usage("several --engines need --store mysql --hot redis"));
        }
        if self.databases.is_some() && self.store == Store::Sqlite {
            return Err(Usage("--databases is for --store mysql"));
        }
        if self.faults.iter().any(|fault| !possible.contains(fault)) {
            return Err(Usage("one of --faults cannot happen to this --store and --hot"));
        }
        Ok(if self.faults.is_empty() { possible } else { self.faults.clone() })
    }
}
