//! The record of moves in the catalog, and the marks of partitions in both databases: one guarded statement or one short
//! transaction for each step, so that a late engine finds that others continued. Terms only grow.

use crate::{
    Error,
    mysql::{
        connections::Connections,
        hosted::HostedState,
        ids::counted_by,
        row,
        session::DatabaseAddress,
        shards::placement::MOVE_TERM,
        statements::sql,
        timeouts::{READ, WRITE, on_its_own, within},
    },
};
use punctual_domain::place::Partition;
use sqlx::{Connection as _, MySqlConnection, Row as _, mysql::MySqlRow};

/// A step in table `partition_move`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum RelocationStep {
    Copying = 1,
    Closing = 2,
    Decided = 3,
    Cleaning = 4,
    Undoing = 5,
}

impl RelocationStep {
    const ALL: [Self; 5] = [Self::Copying, Self::Closing, Self::Decided, Self::Cleaning, Self::Undoing];
}

/// A move that is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) partition: Partition,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) step: RelocationStep,
    pub(crate) term: i64,
    /// True if no mover keeps the partition closed any longer.
    pub(crate) is_overdue: bool,
}

pub(crate) async fn list(catalog: &mut MySqlConnection) -> sqlx::Result<Vec<Row>> {
    let rows = sqlx::query(sql!(moving, list)).fetch_all(catalog).await?;
    rows.iter().map(read).collect()
}

fn read(row: &MySqlRow) -> sqlx::Result<Row> {
    let step: i8 = row.try_get(3)?;
    let known = RelocationStep::ALL.into_iter().find(|known| *known as i8 == step);
    Ok(Row {
        partition: row::partition(row, 0)?,
        from: row::small(row, 1)?,
        to: row::small(row, 2)?,
        step: known.ok_or_else(|| row::odd(3, format!("{step} is no step of a move")))?,
        term: row.try_get(4)?,
        is_overdue: row.try_get::<i64, _>(5)? == 1,
    })
}

pub(crate) async fn new_term(catalog: &mut MySqlConnection) -> sqlx::Result<i64> {
    counted_by(catalog, MOVE_TERM, 1).await
}

pub(crate) async fn begin(
    catalog: &mut MySqlConnection,
    partition: Partition,
    from: usize,
    to: usize,
) -> sqlx::Result<Row> {
    let term = new_term(catalog).await?;
    let begin = sqlx::query(sql!(moving, begin)).bind(row::partition_no(partition));
    begin.bind(number(from)).bind(number(to)).bind(term).execute(catalog).await?;
    Ok(Row { partition, from, to, step: RelocationStep::Copying, term, is_overdue: true })
}

pub(super) fn number(shard: usize) -> i64 {
    i64::try_from(shard).unwrap_or(i64::MAX)
}

impl Row {
    /// Advances from this step to another one. Returns false if another mover continued.
    pub(crate) async fn advance_to(
        &mut self,
        catalog: &mut MySqlConnection,
        step: RelocationStep,
        term: i64,
    ) -> sqlx::Result<bool> {
        let advance_to = sqlx::query(sql!(moving, set_step)).bind(term).bind(step as i8);
        let advance_to =
            advance_to.bind(row::partition_no(self.partition)).bind(self.term).bind(self.step as i8);
        let turned = advance_to.execute(catalog).await?.rows_affected() == 1;
        if turned {
            (self.step, self.term) = (step, term);
        }
        Ok(turned)
    }

    /// The old place may be closed for so long, from now.
    pub(crate) async fn keep_closed(
        &mut self,
        catalog: &mut MySqlConnection,
        for_ms: i64,
    ) -> Result<(), Error> {
        let closing = sqlx::query(sql!(moving, extend_closing)).bind(for_ms);
        let closing = closing.bind(row::partition_no(self.partition)).bind(self.term);
        if closing.execute(catalog).await?.rows_affected() != 1 {
            return Err(Error::NewerTerm { partition: self.partition.0 });
        }
        self.step = RelocationStep::Closing;
        Ok(())
    }

    /// The one step without return: the placement has the new place.
    pub(crate) async fn decide(&mut self, catalog: &mut MySqlConnection) -> Result<(), Error> {
        let mut tx = catalog.begin().await?;
        let mut decided = *self;
        if !decided.advance_to(&mut tx, RelocationStep::Decided, self.term).await? {
            return Err(Error::NewerTerm { partition: self.partition.0 });
        }
        let place = sqlx::query(sql!(moving, set_placement)).bind(number(self.to));
        place.bind(row::partition_no(self.partition)).execute(&mut *tx).await?;
        sqlx::query(sql!(shards, take_numbers)).bind(1_i64).bind("placement").execute(&mut *tx).await?;
        tx.commit().await?;
        *self = decided;
        Ok(())
    }

    pub(crate) async fn end(&self, catalog: &mut MySqlConnection) -> sqlx::Result<()> {
        let end = sqlx::query(sql!(moving, end)).bind(row::partition_no(self.partition));
        end.bind(self.step as i8).bind(self.term).execute(catalog).await.map(drop)
    }

