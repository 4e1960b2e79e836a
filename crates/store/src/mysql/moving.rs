//! Moves a partition from one database to another while tasks flow. The steps, and what a mover that is killed after each
//! leaves (docs/decisions/0008-moving-partitions.md says why):
//!
//! | step | the catalog says | old place | new place | after a kill |
//! |---|---|---|---|---|
//! | 1 recorded | copying | open | arriving | continues when it is run again, or is undone |
//! | 2 copied, again and again until little differs | copying | open | arriving | as 1 |
//! | 3 announced | closing, for ten seconds | open | arriving | engines go back to copying |
//! | 4 closed: writers end, then wait | closing | closed | arriving | engines open it again at the old place within ten seconds |
//! | 5 compared, the rest copied, accounts entered | closing | closed | arriving | as 4 |
//! | 6 **decided**: placement says the new place | decided | closed | arriving | engines let it take effect, at once |
//! | 7 left: the account goes | decided | left | arriving | as 6 |
//! | 8 opened: the account comes | decided | left | open | as 6 |
//! | 9 old rows deleted, in batches | cleaning | left | open | continues when it is run again |
//!
//! No engine writes at two places: a transaction holds its partition in `hosted`, shared, until it commits, so
//! closing waits for it, and after that the database refuses an engine that did not learn of it. A mover that was
//! superseded is refused by its term.

mod columns;
mod copy;
mod replies;
mod side;
pub(super) mod steps;
mod work;

use super::{
    hosted::HostedState,
    pauses,
    repair::tidy::tidy_copy,
    row,
    session::{DatabaseAddress, Known},
    shards::placement,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{elsewhere, lasting},
};
use crate::Error;
use copy::{Pair, Round};
use futures_util::future::BoxFuture;
use punctual_domain::place::Partition;
use side::Side;
use sqlx::{MySqlConnection, Row as _};
use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};
use steps::{RelocationStep, Row};
use tokio::time::{Instant, sleep};
use work::RowPosition;

/// The time for which a partition stays closed when no mover renews the closing any more, in milliseconds.
const CLOSED_MS: i64 = 10_000;
/// The interval of that renewal.
const SAID_AGAIN: Duration = Duration::from_secs(2);
/// Transactions under way may keep a partition from being closed so many times, for a second each time.
const CLOSE_TRIES: u32 = 30;
const CLOSE_AGAIN: Duration = Duration::from_millis(500);
/// Rounds of copying before the partition is closed: as many as make the difference smaller.
const ROUNDS_MAX: u32 = 8;
/// So few rows are copied while it is closed.
const FEW_ROWS: u64 = 500;
/// Rows of one deletion.
const DELETED_ROWS: i64 = 500;

/// The step of a mover. After each it may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveStep {
    Recorded,
    /// Some rows of a round; the first round copies all.
    Copying,
    Tidied,
    Announced,
    Closed,
    /// Some rows, while it is closed.
    Comparing,
    Entered,
    Decided,
    Left,
    Opened,
    /// Some rows at the old place, or the copies of a move that is undone.
    Deleting,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub struct MoveProgress {
    pub partition: Partition,
    pub step: MoveStep,
    /// The number of the round, from 1.
    pub round: u32,
    /// The number of rows that were read in this round, or deleted.
    pub rows: u64,
    /// Of these, the number of rows that were copied.
    pub copied: u64,
}

/// A move that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub partition: Partition,
    pub from: usize,
    pub to: usize,
    /// Tasks that moved; of a move that an earlier mover had decided, 0.
    pub tasks: u64,
    /// Rows that were copied, some of them more than once.
    pub copied: u64,
    /// Of these, the number of rows that were copied while the partition was closed.
    pub copied_closed: u64,
    pub rounds: u32,
    /// The time for which no engine could write in the partition.
    pub closed_for: Duration,
}

/// Called with the mover's stage; `Break` ends it there, as if it were killed.
type Progress<'p> = &'p mut (dyn FnMut(&MoveProgress) -> ControlFlow<()> + Send);

