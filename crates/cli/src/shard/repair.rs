//! `punctual shard repair`: settles what `shard check` finds, and says what it did.

use super::StoreArgs;
use crate::{
    audited::{Audited, audited},
    output::{self, count},
};
use anyhow::Result;
use clap::Args;
use punctual_store::ShardRepair;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: &RepairArgs) -> Result<ExitCode> {
    let store = args.store.open().await?;
    let repaired = if args.dry_run {
        store.repair(true).await.map_err(Into::into)
    } else {
        let work = async {
            let found: Vec<_> = store.repair(true).await?.iter().map(json).collect();
            let value = store.repair(false).await?;
            let after: Vec<_> = value.iter().map(json).collect();
            let told = |field: &str, shards| Some(serde_json::json!({ field: shards }).to_string());
            Ok(Audited { value, before: told("found", found), after: told("repaired", after) })
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

fn json(it: &ShardRepair) -> serde_json::Value {
    let strangers: Vec<u16> = it.strangers.iter().map(|it| it.0).collect();
    serde_json::json!({
        "shard": it.shard_no,
        "registry_without_task": it.entries_alone,
        "moved_without_task": it.places_alone,
        "body_without_task": it.bodies_alone,
        "partitions_elsewhere": strangers,
        "rows_elsewhere": it.strange_rows,
        "accounts": it.accounts,
        "corrected": it.corrected,
        "corrected_bytes": it.corrected_bytes,
        "accepted": it.accepted,
    })
}

fn print(repaired: &[ShardRepair], dry_run: bool) {
    let rows = repaired.iter().map(|it| [it.shard_no.to_string(), remains(it)]);
    output::table(["SHARD", "WHAT IS REPAIRED"], rows);
    let is_nothing = repaired.iter().all(ShardRepair::is_nothing);
    output::line(match (is_nothing, dry_run) {
        (true, _) => "nothing to repair",
        (false, true) => "this would be repaired; nothing was changed",
        (false, false) => "this was repaired",
    });
}

/// All of one database that is not as it should be; `nothing` where all is.
fn remains(it: &ShardRepair) -> String {
    let counted = [
        (it.entries_alone, "in the registry alone"),
        (it.places_alone, "moved, and alone"),
        (it.bodies_alone, "bodies alone"),
        (it.strange_rows, "rows of partitions that are elsewhere"),
        (it.corrected, "tasks in the wrong account"),
        (it.corrected_bytes, "bytes in the wrong account"),
    ];
    let mut said: Vec<String> =
        counted.iter().filter(|it| it.0 > 0).map(|(many, what)| format!("{} {what}", count(*many))).collect();
    if it.accepted != 0 {
        said.push(format!("accepted by {}", it.accepted));
    }
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}
