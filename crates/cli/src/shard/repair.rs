//! `punctual shard repair`: repairs the findings of `shard check`, and reports what it did.

use super::store_args::StoreArgs;
use crate::{
    audited::{Audited, audited},
    output::{self, count},
};
use anyhow::{Context as _, Result};
use clap::Args;
use punctual_contract::LedgerStore as _;
use punctual_store::{ShardRepair, SqliteDoctor, SqliteStore};
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Change nothing; only report what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: &RepairArgs) -> Result<ExitCode> {
    if let Some(file) = args.store.file()? {
        return embedded(file, args).await;
    }
    let store = args.store.open().await?;
    let repaired = if args.dry_run {
        store.repair(true).await.map_err(Into::into)
    } else {
        let work = async {
            let found: Vec<_> = store.repair(true).await?.iter().map(json).collect();
            let value = store.repair(false).await?;
            for repair in &value {
                store.request_ledger_count(repair.shard_no).await?;
            }
            let after: Vec<_> = value.iter().map(json).collect();
            let reported = |field: &str, shards| Some(serde_json::json!({ field: shards }).to_string());
            Ok(Audited { value, before: reported("found", found), after: reported("repaired", after) })
        };
        audited(&store, "shard_repair", "shard repair", Box::pin(work)).await
    };
    store.close().await;
    let repaired = repaired?;
    if args.store.json {
        let shards: Vec<_> = repaired.iter().map(json).collect();
        output::json(&serde_json::json!({ "dry_run": args.dry_run, "shards": shards }))?;
    } else {
        print(&repaired, args.dry_run);
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a file that no engine has open: account and register become what the rows are.
async fn embedded(file: PathBuf, args: &RepairArgs) -> Result<ExitCode> {
    let dry_run = args.dry_run;
    let work = move || if dry_run { SqliteDoctor::new(&file).check() } else { SqliteStore::repair(&file) };
    let found = tokio::task::spawn_blocking(work).await.context("the repair panicked")??;
    let corrected = found.ledger.unaccounted();
    if args.store.json {
        output::json(
            &serde_json::json!({ "dry_run": dry_run, "shards": [{ "shard": 0, "corrected": corrected }] }),
        )?;
    } else {
        let done = if dry_run { "would be corrected" } else { "corrected" };
        output::line(&format!("{} {done}", count(corrected.unsigned_abs())));
    }
    Ok(ExitCode::SUCCESS)
}

fn json(repair: &ShardRepair) -> serde_json::Value {
    let strangers: Vec<u16> = repair.strangers.iter().map(|stranger| stranger.0).collect();
    serde_json::json!({
        "shard": repair.shard_no,
        "registry_without_task": repair.entries_alone,
        "moved_without_task": repair.places_alone,
        "body_without_task": repair.bodies_alone,
        "partitions_elsewhere": strangers,
        "rows_elsewhere": repair.strange_rows,
        "accounts": repair.accounts,
        "corrected": repair.corrected,
        "corrected_bytes": repair.corrected_bytes,
        "accepted": repair.accepted,
    })
}

fn print(repaired: &[ShardRepair], dry_run: bool) {
    let rows = repaired.iter().map(|repair| [repair.shard_no.to_string(), remains(repair)]);
    output::table(["SHARD", "WHAT IS REPAIRED"], rows);
    let is_nothing = repaired.iter().all(ShardRepair::is_nothing);
    output::line(match (is_nothing, dry_run) {
        (true, _) => "nothing to repair",
        (false, true) => "this would be repaired; nothing was changed",
        (false, false) => "this was repaired",
    });
}

/// All of one database that is not as it should be; `nothing` where all is.
fn remains(repair: &ShardRepair) -> String {
    let counted = [
        (repair.entries_alone, "in the registry alone"),
        (repair.places_alone, "moved, and alone"),
        (repair.bodies_alone, "bodies alone"),
        (repair.strange_rows, "rows of partitions that are elsewhere"),
        (repair.corrected, "tasks in the wrong account"),
        (repair.corrected_bytes, "bytes in the wrong account"),
    ];
    let mut said: Vec<String> = counted
        .iter()
        .filter(|pair| pair.0 > 0)
        .map(|(many, what)| format!("{} {what}", count(*many)))
        .collect();
    if repair.accepted != 0 {
        said.push(format!("accepted by {}", repair.accepted));
    }
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}
