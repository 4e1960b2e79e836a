//! Drain if no hot set delivers due tasks: the owner of a partition drains it from the store. So does an
//! embedded engine, always; one without Redis; and one whose Redis is unavailable. Order of steps, and what a
//! crash, a hang or a cut between two of them leaves:
//!
//! 1. *Read ahead.* Rows of the partition after its watermark are read, up to `READ_AHEAD_MS` ahead. With a new
//!    tenure, and when the hot set has just become unavailable, reading begins at the oldest row. Changes no row.
//!    Crash, or no answer: the watermark is unchanged. This engine itself loads its inserts and changes within that
//!    reach (`intake`); after a crash the next tenure reads them, and after a lost answer of the store the refill's
//!    check of overdue tasks finds them.
//! 2. *Taken in.* Tasks that the table does not know are loaded, and their due times are put on the wheel. A
//!    known fence is refused, whichever source had it first. Crash: the next owner reads it again. Only then
//!    the watermark moves.
//! 3. *Read back.* Inserts and changes of other engines behind the watermark cannot be announced: each run reads due
//!    tasks once more. A task that was committed long after it was due is found by the refill's check of overdue
//!    tasks. An engine that does not share its store skips this.
//! 4. *Fired* by the wheel when due, as with a hot set (`fire`). The table decides between firing and a
//!    cancel at this engine; the store's conditional update decides everything else. Crash: `scheduled`, for
//!    the next owner to fire.
//! 5. *Lined up* for executors of this engine in the table (`line`): in order, or in a lane until a limit, a
//!    version or a kind lets it start. Crash: the same.
//! 6. *Marked* as `ready`, if it is not handed over within `mark_ready::FOR_OTHERS_MS` and other engines
//!    live. They read it in the store, and offer it to their executors (`store_fallback::others`). Crash:
//!    each of them has it. The engine that leases it first gets it; the others are refused by its fence.
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

/// The horizon up to which rows are read. Slightly less than that up to which inserts here are loaded directly: an
/// insert may read the clock shortly before a read that finishes first, and the clock may be set back slightly.
const READ_AHEAD_MS: i64 = intake::NEAR_MS - 1_000;
/// Once less than this is left.
const READ_AHEAD_LEFT_MS: i64 = READ_AHEAD_MS / 2;
/// A new tenure reads slightly less far, each partition by another multiple of this, so that their next reads
/// do not coincide.
const APART_MS: i64 = 500;
const APART_MAX: i64 = (READ_AHEAD_MS - READ_AHEAD_LEFT_MS) / APART_MS;
/// The time before the present at which the second read begins. It ends `SOON_MS` after the present: several periods.
const BACK_MS: i64 = 500;
const SOON_MS: i64 = 200;
/// Pages of one partition in one run; the next continues there.
const PAGES: usize = 10;
/// The number of unfired tasks in the table from which only tasks that are about to fire are read.
const WAITING_MAX: usize = 500_000;

/// Entries that are new in the table.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    // Nothing is loaded into the table before it is known which queues are scanned.
    control::loaded(core).await?;
    parts::each(core, "from_store", parts::PATIENCE, drain_part).await
}

/// Searches this engine's partitions for unannounced inserts and changes of other engines, while the hot set delivers
/// due tasks. Returns the number of entries that are new in the table.
pub(crate) async fn look_back_everywhere(core: &Arc<Core>) -> Result<usize, Error> {
    control::loaded(core).await?;
    parts::each(core, "look_back", parts::PATIENCE, look_back_part).await
}

async fn look_back_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (mut found, mut result) = (0, Ok(()));
    for partition in parts::owned(&core, part) {
        let Some(tenure) = core.holdings.tenure(partition) else { continue };
        let before = core.store_fallback.watermarks.of(tenure);
        let mut mark = before;
        match look_back(&core, tenure, &mut mark).await {
            Ok(count) => found += count,
            Err(error) => result = Err(error),
        }
        core.store_fallback.watermarks.remember(partition, before, mark);
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

/// The tasks that are due first are read first.
async fn drain(core: &Arc<Core>, tenure: Tenure, drained: &mut usize) -> Result<(), Error> {
    let marks = &core.store_fallback.watermarks;
    let mut mark = marks.of(tenure);
    if core.store_fallback.others_write && mark.read_to.is_some() {
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

/// The horizon up to which rows are read now. `None` if enough is read before the watermark. Even with too many tasks
/// in the table, tasks about to fire are read: they leave the table when they fire.
fn reach_ms(read_to: Option<Key>, waiting: usize, apart: i64, now: Millis) -> Option<i64> {
    let (reach_ms, left_ms) = match waiting {
        WAITING_MAX.. => (SOON_MS, SOON_MS),
        _ => (READ_AHEAD_MS - apart * APART_MS, READ_AHEAD_LEFT_MS),
    };
    let is_far = read_to.is_some_and(|read_to| read_to.0 >= now.plus(left_ms));
    (!is_far).then_some(reach_ms)
}

/// Reads due tasks once more, as far as they are behind the watermark.
async fn look_back(core: &Arc<Core>, tenure: Tenure, mark: &mut Watermark) -> Result<usize, Error> {
    let (now, mut found) = (core.now(), 0);
    let until = now.plus(SOON_MS);
    // The looks leave no gap, however long ago the last one was; the refill finds older tasks.
    let begin =
        mark.looked_until.map_or(now, |looked_until| looked_until.clamp(now.plus(-READ_AHEAD_MS), now));
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

/// Does the same for a page whose tasks the table knew before. If one of them was leased after the read and has
/// ended, the table has removed it. So overdue unknown tasks are read once more, and loaded only if they still wait.
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

/// Loads a page. Returns the number of its tasks that are new here, or were offered before an instant, and the key
/// after which there may be more, or `None` at the end.
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
        core.store_fallback.passes_by();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_full_table_what_is_about_to_fire_is_read_all_the_same() {
        let (now, read_to) = (Millis(100_000), |ms| Some((Millis(100_000 + ms), 1)));
        assert_eq!(reach_ms(None, 0, 3, now), Some(READ_AHEAD_MS - 3 * APART_MS));
        assert_eq!(reach_ms(read_to(READ_AHEAD_LEFT_MS), 0, 0, now), None);
        assert_eq!(reach_ms(read_to(READ_AHEAD_LEFT_MS - 1), 0, 0, now), Some(READ_AHEAD_MS));
        assert_eq!(reach_ms(None, WAITING_MAX, 3, now), Some(SOON_MS));
        assert_eq!(reach_ms(read_to(0), WAITING_MAX, 0, now), Some(SOON_MS));
        assert_eq!(reach_ms(read_to(SOON_MS), WAITING_MAX, 0, now), None, "it has been read");
    }
}
