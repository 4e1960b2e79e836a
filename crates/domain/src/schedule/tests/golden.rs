//! 200 expressions in 12 zones on the days of their clock changes, in four years, compared with an
//! independent implementation: `tests/golden/schedules.py` made the file, and shows its result for one case.

use super::*;

const GOLDEN: &str = include_str!("../../../tests/golden/schedules.txt");
const WINDOW_MS: i64 = 13 * HOUR_MS;

/// The same as in the script.
fn hash(instants: &[i64]) -> String {
    let text = instants.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    fnv(&text)
}

fn fnv(text: &str) -> String {
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{fnv:016x}")
}

#[test]
fn expressions_run_on_the_days_of_changing_clocks_as_an_independent_implementation_says() {
    let (mut changes, mut cases, mut wrong) = (Vec::<i64>::new(), 0, Vec::new());
    let mut zone = "";
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("zone\t") {
            let (name, instants) = rest.split_once('\t').unwrap();
            zone = name;
            changes = instants.split(',').map(|part| part.parse().unwrap()).collect();
            continue;
        }
        let [count, expected, expression] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let timing = Timing::of(&cron(expression, zone)).unwrap();
        let mut found = Vec::new();
        for change in &changes {
            let (from, until) = (Millis(change * 1_000 - WINDOW_MS), Millis(change * 1_000 + WINDOW_MS));
            let mut next = timing.next_after(from, &mut budget()).unwrap();
            while let Some(at) = next.filter(|at| *at <= until) {
                found.push(at.0 / 1_000);
                next = timing.next_after(at, &mut budget()).unwrap();
            }
        }
        cases += 1;
        if found.len().to_string() != count || hash(&found) != expected {
            wrong.push(format!("{zone} {expression:?}: {} instants, not {count}", found.len()));
        }
    }
    assert_eq!(cases, 2_400);
    let shown = wrong.len().min(20);
    assert!(
        wrong.is_empty(),
        "{} of {cases} cases, look with --show ZONE EXPRESSION: {:#?}",
        wrong.len(),
        &wrong[..shown]
    );
}
