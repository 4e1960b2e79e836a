//! The requirements on every ownership back end. Leases use the keeper's clock, which no case can move: cases
//! that wait for an end take short leases and poll until they have ended.

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

/// The duration of leases that must not end while a case runs.
const LONG: Duration = Duration::from_secs(3_600);
/// The duration of leases whose end a case waits for.
const SHORT: Duration = Duration::from_millis(150);

const P: [Partition; 3] = [Partition(0), Partition(1), Partition(63)];

async fn acquire_one(ownership: &dyn Ownership, engine: &str, ttl: Duration) -> Option<Tenure> {
    ownership.acquire(engine, &P[..1], ttl).await.unwrap()[0]
}

/// The names of the living.
async fn beat(ownership: &dyn Ownership, engine: &str, ttl: Duration) -> Vec<String> {
    ownership.beat(engine, ttl, &Says::default()).await.unwrap().into_iter().map(|live| live.engine).collect()
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

pub async fn what_is_free_is_acquired_and_answered_in_order(ownership: Arc<dyn Ownership>) {
    let asked = [P[2], P[0], P[1]];
    let tenures = ownership.acquire("a", &asked, LONG).await.unwrap();
    assert_eq!(tenures.iter().map(|tenure| tenure.unwrap().partition).collect::<Vec<_>>(), asked);
}

pub async fn what_another_owns_is_not_acquired(ownership: Arc<dyn Ownership>) {
    ownership.acquire("a", &P[1..2], LONG).await.unwrap();
    let tenures = ownership.acquire("b", &P, LONG).await.unwrap();
    assert_eq!(tenures.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}

pub async fn who_owns_may_acquire_again_and_keeps_the_term(ownership: Arc<dyn Ownership>) {
    let tenure = acquire_one(&*ownership, "a", LONG).await;
    assert!(tenure.is_some());
    assert_eq!(acquire_one(&*ownership, "a", LONG).await, tenure);
    assert_eq!(ownership.renew("a", &[tenure.unwrap()], LONG).await.unwrap(), [true]);
}

pub async fn renewing_makes_the_lease_last_and_keeps_the_term(this_ownership: Arc<dyn Ownership>) {
    // If a lease has ended before it could be renewed, a longer one is taken.
    let mut short = SHORT;
    let tenure = eventually(async || {
        let tenure = acquire_one(&*this_ownership, "a", short).await?;
        short *= 2;
        let renewed = this_ownership.renew("a", &[tenure], LONG).await.unwrap();
        (renewed == [true]).then_some(tenure)
    })
    .await;
    let (began, ownership) = (Instant::now(), &*this_ownership);
    until("the first lease would be over", || async {
        assert_eq!(acquire_one(ownership, "b", LONG).await, None, "it was renewed");
        began.elapsed() > short
    })
    .await;
    assert_eq!(this_ownership.renew("a", &[tenure], LONG).await.unwrap(), [true]);
}

pub async fn what_is_lost_is_answered_when_it_is_renewed(ownership: Arc<dyn Ownership>) {
    let mine = acquire_one(&*ownership, "a", LONG).await.unwrap();
    let anothers = ownership.acquire("b", &P[1..2], LONG).await.unwrap()[0].unwrap();
    let older = Tenure { term: mine.term - 1, ..mine };
    let unknown = Tenure { partition: P[2], term: 1 };
    let renewed = ownership.renew("a", &[anothers, older, mine, unknown], LONG).await.unwrap();
    assert_eq!(renewed, [false, false, true, false]);
}

pub async fn a_lease_that_has_ended_goes_to_who_asks_with_a_higher_term(ownership: Arc<dyn Ownership>) {
    let first = acquire_one(&*ownership, "a", SHORT).await.unwrap();
    let next = eventually(async || acquire_one(&*ownership, "b", LONG).await).await;
    assert!(next.term > first.term, "{first:?} {next:?}");
    assert_eq!(ownership.renew("a", &[first], LONG).await.unwrap(), [false], "the old owner is out");
    assert_eq!(acquire_one(&*ownership, "a", LONG).await, None);
}

pub async fn what_is_released_is_free_at_once_and_gets_a_higher_term(ownership: Arc<dyn Ownership>) {
    let first = acquire_one(&*ownership, "a", LONG).await.unwrap();
    ownership.release("a", &[first]).await.unwrap();
    assert_eq!(ownership.renew("a", &[first], LONG).await.unwrap(), [false], "it is given up");
    let next = acquire_one(&*ownership, "b", LONG).await.unwrap();
    assert!(next.term > first.term, "{first:?} {next:?}");
}

pub async fn releasing_what_is_not_held_frees_nothing(ownership: Arc<dyn Ownership>) {
    let first = acquire_one(&*ownership, "a", LONG).await.unwrap();
    ownership.release("a", &[first]).await.unwrap();
    let next = acquire_one(&*ownership, "b", LONG).await.unwrap();
    ownership.release("a", &[first, next, Tenure { partition: P[2], term: 1 }]).await.unwrap();
    assert_eq!(ownership.renew("b", &[next], LONG).await.unwrap(), [true]);
}

pub async fn terms_ascend_with_each_change_of_owner(ownership: Arc<dyn Ownership>) {
    let mut last = i64::MIN;
    for nth in 0..20 {
        let engine = ["a", "b", "c"][nth % 3];
        let tenure = acquire_one(&*ownership, engine, LONG).await.unwrap();
        assert!(tenure.term > last, "{tenure:?} after {last}");
        last = tenure.term;
        ownership.release(engine, &[tenure]).await.unwrap();
    }
}

pub async fn whoever_holds_a_partition_raises_its_term_and_nobody_else_does(ownership: Arc<dyn Ownership>) {
    let first = acquire_one(&*ownership, "a", LONG).await.unwrap();
    let other = ownership.acquire("b", &P[1..2], LONG).await.unwrap()[0].unwrap();
    let stale = Tenure { term: first.term - 1, ..first };
    let unknown = Tenure { partition: P[2], term: 1 };
    let raised = ownership.raise("a", &[other, first, stale, unknown], 40).await.unwrap();
    assert_eq!(raised, [None, Some(Tenure { term: 41, ..first }), None, None]);
    assert_eq!(ownership.renew("a", &[first], LONG).await.unwrap(), [false], "the older term is over");
    let held = raised[1].unwrap();
    assert_eq!(ownership.renew("a", &[held], LONG).await.unwrap(), [true]);
    assert_eq!(ownership.renew("b", &[other], LONG).await.unwrap(), [true], "it was not touched");
    assert_eq!(ownership.raise("a", &[held], 7).await.unwrap(), [Some(held)], "it is above that already");
    ownership.release("a", &[held]).await.unwrap();
    assert_eq!(ownership.raise("a", &[held], 50).await.unwrap(), [None], "it is given up");
    let next = acquire_one(&*ownership, "b", LONG).await.unwrap();
    assert!(next.term > held.term, "{held:?} {next:?}");
}

pub async fn what_an_engine_says_of_the_hot_set_is_said_to_the_others(ownership: Arc<dyn Ownership>) {
    let says = |has_hot| Says { has_hot, ..Says::default() };
    let live = |engine: &str, has_hot| Live::new(engine, &says(has_hot));
    assert_eq!(ownership.beat("a", LONG, &says(true)).await.unwrap(), [live("a", true)]);
    assert_eq!(ownership.beat("b", LONG, &says(false)).await.unwrap(), [live("a", true), live("b", false)]);
    assert_eq!(ownership.beat("a", LONG, &says(false)).await.unwrap(), [live("a", false), live("b", false)]);
    assert_eq!(ownership.beat("b", LONG, &says(true)).await.unwrap(), [live("a", false), live("b", true)]);
}

pub async fn what_databases_an_engine_does_not_reach_is_said_to_the_others(ownership: Arc<dyn Ownership>) {
    let says = |without: &[usize]| Says { without: without.to_vec(), ..Says::default() };
    let live = |engine: &str, without: &[usize]| Live::new(engine, &says(without));
    assert_eq!(ownership.beat("a", LONG, &says(&[])).await.unwrap(), [live("a", &[])]);
    assert_eq!(
        ownership.beat("b", LONG, &says(&[1, 12])).await.unwrap(),
        [live("a", &[]), live("b", &[1, 12])]
    );
    assert_eq!(ownership.beat("a", LONG, &says(&[0])).await.unwrap(), [live("a", &[0]), live("b", &[1, 12])]);
    assert_eq!(ownership.beat("b", LONG, &says(&[])).await.unwrap(), [live("a", &[0]), live("b", &[])]);
}

pub async fn who_beats_is_alive_and_the_living_come_sorted(ownership: Arc<dyn Ownership>) {
    assert_eq!(beat(&*ownership, "b", LONG).await, ["b"]);
    assert_eq!(beat(&*ownership, "c", LONG).await, ["b", "c"]);
    assert_eq!(beat(&*ownership, "a", LONG).await, ["a", "b", "c"]);
    assert_eq!(beat(&*ownership, "b", LONG).await, ["a", "b", "c"], "each once");
}

pub async fn who_is_silent_is_dead_and_who_leaves_is_gone_at_once(ownership: Arc<dyn Ownership>) {
    beat(&*ownership, "silent", SHORT).await;
    beat(&*ownership, "left", LONG).await;
    ownership.leave("left").await.unwrap();
    ownership.leave("unknown").await.unwrap();
    assert!(!beat(&*ownership, "a", LONG).await.contains(&"left".to_owned()));
    eventually(async || (beat(&*ownership, "a", LONG).await == ["a"]).then_some(())).await;
}

pub async fn the_clock_that_is_told_is_the_one_that_leases_run_on(ownership: Arc<dyn Ownership>) {
    let before = ownership.now().await.unwrap().unwrap();
    assert!(acquire_one(&*ownership, "a", SHORT).await.is_some());
    eventually(async || acquire_one(&*ownership, "b", LONG).await).await;
    let passed_ms = ownership.now().await.unwrap().unwrap().since(before);
    assert!(passed_ms >= 150, "{passed_ms}");
}

pub async fn who_leaves_keeps_its_leases_until_they_are_released(ownership: Arc<dyn Ownership>) {
    beat(&*ownership, "a", LONG).await;
    let tenure = acquire_one(&*ownership, "a", LONG).await.unwrap();
    ownership.leave("a").await.unwrap();
    assert_eq!(acquire_one(&*ownership, "b", LONG).await, None);
    ownership.release("a", &[tenure]).await.unwrap();
    assert!(acquire_one(&*ownership, "b", LONG).await.is_some());
}

pub async fn owners_are_listed_in_order_with_what_is_left(ownership: Arc<dyn Ownership>) {
    assert_eq!(ownership.owners().await.unwrap(), []);
    let before = ownership.now().await.unwrap().unwrap();
    let late = ownership.acquire("b", &P[2..], LONG).await.unwrap()[0].unwrap();
    let tenures = ownership.acquire("a", &P[..2], SHORT).await.unwrap();
    eventually(async || {
        let owners = ownership.owners().await.unwrap();
        owners[..2].iter().all(|owner| owner.left.is_zero()).then_some(())
    })
    .await;
    let owners = ownership.owners().await.unwrap();
    let listed: Vec<_> = owners.iter().map(|owner| (owner.tenure, owner.engine.as_str())).collect();
    assert_eq!(listed, [(tenures[0].unwrap(), "a"), (tenures[1].unwrap(), "a"), (late, "b")]);
    let Owner { left, .. } = owners[2];
    let passed_ms = ownership.now().await.unwrap().unwrap().since(before);
    let passed = Duration::from_millis(u64::try_from(passed_ms).unwrap() + 1);
    assert!(left <= LONG && left + passed >= LONG, "{left:?} after {passed:?}");
}

pub async fn of_many_who_acquire_each_partition_goes_to_one(ownership: Arc<dyn Ownership>) {
    let all: Vec<Partition> = (0..64).map(Partition).collect();
    let mut askers = JoinSet::new();
    for nth in 0..8 {
        let (each_ownership, mut asked) = (Arc::clone(&ownership), all.clone());
        asked.rotate_left(nth * 8);
        askers.spawn(async move { each_ownership.acquire(&format!("e{nth}"), &asked, LONG).await.unwrap() });
    }
    let won: Vec<Tenure> = askers.join_all().await.into_iter().flatten().flatten().collect();
    let partitions: HashSet<Partition> = won.iter().map(|tenure| tenure.partition).collect();
    assert_eq!((won.len(), partitions.len()), (64, 64));
}

pub async fn empty_lists_are_nothing(ownership: Arc<dyn Ownership>) {
    assert_eq!(ownership.acquire("a", &[], LONG).await.unwrap(), []);
    assert!(ownership.renew("a", &[], LONG).await.unwrap().is_empty());
    ownership.release("a", &[]).await.unwrap();
    assert_eq!(ownership.owners().await.unwrap(), []);
}
