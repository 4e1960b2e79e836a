//! What was handed over by a lease ahead, until the store knows who has it: the lease is in the engine's name so long, and an outcome
//! that comes first needs no report. Losing any of it costs the rest of a short lease. Must not ask the store itself.

use super::{
    index::Group,
    stage::{Event, Stage},
    table::{Moved, Slot, Table},
};
use punctual_contract::{hot::HotEntry, store::Beat};
use punctual_domain::time::Millis;

/// Who has a task, and since when.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) since: Millis,
    beat: Beat,
}

/// Handed over, and the store does not know to whom.
#[derive(Debug)]
pub(crate) struct Unreported {
    /// With the fence of the lease.
    pub(crate) entry: HotEntry,
    pub(crate) since: Millis,
    /// What the store is to write down.
    pub(crate) beat: Beat,
}

impl Unreported {
    /// When the attempt fired, by task and fence.
    pub(crate) fn fired(&self) -> Option<((i64, i64), Millis)> {
        Some(((self.beat.place.id, self.beat.fence), self.beat.handed_over_at?))
    }
}

impl Table {
    /// An executor gets this now. Where a newer fence is here, the lease has ended, and nobody need hear of it.
    pub(crate) fn hand_over(&mut self, Unreported { entry, since, beat }: Unreported) {
        let there = self.by_id.get(&entry.place.id).copied();
        match there.map(|nth| (nth, self.fence(nth))) {
            Some((_, known)) if known > Some(entry.fence) => return,
            Some((nth, _)) => drop(self.remove(nth)),
            None => {}
        }
        let (stage, holder) = (Stage::HandedOver { is_being_reported: false }, Holder { since, beat });
        self.insert_held(entry, stage, Some(Box::new(holder)));
    }

    /// The outcomes of these attempts are here, or they did not reach their executors: nothing needs to be reported of them. Returns
    /// what would have been.
    pub(crate) fn ended(&mut self, attempts: impl Iterator<Item = (i64, i64)>) -> Vec<Unreported> {
        let ended = attempts.filter_map(|(id, fence)| {
            let nth = self.at_fence(id, fence)?;
            let Moved { gone: Some(Slot { entry, holder: Some(holder), .. }), .. } =
                self.advance(nth, Event::Ended)?
            else {
                return None;
            };
            let Holder { since, beat } = *holder;
            Some(Unreported { entry, since, beat })
        });
        ended.collect()
    }

    /// They are to be reported after all, but for those of which something else is known meanwhile.
    pub(crate) fn not_ended(&mut self, ended: Vec<Unreported>) {
        for unreported in ended {
            let known = self.by_id.get(&unreported.entry.place.id).and_then(|nth| self.fence(*nth));
            if known < Some(unreported.entry.fence) {
                self.hand_over(unreported);
            }
        }
    }

    /// This attempt was handed over here, and the store may not know to whom.
    pub(crate) fn is_unreported(&self, id: i64, fence: i64) -> bool {
        let slot = self.at_fence(id, fence).and_then(|nth| self.slots.get(nth));
        slot.is_some_and(|slot| slot.holder.is_some())
    }

    pub(crate) fn is_all_reported(&self) -> bool {
        self.index.is_empty(Group::Unreported) && self.index.is_empty(Group::Reporting)
    }

    /// What was handed over until then, and the store does not know to whom: it is asked to write it down now.
    pub(crate) fn begin_reports(&mut self, until: Millis) -> Vec<Beat> {
        let old: Vec<usize> = self.index.until(Group::Unreported, until).collect();
        let begun = old.into_iter().filter_map(|nth| {
            self.advance(nth, Event::ReportBegun)?;
            Some(self.slots.get(nth)?.holder.as_ref()?.beat.clone())
        });
        begun.collect()
    }

    /// The store knows of these.
    pub(crate) fn reported(&mut self, beats: &[Beat]) {
        for beat in beats {
            self.at_fence(beat.place.id, beat.fence).and_then(|nth| self.advance(nth, Event::Reported));
        }
    }

    /// It may not: those handed over since then are reported again. Of the others the leases are over.
    pub(crate) fn not_reported(&mut self, beats: &[Beat], since: Millis) {
        for beat in beats {
            let Some(nth) = self.at_fence(beat.place.id, beat.fence) else { continue };
            let holder = self.slots.get(nth).and_then(|slot| slot.holder.as_ref());
            let is_over = holder.is_some_and(|holder| holder.since <= since);
            self.advance(nth, if is_over { Event::Reported } else { Event::NotReported });
        }
    }
}
