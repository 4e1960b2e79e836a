//! Ends retention in bounded batches, on a walk through the key of `task`: no index says whose time is over. Deletes
//! nothing that still had to happen: only finished tasks have a time to be forgotten, and a success becomes stopped
//! first. What is left over in whole buckets is dropped with them, elsewhere.
//!
//! In a database that has archives nothing is deleted here, by no engine, whatever its settings: what is over stays until
//! its bucket is exported. Only what is over long before its time (cancelled, mostly) is moved to the present, so that it
//! does not wait for a bucket that is years away.

use super::{
    archive::PLACE,
    density::Density,
    job::Retire,
    ledger::Ledger,
    moves::{From, Moves},
    place::{self, Rows, Spotted},
    row,
    statements::bind,
    statements_moves as sql,
};
use punctual_contract::store::Retired;
use punctual_domain::{
    history::Note,
    place::{Partition, TaskRef},
    state::{Event, State},
    time::Millis,
};
use sqlx::{
    MySqlConnection, Row as _,
    mysql::{MySqlArguments, MySqlRow},
};
use std::collections::BTreeSet;

/// Who it was, in the history of what it stopped.
const BY: &str = "watcher";
/// Rows that one call looks at: so many for each that it may retire, and at least so many, so that a small store is
/// always looked at from end to end.
const LOOKS_PER_ROW: usize = 4;
const LOOKS_MIN: usize = 2_000;
/// Rows of one statement of the walk.
const CHUNK_ROWS: usize = 1_000;
/// Where there are archives: what is over and due later than this is moved to the present. What is due earlier is as
/// well off where it stands.
const AHEAD_MS: i64 = 24 * 3_600_000;

pub(crate) async fn retire(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    density: &Density,
    open: &BTreeSet<Partition>,
    Retire { now, stopped_until, limit }: Retire,
) -> sqlx::Result<Retired> {
    if limit == 0 {
        return Ok(Retired::default());
    }
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    sqlx::query(sql::REPLIES_OVER).bind(now.0).bind(most).execute(&mut *conn).await?;
    let Began { cursor: began, has_archives } = began(conn).await?;
    // Without archives, whenever it was due.
    let over_after = if has_archives { now.plus(AHEAD_MS) } else { Millis(i64::MIN) };
    let walk = Walk::new((now, over_after, limit), began, open).walk(conn).await?;
    if walk.cursor != began {
        keep_cursor(conn, walk.cursor).await?;
    }
    let rows = end(conn, ledger, density, now, stopped_until, &walk.over).await?;
    let mut retired = Retired { stopped: rows.stopped, deleted: 0 };
    if has_archives {
        let ahead: Vec<TaskRef> =
            rows.over.iter().map(|it| it.0).filter(|it| it.due_at > over_after).collect();
        place::carry(conn, &ahead, now).await?;
    } else {
        retired.deleted = rows.over.len();
        delete(conn, ledger, &rows.over).await?;
    }
    Ok(retired)
}

/// What became of the rows of a walk, and what is to be done with those that are over for good; they are locked.
#[derive(Default)]
struct Ended {
    stopped: usize,
    over: Vec<(TaskRef, Box<str>, Box<str>, State)>,
}

/// Stops the successes that are still over when they are locked, and finds the others.
async fn end(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    density: &Density,
    now: Millis,
    stopped_until: Millis,
    over: &[TaskRef],
) -> sqlx::Result<Ended> {
    let mut ended = Ended::default();
    let mut moves = Moves::new(density, now);
    let note = Note { by: BY.to_owned(), ..Note::default() };
    for it in place::find(conn, sql::OVER, over).await?.rows.into_iter().flatten() {
        let Over { namespace, queue, from, attempt } = match over_at(&it, now)? {
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

struct Over<'r> {
    namespace: &'r str,
    queue: &'r str,
    from: From,
    attempt: i64,
}

/// Columns of retire/over.sql. None: it was brought back to life, or is kept for longer now.
fn over_at(it: &Spotted, now: Millis) -> sqlx::Result<Option<Over<'_>>> {
    let Spotted { place, row } = it;
    let state: State = row::state(row, 4)?;
    let keep_until: Option<i64> = row.try_get(7)?;
    if !state.is_finished() || keep_until.is_none_or(|it| it > now.0) {
        return Ok(None);
    }
    let from = From { place: *place, fence: row.try_get(5)?, state };
    Ok(Some(Over { namespace: row.try_get(2)?, queue: row.try_get(3)?, from, attempt: row.try_get(6)? }))
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
    }
    if rows.len() > 0 {
        sqlx::query(sql::DELETE).bind(rows.json()).execute(conn).await?;
    }
    ledger.deleted(i64::try_from(over.len()).unwrap_or(i64::MAX));
    Ok(())
}

/// A walk goes on where the last one stopped, and from the beginning when it comes to the end.
struct Walk<'o> {
    now: Millis,
    /// Of finished tasks that are no successes, only those due later than this count.
    over_after: Millis,
    limit: usize,
    looks: usize,
    began: Option<TaskRef>,
    /// The last row that was passed for good; None: the beginning.
    cursor: Option<TaskRef>,
    over: Vec<TaskRef>,
    /// What else is met are copies, or is about to leave: not here to be retired.
    open: &'o BTreeSet<Partition>,
}

