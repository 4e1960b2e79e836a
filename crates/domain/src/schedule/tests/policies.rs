//! Schedules step by step: ahead of time, beside a running run, and after a time without steps.

use super::*;

const START: &str = "2026-11-23T10:00:00Z";
const MINUTE_MS: i64 = 60_000;

struct Clockwork {
    schedule: Schedule,
    progress: Progress,
    now: Millis,
    last_is_over: bool,
    /// The number of the run whose payload has no value.
    unfilled: u64,
    budget: u32,
    /// The number of payloads that one step fills in.
    dear_after: usize,
}

impl Clockwork {
    fn new(schedule: Schedule) -> Self {
        let now = ms(START);
        Self {
            schedule,
            progress: Progress::beginning(now),
            now,
            last_is_over: true,
            unfilled: 0,
            budget: 100_000,
            dear_after: usize::MAX,
        }
    }

    fn step(&mut self) -> Step {
        let (namespace, name) = (name("default"), name("digest"));
        let facts = Facts {
            namespace: &namespace,
            name: &name,
            revision: 7,
            now: self.now,
            lead_ms: MINUTE_MS,
            last_is_over: self.last_is_over,
        };
        let unfilled = self.unfilled;
        let filled = std::cell::Cell::new(0_usize);
        let value = |_: Millis, number: u64| {
            filled.set(filled.get() + 1);
            if number == unfilled { Err("no value".to_owned()) } else { Ok(()) }
        };
        let are_dear = || filled.get() >= self.dear_after;
        let fills = Fills { value: &value, are_dear: &are_dear };
        let timing = Timing::of(&self.schedule).unwrap();
        let mut budget = Budget::of_steps(self.budget);
        let step = step(&self.schedule, &timing, &self.progress, &facts, fills, &mut budget);
        self.progress = step.progress.clone();
        step
    }

    fn after(&mut self, passed_ms: i64) -> Step {
        self.now = self.now.plus(passed_ms);
        self.step()
    }
}

fn reported(step: &Step) -> Vec<(Outcome, String)> {
    step.runs.iter().map(|run| (run.outcome, shown(&[run.at]).remove(0))).collect()
}

fn at(outcome: Outcome, minute: &str) -> (Outcome, String) {
    (outcome, format!("2026-11-23T{minute}:00Z"))
}

fn every_minute(overlap: Overlap) -> Schedule {
    Schedule { overlap, ..cron("* * * * *", "UTC") }
}

/// If the instant were decided before its run was created, the run would have the version of the cancelled one, and
/// find that in its place.
#[test]
fn a_run_that_was_taken_back_is_made_again_with_the_next_version_each_time() {
    for (overlap, missed) in [(Overlap::Allow, Missed::Skip), (Overlap::CancelOther, Missed::Latest)] {
        let mut clockwork = Clockwork::new(Schedule { missed, ..every_minute(overlap) });
        for version in 1..4 {
            let step = clockwork.step();
            assert_eq!(reported(&step), [at(Outcome::Created, "10:01")], "{overlap:?}");
            assert_eq!(step.runs[0].version, version, "{overlap:?}");
            revoke(&mut clockwork, version);
        }
        let late = clockwork.after(MINUTE_MS + 20_000);
        let again = late.runs.iter().find(|run| run.at == ms("2026-11-23T10:01:00Z")).unwrap();
        let wanted = if missed == Missed::Latest { (Outcome::Created, 4) } else { (Outcome::Missed, 0) };
        assert_eq!((again.outcome, again.version), wanted, "{overlap:?}");
    }
}

/// A change of the document in the same instant: the run of 10:01 is cancelled.
fn revoke(clockwork: &mut Clockwork, version: i64) {
    clockwork.progress.begin_taking_back(clockwork.now, 0, true);
    let (at, outcome) = (ms("2026-11-23T10:01:00Z"), Outcome::Created);
    let line = Line { at, version, outcome, is_taken_back: true };
    clockwork.progress.end_taking_back(&[line], clockwork.now);
}

