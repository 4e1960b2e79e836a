//! `punctual shard add`: makes the databases at the end of the list members of the cluster. They have no partitions until
//! some are moved there.

use super::store_args::StoreArgs;
use crate::{
    audited::{Audited, audited},
    clock::SystemClock,
    output,
};
use anyhow::{Context as _, Result};
use punctual_contract::Clock as _;
use punctual_store::{BucketOptions, MysqlDoctor, MysqlStore};
use std::process::ExitCode;

pub(super) async fn run(args: &StoreArgs) -> Result<ExitCode> {
    let urls = args.urls()?;
    let (had, has) = if is_founded(&urls).await? {
        add_audited(args, &urls).await?
    } else {
        // Refused, with the reason: opening it would found a cluster of all of them.
        MysqlStore::add_databases(&urls).await?
    };
    if args.json {
        output::json(&serde_json::json!({ "had": had, "has": has }))?;
    } else if has == had {
        output::line(&format!(
            "the cluster has these {has} databases already; name the new one at the end of --store-url"
        ));
    } else {
        output::line(&format!(
            "the cluster has {has} databases now, {} more; the new ones have no partitions yet",
            has - had
        ));
        output::line(&format!(
            "next: punctual shard split --from 0 --to {had}, or punctual shard move --partition N --to {had}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn is_founded(urls: &[String]) -> Result<bool> {
    let catalog = urls.first().context("--store-url names no database")?;
    Ok(MysqlDoctor::new(catalog)?.cluster().await?.is_some())
}

async fn add_audited(args: &StoreArgs, urls: &[String]) -> Result<(usize, usize)> {
    let store = args.open().await?;
    let work = async {
        let (had, has) = MysqlStore::add_databases(urls).await?;
        if has > had {
            // A new database gets its buckets before the first partition comes. The store that is open knows it later.
            let grown = args.open().await?;
            let made = grown.buckets(BucketOptions::default()).run_once(SystemClock.now()).await;
            grown.close().await;
            made?;
        }
        let databases = |count: usize| Some(serde_json::json!({ "databases": count }).to_string());
        Ok(Audited { value: (had, has), before: databases(had), after: databases(has) })
    };
    let added = audited(&store, "shard_add", "shard add", Box::pin(work)).await;
    store.close().await;
    added
}
