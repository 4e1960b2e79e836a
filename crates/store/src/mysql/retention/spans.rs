//! The ranges in the key of `task` where something ends, and when. Past due times are divided into spans of about a
//! thousand rows, and each has the time of its next check: when a good part of its finished tasks is over; sooner
//! where some are not finished yet. So a row is read a few times between its end and its deletion, however many
//! others there are, and future tasks are not read (`ahead` has those of them that are finished). Changes no task.
//! Spans are only boundaries: any set of them is right, and the walk finds what they miss.

use super::{super::row, over::Over};
use crate::mysql::statements::{Many, bind, sql};
use punctual_domain::{
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};
use sqlx::{
    MySqlConnection, Row as _,
    mysql::{MySqlArguments, MySqlRow},
};

static SAVE_SPANS: Many = Many::new(sql!(retention, save_spans));

/// The approximate number of rows that one call reads: 30 ms.
const LOOKS: usize = 20_000;
/// The cost of a statement that finds nothing, in rows.
const STATEMENT_ROWS: usize = 20;
/// Rows of a span when it is cut off.
const SPAN_ROWS: usize = 1_000;
/// Spans of one statement.
const PAGE: i64 = 20;
/// The age at which due tasks are put into spans: later inserts before it are rare.
const FIRST_OFFER_MS: i64 = 60_000;
/// The interval of the checks of the last span of a partition, and the age from which fewer rows than a span's leave
/// it.
const LAST_MS: i64 = 60_000;
const LAST_AGE_MS: i64 = 3_600_000;
/// The maximum pause for a span with unfinished tasks: it is checked after as long as they have been due already.
const UNFINISHED_MAX_MS: i64 = 6 * 3_600_000;
/// The pause for a span with finished tasks only: something may have been inserted there, or moved there.
const FINISHED_MS: i64 = 24 * 3_600_000;
/// The number of tasks that must have ended before a span is processed: an eighth of a complete span.
const TOGETHER: usize = SPAN_ROWS / 8;
/// The maximum wait of the first of them, as a part of its retention time, and in absolute terms: a task with a
/// retention of seconds is deleted within a second.
const LATE_PART: i64 = 10;
const LATE_MAX_MS: i64 = 600_000;

pub(super) struct Times {
    pub(super) now: Millis,
    /// The end of retention of tasks that are stopped now.
    pub(super) stopped_until: Millis,
    /// Among finished tasks that are no successes, only those due later than this are ended here.
    pub(super) over_after: Millis,
}

