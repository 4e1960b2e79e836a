//! Computes which buckets there should be: pure arithmetic over ends of buckets. Uses no database and no clock.
//!
//! Near the present a bucket has the requested width. Further in the future it is wider, up to a quarter of its
//! distance, and it is split as it comes near: so a few dozen of them reach over centuries, and an insert for any of
//! these instants finds its bucket. Nothing has to be copied for distant buckets, however much it is.

const HOUR_MS: i64 = 3_600_000;
/// The length of the axis when it is created, 256 years, and the part of it that may pass before it is extended.
const AXIS_MS: i64 = 256 * 365 * 24 * HOUR_MS;
const AXIS_MIN_MS: i64 = AXIS_MS / 2;
/// The minimum distance of a bucket from the present, as a multiple of its width.
const WIDTHS_AWAY: i64 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeBucket {
    pub(super) name: String,
    /// End of the one before; `i64::MIN`: there is none before.
    pub(super) begins_at: i64,
    /// The exclusive end. `None` if the bucket has no end, and holds everything that is later than the others.
    pub(super) ends_at: Option<i64>,
}

/// Creates buckets from names and ends in order of time.
pub(super) fn in_order(listed: Vec<(String, Option<i64>)>) -> Vec<TimeBucket> {
    let mut begins_at = i64::MIN;
    let bucket = |(name, ends_at): (String, Option<i64>)| {
        let bucket = TimeBucket { name, begins_at, ends_at };
        begins_at = ends_at.unwrap_or(i64::MAX);
        bucket
    };
    listed.into_iter().map(bucket).collect()
}

/// Computes, from the ends of all buckets in order of time, until when those from `now` on are as narrow as a day and
/// a bit, and the end of the last bucket that has one. `None` if there is none.
pub(crate) fn ahead(ends: &[Option<i64>], now: i64) -> Option<(i64, i64)> {
    const NARROW_MS: i64 = 26 * HOUR_MS;
    let until = ends.iter().flatten().copied().max()?;
    let mut narrow_until = now;
    let mut begins_at = i64::MIN;
    for ends_at in ends.iter().flatten().filter(|number| **number > now) {
        // The one of the present may be wide: time without buckets became one.
        if begins_at > now && ends_at.saturating_sub(begins_at) > NARROW_MS {
            break;
        }
        (narrow_until, begins_at) = (*ends_at, *ends_at);
    }
    Some((narrow_until, until))
}

/// Name and end of a bucket to be made. `None` if it has no end.
pub(super) type Piece = (String, Option<i64>);

/// The requested division of the axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) now: i64,
    /// The instant up to which buckets have at most the requested width.
    pub(super) until: i64,
    pub(super) width_ms: i64,
}

impl Axis {
    /// The pieces into which the bucket must be split; none if it stays. `last_end` is the end of the last bucket
    /// that has one.
    pub(super) fn pieces(&self, bucket: &TimeBucket, last_end: Option<i64>) -> Vec<Piece> {
        match bucket.ends_at {
            Some(ends_at) => self.cut(bucket.begins_at, ends_at),
            None => {
                let beyond = self.beyond(last_end);
                let rest = (!beyond.is_empty()).then(|| (bucket.name.clone(), None));
                beyond.into_iter().chain(rest).collect()
            }
        }
    }

    /// The new buckets at multiples of their widths, from the last end on. Time that passed without new buckets
    /// becomes one.
    fn beyond(&self, last_end: Option<i64>) -> Vec<Piece> {
        let is_long = |end: i64| end > self.until && end >= self.now.saturating_add(AXIS_MIN_MS);
        if last_end.is_some_and(is_long) {
            return Vec::new();
        }
        let present = floor(self.now, self.width_ms);
        let axis_end = self.now.saturating_add(AXIS_MS);
        let mut begins_at = last_end.unwrap_or(present);
        let mut made = Vec::new();
        while begins_at < axis_end {
            let ends_at = self.end_after(begins_at).max(present);
            made.push((name(begins_at), Some(ends_at)));
            begins_at = ends_at;
        }
        made
    }

    /// One that was wide enough where it was made, and has come nearer. One that has begun stays as it is.
    fn cut(&self, begins_at: i64, ends_at: i64) -> Vec<Piece> {
        let is_wide = ends_at.saturating_sub(begins_at) >= self.width_at(begins_at).saturating_mul(2);
        if begins_at <= self.now || !is_wide {
            return Vec::new();
        }
        let mut pieces = Vec::new();
        let mut at = begins_at;
        while at < ends_at {
            let end = self.end_after(at).min(ends_at);
            pieces.push((name(at), Some(end)));
            at = end;
        }
        pieces
    }

    fn end_after(&self, begins_at: i64) -> i64 {
        let width = self.width_at(begins_at);
        floor(begins_at, width).saturating_add(width)
    }

    /// The width times a power of two: halves of a bucket are buckets.
    fn width_at(&self, begins_at: i64) -> i64 {
        let away = begins_at.saturating_sub(self.now) / self.width_ms.saturating_mul(WIDTHS_AWAY).max(1);
        if begins_at <= self.until || away < 2 {
            return self.width_ms;
        }
        self.width_ms << away.ilog2()
    }
}

fn floor(at: i64, width_ms: i64) -> i64 {
    at.div_euclid(width_ms).saturating_mul(width_ms)
}