impl MysqlStore {
    /// Moves a partition to a database of the cluster, or continues with a move that was begun. `None` if it is
    /// there.
    ///
    /// # Errors
    /// When an engine could not follow, another move of the partition is not over, or a database fails. The partition
    /// is then open where it was, or is where it should be: run it again.
    pub fn move_partition<'a>(
        &'a self,
        partition: Partition,
        to: usize,
        progress: Progress<'a>,
    ) -> BoxFuture<'a, Result<Option<Moved>, Error>> {
        Box::pin(async move {
            let mover = async { Mover::start(&self.inner, partition, progress).await?.go(to).await };
            lasting(Box::pin(mover)).await
        })
    }

    /// Takes back a move that is not decided: the partition stays where it was, and the copies are deleted.
    ///
    /// # Errors
    /// When there is no such move, or it is decided.
    pub fn undo_move<'a>(
        &'a self,
        partition: Partition,
        progress: Progress<'a>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mover = async { Mover::start(&self.inner, partition, progress).await?.undo().await };
            lasting(Box::pin(mover)).await
        })
    }
}

impl MySqlState {
    pub(super) fn address(&self, shard: usize) -> Result<&DatabaseAddress, Error> {
        steps::address(&self.addresses, shard)
    }
}

struct Mover<'i, 'p> {
    inner: &'i MySqlState,
    partition: Partition,
    /// Has the lock of movers.
    catalog: MySqlConnection,
    progress: Progress<'p>,
    said: MoveProgress,
    began: Instant,
}

impl<'i, 'p> Mover<'i, 'p> {
    async fn start(
        inner: &'i MySqlState,
        partition: Partition,
        progress: Progress<'p>,
    ) -> Result<Self, Error> {
        let partitions = inner.cluster.partitions;
        if partition.0 >= partitions {
            return Err(Error::NoPartition { partition: partition.0, partitions });
        }
        let catalog = alone(inner.address(0)?).await?.conn;
        let said = MoveProgress { partition, step: MoveStep::Recorded, round: 0, rows: 0, copied: 0 };
        Ok(Self { inner, partition, catalog, progress, said, began: Instant::now() })
    }

