//! A task in flight whose bucket grows old: the search for ended leases finds it wherever it is carried, and
//! a walk finds one whose entry is lost.

use super::{DAY, NOW, OPTIONS, Shard};
use punctual_contract::{
    Store,
    store::{Dispatched, Grant},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    task::NewTask,
    time::Millis,
};

const LEASED_AT: Millis = Millis(NOW.0 - 6 * DAY);

impl Shard {
    /// A task that an executor has, from six days ago until then.
    async fn hand_over(&self, lease_until: Millis) -> (TaskRef, i64) {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        let ask = NewTask::new(queue, Name::new("send").unwrap(), LEASED_AT);
        let inserted = self.store.insert(vec![ask], "caller", LEASED_AT).await.unwrap();
        let place = inserted[0].task.place;
        let grant = Grant {
            place,
            fence: inserted[0].task.fence,
            fired_at: LEASED_AT,
            lease_until,
            executor: "executor".to_owned(),
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: None,
        };
        match self.store.dispatch(vec![grant], LEASED_AT).await.unwrap().remove(0) {
            Dispatched::Made(lease) => (place, lease.fence),
            other => panic!("{other:?}"),
        }
    }

    async fn ended(&self, now: Millis) -> Vec<(TaskRef, i64)> {
        let ended = self.store.leases_ended(now, 10).await.unwrap();
        ended.into_iter().map(|task| (task.place, task.fence)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_is_carried_in_flight_is_watched_where_it_stands_then() {
    let shard = Shard::with_buckets_since(6).await;
    let lease_until = Millis(NOW.0 + 5_000);
    let held = shard.hand_over(lease_until).await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!((report.carried, report.rewatched), (1, 0), "{report:?}");
    // Looks at the entry of the old place, too, and tidies it away.
    assert_eq!(shard.ended(Millis(NOW.0 - 1)).await, []);
    assert_eq!(shard.ended(lease_until).await, [held]);
    assert_eq!(shard.ended(Millis(lease_until.0 + 60_000)).await, [held], "until somebody ends it");
    let (flying, _) = shard.store.in_flight(None, 10).await.unwrap();
    assert_eq!(flying.iter().map(|task| task.place).collect::<Vec<_>>(), [held.0]);
}

/// As a version before left it: the entry is gone, whatever the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_walk_finds_the_task_in_flight_that_nobody_watches() {
    let shard = Shard::with_buckets_since(6).await;
    let lease_until = Millis(LEASED_AT.0 + 30_000);
    let held = shard.hand_over(lease_until).await;
    let still_held = shard.hand_over(Millis(NOW.0 + DAY)).await;
    shard.sql("DELETE FROM lease_batch").await;
    assert_eq!(shard.ended(NOW).await, [], "nobody sees it");
    let buckets = shard.store.buckets(OPTIONS);
    // It goes by the end of the lease: of what is watched, as one that has just ended, it says nothing.
    assert_eq!(buckets.run_once(Millis(lease_until.0 + 30_000)).await.unwrap().rewatched, 0);
    let report = buckets.run_once(Millis(lease_until.0 + 3_600_000)).await.unwrap();
    assert_eq!(report.rewatched, 1, "{report:?}");
    assert_eq!(shard.ended(NOW).await, [held]);
    let again = buckets.run_once(Millis(lease_until.0 + 3_660_000)).await.unwrap();
    assert_eq!(again.rewatched, 0, "it rests");
    let later = buckets.run_once(Millis(NOW.0 + 2 * DAY)).await.unwrap();
    assert!(later.rewatched >= 1, "{later:?}");
    let mut both = shard.ended(Millis(NOW.0 + 2 * DAY)).await;
    both.sort_unstable();
    let mut expected = [held, still_held];
    expected.sort_unstable();
    assert_eq!(both, expected);
}

/// Many of them, and a walk that is cut into pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_walk_misses_none_of_many() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1, 45_000, NOW.0 - NOW.0 % DAY - 2 * DAY, 11, "1").await;
    let in_flight = "state = 4, keep_until = NULL, lease_since = 1, lease_until = 5, lease_executor = 'x'";
    shard.sql(&format!("UPDATE task SET {in_flight} WHERE id % 10 = 0")).await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!(report.rewatched, 4_500, "{report:?}");
    let mut found = 0;
    let mut after = None;
    loop {
        let (tasks, next) = shard.store.in_flight(after, 1_000).await.unwrap();
        found += tasks.len();
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, 4_500);
}
