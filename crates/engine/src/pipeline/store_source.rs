//! Step 3 where no hot set gives what is due: the owner of a partition drains it from the store. So does an embedded engine, always;
//! one without any Redis; and one whose Redis is unavailable. Order of steps, and what a crash, a hang or a cut between two of them leaves:
//!
//! 1. *Read ahead.* Rows of the partition behind its watermark are read, until `REACHABILITY_MS` ahead; with a new tenure, and when the hot
//!    set has just gone away, from the oldest on. Changes no row. Crash, or no answer: the watermark is where it stood. What this
//!    engine inserts or changes within its reach it puts into the table itself (`intake`), a crash before that leaves it to the
//!    next tenure, and a lost answer of the store to the refill's look at what is overdue.
//! 2. *Taken in.* What the table does not know comes into it, and its instant on the wheel; what it knows with this fence is
//!    refused, whichever source had it before. Crash: the next owner reads it again. Only then does the watermark move.
//! 3. *Looked back.* What another engine has inserted or changed behind the watermark nobody can announce: each run reads what is due
//!    now once more. What it misses, because it was committed long after it was due, the refill's look at what is overdue finds. An
//!    engine that shares its store with none has nothing to look for.
//! 4. *Fired* at its instant by the wheel, as with a hot set (`fire`): the table decides between that and a cancel at this engine,
//!    and the store's conditional update between it and everything else. Crash: `scheduled`, for the next owner to fire.
//! 5. *Served* to executors of this engine from the table (`line`), in its order or, when a limit, a version or a kind lets
//!    it go, from its lane beside it. Crash: the same.
//! 6. *Marked* as `ready`, where it is not handed over within `mark_ready::FOR_OTHERS_MS` and other engines live: these read it in
//!    the store, and serve their executors with it (`from_store::others`). Crash: each of them has it. Whoever leases it first has
//!    it; the others are refused by its fence.
//!
//! Must not decide what fires, and moves no row itself.

pub(crate) mod state;

use crate::{
    control,
    core::Core,
    live::Overdue,
    options::STEP_LIMIT,
    parts,
    pipeline::{intake, refill},
};
use hashbrown::HashSet;
use punctual_contract::{Error, hot::HotEntry, ownership::Tenure, store::Scan};
use punctual_domain::time::Millis;
use state::{Key, Watermark};
use std::sync::Arc;

/// So far ahead it is read: a little less far than what is inserted here comes into the table at once, because an insert may look at
/// the clock a moment before a read that is done first, and time may be set back a little.
const REACHABILITY_MS: i64 = intake::NEAR_MS - 1_000;
/// Once less than this is left.
const REACH_LEFT_MS: i64 = REACHABILITY_MS / 2;
/// A new tenure reads a little less far, each partition of it by another number of these: their next reads do not fall together.
const APART_MS: i64 = 500;
const APART_MAX: i64 = (REACHABILITY_MS - REACH_LEFT_MS) / APART_MS;
/// The look back begins so long before the present, and ends so long after it: several periods.
const BACK_MS: i64 = 500;
const SOON_MS: i64 = 200;
/// Pages of one partition in one run; the next continues there.
const PAGES: usize = 10;
/// With so many in the table that have not fired, only what is about to fire is read.
const WAITING_MAX: usize = 500_000;

/// Entries that are new in the table.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    // Nothing comes into the table before it is known which queues are scanned.
    control::loaded(core).await?;
    parts::each(core, "from_store", parts::PATIENCE, drain_part).await
}

/// What others insert and change in this engine's partitions and cannot announce, while the hot set has what is due. Entries that are
/// new in the table.
pub(crate) async fn look_back_everywhere(core: &Arc<Core>) -> Result<usize, Error> {
    control::loaded(core).await?;
    parts::each(core, "look_back", parts::PATIENCE, look_back_part).await
}

async fn look_back_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (mut found, mut result) = (0, Ok(()));
    for partition in parts::owned(&core, part) {
        let Some(tenure) = core.holdings.tenure(partition) else { continue };
        let before = core.from_store.watermarks.of(tenure);
        let mut mark = before;
        match look_back(&core, tenure, &mut mark).await {
            Ok(count) => found += count,
            Err(error) => result = Err(error),
        }
        core.from_store.watermarks.remember(partition, before, mark);
    }
    result.map(|()| found)
}

async fn drain_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (mut drained, mut result) = (0, Ok(()));
    for partition in parts::owned(&core, part) {
        let Some(tenure) = core.holdings.tenure(partition) else { continue };
        if let Err(error) = drain(&core, tenure, &mut drained).await {
            result = Err(error);
        }
    }
    result.map(|()| drained)
}

