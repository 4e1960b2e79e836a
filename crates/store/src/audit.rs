//! The range of ids that a page of the audit reads: the same for every dialect. A page reads a bounded range of them.

use punctual_contract::audit::{AuditPage, AuditQuery};
use punctual_domain::time::Millis;

/// The maximum number of entries that one page reads, however few of them match.
const LOOKED_AT_MAX: i64 = 20_000;
/// Engines' clocks differ a little, so that entries are not quite in the order of their times.
const SLACK_MS: i64 = 60_000;

/// The instant to search for with `since`: the id of the first entry from then on is the lower bound.
pub(crate) fn first_at(query: &AuditQuery) -> Option<Millis> {
    query.since.map(|at| at.plus(-SLACK_MS))
}

/// Numbers from `from` on, below `below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: i64,
    pub(crate) below: i64,
    /// The lowest id to read.
    lowest: i64,
}

/// Returns `None` if there is nothing to read. `first` is the first entry of the requested time, if there is one.
pub(crate) fn range(query: &AuditQuery, (min, max): (i64, i64), first: Option<Option<i64>>) -> Option<Range> {
    let lowest = match first {
        None => min,
        Some(None) => return None,
        Some(Some(first)) => min.max(first),
    };
    let below = query.before_id.unwrap_or(i64::MAX).min(max.saturating_add(1));
    if max == 0 || below <= lowest {
        return None;
    }
    Some(Range { from: lowest.max(below.saturating_sub(LOOKED_AT_MAX)), below, lowest })
}

/// Sets the position where the next page continues.
pub(crate) fn page(query: &AuditQuery, range: Range, mut page: AuditPage) -> AuditPage {
    page.next_before_id = if page.entries.len() >= query.limit {
        page.entries.last().map(|entry| entry.0).filter(|entry| *entry > range.lowest)
    } else {
        Some(range.from).filter(|from| *from > range.lowest)
    };
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_pass_over_a_bounded_range_and_end_at_the_first_entry() {
        let query = AuditQuery { limit: 10, ..AuditQuery::default() };
        assert_eq!(range(&query, (0, 0), None), None);
        let first = range(&query, (1, 50_000), None).unwrap();
        assert_eq!((first.from, first.below), (30_001, 50_001));
        let next = page(&query, first, AuditPage::default()).next_before_id;
        assert_eq!(next, Some(30_001));
        let last = range(&AuditQuery { before_id: Some(5), ..query.clone() }, (1, 50_000), None).unwrap();
        assert_eq!((last.from, last.below), (1, 5));
        assert_eq!(page(&query, last, AuditPage::default()).next_before_id, None);
        let since = range(&query, (1, 50_000), Some(Some(49_990))).unwrap();
        assert_eq!((since.from, since.below), (49_990, 50_001));
        assert_eq!(range(&query, (1, 50_000), Some(None)), None);
    }
}
