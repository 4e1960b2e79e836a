//! Entries that leave `due`: drained by the owner of their partition, or withdrawn, never both; the terms that may
//! drain, and the state of a lost or cleared partition.

use super::{drain_all, drain_in, drain_until, due_count, entry, ids, in_partition};
use punctual_contract::{
    Hot,
    hot::{
        HotEntry,
        Wholeness::{Lost, NewerTerm, Whole},
        Withdrawn,
    },
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use std::{collections::HashSet, sync::Arc};
use tokio::{sync::Barrier, task::JoinSet};

const P0: Partition = Partition(0);

const fn tenure(partition: u16, term: i64) -> Tenure {
    Tenure { partition: Partition(partition), term }
}

/// Drains one partition, by an engine of this term.
async fn drained_by(hot: &dyn Hot, term: i64, until: i64, limit: usize) -> Vec<i64> {
    let mut answers = hot.drain(&[tenure(0, term)], Millis(until), limit).await;
    ids(&answers.remove(0).unwrap())
}

pub async fn what_is_drained_stands_nowhere(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3), entry(2, 6, 3)]).await.unwrap();
    let drained = drain_until(&*hot, 5, 9).await;
    assert_eq!(drained, [entry(1, 5, 3)]);
    assert_eq!(due_count(&*hot).await, 1);
    assert_eq!(drain_until(&*hot, 5, 9).await, [], "it is given once");
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Absent, "its owner has it");
}

pub async fn what_was_drained_may_be_loaded_again_with_the_same_fence(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3)]).await.unwrap();
    assert_eq!(ids(&drain_all(&*hot).await), [1]);
    for fence in [3, 1] {
        assert_eq!(hot.load(vec![entry(1, 5, fence)]).await.unwrap(), 1, "nothing of it is remembered");
        assert_eq!(drain_all(&*hot).await, [entry(1, 5, fence)]);
    }
}

pub async fn nothing_is_drained_beyond_until(hot: Arc<dyn Hot>) {
    hot.load((0..100).map(|id| entry(id, 1_000 + id, 1)).collect()).await.unwrap();
    assert_eq!(drain_until(&*hot, 999, 1_000).await, []);
    assert_eq!(ids(&drain_until(&*hot, 1_000, 1_000).await), [0], "until is inclusive");
    for until in [1_003, 1_002, 1_050] {
        let drained = drain_until(&*hot, until, 1_000).await;
        assert!(drained.iter().all(|entry| entry.due_at <= Millis(until)), "{until}: {drained:?}");
    }
    assert_eq!(due_count(&*hot).await, 49, "and all up to it");
}

pub async fn the_earliest_are_drained_first_up_to_the_limit(hot: Arc<dyn Hot>) {
    let mut wanted: Vec<HotEntry> = (0..30).map(|id| entry(id, id * 7 % 10, 1)).collect();
    hot.load(wanted.clone()).await.unwrap();
    wanted.sort_by_key(HotEntry::key);
    for limit in [0, 1, 4, 100] {
        let rest = wanted.split_off(limit.min(wanted.len()));
        assert_eq!(drain_until(&*hot, 100, limit).await, wanted, "limit {limit}");
        wanted = rest;
    }
    assert_eq!(due_count(&*hot).await, 0);
}

pub async fn several_partitions_answer_in_the_order_of_their_tenures(hot: Arc<dyn Hot>) {
    let of = |partition: u16, count: i64| {
        (0..count).map(move |id| in_partition(partition, entry(100 * i64::from(partition) + id, id, 1)))
    };
    hot.load(of(1, 3).chain(of(3, 9)).chain(of(5, 2)).chain(of(6, 4)).collect()).await.unwrap();
    let tenures = [tenure(5, 0), tenure(2, 0), tenure(3, 0), tenure(1, 0)];
    let mut found = Vec::new();
    for answer in hot.drain(&tenures, Millis(4), 3).await {
        found.push(ids(&answer.unwrap()));
    }
    let wanted = [vec![500, 501], vec![], vec![300, 301, 302], vec![100, 101, 102]];
    assert_eq!(found, wanted, "the limit is of each");
    assert_eq!(due_count(&*hot).await, 6 + 4, "what was not asked for stays");
    assert_eq!(ids(&drain_in(&*hot, 3, 4, 9).await), [303, 304]);
}

