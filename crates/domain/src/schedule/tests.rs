//! Schedules alone: which are refused, which instants they have, and how each policy handles them.

use super::*;
use crate::{identity::IdentitySecret, name::Name};

mod exclusions;
mod golden;
mod policies;

const HOUR_MS: i64 = 3_600_000;

fn ms(text: &str) -> Millis {
    Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn shown(all: &[Millis]) -> Vec<String> {
    all.iter().map(|at| jiff::Timestamp::from_millisecond(at.0).unwrap().to_string()).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn plain() -> Schedule {
    Schedule::new(TaskTemplate::new(name("mail"), name("digest")))
}

fn cron(expression: &str, zone: &str) -> Schedule {
    Schedule { cron: vec![expression.to_owned()], time_zone: zone.to_owned(), ..plain() }
}

fn next(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    shown(&Timing::of(schedule).unwrap().occurrences(ms(after), count, &mut budget()))
}

fn budget() -> Budget {
    Budget::of_steps(1_000_000)
}

const NOW: &str = "2026-11-23T10:00:00Z";

#[test]
fn the_rule_of_changing_clocks_is_the_one_in_the_table_of_the_docs() {
    // Berlin changes from 02:00 to 03:00 on 29 March 2026 at 01:00Z, and from 03:00 to 02:00 on 25 October at
    // 01:00Z.
    let berlin = |expression: &str| cron(expression, "Europe/Berlin");
    let spring = "2026-03-29T00:00:00Z";
    assert_eq!(next(&berlin("30 2 * * *"), spring, 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(next(&berlin("15,45 2 * * *"), spring, 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"]);
    assert_eq!(next(&berlin("*/30 2 * * *"), spring, 1), ["2026-03-30T00:00:00Z"]);
    assert_eq!(
        next(&berlin("*/30 * * * *"), spring, 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
    );
    let autumn = "2026-10-24T23:59:59Z";
    assert_eq!(next(&berlin("30 2 * * *"), autumn, 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    assert_eq!(
        next(&berlin("*/30 2 * * *"), autumn, 5),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-26T01:00:00Z"
        ]
    );
    // Seconds make no difference.
    assert_eq!(next(&berlin("5 30 2 * * *"), spring, 1), ["2026-03-29T01:00:00Z"]);
    // Half an hour, on Lord Howe Island: 02:00 to 02:30 on 4 October 2026 at 15:30Z the day before.
    let howe = |expression: &str| cron(expression, "Australia/Lord_Howe");
    assert_eq!(next(&howe("15 2 * * *"), "2026-10-03T12:00:00Z", 1), ["2026-10-03T15:30:00Z"]);
    // At midnight, in Havana: 8 March 2026 begins at 01:00.
    assert_eq!(next(&cron("@daily", "America/Havana"), "2026-03-07T12:00:00Z", 1), ["2026-03-08T05:00:00Z"]);
}

#[test]
fn expressions_have_nicknames_last_days_workdays_and_nth_weekdays() {
    let utc = |expression: &str| next(&cron(expression, "UTC"), NOW, 1).remove(0);
    assert_eq!(utc("@daily"), "2026-11-24T00:00:00Z");
    assert_eq!(utc("@Midnight"), "2026-11-24T00:00:00Z");
    assert_eq!(utc("0 9 L * *"), "2026-11-30T09:00:00Z");
    assert_eq!(utc("0 9 15W * *"), "2026-12-15T09:00:00Z");
    assert_eq!(utc("0 9 * * FRI#2"), "2026-12-11T09:00:00Z");
    assert_eq!(utc("*/10 * * * * *"), "2026-11-23T10:00:10Z");
    assert_eq!(utc("0 9 * * MON-FRI"), "2026-11-24T09:00:00Z");
    assert_eq!(utc("0 9 * * 1-5"), "2026-11-24T09:00:00Z", "1 is Monday");
}

#[test]
fn an_interval_counts_from_its_phase_its_start_or_the_epoch() {
    let every = |phase_ms, start: Option<&str>| Schedule {
        every_ms: Some(HOUR_MS),
        phase_ms,
        start_at: start.map(ms),
        ..plain()
    };
    assert_eq!(next(&every(None, None), "2026-11-23T10:00:00Z", 1), ["2026-11-23T11:00:00Z"]);
    assert_eq!(next(&every(Some(60_000), None), NOW, 2), ["2026-11-23T10:01:00Z", "2026-11-23T11:01:00Z"]);
    let start = Some("2026-11-23T12:20:00Z");
    assert_eq!(next(&every(None, start), NOW, 2), ["2026-11-23T12:20:00Z", "2026-11-23T13:20:00Z"]);
    assert_eq!(next(&every(Some(0), start), NOW, 1), ["2026-11-23T13:00:00Z"]);
}

#[test]
fn sources_count_together_and_once() {
    let both = Schedule {
        cron: vec!["0 12 * * *".to_owned(), "0 */6 * * *".to_owned()],
        at: vec![ms("2026-11-23T12:00:00Z"), ms("2026-11-23T13:00:00.250Z")],
        ..plain()
    };
    let all = ["2026-11-23T12:00:00Z", "2026-11-23T13:00:00.25Z", "2026-11-23T18:00:00Z"];
    assert_eq!(next(&both, NOW, 3), all);
}

#[test]
fn what_is_excluded_does_not_come() {
    let without = |exclude: &[&str]| Schedule {
        exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
        ..cron("0 9 * * *", "Europe/Berlin")
    };
    let first = |exclude: &[&str]| next(&without(exclude), NOW, 1).remove(0);
    assert_eq!(first(&[]), "2026-11-24T08:00:00Z");
    assert_eq!(first(&["2026-11-24"]), "2026-11-25T08:00:00Z");
    assert_eq!(first(&["2026-11-24/2026-12-24"]), "2026-12-25T08:00:00Z");
    assert_eq!(first(&["2026-11-24T08:00:00Z/2026-11-25T07:59:59Z"]), "2026-11-25T08:00:00Z");
    assert_eq!(first(&["* * * * 1-5"]), "2026-11-28T08:00:00Z");
    let seconds = Schedule { exclude: vec!["* 10 * * *".to_owned()], ..cron("30 * * * * *", "UTC") };
    assert_eq!(
        next(&seconds, NOW, 1),
        ["2026-11-23T11:00:30Z"],
        "an expression without seconds means its minutes"
    );
}

#[test]
fn nothing_comes_before_its_start_or_after_its_end() {
    let bounded = Schedule {
        start_at: Some(ms("2026-11-25T00:00:00Z")),
        end_at: Some(ms("2026-11-26T00:00:00Z")),
        ..cron("@daily", "UTC")
    };
    assert_eq!(next(&bounded, NOW, 5), ["2026-11-25T00:00:00Z", "2026-11-26T00:00:00Z"], "both are included");
}

#[test]
fn the_last_of_a_range_is_found_however_long_the_range() {
    let timing = Timing::of(&cron("0 0 29 2 *", "UTC")).unwrap();
    let last =
        |timing: &Timing, from: &str, to: &str| timing.last_within(ms(from), ms(to), &mut budget()).unwrap();
    let found = last(&timing, "2019-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    assert_eq!(found, Some((ms("2024-02-29T00:00:00Z"), false)));
    assert_eq!(last(&timing, "2024-02-29T00:00:00Z", "2026-01-01T00:00:00Z"), None);
    let found = last(&timing, "2021-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    assert_eq!(found, Some((ms("2024-02-29T00:00:00Z"), true)));
    let often = Timing::of(&cron("* * * * * *", "UTC")).unwrap();
    let found = last(&often, "1990-01-01T00:00:00Z", "2026-01-01T00:00:00.500Z");
    assert_eq!(found, Some((ms("2026-01-01T00:00:00Z"), false)));
}

#[test]
fn what_can_never_run_or_not_be_read_is_refused_with_its_field() {
    let refused = |schedule: &Schedule| schedule.check(ms(NOW), &mut budget()).unwrap_err();
    let field = |schedule: &Schedule| refused(schedule).field;
    assert_eq!(field(&plain()), "cron");
    assert_eq!(field(&cron("0 0 30 2 *", "UTC")), "cron");
    assert_eq!(field(&cron("0 0 * *", "UTC")), "cron/0");
    assert_eq!(field(&cron("61 0 * * *", "UTC")), "cron/0");
    assert_eq!(field(&cron("@reboot", "UTC")), "cron/0");
    assert_eq!(field(&cron("0 0 * * * * 2030", "UTC")), "cron/0");
    assert_eq!(field(&cron("@daily", "Europe/Atlantis")), "time_zone");
    assert_eq!(field(&Schedule { at: vec![ms("2020-01-01T00:00:00Z")], ..plain() }), "at");
    assert_eq!(field(&Schedule { every_ms: Some(99), ..plain() }), "every_ms");
    assert_eq!(field(&Schedule { end_at: Some(ms(NOW)), ..cron("@daily", "UTC") }), "end_at");
    assert_eq!(field(&Schedule { max_runs: Some(0), ..cron("@daily", "UTC") }), "max_runs");
    assert_eq!(
        field(&Schedule { exclude: vec!["2026-13-01".to_owned()], ..cron("@daily", "UTC") }),
        "exclude/0"
    );
    let all = Schedule { exclude: vec!["* * * * *".to_owned()], ..cron("@hourly", "UTC") };
    assert!(refused(&all).problem.contains("`exclude` leaves"), "{}", refused(&all));
    let words = refused(&cron("0 0 30 2 *", "UTC")).to_string();
    assert!(words.contains("0 0 30 2 *") && words.contains("no instant after now"), "{words}");
}

#[test]
fn a_document_comes_back_from_its_json() {
    let schedule = Schedule {
        owner: Some("ada".to_owned()),
        pause: Some(SchedulePause {
            at: Millis(1),
            by: "ada".to_owned(),
            reason: None,
            until: Some(Millis(9)),
        }),
        task: TaskTemplate {
            payload: Some(Payload::Json(r#"{"a": 1.0}"#.to_owned())),
            ..TaskTemplate::new(name("q"), name("k"))
        },
        ..cron("@daily", "UTC")
    };
    let text = serde_json::to_string(&schedule).unwrap();
    assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
    assert!(serde_json::from_str::<Schedule>(&text.replace("owner", "owned")).is_err());
}

#[test]
fn a_run_is_called_by_its_schedule_its_instant_and_the_secret() {
    let secret = IdentitySecret::new([7; 32]);
    let run = |kind, at| RunIdentity { schedule: 3, created_at: Millis(9), kind, at: Millis(at) };
    // Pinned: another number would make runs twice that were made before a change of program.
    assert_eq!(run(RunKind::Planned, 1_800_000_000_000).task_id(&secret, 0), PINNED);
    let (namespace, schedule) = (name("default"), name("digest"));
    let (kind, at) = (RunKind::Planned, Millis(1_800_000_000_000));
    let unkeyed = UnkeyedIdentity { namespace: &namespace, schedule: &schedule, kind, at };
    assert_eq!(unkeyed.task_id(0), PINNED_UNKEYED);
    let first = run(RunKind::Planned, 1);
    let ids = [
        first.task_id(&secret, 0),
        first.task_id(&IdentitySecret::new([8; 32]), 0),
        run(RunKind::Planned, 2).task_id(&secret, 0),
        run(RunKind::Manual, 1).task_id(&secret, 0),
        first.task_id(&secret, 1),
        RunIdentity { schedule: 4, ..first }.task_id(&secret, 0),
        RunIdentity { created_at: Millis(10), ..first }.task_id(&secret, 0),
    ];
    let different: std::collections::BTreeSet<i64> = ids.into_iter().collect();
    assert_eq!(different.len(), ids.len());
    assert!(ids.iter().all(|id| (-(1 << 53)..0).contains(id)));
}
const PINNED: i64 = -5_287_794_234_249_661;
const PINNED_UNKEYED: i64 = -6_755_453_569_324_980;
