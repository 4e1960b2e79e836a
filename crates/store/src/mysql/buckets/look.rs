//! Scans an old bucket for rows that are still needed, piece by piece, so that no statement is long, and decides
//! about the bucket. Changes nothing.

use super::{
    calendar::TimeBucket,
    contents::{BucketContents, BucketVerdict},
    row_key::RowKey,
    session::Session,
};
use punctual_domain::time::Millis;
use std::collections::HashMap;

/// Rows of one piece: tens of milliseconds.
pub(super) const PIECE_ROWS: u32 = 20_000;
/// The pause before the next scan of a bucket in which most rows are needed: the times of its tasks last for days.
const AGAIN_AFTER_MS: i64 = 3_600_000;

/// The progress of the scans by bucket. What was over stays over: nothing changes any more except a task that is
/// needed, or one that leaves the bucket; and a bucket that is swapped out is checked once more.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<String, BucketScan>);

#[derive(Clone, Copy, Debug)]
struct BucketScan {
    at: RowKey,
    contents: BucketContents,
    /// The beginning of the first piece in which something is needed.
    needed_from: Option<RowKey>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    Carrying,
    /// The bucket is needed, and must not be checked before this instant.
    Again(Millis),
}

const BEGIN: BucketScan = BucketScan {
    at: RowKey::START,
    contents: BucketContents { rows: 0, unfinished: 0, retained: 0, stopping: 0 },
    needed_from: None,
    stage: Stage::Looking,
};

impl Looks {
    pub(super) fn keep_only(&mut self, buckets: &[TimeBucket]) {
        self.0.retain(|name, _| buckets.iter().any(|bucket| bucket.name == *name));
    }

    /// The position from which rows must be moved; they are moved up to `at`.
    pub(super) fn carrying(&mut self, bucket: &TimeBucket) -> Option<&mut RowKey> {
        let look = self.0.get_mut(&bucket.name)?;
        (look.stage == Stage::Carrying).then_some(&mut look.at)
    }

    pub(super) fn forget(&mut self, bucket: &TimeBucket) {
        self.0.remove(&bucket.name);
    }

    fn keep(&mut self, bucket: &TimeBucket, look: BucketScan) {
        self.0.insert(bucket.name.clone(), look);
    }
}

/// Spends one of the budget a piece. `None` if it is spent.
pub(super) async fn look(
    session: &mut Session,
    bucket: &TimeBucket,
    looks: &mut Looks,
    (now, carry_rows): (Millis, u32),
    budget: &mut u32,
) -> sqlx::Result<Option<BucketVerdict>> {
    if !session.has_rows(bucket).await? {
        return Ok(Some(BucketVerdict::Empty));
    }
    let mut look = looks.0.get(&bucket.name).copied().unwrap_or(BEGIN);
    match look.stage {
        Stage::Carrying => return Ok(Some(BucketVerdict::Carry)),
        Stage::Again(at) if now < at => return Ok(Some(BucketVerdict::Needed)),
        Stage::Again(_) => look = BEGIN,
        Stage::Looking => {}
    }
    while *budget > 0 {
        *budget -= 1;
        let end = session.piece(bucket, look.at, PIECE_ROWS).await?;
        let piece = session.count(bucket, (look.at, end.unwrap_or(RowKey::END)), now).await?;
        if piece.stopping > 0 {
            // This piece once more at the next run.
            looks.keep(bucket, look);
            return Ok(Some(BucketVerdict::Stopping));
        }
        if piece.needed() > 0 {
            look.needed_from.get_or_insert(look.at);
        }
        look.contents.add(piece);
        look.at = end.unwrap_or(RowKey::END);
        if end.is_none() {
            return Ok(Some(judged(bucket, looks, look, (now, carry_rows))));
        }
        looks.keep(bucket, look);
    }
    Ok(None)
}

fn judged(
    bucket: &TimeBucket,
    looks: &mut Looks,
    look: BucketScan,
    (now, carry_rows): (Millis, u32),
) -> BucketVerdict {
    let verdict = look.contents.verdict(carry_rows);
    match verdict {
        BucketVerdict::Carry => {
            let at = look.needed_from.unwrap_or(RowKey::START);
            looks.keep(bucket, BucketScan { at, stage: Stage::Carrying, ..look });
        }
        BucketVerdict::Needed => {
            let stage = Stage::Again(now.plus(AGAIN_AFTER_MS));
            looks.keep(bucket, BucketScan { stage, ..look });
        }
        BucketVerdict::Empty | BucketVerdict::AllOver | BucketVerdict::Stopping => looks.forget(bucket),
    }
    verdict
}
