//! The command line: what can be asked, with defaults and units. Checks what clap cannot; decides nothing else.

pub(crate) use crate::duration::parse_ms;
use crate::http::Target;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Drives a Punctual server with planned load and checks what came out.
#[derive(Parser, Debug)]
#[command(name = "loadtest", version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LoadCommand {
    /// Inserts planned tasks, executes them, and checks that each came once, in time and never early.
    /// Exit 0 only if nothing was lost, early or completed twice, and all ended in time.
    Run(Box<RunOptions>),
    /// Inserts tasks far in the future, measures what they cost while nothing is due, then how late one task comes.
    Idle(IdleOptions),
    /// Limits a queue, and kills executors with -9 in the middle of their work; counts by the executors' own clocks how many
    /// ran at once. Exit 0 only if never more than the limit, all tasks finished, and no slot is held at the end.
    Limit(LimitOptions),
    /// Inserts at a steady rate, first in peace, then beside calls that wait for tasks and callers that send half of a
    /// request byte by byte. Exit 0 only if every insert was accepted and every waiting call was taken.
    Attack(AttackOptions),
    /// Fills a server and measures the first page of each kind of search. Exit 0 only if each that a key answers came in time,
    /// with what was looked for.
    Search(SearchOptions),
    /// Fills a queue, cancels all of it by one bulk operation, and measures how late another queue's tasks come meanwhile. Exit 0
    /// only if each was cancelled, and nothing of the other queue was lost, early or done twice.
    Bulk(BulkOptions),
    /// Spreads tasks over a month, and some over a hundred years, and tells at each tenth of them how fast they were inserted,
    /// how late a task comes that is due now, and what memory the engines have. Exit 0 only if that kept within its bounds.
    Bounds(crate::bounds::BoundsOptions),
    /// Inserts more than the store takes, in batches and one by one. Exit 0 only if what was taken did not wait for long, the rest
    /// was told when to come again, and memory kept within its bound.
    Overload(crate::overload::OverloadOptions),
    /// Fills very many queues, times each page of the console, and measures what open pages that are live cost. Exit 0 only if each
    /// page came in time at the 95th percentile, and the open ones took no more of a core.
    Console(crate::console::ConsoleOptions),
    /// Measures what MariaDB and Redis give on this machine with nothing of a product around them.
    Parts(crate::parts::PartsOptions),
    /// Measures the bars of docs/figures.md as ratios to the bare parts of the same run. Exit 0 only if each row that was
    /// measured is reached.
    Bars(crate::bars::BarsOptions),
    /// Counts what runs with one engine and with two ask of MariaDB and Redis: calls, statements, and what was undone, read and
    /// locked. Exit 0 only if every promise was kept.
    Counts(CountsOptions),
    /// Breaks a private installation at random, part by part, while load runs: engines, MariaDB, Redis, the ways between
    /// them, logs, disks, clocks. Exit 0 only if every promise held for every task, and all was quiet in the end.
    Chaos(crate::chaos::ChaosOptions),
    /// One executor of `limit`
    #[command(hide = true)]
    Executor(ChildOptions),
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// --tasks due evenly over --duration, inserted as fast as possible before
    Uniform,
    /// --rate tasks a second, inserted and due, for --duration
    Sustained,
    /// --tasks due at one instant, after all are inserted
    Burst,
    /// Two tenants at --rate each, then one of them at --times as much: what the other notices
    Flood,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Mysql,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hot {
    Memory,
    Redis,
}

