//! Buckets on MySQL, kept by the engine and by the database's own events: made ahead, dropped whole, whatever happens
//! between two steps; and always accounted for.

mod far;
mod in_flight;
mod rate;

use crate::statements::swap;
use punctual_contract::Store;
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_store::{BucketOptions, BucketReport, MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::until,
    servers::{self, MariaDb},
};
use std::time::Duration;
use tokio::task::JoinSet;

const DAY: i64 = 86_400_000;
/// 2026-11-21T02:30:00Z
const NOW: Millis = Millis(1_795_228_200_000);
const TODAY: i64 = NOW.0 - NOW.0 % DAY;
const OPTIONS: BucketOptions = BucketOptions {
    width_hours: 24,
    first_hours: 24,
    rows: 10_000_000,
    ahead_hours: 48,
    keep_hours: 72,
    carry_rows: 100_000,
    batch_rows: 100,
    batches_per_run: 1_000,
    cut_rows: 10_000,
};

const EVENTS: &str = include_str!("../../../../scripts/mysql-events.sql");
/// As `lock_maintenance` of buckets.sql says: MySQL has no SHA1 from 9.6 on.
const OF_BUCKETS: &str = "CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */)";

/// The account as the rows say it: tasks, and the bytes of payloads that wait.
const BOOKS: &str = "DELETE FROM books; INSERT INTO books (slot, namespace, queue, state, tasks, bytes)
    SELECT 0, namespace, queue, state, COUNT(*),
        SUM(IF(state IN (4, 5, 8, 9, 10, 11), 0, COALESCE(LENGTH(task.payload), LENGTH(body.payload), 0)))
    FROM task LEFT JOIN body USING (partition_no, id) GROUP BY 2, 3, 4";

struct Shard {
    server: &'static MariaDb,
    database: String,
    store: MysqlStore,
}

impl Shard {
    async fn fresh() -> Self {
        Self::on(servers::mariadb().await).await
    }

    async fn on(server: &'static MariaDb) -> Self {
        let url = server.fresh_database().await;
        let database = url.rsplit('/').next().unwrap().to_owned();
        let store = MysqlStore::open(&[url], MysqlOptions::default()).await.unwrap();
        Self { server, database, store }
    }

    /// With buckets from `days` days ago on, one a day.
    async fn with_buckets_since(days: i64) -> Self {
        Self::fresh().await.and_buckets_since(days).await
    }

    async fn and_buckets_since(self, days: i64) -> Self {
        let shard = self;
        shard.run(OPTIONS, Millis(NOW.0 - days * DAY)).await;
        for back in (0..days).rev() {
            shard.run(BucketOptions { keep_hours: 24 * 365, ..OPTIONS }, Millis(NOW.0 - back * DAY)).await;
        }
        shard
    }

    async fn sql(&self, text: &str) -> String {
        self.server.sql(&self.database, text).await.trim().to_owned()
    }

    async fn event(&self, call: &str) {
        self.server.event(&self.database, call).await;
    }

    async fn run(&self, options: BucketOptions, now: Millis) -> BucketReport {
        self.store.buckets(options).run_once(now).await.unwrap()
    }

