//! `punctual shard move`, `split` and `moves`: partitions change their database while engines run. Can be stopped at any
//! moment and run again.

use super::store_args::StoreArgs;
use crate::{
    audited::{Audited, audited},
    clock::SystemClock,
    output::{self, count},
};
use anyhow::{Result, bail};
use clap::Args;
use punctual_contract::{Clock as _, ClusterStore as _, Store as _, cluster::Event};
use punctual_domain::{event::EventKind, place::Partition, time::Span};
use punctual_store::{MoveProgress, MoveStep, Moved, MysqlStore};
use std::{collections::BTreeMap, fmt, ops::ControlFlow, process::ExitCode};

#[derive(Args, Debug)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Partitions to move, by number
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        required_unless_present = "from",
        conflicts_with = "from"
    )]
    partition: Vec<u16>,
    /// Move all partitions of this database
    #[arg(long, value_name = "SHARD")]
    from: Option<usize>,
    /// Target database, by its number in `shard list`
    #[arg(long, value_name = "SHARD", required_unless_present = "undo")]
    to: Option<usize>,
    /// Undo moves that were begun and have not switched to the target yet
    #[arg(long, conflicts_with_all = ["to", "from"])]
    undo: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Source database, which loses half of its partitions
    #[arg(long, value_name = "SHARD")]
    from: usize,
    /// Target database
    #[arg(long, value_name = "SHARD")]
    to: usize,
}

/// The move as requested, without addresses.
impl fmt::Display for MoveArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shard move")?;
        if !self.partition.is_empty() {
            let numbers: Vec<String> = self.partition.iter().map(u16::to_string).collect();
            write!(f, " --partition {}", numbers.join(","))?;
        }
        self.from.iter().try_for_each(|number| write!(f, " --from {number}"))?;
        self.to.iter().try_for_each(|number| write!(f, " --to {number}"))?;
        if self.undo { f.write_str(" --undo") } else { Ok(()) }
    }
}

pub(super) async fn run(args: &MoveArgs) -> Result<ExitCode> {
    let store = args.store.open().await?;
    let done = audited(&store, "shard_move", args, move_or_undo(&store, args)).await;
    store.close().await;
    done
}

async fn move_or_undo(store: &MysqlStore, args: &MoveArgs) -> Result<Audited<ExitCode>> {
    let partitions = match args.from {
        Some(from) => of_shard(store, from).await?,
        None => args.partition.iter().copied().map(Partition).collect(),
    };
    if args.undo {
        let before = placed(store).await?;
        for partition in &partitions {
            store.undo_move(*partition, &mut progress(args.store.json)).await?;
            output::line(&format!("partition {} stays where it was; its copies are deleted", partition.0));
        }
        return reported(store, before, &partitions).await;
    }
    let Some(to) = args.to else { bail!("--to names the database they go to") };
    move_all(store, &partitions, to, args.store.json).await
}

pub(super) async fn split(args: &SplitArgs) -> Result<ExitCode> {
    let store = args.store.open().await?;
    let done = async {
        // A split that was stopped continues with what is under way, and counts what has moved already.
        let (here, there) = (of_shard(&store, args.from).await?, of_shard(&store, args.to).await?);
        let away = half(&here, there.len());
        move_all(&store, &away, args.to, args.store.json).await
    };
    let said = format!("shard split --from {} --to {}", args.from, args.to);
    let done = audited(&store, "shard_split", said, done).await;
    store.close().await;
    done
}

/// The partitions to move, so that both have as many afterwards: every second one, from the end.
fn half(here: &[Partition], there: usize) -> Vec<Partition> {
    let away = here.len().saturating_sub(there) / 2;
    here.iter().rev().step_by(2).chain(here.iter().rev().skip(1).step_by(2)).take(away).copied().collect()
}

async fn of_shard(store: &MysqlStore, shard: usize) -> Result<Vec<Partition>> {
    let stats = store.stats().await?;
    let Some(stats) = stats.into_iter().find(|stats| stats.shard_no == shard) else {
        bail!("there is no database {shard}; see `punctual shard list`")
    };
    Ok(stats.partitions)
}

async fn move_all(
    store: &MysqlStore,
    partitions: &[Partition],
    to: usize,
    json: bool,
) -> Result<Audited<ExitCode>> {
    let before = placed(store).await?;
    let mut all = Vec::new();
    for partition in partitions {
        match store.move_partition(*partition, to, &mut progress(json)).await? {
            Some(moved) => {
                note(store, &moved).await;
                if json { all.push(shown(&moved)) } else { say(&moved) }
            }
            None if json => {}
            None => output::line(&format!("partition {} is in database {to} already", partition.0)),
        }
    }
    if json {
        output::json(&serde_json::json!({ "moved": all, "partitions": store.partitions() }))?;
    } else if partitions.is_empty() {
        output::line("nothing to move");
    }
    reported(store, before, partitions).await
}

