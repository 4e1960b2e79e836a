//! What a look at a partition from its beginning finds, where it does not read what was finished before.

use super::{NOW, ask, fresh, open, sql};
use punctual_contract::{Store, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use punctual_store::MysqlStore;

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

    /// Some seconds after `NOW`.
    async fn look(&self, seconds: i64) -> Vec<i64> {
        let now = NOW.plus(seconds * 1_000);
        self.store.apply(Vec::new(), now).await.unwrap();
        let scan = Scan { partition: self.partition, until: now.plus(-2_000), after: None, limit: 9 };
        self.store.scan(scan).await.unwrap().iter().map(|it| it.place.id).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_seconds_after_it_was_due_is_found_within_a_minute() {
    let stand = Stand::new().await;
    for seconds in 10..13 {
        assert!(stand.look(seconds).await.is_empty());
    }
    let late = stand.appears().await;
    let mut seconds = 13;
    while stand.look(seconds).await != [late] {
        seconds += 1;
        assert!(seconds < 73, "a look a second, for a minute");
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
        found.extend(page.iter().map(|it| it.place.id));
        after = page.last().map(|it| it.key());
        if page.len() < 3 {
            break;
        }
    }
    let no = stand.partition.0;
    let there = stand.sql(&format!("SELECT COUNT(*) FROM task WHERE partition_no = {no}")).await;
    assert_eq!(found.len().to_string(), there);
}
