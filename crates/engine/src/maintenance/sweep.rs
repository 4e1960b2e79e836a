//! Finds tasks that are overdue in the store and in no hot set: what a crash between a commit and the load that
//! follows it leaves, or a hot set that lost its memory. What could not be sent it shows to the compensator; what lies in
//! this engine has fired, and is left there. Changes no row.
//!
//! Bounded: a run looks at so many rows of a partition, the next one goes on there. Where there are more than that, a backlog
//! waits for its turn, and has been looked at before: then each run looks at what became overdue since the last one, and
//! only at a few of the others, so that a backlog costs little however long it is. When one of those is missing, all are
//! looked at from the oldest on, until none is.

use crate::{
    core::Core,
    maintenance::stuck::{self, Stuck},
    parts,
    pipeline::{fire, from_store, preload},
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Rows looked at in one partition in one run, of those that were not looked at before.
const SWEEP_LIMIT: usize = 500;
/// And of those that were.
const AGAIN_LIMIT: usize = 50;
/// What became overdue so long before the last look is looked at once more: a commit may have come after it.
const OVERLAP_MS: i64 = 3_000;

type Key = (Millis, i64);

#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// By partition.
    positions: Mutex<HashMap<Partition, Position>>,
    stuck: Stuck,
}

/// Where to go on in a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Of the tenure that it is of.
    term: i64,
    /// All before has been looked at. None: the next run begins with the oldest.
    front: Option<Key>,
    /// Of those before the front, where to go on looking once more.
    again: Option<Key>,
    /// Something was missing since the oldest was looked at.
    was_missing: bool,
}

impl Sweep {
    /// Tasks that had to be loaded again.
    pub(crate) async fn run_once(self: &Arc<Self>, core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
        if core.from_store.is_away() {
            return Ok(0);
        }
        parts::each(core, "sweep", parts::PATIENCE, |core, part| {
            let sweep = Arc::clone(self);
            async move { sweep.sweep(&core, part, now).await }
        })
        .await
    }

    /// One part of the store.
    async fn sweep(&self, core: &Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
        let until = now.plus(-core.options.overdue_after_ms);
        let (mut found, mut result) = (0, Ok(()));
        for partition in parts::owned(core, part) {
            if let Err(error) = self.sweep_partition(core, partition, (until, now), &mut found).await {
                result = Err(error);
            }
        }
        if found > 0 {
            tracing::warn!(tasks = found, "overdue tasks were in no hot set and have been loaded");
            core.meters.swept(found);
            // They are overdue: they are claimed as they fire.
            result = result.and(fire::fire_all(core).await.map(drop));
        }
        result.map(|()| found)
    }

    /// Adds to `found` what was loaded, also when a later look fails.
    async fn sweep_partition(
        &self,
        core: &Arc<Core>,
        partition: Partition,
        (until, now): (Millis, Millis),
        found: &mut usize,
    ) -> Result<(), Error> {
        let Some(tenure) = core.holdings.tenure(partition) else { return Ok(()) };
        let mut at = self.position(partition, tenure.term);
        let scan = |after, until, limit| core.store.scan(Scan { partition, until, after, limit });
        let page = scan(at.front, until, SWEEP_LIMIT).await?;
        let next = key_after(&page, SWEEP_LIMIT);
        let missing = self.load_missing(core, page, now).await?;
        *found += missing.unwrap_or(0);
        let looks_again = at.looked(next, missing.is_some(), until);
        // Also when the second look fails.
        self.remember(partition, at);
        if looks_again {
            let page = scan(at.again, recent(until).0, AGAIN_LIMIT).await?;
            let next = key_after(&page, AGAIN_LIMIT);
            let missing = self.load_missing(core, page, now).await?;
            *found += missing.unwrap_or(0);
            at.looked_again(next, missing.is_some());
            self.remember(partition, at);
        }
        Ok(())
    }

    /// How many were loaded; None: nothing is missing.
    async fn load_missing(
        &self,
        core: &Arc<Core>,
        page: Vec<HotEntry>,
        now: Millis,
    ) -> Result<Option<usize>, Error> {
        let mut page = core.unsent.sort_out(page, now);
        page.retain(|it| !core.has(it));
        let is_stuck = page.iter().any(|it| stuck::is_passed_by(core, it));
        let page = self.stuck.sort_out(core, page, now).await?;
        let loaded = if page.is_empty() { None } else { load(core, page).await? };
        Ok(if is_stuck { loaded.or(Some(0)) } else { loaded })
    }

