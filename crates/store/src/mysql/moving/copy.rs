//! Makes the copy of a partition like its original, piece by piece: pieces whose sums are equal are left alone, of the
//! others the rows that differ are copied. The same for the first copy, for what changed meanwhile, and for the rest
//! when the original is closed. Registry, moved places and long payloads go with the rows they belong to.

use super::{
    columns::{COLUMNS, FailureKind, INSERT},
    side::Side,
    work::{Piece, RowPosition, Short, Sum, difference},
};
use crate::{
    Error, chunks,
    mysql::{
        chunks::noted::{Note, OF_MOVED, write},
        hosted::HostedState,
        labels::declared::{declared, labels_of},
        lease_ends::{self, Ends},
        lookup,
        parameters::wanted,
        row,
        statements::{bind, sql},
    },
};
use punctual_domain::{name::QueueKey, place::TaskRef, state::State as TaskState, time::Millis};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlArguments, mysql::MySqlRow};
use std::collections::BTreeMap;

/// Rows of one piece.
pub(super) const PIECE_ROWS: i64 = 2_000;
/// Rows, and about how many bytes, of one transaction.
const COPIED_ROWS: usize = 500;
const COPIED_BYTES: i64 = 8 << 20;

/// Both places.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) term: i64,
}

/// The result of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) rows: u64,
    pub(super) copied: u64,
    /// Rows by namespace, queue, state code, at the original.
    pub(super) account: BTreeMap<(String, String, i8), (i64, i64)>,
}

impl Pair {
    /// The next piece of the original. `None` after the last one.
    pub(super) async fn next(&mut self, after: RowPosition) -> sqlx::Result<Option<Piece>> {
        if after == RowPosition::END {
            return Ok(None);
        }
        let number = row::partition_no(self.from.partition);
        let step = sqlx::query(sql!(moving, find_piece_end)).bind(number).bind(after.due_at);
        let step = step.bind(number).bind(after.due_at).bind(after.id).bind(PIECE_ROWS - 1);
        let upto = step.fetch_optional(&mut self.from.conn).await?;
        let upto = upto.as_ref().map_or(Ok(RowPosition::END), RowPosition::read)?;
        Ok(Some(Piece { after, upto }))
    }

    /// One piece. `is_closed`: no writer writes at the original, so the copy must be like it afterwards, and gets the
    /// entries by which ended leases are found.
    pub(super) async fn piece(
        &mut self,
        piece: Piece,
        is_closed: bool,
        round: &mut Round,
    ) -> Result<(), Error> {
        let (mut original, mut copy) = tokio::try_join!(self.from.sums(piece), self.to.sums(piece))?;
        if original != copy {
            round.copied += self.copy(piece).await?;
            if is_closed {
                (original, copy) = tokio::try_join!(self.from.sums(piece), self.to.sums(piece))?;
                if original != copy {
                    let (at, partition) = (self.to.address.to_string(), self.to.partition.0);
                    return Err(Error::CopyDiffers { at, partition });
                }
            }
        }
        if is_closed && original.iter().any(Sum::flies) {
            self.copy_leases(piece).await?;
        }
        for sum in original {
            round.rows += sum.tasks.unsigned_abs();
            let (tasks, bytes) = round.account.entry(sum.account).or_default();
            (*tasks, *bytes) = (*tasks + sum.tasks, *bytes + sum.bytes);
        }
        Ok(())
    }

    /// Copies a piece. Returns the number of inserted and removed rows.
    async fn copy(&mut self, piece: Piece) -> Result<u64, Error> {
        let (original, copy) = tokio::try_join!(shorts(&mut self.from, piece), shorts(&mut self.to, piece))?;
        let found = difference(&original, &copy);
        for part in found.gone.chunks(COPIED_ROWS) {
            self.remove(part).await?;
        }
        for part in portions(&found.new) {
            self.bring(part).await?;
        }
        Ok(u64::try_from(found.gone.len().max(found.new.len())).unwrap_or(u64::MAX))
    }

