//! Ends retention in bounded batches. No index has the end of retention: a small table has the ranges in the key of
//! `task` where something ends, and when (`spans`), the rare task that was finished long before it was due is entered
//! in `lookup` (`ahead`), and a slow walk through the complete key finds what neither has (`walk`). So the work
//! depends on what ends, and not on what waits. Deletes nothing that still had to happen: only finished tasks have an
//! end of retention, and a success becomes stopped first. Complete buckets are dropped elsewhere, with all that is
//! left in them.
//!
//! In a database that has archives nothing is deleted here, by no engine, whatever its settings: what is over stays
//! until its bucket is exported. Only tasks that are over long before their time (cancelled, mostly) are moved to the
//! present, so that they do not wait for a bucket that is years ahead.

mod over;
mod spans;
mod walk;

pub(crate) mod ahead;

use super::{
    archive::state::PLACE,
    job::Retire,
    ledger::Ledger,
    moves::{From, Moves},
    parameters::Rows,
    place::{self, Spotted},
    row,
    statements::{Many, bind, sql},
};
use over::Over;
use punctual_contract::store::Retired;
use punctual_domain::{
    history::Note,
    place::{Partition, TaskRef},
    state::{Event, State},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlArguments};
use std::collections::{BTreeSet, HashMap, HashSet};

static SAVE_CURSOR: Many = Many::new(sql!(retention, save_cursor));

/// The author, in the history of stopped tasks.
const BY: &str = "watcher";
/// With archives: what is over and due later than this is moved to the present. Earlier tasks stay where they are.
const AHEAD_MS: i64 = 24 * 3_600_000;

pub(crate) async fn retire(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    open: &BTreeSet<Partition>,
    Retire { now, stopped_until, limit }: Retire,
) -> sqlx::Result<Retired> {
    if limit == 0 {
        return Ok(Retired::default());
    }
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    sqlx::query(sql!(retention, delete_expired_replies)).bind(now.0).bind(most).execute(&mut *conn).await?;
    let Began { progress: began, has_archives } = began(conn).await?;
    // Without archives, whenever it was due.
    let over_after = if has_archives { now.plus(AHEAD_MS) } else { Millis(i64::MIN) };
    let mut over = Over { limit, places: Vec::new(), ids: HashSet::new(), open };
    // Half of the room is for the others: a mass of tasks that were cancelled must not starve them.
    let (ahead, ahead_has_more) = ahead::look(conn, now, began.ahead, limit.div_ceil(2), &mut over).await?;
    let times = spans::Times { now, stopped_until, over_after };
    let spans_have_more = spans::look(conn, &times, &mut over).await?;
    let walked = walk::walk(conn, (over_after, now), began.walked, &mut over).await?;
    let progress = RetentionProgress { walked, ahead: Some(ahead) };
    if progress != began {
        keep_progress(conn, progress).await?;
    }
    let rows = end(conn, ledger, now, stopped_until, &over.places).await?;
    let has_more = ahead_has_more || spans_have_more;
    let mut retired = Retired { stopped: rows.stopped, deleted: 0, has_more };
    if has_archives {
        let ahead: Vec<TaskRef> =
            rows.over.iter().map(|row| row.0).filter(|place| place.due_at > over_after).collect();
        place::carry(conn, &ahead, now).await?;
    } else {
        retired.deleted = rows.over.len();
        delete(conn, ledger, &rows.over).await?;
    }
    Ok(retired)
}

/// The number of stopped tasks, and the tasks that are over for good, with their places; they are locked.
#[derive(Default)]
struct RetentionResult {
    stopped: usize,
    over: Vec<(TaskRef, Box<str>, Box<str>, State)>,
}