    fn position(&self, partition: Partition, term: i64) -> Position {
        let known = self.positions.lock().get(&partition).copied();
        known.filter(|it| it.term == term).unwrap_or_else(|| Position { term, ..Position::default() })
    }

    fn remember(&self, partition: Partition, position: Position) {
        self.positions.lock().insert(partition, position);
    }
}

impl Position {
    /// From the front on, up to `next`; None: to the end. Whether it is the turn of those before the front.
    fn looked(&mut self, next: Option<Key>, is_missing: bool, until: Millis) -> bool {
        self.was_missing |= is_missing;
        if next.is_some() {
            self.front = next;
            return false;
        }
        let goes_on = self.front.is_some() && !self.was_missing;
        self.front = goes_on.then(|| recent(until));
        self.was_missing = false;
        goes_on
    }

    /// At some before the front, up to `next`; None: to the last of them.
    fn looked_again(&mut self, next: Option<Key>, is_missing: bool) {
        let are_few = self.again.is_none() && next.is_none();
        self.again = next;
        if are_few || is_missing {
            (self.front, self.again) = (None, None);
        }
    }
}

/// Where the next look goes on, if there is more.
fn key_after(page: &[HotEntry], limit: usize) -> Option<Key> {
    (page.len() == limit).then(|| page.last().map(HotEntry::key)).flatten()
}

/// The next run looks at what comes after this, whatever was seen.
fn recent(until: Millis) -> Key {
    (until.plus(-OVERLAP_MS), i64::MAX)
}

/// What there is no room for fires from the store: it is overdue. None: all was there.
async fn load(core: &Arc<Core>, mut page: Vec<HotEntry>) -> Result<Option<usize>, Error> {
    let (load, leased) = core.live.begin_load(&mut page, core.now());
    preload::give_back_soon(core, leased);
    match core.hot.load(page.clone()).await {
        Ok(loaded) => {
            load.answered();
            Ok((loaded > 0).then_some(loaded))
        }
        Err(error) => {
            tracing::warn!(%error, tasks = page.len(), "overdue tasks cannot be loaded, and fire from the store");
            from_store::fire(core, page).await?;
            Ok(Some(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Millis = Millis(100_000);

    fn key(at: i64) -> Option<Key> {
        Some((Millis(at), 1))
    }

    #[test]
    fn what_fits_into_one_look_is_looked_at_from_the_oldest_on_each_time() {
        let mut it = Position::default();
        assert!(!it.looked(None, false, UNTIL) && it.front.is_none());
        assert!(!it.looked(None, true, UNTIL) && it.front.is_none() && !it.was_missing);
    }

    #[test]
    fn of_a_long_backlog_only_a_few_are_looked_at_again_beside_what_is_new() {
        let mut it = Position::default();
        assert!(!it.looked(key(10), false, UNTIL) && !it.looked(key(20), false, UNTIL));
        assert_eq!(it.front, key(20));
        assert!(it.looked(None, false, UNTIL), "all has been seen");
        assert_eq!(it.front, Some((UNTIL.plus(-OVERLAP_MS), i64::MAX)));
        it.looked_again(key(5), false);
        assert!(it.looked(None, false, UNTIL.plus(1_000)) && it.again == key(5), "it goes on there");
        it.looked_again(None, false);
        assert!(it.again.is_none() && it.front.is_some(), "and begins anew at the end");
        it.looked_again(None, false);
        assert!(it.front.is_none(), "the backlog is gone");
    }

    #[test]
    fn all_are_looked_at_anew_until_none_is_missing() {
        let mut it = Position::default();
        it.looked(key(10), false, UNTIL);
        it.looked(None, false, UNTIL);
        it.looked_again(key(5), true);
        assert_eq!((it.front, it.again), (None, None));
        it.looked(key(10), true, UNTIL);
        assert!(!it.looked(None, false, UNTIL) && it.front.is_none(), "once more: something was missing");
        it.looked(key(10), false, UNTIL);
        assert!(it.looked(None, false, UNTIL) && it.front.is_some());
    }
}
