//! The payloads, at places that never move, and the keys that name them. Does not know time.
//!
//! A slot passes through: occupied, vacated (fired or cancelled), released (reusable). Between *vacated* and *released* an
//! entry of the wheel still points at it; reusing it then would fire the newcomer at the old one's deadline.

use std::{iter, mem};

use crate::blocks::Blocks;

/// Names one timer of one wheel. The key of a timer that fired or was cancelled is invalid forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// The generation is inside both variants so that a `u64` payload makes a slot of 16 bytes, not 24.
enum SlabEntry<T> {
    Occupied { generation: u32, payload: T },
    Vacant { generation: u32 },
}

/// A vacant slot of this generation is not used again.
const LAST_GENERATION: u32 = u32::MAX;

/// Slots prepared in one batch.
const LOOK_AHEAD: usize = 16;

pub(crate) struct Slab<T> {
    slots: Blocks<SlabEntry<T>>,
    /// Released slots. A list threaded through the slots would need a cache miss to find the next one.
    free: Blocks<u32>,
    /// The next few of them, already read: reads in a row let their cache misses overlap.
    ready: Vec<u32>,
    live: usize,
    retired: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Blocks::new(), free: Blocks::new(), ready: Vec::new(), live: 0, retired: 0 }
    }

    pub(crate) const fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn insert(&mut self, payload: T) -> Key {
        self.live += 1;
        let nothing_released = self.ready.is_empty() && self.free.len() == 0;
        if nothing_released { self.append(payload) } else { self.reuse(payload) }
    }

    fn append(&mut self, payload: T) -> Key {
        Key { index: self.slots.push(SlabEntry::Occupied { generation: 0, payload }), generation: 0 }
    }

    fn reuse(&mut self, payload: T) -> Key {
        if self.ready.is_empty() {
            self.refill();
        }
        if let Some(index) = self.ready.pop()
            && let Some(slot) = self.slots.get_mut(index)
        {
            let (SlabEntry::Vacant { generation } | SlabEntry::Occupied { generation, .. }) = *slot;
            *slot = SlabEntry::Occupied { generation, payload };
            return Key { index, generation };
        }
        self.append(payload)
    }

    /// Makes the last released slots ready, except those whose generations are used up: these are retired, for a key from
    /// their first life would fit their next, 2^32 lives later.
    fn refill(&mut self) {
        let Self { slots, free, ready, retired, .. } = self;
        let mut last_released = [0; LOOK_AHEAD];
        let mut count = 0;
        for (place, index) in last_released.iter_mut().zip(iter::from_fn(|| free.pop())) {
            *place = index;
            count += 1;
        }
        let is_usable = |index: &u32| matches!(slots.get(*index), Some(SlabEntry::Vacant { generation: g }) if *g < LAST_GENERATION);
        ready.extend(last_released.iter().rev().skip(LOOK_AHEAD - count).copied().filter(is_usable));
        *retired += count - ready.len();
    }

    /// Takes the payload if the key is still valid. The slot stays vacated until [`Slab::release`].
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index)?;
        match slot {
            SlabEntry::Occupied { generation, .. } if *generation == key.generation => {
                self.live -= 1;
                vacate(slot)
            }
            _ => None,
        }
    }

    /// Takes the payload, if it was not cancelled, and releases the slot: its entry is gone.
    pub(crate) fn take(&mut self, index: u32) -> Option<T> {
        let payload = self.slots.get_mut(index).and_then(vacate);
        self.live -= usize::from(payload.is_some());
        self.release(index);
        payload
    }

    /// Reads the slot itself, which brings it into the cache.
    pub(crate) fn is_occupied(&self, index: u32) -> bool {
        matches!(self.slots.get(index), Some(SlabEntry::Occupied { .. }))
    }

    /// Makes the slot of a cancelled timer reusable: its entry is gone.
    pub(crate) fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Slots that were cancelled and still have an entry.
    pub(crate) fn stale(&self) -> usize {
        self.slots.len() - self.free.len() - self.ready.len() - self.retired - self.live
    }

    #[cfg(test)]
    pub(crate) const fn slots(&self) -> usize {
        self.slots.len()
    }
}

impl Key {
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

fn vacate<T>(slot: &mut SlabEntry<T>) -> Option<T> {
    let SlabEntry::Occupied { generation, .. } = *slot else { return None };
    // Cannot overflow: a slot is retired when it reaches the last generation.
    let vacant = SlabEntry::Vacant { generation: generation + 1 };
    match mem::replace(slot, vacant) {
        SlabEntry::Occupied { payload, .. } => Some(payload),
        SlabEntry::Vacant { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_a_word_takes_two_words() {
        assert_eq!(size_of::<SlabEntry<u64>>(), 16);
    }

    #[test]
    fn a_cancelled_slot_is_not_reused_before_its_release() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.cancel(first), Some('a'));
        let second = slab.insert('b');
        assert_ne!(first.index, second.index);
        slab.release(first.index);
        assert_eq!(slab.insert('c').index, first.index);
        assert_eq!(slab.live(), 2);
    }

    #[test]
    fn released_slots_are_reused_last_first_before_new_ones_are_taken() {
        let mut slab = Slab::new();
        let indices: Vec<_> = (0..20).map(|payload| slab.insert(payload).index).collect();
        for index in &indices {
            assert!(slab.take(*index).is_some());
        }
        let again: Vec<_> = (0..20).map(|payload| slab.insert(payload).index).collect();
        assert!(again.iter().eq(indices.iter().rev()));
        assert_eq!((slab.insert(20).index, slab.slots()), (20, 21));
    }

    #[test]
    fn a_slot_at_its_last_generation_is_retired() {
        let mut slab = Slab::new();
        slab.slots.push(SlabEntry::Occupied { generation: u32::MAX - 1, payload: 'a' });
        slab.live = 1;
        let last = Key { index: 0, generation: u32::MAX - 1 };
        assert_eq!(slab.take(0), Some('a'));
        assert_ne!(slab.insert('b').index, 0);
        assert_eq!(slab.cancel(last), None);
        assert_eq!(slab.cancel(Key { index: 0, generation: u32::MAX }), None);
        assert_eq!((slab.retired, slab.stale(), slab.live()), (1, 0, 1));
    }
}