#[test]
fn a_run_is_made_ahead_of_its_instant_and_once() {
    let mut clockwork = Clockwork::new(cron("5 10 * * *", "UTC"));
    let step = clockwork.step();
    assert_eq!((step.runs.len(), step.wake_at), (0, Some(ms("2026-11-23T10:04:00Z"))));
    let step = clockwork.after(4 * MINUTE_MS);
    assert_eq!(reported(&step), [at(Outcome::Created, "10:05")]);
    assert_eq!(step.runs[0].execute_at, ms("2026-11-23T10:05:00Z"));
    assert_eq!(step.wake_at, Some(ms("2026-11-24T10:04:00Z")));
    assert_eq!(clockwork.after(1).runs, []);
}

#[test]
fn a_bounded_step_goes_on_at_once() {
    let mut clockwork = Clockwork::new(Schedule { every_ms: Some(100), ..plain() });
    let mut made = 0;
    loop {
        let step = clockwork.step();
        assert!(step.runs.len() <= 200);
        made += step.runs.len();
        if step.wake_at != Some(clockwork.now) {
            break;
        }
    }
    assert_eq!(made, 600, "a minute's, of ten a second");
}

#[test]
fn dear_payloads_end_a_step_and_no_instant_is_lost_by_that() {
    for (overlap, missed) in [(Overlap::Allow, Missed::All), (Overlap::Allow, Missed::Skip)] {
        let mut clockwork = Clockwork::new(Schedule { overlap, missed, ..every_minute(overlap) });
        clockwork.schedule.cron = vec!["*/5 * * * * *".to_owned()];
        clockwork.dear_after = 2;
        clockwork.now = clockwork.now.plus(50_000);
        let (mut made, mut steps) = (Vec::new(), 0);
        loop {
            let step = clockwork.step();
            assert!(step.runs.len() <= 3, "{missed:?}: {}", step.runs.len());
            made.extend(step.runs.iter().map(|run| (run.at, run.outcome)));
            steps += 1;
            // Other schedules have their turn first.
            assert!(step.wake_at.is_some_and(|at| at > clockwork.now), "{missed:?}");
            if step.wake_at != Some(clockwork.now.plus(1)) {
                break;
            }
        }
        assert!(steps > 5, "{steps}");
        let instants: Vec<Millis> =
            made.iter().filter(|pair| pair.1 == Outcome::Created).map(|pair| pair.0).collect();
        // Up to a minute ahead. One line represents those that were left out.
        let first = if missed == Missed::All { 5_000 } else { 45_000 };
        let wanted: Vec<Millis> = (0..)
            .map(|nth| ms(START).plus(first + nth * 5_000))
            .take_while(|at| *at <= ms(START).plus(110_000))
            .collect();
        assert_eq!(instants, wanted, "{missed:?}");
    }
}

#[test]
fn an_old_run_that_is_not_over_makes_the_new_one_be_left_out() {
    let mut clockwork = Clockwork::new(every_minute(Overlap::Skip));
    assert_eq!(reported(&clockwork.step()), [at(Outcome::Created, "10:01")]);
    clockwork.last_is_over = false;
    let step = clockwork.after(90_000);
    assert_eq!(step.runs, [], "until its instant nothing is decided");
    let wake_at = step.wake_at.unwrap();
    assert!(wake_at > clockwork.now && wake_at <= ms("2026-11-23T10:02:00Z"), "{wake_at:?}");
    assert_eq!(reported(&clockwork.after(30_000)), [at(Outcome::Skipped, "10:02")]);
    clockwork.last_is_over = true;
    assert_eq!(reported(&clockwork.after(1_000)), [at(Outcome::Created, "10:03")], "ahead of its time again");
}

#[test]
fn one_run_waits_or_all_do() {
    for (overlap, waits) in [(Overlap::BufferOne, 1), (Overlap::BufferAll, 2)] {
        let mut clockwork = Clockwork::new(every_minute(overlap));
        clockwork.step();
        clockwork.last_is_over = false;
        assert_eq!(reported(&clockwork.after(2 * MINUTE_MS)), [at(Outcome::Buffered, "10:02")]);
        let third = reported(&clockwork.after(MINUTE_MS));
        let expected = if waits == 1 { Outcome::Skipped } else { Outcome::Buffered };
        assert_eq!(third, [at(expected, "10:03")]);
        assert_eq!(clockwork.progress.buffered.len(), waits);
        clockwork.last_is_over = true;
        let step = clockwork.after(1_000);
        assert_eq!(reported(&step), [at(Outcome::Created, "10:02")]);
        assert_eq!(step.runs[0].execute_at, clockwork.now);
    }
}