/// `p<yyyymmddhh>` of its begin, UTC. Two buckets begin at least an hour apart.
fn name(begins_at: i64) -> String {
    let hours = begins_at.div_euclid(HOUR_MS);
    let (days, hour) = (hours.div_euclid(24), hours.rem_euclid(24));
    let (year, month, day) = date(days);
    format!("p{year:04}{month:02}{day:02}{hour:02}")
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar; eras of 400 years begin in March.
const fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as i64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * HOUR_MS;
    /// 2026-11-21T02:30:00Z
    const NOW: i64 = 1_795_228_200_000;
    const TODAY: i64 = NOW - NOW % DAY;

    #[test]
    fn how_far_the_axis_is_cut_is_seen_from_its_ends() {
        let ends = [Some(TODAY - DAY), Some(TODAY + DAY), Some(TODAY + 2 * DAY), Some(TODAY + 9 * DAY), None];
        assert_eq!(ahead(&ends, NOW), Some((TODAY + 2 * DAY, TODAY + 9 * DAY)));
        assert_eq!(ahead(&ends[..1], NOW), Some((NOW, TODAY - DAY)), "none for the present");
        assert_eq!(ahead(&[None], NOW), None);
    }

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_778, (2026, 11, 21)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }

    fn axis(now: i64) -> Axis {
        Axis { now, until: now + 8 * DAY, width_ms: DAY }
    }

    /// Applies a run: the buckets as the database would list them.
    fn run(axis: Axis, mut buckets: Vec<TimeBucket>) -> Vec<TimeBucket> {
        let last_end = buckets.iter().rev().find_map(|bucket| bucket.ends_at);
        let mut listed = Vec::new();
        for bucket in buckets.drain(..) {
            let pieces = axis.pieces(&bucket, last_end);
            if pieces.is_empty() { listed.push((bucket.name, bucket.ends_at)) } else { listed.extend(pieces) }
        }
        in_order(listed)
    }

    fn fresh() -> Vec<TimeBucket> {
        in_order(vec![("pmax".to_owned(), None)])
    }

    #[test]
    fn an_empty_axis_begins_today_and_reaches_over_centuries_in_a_few_dozen_buckets() {
        let made = run(axis(NOW), fresh());
        assert_eq!((made[0].name.as_str(), made[0].ends_at), ("p2026112100", Some(TODAY + DAY)));
        assert!((50..90).contains(&made.len()), "{}", made.len());
        let last = &made[made.len() - 1];
        assert_eq!((last.name.as_str(), last.ends_at), ("pmax", None));
        assert!(last.begins_at >= NOW + AXIS_MS);
        assert_eq!(run(axis(NOW), made.clone()), made, "and a second run changes nothing");
    }

    #[test]
    fn a_bucket_is_no_wider_than_a_quarter_of_its_distance_and_near_ones_are_as_asked_for() {
        for bucket in run(axis(NOW), fresh()).iter().skip(1) {
            let Some(ends_at) = bucket.ends_at else { continue };
            let (width, away) = (ends_at - bucket.begins_at, bucket.begins_at - NOW);
            assert!(width == DAY || width <= away / WIDTHS_AWAY, "{bucket:?}");
            assert!(away > 8 * DAY || width == DAY, "{bucket:?}");
        }
    }

    #[test]
    fn buckets_are_cut_as_they_come_near_and_their_number_stays_small_over_centuries() {
        let mut buckets = run(axis(NOW), fresh());
        for day in (1..40_000).map(|number| number * 7 + number % 7) {
            let now = NOW + day * DAY;
            buckets = run(axis(now), buckets);
            // As housekeeping drops what is old.
            let old = buckets
                .iter()
                .take_while(|bucket| bucket.ends_at.is_some_and(|end| end < now - 8 * DAY))
                .count();
            buckets.drain(..old);
            assert!(buckets.len() < 120, "{} after {day} days", buckets.len());
            let ends: Vec<i64> = buckets.iter().filter_map(|bucket| bucket.ends_at).collect();
            assert!(ends.is_sorted_by(|a, b| a < b));
            let near =
                buckets.iter().filter(|bucket| bucket.begins_at > now && bucket.begins_at <= now + 8 * DAY);
            assert!(
                near.filter_map(|bucket| Some(bucket.ends_at? - bucket.begins_at))
                    .all(|number| number <= DAY),
                "day {day}"
            );
            let mut names: Vec<&str> = buckets.iter().map(|bucket| bucket.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), buckets.len(), "names differ");
        }
    }

    #[test]
    fn time_in_which_nobody_made_buckets_becomes_one() {
        let old = in_order(vec![("p1".to_owned(), Some(TODAY - 30 * DAY)), ("pmax".to_owned(), None)]);
        let made = run(axis(NOW), old);
        assert_eq!((made[1].begins_at, made[1].ends_at), (TODAY - 30 * DAY, Some(TODAY)));
        assert_eq!(made[2].ends_at, Some(TODAY + DAY));
    }

    #[test]
    fn one_that_has_begun_is_not_cut_and_neither_is_one_that_is_narrow_enough() {
        let axis = axis(NOW);
        assert!(axis.cut(NOW - DAY, NOW + 30 * DAY).is_empty());
        assert!(axis.cut(TODAY + DAY, TODAY + 2 * DAY).is_empty());
        assert_eq!(axis.cut(TODAY + DAY, TODAY + 3 * DAY).len(), 2);
        assert!(axis.cut(TODAY + 40 * DAY, TODAY + 48 * DAY).is_empty());
    }

    #[test]
    fn ends_ascend_and_names_differ_whatever_is_changed_between() {
        let mut buckets = fresh();
        for (step, width_hours) in [24, 1, 5, 24, 3, 168, 24].into_iter().enumerate() {
            let now = NOW + i64::try_from(step).unwrap() * 2 * DAY;
            let axis = Axis { now, until: now + 3 * DAY, width_ms: width_hours * HOUR_MS };
            buckets = run(axis, buckets);
            assert!(
                buckets
                    .windows(2)
                    .all(|pair| pair[0].name != pair[1].name && pair[0].begins_at < pair[1].begins_at),
                "{buckets:?}"
            );
        }
    }
}
