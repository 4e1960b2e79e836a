//! What has fired and waits for an executor.

use super::{entry, ids, queue, strict};
use punctual_contract::{
    Hot,
    hot::{Admission, Depth, HotEntry},
    ownership::Tenure,
};
use punctual_domain::{
    chooser::{Chooser, Draws, LEVELS, Level},
    place::Partition,
    settings::{Choice, Retries},
    task::Priority,
    time::Millis,
};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

const P0: Partition = Partition(0);

fn level(level: u8, entry: HotEntry) -> HotEntry {
    HotEntry { priority: Priority::new(level).unwrap(), ..entry }
}

fn of_task(task_id: i64, task_version: i64, entry: HotEntry) -> HotEntry {
    HotEntry { task_id, task_version, ..entry }
}

fn in_queue(name: &str, entry: HotEntry) -> HotEntry {
    HotEntry { queue: Arc::new(queue(name)), ..entry }
}

/// Loads, takes and offers.
pub(super) async fn offered(hot: &dyn Hot, entries: Vec<HotEntry>) -> Vec<HotEntry> {
    let count = entries.len();
    assert_eq!(hot.load(entries).await.unwrap(), count);
    let taken = hot.take(Tenure::sole(P0), Millis::MAX, count).await.unwrap();
    assert_eq!(taken.len(), count);
    hot.offer(taken.clone(), Retries::default()).await.unwrap();
    taken
}

async fn admit(hot: &dyn Hot, limit: usize) -> Vec<i64> {
    ids(&hot.admit(&queue("mail"), strict(limit)).await.unwrap())
}

pub async fn admitted_by_priority_then_age(hot: Arc<dyn Hot>) {
    let entries = vec![
        level(3, entry(1, 10, 1)),
        level(1, entry(2, 30, 1)),
        level(3, entry(4, 5, 1)),
        level(3, entry(3, 5, 1)),
        level(5, entry(5, 1, 1)),
        level(1, entry(6, 20, 1)),
    ];
    offered(&*hot, entries).await;
    assert_eq!(admit(&*hot, 9).await, [6, 2, 3, 4, 1, 5]);
}

pub async fn of_two_versions_the_newer_goes_first(hot: Arc<dyn Hot>) {
    let entries = vec![
        of_task(7, 1, entry(1, 10, 1)),
        of_task(7, 2, entry(2, 90, 1)),
        of_task(8, i64::MIN, level(1, entry(3, 10, 1))),
        of_task(8, i64::MAX, level(5, entry(4, 95, 1))),
        of_task(9, 1, entry(5, 50, 1)),
    ];
    offered(&*hot, entries).await;
    let mut order = Vec::new();
    for _ in 0..5 {
        order.extend(admit(&*hot, 1).await);
    }
    let at = |id: i64| order.iter().position(|it| *it == id).unwrap();
    assert!(at(2) < at(1) && at(4) < at(3), "{order:?}");
    assert!(
        at(4) < at(5) && at(2) < at(5),
        "a newer version waits no longer than the older would: {order:?}"
    );
    assert_eq!(order.len(), 5);
}

pub async fn each_queue_has_a_ready_set_of_its_own(hot: Arc<dyn Hot>) {
    offered(&*hot, vec![entry(1, 1, 1), in_queue("sms", entry(2, 1, 1))]).await;
    assert_eq!(hot.admit(&queue("fax"), strict(9)).await.unwrap(), []);
    assert_eq!(ids(&hot.admit(&queue("sms"), strict(9)).await.unwrap()), [2]);
    assert_eq!(admit(&*hot, 9).await, [1]);
}

pub async fn what_was_settled_is_passed_over(hot: Arc<dyn Hot>) {
    offered(&*hot, (1..=5).map(|id| entry(id, id, 2)).collect()).await;
    hot.settle(&[(P0, 1, 2), (P0, 3, 9), (P0, 4, 1)]).await.unwrap();
    assert_eq!(admit(&*hot, 3).await, [2, 4, 5]);
    assert_eq!(admit(&*hot, 9).await, [0; 0]);
}

pub async fn what_a_newer_fence_replaced_is_passed_over(hot: Arc<dyn Hot>) {
    let old = offered(&*hot, vec![entry(1, 1, 1), entry(2, 2, 1)]).await;
    hot.load(vec![entry(1, 50, 2)]).await.unwrap();
    assert_eq!(admit(&*hot, 9).await, [2], "its time has not come");
    hot.take(Tenure::sole(P0), Millis(50), 9).await.unwrap();
    hot.offer(vec![old[0].clone()], Retries::default()).await.unwrap();
    assert_eq!(admit(&*hot, 9).await, [0; 0], "an old fence is not in firing");
}

pub async fn what_never_fired_is_not_admitted(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    hot.offer(vec![entry(1, 5, 1), entry(2, 5, 1)], Retries::default()).await.unwrap();
    assert_eq!(admit(&*hot, 9).await, [0; 0]);
}

pub async fn what_is_offered_twice_is_admitted_once(hot: Arc<dyn Hot>) {
    let fired = offered(&*hot, vec![entry(1, 1, 1), entry(2, 2, 1)]).await;
    hot.offer(fired.clone(), Retries::default()).await.unwrap();
    hot.offer(vec![level(1, fired[1].clone()), fired[0].clone()], Retries::default()).await.unwrap();
    let mut admitted = admit(&*hot, 9).await;
    admitted.sort_unstable();
    assert_eq!(admitted, [1, 2]);
}

