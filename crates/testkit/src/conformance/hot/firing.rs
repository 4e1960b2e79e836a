//! What fires: one place at a time, definite withdrawal, the newest fence.

use super::{entry, ids, in_partition, strict};
use punctual_contract::{
    Hot,
    hot::{
        Admission, Depth, HotEntry,
        Wholeness::{Lost, Overtaken, Whole},
        Withdrawn,
    },
    ownership::Tenure,
};
use punctual_domain::{place::Partition, settings::Retries, time::Millis};
use std::{collections::HashSet, sync::Arc};
use tokio::{sync::Barrier, task::JoinSet};

const P0: Partition = Partition(0);

/// Loads and takes one entry, with due time and firing at 5.
async fn fired(hot: &dyn Hot, id: i64, fence: i64) -> HotEntry {
    assert_eq!(hot.load(vec![entry(id, 5, fence)]).await.unwrap(), 1);
    let mut taken = hot.take(Tenure::sole(P0), Millis(5), 1).await.unwrap();
    assert_eq!(ids(&taken), [id]);
    taken.remove(0)
}

async fn counts(hot: &dyn Hot) -> (usize, usize) {
    let Depth { due, firing, .. } = hot.depth().await.unwrap();
    (due, firing)
}

pub async fn what_is_taken_is_firing_and_not_due(hot: Arc<dyn Hot>) {
    let it = fired(&*hot, 1, 1).await;
    assert_eq!(counts(&*hot).await, (0, 1));
    assert_eq!(hot.peek(P0, None, Millis::MAX, 9).await.unwrap(), []);
    assert_eq!(hot.take(Tenure::sole(P0), Millis::MAX, 9).await.unwrap(), [], "it fires once");
    assert_eq!(hot.firing(P0, Millis::MAX, 0..9).await.unwrap(), [it]);
}

pub async fn what_is_known_to_be_handed_over_is_taken_and_does_not_fire(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3), entry(2, 5, 3), entry(3, 5, 3), entry(4, 9, 3)]).await.unwrap();
    let settled = [(1, 3), (2, 4), (4, 3), (77, 1)];
    let taken = hot.take_settling(Tenure::sole(P0), Millis(5), 9, &settled).await.unwrap();
    assert_eq!(ids(&taken), [1, 2, 3]);
    assert!(taken.iter().all(|it| it.fired_at == Millis(5)), "says when it was taken");
    assert_eq!(
        ids(&hot.firing(P0, Millis::MAX, 0..9).await.unwrap()),
        [2, 3],
        "another fence is another hand-over"
    );
    assert_eq!(ids(&hot.peek(P0, None, Millis::MAX, 9).await.unwrap()), [4], "not due");
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Absent, "its hand-over is known");
    hot.offer(taken, Retries::default()).await.unwrap();
    assert_eq!(
        ids(&hot.admit(&super::queue("mail"), strict(9)).await.unwrap()),
        [2, 3],
        "nobody gets it again"
    );
    assert_eq!(hot.load(vec![entry(1, 5, 4)]).await.unwrap(), 1, "what comes back comes with a newer fence");
    assert_eq!(ids(&hot.take(Tenure::sole(P0), Millis(5), 9).await.unwrap()), [1]);
}

pub async fn the_same_or_an_older_fence_is_not_loaded_while_it_fires(hot: Arc<dyn Hot>) {
    fired(&*hot, 1, 3).await;
    for fence in [1, 2, 3] {
        assert_eq!(hot.load(vec![entry(1, 9, fence)]).await.unwrap(), 0);
    }
    assert_eq!(counts(&*hot).await, (0, 1));
}

pub async fn a_newer_fence_replaces_what_fires(hot: Arc<dyn Hot>) {
    fired(&*hot, 1, 3).await;
    assert_eq!(hot.load(vec![entry(1, 9, 4)]).await.unwrap(), 1);
    assert_eq!(counts(&*hot).await, (1, 0), "in one place at a time");
    assert_eq!(hot.take(Tenure::sole(P0), Millis(9), 9).await.unwrap()[0].fence, 4);
}

