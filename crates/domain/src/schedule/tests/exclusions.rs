//! Exclusions are skipped in one step, however long. Impossible dates are recognized from the fields. An exhausted
//! budget requests another step.

use super::*;

fn excluding(source: Schedule, exclude: &[&str], start: &str) -> Schedule {
    let exclude = exclude.iter().map(|text| (*text).to_owned()).collect();
    Schedule { exclude, start_at: Some(ms(start)), ..source }
}

fn every(every_ms: i64) -> Schedule {
    Schedule { every_ms: Some(every_ms), ..plain() }
}

/// The first instant, and the number of steps taken.
fn first(schedule: &Schedule, after: &str) -> (String, u32) {
    let mut budget = budget();
    let before = budget.left();
    let found = Timing::of(schedule).unwrap().next_after(ms(after), &mut budget).unwrap();
    (shown(&[found.unwrap()]).remove(0), before - budget.left())
}

#[test]
fn a_long_exclusion_is_passed_by_in_a_few_steps() {
    // A Saturday.
    let saturday = "2027-06-05T00:00:00Z";
    let each_second = || cron("* * * * * *", "UTC");
    let even = || cron("*/2 * * * * *", "UTC");
    let cases = [
        (excluding(each_second(), &["* * * * 0,6"], saturday), "2027-06-07T00:00:00Z"),
        (excluding(each_second(), &["2027-06-05/2027-06-06"], saturday), "2027-06-07T00:00:00Z"),
        (excluding(each_second(), &["* * 5 6 *"], saturday), "2027-06-06T00:00:00Z"),
        (excluding(every(250), &["* 0-7 * * *"], saturday), "2027-06-05T08:00:00Z"),
        (
            excluding(cron("* * * * *", "UTC"), &["* * * 10-12,1-3 *"], "2027-10-01T00:00:00Z"),
            "2028-04-01T00:00:00Z",
        ),
        (excluding(every(5_000), &["* * * 8 *"], "2027-08-01T00:00:00Z"), "2027-09-01T00:00:00Z"),
        (excluding(each_second(), &["0-29,31-59 * * * * *"], saturday), "2027-06-05T00:00:30Z"),
        (excluding(each_second(), &["0-20 0-58 * * * *", "* 59 * * * *"], saturday), "2027-06-05T00:00:21Z"),
        (excluding(even(), &["*/2 * * * * 0,6"], saturday), "2027-06-07T00:00:00Z"),
        (excluding(even(), &["*/2 */1 * * 6 *"], saturday), "2027-07-01T00:00:00Z"),
        (
            excluding(even(), &["*/2 * * 8 *", "*/2 * * * 8 *"], "2027-08-01T00:00:00Z"),
            "2027-09-01T00:00:00Z",
        ),
        (
            excluding(cron("*/2 * * * *", "UTC"), &["*/2 * * 1-11 *"], "2027-01-01T00:00:00Z"),
            "2027-12-01T00:00:00Z",
        ),
        (
            excluding(cron("*/15 8-17 * * *", "UTC"), &["0,15,45 8-17 * * *"], saturday),
            "2027-06-05T08:30:00Z",
        ),
        (excluding(every(10_000), &["*/10 * * * 1-11 *"], saturday), "2027-12-01T00:00:00Z"),
        (excluding(every(300_000), &["*/5 * * 1-11 *"], saturday), "2027-12-01T00:00:00Z"),
    ];
    for (schedule, wanted) in cases {
        let (found, steps) = first(&schedule, NOW);
        assert_eq!(found, wanted, "{:?}", schedule.exclude);
        assert!(steps < 500, "{steps} steps for {:?}", schedule.exclude);
    }
}

#[test]
fn an_exclusion_follows_the_clock_of_its_zone() {
    // Berlin: 02:00 to 03:00 does not exist on 29 March 2026, and occurs twice on 25 October.
    let berlin = |exclude: &str, start: &str| {
        let schedule = Schedule { time_zone: "Europe/Berlin".to_owned(), ..every(60_000) };
        first(&excluding(schedule, &[exclude], start), NOW_IN_2026).0
    };
    assert_eq!(berlin("* 1-2 * * *", "2026-03-29T00:00:00Z"), "2026-03-29T01:00:00Z");
    assert_eq!(berlin("* 2 * * *", "2026-10-25T00:00:00Z"), "2026-10-25T02:00:00Z", "both times");
}
const NOW_IN_2026: &str = "2026-01-01T00:00:00Z";

