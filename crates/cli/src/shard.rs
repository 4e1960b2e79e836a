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

use crate::config;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use punctual_store::{MysqlOptions, MysqlStore};
use std::{path::PathBuf, process::ExitCode};

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

#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Databases of the store, the catalog first
    #[arg(
        long,
        value_name = "URL,URL",
        env = "PUNCTUAL_STORE_URL",
        hide_env_values = true,
        value_delimiter = ',',
        required_unless_present = "store_url_file",
        conflicts_with = "store_url_file",
        value_parser = mysql_url
    )]
    store_url: Vec<String>,
    /// File with the URLs, so that no password is visible on the command line
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_STORE_URL_FILE")]
    store_url_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn mysql_url(text: &str) -> Result<String, String> {
    if text.starts_with("mysql://") {
        Ok(text.to_owned())
    } else {
        Err("must be mysql://user@host/database".to_owned())
    }
}

impl StoreArgs {
    async fn open(&self) -> Result<MysqlStore> {
        MysqlStore::open(&self.urls()?, MysqlOptions::default()).await.context("the store cannot be opened")
    }

    fn urls(&self) -> Result<Vec<String>> {
        let Some(path) = &self.store_url_file else { return Ok(self.store_url.clone()) };
        let text = config::read_secret(path)?;
        let checked = |text: &str| {
            mysql_url(text.trim()).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
        };
        text.split(',').map(checked).collect()
    }
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