#[test]
fn the_old_run_is_stopped_for_the_new_one() {
    let mut clockwork = Clockwork::new(every_minute(Overlap::CancelOther));
    clockwork.step();
    clockwork.last_is_over = false;
    let step = clockwork.after(2 * MINUTE_MS);
    assert_eq!(reported(&step), [at(Outcome::Created, "10:02")]);
    assert_eq!(step.cancels.map(|last_run| last_run.at), Some(ms("2026-11-23T10:01:00Z")));
}

/// If one step makes up for several late runs, it stops the run before them, and one of the late runs begins.
#[test]
fn of_late_runs_that_stop_each_other_the_last_begins_and_the_run_before_them_is_stopped() {
    for (missed, skipped) in [(Missed::All, &["10:02", "10:03"][..]), (Missed::Latest, &[])] {
        let schedule = Schedule { missed, ..every_minute(Overlap::CancelOther) };
        let mut clockwork = Clockwork::new(schedule);
        clockwork.step();
        clockwork.last_is_over = false;
        let step = clockwork.after(4 * MINUTE_MS + 20_000);
        let begun: Vec<&PlannedRun> =
            step.runs.iter().filter(|run| run.outcome == Outcome::Created).collect();
        assert_eq!(
            begun.iter().map(|run| run.at).collect::<Vec<_>>(),
            [ms("2026-11-23T10:04:00Z")],
            "{missed:?}"
        );
        assert_eq!(begun[0].reason.as_deref(), Some("the run of 2026-11-23T10:01:00Z was stopped"));
        assert_eq!(step.cancels.map(|last_run| last_run.at), Some(ms("2026-11-23T10:01:00Z")), "{missed:?}");
        let left_out: Vec<&PlannedRun> =
            step.runs.iter().filter(|run| run.outcome == Outcome::Skipped).collect();
        let wanted: Vec<Millis> = skipped.iter().map(|text| ms(&format!("2026-11-23T{text}:00Z"))).collect();
        assert_eq!(left_out.iter().map(|run| run.at).collect::<Vec<_>>(), wanted, "{missed:?}");
        assert!(
            left_out.iter().all(|run| run.reason.as_ref().is_some_and(|why| why.ends_with("took its place")))
        );
        assert_eq!(
            (clockwork.progress.runs, clockwork.progress.last.map(|last_run| last_run.at)),
            (2, Some(begun[0].at))
        );
        let numbers: Vec<u64> = begun.iter().map(|run| run.number).collect();
        assert_eq!(numbers, [2 + u64::try_from(skipped.len()).unwrap()], "{missed:?}: no number twice");
    }
}

/// A late run and one that is due a few seconds later are made in one step too.
#[test]
fn a_late_run_whose_place_the_next_takes_at_once_does_not_begin() {
    let missed = Missed::Latest;
    let mut clockwork = Clockwork::new(Schedule { missed, ..every_minute(Overlap::CancelOther) });
    clockwork.step();
    clockwork.last_is_over = false;
    let step = clockwork.after(3 * MINUTE_MS + 1_000);
    assert_eq!(reported(&step), [at(Outcome::Skipped, "10:02"), at(Outcome::Created, "10:03")]);
    assert_eq!(step.cancels.map(|last_run| last_run.at), Some(ms("2026-11-23T10:01:00Z")));
    assert_eq!(step.runs[1].reason.as_deref(), Some("the run of 2026-11-23T10:01:00Z was stopped"));
}

#[test]
fn a_late_run_without_a_value_takes_nobody_s_place() {
    let schedule = Schedule { missed: Missed::All, ..every_minute(Overlap::CancelOther) };
    let mut clockwork = Clockwork::new(schedule);
    clockwork.step();
    (clockwork.last_is_over, clockwork.unfilled) = (false, 3);
    let step = clockwork.after(3 * MINUTE_MS + 20_000);
    assert_eq!(reported(&step), [at(Outcome::Created, "10:02"), at(Outcome::Skipped, "10:03")]);
    assert_eq!(step.cancels.map(|last_run| last_run.at), Some(ms("2026-11-23T10:01:00Z")));
}

