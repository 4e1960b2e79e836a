//! `punctual shard`: the databases that a store is spread over. `plan` is arithmetic, `list` and `check` read; `archive`
//! does the housekeeping of old buckets, as an engine does it; `add`, `move`, `split` and `repair` change where partitions
//! are, while engines run, and can be run again at any time.

mod archive;
mod check;
mod grow;
mod list;
mod plan;
mod relocate;
mod repair;
mod store_args;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;
use store_args::StoreArgs;

#[derive(Subcommand, Debug)]
pub(crate) enum ShardCommand {
    Plan(plan::PlanArgs),
    /// Show the databases of a store: partitions, sizes, the oldest task, owners
    List(StoreArgs),
    /// Compare the accounting of each database with its rows; exit code 1 if they differ
    Check(StoreArgs),
    /// Archive and drop old buckets now, as engines do every minute; with --dry-run, only report what would be done
    Archive(archive::ArchiveArgs),
    /// Add the databases at the end of the list to the cluster; first name them in `store.url` of every engine
    Add(StoreArgs),
    /// Move partitions to another database while engines run; after an interruption, run the command again to continue
    Move(relocate::MoveArgs),
    /// Move half of the partitions of one database to another
    Split(relocate::SplitArgs),
    /// Repair what `check` finds: accounting, entries without tasks, remains of moves
    Repair(repair::RepairArgs),
}

pub(crate) async fn run(command: ShardCommand) -> Result<ExitCode> {
    match command {
        ShardCommand::Plan(args) => plan::run(&args),
        ShardCommand::List(args) => list::run(&args).await,
        ShardCommand::Check(args) => check::run(&args).await,
        ShardCommand::Archive(args) => archive::run(&args).await,
        ShardCommand::Add(args) => grow::run(&args).await,
        ShardCommand::Move(args) => relocate::run(&args).await,
        ShardCommand::Split(args) => relocate::split(&args).await,
        ShardCommand::Repair(args) => repair::run(&args).await,
    }
}
