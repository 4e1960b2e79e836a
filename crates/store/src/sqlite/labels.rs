//! Labels that queues declare, and the entries of what stood before. What is inserted, replaced or deleted is entered and
//! taken out by the triggers of `task`, in its transaction.

use super::{lanes::Lane, ledger::Ledger, row, state::SqliteStore, statements::sql, walk};
use async_trait::async_trait;
use punctual_contract::{Error as CallError, LabelStore, labels::LabelIndex};
use punctual_domain::{name::QueueKey, settings::Setting};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

#[async_trait]
impl LabelStore for SqliteStore {
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, CallError> {
        self.reading("look how far labels are indexed", Lane::Urgent, progress).await
    }

    async fn index_labels_in(&self, _only_part: usize, limit: usize) -> Result<usize, CallError> {
        let is_left = |conn: &Connection| {
            Ok(walk::not_entered_below(conn)? > 0
                || progress(conn)?.iter().any(|index| index.below_id.is_some()))
        };
        if !self.reading("look how far labels are indexed", Lane::Urgent, is_left).await? {
            return Ok(0);
        }
        self.maintaining("index labels", limit, move |conn, _: &mut Ledger| batch(conn, limit)).await
    }
}

fn progress(conn: &Connection) -> rusqlite::Result<Vec<LabelIndex>> {
    let index = |row: &Row<'_>| {
        let queue = row::queue_key(row, 0, 1)?;
        Ok(LabelIndex { part: 0, queue, label: row.get(2)?, begun_id: row.get(3)?, below_id: row.get(4)? })
    };
    conn.prepare_cached(sql!(labels, list_progress))?.query_map([], index)?.collect()
}

/// Declares the labels in the transaction that changes the settings of a queue.
pub(crate) fn declare(
    conn: &Connection,
    (namespace, queue): (&str, &str),
    setting: Option<&Setting>,
) -> rusqlite::Result<()> {
    if queue.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = setting.into_iter().flat_map(Setting::indexed_labels).collect();
    let mut of_queue = conn.prepare_cached(sql!(labels, list_of_queue))?;
    let stand = of_queue.query_map([namespace, queue], |row| row.get(0))?;
    let stand: BTreeSet<String> = stand.collect::<rusqlite::Result<_>>()?;
    for label in stand.iter().filter(|text| !wanted.contains(text.as_str())) {
        conn.prepare_cached(sql!(labels, undeclare_label))?.execute([namespace, queue, label])?;
    }
    for label in wanted.into_iter().filter(|text| !stand.contains(*text)) {
        conn.prepare_cached(sql!(labels, declare_label))?.execute([namespace, queue, label])?;
    }
    Ok(())
}

fn batch(conn: &Connection, limit: usize) -> rusqlite::Result<usize> {
    let below = walk::not_entered_below(conn)?;
    if below > 0 {
        return chunks_stood(conn, below, limit);
    }
    let left = progress(conn)?
        .into_iter()
        .find_map(|index| index.below_id.map(|below| (index.queue, index.label, below)));
    let Some((QueueKey { namespace, queue }, label, below)) = left else { return Ok(0) };
    let (namespace, queue) = (namespace.as_str(), queue.as_str());
    let newest: Option<i64> =
        conn.prepare_cached(sql!(query, find_newest_below))?.query_row([below], |value| value.get(0))?;
    let floor = newest.map(|newest| newest.saturating_sub(rows(limit) - 1));
    if let (Some(floor), Some(newest)) = (floor, newest) {
        let entered = params![floor, newest, namespace, queue, label];
        conn.prepare_cached(sql!(labels, enter_earlier))?.execute(entered)?;
    }
    conn.prepare_cached(sql!(labels, advance_label))?.execute(params![floor, namespace, queue, label])?;
    Ok(if floor.is_some() { limit.max(1) } else { 1 })
}

/// Enters the chunks of tasks that are older than the index. Returns the number of ids that were passed over.
fn chunks_stood(conn: &Connection, below: i64, limit: usize) -> rusqlite::Result<usize> {
    let newest: Option<i64> =
        conn.prepare_cached(sql!(query, find_newest_below))?.query_row([below], |value| value.get(0))?;
    let floor = newest.map_or(0, |newest| newest.saturating_sub(rows(limit) - 1).max(0));
    if let Some(newest) = newest {
        conn.prepare_cached(sql!(labels, enter_earlier_chunks))?.execute([floor, newest])?;
    }
    conn.prepare_cached(sql!(labels, advance_chunks))?.execute([floor])?;
    Ok(limit.max(1))
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit.max(1)).unwrap_or(i64::MAX)
}
