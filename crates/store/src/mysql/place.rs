//! Finds rows where they are now. A place is tried by its hint first, then by `moved`; rows are named to a statement
//! as one JSON parameter, so that any number of them is one text and an exact look-up each, however many others are
//! due at the same instant. Must not change a task, only where its row is.

use super::{
    lease_ends,
    parameters::{ROWS_MAX, wanted},
    row,
    statements::sql,
    trips::{FirstRead, Trips},
};
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::collections::HashMap;

/// The maximum number of tries to follow a row that moves during the look-up. More than two are never needed in
/// practice: between two tries another transaction must have moved it and committed.
const TRIES: usize = 4;

/// The rows that a statement found at the places: first its column 0, the index of the place, and column 1, `due_at`.
#[derive(Debug)]
pub(crate) struct PlacedRows {
    /// The rows in the order of the places.
    pub(crate) rows: Vec<Option<Spotted>>,
    /// Some were read without a lock.
    pub(crate) are_unlocked: bool,
}

#[derive(Debug)]
pub(crate) struct Spotted {
    /// The place of the row.
    pub(crate) place: TaskRef,
    pub(crate) row: MySqlRow,
}

/// Runs a statement over places, each of a different task, and again where rows have moved.
pub(crate) async fn find(
    conn: &mut MySqlConnection,
    text: &'static str,
    places: &[TaskRef],
) -> sqlx::Result<PlacedRows> {
    find_ahead(conn, &mut Trips::default(), text, places).await
}

/// The same, where the transaction may have begun with it.
pub(crate) async fn find_ahead(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    text: &'static str,
    places: &[TaskRef],
) -> sqlx::Result<PlacedRows> {
    let mut found = PlacedRows { rows: places.iter().map(|_| None).collect(), are_unlocked: false };
    // In the order of the key, so that transactions lock in the same order.
    let mut left: Vec<(TaskRef, usize)> = places.iter().copied().zip(0..).collect();
    for _ in 0..TRIES {
        left.sort_unstable();
        for part in left.chunks(ROWS_MAX) {
            look(conn, trips, text, part, &mut found).await?;
        }
        left.retain(|pair| found.is_missing(pair.1));
        if left.is_empty() {
            break;
        }
        left = elsewhere(conn, &left).await?;
    }
    Ok(found)
}

impl PlacedRows {
    fn is_missing(&self, nth: usize) -> bool {
        self.rows.get(nth).is_some_and(Option::is_none)
    }
}

async fn look(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    text: &'static str,
    part: &[(TaskRef, usize)],
    found: &mut PlacedRows,
) -> sqlx::Result<()> {
    let places: Vec<TaskRef> = part.iter().map(|pair| pair.0).collect();
    let (rows, numbers) = match trips.found(text, &places) {
        Some(FirstRead::Locked(rows)) => (rows, None),
        Some(FirstRead::Unlocked(rows)) => (rows, Some(numbers(&places))),
        None => (sqlx::query(text).bind(wanted(&places)).fetch_all(conn).await?, None),
    };
    found.are_unlocked |= numbers.is_some();
    for row in rows {
        let (first, due_at): (i64, _) = (row.try_get(0)?, row::millis(&row, 1)?);
        let at = match &numbers {
            Some(numbers) => numbers.get(&first).copied(),
            None => usize::try_from(first).ok(),
        };
        let Some((place, nth)) = at.and_then(|number| part.get(number)) else { continue };
        if let Some(slot) = found.rows.get_mut(*nth) {
            *slot = Some(Spotted { place: TaskRef { due_at, ..*place }, row });
        }
    }
    Ok(())
}

/// The indexes of the places by their ids, of different tasks.
fn numbers(places: &[TaskRef]) -> HashMap<i64, usize> {
    places.iter().map(|place| place.id).zip(0..).collect()
}

/// Returns the places of the rows that have moved from where they were looked up.
async fn elsewhere(
    conn: &mut MySqlConnection,
    left: &[(TaskRef, usize)],
) -> sqlx::Result<Vec<(TaskRef, usize)>> {
    let mut places = Vec::new();
    for part in left.chunks(ROWS_MAX) {
        let tried: Vec<TaskRef> = part.iter().map(|pair| pair.0).collect();
        for row in
            sqlx::query(sql!(moves, read_moved_places)).bind(wanted(&tried)).fetch_all(&mut *conn).await?
        {
            let (at, due_at) = (row::small::<usize>(&row, 0)?, row::millis(&row, 1)?);
            let other = part.get(at).filter(|part| part.0.due_at != due_at);
            places.extend(other.map(|(place, nth)| (TaskRef { due_at, ..*place }, *nth)));
        }
    }
    Ok(places)
}

/// Records the places of tasks, in the transaction that moves them there.
pub(crate) async fn keep(conn: &mut MySqlConnection, places: &mut [TaskRef]) -> sqlx::Result<()> {
    places.sort_unstable_by_key(|place| (place.partition, place.id));
    for part in places.chunks(ROWS_MAX) {
        sqlx::query(sql!(moves, save_places)).bind(wanted(part)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Moves rows to another time and changes nothing else of them, whatever their state: their references find them
/// there, and so does a search for ended leases. They are locked, and are where `places` states.
pub(crate) async fn carry(conn: &mut MySqlConnection, places: &[TaskRef], to: Millis) -> sqlx::Result<()> {
    for part in places.chunks(ROWS_MAX) {
        sqlx::query(sql!(moves, move_in_time)).bind(wanted(part)).bind(to.0).execute(&mut *conn).await?;
    }
    let mut carried: Vec<TaskRef> = places.iter().map(|place| TaskRef { due_at: to, ..*place }).collect();
    lease_ends::watch(conn, &carried).await?;
    keep(conn, &mut carried).await
}

/// Numbers of items in rounds: no task twice in one round, and each task's items in their order.
pub(crate) fn rounds(ids: impl ExactSizeIterator<Item = i64>) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::with_capacity(1);
    let mut seen = hashbrown::HashMap::with_capacity(ids.len());
    for (nth, id) in ids.enumerate() {
        let round: &mut usize = seen.entry(id).and_modify(|number| *number += 1).or_default();
        match rounds.get_mut(*round) {
            Some(round) => round.push(nth),
            None => rounds.push(vec![nth]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_stands_in_each_round_at_most_once_and_its_items_keep_their_order() {
        assert_eq!(rounds([7, 8, 7, 9, 7, 8].into_iter()), [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert_eq!(rounds([].into_iter()), Vec::<Vec<usize>>::new());
    }
}