    fn say(&mut self, step: MoveStep) -> Result<(), Error> {
        self.said.step = step;
        match (self.progress)(&self.said) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::MoverStopped { after: format!("{step:?}") }),
        }
    }

    /// The move of this partition that is not over.
    async fn existing(&mut self) -> Result<Option<Row>, Error> {
        Ok(steps::list(&mut self.catalog).await?.into_iter().find(|row| row.partition == self.partition))
    }

    async fn go(mut self, to: usize) -> Result<Option<Moved>, Error> {
        let (version, members) = placement::version(&mut self.catalog).await?;
        if to >= members || to >= self.inner.addresses.len() {
            return Err(Error::NoShard { shard: to, members });
        }
        let placement = placement::read(&mut self.catalog, version, members).await?;
        let from = placement.ok_or(Error::NoCluster)?.shard_of(self.partition);
        let mut row = match self.existing().await? {
            Some(row) if row.to != to || row.step == RelocationStep::Undoing => {
                return Err(Error::OtherMove { partition: self.partition.0, from: row.from, to: row.to });
            }
            Some(row) => row,
            None if from == to => return Ok(None),
            None => {
                self.all_can_follow(to).await?;
                // What is paused stays so at the new place.
                elsewhere(pauses::spread(&self.inner.addresses)).await?;
                steps::begin(&mut self.catalog, self.partition, from, to).await?
            }
        };
        let mut moved = Moved {
            partition: self.partition,
            from: row.from,
            to,
            tasks: 0,
            copied: 0,
            copied_closed: 0,
            rounds: 0,
            closed_for: Duration::ZERO,
        };
        if matches!(row.step, RelocationStep::Copying | RelocationStep::Closing) {
            self.all_can_follow(to).await?;
            self.bring_over(&mut row, &mut moved).await?;
        }
        if row.step == RelocationStep::Decided {
            row.apply(&self.inner.addresses).await?;
            self.advance_to(&mut row, RelocationStep::Cleaning).await?;
        }
        self.clean(row, HostedState::Left, row.from).await?;
        self.inner.routing.read(&self.inner.catalog, &self.inner.addresses).await?;
        Ok(Some(moved))
    }

    /// Checks that every live engine knows the database: otherwise it could not follow.
    async fn all_can_follow(&mut self, to: usize) -> Result<(), Error> {
        // Engines of before say that they name none.
        let behind = sqlx::query(sql!(moving, list_outdated_engines)).bind(steps::number(to) + 1);
        let behind = behind.fetch_all(&mut self.catalog).await?;
        if behind.is_empty() {
            return Ok(());
        }
        let engine = |row: &sqlx::mysql::MySqlRow| {
            Ok(format!("{} names {}", row.try_get::<String, _>(0)?, row.try_get::<i64, _>(1)?))
        };
        let engines: Vec<String> = behind.iter().map(engine).collect::<sqlx::Result<_>>()?;
        Err(Error::EnginesBehind { engines: engines.join(", ") })
    }

    /// Advances to another step under a new term. Fails if another mover continued; the caller then reads the move
    /// again.
    async fn advance_to(&mut self, row: &mut Row, step: RelocationStep) -> Result<(), Error> {
        let term = steps::new_term(&mut self.catalog).await?;
        if row.advance_to(&mut self.catalog, step, term).await? {
            return Ok(());
        }
        match self.existing().await? {
            // An engine was faster.
            Some(found) if found.step == step => {
                *row = found;
                if row.advance_to(&mut self.catalog, step, term).await? {
                    Ok(())
                } else {
                    Err(self.superseded())
                }
            }
            _ => Err(self.superseded()),
        }
    }

    fn superseded(&self) -> Error {
        Error::NewerTerm { partition: self.partition.0 }
    }

    /// Runs the move from the first copy to the opening at the new place.
    async fn bring_over(&mut self, row: &mut Row, moved: &mut Moved) -> Result<(), Error> {
        self.advance_to(row, RelocationStep::Copying).await?;
        let mut from = Side::alone(self.inner.address(row.from)?, self.partition).await?;
        let mut to = Side::alone(self.inner.address(row.to)?, self.partition).await?;
        if from.mark(sql!(hosted, take_over), row.term).await? != 1 {
            return Err(self.superseded());
        }
        let arrive = sqlx::query(sql!(hosted, begin_arrival)).bind(row::partition_no(self.partition));
        arrive.bind(row.term).execute(&mut to.conn).await?;
        self.say(MoveStep::Recorded)?;
        let mut pair = Pair { from, to, term: row.term };
        self.copy_open(&mut pair, moved).await?;
        let closed = match self.close_and_decide(&mut pair, row, moved).await {
            Ok(closed) => closed,
            Err(stopped @ Error::MoverStopped { .. }) => return Err(stopped),
            Err(error) => {
                self.back(row).await?;
                return Err(error);
            }
        };
        let addresses = &self.inner.addresses;
        row.account(addresses, row.from, (HostedState::Closed, HostedState::Left), -1).await?;
        self.say(MoveStep::Left)?;
        row.account(&self.inner.addresses, row.to, (HostedState::Arriving, HostedState::Open), 1).await?;
        moved.closed_for = closed.elapsed();
        self.say(MoveStep::Opened)?;
        pair.from.free().await;
        pair.to.free().await;
        self.advance_to(row, RelocationStep::Cleaning).await
    }

    /// Answers since when no engine can write.
    async fn close_and_decide(
        &mut self,
        pair: &mut Pair,
        row: &mut Row,
        moved: &mut Moved,
    ) -> Result<Instant, Error> {
        self.close(pair, row).await?;
        let closed = Instant::now();
        self.finish(pair, row, moved).await?;
        Ok(closed)
    }

    /// Rounds, until little differs or rounds do not help.
    async fn copy_open(&mut self, pair: &mut Pair, moved: &mut Moved) -> Result<(), Error> {
        let mut before = u64::MAX;
        for round in 1..=ROUNDS_MAX {
            self.said.round = round;
            moved.rounds = round;
            let copied = self.round(pair, None).await?.copied;
            replies::copy(pair, self.inner.cluster.partitions).await?;
            moved.copied += copied;
            if copied <= FEW_ROWS || (round > 1 && copied > before / 2) {
                break;
            }
            before = copied;
        }
        let (conn, term) = (&mut pair.to.conn, pair.term);
        tidy_copy(conn, self.partition, term).await?;
        self.say(MoveStep::Tidied)
    }

    /// Copies all pieces. With the record, the original is closed, and is kept closed.
    async fn round(&mut self, pair: &mut Pair, mut closed: Option<&mut Row>) -> Result<Round, Error> {
        let step = if closed.is_some() { MoveStep::Comparing } else { MoveStep::Copying };
        let (mut round, mut after) = (Round::default(), RowPosition::START);
        let mut said_at = Instant::now();
        while let Some(piece) = pair.next(after).await? {
            pair.piece(piece, closed.is_some(), &mut round).await?;
            after = piece.upto;
            (self.said.rows, self.said.copied) = (round.rows, round.copied);
            self.say(step)?;
            if let Some(row) = closed.as_deref_mut().filter(|_| said_at.elapsed() > SAID_AGAIN) {
                row.keep_closed(&mut self.catalog, CLOSED_MS).await?;
                said_at = Instant::now();
            }
        }
        Ok(round)
    }

    async fn close(&mut self, pair: &mut Pair, row: &mut Row) -> Result<(), Error> {
        for _ in 0..CLOSE_TRIES {
            row.keep_closed(&mut self.catalog, CLOSED_MS).await?;
            self.say(MoveStep::Announced)?;
            if pair.from.close(row.term).await? {
                return self.say(MoveStep::Closed);
            }
            let term = row.term;
            if !row.advance_to(&mut self.catalog, RelocationStep::Copying, term).await? {
                return Err(self.superseded());
            }
            elsewhere(sleep(CLOSE_AGAIN)).await;
        }
        Err(Error::NeverQuiet { at: pair.from.address.to_string(), partition: self.partition.0 })
    }

    /// Finishes the move while no writer writes, up to the decision.
    async fn finish(&mut self, pair: &mut Pair, row: &mut Row, moved: &mut Moved) -> Result<(), Error> {
        let round = self.round(pair, Some(row)).await?;
        replies::copy(pair, self.inner.cluster.partitions).await?;
        (moved.copied_closed, moved.copied) = (round.copied, moved.copied + round.copied);
        moved.tasks = round.rows;
        pair.from.enter((HostedState::Closed, row.term), &round.account).await?;
        pair.to.enter((HostedState::Arriving, row.term), &round.account).await?;
        self.say(MoveStep::Entered)?;
        if !(pair.from.is_alone().await? && pair.to.is_alone().await?) {
            return Err(self.superseded());
        }
        row.decide(&mut self.catalog).await?;
        self.say(MoveStep::Decided)
    }

    /// Gives up what was closed, unless it is decided all the same: the answer to the decision may have been lost.
    async fn back(&mut self, row: &mut Row) -> Result<(), Error> {
        if row.step == RelocationStep::Closing {
            let term = steps::new_term(&mut self.catalog).await?;
            if row.advance_to(&mut self.catalog, RelocationStep::Copying, term).await? {
                row.reopen(&self.inner.addresses).await?;
            }
        }
        Ok(())
    }

    async fn undo(mut self) -> Result<(), Error> {
        let Some(mut row) = self.existing().await? else {
            return Err(Error::NoMove { partition: self.partition.0 });
        };
        if matches!(row.step, RelocationStep::Decided | RelocationStep::Cleaning) {
            return Err(Error::TooLateToUndo { partition: self.partition.0 });
        }
        self.advance_to(&mut row, RelocationStep::Undoing).await?;
        row.reopen(&self.inner.addresses).await?;
        self.clean(row, HostedState::Arriving, row.to).await
    }

    /// Deletes what a partition left at a place, and removes the record of the move.
    async fn clean(&mut self, row: Row, state: HostedState, shard: usize) -> Result<(), Error> {
        let mut row = row;
        let step = row.step;
        self.advance_to(&mut row, step).await?;
        let mut side = Side::alone(self.inner.address(shard)?, self.partition).await?;
        let text = if state == HostedState::Left {
            sql!(hosted, take_over_remains)
        } else {
            sql!(hosted, take_over_copy)
        };
        if side.mark(text, row.term).await? == 1 {
            replies::empty(&mut side, (state, row.term), self.inner.cluster.partitions).await?;
            (self.said.rows, self.said.copied) = (0, 0);
            let deleted = |rows| {
                self.said.rows += rows;
                self.say(MoveStep::Deleting)
            };
            side.empty(state, &row, DELETED_ROWS, deleted).await?;
            side.forget(state, row.term).await?;
        }
        side.free().await;
        row.end(&mut self.catalog).await?;
        tracing::info!(
            partition = self.partition.0,
            shard,
            took_ms = self.began.elapsed().as_millis(),
            "what a partition left behind is deleted"
        );
        self.say(MoveStep::Over)
    }
}

/// Partitions whose moves are not over.
pub(super) async fn underway(inner: &MySqlState) -> Result<BTreeSet<Partition>, Error> {
    // Within the limit of a caller that asks.
    let rows = steps::list(&mut *inner.catalog.acquire().await?).await?;
    Ok(rows.into_iter().map(|row| row.partition).collect())
}

/// A connection with the lock of movers.
pub(super) async fn alone(address: &DatabaseAddress) -> Result<Known, Error> {
    let mut known = address.own().await.map_err(|error| address.failed(error))?;
    let alone = sqlx::query_scalar(sql!(moving, lock_moves)).fetch_one(&mut known.conn);
    let alone: Option<i64> = alone.await?;
    if alone == Some(1) {
        return Ok(known);
    }
    known.close().await;
    Err(Error::MoverBusy)
}