pub async fn what_was_due_and_is_withdrawn_is_gone(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3), entry(2, 5, 3), entry(3, 5, 3)]).await.unwrap();
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Removed);
    assert_eq!(hot.withdraw(P0, 2, 4).await.unwrap(), Withdrawn::Removed, "at most this fence");
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Absent);
    assert_eq!(ids(&hot.take(Tenure::sole(P0), Millis::MAX, 9).await.unwrap()), [3]);
}

pub async fn what_fires_cannot_be_withdrawn(hot: Arc<dyn Hot>) {
    let it = fired(&*hot, 1, 3).await;
    for _ in 0..2 {
        assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Fired);
    }
    hot.offer(hot.firing(P0, Millis::MAX, 0..9).await.unwrap(), Retries::default()).await.unwrap();
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Fired, "ready has fired");
    assert_eq!(hot.admit(&it.queue, strict(9)).await.unwrap(), [it]);
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Fired, "until its hand-over is known");
}

pub async fn a_newer_fence_is_not_withdrawn(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3)]).await.unwrap();
    assert_eq!(hot.withdraw(P0, 1, 2).await.unwrap(), Withdrawn::Absent, "what was meant is not there");
    assert_eq!(counts(&*hot).await, (1, 0));
}

pub async fn what_is_unknown_is_absent(hot: Arc<dyn Hot>) {
    assert_eq!(hot.withdraw(P0, 1, i64::MAX).await.unwrap(), Withdrawn::Absent);
    fired(&*hot, 2, 1).await;
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert_eq!(hot.withdraw(Partition(1), 1, 1).await.unwrap(), Withdrawn::Absent, "another partition");
    hot.settle(&[(P0, 2, 1), (P0, 77, 1)]).await.unwrap();
    assert_eq!(hot.withdraw(P0, 2, 1).await.unwrap(), Withdrawn::Absent, "its hand-over is done");
}

pub async fn what_is_settled_leaves_both_places(hot: Arc<dyn Hot>) {
    fired(&*hot, 1, 3).await;
    fired(&*hot, 2, 3).await;
    hot.load(vec![entry(3, 9, 3), entry(4, 9, 3)]).await.unwrap();
    hot.settle(&[(P0, 1, 3), (P0, 3, 4)]).await.unwrap();
    assert_eq!(counts(&*hot).await, (1, 1));
    hot.settle(&[(P0, 1, 3), (P0, 2, 9), (Partition(1), 4, 9), (P0, 4, 3)]).await.unwrap();
    assert_eq!(counts(&*hot).await, (0, 0));
    assert_eq!(hot.load(vec![entry(1, 9, 3)]).await.unwrap(), 1, "nothing of it is remembered");
}

pub async fn a_newer_fence_is_not_settled(hot: Arc<dyn Hot>) {
    fired(&*hot, 1, 3).await;
    hot.load(vec![entry(2, 9, 3)]).await.unwrap();
    hot.settle(&[(P0, 1, 2), (P0, 2, 2)]).await.unwrap();
    assert_eq!(counts(&*hot).await, (1, 1));
}

pub async fn what_fired_long_ago_is_found_the_oldest_first(hot: Arc<dyn Hot>) {
    for (id, now) in [(1, 30), (2, 10), (3, 20), (4, 40), (5, 10)] {
        hot.load(vec![entry(id, 5, 1)]).await.unwrap();
        assert_eq!(hot.take(Tenure::sole(P0), Millis(now), 9).await.unwrap().len(), 1);
    }
    hot.load(vec![in_partition(1, entry(9, 5, 1))]).await.unwrap();
    assert_eq!(hot.take(Tenure::sole(Partition(1)), Millis(5), 9).await.unwrap().len(), 1);
    let at = async |before, places| {
        let found = hot.firing(P0, Millis(before), places).await.unwrap();
        found.iter().map(|it| (it.fired_at.0, it.place.id)).collect::<Vec<_>>()
    };
    let fired = async |before, limit| at(before, 0..limit).await;
    let by_age = fired(100, 9).await;
    assert!(by_age.is_sorted_by_key(|(at, _)| *at) && by_age.len() == 5, "{by_age:?}");
    assert_eq!(fired(30, 9).await, by_age[..3], "before is exclusive");
    assert_eq!(fired(100, 2).await, by_age[..2]);
    assert_eq!(at(100, 2..4).await, by_age[2..4]);
    assert_eq!((at(100, 3..99).await, at(100, 5..9).await), (by_age[3..].to_vec(), vec![]));
    assert_eq!(fired(10, 9).await, []);
    hot.settle(&[(P0, 2, 1)]).await.unwrap();
    assert_eq!(fired(20, 9).await, [(10, 5)], "what is settled is not found");
}

