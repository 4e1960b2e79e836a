//! Reports what a run would do with the old buckets, and why some stay. Reads every row of them, in pieces; changes
//! nothing.

use super::{
    calendar::TimeBucket,
    contents::{BucketContents, BucketVerdict},
    look::PIECE_ROWS,
    options::{BucketOptions, hours},
    row_key::RowKey,
    session::Session,
};
use crate::mysql::connections::Connections;
use punctual_domain::time::Millis;

/// An old bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSurvey {
    /// Number of its database.
    pub shard: u16,
    pub name: String,
    pub ends_at: Millis,
    pub rows: u64,
    /// Tasks that are not finished: carried over.
    pub unfinished: u64,
    /// Finished tasks whose retention lasts: carried over, too.
    pub retained: u64,
    /// Successes whose retention is over and that are to be stopped first, which the engine does by itself.
    pub stopping: u64,
    /// `None` if the next run drops the bucket.
    pub kept_because: Option<&'static str>,
}

pub(super) async fn survey(
    pool: &Connections,
    options: BucketOptions,
    shard: u16,
    now: Millis,
) -> sqlx::Result<Vec<BucketSurvey>> {
    let mut session = Session::beside(pool).await?;
    let surveyed = buckets(&mut session, options, shard, now).await;
    session.close().await;
    surveyed
}

async fn buckets(
    session: &mut Session,
    options: BucketOptions,
    shard: u16,
    now: Millis,
) -> sqlx::Result<Vec<BucketSurvey>> {
    let latest_end = now.0.saturating_sub(hours(options.keep_hours.max(1)));
    let mut surveyed = Vec::new();
    for bucket in session.buckets().await? {
        let Some(ends_at) = bucket.ends_at.filter(|end| *end <= latest_end) else { continue };
        let BucketContents { rows, unfinished, retained, stopping } = contents(session, &bucket, now).await?;
        let found = BucketContents { rows, unfinished, retained, stopping };
        let kept_because = because(found.verdict(options.carry_rows));
        let ends_at = Millis(ends_at);
        let name = bucket.name;
        surveyed.push(BucketSurvey {
            shard,
            name,
            ends_at,
            rows,
            unfinished,
            retained,
            stopping,
            kept_because,
        });
    }
    Ok(surveyed)
}

async fn contents(session: &mut Session, bucket: &TimeBucket, now: Millis) -> sqlx::Result<BucketContents> {
    let (mut whole, mut after) = (BucketContents::default(), RowKey::START);
    loop {
        let end = session.piece(bucket, after, PIECE_ROWS).await?;
        whole.add(session.count(bucket, (after, end.unwrap_or(RowKey::END)), now).await?);
        let Some(end) = end else { return Ok(whole) };
        after = end;
    }
}

const fn because(verdict: BucketVerdict) -> Option<&'static str> {
    match verdict {
        BucketVerdict::Empty | BucketVerdict::AllOver | BucketVerdict::Carry => None,
        BucketVerdict::Stopping => {
            Some("retention has not stopped its successes yet; the engine does that by itself")
        }
        BucketVerdict::Needed => Some("too many of its tasks are unfinished or kept to be carried over"),
    }
}