/// What is done to engines in mid-run; executors and inserts continue at those that are left.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Faults (each needs an engine of its own, and one stays)")]
pub(crate) struct FaultOptions {
    /// kill -9 one engine this long after the start
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) kill_one_after: Option<i64>,
    /// SIGSTOP one engine this long after the start
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) pause_one_after: Option<i64>,
    /// SIGCONT it this long after that
    #[arg(long, default_value = "20s", value_parser = parse_ms)]
    pub(crate) pause_for: i64,
    /// SIGTERM one engine this long after the start; it must end with 0
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) stop_one_after: Option<i64>,
    /// What happens to the private Redis or MariaDB in mid-run
    #[arg(long, value_enum, conflicts_with_all = ["url", "insert_only"])]
    pub(crate) outage: Option<crate::outage::Cause>,
    /// So long after the start
    #[arg(long, default_value = "5s", value_parser = parse_ms)]
    pub(crate) outage_after: i64,
    /// It is started again, or continues, this long after that
    #[arg(long, default_value = "10s", value_parser = parse_ms)]
    pub(crate) outage_for: i64,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct ServerOptions {
    /// A server that is running, http://host:port, several engines with commas; on this machine, or lateness means nothing
    #[arg(long, required_unless_present = "spawn", conflicts_with = "spawn")]
    pub(crate) url: Option<String>,
    /// Start a server for the run, with a fresh data directory
    #[arg(long)]
    pub(crate) spawn: bool,
    /// What it keeps tasks in; mysql is a private MariaDB, durable at every commit
    #[arg(long, value_enum, default_value_t = Store::Sqlite, conflicts_with = "url")]
    pub(crate) store: Store,
    /// Hash slots of --store mysql [default: 16]
    #[arg(long, conflicts_with = "url", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) partitions: Option<u16>,
    /// Databases of --store mysql, in one MariaDB [default: 1]
    #[arg(long, conflicts_with = "url", value_parser = clap::value_parser!(u16).range(1..=64))]
    databases: Option<u16>,
    /// Of that MariaDB: what it keeps of its tables in memory [default: 2G]
    #[arg(long, conflicts_with = "url", value_parser = crate::backing::size)]
    pub(crate) buffer_pool: Option<String>,
    /// Of that MariaDB: its redo log, which is how much is changed between two checkpoints [default: 1G]
    #[arg(long, conflicts_with = "url", value_parser = crate::backing::size)]
    pub(crate) redo_log: Option<String>,
    /// What it keeps the near future in; redis is a private one, with an append-only file
    #[arg(long, value_enum, default_value_t = Hot::Memory, conflicts_with = "url")]
    pub(crate) hot: Hot,
    /// Each engine reaches MariaDB and Redis by proxies of its own: for an --outage of connections
    #[arg(long, conflicts_with = "url")]
    pub(crate) proxied: bool,
    /// Processes of the server, on one MariaDB and one Redis [default: 1]
    #[arg(long, conflicts_with = "url", value_parser = clap::value_parser!(u16).range(1..=64))]
    engines: Option<u16>,
    /// Its binary [default: $PUNCTUAL_BIN, or `punctual` beside this program]
    #[arg(long, conflicts_with = "url")]
    pub(crate) server_bin: Option<PathBuf>,
    /// Its data directory, kept after the run [default: one that is removed]
    #[arg(long, conflicts_with = "url")]
    pub(crate) data: Option<PathBuf>,
    /// Process of the running server, for CPU and memory
    #[arg(long, conflicts_with = "spawn")]
    pub(crate) server_pid: Option<u32>,
    #[arg(long, env = "PUNCTUAL_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Engines that are started want tokens, and the run uses one of their store's: what that costs is the difference
    #[arg(long, requires = "spawn", conflicts_with = "token")]
    pub(crate) with_token: bool,
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Authorities that are trusted where the URL is https://, PEM
    #[arg(long, env = "PUNCTUAL_CA_FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The private MariaDB writes down each statement
    #[arg(skip)]
    pub(crate) is_counted: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct CommonOptions {
    /// Tasks of one insert call [default: 1000; sustained: a tenth of the rate, at most 1000]
    #[arg(long)]
    pub(crate) batch: Option<usize>,
    /// Connections that insert [default: 2; with --singles 64]
    #[arg(long)]
    pub(crate) connections: Option<usize>,
    /// Length of each payload, a JSON object
    #[arg(long, default_value_t = 200)]
    pub(crate) payload_bytes: usize,
    /// [default: one that no other run uses]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// A line a second on stderr even when it is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct RunOptions {
    #[arg(long, value_enum)]
    pub(crate) scenario: Scenario,
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

/// Of --scenario flood.
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

#[derive(Args, Debug, Clone)]
pub(crate) struct IdleOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    /// How far in the future they are due; spread over an hour from there
    #[arg(long = "in", default_value = "7d", value_parser = parse_ms)]
    pub(crate) ahead: i64,
    /// How long CPU is measured while nothing is due
    #[arg(long, default_value = "20s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    /// Between the last insert and the measurement
    #[arg(long, default_value = "2s", value_parser = parse_ms)]
    pub(crate) settle: i64,
    /// Tasks due in 10 ms, one after the other
    #[arg(long, default_value_t = 10)]
    pub(crate) probes: usize,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct AttackOptions {
    /// Calls that wait for tasks, each on a connection of its own
    #[arg(long, default_value_t = 5_000)]
    pub(crate) idle: usize,
    /// Connections that send a byte a second: heads and bodies that never come whole
    #[arg(long, default_value_t = 500)]
    pub(crate) slow: usize,
    /// Single inserts a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How long inserts are measured, in peace and under attack
    #[arg(long, default_value = "15s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct LimitOptions {
    #[arg(long, default_value_t = 10_000)]
    pub(crate) tasks: usize,
    /// Attempts of the queue in flight at one time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Processes
    #[arg(long, default_value_t = 4)]
    pub(crate) executors: usize,
    /// Tasks that each of them runs at a time
    #[arg(long, default_value_t = 5)]
    pub(crate) hands: usize,
    /// How long a task takes
    #[arg(long, default_value = "10ms", value_parser = parse_ms)]
    pub(crate) work: i64,
    #[arg(long, default_value = "2s", value_parser = parse_ms)]
    pub(crate) lease: i64,
    /// An executor is killed about this often; 0: never
    #[arg(long, default_value = "1s", value_parser = parse_ms)]
    pub(crate) kill_every: i64,
    /// All must have finished by then
    #[arg(long, default_value = "300s", value_parser = parse_ms)]
    pub(crate) within: i64,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct SearchOptions {
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) tasks: usize,
    /// First pages of each search
    #[arg(long, default_value_t = 5)]
    pub(crate) repeat: usize,
    /// A first page that a key answers comes within this, ms
    #[arg(long, default_value_t = 1_000)]
    pub(crate) within_ms: u32,
    /// Connections that insert
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct BulkOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    /// Tasks a second that the operation may cancel
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Tasks a second of the other queue, inserted and due
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) beside: u64,
    /// How long it is measured alone
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) peace: i64,
    /// So long after the confirmation the engine is killed (SIGKILL) and started again; it must be one that is started here
    #[arg(long, value_parser = parse_ms)]
    pub(crate) kill_after: Option<i64>,
    /// Connections that fill
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct CountsOptions {
    /// The server's binary [default: $PUNCTUAL_BIN, or `punctual` beside this program]
    #[arg(long)]
    pub(crate) server_bin: Option<PathBuf>,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) queue: String,
    #[arg(long)]
    pub(crate) log: PathBuf,
    #[arg(long, value_parser = parse_ms)]
    pub(crate) work: i64,
    #[arg(long, value_parser = parse_ms)]
    pub(crate) lease: i64,
    #[arg(long)]
    pub(crate) hands: usize,
}

