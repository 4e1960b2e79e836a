//! Consecutive ids of callers, such as numbers of orders or invoices: one read of their range shows that none of them
//! exists, which costs a tenth of a read of each. Reports nothing about those that may exist.

use crate::mysql::insert::{ask::Row, between::between};
use sqlx::MySqlConnection;
use std::collections::HashSet;

/// The minimum number of rows. Fewer are looked up one by one: that costs no more.
const ROWS_MIN: usize = 32;
/// The maximum number of ids in the range for each that is looked up. Rows of others in between are read.
const SPARSE_MAX: u64 = 16;

/// True if none of them exists, in any version. False if some may exist. Not locked, because there is nothing to
/// lock.
pub(super) async fn none_exists(
    conn: &mut MySqlConnection,
    namespace: &str,
    rows: &[Row<'_>],
) -> sqlx::Result<bool> {
    let Some((from, to)) = range(rows.iter().map(|row| row.task_id)) else { return Ok(false) };
    let partitions = rows.iter().map(|row| row.ask.partition).collect();
    let most = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let found = between(conn, namespace, partitions, (from, to), most).await?;
    let wanted: HashSet<i64> = rows.iter().map(|row| row.task_id).collect();
    Ok(found.len() < rows.len() && !found.iter().any(|pair| wanted.contains(&pair.1)))
}

/// The range from the first to the last id, if they are many and close to each other.
fn range(ids: impl ExactSizeIterator<Item = i64> + Clone) -> Option<(i64, i64)> {
    let (count, from, to) = (ids.len(), ids.clone().min()?, ids.max()?);
    let is_near = to.abs_diff(from) < count as u64 * SPARSE_MAX;
    (count >= ROWS_MIN && is_near).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_ids_near_each_other_are_a_range() {
        let every = |step: i64, count: i64| {
            range((0..count).map(|nth| 7 + nth * step).collect::<Vec<_>>().into_iter())
        };
        assert_eq!(every(1, 32), Some((7, 38)));
        assert_eq!(every(16, 32), Some((7, 503)));
        assert_eq!(every(17, 320), None, "too far apart");
        assert_eq!(every(1, 31), None, "too few");
        assert_eq!(range([i64::MIN, i64::MAX].into_iter()), None);
        assert_eq!(range(std::iter::empty()), None);
    }
}
