//! Chunks of ids, by which the tasks of a queue are found among those of all others: ids ascend and are given out once, so a queue has
//! its tasks in few chunks, or a row of the index represents many of its tasks. Knows no store.

use std::ops::RangeInclusive;

/// Ids of one chunk, in the statements too. The fewer, the less a rare task costs to find, and the more rows a busy cluster of
/// many queues writes.
pub(crate) const IDS: i64 = 1_024;
/// Rows of one namespace and chunk, of one writer: where more queues are mixed, one row says that any may be there, so that a task
/// costs no row of its own.
pub(crate) const ROWS_MAX: usize = 200;
/// The queue of that row. No name.
pub(crate) const ANY: &str = "*";
/// The number of chunks that one read passes through.
pub(crate) const LOOK: usize = 20;

/// The chunk of an id.
pub(crate) const fn of(id: i64) -> i64 {
    id.div_euclid(IDS)
}

/// The highest id of a chunk.
pub(crate) const fn last_id(chunk: i64) -> i64 {
    chunk.saturating_add(1).saturating_mul(IDS).saturating_sub(1)
}

/// The ids of chunks, which come the newest first: those below `before`, down to `from`. Neighbours are one range.
pub(crate) fn ranges(chunks: &[i64], before: i64, from: i64) -> Vec<RangeInclusive<i64>> {
    let mut ranges: Vec<RangeInclusive<i64>> = Vec::new();
    for chunk in chunks {
        let (low, high) =
            (chunk.saturating_mul(IDS).max(from), last_id(*chunk).min(before.saturating_sub(1)));
        if low > high {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if *last.start() == high.saturating_add(1) => *last = low..=*last.end(),
            _ => ranges.push(low..=high),
        }
    }
    ranges
}

/// True if the chunks of a read reach down to the ids that must be walked, because older chunks are not entered yet.
pub(crate) fn reach(chunks: &[i64], below: i64) -> bool {
    let is_last =
        chunks.len() < LOOK || chunks.last().is_some_and(|chunk| chunk.saturating_mul(IDS) <= below);
    below > 0 && is_last
}

/// The number of ids that were examined, of ranges in descending order: down to the last id that was found, if the
/// page is full.
pub(crate) fn examined(ranges: &[RangeInclusive<i64>], full: Option<i64>) -> u64 {
    let low =
        |range: &RangeInclusive<i64>| full.map_or_else(|| *range.start(), |full| full.max(*range.start()));
    let ids = |range: &RangeInclusive<i64>| range.end().saturating_sub(low(range)).saturating_add(1).max(0);
    ranges.iter().map(|range| ids(range).unsigned_abs()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests::text;

    #[test]
    fn neighbours_are_one_range_within_the_bounds() {
        assert_eq!(ranges(&[9, 8, 3], 9_300, 0), [8_192..=9_299, 3_072..=4_095]);
        assert_eq!(ranges(&[9, 8], 9_216, 8_200), [8_200..=9_215]);
        assert_eq!(ranges(&[0], 1, 0), [0..=0]);
        assert!(ranges(&[4], 4_096, 0).is_empty());
        assert_eq!(examined(&[8_192..=9_299, 3_072..=4_095], None), 1_108 + 1_024);
        assert_eq!(examined(&[8_192..=9_299, 3_072..=4_095], Some(9_000)), 300);
    }

    #[test]
    fn the_statements_have_chunks_of_the_same_size() {
        let texts = [
            include_str!("../../../migrations/sqlite/0016_task_chunks.sql").to_owned(),
            text("sqlite/labels", "enter_earlier_chunks"),
            text("sqlite/labels", "delete_empty_chunk"),
            text("mysql/labels", "enter_earlier_chunks"),
        ];
        for text in texts {
            assert!(text.contains(&IDS.to_string()), "{text}");
        }
    }
}