/// What was asked for makes no sense; exit 2.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) &'static str);

const DURATION_MS: i64 = 30_000;
const TASKS: usize = 100_000;
const AHEAD_MS: i64 = 3_000;
const AHEAD_INSERT_ONLY_MS: i64 = 600_000;
/// Assumed at the least, so that all is inserted before the first is due.
const INSERTS_PER_S: usize = 20_000;

impl ServerOptions {
    pub(crate) fn databases(&self) -> usize {
        self.databases.map_or(1, usize::from)
    }

    pub(crate) fn engines(&self) -> usize {
        self.engines.map_or(1, usize::from)
    }

    pub(crate) fn check(&self) -> Result<(), Usage> {
        match (self.store, self.hot) {
            (Store::Sqlite, _) if self.databases.is_some() => Err(Usage("--databases is for --store mysql")),
            (Store::Sqlite, _) if self.partitions.is_some() => {
                Err(Usage("--partitions is for --store mysql"))
            }
            (Store::Mysql, Hot::Redis) if self.data.is_some() => {
                Err(Usage("--data is for --store sqlite: a spawned MariaDB keeps nothing after the run"))
            }
            (Store::Mysql, Hot::Redis) => Ok(()),
            _ if self.engines() > 1 => Err(Usage("several --engines need --store mysql --hot redis")),
            _ => Ok(()),
        }
    }
}

