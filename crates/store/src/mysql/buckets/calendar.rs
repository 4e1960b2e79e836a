//! Which buckets there should be: pure arithmetic over ends of buckets. Knows no database and no clock.

/// Most that are made at once, so that one task in a hundred years does not cut a century into days. MySQL holds 8,192
/// in all.
const MOST: usize = 400;
const HOUR_MS: i64 = 3_600_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) name: String,
    /// End of the one before; `i64::MIN`: there is none before.
    pub(super) begins_at: i64,
    /// Exclusive. None: has no end, and takes whatever is later than the others.
    pub(super) ends_at: Option<i64>,
}

/// From names and ends in order of time.
pub(super) fn in_order(listed: Vec<(String, Option<i64>)>) -> Vec<Bucket> {
    let mut begins_at = i64::MIN;
    let bucket = |(name, ends_at): (String, Option<i64>)| {
        let bucket = Bucket { name, begins_at, ends_at };
        begins_at = ends_at.unwrap_or(i64::MAX);
        bucket
    };
    listed.into_iter().map(bucket).collect()
}

/// Names and ends of those to be made: at whole multiples of the width, from the last end on, until there is one for
/// every instant up to `until` and for the latest task that waits beyond. Time that passed while nobody made buckets
/// becomes one.
pub(super) fn ahead(
    last_end: Option<i64>,
    now: i64,
    until: i64,
    latest: Option<i64>,
    width_ms: i64,
) -> Vec<(String, i64)> {
    let present = floor(now, width_ms);
    let until = until.max(latest.unwrap_or(i64::MIN));
    let mut begins_at = last_end.unwrap_or(present);
    let mut made = Vec::new();
    while begins_at <= until && made.len() < MOST {
        let next = floor(begins_at, width_ms).saturating_add(width_ms);
        let ends_at = next.max(present);
        made.push((name(begins_at), ends_at));
        begins_at = ends_at;
    }
    // Up to `until` they are needed; what is later may wait until it is nearer.
    made
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

    fn ends(made: &[(String, i64)]) -> Vec<i64> {
        made.iter().map(|it| it.1).collect()
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

    #[test]
    fn an_empty_axis_begins_today_and_reaches_past_the_horizon() {
        let made = ahead(None, NOW, NOW + 8 * DAY, None, DAY);
        assert_eq!(made.first(), Some(&("p2026112100".to_owned(), TODAY + DAY)));
        assert_eq!(made.last(), Some(&("p2026112900".to_owned(), TODAY + 9 * DAY)));
        assert_eq!(made.len(), 9);
    }

    #[test]
    fn what_reaches_far_enough_is_left_alone_and_a_day_later_one_is_made() {
        let end = Some(TODAY + 9 * DAY);
        assert_eq!(ahead(end, NOW, NOW + 8 * DAY, None, DAY), []);
        let tomorrow = ahead(end, NOW + DAY, NOW + 9 * DAY, None, DAY);
        assert_eq!(tomorrow, [("p2026113000".to_owned(), TODAY + 10 * DAY)]);
    }

    #[test]
    fn another_width_holds_for_new_buckets_at_its_own_multiples() {
        let narrower = ahead(Some(TODAY + DAY), NOW, NOW + DAY, None, 6 * HOUR_MS);
        assert_eq!(narrower, [("p2026112200".to_owned(), TODAY + DAY + 6 * HOUR_MS)]);
        let wider = ahead(Some(TODAY + DAY), NOW, NOW + 2 * DAY, None, 7 * DAY);
        assert_eq!(wider.len(), 1);
        assert!(wider.iter().all(|it| it.1 % (7 * DAY) == 0));
    }

    #[test]
    fn time_in_which_nobody_made_buckets_becomes_one() {
        let made = ahead(Some(TODAY - 30 * DAY), NOW, NOW, None, DAY);
        assert_eq!(ends(&made), [TODAY, TODAY + DAY]);
    }

    #[test]
    fn the_latest_task_gets_a_bucket_unless_it_is_centuries_away() {
        let far = ahead(Some(TODAY + 9 * DAY), NOW, NOW + 8 * DAY, Some(TODAY + 20 * DAY), DAY);
        assert_eq!(far.last().map(|it| it.1), Some(TODAY + 21 * DAY));
        assert_eq!(ahead(None, NOW, NOW, Some(i64::MAX), DAY).len(), MOST);
    }

    #[test]
    fn ends_ascend_and_names_differ_whatever_is_changed_between() {
        let mut end = None;
        let mut all = Vec::new();
        for (step, width_hours) in [24, 1, 5, 24, 3, 168, 24].into_iter().enumerate() {
            let now = NOW + i64::try_from(step).unwrap() * 2 * DAY;
            let made = ahead(end, now, now + 3 * DAY, None, width_hours * HOUR_MS);
            end = made.last().map(|it| it.1).or(end);
            all.extend(made);
        }
        assert!(all.windows(2).all(|it| it[0].1 < it[1].1 && it[0].0 < it[1].0), "{all:?}");
    }
}
