//! A shared limit, divided among names.

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn wanted(weight: u32, held: u64, slots: u64) -> ShareDemand {
    ShareDemand { weight, held, slots, starts_per_ks: Some(0), ..ShareDemand::default() }
}

fn divided(slots: u32, wanted: &[(Name, ShareDemand)]) -> Pool {
    Pool::divide(Some(slots), None, wanted, &HashMap::new())
}

fn slots(pool: &Pool, of: &str) -> Option<u32> {
    pool.share_of(&name(of), || 1).slots
}

#[test]
fn who_is_alone_is_not_held_back_and_who_comes_new_has_its_weight_at_once() {
    assert_eq!(slots(&Pool::default(), "a"), None);
    let alone = divided(20, &[(name("a"), wanted(1, 20, 500))]);
    assert_eq!((slots(&alone, "a"), slots(&alone, "new")), (None, Some(10)));
    let two = divided(20, &[(name("a"), wanted(1, 20, 500)), (name("b"), wanted(3, 0, 500))]);
    assert_eq!((slots(&two, "a"), slots(&two, "b"), slots(&two, "new")), (Some(5), Some(15), Some(4)));
    let small = divided(1, &[(name("a"), wanted(1, 1, 9))]);
    assert_eq!(slots(&small, "new"), Some(1), "never nothing");
}

#[test]
fn what_somebody_lately_had_is_kept_for_it_as_far_as_its_weight_goes() {
    let lately = |slots_lately| ShareDemand { slots_lately, ..wanted(1, 1, 1) };
    let flood = || (name("a"), wanted(1, 10, 500));
    let pool = divided(20, &[flood(), (name("b"), lately(6))]);
    assert_eq!((slots(&pool, "a"), slots(&pool, "b")), (Some(14), Some(10)));
    let pool = divided(20, &[flood(), (name("b"), lately(19))]);
    assert_eq!((slots(&pool, "a"), slots(&pool, "b")), (Some(10), Some(10)), "what it had beyond was lent");
    let idle = ShareDemand { slots_lately: 5, ..wanted(1, 0, 0) };
    let pool = divided(1, &[(name("a"), wanted(1, 1, 500)), (name("b"), idle)]);
    assert_eq!(slots(&pool, "a"), Some(1), "the only slot is kept for nobody who does not want it now");
}

#[test]
fn who_bounds_itself_leaves_the_rest_to_the_others() {
    let bound = ShareDemand { slots_most: Some(3), ..wanted(1, 3, 500) };
    let pool = divided(20, &[(name("a"), wanted(1, 10, 500)), (name("b"), bound)]);
    assert_eq!(slots(&pool, "a"), Some(17));
}

#[test]
fn slots_that_stand_free_for_somebody_count_as_had() {
    let wanted = [(name("a"), wanted(1, 0, 500)), (name("b"), wanted(1, 0, 500))];
    let pool = divided(1, &wanted);
    let had: Vec<u64> = pool.had(&wanted).map(|row| row.1).collect();
    assert_eq!(had, [1, 0], "it could have taken it");
    let full = [
        (name("a"), ShareDemand { held: 0, ..wanted[0].1.clone() }),
        (name("b"), ShareDemand { held: 1, ..wanted[1].1.clone() }),
    ];
    assert_eq!(pool.had(&full).map(|row| row.1).collect::<Vec<_>>(), [0, 1], "the other still has it");
}

#[test]
fn a_rate_is_shared_in_parts_of_a_start_and_nobody_has_none() {
    let rate = Rate { limit: 10, period_ms: 1_000, burst: 8 };
    let flows = |per_s: Option<u64>| ShareDemand {
        weight: 1,
        starts_per_ks: per_s.map(|per_s| per_s * 1_000),
        ..ShareDemand::default()
    };
    let of = |rate, wanted: &[(Name, ShareDemand)]| Pool::divide(None, Some(rate), wanted, &HashMap::new());
    let pool = of(rate, &[(name("a"), flows(None)), (name("b"), flows(Some(2)))]);
    let starts = |text: &str| pool.share_of(&name(text), || 1).starts.unwrap();
    let per_s = |rate: Rate| f64::from(rate.limit) * 1_000.0 / rate.period_ms as f64;
    assert!((per_s(starts("a")) - 8.0).abs() < 0.01, "{:?}", starts("a"));
    assert!((per_s(starts("b")) - 5.0).abs() < 0.01, "its own, at any time: {:?}", starts("b"));
    assert_eq!((starts("a").burst, starts("b").burst), (6, 4));
    assert_eq!(starts("a").period_ms, starts("b").period_ms, "a bucket keeps what is in it");
    let slow = Rate { limit: 1, period_ms: 86_400_000, burst: 1 };
    let many: Vec<_> = (0..5).map(|nth| (name(&format!("n{nth}")), flows(None))).collect();
    let pool = of(slow, &many);
    let one = pool.share_of(&name("n4"), || 1).starts.unwrap();
    assert!(one.limit >= 1 && one.burst == 1, "{one:?}");
    let (fast, own) = (Rate { limit: 9, ..rate }, Rate { limit: 1, period_ms: 1_000, burst: 20 });
    assert_eq!(slower(fast, own), Rate { burst: 8, ..own });
}
