//! The rate at which tasks arrive in a database, measured by its own counter, and the width of buckets that follows.
//! The measurement is stored in the database, so that it survives the engine that measured. Pure: must not read or
//! write a database.

use punctual_domain::time::Millis;

const HOUR_MS: i64 = 3_600_000;
/// The time between two measurements.
const WINDOW_MS: i64 = 600_000;
/// The time in which a peak decays, linearly: the same hour of the same day recurs until then.
const PEAK_MS: i64 = 7 * 24 * HOUR_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) at: i64,
    /// Tasks until then.
    pub(super) accepted: i64,
    /// Tasks an hour, in the busiest window of the last days.
    pub(super) peak: i64,
    /// Tasks an hour, on a day's average.
    pub(super) mean: i64,
}

impl Rate {
    /// Returns `None` if it is too early for a measurement.
    pub(super) fn after(self, now: Millis, accepted: i64) -> Option<Self> {
        let elapsed_ms = now.0.saturating_sub(self.at);
        if elapsed_ms < WINDOW_MS {
            return None;
        }
        let tasks = accepted.saturating_sub(self.accepted).max(0);
        let rate = share(tasks, HOUR_MS, elapsed_ms);
        let peak = self.peak - share(self.peak, elapsed_ms.min(PEAK_MS), PEAK_MS);
        let mean = self.mean + share(rate - self.mean, elapsed_ms.min(DAY_MS), DAY_MS);
        // The first window of a store represents its first day.
        let mean = if self.peak == 0 { rate } else { mean };
        Some(Self { at: now.0, accepted, peak: peak.max(rate), mean })
    }

    /// Something has come since it is measured.
    pub(super) const fn is_known(self) -> bool {
        self.peak > 0
    }

    /// The width in hours: the requested maximum, or an integer fraction of it, in which no more than `rows` tasks
    /// arrive. A day evens out its hours; a shorter bucket must hold the busiest of them.
    pub(super) fn width_hours(self, widest: u32, rows: u64) -> u32 {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let fits = |hours: &u32| {
            let rate = if *hours < 24 { self.peak } else { self.mean };
            rate.saturating_mul(i64::from(*hours)) <= rows
        };
        let widest = widest.max(1);
        (1..=widest).rev().filter(|hours| widest.is_multiple_of(*hours)).find(fits).unwrap_or(1)
    }
}

/// Computes `number * part / whole` without overflow.
fn share(number: i64, part: i64, whole: i64) -> i64 {
    let share = i128::from(number) * i128::from(part) / i128::from(whole.max(1));
    i64::try_from(share).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u64 = 10_000_000;

    /// The rate after a week in which each day has an hour that is three times as busy as the average.
    fn after_a_week(per_day: i64) -> Rate {
        let (mut rate, mut accepted) = (Rate::default(), 0);
        for window in 1..=7 * 24 * 6_i64 {
            let is_busy = (window / 6) % 24 == 12;
            accepted += per_day / (24 * 6) * if is_busy { 3 } else { 1 } * 24 / 26;
            rate = rate.after(Millis(window * WINDOW_MS), accepted).unwrap();
        }
        rate
    }

    #[test]
    fn buckets_are_as_wide_as_the_rate_lets_them_be_near_ten_million_rows() {
        for (per_day, hours) in
            [(1_000, 24), (9_000_000, 24), (20_000_000, 4), (67_000_000, 1), (900_000_000, 1)]
        {
            let rate = after_a_week(per_day);
            assert_eq!(rate.width_hours(24, ROWS), hours, "{per_day} a day: {rate:?}");
        }
        assert_eq!(after_a_week(1_000).width_hours(168, ROWS), 168);
        assert_eq!(after_a_week(1_000_000).width_hours(168, ROWS), 168);
        assert_eq!(after_a_week(3_000_000).width_hours(168, ROWS), 56, "a whole part of it");
        assert_eq!(after_a_week(20_000_000).width_hours(1, ROWS), 1);
    }

    #[test]
    fn a_peak_is_forgotten_within_a_week_and_an_average_within_days() {
        let busy = Rate { at: 0, accepted: 0, peak: 1_000, mean: 1_000 };
        let day = busy.after(Millis(DAY_MS), 0).unwrap();
        assert_eq!((day.peak, day.mean), (858, 0));
        assert_eq!(busy.after(Millis(8 * DAY_MS), 0).unwrap().peak, 0);
    }

    #[test]
    fn two_looks_at_the_same_time_measure_once() {
        let rate = Rate { at: 0, accepted: 0, peak: 1, mean: 1 };
        assert_eq!(rate.after(Millis(WINDOW_MS - 1), 1_000_000), None);
        assert_eq!(rate.after(Millis(WINDOW_MS), 100).unwrap().peak, 600);
        // Partitions that left took their counters along.
        assert_eq!(Rate { accepted: 100, ..rate }.after(Millis(WINDOW_MS), 50).unwrap().peak, 1);
    }
}
