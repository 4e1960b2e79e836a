//! What has fired and may not go now: in a lane, out of the order.

use super::{entry, ids, queue, ready::offered, strict};
use punctual_contract::{
    Hot,
    hot::{Depth, HotEntry, Lane, Withdrawn},
};
use punctual_domain::{place::Partition, settings::Retries};
use std::sync::Arc;
use tokio::task::JoinSet;

fn key(text: &str) -> Lane {
    Lane::Key(text.to_owned())
}

async fn admit(hot: &dyn Hot, limit: usize) -> Vec<i64> {
    ids(&hot.admit(&queue("mail"), strict(limit)).await.unwrap())
}

async fn park(hot: &dyn Hot, lane: &Lane, entries: &[HotEntry]) {
    hot.park(lane, entries.to_vec(), Retries::default()).await.unwrap();
}

async fn unpark(hot: &dyn Hot, lane: &Lane, limit: usize) -> usize {
    hot.unpark(&queue("mail"), lane, limit).await.unwrap()
}

async fn lanes(hot: &dyn Hot) -> Vec<(Lane, usize)> {
    let mut lanes = hot.lanes(&queue("mail"), None, 100).await.unwrap();
    lanes.sort();
    lanes
}

/// Offers and admits.
async fn admitted(hot: &dyn Hot, count: i64) -> Vec<HotEntry> {
    offered(hot, (1..=count).map(|id| entry(id, id, 2)).collect()).await;
    hot.admit(&queue("mail"), strict(1_000)).await.unwrap()
}

pub async fn what_is_parked_is_not_admitted_until_it_is_brought_back(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 4).await;
    park(&*hot, &key("a"), &all[..2]).await;
    hot.offer(all[2..].to_vec(), Retries::default()).await.unwrap();
    assert_eq!(admit(&*hot, 9).await, [3, 4]);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 2);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 0);
    assert_eq!(admit(&*hot, 9).await, [1, 2]);
}

pub async fn the_first_of_a_lane_come_back_first_and_to_their_place(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 6).await;
    park(&*hot, &key("a"), &[all[4].clone(), all[1].clone(), all[3].clone()]).await;
    hot.offer(all.clone(), Retries::default()).await.unwrap();
    assert_eq!(unpark(&*hot, &key("a"), 2).await, 2);
    assert_eq!(admit(&*hot, 9).await, [1, 2, 3, 4, 6], "as if they had never left");
    assert_eq!(unpark(&*hot, &key("a"), 0).await, 0);
    assert_eq!(lanes(&*hot).await, [(key("a"), 1)]);
}

pub async fn lanes_do_not_mix_and_are_listed_page_by_page(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 8).await;
    let kinds = [
        key(""),
        key("a"),
        key("ab"),
        key("a\u{0}"),
        Lane::Retries,
        Lane::Version(">=2".into()),
        Lane::Version("a".into()),
        Lane::Kind("a".into()),
    ];
    for (lane, entry) in kinds.iter().zip(&all) {
        park(&*hot, lane, std::slice::from_ref(entry)).await;
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = hot.lanes(&queue("mail"), after.as_ref(), 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page);
    }
    found.sort();
    let mut wanted: Vec<_> = kinds.iter().map(|lane| (lane.clone(), 1)).collect();
    wanted.sort();
    assert_eq!(found, wanted);
    assert_eq!(hot.lanes(&queue("sms"), None, 9).await.unwrap(), []);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 1);
    assert_eq!(admit(&*hot, 9).await, [2]);
}

pub async fn offered_or_parked_again_it_stays_where_it_is(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 2).await;
    park(&*hot, &key("a"), &all).await;
    let older: Vec<HotEntry> = all.iter().map(|entry| HotEntry { fence: 1, ..entry.clone() }).collect();
    for again in [&all, &older] {
        assert_eq!(hot.offer(again.clone(), Retries::default()).await.unwrap(), 0, "nothing new");
        park(&*hot, &key("b"), again).await;
    }
    assert_eq!(admit(&*hot, 9).await, [0; 0]);
    assert_eq!(lanes(&*hot).await, [(key("a"), 2)]);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 2);
    assert_eq!(hot.admit(&queue("mail"), strict(9)).await.unwrap(), all, "as they were parked");
}

pub async fn what_stands_in_the_order_is_taken_out_of_it(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 2).await;
    hot.offer(all.clone(), Retries::default()).await.unwrap();
    park(&*hot, &Lane::Retries, &all[..1]).await;
    assert_eq!(admit(&*hot, 9).await, [2]);
    assert_eq!(lanes(&*hot).await, [(Lane::Retries, 1)]);
}

