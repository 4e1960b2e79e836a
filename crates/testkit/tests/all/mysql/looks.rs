//! The results of a look at a partition from the beginning, when it skips the tasks that had finished before.

use super::{NOW, ask, fresh, open, sql};
use punctual_contract::{Store, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use punctual_store::MysqlStore;
use punctual_testkit::patience::until;
use tokio::task::JoinSet;

/// A partition with tasks that are finished.
struct Stand {
    url: String,
    store: MysqlStore,
    partition: Partition,
}

impl Stand {
    async fn new() -> Self {
        let urls = fresh(1).await;
        let store = open(&urls).await;
        let inserted = store.insert((1..=200).map(ask).collect(), "test", NOW).await.unwrap();
        let partition = inserted[0].task.place.partition;
        let stand = Self { url: urls[0].clone(), store, partition };
        stand.sql("UPDATE task SET state = 11, keep_until = 1").await;
        stand
    }

    async fn sql(&self, text: &str) -> String {
        sql(&self.url, text).await
    }

    /// As if it had just been committed: it waits, due at `NOW`.
    async fn appears(&self) -> i64 {
        let no = self.partition.0;
        let id = self.sql(&format!("SELECT MIN(id) FROM task WHERE partition_no = {no}")).await;
        self.sql(&format!(
            "UPDATE task SET state = 1, keep_until = NULL WHERE partition_no = {no} AND id = {id}"
        ))
        .await;
        id.parse().unwrap()
    }

    /// A look a second until there was no reason for doubt for a while. The second of the next one.
    async fn trusts(&self) -> i64 {
        for seconds in 10..30 {
            assert!(self.look(seconds).await.is_empty());
        }
        30
    }

    /// Some seconds after `NOW`.
    async fn look(&self, seconds: i64) -> Vec<i64> {
        let now = NOW.plus(seconds * 1_000);
        self.store.apply(Vec::new(), now).await.unwrap();
        let scan = Scan { partition: self.partition, until: now.plus(-2_000), after: None, limit: 9 };
        self.store.scan(scan).await.unwrap().iter().map(|entry| entry.place.id).collect()
    }

    /// A look a second, and a scan of each partition that needs one, as an engine does.
    async fn looks_together_until(&self, seconds: &mut i64, wanted: &[Option<usize>]) {
        let began = *seconds;
        loop {
            let found = self.look_together(*seconds).await;
            if found == wanted {
                return;
            }
            assert!(*seconds < began + 130, "{found:?}");
            for (no, _) in (0..).zip(&found).filter(|(_, rows)| rows.is_none()) {
                let until = NOW.plus(*seconds * 1_000 - 2_000);
                let scan = Scan { partition: Partition(no), until, after: None, limit: 9 };
                self.store.scan(scan).await.unwrap();
            }
            *seconds += 1;
        }
    }

    /// At all partitions together: of each, what was found, or that it needs a look of its own.
    async fn look_together(&self, seconds: i64) -> Vec<Option<usize>> {
        let now = NOW.plus(seconds * 1_000);
        self.store.apply(Vec::new(), now).await.unwrap();
        let scan = |no| Scan { partition: Partition(no), until: now.plus(-2_000), after: None, limit: 9 };
        let scans = (0..self.store.partitions()).map(scan).collect();
        let found = self.store.scan_together(scans).await.unwrap();
        found.into_iter().map(|rows| rows.map(|rows| rows.len())).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_seconds_after_it_was_due_is_found_within_a_minute() {
    let stand = Stand::new().await;
    let mut seconds = stand.trusts().await;
    let late = stand.appears().await;
    assert!(stand.look(seconds).await.is_empty(), "most looks do not read what is past");
    let end = seconds + 60;
    while stand.look(seconds).await != [late] {
        seconds += 1;
        assert!(seconds < end, "a look a second, for a minute");
    }
    assert_eq!(stand.look(seconds + 1).await, [late], "and again until it is finished");
    stand.sql("UPDATE task SET state = 11, keep_until = 1").await;
    assert!(stand.look(seconds + 2).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_not_looked_for_a_while_trusts_in_nothing() {
    let stand = Stand::new().await;
    for seconds in 10..13 {
        assert!(stand.look(seconds).await.is_empty());
    }
    let late = stand.appears().await;
    assert_eq!(stand.look(20).await, [late]);
}

/// A database that hung answers looks again, and only then commits earlier calls: some of their tasks were
/// due long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_database_that_stood_still_commits_at_last_is_found_within_seconds() {
    let stand = Stand::new().await;
    let seconds = stand.trusts().await + 7;
    for second in -1..=0 {
        assert!(stand.look(seconds + second).await.is_empty(), "it goes on");
    }
    let late = stand.appears().await;
    let mut found = Vec::new();
    for second in 1..=4 {
        found.push(stand.look(seconds + second).await == [late]);
    }
    assert!(found.iter().any(|found| *found), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_late_is_found_within_seconds_while_transactions_of_this_engine_take_long() {
    let stand = Stand::new().await;
    let seconds = stand.trusts().await;
    let url = stand.url.clone();
    let mut holding = JoinSet::new();
    holding.spawn(async move { sql(&url, "LOCK TABLES task WRITE; DO SLEEP(3.2)").await });
    let is_held = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP(3.2)'";
    until("the table is locked", || async { stand.sql(is_held).await == "1" }).await;
    // It may be given up, and is slow in any case.
    drop(stand.store.insert(vec![ask(1_000)], "test", NOW.plus(seconds * 1_000)).await);
    holding.join_next().await;
    let late = stand.appears().await;
    let mut found = Vec::new();
    for second in 0..=3 {
        found.push(stand.look(seconds + second).await == [late]);
    }
    assert!(found.iter().any(|found| *found), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_appears_within_seconds_is_found_at_once() {
    let stand = Stand::new().await;
    for seconds in 1..=3 {
        assert!(stand.look(seconds).await.is_empty());
    }
    let late = stand.appears().await;
    assert_eq!(stand.look(4).await, [late]);
    for seconds in 5..15 {
        assert_eq!(stand.look(seconds).await, [late], "while it waits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_was_not_the_last_is_gone_on_from_where_it_ended() {
    let stand = Stand::new().await;
    assert!(stand.look(10).await.is_empty());
    stand.sql("UPDATE task SET state = 1, keep_until = NULL").await;
    let scan = |after| Scan { partition: stand.partition, until: Millis::MAX, after, limit: 3 };
    let (mut found, mut after) = (Vec::new(), None);
    stand.store.apply(Vec::new(), NOW.plus(20_000)).await.unwrap();
    loop {
        let page = stand.store.scan(scan(after)).await.unwrap();
        found.extend(page.iter().map(|entry| entry.place.id));
        after = page.last().map(|entry| entry.key());
        if page.len() < 3 {
            break;
        }
    }
    let no = stand.partition.0;
    let there = stand.sql(&format!("SELECT COUNT(*) FROM task WHERE partition_no = {no}")).await;
    assert_eq!(found.len().to_string(), there);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quiet_partitions_are_read_together_and_one_in_which_a_task_waits_by_itself() {
    let stand = Stand::new().await;
    let partitions = usize::from(stand.store.partitions());
    let mut seconds = 10;
    stand.looks_together_until(&mut seconds, &vec![Some(0); partitions]).await;
    let id = stand.appears().await;
    let mut wanted = vec![Some(0); partitions];
    wanted[usize::from(stand.partition.0)] = None;
    stand.looks_together_until(&mut seconds, &wanted).await;
    assert_eq!(stand.look(seconds).await, [id]);
}