#[test]
fn what_was_missed_is_left_out_or_the_latest_or_all_within_the_window_run() {
    let missed = |missed, window_ms| {
        let mut clockwork =
            Clockwork::new(Schedule { missed, missed_window_ms: window_ms, ..cron("0 * * * *", "UTC") });
        let step = clockwork.after(5 * HOUR_MS + 20 * MINUTE_MS);
        (reported(&step), step.runs)
    };
    let (reported_of, runs) = missed(Missed::Skip, 24 * HOUR_MS);
    assert_eq!(reported_of, [at(Outcome::Missed, "15:00")]);
    assert!(runs[0].reason.as_ref().unwrap().contains("2026-11-23T11:00:00Z"), "{runs:?}");
    let (reported_of, runs) = missed(Missed::Latest, 24 * HOUR_MS);
    assert_eq!(reported_of, [at(Outcome::Missed, "14:00"), at(Outcome::Created, "15:00")]);
    assert_eq!(runs[1].execute_at, ms("2026-11-23T15:20:00Z"));
    let (reported_of, _) = missed(Missed::All, 2 * HOUR_MS);
    let (missed_at, created) = (Outcome::Missed, Outcome::Created);
    assert_eq!(reported_of, [at(missed_at, "13:00"), at(created, "14:00"), at(created, "15:00")]);
    let (reported_of, _) = missed(Missed::Latest, 10 * MINUTE_MS);
    assert_eq!(reported_of, [at(Outcome::Missed, "15:00")], "outside of the window");
}

#[test]
fn what_a_pause_kept_from_running_is_told_as_such() {
    let mut clockwork = Clockwork::new(Schedule { missed: Missed::Skip, ..cron("0 * * * *", "UTC") });
    let until = Some(ms("2026-11-23T12:30:00Z"));
    let pause = SchedulePause { at: clockwork.now, by: String::new(), reason: None, until };
    clockwork.schedule.pause = Some(pause);
    let step = clockwork.step();
    assert_eq!((step.runs.len(), step.wake_at), (0, until));
    let step = clockwork.after(150 * MINUTE_MS);
    assert_eq!(reported(&step), [at(Outcome::Missed, "12:00")]);
    assert!(step.runs[0].reason.as_ref().unwrap().starts_with("it was paused"));
    assert_eq!(step.wake_at, Some(ms("2026-11-23T12:59:00Z")));
}

#[test]
fn after_as_many_runs_as_it_may_have_it_is_over() {
    let mut clockwork = Clockwork::new(Schedule { max_runs: Some(2), ..every_minute(Overlap::Allow) });
    clockwork.step();
    let step = clockwork.after(MINUTE_MS);
    assert_eq!(step.runs[0].number, 2);
    assert_eq!(step.wake_at, None);
}

#[test]
fn jitter_is_the_same_for_the_same_instant_and_bounded() {
    let mut clockwork = Clockwork::new(Schedule { jitter_ms: 5_000, every_ms: Some(1_000), ..plain() });
    let first = clockwork.step();
    clockwork.progress = Progress::beginning(clockwork.now);
    assert_eq!(clockwork.step().runs, first.runs);
    let late: Vec<i64> = first.runs.iter().map(|run| run.execute_at.since(run.at)).collect();
    assert!(late.iter().all(|number| (0..=5_000).contains(number)), "{late:?}");
    assert!(
        late.iter().any(|number| *number > 2_500) && late.iter().any(|number| *number < 2_500),
        "{late:?}"
    );
}

#[test]
fn what_is_not_enabled_does_nothing() {
    let mut clockwork = Clockwork::new(Schedule { enabled: false, ..every_minute(Overlap::Allow) });
    let step = clockwork.after(HOUR_MS);
    assert_eq!((step.runs.len(), step.wake_at), (0, None));
}