pub async fn a_partition_that_fails_keeps_nothing_from_the_others(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 1), in_partition(2, entry(2, 5, 1))]).await.unwrap();
    let tenures = [tenure(0, 0), tenure(u16::MAX, 0), tenure(2, 0)];
    let answers = hot.drain(&tenures, Millis(5), 9).await;
    assert_eq!(answers.len(), 3);
    assert!(answers[1].is_err(), "no such partition");
    assert_eq!([0, 2].map(|nth: usize| ids(answers[nth].as_ref().unwrap())), [[1], [2]]);
}

pub async fn an_older_term_drains_nothing(hot: Arc<dyn Hot>) {
    let in_1 = |id| in_partition(1, entry(id, 5, 1));
    hot.load(vec![entry(1, 5, 1), entry(2, 5, 1), entry(3, 5, 1), in_1(4), in_1(5)]).await.unwrap();
    assert_eq!(drained_by(&*hot, 7, 5, 1).await, [1]);
    assert_eq!(drained_by(&*hot, 6, 5, 9).await, [0; 0], "a newer term was here");
    let answers = hot.drain(&[tenure(0, i64::MIN), tenure(1, 6)], Millis(5), 1).await;
    let found: Vec<Vec<i64>> = answers.iter().map(|answer| ids(answer.as_ref().unwrap())).collect();
    assert_eq!(found, [vec![], vec![4]], "each partition has its own term");
    assert_eq!(drained_by(&*hot, 7, 5, 1).await, [2], "the same term goes on");
    assert_eq!(drained_by(&*hot, 8, 0, 9).await, [0; 0]);
    assert_eq!(drained_by(&*hot, 7, 5, 9).await, [0; 0], "what found nothing was seen as well");
    assert_eq!(drained_by(&*hot, 8, 5, 9).await, [3]);
}

pub async fn what_was_due_and_is_withdrawn_is_gone(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3), entry(2, 5, 3), entry(3, 5, 3)]).await.unwrap();
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Removed);
    assert_eq!(hot.withdraw(P0, 2, 4).await.unwrap(), Withdrawn::Removed, "at most this fence");
    assert_eq!(hot.withdraw(P0, 1, 3).await.unwrap(), Withdrawn::Absent);
    assert_eq!(ids(&drain_all(&*hot).await), [3]);
    assert_eq!(hot.load(vec![entry(1, 9, 3)]).await.unwrap(), 1, "nothing of it is remembered");
}

pub async fn a_newer_fence_is_not_withdrawn(hot: Arc<dyn Hot>) {
    hot.load(vec![entry(1, 5, 3)]).await.unwrap();
    assert_eq!(hot.withdraw(P0, 1, 2).await.unwrap(), Withdrawn::Absent, "what was meant is not there");
    assert_eq!(ids(&drain_all(&*hot).await), [1]);
}

pub async fn what_is_unknown_is_absent(hot: Arc<dyn Hot>) {
    assert_eq!(hot.withdraw(P0, 1, i64::MAX).await.unwrap(), Withdrawn::Absent);
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert_eq!(hot.withdraw(Partition(1), 1, 1).await.unwrap(), Withdrawn::Absent, "another partition");
    assert_eq!(hot.withdraw(P0, 1, 1).await.unwrap(), Withdrawn::Removed);
}

/// Many rounds; in each a withdrawal and a drain of one entry start at the same instant.
pub async fn a_withdrawal_and_a_drain_never_both_get_it(hot: Arc<dyn Hot>) {
    for id in 0..500 {
        hot.load(vec![entry(id, 5, 1)]).await.unwrap();
        let start = Arc::new(Barrier::new(2));
        let mut race = JoinSet::new();
        let (one, ready) = (Arc::clone(&hot), Arc::clone(&start));
        race.spawn(async move {
            ready.wait().await;
            drain_until(&*one, 5, 1).await.len()
        });
        start.wait().await;
        let said = hot.withdraw(P0, id, 1).await.unwrap();
        let drained = race.join_all().await[0];
        assert_eq!(
            (drained == 1, drained == 0),
            (said == Withdrawn::Absent, said == Withdrawn::Removed),
            "{id}: {said:?}"
        );
        assert_eq!(due_count(&*hot).await, 0);
    }
}