    /// A move that is decided takes effect in both databases: first it is no longer at the old place, then it is at the
    /// new one. Each is one transaction that finds out whether it was done already.
    pub(crate) async fn apply(&self, addresses: &[DatabaseAddress]) -> Result<(), Error> {
        self.account(addresses, self.from, (HostedState::Closed, HostedState::Left), -1).await?;
        self.account(addresses, self.to, (HostedState::Arriving, HostedState::Open), 1).await
    }

    pub(crate) async fn account(
        &self,
        addresses: &[DatabaseAddress],
        shard: usize,
        (from, to): (HostedState, HostedState),
        sign: i64,
    ) -> Result<(), Error> {
        on_its_own(WRITE, address(addresses, shard)?, async |conn| {
            self.turn_over(conn, (from, to), sign).await
        })
        .await
    }

    async fn turn_over(
        &self,
        conn: &mut MySqlConnection,
        (from, to): (HostedState, HostedState),
        sign: i64,
    ) -> Result<(), Error> {
        let partition = row::partition_no(self.partition);
        let mut tx = conn.begin().await?;
        if guard(&mut tx, self.partition, from, self.term).await? {
            let books = sqlx::query(sql!(moving, add_taken_books)).bind(sign).bind(sign).bind(partition);
            books.execute(&mut *tx).await?;
            sqlx::query(sql!(moving, add_taken_counters))
                .bind(sign)
                .bind(partition)
                .execute(&mut *tx)
                .await?;
            sqlx::query(sql!(moving, delete_taken_along)).bind(partition).execute(&mut *tx).await?;
            if to == HostedState::Open {
                // What the old place archived, readers here must find.
                sqlx::query(sql!(dropped_buckets, bump_archive_generation)).execute(&mut *tx).await?;
            }
            sqlx::query(sql!(hosted, set_state)).bind(to as i8).bind(partition).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Opens the partition at its old place, if an earlier mover closed it.
    pub(crate) async fn reopen(&self, addresses: &[DatabaseAddress]) -> Result<(), Error> {
        on_its_own(WRITE, address(addresses, self.from)?, async |conn| {
            let reopen = sqlx::query(sql!(hosted, reopen)).bind(self.term);
            let partition = row::partition_no(self.partition);
            reopen.bind(partition).bind(self.term).execute(conn).await?;
            Ok(())
        })
        .await
    }
}

pub(crate) fn address(addresses: &[DatabaseAddress], shard: usize) -> Result<&DatabaseAddress, Error> {
    addresses.get(shard).ok_or(Error::NoShard { shard, members: addresses.len() })
}

/// Checks the mover at the beginning of its transaction. Returns false if it has nothing to do here any more.
pub(crate) async fn guard(
    conn: &mut MySqlConnection,
    partition: Partition,
    state: HostedState,
    term: i64,
) -> sqlx::Result<bool> {
    let guard = sqlx::query(sql!(hosted, lock_for_move)).bind(row::partition_no(partition));
    Ok(guard.bind(state as i8).bind(term).fetch_optional(conn).await?.is_some())
}

/// The repairs of engines for moves whose mover has died. They are harmless while it lives.
///
/// | the catalog says | what is done |
/// |---|---|
/// | closing, and no mover kept it closed | back to copying, under a new term; then open at the old place |
/// | copying, with the old place closed by an earlier mover | open at the old place |
/// | decided | it takes effect |
pub(crate) async fn mend(catalog: &Connections, addresses: &[DatabaseAddress]) -> Result<(), Error> {
    let moves = within(READ, async { list(&mut *catalog.acquire().await?).await }).await?;
    if moves.is_empty() {
        return Ok(());
    }
    for mut row in moves {
        match row.step {
            RelocationStep::Closing if row.is_overdue => {
                let (term, is_ours) = on_its_own(WRITE, catalog.address(), async |conn| {
                    let term = new_term(conn).await?;
                    let overdue = sqlx::query(sql!(moving, reopen_overdue)).bind(term);
                    let overdue = overdue.bind(row::partition_no(row.partition)).bind(row.term);
                    Ok::<_, Error>((term, overdue.execute(conn).await?.rows_affected() == 1))
                })
                .await?;
                if is_ours {
                    let partition = row.partition.0;
                    tracing::warn!(partition, "a mover left a partition closed; it is opened where it was");
                    row.term = term;
                    row.reopen(addresses).await?;
                }
            }
            RelocationStep::Copying => row.reopen(addresses).await?,
            RelocationStep::Decided => {
                row.apply(addresses).await?;
                let term = row.term;
                on_its_own(WRITE, catalog.address(), async |conn| {
                    row.advance_to(conn, RelocationStep::Cleaning, term).await
                })
                .await?;
            }
            RelocationStep::Closing | RelocationStep::Cleaning | RelocationStep::Undoing => {}
        }
    }
    Ok(())
}
