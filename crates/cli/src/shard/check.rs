//! `punctual shard check`: checks that every task of each database, or of an embedded store's file, is accounted for. Names
//! the tasks that are not. The exit code has the result; it repairs nothing.

use super::store_args::StoreArgs;
use crate::output::{self, Form, count};
use anyhow::{Context as _, Result};
use punctual_cluster::{LedgerPass, TaskFault};
use punctual_contract::store::Books;
use punctual_domain::time::Millis;
use punctual_store::{ShardCheck, SqliteDoctor};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

#[derive(Serialize)]
struct Shown {
    shard: usize,
    accepted: i64,
    deleted: i64,
    standing: i64,
    /// Accepted, and in no state.
    unaccounted: i64,
    /// Tasks of one state or queue that the account has elsewhere.
    misplaced: u64,
    /// Bytes of payloads of waiting tasks that the account has too many or too few.
    bytes_misplaced: u64,
    /// Payloads from before an upgrade are not in the account yet; an engine that runs counts them.
    bytes_uncounted: bool,
    registry_without_task: i64,
    moved_without_task: i64,
    /// Partitions that the catalog has here and the database does not, or the other way round.
    misplaced_partitions: Vec<u16>,
    /// Partitions of which rows are here that are elsewhere.
    partitions_elsewhere: Vec<u16>,
    /// Tasks that are lost, doubled or elsewhere.
    faults: Vec<TaskFault>,
    is_sound: bool,
}

