//! `punctual shard add`: makes the databases at the end of the list members of the cluster. They have no partitions until
//! some are moved there.

use super::StoreArgs;
use crate::{clock::SystemClock, output};
use anyhow::Result;
use punctual_contract::Clock as _;
use punctual_store::{BucketOptions, MysqlStore};
use std::process::ExitCode;

pub(super) async fn run(args: &StoreArgs) -> Result<ExitCode> {
    let (had, has) = MysqlStore::add_databases(&args.urls()?).await?;
    if has > had {
        // A new database gets its buckets before the first partition comes.
        let store = args.open().await?;
        let made = store.buckets(BucketOptions::default()).run_once(SystemClock.now()).await;
        store.close().await;
        made?;
    }
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
