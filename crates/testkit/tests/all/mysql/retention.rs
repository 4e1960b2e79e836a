//! The work of retention grows with the tasks that end, not with those that wait to fire or to end: counted
//! in rows that the server reads. Tried: spans that are read in each pass (it does not finish), moves that do
//! not enter tasks cancelled before their due time (they are not found).

use super::{NOW, ask, fresh, name, open, sql};
use punctual_bus::MemoryBus;
use punctual_contract::{
    Store,
    store::{Change, Retired, Step},
};
use punctual_domain::{history::Note, task::NewTask, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::MysqlStore;
use punctual_testkit::{clock::ManualClock, servers};
use std::sync::Arc;

const HOUR: i64 = 3_600_000;
const ENDING: i64 = 1_000;
const AHEAD: i64 = 50;
/// When the first of them end, and when all have.
const KEEP: Millis = Millis(NOW.0 + HOUR);
const OVER: Millis = Millis(KEEP.0 + 20 * 60_000);

struct RetentionSetup {
    url: String,
    store: MysqlStore,
}

impl RetentionSetup {
    /// With so many tasks that wait, and so many that are over but kept for long.
    async fn with(others: i64) -> Self {
        let url = fresh(1).await.remove(0);
        let store = open(std::slice::from_ref(&url)).await;
        let stand = Self { url, store };
        stand.put((1, others), NOW.0 + 24 * HOUR, (1, "NULL")).await;
        stand.put((1_000_001, others), NOW.0 - 2 * HOUR, (8, "9000000000000")).await;
        stand.put((2_000_001, ENDING), NOW.0 - 4 * HOUR, (10, &KEEP.0.to_string())).await;
        stand.cancel_ahead().await;
        stand
    }

    /// Due within an hour after an instant.
    async fn put(&self, (first, count): (i64, i64), due_from: i64, (state, keep_until): (i64, &str)) {
        let numbers = servers::numbers(first, first + count - 1);
        let put = format!(
            "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state,
                fence, attempt, max_attempts, execute_at, created_at, updated_at, keep_until, place_due_at,
                cancel_requested, payload_is_json, payload, history)
             SELECT seq % 16, {due_from} + (seq * 7919) % {HOUR}, seq, 'default', seq, 0, 'mail', 'send', 3, {state}, 1,
                1, 4, {due_from}, 0, 0, {keep_until}, {due_from}, 0, 0, 'x', ''
             FROM {numbers}"
        );
        sql(&self.url, &put).await;
    }

    /// Of one partition, each over a second after the one before it.
    async fn put_in_order(&self, (first, count): (i64, i64), due_from: i64) {
        let last = first + count - 1;
        let put = format!(
            "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state,
                fence, attempt, max_attempts, execute_at, created_at, updated_at, keep_until, place_due_at,
                cancel_requested, payload_is_json, payload, history)
             SELECT 0, {due_from} + seq - {first}, seq, 'default', seq, 0, 'mail', 'send', 3, 10, 1,
                1, 4, {due_from}, 0, 0, {over} + (seq - {first}) * 1000, {due_from}, 0, 0, 'x', ''
             FROM seq_{first}_to_{last}",
            over = KEEP.0
        );
        sql(&self.url, &put).await;
    }

    /// As callers do: weeks before they are due.
    async fn cancel_ahead(&self) {
        let due_at = NOW.plus(20 * 24 * HOUR);
        let asks = (1..=AHEAD).map(|nth| NewTask { execute_at: due_at, ..ask(9_000_000 + nth) });
        let inserted = self.store.insert(asks.collect(), "api", NOW).await.unwrap();
        let cancel = |place| Step {
            place,
            fence: None,
            change: Change::Cancel { keep_until: KEEP },
            note: Note::default(),
            fired_at: None,
            known: None,
        };
        let steps = inserted.iter().map(|task| cancel(task.task.place)).collect();
        self.store.apply(steps, NOW).await.unwrap();
    }

    /// Until every span has been looked at, and none is left to look at.
    async fn record_outcomes(&self) {
        loop {
            let none = self.store.retire(NOW, Millis::MAX, 10_000).await.unwrap();
            assert_eq!((none.stopped, none.deleted), (0, 0));
            let next = sql(&self.url, "SELECT MIN(look_at) FROM retention_span").await;
            if next.parse::<i64>().unwrap() > NOW.0 {
                return;
            }
        }
    }

    async fn rows_read(&self) -> i64 {
        let of_table = format!(
            "SELECT ROWS_READ FROM information_schema.TABLE_STATISTICS
             WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = 'task'",
            name(&self.url)
        );
        sql(&self.url, &of_table).await.parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_retention_follows_what_ends_and_not_what_waits() {
    if servers::is_mysql() {
        // It counts no rows read of a table.
        return;
    }
    let server = servers::mariadb().await;
    server.sql("mysql", "SET GLOBAL userstat = 1").await;
    let mut reads = Vec::new();
    for others in [5_000, 50_000] {
        let stand = RetentionSetup::with(others).await;
        stand.record_outcomes().await;
        let before = stand.rows_read().await;
        let retired = stand.store.retire(OVER, Millis::MAX, 10_000).await.unwrap();
        let ended = usize::try_from(ENDING + AHEAD).unwrap();
        assert_eq!((retired.stopped, retired.deleted), (0, ended), "of {others}");
        reads.push(stand.rows_read().await - before);
        let left = format!("{}", 2 * others);
        assert_eq!(sql(&stand.url, "SELECT COUNT(*) FROM task").await, left);
        stand.store.close().await;
    }
    assert!(reads[1] < reads[0] + 5_000, "{reads:?} rows for as many that end");
}

/// Those that end one after the other wait for each other: a span is not read again for each of them. Beside them is much that
/// waits, so that the walk, which reads so many rows a call, finds few of them.
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_one_after_the_other_is_not_read_again_for_each() {
    if servers::is_mysql() {
        // As above.
        return;
    }
    let server = servers::mariadb().await;
    server.sql("mysql", "SET GLOBAL userstat = 1").await;
    let (url, rows, walked) = (fresh(1).await.remove(0), 2_000, 2_000);
    let store = open(std::slice::from_ref(&url)).await;
    let stand = RetentionSetup { url, store };
    stand.put((1, 60_000), NOW.0 + 24 * HOUR, (1, "NULL")).await;
    stand.put_in_order((10_000_000, rows), NOW.0 - 24 * HOUR).await;
    stand.record_outcomes().await;
    let (before, mut calls, mut ended) = (stand.rows_read().await, 0, 0);
    for now in (0..=rows + 700).step_by(2).map(|second| KEEP.plus(second * 1_000)) {
        ended += stand.store.retire(now, Millis::MAX, 10_000).await.unwrap().deleted;
        calls += 1;
    }
    assert_eq!(ended, usize::try_from(rows).unwrap());
    let read = stand.rows_read().await - before - calls * walked;
    assert!(read <= 10 * rows, "{read} rows read for {rows} that end");
    stand.store.close().await;
}

/// What one call looks at is bounded, so that it may find nothing while much is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_says_that_it_has_not_looked_at_everything() {
    let url = fresh(1).await.remove(0);
    let store = open(std::slice::from_ref(&url)).await;
    let stand = RetentionSetup { url, store };
    stand.put((1, 60_000), NOW.0 - 2 * HOUR, (8, "9000000000000")).await;
    // Due within an hour from then on, and so all of them two minutes ago: later ones may still come among those.
    stand.put((2_000_001, ENDING), NOW.0 - HOUR - 120_000, (10, "1")).await;
    let mut ended = 0;
    for calls in 1.. {
        let retired = stand.store.retire(NOW, Millis::MAX, 10_000).await.unwrap();
        ended += retired.deleted;
        if !retired.has_more {
            assert!(calls > 3, "so many rows need some calls, not {calls}");
            break;
        }
    }
    assert_eq!(ended, usize::try_from(ENDING).unwrap());
    stand.store.close().await;
}

