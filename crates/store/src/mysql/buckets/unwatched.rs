//! The safety net under the leases: a slow walk over everything that may be in flight, in pieces, which writes an
//! entry for each task whose lease ended a while ago and that no read has found. Where all is well it finds nothing.
//! An entry is only a hint, so the walk needs no locks and may be interrupted anywhere. Must not change a task.

use super::{calendar::TimeBucket, look::PIECE_ROWS, row_key::RowKey, session::Session};
use punctual_domain::time::Millis;

/// The number of pieces of one run, in each database: half a second of reading at most, and a thousand million rows a
/// day.
const PIECES_PER_RUN: u32 = 40;
/// The time within which the read of ended leases has passed.
const ENDED_BEFORE_MS: i64 = 60_000;
/// The pause from the end of one walk to the beginning of the next.
const REST_MS: i64 = 600_000;
/// Entries of one statement.
const ROWS: u32 = 1_000;

/// The progress of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// The beginning of the bucket in which the walk is.
    begins_at: i64,
    at: RowKey,
    rests_until: Millis,
}

impl Default for Walk {
    fn default() -> Self {
        Self { begins_at: i64::MIN, at: RowKey::START, rests_until: Millis(i64::MIN) }
    }
}

impl Walk {
    /// Continues the walk for a while, and counts the leases that got an entry.
    pub(super) async fn go_on(
        &mut self,
        session: &mut Session,
        now: Millis,
        rewatched: &mut u64,
    ) -> sqlx::Result<()> {
        if now < self.rests_until {
            return Ok(());
        }
        let mut pieces = PIECES_PER_RUN;
        for bucket in session.buckets().await? {
            // Nothing is in flight before its time, but for what is leased a moment ahead of it.
            if bucket.begins_at < self.begins_at || bucket.begins_at > now.plus(REST_MS).0 {
                continue;
            }
            if bucket.begins_at > self.begins_at {
                *self = Self { begins_at: bucket.begins_at, ..Self::default() };
            }
            while self.at < RowKey::END {
                if pieces == 0 {
                    return Ok(());
                }
                pieces -= 1;
                *rewatched += piece(session, &bucket, &mut self.at, now).await?;
            }
        }
        *self = Self { rests_until: now.plus(REST_MS), ..Self::default() };
        Ok(())
    }
}

/// The next piece of a bucket. How many got an entry.
async fn piece(
    session: &mut Session,
    bucket: &TimeBucket,
    at: &mut RowKey,
    now: Millis,
) -> sqlx::Result<u64> {
    let end = session.piece(bucket, *at, PIECE_ROWS).await?.unwrap_or(RowKey::END);
    let ended_before = Millis(now.0.saturating_sub(ENDED_BEFORE_MS));
    let found = session.unwatched(bucket, (*at, end), ended_before, ROWS).await?;
    let is_full = u32::try_from(found.len()).unwrap_or(u32::MAX) >= ROWS;
    *at = found.last().filter(|_| is_full).map_or(end, |place| RowKey::at(*place));
    if found.is_empty() {
        return Ok(0);
    }
    let watched = session.watch(&found).await?;
    tracing::error!(
        watched,
        bucket = bucket.name,
        "tasks in flight had no entry by which the end of their leases is found; they have one now"
    );
    Ok(u64::try_from(watched).unwrap_or(u64::MAX))
}
