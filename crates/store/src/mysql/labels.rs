//! Labels that queues declare: which of them each database enters, and the entries of what stood before. What is inserted is
//! entered where it is inserted (`insert`); who may know what of the declarations, `pauses` says.

pub(super) mod declared;

use super::{
    background::to_its_end,
    chunks, lookup, query, row,
    session::Known,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts,
    timeouts::{PING, READ, WRITE, twice, watched},
};
use crate::Error;
use async_trait::async_trait;
use declared::{label, labels_of};
use punctual_contract::{Error as CallError, LabelStore, labels::LabelIndex};
use punctual_domain::{name::Name, place::TaskRef, time::Millis};
use sqlx::{Connection as _, MySqlConnection, Row as _};
use std::sync::Arc;
use tokio::time::timeout;

#[async_trait]
impl LabelStore for MysqlStore {
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let mut all = Vec::new();
            for (part, shard) in inner.members().iter().enumerate() {
                let mut conn = shard.readers.acquire().await?;
                let rows = sqlx::query(sql!(labels, list_progress)).fetch_all(&mut *conn).await?;
                for row in &rows {
                    let (queue, label) = label(row)?;
                    let (begun_id, below_id) = (row.try_get(3)?, row.try_get(4)?);
                    all.push(LabelIndex { part, queue, label, begun_id, below_id });
                }
            }
            Ok::<_, sqlx::Error>(all)
        };
        self.reading("look how far labels are indexed", work).await
    }

    async fn index_labels_in(&self, part: usize, limit: usize) -> Result<usize, CallError> {
        const DOING: &str = "index labels";
        let indexed = to_its_end(batch(Arc::clone(&self.inner), part, limit)).await;
        // It can be done again: whether it happened does not matter.
        let panicked = |error: tokio::task::JoinError| {
            CallError::may_have_happened(DOING, Error::Panicked(error.to_string()))
        };
        indexed.map_err(panicked)?.map_err(|error| CallError::may_have_happened(DOING, error))
    }
}

async fn batch(inner: Arc<MySqlState>, part: usize, limit: usize) -> Result<usize, Error> {
    let stood = chunks::enter_stood(&inner, part, limit).await?;
    if stood > 0 {
        return Ok(stood);
    }
    if inner.members().len() <= part || !is_left(&inner, part).await? {
        return Ok(0);
    }
    let address = inner.address(part)?;
    let Known { mut conn, number } = address.writer().await.map_err(|error| address.failed(error))?;
    let work = transaction(&mut conn, limit);
    let done = watched(WRITE, || vec![(number, address.clone())], work).await;
    let passed = done.unwrap_or_else(|| Err(timeouts::silent())).map_err(|error| address.failed(error))?;
    drop(timeout(PING, conn.close()).await);
    Ok(passed)
}

/// True if earlier tasks must be indexed. It uses no connection of its own: mostly there are none.
async fn is_left(inner: &MySqlState, part: usize) -> sqlx::Result<bool> {
    let Some(shard) = inner.members().get(part) else { return Ok(false) };
    let left = || async {
        let left = sqlx::query(sql!(labels, has_earlier));
        left.fetch_optional(&mut *shard.readers.acquire().await?).await
    };
    Ok(twice(READ, left).await?.is_some())
}

/// The label that is being indexed.
struct Entering {
    namespace: String,
    /// Empty: the dead of all namespaces.
    queue: String,
    label: String,
}

async fn transaction(conn: &mut MySqlConnection, limit: usize) -> sqlx::Result<usize> {
    let mut tx = conn.begin().await?;
    let Some(next) = sqlx::query(sql!(labels, lock_next_label)).fetch_optional(&mut *tx).await? else {
        tx.rollback().await?;
        return Ok(0);
    };
    let label = std::str::from_utf8(next.try_get(2)?).map_err(|error| row::odd(2, error))?.to_owned();
    let (entering, below) =
        (Entering { namespace: next.try_get(0)?, queue: next.try_get(1)?, label }, next.try_get(3)?);
    let newest = query::newest_below(&mut tx, below).await?;
    let floor =
        newest.map(|newest| newest.saturating_sub(i64::try_from(limit.max(1)).unwrap_or(i64::MAX) - 1));
    if let Some((floor, newest)) = floor.zip(newest) {
        piece(&mut tx, &entering, (floor, newest)).await?;
    }
    let Entering { namespace, queue, label } = entering;
    let advance = sqlx::query(sql!(labels, advance_label)).bind(floor).bind(namespace).bind(queue);
    advance.bind(label.as_bytes()).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(if floor.is_some() { limit.max(1) } else { 1 })
}

async fn piece(tx: &mut MySqlConnection, of: &Entering, (from, to): (i64, i64)) -> sqlx::Result<()> {
    sqlx::query(sql!(labels, lock_range)).bind(from).bind(to).fetch_all(&mut *tx).await?;
    let is_dead = of.queue.is_empty();
    let stood = if is_dead {
        sqlx::query(sql!(labels, list_earlier_dead)).bind(from).bind(to)
    } else {
        let stood = sqlx::query(sql!(labels, list_earlier)).bind(from).bind(to).bind(&of.namespace);
        stood.bind(&of.queue).bind(&of.queue)
    };
    let mut entries = lookup::Entries::default();
    for rows in stood.fetch_all(&mut *tx).await? {
        let place =
            TaskRef { partition: row::partition(&rows, 1)?, due_at: Millis::ZERO, id: rows.try_get(0)? };
        if is_dead {
            entries.dead(place, rows.try_get(2)?);
        } else {
            entries.labels(place, &of.namespace, std::slice::from_ref(&of.label), &labels_of(&rows, 2)?);
        }
    }
    entries.add(tx).await
}

/// True if all tasks of this database that a search could find by a label are indexed.
pub(super) async fn is_whole(
    conn: &mut MySqlConnection,
    namespace: &Name,
    queue: Option<&Name>,
    label: &str,
) -> sqlx::Result<bool> {
    let namespace = namespace.as_str();
    if let Some(queue) = queue {
        let one = sqlx::query(sql!(labels, is_complete)).bind(namespace).bind(queue.as_str());
        return Ok(one.bind(label.as_bytes()).fetch_optional(conn).await?.is_some());
    }
    let other = sqlx::query(sql!(labels, has_incomplete_queue)).bind(namespace).bind(namespace);
    Ok(other.bind(label.as_bytes()).fetch_optional(conn).await?.is_none())
}
