//! Looks what is still needed in an old bucket, piece by piece, so that no statement is long, and says what becomes of
//! the bucket. Changes nothing.

use super::{
    calendar::Bucket,
    session::{Place, Session},
};
use punctual_domain::time::Millis;
use std::collections::HashMap;

/// Rows of one piece: tens of milliseconds.
pub(super) const PIECE_ROWS: u32 = 20_000;
/// Tasks that are always few enough to be carried over.
const CARRY_FEW: u64 = 100;
/// And what part of a bucket is: carrying one row costs about as much as keeping ten.
const CARRY_PART: u64 = 10;
/// A bucket in which most is needed is not looked through again at once: its tasks' times last for days.
const AGAIN_AFTER_MS: i64 = 3_600_000;

/// What stands in a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) rows: u64,
    /// Not finished.
    pub(super) unfinished: u64,
    /// Finished, and their times are not over.
    pub(super) retained: u64,
    /// Successes whose time is over, which retention has not come to yet.
    pub(super) stopping: u64,
}

impl Standing {
    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.unfinished += other.unfinished;
        self.retained += other.retained;
        self.stopping += other.stopping;
    }

    pub(super) const fn needed(&self) -> u64 {
        self.unfinished + self.retained
    }

    /// What becomes of the bucket.
    pub(super) fn verdict(&self, carry_rows: u32) -> Verdict {
        let most = (self.rows / CARRY_PART).max(CARRY_FEW).min(carry_rows.into());
        match (self.rows, self.stopping, self.needed()) {
            (0, ..) => Verdict::Empty,
            (_, 1.., _) => Verdict::Stopping,
            (_, 0, 0) => Verdict::AllOver,
            (_, 0, needed) if needed <= most => Verdict::Carry,
            _ => Verdict::Needed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Empty,
    /// All tasks are finished and their times are over.
    AllOver,
    /// All but so few that they can be moved to the present.
    Carry,
    /// It stays for now: retention has not come to it yet.
    Stopping,
    /// It stays: too many of its tasks are needed.
    Needed,
}

/// By bucket, how far it was looked through. What was over there stays over: nothing but a task that is needed, or one
/// that leaves the bucket, changes any more; and what is swapped out is looked at once more.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<String, Look>);

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Place,
    standing: Standing,
    /// Where the first piece begins in which something is needed.
    needed_from: Option<Place>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    Carrying,
    /// Needed, and not to be looked at before this.
    Again(Millis),
}

const BEGIN: Look = Look {
    at: Place::START,
    standing: Standing { rows: 0, unfinished: 0, retained: 0, stopping: 0 },
    needed_from: None,
    stage: Stage::Looking,
};

impl Looks {
    pub(super) fn keep_only(&mut self, buckets: &[Bucket]) {
        self.0.retain(|name, _| buckets.iter().any(|bucket| bucket.name == *name));
    }

    /// From where on something has to be carried over; it is done up to `at`.
    pub(super) fn carrying(&mut self, bucket: &Bucket) -> Option<&mut Place> {
        let look = self.0.get_mut(&bucket.name)?;
        (look.stage == Stage::Carrying).then_some(&mut look.at)
    }

    pub(super) fn forget(&mut self, bucket: &Bucket) {
        self.0.remove(&bucket.name);
    }

    fn keep(&mut self, bucket: &Bucket, look: Look) {
        self.0.insert(bucket.name.clone(), look);
    }
}

/// Spends one of the budget a piece. None: it is spent.
pub(super) async fn look(
    session: &mut Session,
    bucket: &Bucket,
    looks: &mut Looks,
    (now, carry_rows): (Millis, u32),
    budget: &mut u32,
) -> sqlx::Result<Option<Verdict>> {
    if !session.has_rows(bucket).await? {
        return Ok(Some(Verdict::Empty));
    }
    let mut look = looks.0.get(&bucket.name).copied().unwrap_or(BEGIN);
    match look.stage {
        Stage::Carrying => return Ok(Some(Verdict::Carry)),
        Stage::Again(at) if now < at => return Ok(Some(Verdict::Needed)),
        Stage::Again(_) => look = BEGIN,
        Stage::Looking => {}
    }
    while *budget > 0 {
        *budget -= 1;
        let end = session.piece(bucket, look.at, PIECE_ROWS).await?;
        let piece = session.count(bucket, (look.at, end.unwrap_or(Place::END)), now).await?;
        if piece.stopping > 0 {
            // This piece once more at the next run.
            looks.keep(bucket, look);
            return Ok(Some(Verdict::Stopping));
        }
        if piece.needed() > 0 {
            look.needed_from.get_or_insert(look.at);
        }
        look.standing.add(piece);
        look.at = end.unwrap_or(Place::END);
        if end.is_none() {
            return Ok(Some(judged(bucket, looks, look, (now, carry_rows))));
        }
        looks.keep(bucket, look);
    }
    Ok(None)
}

fn judged(bucket: &Bucket, looks: &mut Looks, look: Look, (now, carry_rows): (Millis, u32)) -> Verdict {
    let verdict = look.standing.verdict(carry_rows);
    match verdict {
        Verdict::Carry => {
            let at = look.needed_from.unwrap_or(Place::START);
            looks.keep(bucket, Look { at, stage: Stage::Carrying, ..look });
        }
        Verdict::Needed => {
            let stage = Stage::Again(now.plus(AGAIN_AFTER_MS));
            looks.keep(bucket, Look { stage, ..look });
        }
        Verdict::Empty | Verdict::AllOver | Verdict::Stopping => looks.forget(bucket),
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(rows: u64, unfinished: u64, retained: u64, stopping: u64) -> Standing {
        Standing { rows, unfinished, retained, stopping }
    }

    #[test]
    fn few_are_carried_over_and_many_keep_their_bucket() {
        for (standing, verdict) in [
            (standing(0, 0, 0, 0), Verdict::Empty),
            (standing(10_000_000, 0, 0, 0), Verdict::AllOver),
            (standing(10_000_000, 1, 0, 0), Verdict::Carry),
            (standing(10_000_000, 40_000, 10_000, 0), Verdict::Carry),
            (standing(10_000_000, 40_000, 10_001, 0), Verdict::Needed),
            (standing(5_000, 500, 0, 0), Verdict::Carry),
            (standing(5_000, 400, 101, 0), Verdict::Needed),
            (standing(100, 0, 100, 0), Verdict::Carry),
            (standing(101, 0, 101, 0), Verdict::Needed),
            (standing(1_000, 1, 0, 1), Verdict::Stopping),
        ] {
            assert_eq!(standing.verdict(50_000), verdict, "{standing:?}");
        }
    }
}