/// Instant by instant, as it was done before.
fn slowly(schedule: &Schedule, source: &Schedule, after: Millis, count: usize) -> Vec<Millis> {
    let exclusions: Vec<Timing> = schedule
        .exclude
        .iter()
        .map(|text| {
            let five = text.split(' ').count() == 5;
            let text = if five { format!("* {text}") } else { text.clone() };
            Timing::of(&cron(&text, &schedule.time_zone)).unwrap()
        })
        .collect();
    let source = Timing::of(source).unwrap();
    let mut found = Vec::new();
    let mut next = source.next_after(after, &mut budget()).unwrap();
    while let Some(at) = next.filter(|_| found.len() < count) {
        let second = Millis(at.0.div_euclid(1_000) * 1_000);
        if !exclusions.iter().any(|exclusion| exclusion.has(second, &mut budget()).unwrap()) {
            found.push(at);
        }
        next = source.next_after(at, &mut budget()).unwrap();
    }
    found
}

#[test]
fn passing_by_finds_what_a_look_at_each_instant_finds() {
    let rules = [
        "* 3 * * *",
        "*/7 * * * *",
        "10-50 * * * * *",
        "* * * * 1",
        "* * 28-31 * *",
        "0-30 */2 * * *",
        "* * L * *",
        "* * * 3 *",
        // Its hours begin with a star. A fixed time that the clock skips runs after the jump; the slow search
        // would take that for an instant of the exclusion, which means wall clock time.
        "15 10-20 */3 * * *",
        "* * * * MON#1",
    ];
    let berlin = "Europe/Berlin".to_owned();
    let listed = ["2026-03-28T02:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:07Z"].map(ms);
    let sources = [
        (every(613_000), 200),
        (Schedule { phase_ms: Some(420_500), ..every(900_000) }, 100),
        (Schedule { at: listed.to_vec(), ..cron("*/15 1-5 * * *", "UTC") }, 60),
        (cron("30 2,3,5 * * *", "UTC"), 20),
    ];
    let from = ms("2026-03-27T20:00:00Z");
    for (nth, first) in rules.iter().enumerate() {
        for second in &rules[nth..] {
            for (source, count) in &sources {
                let source = Schedule { time_zone: berlin.clone(), ..source.clone() };
                let exclude = vec![(*first).to_owned(), (*second).to_owned()];
                let schedule = Schedule { exclude, ..source.clone() };
                let found = Timing::of(&schedule).unwrap().occurrences(from, *count, &mut budget());
                let slowly = slowly(&schedule, &source, from, *count);
                assert_eq!(shown(&found), shown(&slowly), "{first} and {second}: {source:?}");
            }
        }
    }
}

#[test]
fn what_can_never_be_is_known_from_the_fields() {
    for never in ["0 0 31 4,6,9,11 *", "0 0 30 2 *", "* * * 30,31 2 *"] {
        let mut budget = budget();
        let before = budget.left();
        let refused = cron(never, "UTC").check(ms(NOW), &mut budget).unwrap_err();
        assert_eq!(refused.field, "cron");
        assert!(before - budget.left() < 10, "{} steps for {never}", before - budget.left());
    }
    assert_eq!(first(&cron("0 0 29 2 *", "UTC"), NOW).0, "2028-02-29T00:00:00Z");
    assert_eq!(first(&cron("0 0 29 2 +4", "UTC"), NOW).0, "2052-02-29T00:00:00Z", "a Thursday");
}

#[test]
fn a_budget_that_is_used_up_means_look_again() {
    let schedule = excluding(cron("* * * * * *", "UTC"), &["0-58 * * * * *", "59 * * * * *"], NOW);
    let timing = Timing::of(&schedule).unwrap();
    let again = timing.next_after(ms(NOW), &mut Budget::of_steps(1_000)).unwrap_err();
    assert!(again.from > ms(NOW), "it has come so far");
    let further = timing.next_after(again.from, &mut Budget::of_steps(1_000)).unwrap_err();
    assert!(further.from > again.from);
    assert!(schedule.check(ms(NOW), &mut Budget::of_steps(1_000)).is_ok(), "nobody knows that it never runs");
}