/// The placement of partitions in databases.
async fn placed(store: &MysqlStore) -> Result<BTreeMap<u16, usize>> {
    let stats = store.stats().await?;
    Ok(stats
        .iter()
        .flat_map(|shard| shard.partitions.iter().map(|partition| (partition.0, shard.shard_no)))
        .collect())
}

/// The placement before and after, for the audit.
async fn reported(
    store: &MysqlStore,
    before: BTreeMap<u16, usize>,
    partitions: &[Partition],
) -> Result<Audited<ExitCode>> {
    let of = |all: &BTreeMap<u16, usize>| {
        let these: BTreeMap<u16, Option<&usize>> =
            partitions.iter().map(|partition| (partition.0, all.get(&partition.0))).collect();
        Some(serde_json::json!({ "database_of_partition": these }).to_string())
    };
    Ok(Audited { value: ExitCode::SUCCESS, before: of(&before), after: of(&placed(store).await?) })
}

/// Reports the move to others: an event of the cluster. The move is over whether or not it can be written.
async fn note(store: &MysqlStore, moved: &Moved) {
    let (at, kind) = (SystemClock.now(), EventKind::PartitionMoved);
    let event = Event {
        at,
        kind,
        key: format!("{kind}:{}:{at}", moved.partition.0),
        engine: None,
        text: format!(
            "partition {} has moved from database {} to {}",
            moved.partition.0, moved.from, moved.to
        ),
        details: shown(moved).to_string(),
    };
    if let Err(error) = store.append_event(event).await {
        tracing::warn!(%error, "the move is over, and the event of it could not be written");
    }
}

fn shown(moved: &Moved) -> serde_json::Value {
    serde_json::json!({
        "partition": moved.partition.0,
        "from": moved.from,
        "to": moved.to,
        "tasks": moved.tasks,
        "rows_copied": moved.copied,
        "rows_copied_while_closed": moved.copied_closed,
        "rounds": moved.rounds,
        "closed_ms": u64::try_from(moved.closed_for.as_millis()).unwrap_or(u64::MAX),
    })
}

fn say(moved: &Moved) {
    output::line(&format!(
        "partition {} is in database {} now: {} tasks, {} rows copied in {} rounds and {} while it was closed, for {}",
        moved.partition.0,
        moved.to,
        count(moved.tasks),
        count(moved.copied - moved.copied_closed),
        moved.rounds,
        count(moved.copied_closed),
        Span::of(moved.closed_for),
    ));
}

/// One line a step, and one for so many rows.
const ROWS_PER_LINE: u64 = 100_000;

fn progress(json: bool) -> impl FnMut(&MoveProgress) -> ControlFlow<()> + Send {
    let mut last = None;
    move |progress| {
        let line = (progress.step, progress.round, progress.rows / ROWS_PER_LINE);
        if !json && last != Some(line) {
            output::error_line(&format!("partition {}: {}", progress.partition.0, words(progress)));
        }
        last = Some(line);
        ControlFlow::Continue(())
    }
}

fn words(progress: &MoveProgress) -> String {
    match progress.step {
        MoveStep::Recorded => "the move is recorded".to_owned(),
        MoveStep::Copying => {
            format!(
                "round {}: {} rows compared, {} copied",
                progress.round,
                count(progress.rows),
                count(progress.copied)
            )
        }
        MoveStep::Tidied => "the copy is tidy".to_owned(),
        MoveStep::Announced => "waits for transactions under way".to_owned(),
        MoveStep::Closed => "closed for writing".to_owned(),
        MoveStep::Comparing => {
            format!("closed: {} rows compared, {} copied", count(progress.rows), count(progress.copied))
        }
        MoveStep::Entered => "accounts are entered".to_owned(),
        MoveStep::Decided => "the placement says the new database".to_owned(),
        MoveStep::Left => "left the old database".to_owned(),
        MoveStep::Opened => "open in the new database".to_owned(),
        MoveStep::Deleting => format!("{} old rows deleted", count(progress.rows)),
        MoveStep::Over => "the move is over".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_leaves_as_many_as_it_takes_however_often_it_is_run_again() {
        let all: Vec<Partition> = (0..16).map(Partition).collect();
        let away = half(&all, 0);
        assert_eq!(away.iter().map(|partition| partition.0).collect::<Vec<_>>(), [15, 13, 11, 9, 7, 5, 3, 1]);
        let left: Vec<Partition> =
            all.iter().copied().filter(|partition| !away[..3].contains(partition)).collect();
        assert_eq!(half(&left, 3).len(), 5, "after three of them had moved");
        assert!(half(&all[..8], 8).is_empty());
    }
}