    /// Tasks spread over a day and 16 partitions, half of them with long payloads, a third of them moved.
    async fn put(&self, first: i64, count: i64, day_from: i64, state: i64, keep_until: &str) {
        let last = first + count - 1;
        let numbers = servers::numbers(first, last);
        self.sql(&format!(
            "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state,
                fence, attempt, max_attempts, execute_at, created_at, updated_at, keep_until, place_due_at,
                cancel_requested, payload_is_json, payload, history)
             SELECT seq % 16, {day_from} + (seq * 7919) % {DAY}, seq, 'default', 1000 + seq, 0, CONCAT('q', seq % 3), 'k',
                3, {state}, 1, 1, 4, {day_from}, 0, 0, {keep_until}, {day_from}, 0, 0, IF(seq % 2, 'x', NULL), ''
             FROM {numbers};
             INSERT INTO registry SELECT partition_no, namespace, task_id, task_version, id, due_at FROM task
                WHERE id BETWEEN {first} AND {last};
             INSERT INTO body SELECT partition_no, id, 'long' FROM task
                WHERE id BETWEEN {first} AND {last} AND payload IS NULL;
             INSERT INTO moved SELECT partition_no, id, due_at FROM task
                WHERE id BETWEEN {first} AND {last} AND id % 3 = 0;
             {BOOKS};
             REPLACE INTO counters SELECT 0, 'accepted', COUNT(*) FROM task"
        ))
        .await;
    }

    /// Rows that the server reads and writes one by one for a statement.
    async fn rows_touched(&self, text: &str) -> u64 {
        let touched = "SELECT CAST(SUM(variable_value) AS INTEGER) FROM information_schema.session_status
            WHERE variable_name LIKE 'Handler_read%' OR variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete')";
        self.sql(&format!("FLUSH STATUS; {text}; {touched}")).await.parse().unwrap()
    }

    async fn buckets(&self) -> Vec<String> {
        let listed = "SELECT PARTITION_NAME FROM information_schema.PARTITIONS
            WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' ORDER BY PARTITION_ORDINAL_POSITION";
        self.sql(listed).await.lines().map(str::to_owned).collect()
    }

    /// Rows of task, registry, body, moved, task_gone.
    async fn rows(&self) -> [i64; 5] {
        let counts = "SELECT (SELECT COUNT(*) FROM task), (SELECT COUNT(*) FROM registry), (SELECT COUNT(*) FROM body),
            (SELECT COUNT(*) FROM moved), (SELECT COUNT(*) FROM task_gone)";
        let counts = self.sql(counts).await;
        let counts: Vec<i64> = counts.split_whitespace().map(|word| word.parse().unwrap()).collect();
        counts.try_into().unwrap()
    }

    async fn is_accounted_for(&self) {
        let (books, audit) = (self.store.books().await.unwrap(), self.store.audit().await.unwrap());
        assert_eq!(books, audit);
        assert_eq!(books.unaccounted(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buckets_reach_ahead_and_a_second_run_changes_nothing() {
    let shard = Shard::fresh().await;
    let first = shard.run(OPTIONS, NOW).await;
    let buckets = shard.buckets().await;
    assert_eq!(buckets[..4], ["p2026112100", "p2026112200", "p2026112300", "p2026112400"]);
    assert_eq!((buckets.len(), buckets.last().map(String::as_str)), (first.made + 1, Some("pmax")));
    assert_eq!(shard.run(OPTIONS, NOW).await.made, 0);
    shard.run(BucketOptions { width_hours: 12, ..OPTIONS }, Millis(NOW.0 + DAY)).await;
    let narrow = ["p2026112100", "p2026112200", "p2026112300", "p2026112312", "p2026112400", "p2026112412"];
    assert_eq!(shard.buckets().await[..6], narrow, "a changed width is for those that have not begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_beyond_the_last_bucket_gets_buckets_and_stays_whole() {
    let shard = Shard::fresh().await;
    shard.put(1, 500, TODAY + 5 * DAY, 1, "NULL").await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!((report.far_rows, report.uncut), (500, 0), "{report:?}");
    assert_eq!(shard.sql("SELECT COUNT(*) FROM task PARTITION (p2026112600)").await, "500");
    assert_eq!(shard.sql("SELECT COUNT(*) FROM task PARTITION (pmax)").await, "0");
    shard.is_accounted_for().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_old_bucket_is_dropped_with_all_that_belongs_to_its_tasks() {
    let shard = Shard::with_buckets_since(6).await;
    for (nth, state) in [9, 10, 11].into_iter().enumerate() {
        let first = 1 + 1_000 * i64::try_from(nth).unwrap();
        shard.put(first, 1_000, TODAY - 6 * DAY, state, "1").await;
    }
    shard.put(10_001, 60, TODAY - DAY, 11, "1").await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!((report.dropped, report.forgotten, report.kept), (3, 3_000, 0), "{report:?}");
    assert_eq!(shard.rows().await, [60, 60, 30, 20, 0], "younger ones stay");
    assert_eq!(shard.buckets().await[0], "p2026111800");
    shard.is_accounted_for().await;
    assert_eq!(shard.store.books().await.unwrap().deleted, 3_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_is_unfinished_or_kept_is_carried_over_and_its_bucket_goes() {
    for (state, keep_until) in [(1, "NULL"), (3, "NULL"), (7, "NULL"), (12, "NULL"), (9, "9000000000000")] {
        let shard = Shard::with_buckets_since(6).await;
        shard.put(1, 300, TODAY - 6 * DAY, 11, "1").await;
        shard.put(301, 1, TODAY - 6 * DAY, state, keep_until).await;
        let unchanged =
            "SELECT state, fence, attempt, execute_at, place_due_at, updated_at FROM task WHERE id = 301";
        let before = shard.sql(unchanged).await;
        let report = shard.run(OPTIONS, NOW).await;
        assert_eq!(
            (report.carried, report.forgotten, report.dropped),
            (1, 300, 3),
            "state {state}: {report:?}"
        );
        assert_eq!(shard.sql(unchanged).await, before);
        let due_at: i64 = shard.sql("SELECT due_at FROM task").await.parse().unwrap();
        assert!((NOW.0..NOW.0 + 60_000).contains(&due_at), "{due_at}");
        let reference = TaskRef { partition: Partition(301 % 16), due_at: Millis(TODAY - 6 * DAY), id: 301 };
        let found = shard.store.read(&[reference]).await.unwrap().remove(0).unwrap();
        assert_eq!((found.place, found.due_at.0), (reference, due_at));
        shard.is_accounted_for().await;
        let again = shard.run(OPTIONS, Millis(NOW.0 + 1_000)).await;
        assert!(again.is_idle() && again.looked == 0, "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_stays_while_retention_has_not_stopped_a_success_or_too_many_tasks_are_needed() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 300, TODAY - 6 * DAY, 11, "1").await;
    shard.put(301, 1, TODAY - 6 * DAY, 8, "1").await;
    let buckets = shard.store.buckets(OPTIONS);
    for _ in 0..2 {
        let report = buckets.run_once(NOW).await.unwrap();
        assert_eq!((report.kept, report.forgotten, report.carried), (1, 0, 0), "{report:?}");
        assert!(report.is_idle() || report.dropped == 2, "{report:?}");
    }
    shard.sql("UPDATE task SET state = 9, keep_until = 9000000000000 WHERE id <= 101").await;
    shard.sql("UPDATE task SET state = 11 WHERE id = 301").await;
    let report = buckets.run_once(NOW).await.unwrap();
    assert_eq!((report.kept, report.carried), (1, 0), "{report:?}");
    let surveyed = buckets.survey(NOW).await.unwrap();
    assert_eq!((surveyed[0].rows, surveyed[0].retained, surveyed[0].unfinished), (301, 101, 0));
    assert!(surveyed[0].kept_because.unwrap().contains("too many"));
    shard.sql("UPDATE task SET keep_until = 1 WHERE id = 101").await;
    assert_eq!(buckets.run_once(NOW).await.unwrap().kept, 1, "not looked through again at once");
    assert_eq!(buckets.survey(NOW).await.unwrap()[0].kept_because, None);
    let later = buckets.run_once(Millis(NOW.0 + 3_600_000)).await.unwrap();
    assert_eq!((later.carried, later.forgotten, later.kept), (100, 201, 0), "{later:?}");
    assert_eq!(shard.rows().await[0], 100);
}

/// Every engine that looks continues with what another began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_carrying_that_is_cut_off_anywhere_loses_and_doubles_nothing() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 900, TODAY - 6 * DAY, 11, "1").await;
    shard.put(901, 60, TODAY - 6 * DAY, 1, "NULL").await;
    shard.put(961, 30, TODAY - 6 * DAY, 9, "9000000000000").await;
    let step = BucketOptions { batches_per_run: 1, batch_rows: 20, ..OPTIONS };
    // Two of them remember how far they had looked, and every third step is one that has just started.
    let (one, other) = (shard.store.buckets(step), shard.store.buckets(step));
    let (mut carried, mut forgotten) = (0, 0);
    for turn in 0_i64.. {
        let fresh = shard.store.buckets(step);
        let buckets = [&one, &other, &fresh][usize::try_from(turn % 3).unwrap()];
        let report = buckets.run_once(Millis(NOW.0 + turn)).await.unwrap();
        (carried, forgotten) = (carried + report.carried, forgotten + report.forgotten);
        assert!(turn < 200, "{report:?}");
        shard.is_accounted_for().await;
        let ids = "SELECT COUNT(*), COUNT(DISTINCT id) FROM (SELECT id FROM task WHERE state IN (1, 9)
            UNION ALL SELECT id FROM task_gone WHERE state IN (1, 9)) AS here";
        assert_eq!(shard.sql(ids).await, "90\t90", "turn {turn}");
        let reported = "SELECT COUNT(*) FROM task LEFT JOIN moved USING (partition_no, id)
            WHERE task.due_at <> task.place_due_at AND task.id > 900 AND task.due_at > 1795000000000
                AND COALESCE(moved.due_at, 0) <> task.due_at";
        assert_eq!(shard.sql(reported).await, "0", "every reference finds its task, turn {turn}");
        if forgotten == 900 {
            break;
        }
    }
    assert_eq!(carried, 90);
    assert_eq!(shard.rows().await[0], 90);
    shard.is_accounted_for().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_crash_between_any_two_steps_the_next_run_completes_it() {
    let swapped = swap("p2026111500");
    for (crash, forgotten) in [
        ("UPDATE gone_to SET partition_no = 7, due_at = 5, id = 5".to_owned(), 400),
        (swapped.clone(), 400),
        (format!("{swapped}; ALTER TABLE task DROP PARTITION p2026111500"), 400),
        (format!("{swapped}; ALTER TABLE task CONVERT PARTITION p2026111500 TO TABLE task_left"), 400),
        (format!("{swapped}; UPDATE gone_to SET partition_no = 2147483647"), 0),
        (format!("{swapped}; TRUNCATE TABLE task_gone; UPDATE gone_to SET partition_no = 2147483647"), 0),
    ] {
        let shard = Shard::with_buckets_since(6).await;
        shard.put(1, 400, TODAY - 6 * DAY, 11, "1").await;
        shard.sql(&crash).await;
        if forgotten > 0 {
            shard.is_accounted_for().await;
        }
        let report = shard.run(OPTIONS, NOW).await;
        assert_eq!(report.forgotten, forgotten, "{crash}: {report:?}");
        assert_eq!((shard.rows().await[0], shard.rows().await[4]), (0, 0), "{crash}");
        assert_eq!(shard.buckets().await[0], "p2026111800", "{crash}");
        if forgotten > 0 {
            assert_eq!(shard.rows().await, [0; 5], "{crash}");
            shard.is_accounted_for().await;
        }
    }
}

/// No call inserts tasks there. But a bucket that was seen to be empty may have a task when it leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_came_into_a_bucket_as_it_left_is_put_back() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 40, TODAY - 6 * DAY, 1, "NULL").await;
    shard.sql("ALTER TABLE task CONVERT PARTITION p2026111500 TO TABLE task_left").await;
    assert_eq!(shard.sql("SELECT COUNT(*) FROM task").await, "0");
    shard.run(OPTIONS, NOW).await;
    assert_eq!(shard.sql("SELECT COUNT(*), COUNT(DISTINCT id) FROM task WHERE state = 1").await, "40\t40");
    assert_eq!(shard.sql("SHOW TABLES LIKE 'task_left'").await, "");
    shard.is_accounted_for().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_is_cut_off_between_batches_goes_on_where_it_was() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 1_000, TODAY - 6 * DAY, 11, "1").await;
    let little = BucketOptions { batches_per_run: 3, ..OPTIONS };
    let (mut forgotten, mut runs) = (0, 0);
    loop {
        let report = shard.run(little, NOW).await;
        shard.is_accounted_for().await;
        (forgotten, runs) = (forgotten + report.forgotten, runs + 1);
        if !report.is_unfinished {
            break;
        }
        assert!(report.forgotten <= 300 && runs < 10, "{report:?}");
    }
    assert_eq!((forgotten, shard.rows().await), (1_000, [0; 5]));
    assert!(runs >= 4, "{runs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_needed_after_all_is_put_back_and_an_id_that_was_given_again_keeps_its_entry() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 300, TODAY - 6 * DAY, 11, "1").await;
    // Became stopped between the look and the swap; and, while the bucket was swapped out, its id came again.
    shard.sql("UPDATE task SET keep_until = 9000000000000 WHERE id = 7").await;
    shard.sql(&swap("p2026111500")).await;
    shard.sql("UPDATE registry SET id = 5000 WHERE task_id = 1008").await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!(report.forgotten, 299);
    assert_eq!(shard.sql("SELECT id FROM task").await, "7");
    assert_eq!(shard.sql("SELECT id FROM registry ORDER BY id").await, "7\n5000");
    shard.is_accounted_for().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_at_once_do_no_harm() {
    let shard = Shard::with_buckets_since(9).await;
    for day in 4..9 {
        shard.put(1 + day * 1_000, 700, TODAY - day * DAY, 11, "1").await;
    }
    shard.put(50_001, 100, TODAY - 9 * DAY, 1, "NULL").await;
    let mut engines = JoinSet::new();
    for _ in 0..3 {
        let buckets = shard.store.buckets(OPTIONS);
        engines.spawn(async move {
            let mut busy = 0;
            for turn in 0..12 {
                busy += buckets.run_once(Millis(NOW.0 + turn * DAY / 4)).await.unwrap().busy;
            }
            busy
        });
    }
    let busy: usize = engines.join_all().await.into_iter().sum();
    assert!(busy > 0, "they met");
    shard.run(OPTIONS, Millis(NOW.0 + 3 * DAY)).await;
    assert_eq!(shard.rows().await[0], 100, "the unfinished ones, and nothing else");
    assert_eq!(shard.rows().await[4], 0);
    shard.is_accounted_for().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_that_would_wait_for_long_gives_way_and_comes_again() {
    let shard = Shard::fresh().await;
    let (server, database) = (shard.server, shard.database.clone());
    let mut holder = JoinSet::new();
    // Ends by being killed, which its client says by panicking.
    let held = "START TRANSACTION; SELECT COUNT(*) FROM task; SELECT SLEEP(100)";
    holder.spawn(async move { server.sql(&database, held).await });
    let sleeping =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'SELECT SLEEP%'";
    until("it sleeps", || async { !shard.sql(sleeping).await.is_empty() }).await;
    let id = shard.sql(sleeping).await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!((report.busy, report.made), (1, 0));
    shard.sql(&format!("KILL {id}")).await;
    assert!(holder.join_next().await.unwrap().is_err());
    assert!(shard.run(OPTIONS, NOW).await.made > 3);
}

/// What a change of the table does while everybody waits: it looks at none of the rows. How long it takes is measured by
/// `--example bucket_drop`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_large_bucket_leaves_the_table_in_no_time() {
    // It goes with the process.
    let server = Box::leak(Box::new(MariaDb::own().await));
    let shard = Shard::on(server).await.and_buckets_since(6).await;
    shard.put(1, 50_000, TODAY - 6 * DAY, 11, "1").await;
    let report = shard.run(BucketOptions { batches_per_run: 5, ..OPTIONS }, NOW).await;
    assert_eq!((report.dropped, report.is_unfinished), (1, true));
    assert!(report.longest_change > Duration::ZERO, "it is measured: {report:?}");
    assert_eq!(shard.rows().await[0], 0, "though its tasks are not settled yet");
    shard.is_accounted_for().await;

    let manual = Shard::with_buckets_since(6).await;
    manual.put(1, 50_000, TODAY - 6 * DAY, 11, "1").await;
    assert!(
        manual.rows_touched("ALTER TABLE task FORCE, ALGORITHM = COPY").await >= 50_000,
        "a look would be seen"
    );
    let bucket = manual.buckets().await.remove(0);
    assert!(manual.rows_touched(&swap(&bucket)).await < 10);
    assert_eq!(manual.rows().await[0], 0);
}

/// Dropping a bucket in place would wait for the server's purge, with the table locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_empty_bucket_is_dropped_as_a_table_beside_the_tasks() {
    let server = MariaDb::own().await;
    let dropped_tables = || async {
        let status = server.sql("mysql", "SHOW GLOBAL STATUS LIKE 'Com_drop_table'").await;
        status.split_whitespace().last().and_then(|word| word.parse::<usize>().ok()).unwrap()
    };
    let store = MysqlStore::open(&[server.fresh_database().await], MysqlOptions::default()).await.unwrap();
    let buckets = store.buckets(OPTIONS);
    assert!(buckets.run_once(Millis(NOW.0 - 6 * DAY)).await.unwrap().made > 3);
    let before = dropped_tables().await;
    assert_eq!(buckets.run_once(NOW).await.unwrap().dropped, 3);
    assert_eq!(dropped_tables().await, before + 3);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_events_of_the_database_do_the_same() {
    let shard = Shard::with_buckets_since(6).await;
    shard.sql(EVENTS).await;
    shard.sql(EVENTS).await;
    shard.put(1, 2_500, TODAY - 6 * DAY, 11, "1").await;
    shard.put(5_001, 300, TODAY - 5 * DAY, 9, "1").await;
    shard.put(6_001, 30, TODAY - 5 * DAY, 1, "NULL").await;
    let (now, next_day) = (NOW.0, NOW.0 + DAY);
    shard.event(&format!("CALL punctual_buckets({now}, 24, 48, 72)")).await;
    assert_eq!(shard.rows().await, [330, 330, 165, 110, 0], "a bucket with a waiting task stays");
    shard.is_accounted_for().await;
    let report = shard.run(OPTIONS, NOW).await;
    let left = (report.made, report.looked, report.carried, report.forgotten);
    assert_eq!(left, (0, 1, 30, 300), "nothing is left to do but what only an engine can: {report:?}");
    assert_eq!(shard.rows().await[0], 30);
    let before = shard.buckets().await;
    shard.event(&format!("CALL punctual_buckets({next_day}, 24, 48, 72)")).await;
    let made: Vec<String> =
        shard.buckets().await.into_iter().filter(|bucket| !before.contains(bucket)).collect();
    assert_eq!(made, [""; 0], "an engine has made them for centuries");
    let events = "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()";
    assert_eq!(shard.sql(events).await, "1");
}

/// In a database that no engine has looked at yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_events_make_the_buckets_that_are_near_and_copy_no_more_than_an_engine() {
    let shard = Shard::fresh().await;
    shard.sql(EVENTS).await;
    let call = format!("CALL punctual_buckets({}, 24, 48, 72)", NOW.0);
    shard.event(&call).await;
    let near = ["p2026112100", "p2026112200", "p2026112300", "pmax"];
    assert_eq!(shard.buckets().await, near);
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!(shard.buckets().await[..3], near[..3], "{report:?}");
    let other = Shard::fresh().await;
    other.sql(EVENTS).await;
    other.put(1, 10_001, TODAY, 1, "NULL").await;
    other.event(&call).await;
    assert_eq!(other.buckets().await, ["pmax"], "as an engine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_that_finds_the_engine_at_work_leaves_it_alone() {
    let shard = Shard::fresh().await;
    shard.sql(EVENTS).await;
    let (server, database) = (shard.server, shard.database.clone());
    let both = format!(
        "DO GET_LOCK({OF_BUCKETS}, 0); CALL punctual_buckets({}, 24, 48, 72); SELECT SLEEP(100)",
        NOW.0
    );
    let mut holder = JoinSet::new();
    holder.spawn(async move { server.sql(&database, &both).await });
    let sleeping =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'SELECT SLEEP%'";
    until("it sleeps", || async { !shard.sql(sleeping).await.is_empty() }).await;
    let id = shard.sql(sleeping).await;
    // The one who sleeps took the lock twice and gave it free once.
    assert_eq!(shard.run(OPTIONS, NOW).await.busy, 1);
    shard.sql(&format!("CALL punctual_buckets({}, 24, 480, 72)", NOW.0)).await;
    assert_eq!(shard.buckets().await.len(), 4, "made by the first alone");
    shard.sql(&format!("KILL {id}")).await;
    assert!(holder.join_next().await.unwrap().is_err());
    // The server hangs up before it lets the locks of the connection go.
    until("its lock is free", || async { shard.run(OPTIONS, NOW).await.busy == 0 }).await;
}