#[test]
fn a_run_whose_payload_has_no_value_holds_nothing_up_and_is_no_run() {
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::CancelOther] {
        let mut clockwork = Clockwork::new(Schedule { max_runs: Some(2), ..every_minute(overlap) });
        clockwork.unfilled = 1;
        let step = clockwork.step();
        let left_out = at(Outcome::Skipped, "10:01");
        assert_eq!(reported(&step), [left_out], "{overlap:?}");
        assert!(step.runs[0].reason.as_ref().unwrap().contains("no value"));
        let mut made = Vec::new();
        for _ in 0..3 {
            clockwork.last_is_over = true;
            let step = clockwork.after(MINUTE_MS);
            assert_eq!(step.cancels, None);
            made.extend(step.runs.into_iter().map(|run| (run.outcome, run.number)));
        }
        assert_eq!(made, [(Outcome::Created, 2), (Outcome::Created, 3)], "{overlap:?}");
    }
}

#[test]
fn where_the_budget_is_used_up_the_schedule_is_looked_at_again() {
    let exclude = vec!["0-58 * * * * *".to_owned(), "59 * * * * *".to_owned()];
    let mut clockwork = Clockwork::new(Schedule { exclude, ..cron("* * * * * *", "UTC") });
    clockwork.budget = 100;
    for _ in 0..3 {
        let step = clockwork.after(MINUTE_MS);
        assert_eq!(step.runs, []);
        assert!(step.wake_at.is_some_and(|at| at > clockwork.now), "{:?}", step.wake_at);
    }
}

/// The progress after a change that has revoked the runs of these instants.
fn taken_back(clockwork: &mut Clockwork, all: &[&str]) {
    let line =
        |text: &&str| Line { at: ms(text), version: 1, outcome: Outcome::Created, is_taken_back: true };
    let lines: Vec<Line> = all.iter().map(line).collect();
    clockwork.progress.begin_taking_back(clockwork.now, HOUR_MS, true);
    clockwork.progress.end_taking_back(&lines, clockwork.now);
}

#[test]
fn an_instant_that_was_taken_back_before_it_fired_is_decided_by_the_new_document() {
    // Its instant has passed, and its jitter has not.
    let late = || Clockwork::new(Schedule { jitter_ms: HOUR_MS, ..cron("0 10 * * *", "UTC") });
    let mut clockwork = late();
    clockwork.now = clockwork.now.plus(1_000);
    clockwork.progress.decided_until = clockwork.now;
    let ten = "2026-11-23T10:00:00Z";
    taken_back(&mut clockwork, &[ten]);
    let step = clockwork.step();
    assert_eq!(reported(&step), [at(Outcome::Created, "10:00")]);
    assert_eq!(step.runs[0].version, 2, "another task of the same instant");
    assert_eq!(clockwork.after(1_000).runs, [], "once");
    // The new document does not have this instant.
    let mut clockwork = late();
    clockwork.progress.decided_until = clockwork.now.plus(MINUTE_MS);
    taken_back(&mut clockwork, &[ten]);
    clockwork.schedule.cron = vec!["30 11 * * *".to_owned()];
    assert_eq!(clockwork.step().runs, []);
    assert_eq!(clockwork.progress.taken_back, []);
}

#[test]
fn what_was_taken_back_and_is_over_meanwhile_was_missed() {
    for (missed, wanted) in [
        (Missed::Skip, [Outcome::Missed, Outcome::Missed]),
        (Missed::Latest, [Outcome::Missed, Outcome::Created]),
        (Missed::All, [Outcome::Created, Outcome::Created]),
    ] {
        let mut clockwork = Clockwork::new(Schedule { missed, ..cron("0,1 10 * * *", "UTC") });
        clockwork.now = clockwork.now.plus(2 * MINUTE_MS);
        clockwork.progress.decided_until = clockwork.now;
        taken_back(&mut clockwork, &["2026-11-23T10:00:00Z", "2026-11-23T10:01:00Z"]);
        let step = clockwork.after(5 * MINUTE_MS);
        assert_eq!(step.runs.iter().map(|run| run.outcome).collect::<Vec<_>>(), wanted, "{missed:?}");
        assert_eq!(clockwork.after(1_000).runs, []);
    }
}
