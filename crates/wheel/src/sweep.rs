//! Drops the entries of cancelled timers early, in steps of bounded size. Never touches a live one.
//!
//! Without it, a service that sets a timeout for every request and cancels nearly all of them would hold
//! every entry until its deadline. A step runs with an insert, as only an insert can take memory, while stale
//! entries outnumber the live ones; it continues where the last one stopped. A round reads each entry once
//! and drops at least half of them, so such an insert pays for about two reads, and a cancel for none. The
//! sweep must not wait until the slab is full. A round takes some inserts; if they took new slots every time,
//! the slab would grow by that much with every round.

use crate::ring::{Entry, RING_LEN};
use crate::slab::Slab;
use crate::tick::LEVELS;
use crate::wheel::Wheel;

/// Stale entries that are not worth a sweep.
const TOLERATED: usize = 1_024;

/// Entries read, or empty slots skipped, in one step.
const STEP: usize = 64;

/// The position where the next step continues.
#[derive(Default)]
pub(crate) struct Sweep {
    /// `LEVELS` represents the entries outside the rings.
    level: u32,
    slot: u64,
    /// Entries of the slot that this round has read: the last ones of its bucket.
    seen: usize,
}

impl<T> Wheel<T> {
    pub(crate) fn sweep_if_crowded(&mut self) {
        if self.slab.stale() > self.slab.live() + TOLERATED {
            self.sweep_step();
        }
    }

    #[inline(never)]
    fn sweep_step(&mut self) {
        let mut budget = STEP;
        while budget > 0 {
            if self.sweep.level >= LEVELS {
                self.sweep_outside();
                self.sweep = Sweep::default();
                return;
            }
            budget -= self.sweep_slot(budget).min(budget);
        }
    }

    /// Continues in the current slot and returns how much it did. The slot may have changed since the last
    /// step: an entry that is missed because of that is read in the next round.
    fn sweep_slot(&mut self, budget: usize) -> usize {
        let Self { sweep, rings, slab, .. } = self;
        let bucket = rings.get_mut(sweep.level as usize).filter(|ring| ring.is_occupied(sweep.slot));
        let Some(ring) = bucket else {
            sweep.next_slot();
            return 1;
        };
        let mut bucket = ring.take(sweep.slot);
        let end = bucket.len().saturating_sub(sweep.seen);
        let start = end.saturating_sub(budget);
        let mut dropped = [0; STEP];
        let (kept, gone) = part(slab, bucket.get_mut(start..end).unwrap_or_default(), &mut dropped);
        for index in dropped.iter().take(gone) {
            slab.release(*index);
        }
        close_gap(&mut bucket, start + kept, end);
        sweep.seen = bucket.len() - start;
        ring.put_back(sweep.slot, bucket);
        if start == 0 {
            sweep.next_slot();
        }
        end - start + 1
    }

    /// Overdue and very distant entries are rare: swept in one step.
    fn sweep_outside(&mut self) {
        let Self { far, late, slab, .. } = self;
        late.retain(|entry| keep(slab, entry.0.1));
        far.retain(|_, bucket| {
            bucket.retain(|(_, index)| keep(slab, *index));
            !bucket.is_empty()
        });
    }
}

impl Sweep {
    const fn next_slot(&mut self) {
        self.seen = 0;
        self.slot += 1;
        if self.slot == RING_LEN {
            self.slot = 0;
            self.level += 1;
        }
    }
}

/// Moves the live ones of `entries` to their front and the slab indices of the others to `dropped`; returns how many of each.
///
/// Both are always written and the counts decide: in a half stale bucket, a branch would be guessed wrong every other time.
#[expect(clippy::indexing_slicing, reason = "kept and gone are at most the index at hand, below STEP")]
fn part<T>(slab: &Slab<T>, entries: &mut [Entry], dropped: &mut [u32; STEP]) -> (usize, usize) {
    let (mut kept, mut gone) = (0, 0);
    for at in 0..entries.len().min(STEP) {
        let entry = entries[at];
        let live = usize::from(slab.is_occupied(entry.index));
        entries[kept] = entry;
        dropped[gone] = entry.index;
        kept += live;
        gone += 1 - live;
    }
    (kept, gone)
}

/// Removes `from..to` from the bucket, filling the gap with its last entries.
fn close_gap(bucket: &mut Vec<Entry>, from: usize, to: usize) {
    let (gap, len) = (to - from, bucket.len());
    let moved = gap.min(len - to);
    bucket.copy_within(len - moved.., from);
    bucket.truncate(len - gap);
}

fn keep<T>(slab: &mut Slab<T>, index: u32) -> bool {
    if slab.is_occupied(index) {
        return true;
    }
    slab.release(index);
    false
}
