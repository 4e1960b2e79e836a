//! Counts the calls of a run to its private MariaDB and Redis, by their own logs (`punctual_test_servers`). Must not
//! count what the run did not cause, as far as that can be determined: an engine's heartbeats are included.

use crate::{
    http::{Connection, Target},
    report::CountReport,
};
use anyhow::Context as _;
use punctual_test_servers::{Calls, MariaDb, Redis, Statements};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Engines that have come together a moment ago still move partitions: who has what must have been the same for so long.
const SETTLED_FOR: Duration = Duration::from_secs(3);
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const OWNED: &str = "punctual_partitions_owned ";

#[derive(Debug)]
pub(crate) struct Counter {
    statements: Statements,
    calls: Calls,
}

impl Counter {
    pub(crate) async fn begin(mariadb: &MariaDb, redis: &Redis) -> anyhow::Result<Self> {
        let calls = redis.calls().await.context("what Redis is asked")?;
        Ok(Self { statements: mariadb.statements().await, calls })
    }

    pub(crate) async fn end(
        self,
        mariadb: &MariaDb,
        redis: &Redis,
        tasks: u64,
    ) -> anyhow::Result<CountReport> {
        let calls = self.calls.tally(redis).await.context("what Redis is asked")?;
        let asked = self.statements.tally(mariadb).await;
        let of_a_task = |count: u64| count as f64 / tasks.max(1) as f64;
        Ok(CountReport {
            redis_calls: of_a_task(calls.calls),
            scripts: of_a_task(calls.scripts),
            statements: of_a_task(asked.statements),
            transactions: of_a_task(asked.transactions),
            transactions_undone: of_a_task(asked.undone),
            looks: of_a_task(asked.looks),
            rows_read_before: of_a_task(asked.rows_looked_at),
            rows_locked: of_a_task(asked.rows_locked),
            rows_locked_for_nothing: of_a_task(asked.rows_locked_for_nothing),
            hand_overs: asked.hand_overs,
            hand_overs_undone: asked.hand_overs_undone,
        })
    }
}

/// Waits until each of the engines has its partitions.
pub(crate) async fn until_shared(target: &Target, engines: usize) -> anyhow::Result<()> {
    let mut before = Vec::new();
    let settled = async {
        let mut since = Instant::now();
        loop {
            let mut owned = Vec::new();
            for number in 0..engines {
                owned.push(partitions_of(&target.only(number)).await?);
            }
            if owned != before {
                (before, since) = (owned, Instant::now());
            } else if before.iter().all(|count| *count > 0) && since.elapsed() >= SETTLED_FOR {
                return Ok(());
            }
            sleep(POLL).await;
        }
    };
    let ended = timeout(SETTLED_WITHIN, settled).await;
    ended.with_context(|| {
        format!(
            "after {SETTLED_WITHIN:?} the engines own {before:?} partitions: each must own some, and the same for \
             {SETTLED_FOR:?} (with few --partitions, chance may give an engine none)"
        )
    })?
}

async fn partitions_of(engine: &Target) -> anyhow::Result<u64> {
    let mut connection = Connection::new(engine.clone());
    let answer = connection.get("/metrics", ANSWER_LIMIT).await?;
    let text = String::from_utf8_lossy(answer.body);
    let count = text.lines().find_map(|line| line.strip_prefix(OWNED));
    count.and_then(|count| count.trim().parse().ok()).context("the metrics name no partitions")
}
