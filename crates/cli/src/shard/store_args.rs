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
        value_parser = store_url
    )]
    store_url: Vec<String>,
    /// File with the URLs, so that no password is visible on the command line
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_STORE_URL_FILE")]
    store_url_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

const EMBEDDED: &str = "sqlite://";

/// `check` and `repair` take a file, too.
fn store_url(text: &str) -> Result<String, String> {
    if text.starts_with("mysql://") || text.starts_with(EMBEDDED) {
        Ok(text.to_owned())
    } else {
        Err("must be mysql://user@host/database; of `check` and `repair` also sqlite://FILE".to_owned())
    }
}

impl StoreArgs {
    pub(super) async fn open(&self) -> Result<MysqlStore> {
        MysqlStore::open(&self.urls()?, MysqlOptions::default()).await.context("the store cannot be opened")
    }

    /// The file of an embedded store.
    pub(super) fn file(&self) -> Result<Option<PathBuf>> {
        let given = self.given()?;
        let file = given.first().and_then(|url| url.strip_prefix(EMBEDDED));
        Ok(file.filter(|_| given.len() == 1).map(PathBuf::from))
    }

    pub(super) fn urls(&self) -> Result<Vec<String>> {
        let given = self.given()?;
        let is_file = given.iter().any(|url| url.starts_with(EMBEDDED));
        anyhow::ensure!(!is_file, "an embedded store is one file, and has no databases");
        Ok(given)
    }

    fn given(&self) -> Result<Vec<String>> {
        let Some(path) = &self.store_url_file else { return Ok(self.store_url.clone()) };
        let text = config::read_secret(path)?;
        let checked = |text: &str| {
            store_url(text.trim()).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
        };
        text.split(',').map(checked).collect()
    }
}
