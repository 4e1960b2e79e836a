//! Reads the waiting tasks of a partition, in order: ranges of the clustered key, without locks, each bounded by its
//! limit. Changes nothing.

use super::{
    floor::{Floor, Floors, FullScan, Key},
    hosted, row,
    statements::{sql, with_numbers},
};
use punctual_contract::{
    Ask,
    hot::{Details, HotEntry},
    store::Scan,
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

/// Returns `None` if the partition is not in this database.
pub(crate) async fn scan(
    conn: &mut MySqlConnection,
    floors: &Floors,
    scan: &Scan,
) -> sqlx::Result<Option<Vec<HotEntry>>> {
    let is_past = floors.is_past(scan.until);
    if scan.after.is_none() {
        return from_the_beginning(conn, floors, scan, is_past).await;
    }
    let floor = floors.of(scan.partition);
    let (mut found, mut names) = (Vec::new(), Names::default());
    let over = behind(conn, scan, &floor, &mut found, &mut names).await?;
    // Nothing is below the floor but what was just looked at.
    ahead(conn, scan, scan.after.max(floor.passed), is_past, &mut found, &mut names).await?;
    if !hosted::missing(conn, [scan.partition]).await?.is_empty() {
        return Ok(None);
    }
    floors.forget(scan.partition, &over);
    Ok(Some(found))
}

/// Moves the floor, and reads what waits after it: in one round trip if the walk is short and nothing was left
/// behind, as in nearly all reads of an engine with little load.
async fn from_the_beginning(
    conn: &mut MySqlConnection,
    floors: &Floors,
    scan: &Scan,
    is_past: bool,
) -> sqlx::Result<Option<Vec<HotEntry>>> {
    let mut look = floors.begin(scan.partition);
    let page = match look.short_walk() {
        Some(walk) => match walk_and_read(conn, &mut look, &walk, scan, is_past).await? {
            Some(page) => page,
            None => return Ok(None),
        },
        None => {
            look.walk(conn).await?;
            RowsAfterFloor::Unread
        }
    };
    let floor = look.begins_at();
    let is_whole = floor.left.is_empty() && matches!(page, RowsAfterFloor::Whole(_));
    let (mut found, mut names) = (Vec::new(), Names::default());
    let over = behind(conn, scan, floor, &mut found, &mut names).await?;
    match page {
        RowsAfterFloor::Whole(rows) => {
            let left = scan.limit - found.len();
            add(&mut found, rows.get(..left).unwrap_or(&rows), scan, &mut names)?;
        }
        RowsAfterFloor::From(due_at) => {
            let after = Some((due_at.plus(-1), i64::MAX));
            ahead(conn, scan, after, false, &mut found, &mut names).await?;
        }
        RowsAfterFloor::Unread => ahead(conn, scan, floor.passed, is_past, &mut found, &mut names).await?,
    }
    if !is_whole && !hosted::missing(conn, [scan.partition]).await?.is_empty() {
        return Ok(None);
    }
    floors.keep(look);
    floors.forget(scan.partition, &over);
    Ok(Some(found))
}

/// The rows after the floor, which were read together with the walk.
enum RowsAfterFloor {
    /// All rows, as far as the scan goes.
    Whole(Vec<MySqlRow>),
    /// The due time of the first row.
    From(Millis),
    Unread,
}

/// The walk, what comes after it, and whether the partition is still in this database. `None` if it is not.
async fn walk_and_read(
    conn: &mut MySqlConnection,
    look: &mut FullScan,
    walk: &str,
    scan: &Scan,
    is_past: bool,
) -> sqlx::Result<Option<RowsAfterFloor>> {
    let page = page_text(look, scan, is_past);
    let here = hosted::here_text(&[scan.partition].into());
    let answers = hosted::answers(conn, format!("{walk};\n{page};\n{here}"));
    let Ok([walked, page, here]) = <[Vec<MySqlRow>; 3]>::try_from(answers.await?) else {
        return Err(sqlx::Error::RowNotFound);
    };
    if here.is_empty() {
        return Ok(None);
    }
    Ok(Some(match look.walked(&walked)? {
        false => RowsAfterFloor::Unread,
        true if !is_past => RowsAfterFloor::Whole(page),
        true => match page.first() {
            Some(first) => RowsAfterFloor::From(row::millis(first, 0)?),
            None => RowsAfterFloor::Whole(Vec::new()),
        },
    }))
}

/// The text that reads what comes after a short walk: the rows, or, if most of the range is finished, the due time of
/// the first of them.
fn page_text(look: &FullScan, scan: &Scan, is_past: bool) -> String {
    let (number, after) = (i64::from(row::partition_no(scan.partition)), look.after_short_walk().0);
    if is_past {
        with_numbers(sql!(scan, find_first), &[number, after.0, scan.until.0])
    } else {
        with_numbers(sql!(scan, scan), &[number, after.0, scan.until.0, rows(scan.limit)])
    }
}

/// Scans in one round trip: the partitions of this database in which a short walk leaves nothing behind, and those that
/// continue ahead of the present, as in nearly all reads of an engine with little load. `None` if a scan needs a read of its own; nothing is
/// remembered of this one.
pub(crate) async fn scan_together(
    conn: &mut MySqlConnection,
    floors: &Floors,
    scans: &[&Scan],
) -> sqlx::Result<Vec<Option<Vec<HotEntry>>>> {
    let mut found: Vec<Option<Vec<HotEntry>>> = scans.iter().map(|_| None).collect();
    let (mut text, mut parts, mut wanted) = (String::new(), Vec::new(), BTreeSet::new());
    for (nth, scan) in scans.iter().enumerate() {
        let part = match scan.after {
            None => beginning_text(floors, scan, &mut text),
            Some(after) => continued_text(floors, scan, after, &mut text),
        };
        if let Some(part) = part {
            wanted.insert(scan.partition);
            parts.push((nth, *scan, part));
        }
    }
    if parts.is_empty() {
        return Ok(found);
    }
    text.push_str(&hosted::here_text(&wanted));
    let mut answers = hosted::answers(conn, text).await?;
    let here = answers.pop().unwrap_or_default();
    let here: BTreeSet<Partition> =
        here.iter().map(|row| row::partition(row, 0)).collect::<sqlx::Result<_>>()?;
    if answers.len() != 2 * parts.len() {
        return Err(sqlx::Error::RowNotFound);
    }
    for ((nth, scan, part), answer) in parts.into_iter().zip(answers.chunks(2)) {
        let ([first, page], Some(rows)) = (answer, found.get_mut(nth)) else { continue };
        let mut read = Vec::new();
        match part {
            TogetherPart::Beginning { mut look, is_past } => {
                let is_reached = look.walked(first)?;
                let is_whole =
                    is_reached && look.begins_at().left.is_empty() && (!is_past || page.is_empty());
                if !is_whole || !here.contains(&scan.partition) {
                    continue;
                }
                floors.keep(look);
            }
            TogetherPart::Continued if here.contains(&scan.partition) => {
                add(&mut read, first, scan, &mut Names::default())?;
            }
            TogetherPart::Continued => continue,
        }
        add(&mut read, page, scan, &mut Names::default())?;
        read.truncate(scan.limit);
        *rows = Some(read);
    }
    Ok(found)
}

/// What is asked of one partition, in two statements.
enum TogetherPart {
    Beginning { look: FullScan, is_past: bool },
    Continued,
}

fn beginning_text(floors: &Floors, scan: &Scan, text: &mut String) -> Option<TogetherPart> {
    let mut look = floors.begin(scan.partition);
    if !look.begins_at().left.is_empty() {
        return None;
    }
    let walk = look.short_walk()?;
    let is_past = floors.is_past(scan.until);
    let _ = write!(text, "{walk};\n{};\n", page_text(&look, scan, is_past));
    Some(TogetherPart::Beginning { look, is_past })
}

/// The rest of the instant, and what comes after it. None: it is not ahead of the present and of all that the floor has left behind.
fn continued_text(floors: &Floors, scan: &Scan, after: Key, text: &mut String) -> Option<TogetherPart> {
    let left = floors.of(scan.partition).left;
    if floors.is_past(after.0) || after.1 == i64::MAX || left.last().is_some_and(|last| *last > after) {
        return None;
    }
    let (number, limit) = (i64::from(row::partition_no(scan.partition)), rows(scan.limit));
    let instant = with_numbers(sql!(scan, scan_instant), &[number, after.0.0, after.1, limit]);
    let page = with_numbers(sql!(scan, scan), &[number, after.0.0, scan.until.0, limit]);
    let _ = write!(text, "{instant};\n{page};\n");
    Some(TogetherPart::Continued)
}

/// Reads what the floor has left behind and still waits. Returns the keys of those that are over.
async fn behind(
    conn: &mut MySqlConnection,
    scan: &Scan,
    floor: &Floor,
    found: &mut Vec<HotEntry>,
    names: &mut Names,
) -> sqlx::Result<BTreeSet<Key>> {
    let (rows, over) = floor.behind(conn, scan.partition, scan.after).await?;
    add(found, &rows, scan, names)?;
    found.retain(|entry| entry.state.is_waiting() && entry.due_at <= scan.until);
    found.truncate(scan.limit);
    Ok(over)
}

/// Reads what comes after a key, until enough is found.
async fn ahead(
    conn: &mut MySqlConnection,
    scan: &Scan,
    after: Option<Key>,
    is_past: bool,
    found: &mut Vec<HotEntry>,
    names: &mut Names,
) -> sqlx::Result<()> {
    let partition = row::partition_no(scan.partition);
    let left = scan.limit - found.len();
    // After the last id of an instant there is nothing of it.
    if let Some((due_at, id)) = after.filter(|pair| left > 0 && pair.0 <= scan.until && pair.1 < i64::MAX) {
        let rest = sqlx::query(sql!(scan, scan_instant)).bind(partition).bind(due_at.0).bind(id);
        add(found, &rest.bind(rows(left)).fetch_all(&mut *conn).await?, scan, names)?;
    }
    let left = scan.limit - found.len();
    let mut after = after.map_or(Millis(-1), |pair| pair.0);
    if is_past && left > 0 && after < scan.until {
        let first =
            sqlx::query_scalar(sql!(scan, find_first)).bind(partition).bind(after.0).bind(scan.until.0);
        let first: Option<i64> = first.fetch_optional(&mut *conn).await?;
        after = first.map_or(scan.until, |first| Millis(first).plus(-1));
    }
    if left > 0 && after < scan.until {
        let page = sqlx::query(sql!(scan, scan)).bind(partition).bind(after.0).bind(scan.until.0);
        add(found, &page.bind(rows(left)).fetch_all(conn).await?, scan, names)?;
    }
    Ok(())
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn add(found: &mut Vec<HotEntry>, rows: &[MySqlRow], scan: &Scan, names: &mut Names) -> sqlx::Result<()> {
    for row in rows {
        found.push(hot_entry(row, scan, names)?);
    }
    Ok(())
}

/// Columns of `scan` in scan.sql.
fn hot_entry(row: &MySqlRow, scan: &Scan, names: &mut Names) -> sqlx::Result<HotEntry> {
    let execute_at = row::millis(row, 9)?;
    let deadline_ms: Option<i64> = row.try_get(10)?;
    let fired_at: Option<i64> = row.try_get(12)?;
    Ok(HotEntry {
        place: TaskRef { partition: scan.partition, due_at: row::millis(row, 1)?, id: row.try_get(0)? },
        due_at: row::millis(row, 2)?,
        fence: row.try_get(3)?,
        queue: names.queue(row, 4, 5)?,
        priority: row::priority(row, 6)?,
        task_id: row.try_get(7)?,
        task_version: row.try_get(8)?,
        deadline_at: deadline_ms.map_or(Millis::MAX, |deadline_ms| execute_at.plus(deadline_ms)),
        state: row::state(row, 11)?,
        fired_at: fired_at.map_or(Millis::ZERO, Millis),
        attempt: row::small(row, 13)?,
        details: Arc::new(Details {
            kind: Some(names.kind(row, 15)?),
            demands: row::demands(row, 14)?,
            ask: ask(row, execute_at)?.map(Arc::new),
        }),
    })
}

/// Returns `None` if the payload is not in the row, or the rest is too long to be copied.
fn ask(row: &MySqlRow, execute_at: Millis) -> sqlx::Result<Option<Ask>> {
    let Some(bytes) = row.try_get::<Option<Vec<u8>>, _>(17)? else { return Ok(None) };
    let ask = Ask {
        payload: row::content_of(row, 16, bytes)?,
        max_attempts: row::small(row, 18)?,
        execute_at,
        timeout_ms: row.try_get(19)?,
        labels: row::labels(row, 20)?,
        traceparent: row.try_get(21)?,
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

    fn queue(&mut self, row: &MySqlRow, namespace: usize, queue: usize) -> sqlx::Result<Arc<QueueKey>> {
        let (wanted_namespace, wanted_queue): (&str, &str) = (row.try_get(namespace)?, row.try_get(queue)?);
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

    fn kind(&mut self, row: &MySqlRow, at: usize) -> sqlx::Result<Name> {
        let wanted: &str = row.try_get(at)?;
        let known = self.kinds.iter().rev().take(Self::REMEMBERED).find(|kind| kind.as_str() == wanted);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let new = row::name(row, at)?;
        self.kinds.push(new.clone());
        Ok(new)
    }
}
