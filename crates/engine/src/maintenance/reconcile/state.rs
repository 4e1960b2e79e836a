//! The reconciler's last checks, and the position where its next check continues. Uses neither the limiter nor the
//! store.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{hot::ParkReason, limiter::Member, store::LeasePosition};
use punctual_domain::{name::QueueKey, place::TaskRef, time::Millis};
use std::time::Duration;
use tokio::sync::Notify;

const FULL_EVERY_MS: i64 = 30_000;
const LANES_EVERY_MS: i64 = 5_000;
/// The maximum number of owed entries of each kind; a full check finds the rest.
const OWED_MAX: usize = 100_000;

/// The instants of the last run of each check.
#[derive(Debug, Default)]
pub(crate) struct Reconciler {
    pub(super) last: Mutex<Last>,
    asked: Notify,
    owed: Mutex<Owed>,
}

/// Reports that this engine owes the limiter, which did not answer.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// They have ended.
    pub(super) ended: Vec<Member>,
    pub(super) unused: Vec<UnusedGrant>,
}

/// A slot that this engine was granted, or may have been, and does not use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnusedGrant {
    /// The place of the row.
    pub(crate) place: TaskRef,
    pub(crate) member: Member,
    pub(crate) at: Millis,
}

#[derive(Debug, Default)]
pub(super) struct Last {
    full_at: Option<Millis>,
    lanes_at: Option<Millis>,
    pub(super) revision: Option<i64>,
    lost_at: Option<Millis>,
    pub(super) leases: Leases,
    /// The positions where the checks of the lanes continue, by queue.
    pub(super) positions: HashMap<QueueKey, ParkReason>,
}

/// The position of the check of all leases.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Leases {
    #[default]
    AllSeen,
    /// `None` if the check begins at the start.
    From(Option<LeasePosition>),
}

fn is_over(last: Option<Millis>, every_ms: i64, now: Millis) -> bool {
    !last.is_some_and(|at| (0..every_ms).contains(&now.since(at)))
}

impl Reconciler {
    /// True if this run checks everything.
    pub(super) fn begin_full(&self, revision: i64, now: Millis) -> bool {
        let mut last = self.last.lock();
        let begins = is_over(last.full_at, FULL_EVERY_MS, now) || last.revision != Some(revision);
        if begins {
            // New settings also apply to leases that were checked before.
            if matches!(last.leases, Leases::AllSeen) || last.revision != Some(revision) {
                last.leases = Leases::From(None);
            }
            (last.full_at, last.revision) = (Some(now), Some(revision));
        }
        begins
    }

    pub(super) fn leases(&self) -> Leases {
        self.last.lock().leases
    }

    pub(super) fn go_on(&self, next: Option<LeasePosition>) {
        self.last.lock().leases = next.map_or(Leases::AllSeen, |position| Leases::From(Some(position)));
    }

    pub(super) fn begin_lanes(&self, now: Millis) -> bool {
        let mut last = self.last.lock();
        let begins = is_over(last.lanes_at, LANES_EVERY_MS, now);
        if begins {
            last.lanes_at = Some(now);
        }
        begins
    }

    /// The next run checks everything.
    pub(super) fn again(&self) {
        let mut last = self.last.lock();
        (last.full_at, last.leases) = (None, Leases::AllSeen);
    }

    /// True if the limiter has been incomplete for `wait_ms`.
    pub(super) fn is_lost(&self, wait_ms: i64, now: Millis) -> bool {
        let mut last = self.last.lock();
        now.since(*last.lost_at.get_or_insert(now)) >= wait_ms
    }

    /// The time until a known loss has lasted for `wait_ms`. `None` if there is no loss, or if it has lasted that
    /// long.
    pub(super) fn rebuilds_in(&self, wait_ms: i64, now: Millis) -> Option<Duration> {
        let left_ms = wait_ms - now.since(self.last.lock().lost_at?);
        u64::try_from(left_ms).ok().filter(|left_ms| *left_ms > 0).map(Duration::from_millis)
    }

    /// Reports a loss. A known one is handled at its time.
    pub(super) fn ask(&self) {
        if self.last.lock().lost_at.is_none() {
            self.asked.notify_one();
        }
    }

    /// Tried immediately, and then with each run.
    pub(super) fn owe(&self, ended: Vec<Member>, unused: Vec<UnusedGrant>) {
        if self.owe_still(Owed { ended, unused }) {
            self.asked.notify_one();
        }
    }

    /// Returns whether nothing was owed before. What exceeds the bound is left to a full check, which the
    /// leading engine begins with its next run.
    pub(super) fn owe_still(&self, Owed { ended, unused }: Owed) -> bool {
        let count = ended.len() + unused.len();
        let mut owed = self.owed.lock();
        let before = owed.ended.len() + owed.unused.len();
        let (ended_room, unused_room) =
            (OWED_MAX.saturating_sub(owed.ended.len()), OWED_MAX.saturating_sub(owed.unused.len()));
        owed.ended.extend(ended.into_iter().take(ended_room));
        owed.unused.extend(unused.into_iter().take(unused_room));
        let is_all = owed.ended.len() + owed.unused.len() == before + count;
        drop(owed);
        if !is_all {
            self.again();
        }
        before == 0
    }

    pub(super) fn take_owed(&self) -> Owed {
        std::mem::take(&mut self.owed.lock())
    }

    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(super) fn is_found(&self) {
        self.last.lock().lost_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use punctual_domain::place::Partition;

    const WAIT_MS: i64 = 750;

    #[test]
    fn no_more_is_owed_than_there_is_room_for_and_the_rest_is_looked_for() {
        let reconciler = Reconciler::default();
        let member = |id| Member { id, fence: 1 };
        let place = TaskRef { partition: Partition(0), due_at: Millis(1), id: 1 };
        let unused = |id| UnusedGrant { place, member: member(id), at: Millis(1) };
        assert!(reconciler.begin_full(1, Millis(5)) && !reconciler.begin_full(1, Millis(6)));
        reconciler.owe((0..100_000).map(member).collect(), vec![unused(1)]);
        assert!(!reconciler.begin_full(1, Millis(6)), "all of it is owed");
        reconciler.owe(vec![member(7)], (0..200_000).map(unused).collect());
        assert!(reconciler.begin_full(1, Millis(6)), "what is beyond is found by a look at all");
        let owed = reconciler.take_owed();
        assert_eq!((owed.ended.len(), owed.unused.len()), (100_000, 100_000));
        reconciler.owe(vec![member(8)], Vec::new());
        assert_eq!(reconciler.take_owed().ended, [member(8)]);
    }

    #[test]
    fn a_loss_is_looked_at_at_once_and_again_when_it_is_old_enough() {
        let reconciler = Reconciler::default();
        let is_asked = || reconciler.asked().now_or_never().is_some();
        assert!(!is_asked());
        reconciler.ask();
        assert!(is_asked() && !is_asked());
        assert_eq!(reconciler.rebuilds_in(WAIT_MS, Millis(5)), None, "it was not looked at yet");
        assert!(!reconciler.is_lost(WAIT_MS, Millis(10)));
        reconciler.ask();
        assert!(!is_asked(), "it is known");
        let in_ms = |now| reconciler.rebuilds_in(WAIT_MS, Millis(now)).map(|left| left.as_millis());
        assert_eq!((in_ms(10), in_ms(759), in_ms(760)), (Some(750), Some(1), None));
        assert!(!reconciler.is_lost(WAIT_MS, Millis(759)) && reconciler.is_lost(WAIT_MS, Millis(760)));
        reconciler.is_found();
        reconciler.ask();
        assert!(is_asked());
    }
}