pub(super) async fn run(args: &StoreArgs) -> Result<ExitCode> {
    let checked = match args.file()? {
        Some(file) => vec![embedded(file).await?],
        None => databases(args).await?,
    };
    let shown: Vec<Shown> = checked.iter().map(shown).collect();
    let is_sound = shown.iter().all(|shown| shown.is_sound);
    match Form::json_if(args.json) {
        Form::Json => output::json(&serde_json::json!({ "shards": shown, "is_sound": is_sound }))?,
        Form::Text => print(&shown),
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn databases(args: &StoreArgs) -> Result<Vec<ShardCheck>> {
    let store = args.open().await?;
    let checked = store.check().await;
    store.close().await;
    Ok(checked?)
}

/// Beside an engine that has it open, or alone.
async fn embedded(file: PathBuf) -> Result<ShardCheck> {
    let check = move || SqliteDoctor::new(&file).check();
    Ok(tokio::task::spawn_blocking(check).await.context("the check panicked")??)
}

fn shown(check: &ShardCheck) -> Shown {
    let books = Books { tallies: check.counted.tallies.clone(), ..check.books.clone() };
    Shown {
        shard: check.shard_no,
        accepted: books.accepted,
        deleted: books.deleted,
        standing: books.tallies.iter().map(|tally| tally.tasks).sum(),
        unaccounted: books.unaccounted(),
        misplaced: misplaced(&check.books, &check.counted),
        bytes_misplaced: bytes_misplaced(&check.books, &check.counted),
        bytes_uncounted: check.bytes_uncounted,
        registry_without_task: check.entries_alone,
        moved_without_task: check.places_alone,
        misplaced_partitions: check.misplaced.iter().map(|partition| partition.0).collect(),
        partitions_elsewhere: check.strangers.iter().map(|stranger| stranger.0).collect(),
        faults: LedgerPass::of(&check.ledger, "", (Millis::ZERO, Millis::ZERO)).faults,
        is_sound: check.is_sound(),
    }
}

/// The difference between two accounts, over all queues and states.
fn misplaced(books: &Books, counted: &Books) -> u64 {
    let of = |all: &Books, one: &punctual_contract::store::Tally| {
        let same = all.tallies.iter().find(|tally| tally.queue == one.queue && tally.state == one.state);
        same.map_or(0, |tally| tally.tasks)
    };
    let here = books.tallies.iter().map(|tally| tally.tasks.abs_diff(of(counted, tally)));
    let only_there =
        counted.tallies.iter().filter(|tally| of(books, tally) == 0).map(|tally| tally.tasks.unsigned_abs());
    here.chain(only_there).sum()
}

fn bytes_misplaced(books: &Books, counted: &Books) -> u64 {
    let mut sums = BTreeMap::new();
    for (all, sign) in [(books, -1), (counted, 1)] {
        for pending_bytes in &all.pending_bytes {
            *sums.entry(&pending_bytes.queue).or_insert(0) += sign * pending_bytes.bytes;
        }
    }
    sums.into_values().map(i64::unsigned_abs).sum()
}

fn print(shards: &[Shown]) {
    let rows = shards.iter().map(|shard| {
        [
            shard.shard.to_string(),
            if shard.is_sound { "sound" } else { "NOT SOUND" }.to_owned(),
            count(shard.accepted.unsigned_abs()),
            count(shard.standing.unsigned_abs()),
            count(shard.deleted.unsigned_abs()),
            differences(shard),
        ]
    });
    output::table(["SHARD", "SOUND", "ACCEPTED", "STANDING", "DELETED", "WHAT DIFFERS"], rows);
    for (shard, fault) in shards.iter().flat_map(|shard| shard.faults.iter().map(move |fault| (shard, fault)))
    {
        output::line(&format!("shard {}: {}", shard.shard, fault.described()));
    }
}

/// All that is not as it should be; `nothing` where all is.
fn differences(shown: &Shown) -> String {
    let bytes = if shown.bytes_uncounted { 0 } else { shown.bytes_misplaced };
    let counted = [
        (shown.unaccounted.unsigned_abs(), "unaccounted"),
        (shown.misplaced, "misplaced"),
        (bytes, "bytes misplaced"),
        (shown.registry_without_task.unsigned_abs(), "in the registry alone"),
        (shown.moved_without_task.unsigned_abs(), "moved, and alone"),
        (shown.misplaced_partitions.len() as u64, "partitions misplaced"),
        (shown.partitions_elsewhere.len() as u64, "partitions with rows here that are elsewhere"),
    ];
    let mut said: Vec<String> = counted
        .iter()
        .filter(|pair| pair.0 > 0)
        .map(|(many, what)| format!("{} {what}", count(*many)))
        .collect();
    if shown.bytes_uncounted {
        said.push("bytes not counted yet".to_owned());
    }
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::{
        ledger::LedgerCount,
        store::{PendingBytes, Tally},
    };
    use punctual_domain::{
        name::{Name, QueueKey},
        state::State,
    };

    fn tally(state: State, tasks: i64) -> Tally {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() };
        Tally { queue, state, tasks }
    }

    fn check(in_books: Vec<Tally>, in_rows: Vec<Tally>) -> Shown {
        let books = |tallies| Books { accepted: 10, deleted: 2, tallies, ..Books::default() };
        shown(&ShardCheck {
            shard_no: 0,
            books: books(in_books),
            counted: books(in_rows),
            bytes_uncounted: false,
            entries_alone: 0,
            places_alone: 0,
            misplaced: Vec::new(),
            strangers: Vec::new(),
            ledger: LedgerCount::default(),
        })
    }

    #[test]
    fn an_account_that_agrees_with_the_rows_is_sound() {
        let all = vec![tally(State::Scheduled, 5), tally(State::Dead, 3)];
        let shown = check(all.clone(), all);
        assert!(shown.is_sound && shown.unaccounted == 0 && shown.misplaced == 0);
    }

    #[test]
    fn payloads_that_are_not_counted_yet_make_nothing_unsound() {
        let queue = tally(State::Scheduled, 5).queue;
        let books = |bytes| Books {
            accepted: 5,
            tallies: vec![tally(State::Scheduled, 5)],
            pending_bytes: vec![PendingBytes { queue: queue.clone(), bytes }],
            ..Books::default()
        };
        let of = |bytes_uncounted| {
            shown(&ShardCheck {
                shard_no: 0,
                books: books(-3),
                counted: books(40),
                bytes_uncounted,
                entries_alone: 0,
                places_alone: 0,
                misplaced: Vec::new(),
                strangers: Vec::new(),
                ledger: LedgerCount::default(),
            })
        };
        assert_eq!((of(true).is_sound, of(true).bytes_uncounted, of(true).bytes_misplaced), (true, true, 43));
        assert_eq!((of(false).is_sound, of(false).bytes_uncounted), (false, false));
    }

    #[test]
    fn a_missing_row_is_unaccounted_and_a_wrong_state_is_misplaced() {
        let missing = check(vec![tally(State::Scheduled, 8)], vec![tally(State::Scheduled, 7)]);
        assert_eq!((missing.is_sound, missing.unaccounted, missing.misplaced), (false, 1, 1));
        let wrong =
            check(vec![tally(State::Scheduled, 8)], vec![tally(State::Scheduled, 7), tally(State::Dead, 1)]);
        assert_eq!((wrong.is_sound, wrong.unaccounted, wrong.misplaced), (false, 0, 2));
        assert_eq!(
            (differences(&missing), differences(&wrong)),
            ("1 unaccounted, 1 misplaced".into(), "2 misplaced".into())
        );
    }
}
