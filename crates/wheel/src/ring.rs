//! One level: 512 slots, each a contiguous bucket of entries, and a bitmap of those that are not empty.
//!
//! A ring uses slot numbers, not time; it never reads payloads. The bit of a slot is set exactly when its bucket
//! holds entries.

use std::{array, mem};

/// Slots of a ring: the current period of 256 and the next.
pub(crate) const RING_LEN: u64 = 512;
const SLOTS: usize = 512;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(SLOTS as u64 == RING_LEN);

/// Buckets up to this capacity keep their memory for the next turn; larger ones free it.
const KEPT_CAPACITY: usize = 1_024;

/// A timer's place in time: eight bytes. The upper half of its tick is that of its slot.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    tick_low: u32,
    pub(crate) index: u32,
}

impl Entry {
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is that of the slot's start")]
    pub(crate) const fn new(tick: u64, index: u32) -> Self {
        Self { tick_low: tick as u32, index }
    }

    /// The tick of an entry. `start` is the first tick of the slot that holds it. Slots have at most 2^32 ticks and
    /// start at a multiple.
    pub(crate) fn tick(self, start: u64) -> u64 {
        (start & !u64::from(u32::MAX)) | u64::from(self.tick_low)
    }
}

pub(crate) struct Ring {
    occupied: [u64; WORDS],
    buckets: Box<[Vec<Entry>; SLOTS]>,
}

const fn place(slot: u64) -> usize {
    (slot % RING_LEN) as usize
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { occupied: [0; WORDS], buckets: Box::new(array::from_fn(|_| Vec::new())) }
    }

    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn push(&mut self, slot: u64, entry: Entry) {
        self.buckets[place(slot)].push(entry);
        self.occupied[place(slot) / 64] |= 1 << (slot % 64);
    }

    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn len(&self, slot: u64) -> usize {
        self.buckets[place(slot)].len()
    }

    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn is_occupied(&self, slot: u64) -> bool {
        self.occupied[place(slot) / 64] & (1 << (slot % 64)) != 0
    }

    /// Takes a bucket out; return it with [`Ring::put_back`].
    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn take(&mut self, slot: u64) -> Vec<Entry> {
        self.occupied[place(slot) / 64] &= !(1 << (slot % 64));
        mem::take(&mut self.buckets[place(slot)])
    }

    /// Returns a bucket that was taken and to which nothing was pushed meanwhile.
    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn put_back(&mut self, slot: u64, mut bucket: Vec<Entry>) {
        if !bucket.is_empty() {
            self.occupied[place(slot) / 64] |= 1 << (slot % 64);
        }
        if bucket.capacity() > KEPT_CAPACITY && bucket.len() < bucket.capacity() / 4 {
            bucket.shrink_to(bucket.len() * 2);
        }
        self.buckets[place(slot)] = bucket;
    }

    /// First occupied slot in `from..=to`, which must be in one half of the ring.
    #[expect(clippy::indexing_slicing, reason = "place() is below the length")]
    pub(crate) fn first_between(&self, from: u64, to: u64) -> Option<u64> {
        let mut word = place(from) / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            if word == place(to) / 64 {
                return None;
            }
            word += 1;
            bits = self.occupied[word];
        }
        let found =
            from - from % RING_LEN + 64 * u64::try_from(word).ok()? + u64::from(bits.trailing_zeros());
        (found <= to).then_some(found)
    }

    /// First occupied slot from `from` on, at most one turn of the ring ahead.
    #[expect(clippy::indexing_slicing, reason = "the word is taken modulo the length")]
    pub(crate) fn first_from(&self, from: u64) -> Option<u64> {
        let (first_word, ahead) = (from / 64, u64::MAX << (from % 64));
        let turn = RING_LEN / 64;
        // The first word is read twice: for the bits from `from` on, and at the end for the rest.
        for step in 0..=turn {
            let mask = if step == 0 {
                ahead
            } else if step == turn {
                !ahead
            } else {
                u64::MAX
            };
            let word = first_word + step;
            let bits = self.occupied[place((word % turn) * 64) / 64] & mask;
            if bits != 0 {
                return Some(word * 64 + u64::from(bits.trailing_zeros()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_eight_bytes_and_knows_its_tick() {
        assert_eq!(size_of::<Entry>(), 8);
        let tick = (7 << 32) + 12_345;
        assert_eq!(Entry::new(tick, 1).tick(tick & !255), tick);
        assert_eq!(Entry::new(u64::MAX, 1).tick(u64::MAX << 32), u64::MAX);
    }

    #[test]
    fn the_first_occupied_slot_is_found_around_the_turn() {
        for from in [0, 63, 64, 300, 511, 512, 5_000] {
            for distance in [0, 1, 63, 64, 65, 447, 448, 510, 511] {
                let mut ring = Ring::new();
                assert_eq!(ring.first_from(from), None);
                ring.push(from + distance, Entry::new(0, 0));
                assert_eq!(ring.first_from(from), Some(from + distance));
            }
        }
    }

    #[test]
    fn a_search_between_two_slots_sees_both_ends_and_nothing_else() {
        let mut ring = Ring::new();
        for slot in [255, 256 + 70, 511] {
            ring.push(slot, Entry::new(0, 0));
        }
        assert_eq!(ring.first_between(256, 256 + 69), None);
        assert_eq!(ring.first_between(256, 256 + 70), Some(256 + 70));
        assert_eq!(ring.first_between(256 + 70, 256 + 70), Some(256 + 70));
        assert_eq!(ring.first_between(256 + 71, 511), Some(511));
        assert_eq!(ring.first_between(256 + 71, 510), None);
    }
}