impl RunOptions {
    /// What an executor's polls and inserts are spread over is checked before anything is started.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        self.server.check()?;
        if self.subscribers > 0 && self.server.hot != Hot::Redis {
            return Err(Usage("--subscribers need --spawn --store mysql --hot redis"));
        }
        if self.kill_after.is_some() && self.server.engines() > 1 {
            return Err(Usage("--kill-after is for one engine; of several, --kill-one-after"));
        }
        let has_part = |what: crate::outage::Cause| {
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
        if self.scenario == Scenario::Flood
            && (self.count || self.insert_at.is_some() || self.execute_at.is_some())
        {
            return Err(Usage("a flood is not counted, and goes to all engines"));
        }
        let engines = self.server.engines();
        if [self.insert_at, self.execute_at].into_iter().flatten().any(|number| usize::from(number) > engines)
        {
            return Err(Usage("--insert-at and --execute-at name one of the --engines"));
        }
        if self.scenario == Scenario::Flood && (self.priorities > 0 || self.concurrency.is_some()) {
            return Err(Usage("--priorities and --concurrency are not of a flood, which has --slots"));
        }
        if self.scenario == Scenario::Flood && (self.insert_only || self.subscribers > 0 || self.disturbs()) {
            return Err(Usage("a flood has executors that pull, and no faults"));
        }
        crate::fault::Faults::new(&self.faults, self.server.engines(), 0).map(|_| ())
    }

    const fn disturbs(&self) -> bool {
        let FaultOptions { kill_one_after, pause_one_after, stop_one_after, outage, .. } = &self.faults;
        self.kill_after.is_some()
            || outage.is_some()
            || kill_one_after.is_some()
            || pause_one_after.is_some()
            || stop_one_after.is_some()
    }

    pub(crate) fn load(&self) -> Result<crate::plan::LoadShape, Usage> {
        use crate::plan::LoadShape;
        if self.executors + self.subscribers == 0 && !self.insert_only {
            return Err(Usage("--executors 0 without --subscribers is --insert-only"));
        }
        let tasks = self.tasks.unwrap_or(TASKS);
        let duration_ms = self.duration.unwrap_or(DURATION_MS);
        match (self.scenario, self.rate) {
            (Scenario::Sustained | Scenario::Flood, None | Some(0)) => {
                Err(Usage("sustained and flood need --rate, at least 1"))
            }
            (Scenario::Sustained | Scenario::Flood, Some(_)) if self.tasks.is_some() => {
                Err(Usage("sustained and flood have --rate and --duration, not --tasks"))
            }
            (Scenario::Sustained | Scenario::Flood, Some(rate)) => {
                Ok(LoadShape::Sustained { rate, duration_ms })
            }
            (Scenario::Uniform | Scenario::Burst, Some(_)) => Err(Usage("--rate is for sustained")),
            (Scenario::Burst, None) if self.duration.is_some() => Err(Usage("a burst has no --duration")),
            (Scenario::Uniform, None) => Ok(LoadShape::Uniform { tasks, window_ms: duration_ms }),
            (Scenario::Burst, None) => Ok(LoadShape::Burst { tasks }),
        }
    }

    /// Where inserts go, and where executors ask, of all these engines.
    pub(crate) fn targets(&self, all: &Target) -> [Target; 2] {
        [self.insert_at, self.execute_at]
            .map(|number| number.map_or_else(|| all.clone(), |number| all.only(usize::from(number) - 1)))
    }

    pub(crate) fn ahead_ms(&self) -> i64 {
        let inserting_ms = match self.scenario {
            Scenario::Sustained | Scenario::Flood => 0,
            Scenario::Uniform | Scenario::Burst => {
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

/// For tests: the server that these words ask for.
#[cfg(test)]
pub(crate) fn server(words: &str) -> ServerOptions {
    let words = std::iter::once("loadtest").chain(words.split_whitespace());
    match Options::try_parse_from(words).unwrap().command {
        LoadCommand::Run(options) => options.server,
        LoadCommand::Idle(options) => options.server,
        LoadCommand::Limit(options) => options.server,
        LoadCommand::Attack(options) => options.server,
        LoadCommand::Search(options) => options.server,
        LoadCommand::Bulk(options) => options.server,
        LoadCommand::Bounds(options) => options.server,
        LoadCommand::Console(options) => options.server,
        LoadCommand::Overload(options) => options.server,
        LoadCommand::Parts(_)
        | LoadCommand::Bars(_)
        | LoadCommand::Counts(_)
        | LoadCommand::Chaos(_)
        | LoadCommand::Executor(_) => {
            panic!("they have no options of a server")
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
