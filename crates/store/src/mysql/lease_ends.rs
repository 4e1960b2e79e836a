//! Leases by their end. Each hand-over writes the ends of its leases as one row, a batch; a search for ended leases
//! reads the batches whose time has come and checks the tasks themselves. So `task` needs no index for leases, and a
//! heartbeat costs nothing here. A batch is only a hint: a superfluous entry costs a read, and no entry may ever be
//! missing for a task in flight. Must not change a task.

use super::{
    alike,
    parameters::wanted,
    query::{self, Hold},
    row,
    statements::{Many, bind, sql},
    trips::{Literal, Trips},
};
use crate::subject::filled;
use punctual_domain::{
    place::{Partition, TaskRef},
    task::Task,
    time::Millis,
};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _, mysql::MySqlArguments};
use std::collections::HashMap;

static INSERT_BATCHES: Many = Many::new(sql!(lease, insert_batches));

/// The maximum difference of the ends of one batch, in milliseconds: the batch is read when the first lease ends, and
/// later ends are written again.
const SPREAD_MS: i64 = 1_000;
const ENTRIES_MAX: usize = 1_000;
/// The number of batches of one page, and the maximum number of entries that one call reads.
const PAGE: i64 = 100;
const LOOKS_MAX: usize = 20_000;

/// A lease, as a batch has it: its end, where the row of the task is, and the fence that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LeaseEnd {
    until: Millis,
    place: TaskRef,
    fence: i64,
}

/// Ends of leases that are to be written.
#[derive(Debug, Default)]
pub(crate) struct Ends(Vec<LeaseEnd>);

impl Ends {
    pub(crate) fn add(&mut self, place: TaskRef, fence: i64, until: Millis) {
        self.0.push(LeaseEnd { until, place, fence });
    }

    /// The ends in order, divided into batches.
    fn batches(&mut self) -> Vec<&[LeaseEnd]> {
        self.0.sort_unstable();
        let mut batches = Vec::new();
        let mut rest = self.0.as_slice();
        while let Some(first) = rest.first() {
            let near = rest.partition_point(|entry| entry.until.since(first.until) <= SPREAD_MS);
            let (batch, others) = rest.split_at(near.min(ENTRIES_MAX));
            batches.push(batch);
            rest = others;
        }
        batches
    }
}

/// Writes the ends in the transaction that gives the leases, along with its commit.
pub(crate) fn keep_at_last(trips: &mut Trips, mut ends: Ends) {
    for (part, text) in INSERT_BATCHES.parts(&ends.batches()) {
        let entries: Vec<_> = part
            .iter()
            .map(|entries| (entries.first().map_or(0, |entry| entry.until.0), encoded(entries)))
            .collect();
        let values: Vec<_> =
            entries.iter().flat_map(|pair| [Literal::Int(pair.0), Literal::Bytes(&pair.1)]).collect();
        trips.at_last(text, &values);
    }
}

