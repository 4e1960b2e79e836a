//! The reads. Each runs on one snapshot, bounded by its limit; none changes anything.

use super::{
    due, row,
    statements::sql,
    walk::{IDS_MAX, SqliteWalk},
};
use crate::chunks;
use punctual_contract::{
    Ask,
    hot::{Details, HotEntry},
    store::{
        Books, LeasePosition, Overdue, OverdueLook, OverduePage, Page, PendingBytes, Query, Scan, Tally,
    },
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    state::State,
    task::Task,
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, ToSql, params};
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of rows of an unbounded search for overdue tasks.
const OVERDUE_ROWS_MAX: usize = 10_000;

pub(crate) fn read(conn: &Connection, places: &[TaskRef]) -> rusqlite::Result<Vec<Option<Task>>> {
    let mut read = conn.prepare_cached(sql!(query, read_task))?;
    places.iter().map(|place| read.query_row([place.id], row::whole_task).optional()).collect()
}

pub(crate) fn versions(
    conn: &Connection,
    namespace: &Name,
    task_id: i64,
    version: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<Task>> {
    let (namespace, limit) = (namespace.as_str(), rows(limit));
    match version {
        Some(version) => {
            tasks(conn, sql!(query, read_version), params![namespace, task_id, limit.min(1), version])
        }
        None => tasks(conn, sql!(query, list_versions), params![namespace, task_id, limit]),
    }
}

pub(crate) fn latest_versions(
    conn: &Connection,
    namespace: &Name,
    task_ids: &[i64],
) -> rusqlite::Result<Vec<Task>> {
    let wanted = serde_json::to_string(task_ids).expect("numbers always have a JSON form");
    tasks(conn, sql!(query, read_latest_versions), params![namespace.as_str(), wanted])
}

pub(crate) fn leases_ended(conn: &Connection, now: Millis, limit: usize) -> rusqlite::Result<Vec<Task>> {
    tasks(conn, sql!(query, list_expired_leases), [now.0, rows(limit)])
}

pub(crate) fn in_flight(
    conn: &Connection,
    after: Option<LeasePosition>,
    limit: usize,
) -> rusqlite::Result<(Vec<Task>, Option<LeasePosition>)> {
    let (until, id) = after.map_or((i64::MIN, i64::MIN), |position| (position.until.0, position.id));
    let tasks = tasks(conn, sql!(query, list_in_flight), [until, id, rows(limit)])?;
    let last = tasks.last().filter(|_| tasks.len() >= limit);
    let next = last.and_then(|task| {
        Some(LeasePosition { part: 0, until: task.lease.as_ref()?.until, id: task.place.id })
    });
    Ok((tasks, next))
}

/// The index has what waits only: what has fired is passed by, what is finished is not met.
pub(crate) fn overdue(conn: &Connection, look: &OverdueLook) -> rusqlite::Result<OverduePage> {
    // What a scan answers is made in memory: as many as one may hold.
    let limit = look.rows.unwrap_or(OVERDUE_ROWS_MAX);
    let (partition, until, after) = (look.partition, look.until, look.after);
    let waiting = scan(conn, &Scan { partition, until, after, limit })?;
    let last = waiting.last().filter(|_| waiting.len() >= limit).map(HotEntry::key);
    let unfired = waiting.iter().filter(|entry| entry.state.waits_for_its_time());
    let overdue = |entry: &HotEntry| Overdue { place: entry.place, due_at: entry.due_at, fence: entry.fence };
    let found: Vec<Overdue> = unfired.take(look.limit).map(overdue).collect();
    let is_full = found.len() >= look.limit;
    let next = if is_full { found.last().map(|overdue| (overdue.due_at, overdue.place.id)) } else { last };
    Ok(OverduePage { found, next, database: 0 })
}

pub(crate) fn list(conn: &Connection, partitions: u16, query: &Query) -> rusqlite::Result<Page> {
    if query.behind_due.is_some() {
        return due::list(conn, partitions, query);
    }
    let label = query.label.as_ref();
    let dead = query.state == Some(State::Dead);
    let of_tasks = (query.queue.as_ref(), query.kind.as_ref());
    let walk = SqliteWalk::of(conn, query.namespace.as_ref(), of_tasks, label, dead)?;
    let along = walk.along();
    let may_be_by_due = query.by_due_time && query.before_id.is_none() && walk.is_of_ids();
    if may_be_by_due && due::is_of_the_index(query) {
        return due::list(conn, partitions, query);
    }
    if query.oldest_first {
        return oldest_first(conn, query);
    }
    let looked = walk.look(conn, query.before_id.unwrap_or(i64::MAX))?;
    let Some(floor) = looked.last().map(|range| *range.start()) else {
        return Ok(Page { along, ..Page::default() });
    };
    let limit = query.limit.max(1);
    let text = walk.text([sql!(query, list), sql!(query, list_by_label), sql!(query, list_dead)]);
    let mut tasks = Vec::new();
    for ids in &looked {
        let ids = (*ids.start(), *ids.end());
        tasks.extend(within(conn, text, query, (ids, limit - tasks.len()), walk.label())?);
        if tasks.len() >= limit {
            break;
        }
    }
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(|task| task.place.id);
    let next = walk.newest_below(conn, full.unwrap_or(floor))?;
    let next_before_id = next.map(|next| next.saturating_add(1));
    let is_short = tasks.len() < limit && next.is_some();
    let newest_id = if is_short { newest_of(conn, &walk)? } else { None };
    let examined = walk.examined(&looked, full, tasks.len());
    Ok(Page { next_before_id, tasks, along, newest_id, examined, ..Page::default() })
}

/// The newest id of all that a walk may pass over.
fn newest_of(conn: &Connection, walk: &SqliteWalk) -> rusqlite::Result<Option<i64>> {
    if walk.is_of_ids() {
        SqliteWalk::Ids.newest_below(conn, i64::MAX)
    } else {
        walk.newest_below(conn, i64::MAX)
    }
}

/// Along all ids, upward.
fn oldest_first(conn: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let above = |id: i64| -> rusqlite::Result<Option<i64>> {
        conn.prepare_cached(sql!(query, find_oldest_above))?.query_row([id], |value| value.get(0))
    };
    let Some(oldest) = above(query.after_id.unwrap_or(i64::MIN))? else { return Ok(Page::default()) };
    let (ceiling, limit) = (oldest.saturating_add(IDS_MAX - 1), query.limit.max(1));
    let tasks = within(conn, sql!(query, list_rising), query, ((oldest, ceiling), limit), None)?;
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(|task| task.place.id);
    let next = above(full.unwrap_or(ceiling))?;
    let next_after_id = next.map(|next| next.saturating_sub(1));
    let is_short = tasks.len() < limit && next.is_some();
    let newest_id = if is_short { SqliteWalk::Ids.newest_below(conn, i64::MAX)? } else { None };
    let examined = chunks::examined(&[oldest..=full.unwrap_or(ceiling)], None);
    Ok(Page { next_after_id, tasks, newest_id, examined, ..Page::default() })
}

/// The matching tasks of a range of ids, by one of the texts of a search.
fn within(
    conn: &Connection,
    text: &str,
    query: &Query,
    ((lowest, highest), limit): ((i64, i64), usize),
    entered: Option<&str>,
) -> rusqlite::Result<Vec<Task>> {
    let (below, most) = (highest.saturating_add(1), rows(limit));
    let state = query.state.map(State::code);
    let (due_after, due_before) = (query.due_after.map(|at| at.0), query.due_before.map(|at| at.0));
    let (namespace, queue) =
        (query.namespace.as_ref().map(Name::as_str), query.queue.as_ref().map(Name::as_str));
    let kind = query.kind.as_ref().map(Name::as_str);
    let label = query.label.as_ref();
    let (key, value) = (label.map(|label| label.0.as_str()), label.map(|label| label.1.as_str()));
    let (updated, error) = (query.updated_from.map(|at| at.0), query.error.as_deref());
    let all: [&dyn ToSql; 14] = [
        &below,
        &lowest,
        &most,
        &namespace,
        &queue,
        &state,
        &kind,
        &due_after,
        &due_before,
        &key,
        &value,
        &updated,
        &error,
        &entered,
    ];
    let asked = if entered.is_some() { all.as_slice() } else { all.get(..13).unwrap_or_default() };
    tasks(conn, text, asked)
}

fn tasks(conn: &Connection, text: &str, params: impl Params) -> rusqlite::Result<Vec<Task>> {
    conn.prepare_cached(text)?.query_map(params, row::whole_task)?.collect()
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) fn scan(conn: &Connection, scan: &Scan) -> rusqlite::Result<Vec<HotEntry>> {
    let mut names = Names::default();
    let mut entries = |text: &str, params: [i64; 4]| -> rusqlite::Result<Vec<HotEntry>> {
        let entry = |row: &Row<'_>| hot_entry(row, scan, &mut names);
        conn.prepare_cached(text)?.query_map(params, entry)?.collect()
    };
    let partition = i64::from(scan.partition.0);
    let mut found = match scan.after {
        Some((due_at, id)) if due_at <= scan.until => {
            entries(sql!(query, scan_instant), [partition, due_at.0, id, rows(scan.limit)])?
        }
        _ => Vec::new(),
    };
    let left = scan.limit - found.len();
    if left > 0 {
        let after = scan.after.map_or(i64::MIN, |pair| pair.0.0);
        found.extend(entries(sql!(query, scan), [partition, scan.until.0, after, rows(left)])?);
    }
    Ok(found)
}

fn hot_entry(row: &Row<'_>, scan: &Scan, names: &mut Names) -> rusqlite::Result<HotEntry> {
    let execute_at = row::millis(row, 9)?;
    let deadline_ms: Option<i64> = row.get(10)?;
    let fired_at: Option<i64> = row.get(12)?;
    Ok(HotEntry {
        place: TaskRef { partition: scan.partition, due_at: row::millis(row, 1)?, id: row.get(0)? },
        due_at: row::millis(row, 2)?,
        fence: row.get(3)?,
        queue: names.queue(row, 4, 5)?,
        priority: row::priority(row, 6)?,
        task_id: row.get(7)?,
        task_version: row.get(8)?,
        deadline_at: deadline_ms.map_or(Millis::MAX, |deadline_ms| execute_at.plus(deadline_ms)),
        state: row::state(row, 11)?,
        fired_at: fired_at.map_or(Millis::ZERO, Millis),
        attempt: row.get(13)?,
        details: Arc::new(Details {
            kind: Some(names.kind(row, 15)?),
            demands: row::demands(row, 14)?,
            ask: ask(row, execute_at)?.map(Arc::new),
        }),
    })
}

/// Returns `None` if the payload is not in the row, or the rest is too long to be copied.
fn ask(row: &Row<'_>, execute_at: Millis) -> rusqlite::Result<Option<Ask>> {
    let Some(bytes) = row.get::<_, Option<Vec<u8>>>(17)? else { return Ok(None) };
    let ask = Ask {
        payload: row::content_of(row, 16, bytes)?,
        max_attempts: row.get(18)?,
        execute_at,
        timeout_ms: row.get(19)?,
        labels: row::labels(row, 20)?,
        traceparent: row.get(21)?,
    };
    Ok(ask.fitting())
}

/// The queues and kinds of a scan, so that its entries share them. A scan meets few; with more than it remembers, some are
/// made twice, which only costs memory.
#[derive(Default)]
struct Names {
    queues: Vec<Arc<QueueKey>>,
    kinds: Vec<Name>,
}

impl Names {
    const REMEMBERED: usize = 16;

    fn queue(&mut self, row: &Row<'_>, namespace: usize, queue: usize) -> rusqlite::Result<Arc<QueueKey>> {
        let (wanted_namespace, wanted_queue) =
            (row.get_ref(namespace)?.as_str()?, row.get_ref(queue)?.as_str()?);
        let same = |queue: &&Arc<QueueKey>| {
            queue.queue.as_str() == wanted_queue && queue.namespace.as_str() == wanted_namespace
        };
        if let Some(known) = self.queues.iter().rev().take(Self::REMEMBERED).find(same) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(row::queue_key(row, namespace, queue)?);
        self.queues.push(Arc::clone(&new));
        Ok(new)
    }

    fn kind(&mut self, row: &Row<'_>, at: usize) -> rusqlite::Result<Name> {
        let wanted: &str = row.get_ref(at)?.as_str()?;
        let known = self.kinds.iter().rev().take(Self::REMEMBERED).find(|kind| kind.as_str() == wanted);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let new = row::name(row, at)?;
        self.kinds.push(new.clone());
        Ok(new)
    }
}

pub(crate) fn books(conn: &Connection) -> rusqlite::Result<Books> {
    account(conn, sql!(ledger, read_books))
}

pub(crate) fn audit(conn: &Connection) -> rusqlite::Result<Books> {
    account(conn, sql!(ledger, count_books))
}

fn account(conn: &Connection, text: &str) -> rusqlite::Result<Books> {
    let mut counter = conn.prepare_cached(sql!(ledger, read_meta))?;
    let mut counter = |key: &str| counter.query_row([key], |row| row.get(0));
    let tally = |row: &Row<'_>| {
        let tally =
            Tally { queue: row::queue_key(row, 0, 1)?, state: row::state(row, 2)?, tasks: row.get(3)? };
        Ok((tally, row.get::<_, Option<i64>>(4)?.unwrap_or(0)))
    };
    let rows: Vec<(Tally, i64)> =
        conn.prepare_cached(text)?.query_map([], tally)?.collect::<rusqlite::Result<_>>()?;
    let mut bytes = BTreeMap::<QueueKey, i64>::new();
    for (tally, more) in &rows {
        *bytes.entry(tally.queue.clone()).or_default() += more;
    }
    let pending = bytes.into_iter().filter(|entry| entry.1 != 0);
    Ok(Books {
        accepted: counter("accepted")?,
        deleted: counter("deleted")?,
        tallies: rows.into_iter().map(|row| row.0).filter(|tally| tally.tasks != 0).collect(),
        pending_bytes: pending.map(|(queue, bytes)| PendingBytes { queue, bytes }).collect(),
    })
}
