//! What is known of an inbox, for callers, metrics and alerts. Asks nothing.

use crate::intake::Trouble;
use punctual_contract::inbox::InboxCounts;
use punctual_domain::time::{Millis, Span};

/// Upper bounds of the lag's histogram; one more bucket has no bound.
pub const LAG_BOUNDS_MS: [i64; 10] = [10, 25, 50, 75, 100, 250, 500, 1_000, 10_000, 60_000];

/// A row that has waited for longer is one of an inbox that is behind.
const BEHIND_MS: i64 = 30_000;
/// As long as this it may be a transaction that was open for long, or a relay that takes over.
const FOR_MS: i64 = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxState {
    /// The database has not answered yet, or not the last time.
    #[default]
    Away,
    /// This engine moves its rows.
    Moving,
    /// Another relay does.
    Standby,
}

/// Rows by what became of them, since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowNumbers {
    pub inserted: u64,
    pub existing: u64,
    pub superseded: u64,
    pub refused: u64,
    /// Offers that were not taken for now.
    pub put_off: u64,
}

impl RowNumbers {
    pub(crate) fn add(&mut self, more: Self) {
        self.inserted += more.inserted;
        self.existing += more.existing;
        self.superseded += more.superseded;
        self.refused += more.refused;
        self.put_off += more.put_off;
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxReport {
    pub name: String,
    /// `host:port/database`.
    pub at: String,
    pub state: InboxState,
    /// As they were counted last.
    pub counts: Option<InboxCounts>,
    pub numbers: RowNumbers,
    /// From INSERT to durable task, of inserted rows: by `LAG_BOUNDS_MS`.
    pub lag: [u64; LAG_BOUNDS_MS.len() + 1],
    pub lag_sum_ms: u64,
    /// The last one; none since no row had to wait.
    pub last_error: Option<(Millis, String)>,
    pub(crate) failing_since: Option<Millis>,
    pub(crate) behind_since: Option<Millis>,
}

impl InboxReport {
    pub(crate) fn lagged(&mut self, age_ms: i64) {
        let age_ms = age_ms.max(0);
        let nth = LAG_BOUNDS_MS.iter().position(|bound| age_ms <= *bound).unwrap_or(LAG_BOUNDS_MS.len());
        if let Some(count) = self.lag.get_mut(nth) {
            *count += 1;
        }
        self.lag_sum_ms = self.lag_sum_ms.saturating_add(age_ms.unsigned_abs());
    }

    pub(crate) fn counted(&mut self, counts: InboxCounts, now: Millis) {
        let is_behind = counts.oldest_ms.is_some_and(|age_ms| age_ms >= BEHIND_MS);
        self.behind_since = is_behind.then(|| self.behind_since.unwrap_or(now));
        self.counts = Some(counts);
    }

    pub(crate) fn trouble(&self, now: Millis) -> Trouble {
        let lasts = |since: Option<Millis>| since.is_some_and(|since| now.since(since) >= FOR_MS);
        let why = self.last_error.as_ref().map_or(String::new(), |(_, error)| format!(": {error}"));
        // Engines that see the same say the same, so that it is one alert.
        let behind = if lasts(self.failing_since) {
            Some(format!("inbox {:?} ({}) cannot be moved{why}", self.name, self.at))
        } else if lasts(self.behind_since) {
            let most = Span(BEHIND_MS);
            Some(format!("inbox {:?} ({}): rows wait for longer than {most}{why}", self.name, self.at))
        } else {
            None
        };
        let has_refused = self.counts.is_some_and(|counts| counts.refused > 0);
        let refused = has_refused.then(|| format!("inbox {:?} ({}): rows were refused", self.name, self.at));
        Trouble { behind, refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(oldest_ms: Option<i64>, refused: u64) -> InboxCounts {
        InboxCounts { waiting: 3, oldest_ms, refused }
    }

    #[test]
    fn what_lasts_is_alerted_and_what_passes_is_not() {
        let mut report = InboxReport { name: "shop".into(), at: "h/d".into(), ..InboxReport::default() };
        report.counted(counts(Some(BEHIND_MS), 0), Millis(0));
        assert_eq!(report.trouble(Millis(FOR_MS - 1)), Trouble::default());
        report.counted(counts(Some(BEHIND_MS + 5_000), 0), Millis(5_000));
        let behind = report.trouble(Millis(FOR_MS)).behind.unwrap();
        assert!(behind.contains("\"shop\" (h/d): rows wait for longer"), "{behind}");
        report.counted(counts(None, 2), Millis(20_000));
        let trouble = report.trouble(Millis(90_000));
        assert_eq!((trouble.behind, trouble.refused.is_some()), (None, true));
    }

    #[test]
    fn each_lag_has_one_bucket() {
        let mut report = InboxReport::default();
        [-1, 10, 11, 60_001].into_iter().for_each(|age_ms| report.lagged(age_ms));
        assert_eq!((report.lag[0], report.lag[1], report.lag[LAG_BOUNDS_MS.len()]), (2, 1, 1));
        assert_eq!(report.lag_sum_ms, 60_022);
    }
}
