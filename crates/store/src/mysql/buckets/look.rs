//! Looks whether anything in an old bucket is still needed, piece by piece, so that no statement is long. Changes
//! nothing.

use super::{
    calendar::Bucket,
    session::{Place, Session},
};
use punctual_domain::time::Millis;
use std::collections::HashMap;

/// Rows of one piece: tens of milliseconds.
const PIECE_ROWS: u32 = 20_000;

/// By bucket: up to where everything is over. That stays so: nothing but a task that is needed, or one that leaves the
/// bucket, changes any more; and what is swapped out is looked at once more.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<String, Place>);

impl Looks {
    pub(super) fn keep_only(&mut self, buckets: &[Bucket]) {
        self.0.retain(|name, _| buckets.iter().any(|it| it.name == *name));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Empty,
    /// All tasks are finished and their times are over.
    AllOver,
    Needed,
    /// The budget is spent.
    Unknown,
}

/// Spends one of the budget a piece.
pub(super) async fn look(
    session: &mut Session,
    bucket: &Bucket,
    looks: &mut Looks,
    now: Millis,
    budget: &mut u32,
) -> sqlx::Result<Found> {
    if !session.has_rows(bucket).await? {
        return Ok(Found::Empty);
    }
    let mut after = looks.0.get(&bucket.name).copied().unwrap_or(Place::START);
    while *budget > 0 {
        *budget -= 1;
        let end = session.piece(bucket, after, PIECE_ROWS).await?;
        if session.is_needed(bucket, after, end.unwrap_or(Place::END), now).await? {
            return Ok(Found::Needed);
        }
        let Some(end) = end else { return Ok(Found::AllOver) };
        after = end;
        looks.0.insert(bucket.name.clone(), after);
    }
    Ok(Found::Unknown)
}
