//! A MySQL that has gone back in time while Redis has not: restored, or failed over with a loss. Redis has seen newer terms
//! than MySQL gives, and knows tasks by newer fences than their rows have. Everything that MySQL has fires all the same.

use super::site::{OutagesSite, PARTITIONS, until};
use punctual_contract::{Hot as _, hot::HotEntry};

#[tokio::test(flavor = "multi_thread")]
async fn mysql_gives_older_terms_than_redis_has_seen_under_engines_that_live() {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(2).await;
    site.sql("UPDATE owner SET term = term + 100").await;
    crew.insert(200, 1_500..3_000).await;
    crew.have_come(200).await;
    // As it was before.
    site.sql("UPDATE owner SET term = term - 100").await;
    crew.insert(400, 3_000..9_000).await;
    crew.have_come(600).await;
    assert!(crew.terms_raised() >= u64::from(PARTITIONS), "{}", crew.terms_raised());
    let alerts = crew.alerts().await;
    assert!(alerts.contains(&"store_went_back"), "{alerts:?}");
    crew.finish("terms went back", 600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_start_on_a_redis_of_a_later_time_than_their_mysql() {
    let site = OutagesSite::new(&[]).await;
    for partition in 0..PARTITIONS {
        let key = format!("punctual:{{p{partition}}}:term");
        let set = "return redis.call('SET', KEYS[1], struct.pack('>I4I4', 2147483648, 5000))";
        site.redis.command(&["EVAL", set, "1", &key]).await;
    }
    let crew = site.crew(2).await;
    crew.insert(400, 3_000..8_000).await;
    crew.finish("Redis of a later time", 400).await;
    let lowest = site.sql("SELECT MIN(term) FROM owner").await;
    assert!(lowest.trim().parse::<i64>().unwrap() > 5_000, "{lowest}");
}

/// Redis has them with newer fences, due in an hour: as after a reschedule that MySQL has lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_redis_knows_by_a_newer_fence_than_its_row_fires_by_its_row() {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(60, 4_000..5_000).await;
    let hot = site.hot().await;
    let mut newer = Vec::new();
    for (place, due_at) in crew.inserted() {
        let entry = HotEntry { due_at: due_at.plus(3_600_000), fence: 9, ..crew.entry_of(place).await };
        newer.push(entry);
    }
    assert_eq!(hot.load(newer).await.unwrap(), 60, "they take the places of those that are true");
    let waits = crew.inserted()[0].0;
    until("an overdue task says why", async || {
        let why = crew.engine().why(waits).await.unwrap().1;
        why.blocking == Some("overdue") || crew.came() == 60
    })
    .await;
    crew.finish("newer fences in Redis", 60).await;
}