/// What stops a walk before its rows are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Through,
    /// Over the place where the walk began.
    Round,
    /// To more than may be retired: what follows is left for the next walk.
    Short,
}

impl<'o> Walk<'o> {
    fn new(
        (now, over_after, limit): (Millis, Millis, usize),
        began: Option<TaskRef>,
        open: &'o BTreeSet<Partition>,
    ) -> Self {
        let looks = limit.saturating_mul(LOOKS_PER_ROW).max(LOOKS_MIN);
        Self { now, over_after, limit, looks, began, cursor: began, over: Vec::new(), open }
    }

    async fn walk(mut self, conn: &mut MySqlConnection) -> sqlx::Result<Self> {
        let mut again = false;
        while self.looks > 0 {
            let rows = self.looks.min(CHUNK_ROWS);
            let looked = chunk(conn, (self.over_after, self.now), self.cursor, rows).await?;
            self.looks -= looked.len();
            let came = self.pass(&looked, again);
            if came == Came::Short {
                break;
            }
            let at_end = looked.len() < rows;
            self.cursor = looked.last().filter(|_| !at_end).map(|it| it.place);
            if came == Came::Round || (at_end && (again || self.began.is_none())) {
                break;
            }
            again |= at_end;
        }
        Ok(self)
    }

    fn pass(&mut self, looked: &[Looked], again: bool) -> Came {
        for it in looked {
            if again && self.began.is_some_and(|began| it.place > began) {
                return Came::Round;
            }
            let is_over = it.is_over && self.open.contains(&it.place.partition);
            if is_over && self.over.len() == self.limit {
                return Came::Short;
            }
            self.over.extend(is_over.then_some(it.place));
        }
        Came::Through
    }
}

#[derive(Clone, Copy, Debug)]
struct Looked {
    place: TaskRef,
    is_over: bool,
}

/// Rows after a place, in the order of the key.
async fn chunk(
    conn: &mut MySqlConnection,
    (over_after, now): (Millis, Millis),
    after: Option<TaskRef>,
    limit: usize,
) -> sqlx::Result<Vec<Looked>> {
    let mut looked = Vec::new();
    let partition = after.map_or(-1, |it| row::partition_no(it.partition));
    if let Some(it) = after {
        let walk = sqlx::query(sql::WALK).bind(over_after.0).bind(now.0).bind(partition).bind(it.due_at.0);
        let walk = walk.bind(partition).bind(it.due_at.0).bind(it.id).bind(rows(limit));
        add(&mut looked, &walk.fetch_all(&mut *conn).await?)?;
    }
    let left = limit - looked.len().min(limit);
    if left > 0 {
        let walk = sqlx::query(sql::WALK_ON).bind(over_after.0).bind(now.0).bind(partition).bind(rows(left));
        add(&mut looked, &walk.fetch_all(conn).await?)?;
    }
    Ok(looked)
}

fn add(looked: &mut Vec<Looked>, rows: &[MySqlRow]) -> sqlx::Result<()> {
    for it in rows {
        let place =
            TaskRef { partition: row::partition(it, 0)?, due_at: row::millis(it, 1)?, id: it.try_get(2)? };
        looked.push(Looked { place, is_over: it.try_get::<Option<i64>, _>(3)? == Some(1) });
    }
    Ok(())
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Names of the cursor's parts in `meta`: it is kept in the database, so that a restart does not begin again.
const CURSOR: [&str; 3] = ["walk_partition", "walk_due_at", "walk_id"];

/// What `meta` says when a walk begins, in the transaction of the walk.
struct Began {
    cursor: Option<TaskRef>,
    has_archives: bool,
}

async fn began(conn: &mut MySqlConnection) -> sqlx::Result<Began> {
    let (mut parts, mut has_archives) = ([None; 3], false);
    for it in sqlx::query(sql::CURSOR).fetch_all(conn).await? {
        let name: &str = it.try_get(0)?;
        has_archives |= name == PLACE;
        if let Some((_, part)) = CURSOR.iter().zip(&mut parts).find(|(known, _)| **known == name) {
            *part = Some(it.try_get::<i64, _>(1)?);
        }
    }
    let [Some(partition), Some(due_at), Some(id)] = parts else {
        return Ok(Began { cursor: None, has_archives });
    };
    let partition = u16::try_from(partition).ok().map(Partition);
    let cursor = partition.map(|partition| TaskRef { partition, due_at: Millis(due_at), id });
    Ok(Began { cursor, has_archives })
}

/// No cursor is a partition that there is not.
async fn keep_cursor(conn: &mut MySqlConnection, cursor: Option<TaskRef>) -> sqlx::Result<()> {
    let parts = cursor.map_or([-1; 3], |it| [i64::from(it.partition.0), it.due_at.0, it.id]);
    let rows: Vec<_> = CURSOR.iter().zip(parts).collect();
    for (part, text) in sql::CURSOR_KEEP.parts(&rows) {
        let mut values = MySqlArguments::default();
        for (name, value) in part {
            bind!(values, **name, *value);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}
