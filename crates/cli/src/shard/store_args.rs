//! The databases of a command, and how they are opened. Must never change a database.

use crate::config;
use anyhow::{Context, Result};
use clap::Args;
use punctual_store::{MysqlOptions, MysqlStore};
use std::path::PathBuf;

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
    pub(super) json: bool,
}

fn mysql_url(text: &str) -> Result<String, String> {
    if text.starts_with("mysql://") {
        Ok(text.to_owned())
    } else {
        Err("must be mysql://user@host/database".to_owned())
    }
}

impl StoreArgs {
    pub(super) async fn open(&self) -> Result<MysqlStore> {
        MysqlStore::open(&self.urls()?, MysqlOptions::default()).await.context("the store cannot be opened")
    }

    pub(super) fn urls(&self) -> Result<Vec<String>> {
        let Some(path) = &self.store_url_file else { return Ok(self.store_url.clone()) };
        let text = config::read_secret(path)?;
        let checked = |text: &str| {
            mysql_url(text.trim()).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
        };
        text.split(',').map(checked).collect()
    }
}
