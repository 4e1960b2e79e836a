//! Counts every row of the file against the account and the register, on one snapshot. No other read waits for it. As long as it lasts, the log of the file grows. Changes nothing.

use super::{
    lanes::Lane,
    ledger::Ledger,
    query,
    register::{IDS_OF_ROW, bit, ids_of},
    row,
    state::{Runs, SqliteStore},
    statements::sql,
    threads,
};
use crate::{
    counting::{Counting, Named},
    rows,
};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError,
    ledger::{FaultKind, LedgerCount, LedgerFault, LedgerReport, LedgerStore, RegisteredTask},
};
use punctual_domain::{
    name::QueueKey,
    place::{Partition, TaskRef, partition_of},
    state::State,
};
use rusqlite::{Connection, Row, Rows, params};
use std::collections::BTreeMap;

#[async_trait]
impl LedgerStore for SqliteStore {
    async fn count_ledger(&self, _only_part: usize) -> Result<Option<LedgerCount>, CallError> {
        const DOING: &str = "count the ledger";
        let partitions = self.partitions;
        match &self.runs {
            Runs::Inline(session) => {
                let counted = count(session.lock().conn(), partitions);
                counted.map(Some).map_err(|error| CallError::did_not_happen(DOING, error))
            }
            Runs::OnThreads(threads) => {
                let counted = threads.read_beside(DOING, move |conn| count(conn, partitions));
                threads::answer(DOING, counted).await.map(Some)
            }
        }
    }

    async fn ledger_reports(&self) -> Result<Vec<LedgerReport>, CallError> {
        let work = |conn: &Connection| {
            let mut list = conn.prepare_cached(sql!(ledger, list_reports))?;
            list.query_map([], |row| rows::ledger_report(row))?.collect()
        };
        self.reading("read reports of the ledger", Lane::Urgent, work).await
    }

    async fn save_ledger_report(&self, part: usize, report: &str, answers: i64) -> Result<(), CallError> {
        let (part, report) = (number(part), report.to_owned());
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(ledger, save_report))?.execute(params![part, answers, report]).map(drop)
        };
        self.maintaining("keep a report of the ledger", 1, work).await
    }

    async fn request_ledger_count(&self, part: usize) -> Result<(), CallError> {
        let part = number(part);
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(ledger, request_count))?.execute([part]).map(drop)
        };
        self.writing("request a count", 1, work).await
    }
}

fn number(part: usize) -> i64 {
    i64::try_from(part).unwrap_or(i64::MAX)
}

/// On one snapshot, if the caller has one.
pub(crate) fn count(conn: &Connection, partitions: u16) -> rusqlite::Result<LedgerCount> {
    let books = query::books(conn)?;
    let (mut register, mut list) =
        (conn.prepare(sql!(ledger, list_registered))?, conn.prepare(sql!(ledger, list_rows))?);
    let mut count = Count {
        partitions,
        groups: Groups::default(),
        register: Register { rows: register.query([])?, ids_of: 0, bits: 0, has_ended: false },
        counting: Counting::default(),
        named: Named::default(),
        registered: 0,
    };
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        count.row(row)?;
    }
    count.rest()?;
    let Count { groups, mut counting, registered, .. } = count;
    counting.registered(registered);
    let mut partitions = conn.prepare(sql!(ledger, list_partitions))?;
    let mut partitions = partitions.query([])?;
    while let Some(row) = partitions.next()? {
        counting.account(Partition(row.get(0)?), row.get(1)?, row.get(2)?);
    }
    for ((partition, group), tasks) in groups.tasks {
        if let Some((queue, state)) = groups.all.get(group) {
            counting.rows(Partition(partition), queue.clone(), *state, tasks);
        }
    }
    Ok(counting.finish(&books))
}

/// On its way through the rows and the register, both in the order of ids.
struct Count<'c> {
    partitions: u16,
    groups: Groups,
    register: Register<'c>,
    counting: Counting,
    named: Named,
    registered: i64,
}

