//! Arithmetic of ticks, slots and levels, as pure functions. Holds no state.
//!
//! A tick is an `i64` of milliseconds moved up by 2^63, so that order is kept and `u64` shifts divide it into slots.

/// Bits of a deadline that one level resolves: 256 slots make a period.
const LEVEL_BITS: u32 = 8;

/// The number of levels of rings. The highest has slots of 2^32 ticks, the maximum that the 32 bits of an entry
/// distinguish.
pub(crate) const LEVELS: u32 = 5;

const SIGN: u64 = 1 << 63;

pub(crate) const fn tick_of(ms: i64) -> u64 {
    ms.cast_unsigned() ^ SIGN
}

pub(crate) const fn ms_of(tick: u64) -> i64 {
    (tick ^ SIGN).cast_signed()
}

/// Number of the slot that covers `tick` on `level`, counted from tick 0. Level 5 gives the epoch of the far map.
pub(crate) const fn slot_of(tick: u64, level: u32) -> u64 {
    tick >> (LEVEL_BITS * level)
}

pub(crate) const fn start_of(slot: u64, level: u32) -> u64 {
    slot << (LEVEL_BITS * level)
}

/// Last tick of the first level's period around `tick`. No slot of a higher level starts before it is over.
pub(crate) const fn block_end(tick: u64) -> u64 {
    tick | ((1 << LEVEL_BITS) - 1)
}

/// The lowest level on which `tick` falls into the period of `elapsed` or the next one; `LEVELS` means too far.
///
/// The level of a tick, which must not be before `elapsed`.
pub(crate) const fn level_of(elapsed: u64, tick: u64) -> u32 {
    let half = ((tick - elapsed) >> 1) | 1;
    let level = half.ilog2() / LEVEL_BITS;
    if level >= LEVELS {
        return LEVELS;
    }
    // A distance below two periods fits for sure if it does not straddle two borders.
    let periods = slot_of(tick, level + 1) - slot_of(elapsed, level + 1);
    if periods <= 1 { level } else { level + 1 }
}

/// The number of entries, of `len` in the next slot of `level`, to move down for each tick that passes.
///
/// Eight times the even share, so that fewer than one in a thousand are left at the border.
pub(crate) const fn share_per_tick(len: usize, level: u32) -> usize {
    const AT_LEAST: usize = 4;
    const HASTE_BITS: u32 = 3;
    (len >> (LEVEL_BITS * level - HASTE_BITS)) + AT_LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_the_order_of_milliseconds_and_come_back() {
        let instants = [i64::MIN, i64::MIN + 1, -1, 0, 1, 1_700_000_000_000, i64::MAX];
        assert!(instants.map(tick_of).is_sorted());
        assert_eq!(instants.map(tick_of).map(ms_of), instants);
        assert_eq!((tick_of(i64::MIN), tick_of(i64::MAX)), (0, u64::MAX));
    }

    /// The definition that `level_of` shortens by a logarithm.
    fn level_by_search(elapsed: u64, tick: u64) -> u32 {
        let fits = |level: &u32| slot_of(tick, level + 1) - slot_of(elapsed, level + 1) <= 1;
        (0..LEVELS).find(fits).unwrap_or(LEVELS)
    }

    #[test]
    fn a_level_is_the_lowest_whose_two_periods_reach_the_tick() {
        for elapsed in [0, 1, 255, 256, 511, 65_535, 1 << 39, (1 << 40) - 1, tick_of(0), tick_of(-1)] {
            for bit in 0..62 {
                for near in [-1, 0, 1, 255, 256] {
                    let tick = (elapsed + (1u64 << bit)).saturating_add_signed(near).max(elapsed);
                    assert_eq!(level_of(elapsed, tick), level_by_search(elapsed, tick), "{elapsed} {tick}");
                }
            }
        }
        assert_eq!(level_of(0, u64::MAX), LEVELS);
        assert_eq!(level_of(u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn the_share_empties_a_slot_before_its_border() {
        for level in 1..LEVELS.min(4) {
            let mut left = 1_000_000usize;
            for _ in 0..start_of(1, level) {
                left = left.saturating_sub(share_per_tick(left, level));
            }
            assert!(left <= 1_000, "{left} left on level {level}");
        }
    }
}
