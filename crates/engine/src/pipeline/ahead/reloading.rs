//! Entries that are being put into the hot set from a look at the store. Such a look may be older than what has become of a
//! task since: leased ahead by this engine, then withdrawn and cancelled through another one, it would come back into the
//! hot set, be taken at its instant, and go with the lease, although the cancel was answered. So no task is leased ahead
//! while a load of it is under way, and none is loaded that is leased ahead: its lease is given back first, and the store
//! says whether there is still something to load. Holds nothing that matters: what is not leased ahead has its lease decided by the store after it was taken.

use super::leased::{Ahead, Leased, Stage};
use hashbrown::HashMap;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::time::Millis;

/// What is due later is not leased ahead before its load has ended.
const NEAR_MS: i64 = 60_000;
/// A load that was not answered may take effect for so long.
const MAY_COME_MS: i64 = 60_000;
/// More than this many that may still come: those that cannot any more are forgotten.
const KEPT_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Reloading {
    by_id: HashMap<i64, Load>,
}

#[derive(Debug, Default)]
struct Load {
    under_way: u32,
    may_come_until: Millis,
}

impl Reloading {
    fn begins(&mut self, id: i64) {
        self.by_id.entry(id).or_default().under_way += 1;
    }

    fn ends(&mut self, id: i64, may_come_until: Millis) {
        if let Some(it) = self.by_id.get_mut(&id) {
            it.under_way = it.under_way.saturating_sub(1);
            it.may_come_until = it.may_come_until.max(may_come_until);
            if it.under_way == 0 && it.may_come_until <= Millis::ZERO {
                self.by_id.remove(&id);
            }
        }
    }

    pub(super) fn has(&self, id: i64, now: Millis) -> bool {
        self.by_id.get(&id).is_some_and(|it| it.under_way > 0 || it.may_come_until > now)
    }

    fn forget_old(&mut self, now: Millis) {
        if self.by_id.len() > KEPT_MAX {
            self.by_id.retain(|_, it| it.under_way > 0 || it.may_come_until > now);
        }
    }
}

/// A load that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reload<'a> {
    ahead: &'a Ahead,
    ids: Vec<i64>,
    may_come_until: Millis,
}

impl Reload<'_> {
    /// It was answered: nothing of it comes any more.
    pub(crate) fn answered(mut self) {
        self.may_come_until = Millis::ZERO;
    }
}

impl Drop for Reload<'_> {
    fn drop(&mut self) {
        let mut leased = self.ahead.leased.lock();
        self.ids.iter().for_each(|it| leased.reloading.ends(*it, self.may_come_until));
    }
}

impl Ahead {
    /// These were found in the store and are about to be loaded: takes out of them what is leased ahead. Answers the
    /// leases of these, which are good for nothing any more: given back, the store says whether they were still standing,
    /// and only then they are loaded.
    pub(crate) fn reload<'a>(
        &'a self,
        entries: &mut Vec<HotEntry>,
        now: Millis,
    ) -> (Reload<'a>, Vec<Assignment>) {
        let (mut leased, mut made) = (self.leased.lock(), Vec::new());
        leased.reloading.forget_old(now);
        entries.retain(|it| match leased.by_id.get(&it.place.id) {
            Some(of) if of.entry.fence == it.fence => {
                if matches!(of.stage, Stage::Made(_))
                    && let Some(Leased { stage: Stage::Made(it), .. }) = leased.by_id.remove(&it.place.id)
                {
                    made.push(*it);
                }
                false
            }
            _ => true,
        });
        let near = entries.iter().filter(|it| it.due_at <= now.plus(NEAR_MS));
        let ids: Vec<i64> = near.map(|it| it.place.id).collect();
        ids.iter().for_each(|it| leased.reloading.begins(*it));
        (Reload { ahead: self, ids, may_come_until: now.plus(MAY_COME_MS) }, made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Moment, pipeline::claim::tests::entry};

    fn ids(entries: &[HotEntry]) -> Vec<i64> {
        entries.iter().map(|it| it.place.id).collect()
    }

    #[test]
    fn what_is_leased_ahead_is_not_loaded_and_what_is_being_loaded_is_not_leased_ahead() {
        let (it, now) = (Ahead::default(), Millis(1));
        assert_eq!(ids(&it.ask(vec![entry(1, 50)], now, Moment::of_test())), [1]);
        let mut found = vec![entry(1, 50), entry(2, 50), HotEntry { fence: 2, ..entry(1, 50) }];
        let (reload, made) = it.reload(&mut found, now);
        assert!(made.is_empty(), "the store is still being asked");
        assert_eq!(found.iter().map(|it| (it.place.id, it.fence)).collect::<Vec<_>>(), [(2, 1), (1, 2)]);
        assert_eq!(ids(&it.ask(vec![entry(2, 50), entry(3, 50)], now, Moment::of_test())), [3]);
        reload.answered();
        assert_eq!(ids(&it.ask(vec![entry(2, 50)], now, Moment::of_test())), [2]);
    }

    #[test]
    fn a_load_that_was_not_answered_may_come_for_a_while() {
        let (it, now) = (Ahead::default(), Millis(1));
        drop(it.reload(&mut vec![entry(1, 50)], now));
        assert!(it.ask(vec![entry(1, 50)], now.plus(MAY_COME_MS - 1), Moment::of_test()).is_empty());
        assert_eq!(ids(&it.ask(vec![entry(1, 50)], now.plus(MAY_COME_MS), Moment::of_test())), [1]);
    }
}
