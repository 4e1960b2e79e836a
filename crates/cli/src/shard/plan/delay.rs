//! The distribution of the tasks' waiting time, given by a few of its points, spread evenly between them. That is the
//! careful reading: most real delays bunch at the lower end of each piece.

use crate::duration;
use serde::Serialize;
use std::str::FromStr;

/// Points (share of the tasks, seconds), both ascending, from (0, 0) to (1, the longest).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Vec<(f64, f64)>")]
pub(super) struct Delay(Vec<(f64, f64)>);

impl From<Delay> for Vec<(f64, f64)> {
    fn from(delay: Delay) -> Self {
        delay.0
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut points = vec![(0.0, 0.0)];
        for part in text.split(',') {
            points.push(point(part.trim())?);
        }
        let ascend = points.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0 && a.1 <= b.1));
        if !ascend || points.last().is_none_or(|point| point.0 < 1.0) {
            return Err("points must ascend and end with max or mean, such as p50=1h,max=7d".to_owned());
        }
        Ok(Self(points))
    }
}

/// `p50=1h`, `max=7d`; `mean=6h` means evenly spread up to twice as much.
fn point(text: &str) -> Result<(f64, f64), String> {
    let (name, value) = text.split_once('=').ok_or("must be like p50=1h,max=7d or mean=6h")?;
    let seconds = duration::parse(value)?.as_secs_f64();
    match name {
        "max" => Ok((1.0, seconds)),
        "mean" => Ok((1.0, 2.0 * seconds)),
        _ => {
            let share =
                name.strip_prefix('p').and_then(|rest| rest.parse::<f64>().ok()).map(|number| number / 100.0);
            let share = share.filter(|share| *share > 0.0 && *share < 1.0);
            Ok((share.ok_or_else(|| format!("{name:?} is not p1 to p99.9, max or mean"))?, seconds))
        }
    }
}

impl Delay {
    pub(super) fn longest_s(&self) -> f64 {
        self.0.last().map_or(0.0, |delay| delay.1)
    }

    pub(super) fn mean_s(&self) -> f64 {
        self.mean_within_s(f64::INFINITY)
    }

    /// The mean of the shorter of the delay and `limit_s`: for how long a task of this distribution stays where it is
    /// taken in only that long before its time.
    pub(super) fn mean_within_s(&self, limit_s: f64) -> f64 {
        let piece = |list: &[(f64, f64)]| match list {
            [(from, low), (to, high)] => (to - from) * mean_within(*low, *high, limit_s),
            _ => 0.0,
        };
        self.0.windows(2).map(piece).sum()
    }
}

/// The mean of a uniform distribution from `low` to `high`.
fn mean_within(low: f64, high: f64, limit: f64) -> f64 {
    if limit >= high {
        f64::midpoint(low, high)
    } else if limit <= low {
        limit
    } else {
        let below = (limit - low) / (high - low);
        below * f64::midpoint(low, limit) + (1.0 - below) * limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn the_mean_is_half_way_through_each_piece() {
        let delay: Delay = "p50=1h,max=7d".parse().unwrap();
        is(delay.mean_s() / 3_600.0, 0.5 * 0.5 + 0.5 * f64::midpoint(1.0, 168.0));
        is(delay.longest_s(), 604_800.0);
        is("mean=6h".parse::<Delay>().unwrap().mean_s(), 21_600.0);
    }

    #[test]
    fn within_a_limit_what_is_longer_counts_as_the_limit() {
        let delay: Delay = "p50=1h,max=7d".parse().unwrap();
        is(delay.mean_within_s(3_600.0) / 3_600.0, 0.5 * 0.5 + 0.5);
        is(delay.mean_within_s(1_800.0) / 3_600.0, 0.5 * (0.5 * 0.25 + 0.5 * 0.5) + 0.5 * 0.5);
        is(delay.mean_within_s(0.0), 0.0);
        is(delay.mean_within_s(1e12), delay.mean_s());
    }

    #[test]
    fn a_profile_that_is_no_distribution_is_refused() {
        for text in [
            "",
            "1h",
            "p50=1h",
            "p0=1h,max=2h",
            "p100=1h,max=2h",
            "p99=1h,p50=2h,max=3h",
            "p50=2h,max=1h",
            "max=1h,max=2h",
            "p50=1,max=2h",
            "mean=1h,max=2h",
            "pnan=1h,max=2h",
        ] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }
}