/// What is due soonest comes first.
async fn drain(core: &Arc<Core>, tenure: Tenure, drained: &mut usize) -> Result<(), Error> {
    let marks = &core.from_store.watermarks;
    let mut mark = marks.of(tenure);
    if core.from_store.others_write && mark.read_to.is_some() {
        let before = mark;
        *drained += look_back(core, tenure, &mut mark).await?;
        marks.remember(tenure.partition, before, mark);
    }
    let apart = if mark.read_to.is_none() { i64::from(tenure.partition.0) % APART_MAX } else { 0 };
    let Some(reach_ms) = reach_ms(mark.read_to, core.live.lock().len(), apart, core.now()) else {
        return Ok(());
    };
    for _ in 0..PAGES {
        let before = marks.of(tenure);
        // After that: by a clock that is set back meanwhile, no watermark is moved.
        let now = core.now();
        let until = now.plus(reach_ms);
        let page = Scan { partition: tenure.partition, until, after: before.read_to, limit: STEP_LIMIT };
        let (count, next) = take_page(core, page, now).await?;
        *drained += count;
        marks.remember(tenure.partition, before, before.read_until(next.unwrap_or((until, i64::MAX))));
        if next.is_none() {
            break;
        }
    }
    Ok(())
}

/// How far ahead is read now. None: there is enough before the watermark. With too many in the table, what is about to fire comes all the
/// same: it leaves the table when it has.
fn reach_ms(read_to: Option<Key>, waiting: usize, apart: i64, now: Millis) -> Option<i64> {
    let (reach_ms, left_ms) = match waiting {
        WAITING_MAX.. => (SOON_MS, SOON_MS),
        _ => (REACHABILITY_MS - apart * APART_MS, REACH_LEFT_MS),
    };
    let is_far = read_to.is_some_and(|read_to| read_to.0 >= now.plus(left_ms));
    (!is_far).then_some(reach_ms)
}

/// Once more what is due now, as far as it lies behind the watermark.
async fn look_back(core: &Arc<Core>, tenure: Tenure, mark: &mut Watermark) -> Result<usize, Error> {
    let (now, mut found) = (core.now(), 0);
    let until = now.plus(SOON_MS);
    // However long ago the last look was, nothing lies between the two; the refill has what is older.
    let begin =
        mark.looked_until.map_or(now, |looked_until| looked_until.clamp(now.plus(-REACHABILITY_MS), now));
    for _ in 0..PAGES {
        let after = Some(mark.looked_to.unwrap_or_else(|| (begin.plus(-BACK_MS), i64::MIN)));
        let (count, next) =
            take_again(core, Scan { partition: tenure.partition, until, after, limit: STEP_LIMIT }).await?;
        found += count;
        mark.looked_to = next;
        if next.is_none() {
            mark.looked_until = Some(until);
            break;
        }
    }
    Ok(found)
}

/// The same of a page whose tasks the table has known before. A task of it that was leased since it was read, and has ended, the table
/// knows no more: what is overdue and unknown is read once more after that, and is taken only if it still waits.
async fn take_again(core: &Arc<Core>, page: Scan) -> Result<(usize, Option<Key>), Error> {
    let (now, mut rows) = (core.now(), core.read_waiting(page.clone()).await?);
    let next = next_of(&rows);
    let is_doubtful = {
        let table = core.live.lock();
        rows.retain(|row| matches!(table.overdue(row), Overdue::Unknown));
        rows.iter().any(|row| row.due_at <= now)
    };
    if is_doubtful {
        let unknown: HashSet<(i64, i64)> = rows.iter().map(|row| (row.place.id, row.fence)).collect();
        rows = core.read_waiting(page).await?;
        rows.retain(|row| unknown.contains(&(row.place.id, row.fence)));
    }
    Ok((take(core, rows, Millis::ZERO).await?, next))
}

/// How many of a page are new here, or were offered before an instant; and after which key there may be more. None: that is the end.
async fn take_page(core: &Arc<Core>, page: Scan, before: Millis) -> Result<(usize, Option<Key>), Error> {
    let rows = core.read_waiting(page).await?;
    let next = next_of(&rows);
    Ok((take(core, rows, before).await?, next))
}

fn next_of(rows: &[HotEntry]) -> Option<Key> {
    (rows.len() == STEP_LIMIT).then(|| rows.last().map(HotEntry::key)).flatten()
}

async fn take(core: &Arc<Core>, rows: Vec<HotEntry>, before: Millis) -> Result<usize, Error> {
    let found = refill::bring_back(core, rows, before, |_| true).await?;
    if found > 0 {
        core.from_store.passes_by();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_full_table_what_is_about_to_fire_is_read_all_the_same() {
        let (now, read_to) = (Millis(100_000), |ms| Some((Millis(100_000 + ms), 1)));
        assert_eq!(reach_ms(None, 0, 3, now), Some(REACHABILITY_MS - 3 * APART_MS));
        assert_eq!(reach_ms(read_to(REACH_LEFT_MS), 0, 0, now), None);
        assert_eq!(reach_ms(read_to(REACH_LEFT_MS - 1), 0, 0, now), Some(REACHABILITY_MS));
        assert_eq!(reach_ms(None, WAITING_MAX, 3, now), Some(SOON_MS));
        assert_eq!(reach_ms(read_to(0), WAITING_MAX, 0, now), Some(SOON_MS));
        assert_eq!(reach_ms(read_to(SOON_MS), WAITING_MAX, 0, now), None, "it has been read");
    }
}
