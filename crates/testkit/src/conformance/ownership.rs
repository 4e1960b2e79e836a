//! What everything that says who owns which partition must do. Leases run on the keeper's clock, which no case can
//! move: those that wait for an end take short leases and ask until they have ended.

use crate::patience::{HANG_LIMIT, a_moment, until};
use punctual_contract::{
    Ownership,
    ownership::{Live, Owner, Says, Tenure},
};
use punctual_domain::place::Partition;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

/// Of leases that must not end while a case runs.
const LONG: Duration = Duration::from_secs(3_600);
/// Of leases whose end a case waits for.
const SHORT: Duration = Duration::from_millis(150);

const P: [Partition; 3] = [Partition(0), Partition(1), Partition(63)];

async fn acquire_one(it: &dyn Ownership, engine: &str, ttl: Duration) -> Option<Tenure> {
    it.acquire(engine, &P[..1], ttl).await.unwrap()[0]
}

/// The names of the living.
async fn beat(it: &dyn Ownership, engine: &str, ttl: Duration) -> Vec<String> {
    it.beat(engine, ttl, &Says::default()).await.unwrap().into_iter().map(|it| it.engine).collect()
}

/// Asks until something is answered.
async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answered = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => a_moment().await,
            }
        }
    };
    timeout(HANG_LIMIT, answered).await.expect("something is answered")
}

pub async fn what_is_free_is_acquired_and_answered_in_order(it: Arc<dyn Ownership>) {
    let asked = [P[2], P[0], P[1]];
    let tenures = it.acquire("a", &asked, LONG).await.unwrap();
    assert_eq!(tenures.iter().map(|it| it.unwrap().partition).collect::<Vec<_>>(), asked);
}

