//! This engine's information about each database: its failures, the work that runs on it, and the duration of its
//! leases. Sends no query.

use super::pace::{self, Pace};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::place::Partition;
use std::time::Duration;
use tokio::time::Instant;

/// A database that takes longer for a lease counts as failing, and is asked nothing until it answers a check.
pub(super) const LEASES_WITHIN: Duration = pace::AT_MOST;
/// A failed database is checked again after this, with the time doubled after each check.
const LOOK_AFTER: Duration = Duration::from_millis(200);
const LOOK_AFTER_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Parts(pub(super) Mutex<DatabasesState>);

#[derive(Debug, Default)]
pub(super) struct DatabasesState {
    /// The work of a loop on a database, and since when it runs.
    pub(super) busy: HashMap<(&'static str, usize), Instant>,
    failing: HashMap<usize, Failing>,
    /// Leases that were made, and too late, in a row.
    late: HashMap<usize, u32>,
    pub(super) pace: HashMap<usize, Pace>,
}

/// The condition of a database, from good to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    None,
    /// The leases of the database take much longer than usual.
    Slow,
    Fails,
}

#[derive(Debug)]
struct Failing {
    in_a_row: u32,
    look_at: Instant,
}

impl DatabasesState {
    fn trouble(&self, part: usize, now: Instant) -> Trouble {
        if self.failing.contains_key(&part) {
            Trouble::Fails
        } else if self.pace.get(&part).is_some_and(|pace| pace.is_doubtful(now)) {
            Trouble::Slow
        } else {
            Trouble::None
        }
    }
}

impl Parts {
    /// Records that the database failed, or is silent: no more of its tasks are handed over until it answers a check.
    pub(crate) fn failed(&self, part: usize) {
        self.failed_at(part, Instant::now());
    }

    fn failed_at(&self, part: usize, now: Instant) {
        let mut inner = self.0.lock();
        let failing = inner.failing.entry(part).or_insert(Failing { in_a_row: 0, look_at: now });
        if failing.look_at > now {
            // Those that were asked together count once.
            return;
        }
        failing.look_at = now + (LOOK_AFTER * (1 << failing.in_a_row.min(4))).min(LOOK_AFTER_MAX);
        failing.in_a_row += 1;
    }

    pub(super) fn trouble(&self, part: usize) -> Trouble {
        self.0.lock().trouble(part, Instant::now())
    }

    /// Among `count` databases, those in more trouble than the best one.
    pub(crate) fn doubtful(&self, count: usize) -> Vec<usize> {
        let (inner, now) = (self.0.lock(), Instant::now());
        let troubles: Vec<Trouble> = (0..count).map(|part| inner.trouble(part, now)).collect();
        let least = troubles.iter().min().copied().unwrap_or(Trouble::None);
        troubles.iter().enumerate().filter(|(_, trouble)| **trouble > least).map(|(part, _)| part).collect()
    }

    pub(super) fn answers(&self, part: usize) {
        let mut inner = self.0.lock();
        inner.failing.remove(&part);
        if let Some(pace) = inner.pace.get_mut(&part) {
            pace.answers(Instant::now());
        }
    }

    /// The time limit of the wait for a database's leases, for a caller that could get tasks of others meanwhile.
    pub(crate) fn short_patience(&self, part: usize) -> Duration {
        self.0.lock().pace.get(&part).map_or(LEASES_WITHIN, Pace::patience)
    }

    /// The time limit of a database's leases before it counts as failing. The time grows when leases were made too
    /// late, so that a merely slow database is not queried in vain repeatedly.
    pub(crate) fn patience(&self, part: usize) -> Duration {
        let late = self.0.lock().late.get(&part).copied().unwrap_or(0);
        LEASES_WITHIN * (1 << late.min(5))
    }

    /// It has made leases.
    pub(crate) fn has_leased(&self, part: usize, in_time: bool) {
        let mut inner = self.0.lock();
        if in_time {
            inner.late.remove(&part);
        } else {
            *inner.late.entry(part).or_default() += 1;
        }
    }

    /// Databases to check now: those that fail, or for which tasks wait; with a known partition, if any.
    pub(super) fn to_look_at(
        &self,
        now: Instant,
        aside: impl Iterator<Item = (usize, Partition)>,
    ) -> Vec<(usize, Option<Partition>)> {
        let inner = self.0.lock();
        let mut parts: HashMap<usize, Option<Partition>> =
            inner.failing.keys().map(|key| (*key, None)).collect();
        parts.extend(aside.map(|(part, partition)| (part, Some(partition))));
        parts.retain(|part, _| inner.failing.get(part).is_none_or(|failing| failing.look_at <= now));
        parts.into_iter().collect()
    }
}

/// Lease requests to a database, until they are answered or abandoned.
pub(super) struct Asked<'p> {
    pub(super) parts: &'p Parts,
    pub(super) part: usize,
    pub(super) asked: (Instant, u64),
}

impl<'p> Asked<'p> {
    pub(super) fn new(parts: &'p Parts, part: usize) -> Self {
        let asked = parts.0.lock().pace.entry(part).or_default().asks(Instant::now());
        Self { parts, part, asked }
    }

    pub(super) fn pace<T>(&self, change: impl FnOnce(&mut Pace) -> T) -> T {
        change(self.parts.0.lock().pace.entry(self.part).or_default())
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.pace(|pace| pace.ended(self.asked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_fails_is_looked_at_less_and_less_often() {
        let parts = Parts::default();
        let (mut now, mut pauses) = (Instant::now(), Vec::new());
        for _ in 0..6 {
            parts.failed_at(1, now);
            parts.failed_at(1, now);
            let began = now;
            while parts.to_look_at(now, std::iter::empty()).is_empty() {
                now += Duration::from_millis(100);
            }
            pauses.push(now.duration_since(began).as_millis());
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!((parts.trouble(1), parts.trouble(0)), (Trouble::Fails, Trouble::None));
        parts.answers(1);
        assert_eq!(parts.trouble(1), Trouble::None);
    }

    #[test]
    fn a_part_is_doubted_only_where_another_is_in_less_trouble() {
        let (parts, now) = (Parts::default(), Instant::now());
        parts.failed_at(0, now);
        assert_eq!(parts.doubtful(1), [0_usize; 0], "there is nothing else to go on with");
        assert_eq!(parts.doubtful(3), [0]);
        let slow = Asked::new(&parts, 1);
        let long_ago = Instant::now().checked_sub(LEASES_WITHIN * 2).unwrap();
        slow.pace(|pace| pace.asks(long_ago));
        assert_eq!(
            (parts.trouble(1), parts.doubtful(2), parts.doubtful(3)),
            (Trouble::Slow, vec![0], vec![0, 1])
        );
        parts.failed_at(1, now);
        assert_eq!(parts.doubtful(2), [0_usize; 0], "both fail");
        parts.answers(0);
        assert_eq!(parts.doubtful(2), [1]);
    }

    #[test]
    fn a_database_that_is_only_slow_is_waited_for_longer_and_longer() {
        let parts = Parts::default();
        for wanted in [300, 600, 1_200, 2_400, 4_800, 9_600, 9_600] {
            assert_eq!(parts.patience(1).as_millis(), wanted);
            parts.has_leased(1, false);
        }
        parts.has_leased(1, true);
        assert_eq!(parts.patience(1), LEASES_WITHIN);
    }
}
