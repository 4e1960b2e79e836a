//! Hierarchical timing wheel over any payload: pure, no clock, no `unsafe`, no dependency.
//!
//! Time is a row of ticks, one a millisecond. Close by, every tick has a bucket of its own; further away
//! a bucket covers 256 ticks, then 65,536, and so on: five *levels*, each a *ring* of 512 *slots*, and each
//! slot a contiguous list of eight-byte entries. Beyond the fifth level (35 to 70 years) entries wait in a
//! map keyed by epoch; what is already overdue waits in a heap. So a deadline may be any `i64`.
//!
//! **Where an entry lives.** Call the 256 slots of a level that make up one slot of the level above a
//! *period*. An entry lives in the lowest level where its deadline falls in the current period or in the
//! next one; a ring has room for exactly those two, so a slot number is never ambiguous. The rule gives two facts
//! that everything else leans on: an entry is inserted at least two slots ahead on any level above the
//! first, and the slot after the current one never receives an entry any more.
//!
//! **Cascade.** Before time enters a slot of a higher level, its entries have moved to the level below. Since the
//! next slot is frozen, it is moved a slice at a time while the current one passes (*smoothing*), and only what is
//! left moves at the border (*settling*). A tick therefore costs what is due in it and a small slice, never a
//! complete slot; a jump over years costs the occupied slots on the way, found in bitmaps.
//!
//! **Payloads** stay in a slab and never move; entries carry the slab index. Cancelling takes the payload out
//! and leaves the entry behind as *stale*; its slab slot is reused only after the entry is dropped, so an
//! entry needs no generation of its own. Stale entries are dropped when they come near or fire, and a sweep of
//! bounded steps keeps them from outnumbering the live ones in a service that inserts and cancels for ever.
//!
//! It never reads a clock, fires early, allocates per timer, or runs foreign code while it is half changed.

mod blocks;
mod ring;
mod slab;
mod tick;

mod advance;
mod sweep;
mod wheel;

#[cfg(test)]
mod tests;

pub use slab::Key;
pub use wheel::Wheel;
