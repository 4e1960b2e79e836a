//! The passing of time: fires due timers, cascades near ones. The only place that moves `elapsed`, and only
//! forward.

use std::cmp::Reverse;

use crate::ring::Entry;
use crate::tick::{LEVELS, block_end, ms_of, share_per_tick, slot_of, start_of, tick_of};
use crate::wheel::{SMOOTHING_TICKS, Wheel};

/// The maximum number of ticks for which one call smooths, however far it jumped: catching up must not become a
/// cascade.
const MAX_SMOOTHED_TICKS: u64 = 64;

/// Slab slots that are read in one batch.
const LOOK_AHEAD: usize = 64;

impl<T> Wheel<T> {
    /// Appends all timers with `deadline <= now_ms` to `due`, as (deadline, payload), in the order of their
    /// deadlines; equal deadlines are in any order.
    ///
    /// Any step is allowed. A step back changes nothing that is past: it brings only timers that were inserted since
    /// with a deadline up to `now_ms`, and everything else still waits for its own deadline.
    #[inline]
    pub fn advance(&mut self, now_ms: i64, due: &mut Vec<(i64, T)>) {
        let now = tick_of(now_ms);
        if now < self.quiet_until {
            self.elapsed = self.elapsed.max(now);
        } else {
            self.pass_to(now, due);
        }
    }

    /// Separate from `advance`, which usually has nothing to do in a sparse wheel.
    #[inline(never)]
    fn pass_to(&mut self, now: u64, due: &mut Vec<(i64, T)>) {
        self.fire_late(now, due);
        if now > self.elapsed {
            self.fire_until(now, due);
            self.smooth_if_time(now);
        }
        self.quiet_until = if self.late.is_empty() { self.next_stir() } else { 0 };
    }

    fn smooth_if_time(&mut self, now: u64) {
        if now >= self.smoothing_at {
            self.smooth(now - self.smoothing_at + SMOOTHING_TICKS);
            self.smoothing_at = now.saturating_add(SMOOTHING_TICKS);
        }
    }

    /// The next tick at which `advance` has anything to do: an occupied tick of this block, its last tick or a slice of
    /// smoothing. Up to there, passing time costs one comparison.
    fn next_stir(&self) -> u64 {
        let border = self.smoothing_at.min(block_end(self.elapsed));
        if border <= self.elapsed {
            return self.elapsed;
        }
        let [ring, ..] = &self.rings;
        ring.first_between(self.elapsed + 1, border).unwrap_or(border)
    }

    fn fire_late(&mut self, now: u64, due: &mut Vec<(i64, T)>) {
        while let Some(&Reverse((tick, index))) = self.late.peek()
            && tick <= now
        {
            self.late.pop();
            self.fire(tick, index, due);
        }
    }

    /// Fires from block to block (256 ticks); blocks in which nothing starts are skipped.
    fn fire_until(&mut self, now: u64, due: &mut Vec<(i64, T)>) {
        loop {
            let stop = now.min(block_end(self.elapsed));
            self.fire_in_block(stop, due);
            if stop == now {
                return;
            }
            let starts = (0..LEVELS).filter_map(|level| self.first_start(level)).chain(self.far_start());
            match starts.min() {
                Some(start) if start <= now => self.enter(start_of(slot_of(start, 1), 1), due),
                _ => self.elapsed = now,
            }
        }
    }

    /// Fires the ticks after `elapsed` up to `stop`, in the same block.
    fn fire_in_block(&mut self, stop: u64, due: &mut Vec<(i64, T)>) {
        while self.elapsed < stop {
            let [ring, ..] = &self.rings;
            let Some(tick) = ring.first_between(self.elapsed + 1, stop) else { break };
            self.fire_tick(tick, due);
            self.elapsed = tick;
        }
        self.elapsed = stop;
    }

    /// Moves to the first tick of a block, brings down what covers it, and fires that tick.
    fn enter(&mut self, tick: u64, due: &mut Vec<(i64, T)>) {
        self.elapsed = tick;
        self.settle_far();
        for level in (1..LEVELS).rev() {
            self.move_down(level, slot_of(tick, level), usize::MAX);
        }
        self.fire_tick(tick, due);
    }

    fn fire_tick(&mut self, tick: u64, due: &mut Vec<(i64, T)>) {
        let [ring, ..] = &mut self.rings;
        if !ring.is_occupied(tick) {
            return;
        }
        let mut bucket = ring.take(tick);
        for entry in bucket.drain(..) {
            self.fire(tick, entry.index, due);
        }
        let [ring, ..] = &mut self.rings;
        ring.put_back(tick, bucket);
    }

    fn fire(&mut self, tick: u64, index: u32, due: &mut Vec<(i64, T)>) {
        if let Some(payload) = self.slab.take(index) {
            due.push((ms_of(tick), payload));
        }
    }

    fn settle_far(&mut self) {
        while let Some(first) = self.far.first_entry()
            && *first.key() <= slot_of(self.elapsed, LEVELS)
        {
            for (tick, index) in first.remove() {
                self.place(tick, index);
            }
        }
    }

    /// Moves a slice of every level's next slot down. That slot gets no more entries, so the work can only
    /// shrink.
    fn smooth(&mut self, ticks: u64) {
        let ticks = usize::try_from(ticks.min(MAX_SMOOTHED_TICKS)).unwrap_or(usize::MAX);
        for level in (1..LEVELS).rev() {
            let slot = slot_of(self.elapsed, level) + 1;
            let len = self.rings.get(level as usize).map_or(0, |ring| ring.len(slot));
            if len > 0 {
                self.move_down(level, slot, share_per_tick(len, level).saturating_mul(ticks));
            }
        }
    }

    /// Moves up to `count` entries of a slot to the levels below.
    fn move_down(&mut self, level: u32, slot: u64, count: usize) {
        let Some(ring) = self.rings.get_mut(level as usize) else { return };
        if !ring.is_occupied(slot) {
            return;
        }
        let mut bucket = ring.take(slot);
        let kept = bucket.len().saturating_sub(count);
        let start = start_of(slot, level);
        for entries in bucket.get(kept..).unwrap_or_default().chunks(LOOK_AHEAD) {
            self.bring_nearer(level, start, entries);
        }
        bucket.truncate(kept);
        if let Some(ring) = self.rings.get_mut(level as usize) {
            ring.put_back(slot, bucket);
        }
    }

    /// An entry that moves down from the second level is dropped if it is stale. That read of its slot also
    /// helps the cache: many reads in a row let their cache misses overlap, and firing, soon after, finds the
    /// slots in the cache.
    fn bring_nearer(&mut self, level: u32, start: u64, entries: &[Entry]) {
        let mut occupied = [true; LOOK_AHEAD];
        if level == 1 {
            for (occupied, entry) in occupied.iter_mut().zip(entries) {
                *occupied = self.slab.is_occupied(entry.index);
            }
        }
        for (entry, occupied) in entries.iter().zip(occupied) {
            if occupied {
                self.place(entry.tick(start), entry.index);
            } else {
                self.slab.release(entry.index);
            }
        }
    }
}
