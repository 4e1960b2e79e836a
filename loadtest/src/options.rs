//! The common options of the programs of load: the server, and the common part of the load. Checks what clap cannot;
//! decides nothing else. Must not know a program: each has its own options, and `command` has all of them.

pub(crate) use crate::duration::parse_ms;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

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
    #[arg(long, conflicts_with = "url", value_parser = size)]
    pub(crate) buffer_pool: Option<String>,
    /// Of that MariaDB: its redo log, which is how much is changed between two checkpoints [default: 1G]
    #[arg(long, conflicts_with = "url", value_parser = size)]
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

/// The request makes no sense; exit 2.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) &'static str);

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

/// A size of memory, as MariaDB accepts it: 512M, 2G.
pub(crate) fn size(text: &str) -> Result<String, String> {
    let number = text.strip_suffix(['M', 'G']).ok_or("a number with M or G, such as 2G")?;
    number.parse::<u32>().ok().filter(|number| *number > 0).ok_or("a number with M or G, such as 2G")?;
    Ok(text.to_owned())
}
