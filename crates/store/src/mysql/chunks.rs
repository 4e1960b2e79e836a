//! Which chunks of ids have tasks of a queue: what a writer enters, along with the commit of the tasks, and remembers so that it
//! enters a row once; the tasks that stood before; and the rows of chunks that are gone. Must not remember what is not committed.
//!
//! The steps, and what a crash after each leaves:
//! 1. Tasks are inserted, replaced or put into another queue, in a transaction of their writer. Nothing: it is undone.
//! 2. The rows of their chunks that the writer does not remember are written, in the same transaction, along with its sums and with
//!    COMMIT. Before the COMMIT nothing is left, neither a row nor a task; the writer forgets what it has entered (`clear`), whether it
//!    was undone or its answer was lost, and enters it again with the next task.
//! 3. Committed: both are there. The writer remembers the row (`committed`) for ten minutes.
//! 4. What stood before an upgrade is entered a batch at a time: the rows and how far it has come are one transaction. Below that id
//!    searches walk all ids, so that what is not entered yet is found, too.
//! 5. Of a chunk without tasks the rows are removed a day after they were last entered, which no writer remembers. A row too many
//!    costs a look at an empty chunk; a row that is missing would hide tasks, so none is removed on a guess.

use super::{
    MySqlState,
    limits::{PING, READ, WRITE, silent, twice, watched},
    query,
    session::Known,
    statements::{Many, bind, sql},
    trips::{Literal, Trips},
};
use crate::{Error, chunks};
use sqlx::{Connection as _, MySqlConnection, Row as _, mysql::MySqlArguments};
use std::{collections::HashMap, time::Duration};
use tokio::time::{Instant, timeout};

static NOTE: Many = Many::new(sql!(labels, note_chunks));

/// What was entered so long ago is entered again, which says that it is still remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// What nobody has entered for so long is remembered by no writer, however long it was frozen.
const FORGOTTEN_MS: i64 = 24 * 3_600_000;
/// From one look for rows of chunks that are gone to the next; and its steps: in each a chunk that has tasks is passed, or rows go.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
const PRUNE_STEPS: usize = 200;
const PRUNED_ROWS: u64 = 1_000;
/// After so many chunks with tasks, one after the other, another queue's turn has come: what is old is gone first.
const PASSED_MAX: usize = 50;
/// Queues of which it is remembered how far they were looked through.
const PRUNED_QUEUES: usize = 10_000;
/// Kinds of queues that a writer remembers; with more, it begins anew.
const KINDS_MAX: usize = 20_000;
/// Chunks of one of them: ids ascend, so the others are of tasks that were put into the queue later.
const CHUNKS_MAX: usize = 16;
/// The slot of whoever moves partitions.
pub(super) const OF_MOVED: i32 = -2;

type ByName<T> = HashMap<Box<str>, T>;
type Entered = Vec<(i64, Instant)>;

/// What one writing connection has entered.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Chunks, and when they were entered.
    known: ByName<ByName<ByName<Entered>>>,
    kinds: usize,
    /// Rows by namespace and chunk, of the chunks that are filled.
    rows: Vec<((Box<str>, i64), usize)>,
    /// When the transaction began.
    began: Instant,
    /// Of the transaction that runs.
    pending: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Note {
    namespace: Box<str>,
    /// Empty: of any.
    queue: Box<str>,
    chunk: i64,
    kind: Box<str>,
}

impl Noted {
    pub(crate) fn new() -> Self {
        Self { known: HashMap::new(), kinds: 0, rows: Vec::new(), began: Instant::now(), pending: Vec::new() }
    }

