//! What has fired and waits for an executor.

use super::{entry, ids, queue, strict};
use punctual_contract::{
    Hot,
    hot::{Admission, Depth, HotEntry, Lane},
};
use punctual_domain::{
    chooser::{Chooser, Draws, LEVELS, Level},
    settings::{Choice, Retries},
    task::Priority,
};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

fn level(level: u8, entry: HotEntry) -> HotEntry {
    HotEntry { priority: Priority::new(level).unwrap(), ..entry }
}

fn of_task(task_id: i64, task_version: i64, entry: HotEntry) -> HotEntry {
    HotEntry { task_id, task_version, ..entry }
}

fn in_queue(name: &str, entry: HotEntry) -> HotEntry {
    HotEntry { queue: Arc::new(queue(name)), ..entry }
}

/// How many of them were put in.
async fn offer(hot: &dyn Hot, entries: Vec<HotEntry>) -> usize {
    hot.offer(entries, Retries::default()).await.unwrap()
}

/// All of them are new there.
pub(super) async fn offered(hot: &dyn Hot, entries: Vec<HotEntry>) -> Vec<HotEntry> {
    assert_eq!(offer(hot, entries.clone()).await, entries.len());
    entries
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
    let at = |id: i64| order.iter().position(|found| *found == id).unwrap();
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

pub async fn what_was_discarded_is_passed_over_unless_its_fence_is_newer(hot: Arc<dyn Hot>) {
    offered(&*hot, (1..=6).map(|id| entry(id, id, 2)).collect()).await;
    let gone =
        [entry(1, 9, 2), entry(3, 3, 9), entry(4, 4, 1), in_queue("sms", entry(5, 5, 2)), entry(77, 1, 1)];
    hot.discard(&gone).await.unwrap();
    assert_eq!(admit(&*hot, 3).await, [2, 4, 5], "another queue's is another entry");
    assert_eq!(admit(&*hot, 9).await, [6]);
    assert_eq!(offer(&*hot, vec![entry(1, 1, 1)]).await, 1, "nothing of it is remembered");
}

pub async fn offering_counts_what_was_put_in(hot: Arc<dyn Hot>) {
    let first = vec![entry(1, 1, 2), in_queue("sms", entry(2, 2, 2)), entry(1, 1, 2)];
    assert_eq!(offer(&*hot, first).await, 2, "an entry twice is put in once");
    let mixed = vec![entry(1, 1, 2), entry(3, 3, 1), entry(1, 1, 1), in_queue("sms", entry(2, 2, 3))];
    assert_eq!(offer(&*hot, mixed).await, 2, "what was not there, and a newer fence");
    assert_eq!(offer(&*hot, vec![in_queue("fax", entry(1, 1, 2))]).await, 1, "each queue has its own");
    let Depth { ready, .. } = hot.depth().await.unwrap();
    assert_eq!(ready.iter().map(|(_, count)| count).sum::<usize>(), 4);
}

pub async fn the_same_or_an_older_fence_changes_nothing_that_is_ready(hot: Arc<dyn Hot>) {
    let standing = offered(&*hot, vec![level(3, entry(1, 50, 3)), level(3, entry(2, 60, 3))]).await;
    for fence in [1, 2, 3] {
        assert_eq!(offer(&*hot, vec![level(1, entry(2, 10, fence))]).await, 0, "fence {fence}");
    }
    assert_eq!(hot.are_ready(&standing).await.unwrap(), [true, true]);
    assert_eq!(
        hot.admit(&queue("mail"), strict(9)).await.unwrap(),
        standing,
        "as they were, where they were"
    );
}

pub async fn a_newer_fence_takes_the_place_of_an_older(hot: Arc<dyn Hot>) {
    offered(&*hot, vec![level(1, entry(1, 1, 1)), entry(2, 2, 1)]).await;
    let newer = offered(&*hot, vec![level(5, entry(1, 50, 2))]).await;
    assert_eq!(hot.are_ready(&[newer[0].clone(), entry(1, 1, 1)]).await.unwrap(), [true, false]);
    assert_eq!(admit(&*hot, 1).await, [2], "the old level is forgotten");
    assert_eq!(hot.admit(&queue("mail"), strict(9)).await.unwrap(), newer);
    assert_eq!(admit(&*hot, 9).await, [0; 0], "it stood once");
}

pub async fn what_is_ready_is_known_by_its_fence(hot: Arc<dyn Hot>) {
    let parked = Lane::Key("a".to_owned());
    let (in_order, aside, sms) = (entry(1, 1, 2), entry(2, 2, 2), in_queue("sms", entry(3, 3, 2)));
    offered(&*hot, vec![in_order.clone(), aside.clone(), sms.clone()]).await;
    hot.park(&parked, vec![aside.clone()], Retries::default()).await.unwrap();
    let asked = [
        entry(1, 1, 1),
        sms.clone(),
        entry(77, 1, 2),
        aside.clone(),
        entry(1, 1, 3),
        in_order.clone(),
        entry(2, 2, 1),
        entry(2, 2, 3),
        in_queue("sms", in_order.clone()),
        in_queue("fax", sms.clone()),
        entry(3, 3, 2),
    ];
    let ready = async |hot: &dyn Hot| hot.are_ready(&asked).await.unwrap();
    let of = |wanted: &[usize]| (0..asked.len()).map(|nth| wanted.contains(&nth)).collect::<Vec<_>>();
    assert_eq!(ready(&*hot).await, of(&[1, 3, 5]), "in the order of the question");
    assert_eq!(ready(&*hot).await, of(&[1, 3, 5]), "to ask moves nothing");
    assert_eq!(admit(&*hot, 9).await, [1]);
    assert_eq!(ready(&*hot).await, of(&[1, 3]), "what was admitted is not there");
    hot.discard(&[entry(2, 2, 1), sms.clone()]).await.unwrap();
    assert_eq!(ready(&*hot).await, of(&[3]), "an older fence discards nothing");
    hot.discard(&[aside]).await.unwrap();
    assert_eq!(ready(&*hot).await, of(&[]));
}

pub async fn of_two_versions_each_is_ready_for_itself(hot: Arc<dyn Hot>) {
    let versions =
        [of_task(7, 1, entry(1, 1, 1)), of_task(7, 2, entry(2, 2, 1)), of_task(7, 3, entry(3, 3, 1))];
    offered(&*hot, versions[..2].to_vec()).await;
    assert_eq!(hot.are_ready(&versions).await.unwrap(), [true, true, false]);
    hot.discard(&versions[..1]).await.unwrap();
    assert_eq!(hot.are_ready(&versions).await.unwrap(), [false, true, false]);
    assert_eq!(admit(&*hot, 9).await, [2]);
    assert_eq!(hot.are_ready(&versions).await.unwrap(), [false; 3]);
}

pub async fn what_is_offered_twice_is_admitted_once(hot: Arc<dyn Hot>) {
    let fired = offered(&*hot, vec![entry(1, 1, 1), entry(2, 2, 1)]).await;
    assert_eq!(offer(&*hot, fired.clone()).await, 0);
    assert_eq!(offer(&*hot, vec![level(1, fired[1].clone()), fired[0].clone()]).await, 0);
    assert_eq!(admit(&*hot, 9).await, [1, 2]);
}

pub async fn what_was_admitted_is_the_callers_and_can_be_offered_again(hot: Arc<dyn Hot>) {
    let fired = offered(&*hot, vec![entry(1, 1, 2)]).await;
    assert_eq!(admit(&*hot, 9).await, [1]);
    assert_eq!(hot.depth().await.unwrap(), Depth::default(), "it stands nowhere");
    assert_eq!(admit(&*hot, 9).await, [0; 0]);
    offered(&*hot, fired).await;
    assert_eq!(admit(&*hot, 9).await, [1]);
    offered(&*hot, vec![entry(1, 1, 1)]).await;
    assert_eq!(admit(&*hot, 9).await, [1], "nothing of its fence is remembered");
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
    let due = hot.load(vec![entry(4, 1, 1), entry(5, 1, 1)]).await.unwrap();
    assert_eq!(due, 2);
    let mut depth = hot.depth().await.unwrap();
    depth.ready.sort();
    let ready = vec![(Arc::new(queue("mail")), 2), (Arc::new(queue("sms")), 1)];
    assert_eq!(depth, Depth { due, ready, parked: vec![] });
    admit(&*hot, 9).await;
    let ready = vec![(Arc::new(queue("sms")), 1)];
    assert_eq!(hot.depth().await.unwrap(), Depth { due, ready, parked: vec![] });
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

/// As an engine does that takes a partition over, beside the one that had it.
pub async fn of_many_who_offer_the_same_each_entry_stands_once(hot: Arc<dyn Hot>) {
    let entries: Vec<HotEntry> = (0..300).map(|id| entry(id, id, 1)).collect();
    let mut offerers = JoinSet::new();
    for nth in 0..8 {
        let (hot, mut entries) = (Arc::clone(&hot), entries.clone());
        entries.rotate_left(37 * nth);
        offerers.spawn(async move {
            let mut put = 0;
            for some in entries.chunks(10) {
                put += offer(&*hot, some.to_vec()).await;
            }
            put
        });
    }
    let put = offerers.join_all().await.into_iter().sum::<usize>();
    assert_eq!(put, 300, "each was new for one of them");
    assert_eq!(admit(&*hot, 1_000).await, (0..300).collect::<Vec<_>>());
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
        entries.iter().map(|entry| (Level::of(entry.priority, entry.attempt, retries), entry)).collect();
    left.sort_by_key(|(level, entry)| (*level, entry.due_at, entry.place.id));
    let mut waiting = [0; LEVELS];
    left.iter().for_each(|(level, _)| waiting[level.index()] += 1);
    let plan = admission.chooser.plan(&waiting, admission.limit, &mut Draws::new(admission.seed));
    let pop = |level| left.remove(left.iter().position(|entry| entry.0 == level).unwrap()).1.place.id;
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
        let mut left = backlog();
        assert_eq!(hot.offer(left.clone(), retries).await.unwrap(), left.len());
        for (seed, limit) in [(1, 7), (u32::MAX, 100), (77, 1), (4, 500)] {
            let admission = Admission { limit, chooser, seed };
            let admitted = ids(&hot.admit(&queue("mail"), admission).await.unwrap());
            assert_eq!(admitted, chosen(&left, admission, retries), "{choice:?}, {share_percent:?}, {seed}");
            left.retain(|entry| !admitted.contains(&entry.place.id));
        }
        assert_eq!(left, []);
    }
}
