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
    let work = async { Ok(Audited::plain(store.repair(args.dry_run).await?)) };
    let repaired = if args.dry_run {
        work.await.map(|it| it.value)
    } else {
        audited(&store, "shard_repair", "shard repair", work).await
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
    output::table(
        [
            "SHARD",
            "REGISTRY ALONE",
            "MOVED ALONE",
            "BODY ALONE",
            "PARTITIONS ELSEWHERE",
            "THEIR ROWS",
            "ACCOUNTS",
            "BY TASKS",
            "BY BYTES",
            "ACCEPTED BY",
        ],
        repaired.iter().map(|it| {
            [
                it.shard_no.to_string(),
                count(it.entries_alone),
                count(it.places_alone),
                count(it.bodies_alone),
                it.strangers.len().to_string(),
                count(it.strange_rows),
                it.accounts.to_string(),
                count(it.corrected),
                count(it.corrected_bytes),
                it.accepted.to_string(),
            ]
        }),
    );
    let is_nothing = repaired.iter().all(ShardRepair::is_nothing);
    output::line(match (is_nothing, dry_run) {
        (true, _) => "nothing to repair",
        (false, true) => "this would be repaired; nothing was changed",
        (false, false) => "this was repaired",
    });
}