/// As after the migration, when nothing has been cut into spans yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_goes_on_where_a_call_found_nothing_because_it_was_bounded() {
    let url = fresh(1).await.remove(0);
    let store = open(std::slice::from_ref(&url)).await;
    let stand = RetentionSetup { url, store };
    stand.put((1, 60_000), NOW.0 - 4 * HOUR, (8, "9000000000000")).await;
    // In the last partition, and due last.
    let ended = "UPDATE task SET keep_until = 1 WHERE partition_no = 15 ORDER BY due_at DESC LIMIT 10";
    sql(&stand.url, ended).await;
    let store = Arc::new(stand.store);
    let backends = Backends {
        store: Arc::clone(&store) as Arc<dyn Store>,
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(ManualClock::at(NOW)),
        blobs: None,
        shared: None,
    };
    let engine = Engine::new(backends, Options::default());
    assert_eq!(engine.run_once().await.unwrap().retired, 10);
    store.close().await;
}

/// A mass of tasks that were cancelled ahead of their time leaves room for the others.
#[tokio::test(flavor = "multi_thread")]
async fn what_ended_ahead_of_its_time_takes_half_of_the_room_at_most() {
    let stand = RetentionSetup::with(3_000).await;
    stand.record_outcomes().await;
    let ahead = |left: String| AHEAD - left.parse::<i64>().unwrap();
    let cancelled = "SELECT COUNT(*) FROM task WHERE task_id > 9000000";
    let retired = stand.store.retire(OVER, Millis::MAX, 20).await.unwrap();
    assert_eq!((retired.deleted, retired.has_more), (20, true));
    assert_eq!(ahead(sql(&stand.url, cancelled).await), 10);
    stand.store.close().await;
}

/// A span is removed with its tasks: even a store that covers years has no more spans than tasks.
#[tokio::test(flavor = "multi_thread")]
async fn a_span_goes_with_its_tasks() {
    let stand = RetentionSetup::with(3_000).await;
    stand.record_outcomes().await;
    let spans = "SELECT COUNT(*) FROM retention_span WHERE id < 9000000000000000000";
    assert_ne!(sql(&stand.url, spans).await, "0");
    sql(&stand.url, "DELETE FROM task WHERE state <> 1").await;
    let days_later = OVER.plus(48 * HOUR);
    while stand.store.retire(days_later, Millis::MAX, 10_000).await.unwrap() != Retired::default() {}
    assert_eq!(
        sql(&stand.url, "SELECT COUNT(*) FROM retention_span WHERE due_at < 1900000000000").await,
        "0"
    );
    stand.store.close().await;
}