pub async fn what_was_taken_elsewhere_fires_here(hot: Arc<dyn Hot>) {
    let fired = |id, fence, at| HotEntry { fired_at: Millis(at), ..entry(id, 5, fence) };
    let mail = Arc::clone(&entry(1, 5, 1).queue);
    assert_eq!(hot.load_fired(vec![fired(1, 1, 7), fired(2, 1, 6)]).await.unwrap(), 2);
    assert_eq!(hot.firing(P0, Millis(9), 0..9).await.unwrap(), [fired(2, 1, 6), fired(1, 1, 7)]);
    hot.offer(vec![fired(1, 1, 7)], Retries::default()).await.unwrap();
    // Known with this fence or a newer one, firing or due.
    hot.load(vec![entry(3, 8, 2)]).await.unwrap();
    assert_eq!(hot.load_fired(vec![fired(1, 1, 8), fired(3, 1, 8)]).await.unwrap(), 0);
    assert_eq!(ids(&hot.firing(P0, Millis(9), 0..9).await.unwrap()), [2, 1]);
    // Due with this fence: it fires from now on, and nothing is due.
    assert_eq!(hot.load_fired(vec![fired(3, 2, 8)]).await.unwrap(), 1);
    assert_eq!(hot.peek(P0, None, Millis(99), 9).await.unwrap(), []);
    assert_eq!(ids(&hot.firing(P0, Millis(9), 0..9).await.unwrap()), [2, 1, 3]);
    // A newer one takes the place of an older one, which leaves its ready set.
    assert_eq!(hot.load_fired(vec![fired(1, 2, 8)]).await.unwrap(), 1);
    assert_eq!(hot.admit(&mail, Admission::of(9)).await.unwrap(), []);
    hot.offer(vec![fired(1, 2, 8)], Retries::default()).await.unwrap();
    assert_eq!(ids(&hot.admit(&mail, Admission::of(9)).await.unwrap()), [1]);
    hot.settle(&[(P0, 1, 2), (P0, 2, 1), (P0, 3, 2)]).await.unwrap();
    assert_eq!(hot.depth().await.unwrap(), Depth::default());
}

pub async fn an_older_term_takes_nothing(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 1), entry(2, 5, 1), in_partition(1, entry(3, 5, 1))]).await.unwrap();
    let term = |partition, term| Tenure { partition, term };
    assert_eq!(hot.take(term(P0, 7), Millis(5), 1).await.unwrap().len(), 1);
    assert_eq!(hot.take(term(P0, 6), Millis(5), 9).await.unwrap(), [], "somebody came after it");
    assert_eq!(
        hot.take(term(Partition(1), 6), Millis(5), 9).await.unwrap().len(),
        1,
        "each partition has its own"
    );
    assert_eq!(hot.take(term(P0, 7), Millis(5), 9).await.unwrap().len(), 1, "the same term goes on");
}

/// Many rounds; in each a withdrawal and a take of one entry start at the same instant.
pub async fn a_withdrawal_and_a_take_never_both_get_it(hot: Arc<dyn Hot>) {
    for id in 0..500 {
        hot.load(vec![entry(id, 5, 1)]).await.unwrap();
        let start = Arc::new(Barrier::new(2));
        let mut race = JoinSet::new();
        let (one, ready) = (Arc::clone(&hot), Arc::clone(&start));
        race.spawn(async move {
            ready.wait().await;
            one.take(Tenure::sole(P0), Millis(5), 1).await.unwrap().len()
        });
        start.wait().await;
        let said = hot.withdraw(P0, id, 1).await.unwrap();
        let taken = race.join_all().await[0];
        assert_eq!(
            (taken == 1, taken == 0),
            (said == Withdrawn::Fired, said == Withdrawn::Removed),
            "{id}: {said:?}"
        );
        assert_eq!(counts(&*hot).await.0, 0);
        hot.settle(&[(P0, id, 1)]).await.unwrap();
    }
}