    /// A task of a queue and a kind has this id from this transaction on.
    pub(crate) fn enter(&mut self, [namespace, queue, kind]: [&str; 3], id: i64) {
        let chunk = chunks::of(id);
        if self.is_known([namespace, chunks::ANY, ""], chunk) || !self.is_new([namespace, queue, kind], chunk)
        {
            return;
        }
        if self.is_new([namespace, "", ""], chunk) {
            self.pending.push(Note::new([namespace, "", ""], chunk));
        }
        match self.counted(namespace, chunk) {
            ..=chunks::ROWS_MAX => self.pending.push(Note::new([namespace, queue, kind], chunk)),
            _ => {
                // It is known only as long as that row is.
                self.forget([namespace, queue, kind], chunk);
                self.is_new([namespace, chunks::ANY, ""], chunk);
                self.pending.push(Note::new([namespace, chunks::ANY, ""], chunk));
            }
        }
    }

    /// With this one.
    fn counted(&mut self, namespace: &str, chunk: i64) -> usize {
        if let Some((_, rows)) =
            self.rows.iter_mut().rev().find(|row| row.0.1 == chunk && *row.0.0 == *namespace)
        {
            *rows += 1;
            return *rows;
        }
        if self.rows.len() >= CHUNKS_MAX {
            self.rows.remove(0);
        }
        self.rows.push(((namespace.into(), chunk), 1));
        1
    }

    fn is_known(&self, [namespace, queue, kind]: [&str; 3], chunk: i64) -> bool {
        let of_kind = self.known.get(namespace).and_then(|known| known.get(queue)?.get(kind));
        let fresh = |at: &Instant| self.began.duration_since(*at) < REMEMBERED;
        of_kind.is_some_and(|list| list.iter().any(|pair| pair.0 == chunk && fresh(&pair.1)))
    }

    fn forget(&mut self, [namespace, queue, kind]: [&str; 3], chunk: i64) {
        let of_kind = self.known.get_mut(namespace).and_then(|known| known.get_mut(queue)?.get_mut(kind));
        if let Some(known) = of_kind {
            known.retain(|pair| pair.0 != chunk);
        }
    }

    fn is_new(&mut self, [namespace, queue, kind]: [&str; 3], chunk: i64) -> bool {
        let began = self.began;
        let of_kind = self.known.get_mut(namespace).and_then(|known| known.get_mut(queue)?.get_mut(kind));
        let Some(known) = of_kind else {
            let queues = self.known.entry(namespace.into()).or_default();
            queues.entry(queue.into()).or_default().insert(kind.into(), vec![(chunk, began)]);
            self.kinds += 1;
            return true;
        };
        match known.iter_mut().rev().find(|pair| pair.0 == chunk) {
            Some((_, at)) if began.duration_since(*at) < REMEMBERED => false,
            Some((_, at)) => {
                *at = began;
                true
            }
            None => {
                if known.len() >= CHUNKS_MAX {
                    known.remove(0);
                }
                known.push((chunk, began));
                true
            }
        }
    }

    /// Before a transaction: what the one before has entered counts only if it was committed.
    pub(crate) fn clear(&mut self) {
        self.began = Instant::now();
        for note in std::mem::take(&mut self.pending) {
            self.forget([&note.namespace, &note.queue, &note.kind], note.chunk);
        }
        if self.kinds > KINDS_MAX {
            (self.known, self.kinds) = (HashMap::new(), 0);
        }
    }

    pub(crate) fn committed(&mut self) {
        self.pending.clear();
    }

    /// Along with the commit.
    pub(crate) fn write_at_last(&mut self, slot: i32, trips: &mut Trips) {
        self.pending.sort_unstable();
        for (part, text) in NOTE.parts(&self.pending) {
            let values = part.iter().flat_map(|note| {
                let [namespace, queue, kind] =
                    [&note.namespace, &note.queue, &note.kind].map(|text| Literal::Text(text));
                let [chunk, slot] = [note.chunk, slot.into()].map(Literal::Int);
                [namespace, queue, chunk, kind, slot]
            });
            trips.at_last(text, &values.collect::<Vec<_>>());
        }
    }
}