impl Count<'_> {
    fn row(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let (id, partition): (i64, u16) = (row.get(0)?, row.get(1)?);
        let group = self.groups.find(row)?;
        *self.groups.tasks.entry((partition, group)).or_default() += 1;
        while let Some(before) = self.register.next_before(id)? {
            self.lost(before);
        }
        let is_registered = self.register.take(id);
        self.registered += i64::from(is_registered);
        let (due_at, wait_at): (i64, Option<i64>) = (row.get(7)?, row.get(8)?);
        let Some((queue, state)) = self.groups.all.get(group) else { return Ok(()) };
        let belongs = partition_of(&queue.namespace, row.get(3)?, self.partitions);
        let is_placed = belongs.0 == partition && wait_at.is_none_or(|wait_at| wait_at == due_at);
        let kind = match (is_registered, is_placed) {
            (true, true) => return Ok(()),
            (false, _) => FaultKind::Unregistered,
            (true, false) => FaultKind::Misplaced,
        };
        let partition = Some(Partition(partition));
        if self.named.has_room(kind, partition) {
            let task = RegisteredTask {
                namespace: queue.namespace.clone(),
                task_id: row.get(3)?,
                task_version: row.get(4)?,
            };
            self.counting.stray(LedgerFault {
                kind,
                id,
                partition,
                task: Some(task),
                queue: Some(queue.clone()),
                state: Some(*state),
                due_at: Some(row::millis(row, 7)?),
                reference: Some(TaskRef { partition: belongs, due_at: row::millis(row, 9)?, id }),
            });
        }
        Ok(())
    }

    /// What the register has after the last row.
    fn rest(&mut self) -> rusqlite::Result<()> {
        while let Some(id) = self.register.next_before(i64::MAX)? {
            self.lost(id);
        }
        Ok(())
    }

    fn lost(&mut self, id: i64) {
        self.registered += 1;
        if self.named.has_room(FaultKind::Lost, None) {
            let kind = FaultKind::Lost;
            self.counting.lost(LedgerFault {
                kind,
                id,
                partition: None,
                task: None,
                queue: None,
                state: None,
                due_at: None,
                reference: None,
            });
        }
    }
}

/// Queues and states, each once; most rows have those of the row before.
#[derive(Default)]
struct Groups {
    all: Vec<(QueueKey, State)>,
    known: BTreeMap<(String, String, State), usize>,
    last: usize,
    tasks: BTreeMap<(u16, usize), i64>,
}

impl Groups {
    fn find(&mut self, row: &Row<'_>) -> rusqlite::Result<usize> {
        let (namespace, queue) = (row.get_ref(2)?.as_str()?, row.get_ref(5)?.as_str()?);
        let state = row::state(row, 6)?;
        let is_last = |group: &&(QueueKey, State)| {
            group.1 == state && group.0.queue.as_str() == queue && group.0.namespace.as_str() == namespace
        };
        if self.all.get(self.last).filter(is_last).is_none() {
            let key = (namespace.to_owned(), queue.to_owned(), state);
            self.last = match self.known.get(&key) {
                Some(known) => *known,
                None => {
                    self.known.insert(key, self.all.len());
                    self.all.push((row::queue_key(row, 2, 5)?, state));
                    self.all.len() - 1
                }
            };
        }
        Ok(self.last)
    }
}

/// The register, read along with the rows.
struct Register<'r> {
    rows: Rows<'r>,
    ids_of: i64,
    /// Those that were not met yet.
    bits: i64,
    has_ended: bool,
}

impl Register<'_> {
    /// The lowest id below this that no row had; every one is answered once.
    fn next_before(&mut self, id: i64) -> rusqlite::Result<Option<i64>> {
        loop {
            if self.bits != 0 {
                let lowest = self.ids_of * IDS_OF_ROW + i64::from(self.bits.trailing_zeros());
                if lowest >= id {
                    return Ok(None);
                }
                self.bits &= self.bits - 1;
                return Ok(Some(lowest));
            }
            let is_ahead = self.ids_of > id.div_euclid(IDS_OF_ROW);
            if self.has_ended || is_ahead {
                return Ok(None);
            }
            match self.rows.next()? {
                Some(row) => (self.ids_of, self.bits) = (row.get(0)?, row.get(1)?),
                None => self.has_ended = true,
            }
        }
    }

    /// False: the register does not have it.
    fn take(&mut self, id: i64) -> bool {
        let bit = bit(id);
        let has_it = self.ids_of == ids_of(id) && self.bits & bit != 0;
        if has_it {
            self.bits &= !bit;
        }
        has_it
    }
}
