//! The command line: the programs of load, and what each is asked for. Below it are the options of the programs; above it those that
//! speak the words of other programs, `bars` and `counts`, whose options are here for that reason. Decides nothing.

use crate::{
    attack::AttackOptions, bounds::BoundsOptions, bulk::BulkOptions, chaos::ChaosOptions,
    child::ChildOptions, console::options::ConsoleOptions, idle::IdleOptions, limit::LimitOptions,
    overload::OverloadOptions, parts::PartsOptions, run::options::RunOptions, search::SearchOptions,
};
use clap::{Args, Parser, Subcommand};
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
    Bounds(BoundsOptions),
    /// Inserts more than the store takes, in batches and one by one. Exit 0 only if what was taken did not wait for long, the rest
    /// was refused with a time for the next try, and memory kept within its bound.
    Overload(OverloadOptions),
    /// Fills very many queues, times each page of the console, and measures what open pages that are live cost. Exit 0 only if each
    /// page came in time at the 95th percentile, and the open ones took no more of a core.
    Console(ConsoleOptions),
    /// Measures what MariaDB and Redis give on this machine with nothing of a product around them.
    Parts(PartsOptions),
    /// Measures the bars of docs/figures.md as ratios to the bare parts of the same run. Exit 0 only if each row that was
    /// measured is reached.
    Bars(BarsOptions),
    /// Counts what runs with one engine and with two ask of MariaDB and Redis: calls, statements, and what was undone, read and
    /// locked. Exit 0 only if every promise was kept.
    Counts(CountsOptions),
    /// Breaks a private installation at random, part by part, while load runs: engines, MariaDB, Redis, the ways between
    /// them, logs, disks, clocks. Exit 0 only if every promise held for every task, and all was quiet in the end.
    Chaos(ChaosOptions),
    /// One executor of `limit`
    #[command(hide = true)]
    Executor(ChildOptions),
}

#[derive(Args, Debug, Clone)]
pub(crate) struct BarsOptions {
    /// Only these, such as P3, P3-two or redis-killed [default: all]
    pub(crate) rows: Vec<String>,
    /// Names the rows, and measures nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// The server's binary [default: $PUNCTUAL_BIN, or `punctual` beside this program]
    #[arg(long)]
    pub(crate) server_bin: Option<PathBuf>,
    /// Tasks that wait, of the row P10-pending
    #[arg(long, default_value_t = 400_000)]
    pub(crate) pending: usize,
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

/// The server options of these words, for tests.
#[cfg(test)]
pub(crate) fn server(words: &str) -> crate::options::ServerOptions {
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
#[path = "command_tests.rs"]
mod tests;
