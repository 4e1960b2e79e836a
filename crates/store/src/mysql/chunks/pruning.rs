//! Removes the rows of chunks that have no tasks any more, in one database, a few steps at a time. Must remove none on a guess:
//! a row that is missing would hide tasks.

use crate::{chunks, mysql::statements::sql};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// The age after which no writer remembers a row, however long it was frozen.
const FORGOTTEN_MS: i64 = 24 * 3_600_000;
/// The interval of the search for rows of empty chunks.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
const PRUNE_STEPS: usize = 200;
const PRUNED_ROWS: u64 = 1_000;
/// The number of consecutive chunks with tasks after which the search turns to another queue: old chunks are empty
/// first.
const PASSED_MAX: usize = 50;
/// The maximum number of queues whose search position is remembered.
const PRUNED_QUEUES: usize = 10_000;

/// The position where the search for rows of empty chunks continues, in one database: after a chunk of a queue. Each
/// second round begins with the oldest chunks of every queue, the others where the preceding round has left the
/// queue.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    namespace: String,
    queue: String,
    chunk: Option<i64>,
    /// Chunks with tasks that were passed since rows were removed.
    passed: usize,
    rounds: u64,
    left_at: HashMap<(String, String), i64>,
    looked_at: Option<Instant>,
}

impl Pruning {
    /// True if it is time for a few steps: a row that is not removed costs a read of an empty chunk.
    pub(crate) fn is_due(&self) -> bool {
        self.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= PRUNE_INTERVAL)
    }

    pub(crate) async fn run(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        self.looked_at = Some(Instant::now());
        for _ in 0..PRUNE_STEPS {
            if let Some(chunk) = self.chunk {
                self.step(conn, chunk).await?;
            } else if !self.next_queue(conn).await? {
                break;
            }
        }
        Ok(())
    }

    /// False if the round is over.
    async fn next_queue(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<bool> {
        let next = sqlx::query(sql!(labels, find_next_queue)).bind(&*self.namespace).bind(&*self.namespace);
        let Some(next) = next.bind(&*self.queue).fetch_optional(&mut *conn).await? else {
            (self.namespace, self.queue) = (String::new(), String::new());
            self.rounds += 1;
            return Ok(false);
        };
        let names: (String, String) = (next.try_get(0)?, next.try_get(1)?);
        let left_at = self.left_at.get(&names).filter(|_| self.rounds % 2 == 1);
        (self.chunk, self.passed) = (Some(left_at.copied().unwrap_or(-1)), 0);
        (self.namespace, self.queue) = names;
        Ok(true)
    }

    /// Passes a chunk that has tasks, or removes rows of those up to the next that has some.
    async fn step(&mut self, conn: &mut MySqlConnection, above: i64) -> sqlx::Result<()> {
        let names = (self.namespace.clone(), self.queue.clone());
        let next =
            sqlx::query(sql!(labels, find_next_chunk)).bind(&*self.namespace).bind(&*self.queue).bind(above);
        let Some(next) = next.fetch_optional(&mut *conn).await? else {
            self.left_at.remove(&names);
            self.chunk = None;
            return Ok(());
        };
        let chunk: i64 = next.try_get(0)?;
        let last = chunk.saturating_mul(chunks::IDS).saturating_sub(1);
        let oldest: Option<i64> =
            sqlx::query(sql!(query, find_oldest_above)).bind(last).fetch_one(&mut *conn).await?.try_get(0)?;
        let end = oldest.map_or(i64::MAX, chunks::of);
        if end == chunk {
            self.passed += 1;
            self.chunk = Some(chunk).filter(|_| self.passed < PASSED_MAX);
            if self.chunk.is_none() && self.left_at.len() < PRUNED_QUEUES {
                self.left_at.insert(names, chunk);
            }
            return Ok(());
        }
        let gone = sqlx::query(sql!(labels, delete_empty_chunks))
            .bind(&*self.namespace)
            .bind(&*self.queue)
            .bind(above);
        let gone = gone.bind(end).bind(FORGOTTEN_MS).bind(PRUNED_ROWS).execute(&mut *conn).await?;
        let is_all = gone.rows_affected() < PRUNED_ROWS;
        (self.passed, self.chunk) = (0, Some(if is_all { end.saturating_sub(1) } else { above }));
        Ok(())
    }
}
