//! `punctual shard list`: each database with its partitions, sizes and owners, as its server estimates them.

use super::store_args::StoreArgs;
use crate::{
    clock::SystemClock,
    output::{self, Form, count},
    spans,
};
use anyhow::Result;
use punctual_contract::{Clock as _, Ownership, ownership::Owner};
use punctual_store::ShardStats;
use serde::Serialize;
use std::{collections::BTreeMap, process::ExitCode};

#[derive(Serialize)]
struct Shown {
    shard: usize,
    database: String,
    partitions: usize,
    rows_estimated: i64,
    task_bytes: i64,
    bytes: i64,
    buckets: i64,
    oldest_due_at: Option<i64>,
    /// Partitions by the engine that has them now.
    owners: BTreeMap<String, Vec<u16>>,
}

pub(super) async fn run(args: &StoreArgs) -> Result<ExitCode> {
    let store = args.open().await?;
    let (stats, owners) = (store.stats().await?, store.ownership().owners().await?);
    store.close().await;
    let shown: Vec<Shown> = stats.into_iter().map(|stats| shown(stats, &owners)).collect();
    match Form::json_if(args.json) {
        Form::Json => output::json(&serde_json::json!({ "shards": shown }))?,
        Form::Text => print(&shown),
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(stats: ShardStats, owners: &[Owner]) -> Shown {
    let mut by_engine: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    let here = |owner: &&Owner| !owner.left.is_zero() && stats.partitions.contains(&owner.tenure.partition);
    for owner in owners.iter().filter(here) {
        by_engine.entry(owner.engine.clone()).or_default().push(owner.tenure.partition.0);
    }
    Shown {
        shard: stats.shard_no,
        database: stats.database,
        partitions: stats.partitions.len(),
        rows_estimated: stats.rows,
        task_bytes: stats.task_bytes,
        bytes: stats.bytes,
        buckets: stats.buckets,
        oldest_due_at: stats.oldest_due_at.map(|oldest_due_at| oldest_due_at.0),
        owners: by_engine,
    }
}

fn print(shards: &[Shown]) {
    let rows = shards.iter().map(|shard| {
        let owners = shard.owners.iter().map(|(engine, partitions)| format!("{engine} {}", partitions.len()));
        [
            shard.shard.to_string(),
            shard.database.clone(),
            shard.partitions.to_string(),
            count(shard.rows_estimated.unsigned_abs()),
            format!("{} MiB", count(shard.bytes.unsigned_abs() / 1_048_576)),
            shard.buckets.to_string(),
            shard.oldest_due_at.map_or_else(|| "-".to_owned(), |at| spans::relative(at, SystemClock.now().0)),
            owners.collect::<Vec<_>>().join(", "),
        ]
    });
    output::table(
        ["SHARD", "DATABASE", "PARTITIONS", "ROWS", "SIZE", "BUCKETS", "OLDEST DUE", "OWNERS"],
        rows,
    );
}
