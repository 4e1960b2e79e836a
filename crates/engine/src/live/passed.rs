//! Tasks that were passed to another engine, which asks the store for their leases. They stay for a while, so
//! that nothing here continues with them meanwhile. Must not know which engine.

use super::{
    index::Group,
    stage::{Stage, TaskEvent},
    table::Table,
};
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;

/// The time after which a passed task belongs to the store: leased, or stored as before.
pub(crate) const PASSED_MS: i64 = 2_000;

impl Table {
    /// These have left their line for another engine.
    pub(crate) fn pass(&mut self, entries: &[HotEntry], now: Millis) {
        for entry in entries {
            if !self.keep(entry, TaskEvent::PassedOn, Stage::Passed) {
                continue;
            }
            // Its firing need not be written: the engine that leases it records that.
            self.persisted_until(entry.place.id, entry.fence);
            let Some(nth) = self.at(entry) else { continue };
            let Some(slot) = self.slots.get_mut(nth) else { continue };
            let old = slot.rank();
            slot.passed_at = now;
            let new = slot.rank();
            self.rank_anew(nth, old, new);
        }
    }

    /// Removes tasks that were passed until an instant. Their doubtful leases are still read.
    pub(crate) fn forget_passed(&mut self, until: Millis) {
        let old: Vec<usize> = self.index.until(Group::Passed, until).collect();
        for nth in old {
            self.let_go(nth, TaskEvent::Taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::{Live, Overdue, served::tests::plain},
        pipeline::drain::tests::entry,
    };

    #[test]
    fn what_was_passed_is_in_hand_for_a_while_and_then_the_stores() {
        let live = Live::new(1, true);
        let all = [entry(1, 1), entry(2, 2)];
        drop(live.lock().note_fired(&all));
        live.lock().serve(&all, plain);
        live.lock().discard(&all);
        live.lock().pass(&all, Millis(10));
        assert!(matches!(live.lock().overdue(&all[0]), Overdue::InHand));
        assert_eq!(live.lock().unpersisted().count(), 0, "whoever leases them says so");
        live.lock().serve(&all[1..], plain);
        live.lock().forget_passed(Millis(9));
        assert!(matches!(live.lock().overdue(&all[0]), Overdue::InHand));
        live.lock().forget_passed(Millis(10));
        assert!(matches!(live.lock().overdue(&all[0]), Overdue::Unknown));
        assert!(live.lock().serves(&all[1]), "it could not be passed, and is served here");
        assert_eq!(live.lock().of_model().len(), 1);
    }
}