pub async fn what_another_owns_is_not_acquired(it: Arc<dyn Ownership>) {
    it.acquire("a", &P[1..2], LONG).await.unwrap();
    let tenures = it.acquire("b", &P, LONG).await.unwrap();
    assert_eq!(tenures.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}

pub async fn who_owns_may_acquire_again_and_keeps_the_term(it: Arc<dyn Ownership>) {
    let tenure = acquire_one(&*it, "a", LONG).await;
    assert!(tenure.is_some());
    assert_eq!(acquire_one(&*it, "a", LONG).await, tenure);
    assert_eq!(it.renew("a", &[tenure.unwrap()], LONG).await.unwrap(), [true]);
}

pub async fn renewing_makes_the_lease_last_and_keeps_the_term(it: Arc<dyn Ownership>) {
    // Where a lease has ended before it could be renewed, a longer one is taken.
    let mut short = SHORT;
    let tenure = eventually(async || {
        let tenure = acquire_one(&*it, "a", short).await?;
        short *= 2;
        let renewed = it.renew("a", &[tenure], LONG).await.unwrap();
        (renewed == [true]).then_some(tenure)
    })
    .await;
    let (began, ownership) = (Instant::now(), &*it);
    until("the first lease would be over", || async {
        assert_eq!(acquire_one(ownership, "b", LONG).await, None, "it was renewed");
        began.elapsed() > short
    })
    .await;
    assert_eq!(it.renew("a", &[tenure], LONG).await.unwrap(), [true]);
}

pub async fn what_is_lost_is_answered_when_it_is_renewed(it: Arc<dyn Ownership>) {
    let mine = acquire_one(&*it, "a", LONG).await.unwrap();
    let anothers = it.acquire("b", &P[1..2], LONG).await.unwrap()[0].unwrap();
    let older = Tenure { term: mine.term - 1, ..mine };
    let unknown = Tenure { partition: P[2], term: 1 };
    let renewed = it.renew("a", &[anothers, older, mine, unknown], LONG).await.unwrap();
    assert_eq!(renewed, [false, false, true, false]);
}

pub async fn a_lease_that_has_ended_goes_to_who_asks_with_a_higher_term(it: Arc<dyn Ownership>) {
    let first = acquire_one(&*it, "a", SHORT).await.unwrap();
    let next = eventually(async || acquire_one(&*it, "b", LONG).await).await;
    assert!(next.term > first.term, "{first:?} {next:?}");
    assert_eq!(it.renew("a", &[first], LONG).await.unwrap(), [false], "the old owner is out");
    assert_eq!(acquire_one(&*it, "a", LONG).await, None);
}

pub async fn what_is_released_is_free_at_once_and_gets_a_higher_term(it: Arc<dyn Ownership>) {
    let first = acquire_one(&*it, "a", LONG).await.unwrap();
    it.release("a", &[first]).await.unwrap();
    assert_eq!(it.renew("a", &[first], LONG).await.unwrap(), [false], "it is given up");
    let next = acquire_one(&*it, "b", LONG).await.unwrap();
    assert!(next.term > first.term, "{first:?} {next:?}");
}

pub async fn releasing_what_is_not_held_frees_nothing(it: Arc<dyn Ownership>) {
    let first = acquire_one(&*it, "a", LONG).await.unwrap();
    it.release("a", &[first]).await.unwrap();
    let next = acquire_one(&*it, "b", LONG).await.unwrap();
    it.release("a", &[first, next, Tenure { partition: P[2], term: 1 }]).await.unwrap();
    assert_eq!(it.renew("b", &[next], LONG).await.unwrap(), [true]);
}

pub async fn terms_ascend_with_each_change_of_owner(it: Arc<dyn Ownership>) {
    let mut last = i64::MIN;
    for nth in 0..20 {
        let engine = ["a", "b", "c"][nth % 3];
        let tenure = acquire_one(&*it, engine, LONG).await.unwrap();
        assert!(tenure.term > last, "{tenure:?} after {last}");
        last = tenure.term;
        it.release(engine, &[tenure]).await.unwrap();
    }
}

pub async fn whoever_holds_a_partition_raises_its_term_and_nobody_else_does(it: Arc<dyn Ownership>) {
    let first = acquire_one(&*it, "a", LONG).await.unwrap();
    let other = it.acquire("b", &P[1..2], LONG).await.unwrap()[0].unwrap();
    let stale = Tenure { term: first.term - 1, ..first };
    let unknown = Tenure { partition: P[2], term: 1 };
    let raised = it.raise("a", &[other, first, stale, unknown], 40).await.unwrap();
    assert_eq!(raised, [None, Some(Tenure { term: 41, ..first }), None, None]);
    assert_eq!(it.renew("a", &[first], LONG).await.unwrap(), [false], "the older term is over");
    let held = raised[1].unwrap();
    assert_eq!(it.renew("a", &[held], LONG).await.unwrap(), [true]);
    assert_eq!(it.renew("b", &[other], LONG).await.unwrap(), [true], "it was not touched");
    assert_eq!(it.raise("a", &[held], 7).await.unwrap(), [Some(held)], "it is above that already");
    it.release("a", &[held]).await.unwrap();
    assert_eq!(it.raise("a", &[held], 50).await.unwrap(), [None], "it is given up");
    let next = acquire_one(&*it, "b", LONG).await.unwrap();
    assert!(next.term > held.term, "{held:?} {next:?}");
}

pub async fn what_an_engine_says_of_the_hot_set_is_said_to_the_others(it: Arc<dyn Ownership>) {
    let says = |has_hot| Says { has_hot, ..Says::default() };
    let live = |engine: &str, has_hot| Live::new(engine, &says(has_hot));
    assert_eq!(it.beat("a", LONG, &says(true)).await.unwrap(), [live("a", true)]);
    assert_eq!(it.beat("b", LONG, &says(false)).await.unwrap(), [live("a", true), live("b", false)]);
    assert_eq!(it.beat("a", LONG, &says(false)).await.unwrap(), [live("a", false), live("b", false)]);
    assert_eq!(it.beat("b", LONG, &says(true)).await.unwrap(), [live("a", false), live("b", true)]);
}

pub async fn what_databases_an_engine_does_not_reach_is_said_to_the_others(it: Arc<dyn Ownership>) {
    let says = |without: &[usize]| Says { without: without.to_vec(), ..Says::default() };
    let live = |engine: &str, without: &[usize]| Live::new(engine, &says(without));
    assert_eq!(it.beat("a", LONG, &says(&[])).await.unwrap(), [live("a", &[])]);
    assert_eq!(it.beat("b", LONG, &says(&[1, 12])).await.unwrap(), [live("a", &[]), live("b", &[1, 12])]);
    assert_eq!(it.beat("a", LONG, &says(&[0])).await.unwrap(), [live("a", &[0]), live("b", &[1, 12])]);
    assert_eq!(it.beat("b", LONG, &says(&[])).await.unwrap(), [live("a", &[0]), live("b", &[])]);
}

pub async fn who_beats_is_alive_and_the_living_come_sorted(it: Arc<dyn Ownership>) {
    assert_eq!(beat(&*it, "b", LONG).await, ["b"]);
    assert_eq!(beat(&*it, "c", LONG).await, ["b", "c"]);
    assert_eq!(beat(&*it, "a", LONG).await, ["a", "b", "c"]);
    assert_eq!(beat(&*it, "b", LONG).await, ["a", "b", "c"], "each once");
}

pub async fn who_is_silent_is_dead_and_who_leaves_is_gone_at_once(it: Arc<dyn Ownership>) {
    beat(&*it, "silent", SHORT).await;
    beat(&*it, "left", LONG).await;
    it.leave("left").await.unwrap();
    it.leave("unknown").await.unwrap();
    assert!(!beat(&*it, "a", LONG).await.contains(&"left".to_owned()));
    eventually(async || (beat(&*it, "a", LONG).await == ["a"]).then_some(())).await;
}

pub async fn the_clock_that_is_told_is_the_one_that_leases_run_on(it: Arc<dyn Ownership>) {
    let before = it.now().await.unwrap().unwrap();
    assert!(acquire_one(&*it, "a", SHORT).await.is_some());
    eventually(async || acquire_one(&*it, "b", LONG).await).await;
    let passed_ms = it.now().await.unwrap().unwrap().since(before);
    assert!(passed_ms >= 150, "{passed_ms}");
}

pub async fn who_leaves_keeps_its_leases_until_they_are_released(it: Arc<dyn Ownership>) {
    beat(&*it, "a", LONG).await;
    let tenure = acquire_one(&*it, "a", LONG).await.unwrap();
    it.leave("a").await.unwrap();
    assert_eq!(acquire_one(&*it, "b", LONG).await, None);
    it.release("a", &[tenure]).await.unwrap();
    assert!(acquire_one(&*it, "b", LONG).await.is_some());
}

pub async fn owners_are_listed_in_order_with_what_is_left(it: Arc<dyn Ownership>) {
    assert_eq!(it.owners().await.unwrap(), []);
    let before = it.now().await.unwrap().unwrap();
    let late = it.acquire("b", &P[2..], LONG).await.unwrap()[0].unwrap();
    let tenures = it.acquire("a", &P[..2], SHORT).await.unwrap();
    eventually(async || {
        let owners = it.owners().await.unwrap();
        owners[..2].iter().all(|it| it.left.is_zero()).then_some(())
    })
    .await;
    let owners = it.owners().await.unwrap();
    let listed: Vec<_> = owners.iter().map(|it| (it.tenure, it.engine.as_str())).collect();
    assert_eq!(listed, [(tenures[0].unwrap(), "a"), (tenures[1].unwrap(), "a"), (late, "b")]);
    let Owner { left, .. } = owners[2];
    let passed_ms = it.now().await.unwrap().unwrap().since(before);
    let passed = Duration::from_millis(u64::try_from(passed_ms).unwrap() + 1);
    assert!(left <= LONG && left + passed >= LONG, "{left:?} after {passed:?}");
}

pub async fn of_many_who_acquire_each_partition_goes_to_one(it: Arc<dyn Ownership>) {
    let all: Vec<Partition> = (0..64).map(Partition).collect();
    let mut askers = JoinSet::new();
    for nth in 0..8 {
        let (it, mut asked) = (Arc::clone(&it), all.clone());
        asked.rotate_left(nth * 8);
        askers.spawn(async move { it.acquire(&format!("e{nth}"), &asked, LONG).await.unwrap() });
    }
    let won: Vec<Tenure> = askers.join_all().await.into_iter().flatten().flatten().collect();
    let partitions: HashSet<Partition> = won.iter().map(|it| it.partition).collect();
    assert_eq!((won.len(), partitions.len()), (64, 64));
}

pub async fn empty_lists_are_nothing(it: Arc<dyn Ownership>) {
    assert_eq!(it.acquire("a", &[], LONG).await.unwrap(), []);
    assert!(it.renew("a", &[], LONG).await.unwrap().is_empty());
    it.release("a", &[]).await.unwrap();
    assert_eq!(it.owners().await.unwrap(), []);
}