impl Note {
    pub(super) fn new([namespace, queue, kind]: [&str; 3], chunk: i64) -> Self {
        Self { namespace: namespace.into(), queue: queue.into(), chunk, kind: kind.into() }
    }
}

/// Enters them in a transaction that is not a writer's.
pub(super) async fn write(conn: &mut MySqlConnection, slot: i32, mut notes: Vec<Note>) -> sqlx::Result<()> {
    notes.sort_unstable();
    notes.dedup();
    for (part, text) in NOTE.parts(&notes) {
        let mut values = MySqlArguments::default();
        for note in part {
            bind!(values, &*note.namespace, &*note.queue, note.chunk, &*note.kind, slot);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Tasks below this id are not entered; 0: all are; None: it is not begun.
pub(super) async fn not_entered_below(conn: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
    let found = sqlx::query(sql!(labels, read_chunks_below)).fetch_optional(conn).await?;
    found.map(|row| row.try_get(0)).transpose()
}

/// The newest chunks of a database that may have tasks of a queue, down from one.
pub(super) async fn newest(
    conn: &mut MySqlConnection,
    [namespace, queue]: [&str; 2],
    kind: Option<&str>,
    down_from: i64,
) -> sqlx::Result<Vec<i64>> {
    let asked = sqlx::query(sql!(labels, list_newest_chunks)).bind(namespace).bind(queue).bind(down_from);
    let most = i64::try_from(chunks::LOOK).unwrap_or(i64::MAX);
    let asked = asked.bind(kind).bind(kind).bind(most).bind(namespace).bind(down_from).bind(most).bind(most);
    asked.fetch_all(conn).await?.iter().map(|rows| rows.try_get(0)).collect()
}

/// Enters what stood before, a bounded number of ids. How many were passed over.
pub(super) async fn enter_stood(inner: &MySqlState, part: usize, limit: usize) -> Result<usize, Error> {
    let Some(shard) = inner.members().get(part) else { return Ok(0) };
    let below = || async { not_entered_below(&mut *shard.readers.acquire().await?).await };
    match twice(READ, below).await.map_err(|error| shard.failed(error))? {
        Some(0) => return prune(inner, part).await.map(|()| 0),
        None if is_one_behind(inner).await? => return Ok(0),
        _ => {}
    }
    let address = inner.address(part)?;
    let Known { mut conn, number } = address.writer().await.map_err(|error| address.failed(error))?;
    let work = stood(&mut conn, limit);
    let done = watched(WRITE, || vec![(number, address.clone())], work).await;
    let passed = done.unwrap_or_else(|| Err(silent())).map_err(|error| address.failed(error))?;
    drop(timeout(PING, conn.close()).await);
    Ok(passed)
}

async fn prune(inner: &MySqlState, part: usize) -> Result<(), Error> {
    let mut pruning = inner.pruning.lock().remove(&part).unwrap_or_default();
    if pruning.is_due() {
        let address = inner.address(part)?;
        let Known { mut conn, number } = address.writer().await.map_err(|error| address.failed(error))?;
        let work = pruning.run(&mut conn);
        let done = watched(WRITE, || vec![(number, address.clone())], work).await;
        done.unwrap_or_else(|| Err(silent())).map_err(|error| address.failed(error))?;
        drop(timeout(PING, conn.close()).await);
    }
    inner.pruning.lock().insert(part, pruning);
    Ok(())
}

/// An engine of an older release inserts, and enters nothing.
async fn is_one_behind(inner: &MySqlState) -> sqlx::Result<bool> {
    let behind = || async {
        let behind = sqlx::query(sql!(labels, has_engine_without_chunks));
        behind.fetch_optional(&mut *inner.catalog.acquire().await?).await
    };
    Ok(twice(READ, behind).await?.is_some())
}

/// Where the look for rows of chunks that are gone continues, in one database: behind a chunk of a queue. Each second round begins with
/// the oldest chunks of every queue, the others where the one before has left the queue.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    namespace: String,
    queue: String,
    chunk: Option<i64>,
    /// Chunks with tasks that were passed since rows were removed.
    passed: usize,
    rounds: u64,
    left_at: HashMap<(String, String), i64>,
    looked_at: Option<Instant>,
}

impl Pruning {
    /// A few steps now and then: what is not removed costs a look at an empty chunk.
    pub(super) fn is_due(&self) -> bool {
        self.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= PRUNE_INTERVAL)
    }

    pub(super) async fn run(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        self.looked_at = Some(Instant::now());
        for _ in 0..PRUNE_STEPS {
            if let Some(chunk) = self.chunk {
                self.step(conn, chunk).await?;
            } else if !self.next_queue(conn).await? {
                break;
            }
        }
        Ok(())
    }

    /// False: the round is over.
    async fn next_queue(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<bool> {
        let next = sqlx::query(sql!(labels, find_next_queue)).bind(&*self.namespace).bind(&*self.namespace);
        let Some(next) = next.bind(&*self.queue).fetch_optional(&mut *conn).await? else {
            (self.namespace, self.queue) = (String::new(), String::new());
            self.rounds += 1;
            return Ok(false);
        };
        let names: (String, String) = (next.try_get(0)?, next.try_get(1)?);
        let left_at = self.left_at.get(&names).filter(|_| self.rounds % 2 == 1);
        (self.chunk, self.passed) = (Some(left_at.copied().unwrap_or(-1)), 0);
        (self.namespace, self.queue) = names;
        Ok(true)
    }

    /// Passes a chunk that has tasks, or removes rows of those up to the next that has some.
    async fn step(&mut self, conn: &mut MySqlConnection, above: i64) -> sqlx::Result<()> {
        let names = (self.namespace.clone(), self.queue.clone());
        let next =
            sqlx::query(sql!(labels, find_next_chunk)).bind(&*self.namespace).bind(&*self.queue).bind(above);
        let Some(next) = next.fetch_optional(&mut *conn).await? else {
            self.left_at.remove(&names);
            self.chunk = None;
            return Ok(());
        };
        let chunk: i64 = next.try_get(0)?;
        let last = chunk.saturating_mul(chunks::IDS).saturating_sub(1);
        let oldest: Option<i64> =
            sqlx::query(sql!(query, find_oldest_above)).bind(last).fetch_one(&mut *conn).await?.try_get(0)?;
        let end = oldest.map_or(i64::MAX, chunks::of);
        if end == chunk {
            self.passed += 1;
            self.chunk = Some(chunk).filter(|_| self.passed < PASSED_MAX);
            if self.chunk.is_none() && self.left_at.len() < PRUNED_QUEUES {
                self.left_at.insert(names, chunk);
            }
            return Ok(());
        }
        let gone = sqlx::query(sql!(labels, delete_empty_chunks))
            .bind(&*self.namespace)
            .bind(&*self.queue)
            .bind(above);
        let gone = gone.bind(end).bind(FORGOTTEN_MS).bind(PRUNED_ROWS).execute(&mut *conn).await?;
        let is_all = gone.rows_affected() < PRUNED_ROWS;
        (self.passed, self.chunk) = (0, Some(if is_all { end.saturating_sub(1) } else { above }));
        Ok(())
    }
}

async fn stood(conn: &mut MySqlConnection, limit: usize) -> sqlx::Result<usize> {
    let mut tx = conn.begin().await?;
    let held = sqlx::query(sql!(labels, lock_chunks_below)).fetch_optional(&mut *tx).await?;
    let Some(below) = held.map(|row| row.try_get::<i64, _>(0)).transpose()? else {
        sqlx::query(sql!(labels, begin_chunks)).execute(&mut *tx).await?;
        tx.commit().await?;
        return Ok(limit.max(1));
    };
    let newest = query::newest_below(&mut tx, below).await?;
    let rows = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let floor = newest.map_or(0, |newest| newest.saturating_sub(rows - 1).max(0));
    if let Some(newest) = newest {
        for of_any in [false, true] {
            let stood = sqlx::query(sql!(labels, enter_earlier_chunks)).bind(of_any).bind(of_any);
            stood.bind(floor).bind(newest).execute(&mut *tx).await?;
        }
    }
    sqlx::query(sql!(labels, advance_chunks)).bind(floor).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(limit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(noted: &Noted) -> Vec<(String, i64)> {
        noted
            .pending
            .iter()
            .map(|note| (format!("{}/{}/{}", note.namespace, note.queue, note.kind), note.chunk))
            .collect()
    }

    #[test]
    fn a_chunk_is_entered_once_and_with_its_namespace() {
        let mut noted = Noted::new();
        for id in [5_000, 5_001, 4_096, 5_119] {
            noted.enter(["n", "q", "k"], id);
        }
        assert_eq!(pending(&noted), [("n//".to_owned(), 4), ("n/q/k".to_owned(), 4)]);
        noted.committed();
        noted.clear();
        noted.enter(["n", "q", "k"], 5_002);
        assert!(pending(&noted).is_empty(), "it is remembered");
        noted.enter(["n", "q", "other"], 5_002);
        noted.enter(["n", "q", "k"], 5_120);
        let new = [("n/q/other", 4), ("n//", 5), ("n/q/k", 5)].map(|pair| (pair.0.to_owned(), pair.1));
        assert_eq!(pending(&noted), new);
    }

    /// Else a task could be committed whose chunk is not.
    #[test]
    fn what_was_not_committed_is_not_remembered() {
        let mut noted = Noted::new();
        noted.enter(["n", "q", "k"], 1);
        noted.clear();
        noted.enter(["n", "q", "k"], 2);
        assert_eq!(pending(&noted).len(), 2, "the queue's and the namespace's, once more");
        noted.committed();
        noted.enter(["n", "q", "k"], 2_000);
        noted.clear();
        noted.enter(["n", "q", "k"], 3);
        assert!(pending(&noted).is_empty(), "what was committed before stays so");
    }

    #[test]
    fn what_was_entered_long_ago_is_entered_again() {
        let mut noted = Noted::new();
        noted.enter(["n", "q", "k"], 1);
        noted.committed();
        noted.began += REMEMBERED;
        noted.enter(["n", "q", "k"], 1);
        assert_eq!(pending(&noted).len(), 2);
    }

    /// And a transaction that is undone takes that row along, and what rests on it.
    #[test]
    fn of_very_many_queues_one_row_says_that_any_may_be_there() {
        let mut noted = Noted::new();
        let enter =
            |noted: &mut Noted| (0..1_000).for_each(|nth| noted.enter(["n", &format!("q{nth}"), "k"], 5_000));
        enter(&mut noted);
        let any = ("n/*/".to_owned(), 4);
        assert_eq!((noted.pending.len(), pending(&noted).last()), (chunks::ROWS_MAX + 2, Some(&any)));
        noted.clear();
        noted.enter(["n", "q900", "k"], 5_001);
        assert!(pending(&noted).contains(&any), "{:?}", pending(&noted));
        noted.committed();
        enter(&mut noted);
        assert!(noted.pending.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut noted = Noted::new();
        for id in 0..100 {
            noted.enter(["n", "q", "k"], id * chunks::IDS);
            noted.committed();
        }
        assert_eq!(noted.known["n"]["q"]["k"].len(), CHUNKS_MAX);
        for nth in 0..=KINDS_MAX {
            noted.enter(["n", &format!("q{nth}"), "k"], i64::try_from(nth).unwrap() * chunks::IDS);
        }
        noted.committed();
        noted.clear();
        assert!(noted.known.is_empty());
    }
}