pub async fn what_is_discarded_leaves_its_lane_unless_its_fence_is_newer(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 4).await;
    park(&*hot, &key("a"), &all).await;
    assert_eq!(hot.withdraw(Partition(0), 1, 2).await.unwrap(), Withdrawn::Absent, "it has fired");
    hot.discard(&[entry(1, 1, 2), entry(2, 2, 9), entry(3, 3, 1)]).await.unwrap();
    assert_eq!(lanes(&*hot).await, [(key("a"), 2)]);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 2);
    assert_eq!(admit(&*hot, 9).await, [3, 4]);
}

pub async fn a_newer_fence_takes_the_place_of_what_is_parked(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 2).await;
    park(&*hot, &key("a"), &all).await;
    let newer = offered(&*hot, vec![entry(1, 9, 3)]).await;
    assert_eq!(lanes(&*hot).await, [(key("a"), 1)], "in the order from now on");
    park(&*hot, &key("a"), &all[..1]).await;
    assert_eq!(hot.admit(&queue("mail"), strict(9)).await.unwrap(), newer, "an older fence parks nothing");
    let newer = entry(2, 9, 3);
    park(&*hot, &key("b"), std::slice::from_ref(&newer)).await;
    assert_eq!(lanes(&*hot).await, [(key("b"), 1)], "a newer fence is parked in place of an older");
    assert_eq!(unpark(&*hot, &key("b"), 9).await, 1);
    assert_eq!(hot.admit(&queue("mail"), strict(9)).await.unwrap(), [newer]);
}

pub async fn a_newer_fence_is_parked_in_place_of_what_is_in_the_order(hot: Arc<dyn Hot>) {
    offered(&*hot, vec![entry(1, 1, 1), entry(2, 2, 1)]).await;
    park(&*hot, &key("a"), &[entry(1, 9, 2)]).await;
    assert_eq!(admit(&*hot, 9).await, [2]);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 1);
    assert_eq!(hot.admit(&queue("mail"), strict(9)).await.unwrap(), [entry(1, 9, 2)]);
}

pub async fn of_two_versions_the_parked_one_does_not_hold_up_the_other(hot: Arc<dyn Hot>) {
    let of_task = |version, entry| HotEntry { task_id: 7, task_version: version, ..entry };
    let all = offered(&*hot, vec![of_task(1, entry(1, 1, 1)), of_task(2, entry(2, 2, 1))]).await;
    park(&*hot, &key("a"), &all[1..]).await;
    assert_eq!(admit(&*hot, 9).await, [1]);
    assert_eq!(unpark(&*hot, &key("a"), 9).await, 1);
    assert_eq!(admit(&*hot, 9).await, [2]);
}

pub async fn depth_tells_the_parked_from_the_ready(hot: Arc<dyn Hot>) {
    let all = admitted(&*hot, 3).await;
    hot.offer(all[..1].to_vec(), Retries::default()).await.unwrap();
    park(&*hot, &key("a"), &all[1..]).await;
    let (ready, parked) = (vec![(Arc::new(queue("mail")), 1)], vec![(Arc::new(queue("mail")), 2)]);
    assert_eq!(hot.depth().await.unwrap(), Depth { due: 0, ready, parked });
    admit(&*hot, 9).await;
    assert_eq!(hot.depth().await.unwrap().parked.len(), 1, "a queue with nothing else is not forgotten");
    unpark(&*hot, &key("a"), 9).await;
    admit(&*hot, 9).await;
    assert_eq!(hot.depth().await.unwrap(), Depth::default());
}

/// Some park what they admit, others bring it back: in the end each is in one place.
pub async fn of_many_who_park_and_admit_nothing_is_lost_or_doubled(hot: Arc<dyn Hot>) {
    offered(&*hot, (0..400).map(|id| entry(id, id, 1)).collect()).await;
    let mut others = JoinSet::new();
    for nth in 0..6 {
        let hot = Arc::clone(&hot);
        others.spawn(async move {
            let mut got = Vec::new();
            for turn in 0..40 {
                let some = hot.admit(&queue("mail"), strict(3 + nth)).await.unwrap();
                if (turn + nth) % 3 == 0 {
                    got.extend(ids(&some));
                } else {
                    park(&*hot, &key("a"), &some).await;
                    unpark(&*hot, &key("a"), 4).await;
                }
            }
            got
        });
    }
    let mut got = others.join_all().await.concat();
    unpark(&*hot, &key("a"), 1_000).await;
    got.extend(admit(&*hot, 1_000).await);
    got.sort_unstable();
    assert_eq!(got, (0..400).collect::<Vec<_>>());
}