pub async fn what_was_admitted_still_fires_and_can_be_offered_again(hot: Arc<dyn Hot>) {
    let fired = offered(&*hot, vec![entry(1, 1, 1)]).await;
    assert_eq!(admit(&*hot, 9).await, [1]);
    assert_eq!(hot.firing(P0, Millis::MAX.plus(1), 0..9).await.unwrap(), [], "before is exclusive");
    assert_eq!(hot.depth().await.unwrap().firing, 1, "until it is settled");
    assert_eq!(admit(&*hot, 9).await, [0; 0]);
    hot.offer(fired, Retries::default()).await.unwrap();
    assert_eq!(admit(&*hot, 9).await, [1]);
}

pub async fn admitting_is_bounded(hot: Arc<dyn Hot>) {
    offered(&*hot, (0..20).map(|id| entry(id, id, 1)).collect()).await;
    assert_eq!(admit(&*hot, 0).await, [0; 0]);
    for limit in [1, 4, 10] {
        assert_eq!(admit(&*hot, limit).await.len(), limit);
    }
    assert_eq!(admit(&*hot, 10).await.len(), 5);
}

pub async fn depth_says_what_is_where(hot: Arc<dyn Hot>) {
    let entries = vec![entry(1, 1, 1), entry(2, 1, 1), in_queue("sms", entry(3, 1, 1))];
    offered(&*hot, entries).await;
    hot.load(vec![entry(4, 1, 1), entry(5, 1, 1)]).await.unwrap();
    hot.take(Tenure::sole(P0), Millis(1), 1).await.unwrap();
    let mut depth = hot.depth().await.unwrap();
    depth.ready.sort();
    let ready = vec![(Arc::new(queue("mail")), 2), (Arc::new(queue("sms")), 1)];
    assert_eq!(depth, Depth { due: 1, firing: 4, ready, parked: vec![] });
    admit(&*hot, 9).await;
    let ready = hot.depth().await.unwrap().ready;
    assert!(ready.iter().all(|(key, count)| *count == 1 && **key == queue("sms")), "{ready:?}");
}

pub async fn of_many_who_admit_each_entry_goes_to_one(hot: Arc<dyn Hot>) {
    offered(&*hot, (0..1_000).map(|id| entry(id, id, 1)).collect()).await;
    let mut pushers = JoinSet::new();
    for pusher in 0..8 {
        let hot = Arc::clone(&hot);
        pushers.spawn(async move {
            let mut got = Vec::new();
            loop {
                let admitted = admit(&*hot, 3 + pusher).await;
                if admitted.is_empty() {
                    return got;
                }
                got.extend(admitted);
            }
        });
    }
    let got = pushers.join_all().await.concat();
    assert_eq!((got.len(), got.into_iter().collect::<HashSet<_>>().len()), (1_000, 1_000));
}

fn backlog() -> Vec<HotEntry> {
    let of = |id: i64| {
        let number = u8::try_from(id % 5 + 1).unwrap();
        HotEntry { attempt: u32::from(id % 3 == 0), ..level(number, entry(id, 10_000 - id * 7 % 900, 1)) }
    };
    (1..=300).map(of).collect()
}

/// What was offered, popped as the pure functions say.
fn chosen(entries: &[HotEntry], admission: Admission, retries: Retries) -> Vec<i64> {
    let mut left: Vec<(Level, &HotEntry)> =
        entries.iter().map(|it| (Level::of(it.priority, it.attempt, retries), it)).collect();
    left.sort_by_key(|(level, it)| (*level, it.due_at, it.place.id));
    let mut waiting = [0; LEVELS];
    left.iter().for_each(|(level, _)| waiting[level.index()] += 1);
    let plan = admission.chooser.plan(&waiting, admission.limit, &mut Draws::new(admission.seed));
    let pop = |level| left.remove(left.iter().position(|it| it.0 == level).unwrap()).1.place.id;
    plan.into_iter().map(pop).collect()
}

pub async fn the_chooser_says_which_level_goes_next(hot: Arc<dyn Hot>) {
    let choices = [
        Choice::default(),
        Choice::HighestFirst { percent: 0 },
        Choice::Weights { weights: [5, 0, 3, 2, 1] },
        Choice::Weights { weights: [0; 5] },
    ];
    for (choice, share_percent) in choices.into_iter().zip([None, Some(30), Some(0), Some(100)]) {
        let retries = Retries { lower_by: 1, share_percent, ..Retries::default() };
        let chooser = Chooser { choice, retries_percent: share_percent };
        let taken = {
            let count = hot.load(backlog()).await.unwrap();
            hot.take(Tenure::sole(P0), Millis::MAX, count).await.unwrap()
        };
        hot.offer(taken.clone(), retries).await.unwrap();
        let mut left = taken.clone();
        for (seed, limit) in [(1, 7), (u32::MAX, 100), (77, 1), (4, 500)] {
            let admission = Admission { limit, chooser, seed };
            let admitted = ids(&hot.admit(&queue("mail"), admission).await.unwrap());
            assert_eq!(admitted, chosen(&left, admission, retries), "{choice:?}, {share_percent:?}, {seed}");
            left.retain(|it| !admitted.contains(&it.place.id));
        }
        assert_eq!(left, []);
        let gone: Vec<_> = taken.iter().map(|it| (P0, it.place.id, it.fence)).collect();
        hot.settle(&gone).await.unwrap();
    }
}
