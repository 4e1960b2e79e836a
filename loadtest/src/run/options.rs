//! The options of `loadtest run`, with their defaults. Checks what clap cannot; decides nothing else.

use crate::{
    fault::{FaultOptions, Faults},
    http::Target,
    options::{CommonOptions, Hot, ServerOptions, Store, Usage, parse_ms},
    outage::cause::Cause,
    plan::LoadShape,
};
use clap::{Args, ValueEnum};

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadPattern {
    /// --tasks due evenly over --duration, inserted as fast as possible before
    Uniform,
    /// --rate tasks a second, inserted and due, for --duration
    Sustained,
    /// --tasks due at one instant, after all are inserted
    Burst,
    /// Two tenants at --rate each, then one of them at --times as much: what the other notices
    Flood,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct RunOptions {
    #[arg(long, value_enum)]
    pub(crate) scenario: LoadPattern,
    /// Tasks a second; sustained, and of each tenant of a flood
    #[arg(long)]
    pub(crate) rate: Option<u64>,
    /// uniform and burst only [default: 100000]
    #[arg(long)]
    pub(crate) tasks: Option<usize>,
    /// Not of a burst; of a flood in peace and again in the flood [default: 30s]
    #[arg(long, value_parser = parse_ms)]
    pub(crate) duration: Option<i64>,
    /// First due time after the start; sustained: least time from insert to due
    /// [default: 3s; uniform and burst: 1s more for every 20000 tasks; --insert-only: 10m]
    #[arg(long, value_parser = parse_ms)]
    pub(crate) ahead: Option<i64>,
    /// Insert one task a call
    #[arg(long, conflicts_with = "batch")]
    pub(crate) singles: bool,
    /// No executors: only how fast inserts are accepted
    #[arg(long)]
    pub(crate) insert_only: bool,
    /// Tasks have so many priorities in turns [default: they name none]
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub(crate) priorities: u8,
    /// How many tasks of the queue run at once at most [default: no limit]
    #[arg(long)]
    pub(crate) concurrency: Option<u32>,
    #[arg(long, default_value_t = 4)]
    pub(crate) executors: usize,
    /// Executors that receive from Redis Streams, beside those that pull; the engines push the queue then
    #[arg(long, default_value_t = 0, conflicts_with_all = ["url", "insert_only"])]
    pub(crate) subscribers: usize,
    /// Tasks that an executor takes in one call
    #[arg(long, default_value_t = 500)]
    pub(crate) lease_max: usize,
    #[arg(long, default_value = "10s", value_parser = parse_ms)]
    pub(crate) lease: i64,
    /// How long an executor's call waits for tasks
    #[arg(long, default_value = "5s", value_parser = parse_ms)]
    pub(crate) wait: i64,
    /// How long outcomes wait for others to be reported with
    #[arg(long, default_value = "5ms", value_parser = parse_ms)]
    pub(crate) linger: i64,
    /// After the last due time, everything must be done within this
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) grace: i64,
    /// kill -9 the server this long after the start, and start it again on its data
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) kill_after: Option<i64>,
    #[command(flatten)]
    pub(crate) faults: FaultOptions,
    #[command(flatten)]
    pub(crate) flood: FloodOptions,
    /// Counts what MariaDB and Redis are asked, and what of it was for nothing; they write down each statement for it, which
    /// costs them time
    #[arg(long, conflicts_with_all = ["url", "outage"])]
    pub(crate) count: bool,
    /// All inserts go to this engine of several, the first is 1 [default: to all in turns]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    insert_at: Option<u16>,
    /// All executors ask this one
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    execute_at: Option<u16>,
    /// Decides the order of due times [default: random, and reported]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// The options of --scenario flood.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Flood")]
pub(crate) struct FloodOptions {
    /// How many times --rate the one that floods sends
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) times: u64,
    /// Slots that both have together: then each tenant has as many executors, of one task at a time
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) slots: Option<u16>,
    /// How long a task takes
    #[arg(long, default_value = "0ms", value_parser = parse_ms)]
    pub(crate) work: i64,
    /// In peace and flooded, so many times in turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// The other's 99th percentile may be so many percent higher
    #[arg(long, default_value_t = 20)]
    pub(crate) within_percent: u32,
}

const DURATION_MS: i64 = 30_000;
const TASKS: usize = 100_000;
const AHEAD_MS: i64 = 3_000;
const AHEAD_INSERT_ONLY_MS: i64 = 600_000;
/// Assumed at the least, so that all is inserted before the first is due.
const INSERTS_PER_S: usize = 20_000;