/// Stops the successes that are still over when they are locked, and finds the others.
async fn end(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    now: Millis,
    stopped_until: Millis,
    over: &[TaskRef],
) -> sqlx::Result<RetentionResult> {
    let mut ended = RetentionResult::default();
    let mut moves = Moves::new(now);
    let note = Note { by: BY.to_owned(), ..Note::default() };
    for row in place::find(conn, sql!(retention, lock_expired), over).await?.rows.into_iter().flatten() {
        let Spent { namespace, queue, from, attempt } = match over_at(&row, now)? {
            Some(over) => over,
            None => continue,
        };
        if from.state.after(Event::Retire).is_ok() {
            moves.row(Event::Retire, from, attempt, &note).at(stopped_until);
            moves.send_if_long(conn, Event::Retire).await?;
            // What is finished waits no more.
            ledger.moved((namespace, queue), Some(from.state), Some(Event::Retire.target()), 0);
            ended.stopped += 1;
        } else {
            ended.over.push((from.place, namespace.into(), queue.into(), from.state));
        }
    }
    moves.finish(conn).await?;
    Ok(ended)
}

struct Spent<'r> {
    namespace: &'r str,
    queue: &'r str,
    from: From,
    attempt: i64,
}

/// Reads the columns of `lock_expired` in retention.sql. `None` if the task was revived, or its retention was
/// extended.
fn over_at(spotted: &Spotted, now: Millis) -> sqlx::Result<Option<Spent<'_>>> {
    let Spotted { place, row } = spotted;
    let state: State = row::state(row, 4)?;
    let keep_until: Option<i64> = row.try_get(7)?;
    if !state.is_finished() || keep_until.is_none_or(|keep_until| keep_until > now.0) {
        return Ok(None);
    }
    let from = From { place: *place, fence: row.try_get(5)?, state };
    Ok(Some(Spent { namespace: row.try_get(2)?, queue: row.try_get(3)?, from, attempt: row.try_get(6)? }))
}

async fn delete(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    over: &[(TaskRef, Box<str>, Box<str>, State)],
) -> sqlx::Result<()> {
    let mut rows = Rows::default();
    for (place, namespace, queue, state) in over {
        rows.row(*place);
        ledger.moved((namespace, queue), Some(*state), None, 0);
        ledger.deleted(place.partition, 1);
    }
    if rows.len() > 0 {
        sqlx::query(sql!(retention, delete_finished)).bind(rows.json()).execute(conn).await?;
    }
    Ok(())
}

/// Names of what `meta` keeps of retention, so that a restart does not begin again.
const WALKED: [&str; 3] = ["walk_partition", "walk_due_at", "walk_id"];
const AHEAD: [&str; 2] = ["ahead_slice", "ahead_id"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RetentionProgress {
    /// The last row that the walk passed for good, or `None` means the beginning.
    walked: Option<TaskRef>,
    ahead: Option<ahead::Position>,
}

/// The content of `meta` at the beginning of a call, in its transaction.
struct Began {
    progress: RetentionProgress,
    has_archives: bool,
}

async fn began(conn: &mut MySqlConnection) -> sqlx::Result<Began> {
    let mut values = HashMap::new();
    for row in sqlx::query(sql!(retention, read_cursor)).fetch_all(conn).await? {
        values.insert(row.try_get::<String, _>(0)?, row.try_get::<i64, _>(1)?);
    }
    let [partition, due_at, id] = WALKED.map(|name| values.get(name).copied());
    let partition = partition.and_then(|number| u16::try_from(number).ok()).map(Partition);
    let place = partition.zip(due_at).zip(id);
    let walked = place.map(|((partition, due_at), id)| TaskRef { partition, due_at: Millis(due_at), id });
    let [slice, id] = AHEAD.map(|name| values.get(name).copied());
    let ahead = slice.zip(id).map(|(slice, id)| ahead::Position { slice, id });
    Ok(Began { progress: RetentionProgress { walked, ahead }, has_archives: values.contains_key(PLACE) })
}

/// Stores the progress. Without a walk, the stored place is -1, which is no partition.
async fn keep_progress(conn: &mut MySqlConnection, progress: RetentionProgress) -> sqlx::Result<()> {
    let walked = progress.walked.map_or([-1; 3], |at| [i64::from(at.partition.0), at.due_at.0, at.id]);
    let ahead = progress.ahead.map(|at| [at.slice, at.id]);
    let rows: Vec<_> =
        WALKED.iter().zip(walked).chain(AHEAD.iter().zip(ahead.into_iter().flatten())).collect();
    for (part, text) in SAVE_CURSOR.parts(&rows) {
        let mut values = MySqlArguments::default();
        for (name, value) in part {
            bind!(values, **name, *value);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}
