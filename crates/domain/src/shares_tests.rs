//! Compares shares with their promises, for random limits and claims, and over many divisions in sequence.

use super::*;
use proptest::prelude::*;

fn claim(weight: u32, wants: u64) -> Claim {
    Claim { weight, wants, served: 0 }
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let wants = prop_oneof![0..4_u64, 0..50_u64, Just(u64::from(u32::MAX))];
    let one = (1..9_u32, wants, 0..5_u64);
    prop::collection::vec(one.prop_map(|(weight, wants, served)| Claim { weight, wants, served }), 0..9)
}

#[test]
fn what_one_does_not_want_goes_to_the_others_by_their_weights() {
    let divided = |limit, claims: &[(u32, u64)]| {
        divide(limit, &claims.iter().map(|pair| claim(pair.0, pair.1)).collect::<Vec<_>>())
    };
    assert_eq!(divided(20, &[(1, 1_000), (1, 1_000)]), [10, 10]);
    assert_eq!(divided(20, &[(1, 1_000), (1, 3)]), [17, 3]);
    assert_eq!(divided(20, &[(3, 1_000), (1, 1_000), (1, 0)]), [15, 5, 0]);
    assert_eq!(divided(20, &[(3, 1_000), (1, 2), (1, 1_000)]), [14, 2, 4]);
    assert_eq!(divided(20, &[(1, 4), (1, 5)]), [4, 5], "there is enough");
    assert_eq!(divided(0, &[(1, 4)]), [0]);
    assert!(divided(7, &[]).is_empty());
    let ms = |limit, claims: &[(u32, u64)]| {
        most(limit, &claims.iter().map(|pair| claim(pair.0, pair.1)).collect::<Vec<_>>())
    };
    assert_eq!(ms(20, &[(1, 1_000), (1, 3)]), [17, 10], "whoever wants less may have its own at any time");
    assert_eq!(ms(20, &[(1, 2), (1, 3)]), [17, 18], "what nobody wants anybody may have");
    assert_eq!((newcomer(20, 1, 1), newcomer(1, 1, 9), newcomer(20, 1, 0)), (10, 1, 20));
}

proptest! {
    #[test]
    fn shares_are_never_more_than_there_is_and_never_less_while_somebody_wants_it(
        limit in 0..60_u64, claims in claims(),
    ) {
        let shares = divide(limit, &claims);
        let wanted: u64 = claims.iter().map(|claim| claim.wants).sum();
        prop_assert_eq!(shares.iter().sum::<u64>(), limit.min(wanted));
        prop_assert!(claims.iter().zip(&shares).all(|(claim, share)| *share <= claim.wants));
    }

    /// A claim that gets less than it wants has as much per weight as any other, within one slot.
    #[test]
    fn who_is_short_has_as_much_for_its_weight_as_any_other(limit in 0..60_u64, claims in claims()) {
        let shares = divide(limit, &claims);
        let all: Vec<(&Claim, u64)> = claims.iter().zip(shares).collect();
        for (short, mine) in all.iter().filter(|pair| pair.1 < pair.0.wants) {
            for (other, its) in &all {
                // (its - 1) / its weight < (mine + 1) / my weight
                let too_much = its.saturating_sub(1) * u64::from(short.weight);
                prop_assert!(
                    *its == 0 || too_much < (mine + 1) * u64::from(other.weight),
                    "{:?} has {}, {:?} has {}", short, mine, other, its
                );
            }
        }
    }

    #[test]
    fn what_each_may_take_leaves_the_others_their_shares_and_its_own_weight_is_always_good(
        limit in 0..60_u64, claims in claims(),
    ) {
        let (shares, most, weights) = (divide(limit, &claims), most(limit, &claims), weights(&claims));
        let unwanted = limit - shares.iter().sum::<u64>();
        for ((claim, share), most) in claims.iter().zip(&shares).zip(&most) {
            prop_assert!(*most <= limit);
            let own = entitled(limit, claim.weight, weights);
            prop_assert!(*most >= own && *most >= *share);
            prop_assert!(*most == own || *most == share + unwanted);
        }
    }

    /// All want everything, and each takes its turn: in the long run each gets its weight's part, and none
    /// waits for longer than its weight explains. Also with one slot and five claims.
    #[test]
    fn slots_that_cannot_be_divided_go_round_by_weight(
        limit in 1..7_u64, weights in prop::collection::vec(1..5_u32, 1..8), length_ms in 1..5_000_u64,
    ) {
        let names: Vec<usize> = (0..weights.len()).collect();
        let all: u32 = weights.iter().sum();
        let (mut turns, looks) = (Turns::default(), 200 * u64::from(all));
        let (mut had, mut waits) = (vec![0_u64; weights.len()], vec![0_u64; weights.len()]);
        for _ in 0..looks {
            let served = turns.served(names.iter());
            let claims: Vec<Claim> = weights
                .iter()
                .zip(served)
                .map(|(weight, served)| Claim { weight: *weight, wants: limit, served })
                .collect();
            for (nth, share) in divide(limit, &claims).into_iter().enumerate() {
                turns.had(&nth, share, length_ms, weights[nth]);
                had[nth] += share;
                waits[nth] = if share > 0 { 0 } else { waits[nth] + 1 };
                prop_assert!(waits[nth] <= u64::from(all.div_ceil(weights[nth])) + names.len() as u64);
            }
        }
        for (nth, had) in had.into_iter().enumerate() {
            // No claim wants more than the limit, so a large weight among few cannot get more than that.
            let exact = (limit * looks * u64::from(weights[nth])) as f64 / f64::from(all);
            prop_assert!((had as f64 - exact).abs() <= 2.0 + exact * 0.01, "{had} for {exact}");
        }
    }
}

#[test]
fn whoever_holds_the_only_slot_for_long_has_the_next_turns_last() {
    let mut turns = Turns::default();
    let names = ["a", "b"];
    turns.served(names.iter());
    // It is b's turn at every look while a continues.
    for _ in 0..40 {
        turns.had(&"a", 1, 250, 1);
        assert_eq!(turns.served(names.iter())[1], 0);
    }
    turns.had(&"b", 1, 250, 1);
    let served = turns.served(names.iter());
    assert!(served[0] > 0 && served[1] == 0, "a had forty times as much: {served:?}");
    turns.served(names[1..].iter());
    assert_eq!(turns.served(names.iter()), [0, 0], "who comes back after a rest has no debt and no credit");
    turns.served(names[..1].iter());
    turns.had(&"a", 1, 250, 1);
    assert_eq!(turns.served(names.iter()), [0, 0], "nor for what another had meanwhile");
}