    /// Removes copies that differ from the original. What belongs to a task is removed only if the task is gone: if
    /// it only moved, its row is in another piece.
    async fn remove(&mut self, keys: &[RowPosition]) -> Result<(), Error> {
        let places = self.places(keys);
        let mut alive = vec![false; places.len()];
        for rows in
            sqlx::query(sql!(moving, list_alive)).bind(wanted(&places)).fetch_all(&mut self.from.conn).await?
        {
            if let Some(alive) = alive.get_mut(row::small::<usize>(&rows, 0)?) {
                *alive = true;
            }
        }
        let gone: Vec<TaskRef> =
            places.iter().zip(&alive).filter(|pair| !pair.1).map(|pair| *pair.0).collect();
        let mut tx = self.to.begin(HostedState::Arriving, self.term).await?;
        sqlx::query(sql!(moving, delete_copies)).bind(wanted(&places)).execute(&mut *tx).await?;
        if !gone.is_empty() {
            belongings_gone(&mut tx, &gone).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Rows as they stand now: of some that stood when they were compared there may be none any more.
    async fn bring(&mut self, part: &[Short]) -> Result<(), Error> {
        let keys: Vec<RowPosition> = part.iter().map(|short| short.key).collect();
        let places = self.places(&keys);
        let read = sqlx::query(sql!(moving, read_rows)).bind(wanted(&places));
        let rows = read.fetch_all(&mut self.from.conn).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let came: Vec<TaskRef> =
            rows.iter().map(|row| place(self.from.partition, row)).collect::<sqlx::Result<_>>()?;
        let mut tx = self.to.begin(HostedState::Arriving, self.term).await?;
        for (part, text) in INSERT.parts(&rows) {
            let mut values = MySqlArguments::default();
            for row in part {
                bind_row(&mut values, row)?;
            }
            sqlx::query_with(text, values).execute(&mut *tx).await?;
        }
        sqlx::query(sql!(moving, insert_entries)).bind(wanted(&came)).execute(&mut *tx).await?;
        for text in [
            sql!(moving, delete_moved_places),
            sql!(moving, delete_bodies),
            sql!(moving, insert_moved_places),
        ] {
            sqlx::query(text).bind(wanted(&came)).execute(&mut *tx).await?;
        }
        for (row, place) in rows.iter().zip(&came) {
            if let Some(body) = row.try_get::<Option<&[u8]>, _>(COLUMNS.len())? {
                let body = sqlx::query(sql!(insert, insert_body))
                    .bind(row::partition_no(place.partition))
                    .bind(place.id)
                    .bind(body);
                body.execute(&mut *tx).await?;
            }
        }
        enter(&mut tx, &rows, &came).await?;
        Ok(tx.commit().await?)
    }

    async fn copy_leases(&mut self, piece: Piece) -> Result<(), Error> {
        let partition = self.from.partition;
        let flying =
            piece.bind(sql!(moving, list_in_flight), partition).fetch_all(&mut self.from.conn).await?;
        let mut ends = Ends::default();
        for row in &flying {
            let key = RowPosition::read(row)?;
            let place = TaskRef { partition, due_at: Millis(key.due_at), id: key.id };
            ends.add(place, row.try_get(2)?, row::millis(row, 3)?);
        }
        let mut tx = self.to.begin(HostedState::Arriving, self.term).await?;
        lease_ends::keep(&mut tx, ends).await?;
        Ok(tx.commit().await?)
    }

    fn places(&self, keys: &[RowPosition]) -> Vec<TaskRef> {
        let place = |key: &RowPosition| TaskRef {
            partition: self.from.partition,
            due_at: Millis(key.due_at),
            id: key.id,
        };
        keys.iter().map(place).collect()
    }
}

/// Deletes the other rows of tasks that are gone.
async fn belongings_gone(conn: &mut MySqlConnection, gone: &[TaskRef]) -> sqlx::Result<()> {
    for text in [
        sql!(moving, delete_entries),
        sql!(moving, delete_moved_places),
        sql!(moving, delete_bodies),
        sql!(moving, delete_lookups),
    ] {
        sqlx::query(text).bind(wanted(gone)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Enters copied tasks in the lookups, by what this database has declared: their original may be further, or not as
/// far.
async fn enter(conn: &mut MySqlConnection, rows: &[MySqlRow], came: &[TaskRef]) -> sqlx::Result<()> {
    sqlx::query(sql!(moving, delete_lookups)).bind(wanted(came)).execute(&mut *conn).await?;
    // Held: what is declared meanwhile begins with the tasks that are here then.
    sqlx::query(sql!(settings, hold_pause_epoch)).fetch_one(&mut *conn).await?;
    let declared = declared(conn).await?;
    let column = |name: &str| COLUMNS.iter().position(|column| column.0 == name).unwrap_or(COLUMNS.len());
    let (state, labels) = (column("state"), column("labels"));
    let (mut entries, mut notes) = (lookup::Entries::default(), Vec::new());
    for (row, place) in rows.iter().zip(came) {
        let (namespace, queue): (&str, &str) = (row.try_get(3)?, row.try_get(6)?);
        let chunk = chunks::of(place.id);
        notes.push(Note::new([namespace, queue, row.try_get(column("kind"))?], chunk));
        notes.push(Note::new([namespace, "", ""], chunk));
        if row::state(row, state)? == TaskState::Dead {
            entries.dead(*place, namespace);
        }
        let is_of_queue = |queue_key: &QueueKey| {
            queue_key.namespace.as_str() == namespace && queue_key.queue.as_str() == queue
        };
        let keys: Vec<String> =
            declared.iter().filter(|pair| is_of_queue(&pair.0)).map(|pair| pair.1.clone()).collect();
        if !keys.is_empty() {
            entries.labels(*place, namespace, &keys, &labels_of(row, labels)?);
        }
    }
    entries.add(conn).await?;
    write(conn, OF_MOVED, notes).await
}

async fn shorts(side: &mut Side, piece: Piece) -> sqlx::Result<Vec<Short>> {
    let rows = piece.bind(sql!(moving, list_row_sums), side.partition).fetch_all(&mut side.conn).await?;
    rows.iter().map(Short::read).collect()
}

fn place(partition: punctual_domain::place::Partition, row: &MySqlRow) -> sqlx::Result<TaskRef> {
    Ok(TaskRef { partition, due_at: row::millis(row, 1)?, id: row.try_get(2)? })
}

/// Rows that are copied with one transaction.
fn portions(rows: &[Short]) -> Vec<&[Short]> {
    let mut portions = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |short: &&Short| {
            bytes += short.bytes;
            bytes <= COPIED_BYTES
        };
        let count = rest.iter().take(COPIED_ROWS).take_while(fits).count().max(1);
        let (portion, others) = rest.split_at(count);
        portions.push(portion);
        rest = others;
    }
    portions
}

/// The columns of a row as they are.
fn bind_row(values: &mut MySqlArguments, row: &MySqlRow) -> sqlx::Result<()> {
    for (nth, (_, kind)) in COLUMNS.iter().enumerate() {
        match kind {
            FailureKind::Int => bind!(values, row.try_get::<Option<i64>, _>(nth)?),
            FailureKind::Text => bind!(values, row.try_get::<Option<&str>, _>(nth)?),
            FailureKind::Bytes => bind!(values, row.try_get::<Option<&[u8]>, _>(nth)?),
        }
    }
    Ok(())
}