pub async fn of_many_who_take_each_entry_goes_to_one(hot: Arc<dyn Hot>) {
    const ENTRIES: i64 = 2_000;
    hot.load((0..ENTRIES).map(|id| entry(id, id, 1)).collect()).await.unwrap();
    let mut takers = JoinSet::new();
    for _ in 0..8 {
        let hot = Arc::clone(&hot);
        takers.spawn(async move {
            let mut got = Vec::new();
            loop {
                let taken = hot.take(Tenure::sole(P0), Millis(ENTRIES), 7).await.unwrap();
                if taken.is_empty() {
                    return got;
                }
                got.extend(ids(&taken));
            }
        });
    }
    let got = takers.join_all().await.concat();
    assert_eq!(i64::try_from(got.len()).unwrap(), ENTRIES, "none twice");
    assert_eq!(got.into_iter().collect::<HashSet<_>>().len(), 2_000, "none lost");
}

pub async fn a_partition_is_whole_from_the_second_question_of_a_term(hot: Arc<dyn Hot>) {
    let tenure = |partition: u16, term: i64| Tenure { partition: Partition(partition), term };
    let asked = [tenure(0, 7), tenure(1, 7)];
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Lost, Lost]);
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Whole, Whole]);
    assert_eq!(hot.is_whole(&[tenure(1, 8), tenure(2, 7), tenure(0, 7)]).await.unwrap(), [Lost, Lost, Whole]);
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Whole, Overtaken(8)]);
    assert_eq!(hot.is_whole(&[tenure(1, 8)]).await.unwrap(), [Whole], "who is out of date changes nothing");
    assert!(hot.is_whole(&[]).await.unwrap().is_empty());
}

pub async fn whoever_asks_with_an_older_term_than_has_taken_is_told_so(hot: Arc<dyn Hot>) {
    let tenure = |term: i64| Tenure { partition: P0, term };
    hot.take(tenure(9), Millis::ZERO, 1).await.unwrap();
    assert_eq!(hot.is_whole(&[tenure(4)]).await.unwrap(), [Overtaken(9)]);
    assert_eq!(hot.is_whole(&[tenure(4)]).await.unwrap(), [Overtaken(9)], "each time");
    hot.load(vec![entry(1, 1, 1)]).await.unwrap();
    assert!(hot.take(tenure(4), Millis(5), 9).await.unwrap().is_empty(), "and gets nothing");
    assert_eq!(hot.is_whole(&[tenure(10)]).await.unwrap(), [Lost]);
    assert_eq!(hot.is_whole(&[tenure(10)]).await.unwrap(), [Whole]);
    assert_eq!(hot.take(tenure(10), Millis(5), 9).await.unwrap().len(), 1);
}

pub async fn a_partition_is_cleared_for_the_newest_term_only(hot: Arc<dyn Hot>) {
    let tenure = |term: i64| Tenure { partition: P0, term };
    hot.load(vec![entry(1, 5, 9), entry(2, 50, 9)]).await.unwrap();
    let taken = hot.take(tenure(3), Millis(5), 9).await.unwrap();
    hot.offer(taken.clone(), Retries::default()).await.unwrap();
    hot.clear(tenure(2)).await.unwrap();
    assert_eq!(counts(&*hot).await, (1, 1), "who is out of date clears nothing");
    hot.clear(tenure(4)).await.unwrap();
    assert_eq!(counts(&*hot).await, (0, 0));
    assert!(hot.admit(&taken[0].queue, Admission::of(9)).await.unwrap().is_empty());
    assert_eq!(hot.load(vec![entry(2, 6, 1)]).await.unwrap(), 1, "an older fence is good again");
    assert!(hot.take(tenure(3), Millis(6), 9).await.unwrap().is_empty(), "the term is known");
    assert_eq!(ids(&hot.take(tenure(4), Millis(6), 9).await.unwrap()), [2]);
}

pub async fn fullness_is_a_share_and_an_empty_hot_set_is_not_full(hot: Arc<dyn Hot>) {
    assert!(hot.fullness().await.unwrap() < 1_000);
    fired(&*hot, 1, 1).await;
    assert!(hot.fullness().await.unwrap() < 1_000, "one entry does not fill it");
}
