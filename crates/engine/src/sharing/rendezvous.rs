//! Computes which engine should own which partition: rendezvous hashing over the live engines. Every engine computes
//! the same answer from the same names, without asking another. An engine that joins or leaves moves only its own
//! partitions. Pure. Decides nothing: the ownership back end decides who owns a partition.

use punctual_contract::ownership::Live;
use punctual_domain::place::Partition;

/// The engine with the highest score, or `None` if no engine is alive.
pub(crate) fn preferred(live: &[String], partition: Partition) -> Option<&str> {
    live.iter().map(String::as_str).max_by_key(|engine| (score(engine, partition), *engine))
}

/// Engines that can own partitions of a database: those that reach it, and of these, those that have the hot
/// set. If no engine qualifies, the criterion is ignored: all keep their partitions.
pub(crate) fn candidates(live: &[Live], part: usize) -> Vec<String> {
    let lacks = |live: &&Live| live.without.as_ref().is_some_and(|without| without.contains(&part));
    // An engine that does not report reachability ignores such reports of others too.
    let reaches = |live: &&Live| live.without.is_some() && !lacks(live);
    let mut able: Vec<&Live> = live.iter().collect();
    if live.iter().any(|live| lacks(&live)) && live.iter().any(|live| reaches(&live)) {
        able.retain(reaches);
    }
    if able.iter().any(|live| live.has_hot) {
        able.retain(|live| live.has_hot);
    }
    able.into_iter().map(|live| live.engine.clone()).collect()
}

/// FNV-1a over both, finished with the mixer of splitmix64. Engines of different releases must agree on it, or they
/// take partitions from each other for as long as both run.
fn score(engine: &str, partition: Partition) -> u64 {
    let bytes = engine.bytes().chain([0]).chain(partition.0.to_le_bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let a = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::ownership::Says;

    const PARTITIONS: u16 = 1_024;

    fn engines(count: usize) -> Vec<String> {
        (0..count).map(|nth| format!("host-{nth}-4711")).collect()
    }

    fn placed(live: &[String]) -> Vec<&str> {
        (0..PARTITIONS).map(|nth| preferred(live, Partition(nth)).unwrap()).collect()
    }

    #[test]
    fn whom_the_hot_set_does_not_answer_owns_nothing_unless_it_answers_nobody() {
        let live = |said: [bool; 3]| -> Vec<Live> {
            let live = |(engine, has_hot)| Live { engine, has_hot, without: None };
            engines(3).into_iter().zip(said).map(live).collect()
        };
        let all = engines(3);
        assert_eq!(candidates(&live([true, false, true]), 0), [all[0].clone(), all[2].clone()]);
        assert_eq!(candidates(&live([true; 3]), 0), all);
        assert_eq!(candidates(&live([false; 3]), 0), all);
    }

    #[test]
    fn who_does_not_reach_a_database_owns_nothing_there_unless_nobody_reaches_it() {
        let says = |has_hot, without: &[usize]| Says { has_hot, without: without.to_vec() };
        let live = |said: [Says; 3]| -> Vec<Live> {
            engines(3).into_iter().zip(said).map(|(engine, says)| Live::new(engine, &says)).collect()
        };
        let (all, well) = (engines(3), says(true, &[]));
        let one = live([well.clone(), says(true, &[1]), well]);
        assert_eq!(candidates(&one, 0), all);
        assert_eq!(candidates(&one, 1), [all[0].clone(), all[2].clone()]);
        let nobody = live([says(true, &[1]), says(true, &[0, 1]), says(true, &[1])]);
        assert_eq!(candidates(&nobody, 1), all, "everybody keeps what they have");
        let without_hot = live([says(true, &[1]), says(false, &[]), says(true, &[1])]);
        assert_eq!(candidates(&without_hot, 1), [all[1].clone()], "it fires from the store");
        assert_eq!(candidates(&without_hot, 0), [all[0].clone(), all[2].clone()]);
        let mut older = one;
        older[0].without = None;
        assert_eq!(candidates(&older, 1), [all[2].clone()], "one of a release before does not follow");
        older[2].without = None;
        assert_eq!(candidates(&older, 1), all);
    }

    #[test]
    fn partitions_are_shared_evenly() {
        for count in 1..=8 {
            let live = engines(count);
            let placed = placed(&live);
            let fair = usize::from(PARTITIONS) / count;
            for engine in &live {
                let got = placed.iter().filter(|text| *text == engine).count();
                assert!(
                    got * 4 > fair * 3 && got * 4 < fair * 5 + 4,
                    "{engine} of {count} has {got}, fair is {fair}"
                );
            }
        }
    }

    #[test]
    fn who_leaves_moves_only_what_it_had_and_who_comes_only_what_it_gets() {
        let all = engines(5);
        let before = placed(&all);
        for gone in &all {
            let rest: Vec<String> = all.iter().filter(|text| *text != gone).cloned().collect();
            for (before, after) in before.iter().zip(placed(&rest)) {
                assert!(*before == after || before == gone, "{before} had to give to {after}");
            }
        }
    }

    #[test]
    fn the_order_of_the_names_does_not_matter_and_nobody_owns_among_none() {
        let (live, mut turned) = (engines(3), engines(3));
        turned.reverse();
        assert_eq!(placed(&live), placed(&turned));
        assert_eq!(preferred(&[], Partition(0)), None);
    }

    #[test]
    fn placement_is_pinned_because_engines_of_two_releases_must_agree() {
        let live = engines(3);
        let placed: String =
            (0..16).map(|nth| preferred(&live, Partition(nth)).unwrap().chars().nth(5).unwrap()).collect();
        assert_eq!(placed, PINNED);
    }
    const PINNED: &str = "2001220112221210";
}