/// Writes the ends in a transaction that acquires leases.
pub(crate) async fn keep(conn: &mut MySqlConnection, mut ends: Ends) -> sqlx::Result<()> {
    for (part, text) in INSERT_BATCHES.parts(&ends.batches()) {
        let mut values = MySqlArguments::default();
        for batch in part {
            let first = batch.first().map_or(0, |entry| entry.until.0);
            bind!(values, first, encoded(batch));
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Writes the ends in a transaction that moves tasks in time: a search for ended leases then finds the tasks in
/// flight where they are now. The entries of the old places lead to nothing from here on. Returns their number.
pub(crate) async fn watch(conn: &mut MySqlConnection, places: &[TaskRef]) -> sqlx::Result<usize> {
    let mut ends = Ends::default();
    for part in places.chunks(ENTRIES_MAX) {
        for rows in sqlx::query(sql!(lease, read_in_flight)).bind(wanted(part)).fetch_all(&mut *conn).await? {
            let (nth, fence, until) =
                (row::small::<usize>(&rows, 0)?, rows.try_get(1)?, row::millis(&rows, 2)?);
            if let Some(place) = part.get(nth) {
                ends.add(*place, fence, until);
            }
        }
    }
    let watched = ends.0.len();
    keep(conn, ends).await?;
    Ok(watched)
}

/// Bytes of an entry: partition (2), due_at (8), id (8), fence (8), all big-endian.
const ENTRY_LEN: usize = 26;

fn encoded(batch: &[LeaseEnd]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(batch.len() * ENTRY_LEN);
    for entry in batch {
        bytes.extend(entry.place.partition.0.to_be_bytes());
        for number in [entry.place.due_at.0, entry.place.id, entry.fence] {
            bytes.extend(number.to_be_bytes());
        }
    }
    bytes
}

/// The ends are not stored: the task's row has them.
fn decoded(bytes: &[u8]) -> impl Iterator<Item = (TaskRef, i64)> {
    bytes.chunks_exact(ENTRY_LEN).filter_map(|chunk| {
        let (partition, rest) = chunk.split_first_chunk::<2>()?;
        let (due_at, rest) = rest.split_first_chunk::<8>()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        let (fence, _) = rest.split_first_chunk::<8>()?;
        let place = TaskRef {
            partition: Partition(u16::from_be_bytes(*partition)),
            due_at: Millis(i64::from_be_bytes(*due_at)),
            id: i64::from_be_bytes(*id),
        };
        Some((place, i64::from_be_bytes(*fence)))
    })
}

/// Tasks in flight whose lease ended, the longest ended first, without histories. It also tidies the batches, in
/// statements of their own that may each be lost: what is still in flight is written anew before it is deleted.
pub(crate) async fn leases_ended(
    conn: &mut MySqlConnection,
    (now, limit): (Millis, usize),
    is_here: &(dyn Fn(Partition) -> bool + Sync),
) -> sqlx::Result<Vec<Task>> {
    let mut search = Search { now, is_here, ended: HashMap::new(), looked: 0 };
    let mut after = (i64::MIN, i64::MIN);
    while limit > 0 && search.looked < LOOKS_MAX {
        let page = page(conn, now, after).await?;
        let Some(last) = page.last() else { break };
        after = (last.until.0, last.id);
        let is_last = i64::try_from(page.len()).is_ok_and(|length| length < PAGE);
        for some in portions(&page) {
            // What comes now ended no sooner than the first of these batches.
            let until = some.first().map_or(Millis::MAX, |batch| batch.until);
            if search.ended.values().filter(|pair| pair.0 <= until).count() >= limit {
                return search.tasks(conn, limit).await;
            }
            search.look(conn, some).await?;
        }
        if is_last {
            break;
        }
    }
    search.tasks(conn, limit).await
}

/// Tasks in flight of the batches after a position, without histories: about `limit`, and where to continue. Tidies as
/// `leases_ended` does: what it writes anew is behind the position, and is found again.
pub(crate) async fn in_flight(
    conn: &mut MySqlConnection,
    after: Option<(i64, i64)>,
    limit: usize,
    is_here: &(dyn Fn(Partition) -> bool + Sync),
) -> sqlx::Result<(Vec<Task>, Option<(i64, i64)>)> {
    let mut search = Search { now: Millis::MAX, is_here, ended: HashMap::new(), looked: 0 };
    let page = page(conn, Millis::MAX, after.unwrap_or((i64::MIN, i64::MIN))).await?;
    let is_last = i64::try_from(page.len()).is_ok_and(|length| length < PAGE);
    let mut next = None;
    for some in portions(&page) {
        if search.ended.len() >= limit {
            return Ok((search.tasks(conn, usize::MAX).await?, next));
        }
        search.look(conn, some).await?;
        next = some.last().map(|batch| (batch.until.0, batch.id));
    }
    Ok((search.tasks(conn, usize::MAX).await?, next.filter(|_| !is_last)))
}

/// One row of `lease_batch`.
#[derive(Debug)]
struct Batch {
    id: i64,
    /// The earliest end in it, as it was when it was written.
    until: Millis,
    entries: Vec<(TaskRef, i64)>,
}

async fn page(conn: &mut MySqlConnection, now: Millis, after: (i64, i64)) -> sqlx::Result<Vec<Batch>> {
    let (until, id) = after;
    let page = sqlx::query(sql!(lease, list_batches)).bind(until).bind(now.0).bind(until).bind(id).bind(PAGE);
    let rows = page.fetch_all(conn).await?;
    let batch = |row: &sqlx::mysql::MySqlRow| {
        let entries = decoded(row.try_get(2)?).collect();
        Ok(Batch { id: row.try_get(0)?, until: row::millis(row, 1)?, entries })
    };
    rows.iter().map(batch).collect()
}

/// Batches that are read with one statement.
fn portions(page: &[Batch]) -> Vec<&[Batch]> {
    let mut portions = Vec::new();
    let mut rest = page;
    while !rest.is_empty() {
        let mut entries = 0;
        let fits = |batch: &&Batch| {
            entries += batch.entries.len();
            entries <= ENTRIES_MAX
        };
        let (portion, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        portions.push(portion);
        rest = others;
    }
    portions
}

struct Search<'h> {
    now: Millis,
    /// Entries of another partition are copies, or remains: their tasks are found where they are.
    is_here: &'h (dyn Fn(Partition) -> bool + Sync),
    /// The ended leases by id: a task may be in two batches.
    ended: HashMap<i64, (Millis, TaskRef)>,
    looked: usize,
}

impl Search<'_> {
    async fn look(&mut self, conn: &mut MySqlConnection, batches: &[Batch]) -> sqlx::Result<()> {
        let places: Vec<TaskRef> =
            batches.iter().flat_map(|batch| &batch.entries).map(|entry| entry.0).collect();
        self.looked += places.len();
        let found = rows(conn, &places).await?;
        let (mut again, mut gone) = (Ends::default(), Vec::new());
        let mut found = found.into_iter();
        for batch in batches {
            let held = found.by_ref().take(batch.entries.len());
            let held: Vec<LeaseEnd> =
                batch.entries.iter().zip(held).filter_map(|(entry, row)| still_held(*entry, row)).collect();
            let is_ended = |entry: &&LeaseEnd| entry.until <= self.now;
            let here = held.iter().filter(|entry| (self.is_here)(entry.place.partition));
            self.ended
                .extend(here.filter(is_ended).map(|entry| (entry.place.id, (entry.until, entry.place))));
            if held.iter().filter(is_ended).count() < batch.entries.len() {
                again.0.extend(held);
                gone.push(batch.id);
            }
        }
        tidy(conn, again, &gone).await
    }

    async fn tasks(self, conn: &mut MySqlConnection, limit: usize) -> sqlx::Result<Vec<Task>> {
        let mut ended: Vec<(Millis, TaskRef)> = self.ended.into_values().collect();
        ended.sort_unstable();
        ended.truncate(limit);
        let places: Vec<TaskRef> = ended.iter().map(|pair| pair.1).collect();
        let tasks = query::read(conn, &places, Hold::Nothing).await?;
        // The row may have changed since it was looked at.
        let has_ended = |task: &Task| task.lease.as_ref().is_some_and(|lease| lease.until <= self.now);
        let tasks = tasks.into_iter().flatten().filter(has_ended);
        Ok(tasks.map(|task| Task { history: Vec::new(), ..task }).collect())
    }
}

/// Fence and end of the lease of each that is in flight.
async fn rows(conn: &mut MySqlConnection, places: &[TaskRef]) -> sqlx::Result<Vec<Option<(i64, Millis)>>> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    if let Some(condition) = alike::condition(&sorted) {
        let text = filled(sql!(lease, read_in_flight_by_key), "{places}", &condition);
        let mut found = HashMap::new();
        for rows in sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(conn).await? {
            found.insert(rows.try_get::<i64, _>(0)?, (rows.try_get(1)?, row::millis(&rows, 2)?));
        }
        return Ok(places.iter().map(|place| found.get(&place.id).copied()).collect());
    }
    let mut found = vec![None; places.len()];
    for rows in sqlx::query(sql!(lease, read_in_flight)).bind(wanted(places)).fetch_all(conn).await? {
        let (nth, fence, until) = (row::small::<usize>(&rows, 0)?, rows.try_get(1)?, row::millis(&rows, 2)?);
        if let Some(slot) = found.get_mut(nth) {
            *slot = Some((fence, until));
        }
    }
    Ok(found)
}

/// The entry with the end in its task's row. `None` if that lease is over.
fn still_held((place, fence): (TaskRef, i64), row: Option<(i64, Millis)>) -> Option<LeaseEnd> {
    row.filter(|row| row.0 == fence).map(|row| LeaseEnd { until: row.1, place, fence })
}

async fn tidy(conn: &mut MySqlConnection, again: Ends, gone: &[i64]) -> sqlx::Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    keep(conn, again).await?;
    let gone = serde_json::to_string(gone).expect("numbers always have a JSON form");
    sqlx::query(sql!(lease, delete_batches)).bind(gone).execute(conn).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(until: i64, id: i64) -> LeaseEnd {
        let place = TaskRef { partition: Partition(u16::MAX), due_at: Millis::MAX, id };
        LeaseEnd { until: Millis(until), place, fence: i64::MAX.wrapping_sub(id) }
    }

    #[test]
    fn entries_read_back_as_they_were_written() {
        let batch = [entry(1, i64::MIN + 1_000), entry(2, 7)];
        let wanted: Vec<_> = batch.iter().map(|entry| (entry.place, entry.fence)).collect();
        let bytes = encoded(&batch);
        assert_eq!(bytes.len(), 2 * ENTRY_LEN);
        assert_eq!(decoded(&bytes).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_batch_has_ends_that_are_near_each_other_the_earliest_first() {
        let mut ends = Ends(vec![entry(5_000, 1), entry(1_000, 2), entry(2_000, 3), entry(2_001, 4)]);
        let batches = ends.batches();
        let ids: Vec<Vec<i64>> =
            batches.iter().map(|batch| batch.iter().map(|entry| entry.place.id).collect()).collect();
        assert_eq!(ids, [vec![2, 3], vec![4], vec![1]]);
        let mut many = Ends((0..2_500).map(|id| entry(1, id)).collect());
        assert_eq!(many.batches().iter().map(|batch| batch.len()).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    }

    #[test]
    fn every_batch_is_in_one_portion_and_portions_are_bounded_unless_a_batch_is_not() {
        let batch = |id: i64, len: usize| {
            let entry = entry(1, id);
            Batch { id, until: entry.until, entries: vec![(entry.place, entry.fence); len] }
        };
        let page = [batch(1, 600), batch(2, 400), batch(3, 1), batch(4, 2_000), batch(5, 0)];
        let ids: Vec<Vec<i64>> =
            portions(&page).iter().map(|portion| portion.iter().map(|batch| batch.id).collect()).collect();
        assert_eq!(ids, [vec![1, 2], vec![3], vec![4], vec![5]]);
    }
}