pub async fn of_many_who_drain_each_entry_goes_to_one(hot: Arc<dyn Hot>) {
    const ENTRIES: i64 = 2_000;
    let of = |id: i64| in_partition(u16::try_from(id % 3).unwrap(), entry(id, id, 1));
    hot.load((0..ENTRIES).map(of).collect()).await.unwrap();
    let tenures = [tenure(0, 0), tenure(1, 0), tenure(2, 0)];
    let mut drainers = JoinSet::new();
    for _ in 0..8 {
        let hot = Arc::clone(&hot);
        drainers.spawn(async move {
            let mut got = Vec::new();
            loop {
                let before = got.len();
                for answer in hot.drain(&tenures, Millis(ENTRIES), 7).await {
                    got.extend(ids(&answer.unwrap()));
                }
                if got.len() == before {
                    return got;
                }
            }
        });
    }
    let got = drainers.join_all().await.concat();
    assert_eq!(i64::try_from(got.len()).unwrap(), ENTRIES, "none twice");
    assert_eq!(got.into_iter().collect::<HashSet<_>>().len(), 2_000, "none lost");
}

pub async fn a_partition_is_whole_from_the_second_question_of_a_term(hot: Arc<dyn Hot>) {
    let asked = [tenure(0, 7), tenure(1, 7)];
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Lost, Lost]);
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Whole, Whole]);
    assert_eq!(hot.is_whole(&[tenure(1, 8), tenure(2, 7), tenure(0, 7)]).await.unwrap(), [Lost, Lost, Whole]);
    assert_eq!(hot.is_whole(&asked).await.unwrap(), [Whole, NewerTerm(8)]);
    assert_eq!(
        hot.is_whole(&[tenure(1, 8)]).await.unwrap(),
        [Whole],
        "a question that is out of date changes nothing"
    );
    assert!(hot.is_whole(&[]).await.unwrap().is_empty());
}

pub async fn a_question_with_an_older_term_than_has_drained_is_answered_with_the_newer(hot: Arc<dyn Hot>) {
    assert_eq!(drained_by(&*hot, 9, 0, 1).await, [0; 0]);
    assert_eq!(hot.is_whole(&[tenure(0, 4)]).await.unwrap(), [NewerTerm(9)]);
    assert_eq!(hot.is_whole(&[tenure(0, 4)]).await.unwrap(), [NewerTerm(9)], "each time");
    hot.load(vec![entry(1, 1, 1)]).await.unwrap();
    assert_eq!(drained_by(&*hot, 4, 5, 9).await, [0; 0], "and drains nothing");
    assert_eq!(hot.is_whole(&[tenure(0, 10)]).await.unwrap(), [Lost]);
    assert_eq!(hot.is_whole(&[tenure(0, 10)]).await.unwrap(), [Whole]);
    assert_eq!(drained_by(&*hot, 10, 5, 9).await, [1]);
}

pub async fn what_is_due_is_cleared_for_the_newest_term_only(hot: Arc<dyn Hot>) {
    let loaded = vec![entry(1, 5, 9), entry(2, 50, 9), in_partition(1, entry(3, 5, 9))];
    hot.load(loaded).await.unwrap();
    assert_eq!(drained_by(&*hot, 3, 5, 9).await, [1]);
    hot.clear(tenure(0, 2)).await.unwrap();
    assert_eq!(due_count(&*hot).await, 2, "an engine that is out of date clears nothing");
    hot.clear(tenure(0, 4)).await.unwrap();
    assert_eq!(due_count(&*hot).await, 1, "what another partition has stays");
    assert_eq!(hot.load(vec![entry(2, 6, 1)]).await.unwrap(), 1, "an older fence is good again");
    assert_eq!(drained_by(&*hot, 3, 6, 9).await, [0; 0], "the term is known");
    assert_eq!(hot.is_whole(&[tenure(0, 3)]).await.unwrap(), [NewerTerm(4)]);
    assert_eq!(drained_by(&*hot, 4, 6, 9).await, [2]);
}

pub async fn fullness_is_a_share_and_an_empty_hot_set_is_not_full(hot: Arc<dyn Hot>) {
    assert!(hot.fullness().await.unwrap() < 1_000);
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert!(hot.fullness().await.unwrap() < 1_000, "one entry does not fill it");
}
