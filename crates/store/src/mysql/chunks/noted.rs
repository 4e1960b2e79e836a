//! The rows that one writing connection has entered for the chunks of its tasks, and remembers so that it enters a
//! row once. Must not remember what is not committed.

use crate::{
    chunks,
    mysql::{
        statements::{Many, bind, sql},
        trips::{Literal, Trips},
    },
};
use sqlx::{MySqlConnection, mysql::MySqlArguments};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

static NOTE: Many = Many::new(sql!(labels, note_chunks));

/// The age after which a row is entered again, which states that it is still remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Kinds of queues that a writer remembers; with more, it begins anew.
const KINDS_MAX: usize = 20_000;
/// Chunks of one of them: ids ascend, so the others are of tasks that were put into the queue later.
const CHUNKS_MAX: usize = 16;
/// The slot of a mover of partitions.
pub(crate) const OF_MOVED: i32 = -2;

type ByName<T> = HashMap<Box<str>, T>;
type Entered = Vec<(i64, Instant)>;

/// The rows that one writing connection has entered.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Chunks, and when they were entered.
    known: ByName<ByName<ByName<Entered>>>,
    kinds: usize,
    /// Rows by namespace and chunk, of the chunks that are filled.
    rows: Vec<((Box<str>, i64), usize)>,
    /// The beginning of the transaction.
    began: Instant,
    /// The rows of the running transaction.
    pending: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
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

    /// The number of the chunk's rows, including this one.
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

    /// Prepares for a transaction: rows that the preceding one has entered count only if it was committed.
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
    pub(crate) fn new([namespace, queue, kind]: [&str; 3], chunk: i64) -> Self {
        Self { namespace: namespace.into(), queue: queue.into(), chunk, kind: kind.into() }
    }
}

/// Enters them in a transaction that is not a writer's.
pub(crate) async fn write(conn: &mut MySqlConnection, slot: i32, mut notes: Vec<Note>) -> sqlx::Result<()> {
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

    /// A transaction that is undone removes that row from memory, and the rows that depend on it.
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
