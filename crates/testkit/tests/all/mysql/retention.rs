//! Retention's work follows what ends, and not what waits for its time or for its end: counted in rows that the server reads.
//! Tried: spans that are looked at in each pass (it does not come through), moves that enter nothing of what is
//! cancelled ahead of its time (it is not found).

use super::{NOW, ask, fresh, name, open, sql};
use punctual_contract::{
    Store as _,
    store::{Change, Retired, Step},
};
use punctual_domain::{history::Note, task::NewTask, time::Millis};
use punctual_store::MysqlStore;
use punctual_testkit::servers;

const HOUR: i64 = 3_600_000;
const ENDING: i64 = 1_000;
const AHEAD: i64 = 50;
/// When the first of them end, and when all have.
const KEEP: Millis = Millis(NOW.0 + HOUR);
const OVER: Millis = Millis(KEEP.0 + 20 * 60_000);

struct Stand {
    url: String,
    store: MysqlStore,
}

impl Stand {
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
        let last = first + count - 1;
        let put = format!(
            "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state,
                fence, attempt, max_attempts, execute_at, created_at, updated_at, keep_until, place_due_at,
                cancel_requested, payload_is_json, payload, history)
             SELECT seq % 16, {due_from} + (seq * 7919) % {HOUR}, seq, 'default', seq, 0, 'mail', 'send', 3, {state}, 1,
                1, 4, {due_from}, 0, 0, {keep_until}, {due_from}, 0, 0, 'x', ''
             FROM seq_{first}_to_{last}"
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
        };
        let steps = inserted.iter().map(|task| cancel(task.task.place)).collect();
        self.store.apply(steps, NOW).await.unwrap();
    }

    /// Until every span has been looked at, and none is left to look at.
    async fn settle(&self) {
        loop {
            let none = self.store.retire(NOW, Millis::MAX, 10_000).await.unwrap();
            assert_eq!(none, Retired::default());
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
    let server = servers::mariadb().await;
    server.sql("mysql", "SET GLOBAL userstat = 1").await;
    let mut reads = Vec::new();
    for others in [5_000, 50_000] {
        let stand = Stand::with(others).await;
        stand.settle().await;
        let before = stand.rows_read().await;
        let retired = stand.store.retire(OVER, Millis::MAX, 10_000).await.unwrap();
        let ended = usize::try_from(ENDING + AHEAD).unwrap();
        assert_eq!(retired, Retired { stopped: 0, deleted: ended }, "of {others}");
        reads.push(stand.rows_read().await - before);
        let left = format!("{}", 2 * others);
        assert_eq!(sql(&stand.url, "SELECT COUNT(*) FROM task").await, left);
        stand.store.close().await;
    }
    assert!(reads[1] < reads[0] + 5_000, "{reads:?} rows for as many that end");
}

/// What is cut off is cut anew as tasks go: a store that stands for years has no more spans than tasks.
#[tokio::test(flavor = "multi_thread")]
async fn a_span_goes_with_its_tasks() {
    let stand = Stand::with(3_000).await;
    stand.settle().await;
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
