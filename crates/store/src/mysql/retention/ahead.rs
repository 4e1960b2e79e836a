//! Tasks that were finished long before they were due (cancelled, mostly): they are among those that wait, where
//! retention does not search. Each is entered in `lookup` under the slice of time in which it is over, by the move
//! that finishes it. An entry is only a hint, and is deleted with its task. Changes nothing.

use super::{super::row, over::Over};
use crate::mysql::{lookup, statements::sql};
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{MySqlConnection, Row as _};

/// A durable format: the slices are parts of the terms in `lookup`.
const SLICE_MS: i64 = 600_000;
/// The maximum time until the due time at which the other searches find a task soon enough.
const AHEAD_MS: i64 = 60_000;
/// The number of slices that one call searches, mostly one every ten minutes.
const SLICES: usize = 100;

/// The position of the search. Everything before this slice, and in it up to this id, has been searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) slice: i64,
    pub(crate) id: i64,
}

const fn slice_of(at: Millis) -> i64 {
    at.0.div_euclid(SLICE_MS)
}

/// The term of a task that was finished at an instant. `None` if the other searches find it.
pub(crate) fn term(due_at: Millis, now: Millis, keep_until: Millis) -> Option<i64> {
    (due_at > now.plus(AHEAD_MS)).then(|| lookup::over(slice_of(keep_until)))
}

/// Finds at most `limit` tasks. Slices are searched when they have ended. Returns true if there may be more.
pub(super) async fn look(
    conn: &mut MySqlConnection,
    now: Millis,
    began: Option<Position>,
    limit: usize,
    over: &mut Over<'_>,
) -> sqlx::Result<(Position, bool)> {
    let present = slice_of(now);
    let mut at = began.unwrap_or(Position { slice: present, id: i64::MIN });
    let mut most = limit.min(over.left());
    for _ in 0..SLICES {
        if at.slice >= present || most == 0 {
            break;
        }
        let page = sqlx::query(sql!(retention, list_ended_early)).bind(lookup::over(at.slice)).bind(at.id);
        let page = page.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&mut *conn).await?;
        for row in &page {
            at.id = row.try_get(2)?;
            // There is room for each of them.
            over.add(TaskRef { partition: row::partition(row, 0)?, due_at: row::millis(row, 1)?, id: at.id });
        }
        if page.len() < most {
            at = Position { slice: at.slice.saturating_add(1), id: i64::MIN };
        }
        most -= page.len().min(most);
    }
    Ok((at, at.slice < present))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_due_long_after_it_was_finished_is_entered() {
        let (now, keep) = (Millis(1_000_000), Millis(9_000_000));
        assert_eq!(term(now.plus(AHEAD_MS), now, keep), None);
        assert_eq!(term(now.plus(AHEAD_MS + 1), now, keep), Some(lookup::over(15)));
        assert_eq!(lookup::over(15), term(Millis::MAX, now, Millis(9_599_999)).unwrap());
        assert_ne!(lookup::over(15), lookup::over(16));
    }
}