/// Finds what is over in the spans whose time has come. True if there may be more of them.
pub(super) async fn look(
    conn: &mut MySqlConnection,
    times: &Times,
    over: &mut Over<'_>,
) -> sqlx::Result<bool> {
    let open: Vec<i32> = over.open.iter().map(|partition| row::partition_no(*partition)).collect();
    let open = serde_json::to_string(&open).expect("numbers always have a JSON form");
    sqlx::query(sql!(retention, insert_last_spans)).bind(open).execute(&mut *conn).await?;
    let mut looks = LOOKS;
    while looks > 0 && over.left() > 0 {
        let due = sqlx::query(sql!(retention, list_due_spans))
            .bind(times.now.0)
            .bind(PAGE)
            .fetch_all(&mut *conn)
            .await?;
        for row in &due {
            let span = Span { partition: row::partition(row, 0)?, end: (row.try_get(1)?, row.try_get(2)?) };
            if span.look(conn, times, &mut looks, over).await? == Came::Short {
                return Ok(true);
            }
        }
        if due.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A span by its end: due time and id.
#[derive(Clone, Copy, Debug)]
struct Span {
    partition: Partition,
    end: (i64, i64),
}

const LAST: (i64, i64) = (i64::MAX, i64::MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Through,
    /// The call is exhausted: the rest is left for the next call.
    Short,
}

impl Span {
    async fn look(
        self,
        conn: &mut MySqlConnection,
        times: &Times,
        looks: &mut usize,
        over: &mut Over<'_>,
    ) -> sqlx::Result<Came> {
        if !over.open.contains(&self.partition) {
            // Of a partition that has left.
            self.forget(conn).await?;
            return Ok(Came::Through);
        }
        let mut from = self.before(conn).await?;
        loop {
            if *looks == 0 {
                return Ok(Came::Short);
            }
            let rows = self.rows(conn, times.now, from).await?;
            *looks -= (rows.len() + STATEMENT_ROWS).min(*looks);
            let is_cut = rows.len() == SPAN_ROWS;
            let Some(pass) = Pass::of(&rows, self.end, times, over) else { return Ok(Came::Short) };
            let cut_at = pass.cut_at(is_cut, self.end, times.now);
            if let Some(end) = cut_at {
                Self { end, ..self }.keep(conn, pass.look_at(end, times.now)).await?;
                from = end;
            }
            if is_cut && cut_at.is_some() {
                continue;
            }
            if self.end == LAST {
                let look_at = pass.look_at((times.now.0, 0), times.now).min(times.now.plus(LAST_MS));
                self.keep(conn, if cut_at.is_some() { times.now.plus(LAST_MS) } else { look_at }).await?;
            } else if pass.is_empty() {
                self.forget(conn).await?;
            } else {
                self.keep(conn, pass.look_at(self.end, times.now)).await?;
            }
            return Ok(Came::Through);
        }
    }

    /// The beginning of the span: the end of the preceding one.
    async fn before(self, conn: &mut MySqlConnection) -> sqlx::Result<(i64, i64)> {
        let partition = row::partition_no(self.partition);
        let before = sqlx::query(sql!(retention, find_span_before)).bind(partition).bind(self.end.0);
        let before = before.bind(partition).bind(self.end.0).bind(self.end.1).fetch_optional(conn).await?;
        before.map_or(Ok((i64::MIN, i64::MIN)), |row| Ok((row.try_get(0)?, row.try_get(1)?)))
    }

    async fn rows(
        self,
        conn: &mut MySqlConnection,
        now: Millis,
        from: (i64, i64),
    ) -> sqlx::Result<Vec<SpanRow>> {
        let partition = row::partition_no(self.partition);
        let until = if self.end == LAST { now.plus(-FIRST_OFFER_MS).0 } else { self.end.0 };
        let rows = sqlx::query(sql!(retention, list_span_rows)).bind(partition).bind(from.0).bind(until);
        let rows = rows.bind(partition).bind(from.0).bind(from.1);
        let rows = rows.bind(i64::try_from(SPAN_ROWS).unwrap_or(i64::MAX)).fetch_all(conn).await?;
        rows.iter().map(looked).collect()
    }

    async fn keep(self, conn: &mut MySqlConnection, look_at: Millis) -> sqlx::Result<()> {
        for (_, text) in SAVE_SPANS.parts(&[()]) {
            let mut values = MySqlArguments::default();
            bind!(values, row::partition_no(self.partition), self.end.0, self.end.1, look_at.0);
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn forget(self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        let gone = sqlx::query(sql!(retention, delete_span)).bind(row::partition_no(self.partition));
        gone.bind(self.end.0).bind(self.end.1).execute(conn).await?;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct SpanRow {
    place: TaskRef,
    state: State,
    /// The end of retention of a finished task.
    keep_until: Option<Millis>,
}

/// Columns of `list_span_rows` in retention.sql.
fn looked(row: &MySqlRow) -> sqlx::Result<SpanRow> {
    let place =
        TaskRef { partition: row::partition(row, 0)?, due_at: row::millis(row, 1)?, id: row.try_get(2)? };
    let keep_until = row.try_get::<Option<i64>, _>(4)?.map(Millis);
    Ok(SpanRow { place, state: row::state(row, 3)?, keep_until })
}

/// The contents of a span.
#[derive(Debug)]
struct Pass {
    first_due_at: Option<Millis>,
    last: Option<(i64, i64)>,
    has_unfinished: bool,
    /// The ends of retention of the finished tasks.
    over_at: Vec<Millis>,
    /// The latest instant at which the first of them must be found.
    not_after: Millis,
}

impl Pass {
    /// Returns `None` if there is no room for what is over.
    fn of(rows: &[SpanRow], end: (i64, i64), times: &Times, over: &mut Over<'_>) -> Option<Self> {
        let mut pass = Self {
            first_due_at: None,
            last: None,
            has_unfinished: false,
            over_at: Vec::new(),
            not_after: Millis::MAX,
        };
        for row in rows.iter().take_while(|row| (row.place.due_at.0, row.place.id) <= end) {
            pass.first_due_at.get_or_insert(row.place.due_at);
            pass.last = Some((row.place.due_at.0, row.place.id));
            let ends_here = row.state == State::Succeeded || row.place.due_at > times.over_after;
            match row.keep_until {
                None => pass.has_unfinished = true,
                Some(_) if !ends_here => {}
                Some(keep_until) if keep_until > times.now => pass.ends(keep_until, row.place.due_at),
                Some(_) if !over.add(row.place) => return None,
                Some(_) if row.state == State::Succeeded => pass.ends(times.stopped_until, times.now),
                Some(_) => {}
            }
        }
        Some(pass)
    }

    fn ends(&mut self, at: Millis, kept_from: Millis) {
        let late_ms = (at.since(kept_from) / LATE_PART).clamp(0, LATE_MAX_MS);
        self.not_after = self.not_after.min(at.plus(late_ms));
        self.over_at.push(at);
    }

    /// The instant at which so many are over that it is worth while to read all of them again.
    fn next(&self) -> Option<Millis> {
        let mut ends = self.over_at.clone();
        let nth = TOGETHER.min(ends.len().checked_sub(1)?);
        let (_, next, _) = ends.select_nth_unstable(nth);
        Some((*next).min(self.not_after))
    }

    const fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The position where a span is split: after as many rows as one has, or, in the last one, after those that are
    /// old enough.
    fn cut_at(&self, is_cut: bool, end: (i64, i64), now: Millis) -> Option<(i64, i64)> {
        let is_old = || self.first_due_at.is_some_and(|due_at| now.since(due_at) > LAST_AGE_MS);
        self.last.filter(|last| *last < end && (is_cut || (end == LAST && is_old())))
    }

    fn look_at(&self, end: (i64, i64), now: Millis) -> Millis {
        let again_ms = if self.has_unfinished {
            now.since(Millis(end.0)).clamp(FIRST_OFFER_MS, UNFINISHED_MAX_MS)
        } else {
            FINISHED_MS
        };
        let again = now.plus(again_ms);
        self.next().map_or(again, |next| next.min(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_900_000_000_000);

    fn pass(kept_ms: i64, ends: impl Iterator<Item = i64>) -> Pass {
        let mut pass = Pass {
            first_due_at: None,
            last: None,
            has_unfinished: false,
            over_at: Vec::new(),
            not_after: Millis::MAX,
        };
        ends.for_each(|end| pass.ends(NOW.plus(end), NOW.plus(end - kept_ms)));
        pass
    }

    #[test]
    fn those_that_end_one_after_the_other_are_looked_at_together() {
        let (second, hour) = (1_000, 3_600_000);
        assert_eq!(pass(hour, std::iter::empty()).look_at((NOW.0, 0), NOW), NOW.plus(FINISHED_MS));
        let at = |pass: Pass| pass.look_at((NOW.0, 0), NOW).since(NOW);
        assert_eq!(at(pass(hour, [9 * second].into_iter())), 9 * second, "the last of them, at its instant");
        assert_eq!(
            at(pass(24 * hour, (1..=800).map(|nth| nth * second))),
            126 * second,
            "as many as an eighth of a span"
        );
        assert_eq!(
            at(pass(24 * hour, (1..=800).map(|nth| nth * 60 * second))),
            660 * second,
            "at the latest"
        );
        assert_eq!(at(pass(20 * second, (1..=800).map(|nth| nth * second))), 3 * second, "kept for seconds");
    }
}
