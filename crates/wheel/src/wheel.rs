//! The public interface of the wheel: insert, cancel, and the time of the next call. Time moves in `advance.rs` only.

use std::array;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use crate::ring::{Entry, Ring};
use crate::slab::{Key, Slab};
use crate::sweep::Sweep;
use crate::tick::{LEVELS, level_of, ms_of, slot_of, start_of, tick_of};

/// A bucket with more entries is worth an early wake-up; a smaller one cascades in some 10 µs.
const LARGE_BUCKET: usize = 1_024;

/// Ticks between two slices of smoothing.
pub(crate) const SMOOTHING_TICKS: u64 = 16;

/// Timers with a payload each, ordered by deadline, for a caller that passes the time.
///
/// A timer wheel. Instants are UTC milliseconds, any `i64`. A wheel holds up to 2^32 - 1 timers; its memory is that
/// of the maximum that it ever held (up to twice of it, if most timers are cancelled), about 17 to 19 bytes a timer
/// and the payload.
pub struct Wheel<T> {
    /// Everything up to this tick has fired or waits in `late`.
    pub(crate) elapsed: u64,
    pub(crate) smoothing_at: u64,
    /// Nothing needs to be done before this tick, which is 0 while any timer is late, else in the block of
    /// `elapsed`.
    pub(crate) quiet_until: u64,
    pub(crate) rings: [Ring; LEVELS as usize],
    /// Timers beyond the rings: epoch of 2^40 ticks, then (tick, index).
    pub(crate) far: BTreeMap<u64, Vec<(u64, u32)>>,
    /// Inserted when already due: (tick, index).
    pub(crate) late: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) slab: Slab<T>,
    pub(crate) sweep: Sweep,
}

impl<T> Wheel<T> {
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        let elapsed = tick_of(now_ms);
        Self {
            elapsed,
            smoothing_at: elapsed.saturating_add(SMOOTHING_TICKS),
            quiet_until: elapsed,
            rings: array::from_fn(|_| Ring::new()),
            far: BTreeMap::new(),
            late: BinaryHeap::new(),
            slab: Slab::new(),
            sweep: Sweep::default(),
        }
    }

    /// Timers that are neither fired nor cancelled.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slab.live()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A deadline in the past is accepted and fires at the next [`Wheel::advance`] that reaches it.
    pub fn insert(&mut self, deadline_ms: i64, payload: T) -> Key {
        let tick = tick_of(deadline_ms);
        self.sweep_if_crowded();
        let key = self.slab.insert(payload);
        if tick > self.elapsed {
            self.quiet_until = self.quiet_until.min(tick);
            self.place(tick, key.index());
        } else {
            self.quiet_until = 0;
            self.late.push(Reverse((tick, key.index())));
        }
        key
    }

    /// Takes the payload back, if the timer has neither fired nor been cancelled. Never affects another timer.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        self.slab.cancel(key)
    }

    /// The instant until which the caller may sleep before the next [`Wheel::advance`]: never later than the earliest
    /// deadline.
    ///
    /// It is a lower bound. It may be earlier than that deadline when the deadline is more than a quarter of a second
    /// away (a bucket has to be opened first), when the timer was cancelled, or when a large bucket had better be moved
    /// in slices. Each `advance` to it brings it strictly forward, so sleeping and advancing in turn comes to an end.
    /// `None`: nothing waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        if self.is_empty() {
            return None;
        }
        let late = self.late.peek().map(|Reverse((tick, _))| *tick);
        let tick = late
            .or_else(|| (0..LEVELS).filter_map(|level| self.wake_at(level)).chain(self.far_start()).min());
        tick.map(ms_of)
    }

    /// Puts an entry where it belongs now. `tick` must not be before `elapsed`.
    pub(crate) fn place(&mut self, tick: u64, index: u32) {
        let level = level_of(self.elapsed, tick);
        match self.rings.get_mut(level as usize) {
            Some(ring) => ring.push(slot_of(tick, level), Entry::new(tick, index)),
            None => self.far.entry(slot_of(tick, LEVELS)).or_default().push((tick, index)),
        }
    }

    /// First tick of the first occupied slot of `level`.
    pub(crate) fn first_start(&self, level: u32) -> Option<u64> {
        let slot = self.rings.get(level as usize)?.first_from(slot_of(self.elapsed, level))?;
        Some(start_of(slot, level))
    }

    pub(crate) fn far_start(&self) -> Option<u64> {
        self.far.first_key_value().map(|(epoch, _)| start_of(*epoch, LEVELS))
    }

    /// The tick at which `level` needs an `advance`: at its first occupied slot, or one slot before if that is large.
    fn wake_at(&self, level: u32) -> Option<u64> {
        let ring = self.rings.get(level as usize)?;
        let slot = ring.first_from(slot_of(self.elapsed, level))?;
        if level == 0 || ring.len(slot) <= LARGE_BUCKET {
            return Some(start_of(slot, level));
        }
        let next_slice_at = self.elapsed.saturating_add(SMOOTHING_TICKS);
        Some(start_of(slot - 1, level).max(next_slice_at).min(start_of(slot, level)))
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("len", &self.len())
            .field("stale", &self.slab.stale())
            .field("elapsed_ms", &ms_of(self.elapsed))
            .finish_non_exhaustive()
    }
}