impl RunOptions {
    /// Checks the options, before anything is started.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        self.server.check()?;
        if self.subscribers > 0 && self.server.hot != Hot::Redis {
            return Err(Usage("--subscribers need --spawn --store mysql --hot redis"));
        }
        if self.kill_after.is_some() && self.server.engines() > 1 {
            return Err(Usage("--kill-after is for one engine; of several, --kill-one-after"));
        }
        let has_part = |what: Cause| {
            if what.is_of_redis() { self.server.hot == Hot::Redis } else { self.server.store == Store::Mysql }
        };
        if !self.faults.outage.is_none_or(has_part) {
            return Err(Usage(
                "--outage is of a Redis or MariaDB that is started: give --store mysql --hot redis",
            ));
        }
        if !self.faults.outage.is_none_or(|what| self.server.proxied || !what.is_of_a_way()) {
            return Err(Usage("this --outage is of connections: give --proxied"));
        }
        if self.count && (self.server.store != Store::Mysql || self.server.hot != Hot::Redis) {
            return Err(Usage("--count is of a MariaDB and a Redis: give --spawn --store mysql --hot redis"));
        }
        if self.scenario == LoadPattern::Flood
            && (self.count || self.insert_at.is_some() || self.execute_at.is_some())
        {
            return Err(Usage("a flood is not counted, and goes to all engines"));
        }
        let engines = self.server.engines();
        if [self.insert_at, self.execute_at].into_iter().flatten().any(|number| usize::from(number) > engines)
        {
            return Err(Usage("--insert-at and --execute-at name one of the --engines"));
        }
        if self.scenario == LoadPattern::Flood && (self.priorities > 0 || self.concurrency.is_some()) {
            return Err(Usage("--priorities and --concurrency are not of a flood, which has --slots"));
        }
        if self.scenario == LoadPattern::Flood
            && (self.insert_only || self.subscribers > 0 || self.disturbs())
        {
            return Err(Usage("a flood has executors that pull, and no faults"));
        }
        Faults::new(&self.faults, self.server.engines(), 0).map(|_| ())
    }

    const fn disturbs(&self) -> bool {
        let FaultOptions { kill_one_after, pause_one_after, stop_one_after, outage, .. } = &self.faults;
        self.kill_after.is_some()
            || outage.is_some()
            || kill_one_after.is_some()
            || pause_one_after.is_some()
            || stop_one_after.is_some()
    }

    pub(crate) fn load(&self) -> Result<LoadShape, Usage> {
        if self.executors + self.subscribers == 0 && !self.insert_only {
            return Err(Usage("--executors 0 without --subscribers is --insert-only"));
        }
        let tasks = self.tasks.unwrap_or(TASKS);
        let duration_ms = self.duration.unwrap_or(DURATION_MS);
        match (self.scenario, self.rate) {
            (LoadPattern::Sustained | LoadPattern::Flood, None | Some(0)) => {
                Err(Usage("sustained and flood need --rate, at least 1"))
            }
            (LoadPattern::Sustained | LoadPattern::Flood, Some(_)) if self.tasks.is_some() => {
                Err(Usage("sustained and flood have --rate and --duration, not --tasks"))
            }
            (LoadPattern::Sustained | LoadPattern::Flood, Some(rate)) => {
                Ok(LoadShape::Sustained { rate, duration_ms })
            }
            (LoadPattern::Uniform | LoadPattern::Burst, Some(_)) => Err(Usage("--rate is for sustained")),
            (LoadPattern::Burst, None) if self.duration.is_some() => Err(Usage("a burst has no --duration")),
            (LoadPattern::Uniform, None) => Ok(LoadShape::Uniform { tasks, window_ms: duration_ms }),
            (LoadPattern::Burst, None) => Ok(LoadShape::Burst { tasks }),
        }
    }

    /// The target of inserts, and that of executors, among all these engines.
    pub(crate) fn targets(&self, all: &Target) -> [Target; 2] {
        [self.insert_at, self.execute_at]
            .map(|number| number.map_or_else(|| all.clone(), |number| all.only(usize::from(number) - 1)))
    }

    pub(crate) fn ahead_ms(&self) -> i64 {
        let inserting_ms = match self.scenario {
            LoadPattern::Sustained | LoadPattern::Flood => 0,
            LoadPattern::Uniform | LoadPattern::Burst => {
                i64::try_from(self.tasks.unwrap_or(TASKS).saturating_mul(1_000) / INSERTS_PER_S)
                    .unwrap_or(i64::MAX)
            }
        };
        let default = if self.insert_only { AHEAD_INSERT_ONLY_MS } else { AHEAD_MS + inserting_ms };
        self.ahead.unwrap_or(default)
    }

    pub(crate) fn batch(&self) -> usize {
        let tenth = self.rate.map_or(1_000, |rate| usize::try_from(rate / 10).unwrap_or(usize::MAX));
        if self.singles { 1 } else { self.common.batch.unwrap_or_else(|| tenth.clamp(1, 1_000)) }
    }

    pub(crate) fn connections(&self) -> usize {
        self.common.connections.unwrap_or(if self.singles { 64 } else { 2 })
    }
}
