//! Schedules: their documents, their progress, and the results of their runs.

use punctual_contract::{
    ScheduleStore,
    schedules::{
        Advance, NewRun, OlderDocuments, RecordRun, Run, RunQuery, RunTask, SaveSchedule, ScheduleKey,
        StoredSchedule, TakesBack,
    },
    store::Applied,
};
use punctual_domain::{
    identity::IdentitySecret,
    name::Name,
    schedule::{LastRun, Outcome, Payload, Progress, RunKind, Schedule, SchedulePause, TaskTemplate},
    time::Millis,
};
use std::sync::Arc;
use tokio::task::JoinSet;

const NOW: Millis = Millis(1_800_000_000_000);
const ALL_SLOTS: u32 = u32::MAX;

fn key(name: &str) -> ScheduleKey {
    ScheduleKey { namespace: Name::default_namespace(), name: Name::new(name).unwrap() }
}

fn schedule() -> Schedule {
    let task = TaskTemplate::new(Name::new("mail").unwrap(), Name::new("digest").unwrap());
    Schedule { cron: vec!["@daily".to_owned()], ..Schedule::new(task) }
}

fn request(name: &str, current: Option<&StoredSchedule>) -> SaveSchedule {
    SaveSchedule {
        key: key(name),
        schedule: schedule(),
        progress: Progress::beginning(NOW),
        wake_at: Some(NOW),
        expected: current.map(|schedule| schedule.step),
        by: "ada".to_owned(),
    }
}

async fn saved(store: &dyn ScheduleStore, name: &str) -> StoredSchedule {
    store.save_schedule(request(name, None), NOW).await.unwrap().unwrap()
}

fn run(at: i64, outcome: Outcome) -> NewRun {
    NewRun {
        kind: RunKind::Planned,
        at: Millis(at),
        execute_at: Millis(at + 5),
        revision: 1,
        version: Some(2),
        number: 3,
        outcome,
        reason: None,
    }
}

fn advance(current: &StoredSchedule, wake_at: Option<Millis>, runs: Vec<NewRun>) -> Advance {
    let progress = Progress { runs: 7, ..current.progress.clone() };
    Advance { id: current.id, step: current.step, progress, wake_at, runs, takes_back: None }
}

async fn advanced(store: &dyn ScheduleStore, current: &StoredSchedule, runs: Vec<NewRun>) -> Applied {
    let all = vec![advance(current, Some(NOW), runs)];
    store.advance_schedules(all, NOW).await.unwrap().remove(0)
}

async fn history(store: &dyn ScheduleStore, of: &StoredSchedule) -> Vec<Run> {
    page(store, of, Millis(i64::MAX), 1_000).await
}

async fn page(store: &dyn ScheduleStore, of: &StoredSchedule, before: Millis, limit: usize) -> Vec<Run> {
    let query = RunQuery { schedule: of.id, from: Millis(i64::MIN), before, limit };
    store.runs(&query).await.unwrap()
}

pub async fn a_schedule_comes_back_as_it_was_saved(store: Arc<dyn ScheduleStore>) {
    assert_eq!(store.schedule(&key("a")).await.unwrap(), None);
    let payload = Some(Payload::Json("{\"n\": 1.0, \"t\": \"\u{1f600} 'x' \\\\ \"}".to_owned()));
    let pause = SchedulePause { at: NOW, by: "bob".to_owned(), reason: Some("é".to_owned()), until: None };
    let schedule = Schedule {
        description: Some("what it does: \u{1f600}".to_owned()),
        at: vec![Millis(1), Millis::MAX],
        pause: Some(pause),
        task: TaskTemplate { payload, ..schedule().task },
        ..schedule()
    };
    let progress = Progress {
        runs: 9,
        last: Some(LastRun { at: NOW, version: 3, planned_at: NOW }),
        buffered: vec![NOW],
        ..Progress::beginning(NOW)
    };
    let asked = SaveSchedule { schedule, progress, ..request("a", None) };
    let saved = store.save_schedule(asked.clone(), NOW).await.unwrap().unwrap();
    assert_eq!((&saved.schedule, &saved.progress), (&asked.schedule, &asked.progress));
    assert_eq!((saved.wake_at, saved.created_at, saved.updated_at), (Some(NOW), NOW, NOW));
    assert_eq!((saved.key.clone(), saved.updated_by.as_str()), (key("a"), "ada"));
    assert_eq!(store.schedule(&key("a")).await.unwrap(), Some(saved));
}

pub async fn each_change_of_a_schedule_has_a_higher_revision_than_all_before(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    let b = saved(&*store, "b").await;
    assert!(b.revision > a.revision && a.revision > 0);
    let later = NOW.plus(1);
    let again = store.save_schedule(request("a", Some(&a)), later).await.unwrap().unwrap();
    assert!(again.revision > b.revision && again.step > a.step);
    assert_eq!((again.id, again.created_at, again.updated_at), (a.id, NOW, later));
}

pub async fn a_save_on_another_step_changes_nothing(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    assert_eq!(store.save_schedule(request("a", None), NOW).await.unwrap(), None, "there is one");
    assert_eq!(store.save_schedule(request("b", Some(&a)), NOW).await.unwrap(), None, "there is none");
    assert_eq!(advanced(&*store, &a, vec![]).await, Applied::Moved);
    assert_eq!(store.save_schedule(request("a", Some(&a)), NOW).await.unwrap(), None, "it has moved on");
    let current = store.schedule(&key("a")).await.unwrap().unwrap();
    assert_eq!((current.revision, current.progress.runs), (a.revision, 7));
}

pub async fn of_many_who_decide_on_one_step_one_is_applied(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    let mut asking = JoinSet::new();
    for nth in 0..16 {
        let (store, a) = (Arc::clone(&store), a.clone());
        asking.spawn(async move {
            if nth % 2 == 0 {
                advanced(&*store, &a, vec![run(nth, Outcome::Created)]).await == Applied::Moved
            } else {
                store.save_schedule(request("a", Some(&a)), NOW).await.unwrap().is_some()
            }
        });
    }
    assert_eq!(asking.join_all().await.into_iter().filter(|flag| *flag).count(), 1);
    assert!(history(&*store, &a).await.len() <= 1);
}

pub async fn the_runs_of_an_advance_are_there_if_it_is_applied(store: Arc<dyn ScheduleStore>) {
    let (a, b) = (saved(&*store, "a").await, saved(&*store, "b").await);
    let skipped = NewRun { reason: Some("\u{1f600} is not over".to_owned()), ..run(2, Outcome::Skipped) };
    let stale = StoredSchedule { step: b.step + 1, ..b.clone() };
    let all = vec![
        advance(&stale, None, vec![run(1, Outcome::Created)]),
        advance(&a, None, vec![run(1, Outcome::Created), skipped.clone()]),
    ];
    assert_eq!(store.advance_schedules(all, NOW).await.unwrap(), [Applied::Lost, Applied::Moved]);
    assert_eq!(history(&*store, &b).await, []);
    let runs = history(&*store, &a).await;
    assert_eq!(runs.iter().map(|run| run.key.at.0).collect::<Vec<_>>(), [2, 1], "the latest instant first");
    let reported = (runs[0].outcome, runs[0].reason.clone(), runs[0].is_recorded, runs[0].number);
    assert_eq!(reported, (Outcome::Skipped, skipped.reason, true, 3));
    let reported = (runs[1].outcome, runs[1].is_recorded, runs[1].execute_at, runs[1].created_at);
    assert_eq!(reported, (Outcome::Created, false, Millis(6), NOW));
    let current = store.schedule(&key("a")).await.unwrap().unwrap();
    assert_eq!((current.wake_at, current.progress.runs, current.step > a.step), (None, 7, true));
}

pub async fn only_what_is_due_and_of_the_asked_slots_is_found(store: Arc<dyn ScheduleStore>) {
    assert_eq!(store.next_wake().await.unwrap(), None);
    for (nth, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let wake_at = [Some(NOW.plus(2)), Some(NOW), Some(NOW.plus(1)), None][nth];
        let asked = SaveSchedule { wake_at, ..request(name, None) };
        store.save_schedule(asked, NOW).await.unwrap().unwrap();
    }
    let names = async |slots: u32, now: i64, limit: usize| -> Vec<String> {
        let found = store.due_schedules(slots, NOW.plus(now), limit).await.unwrap();
        found.iter().map(|schedule| schedule.key.name.as_str().to_owned()).collect()
    };
    assert_eq!(store.next_wake().await.unwrap(), Some(NOW));
    assert_eq!(names(ALL_SLOTS, -1, 9).await, [""; 0]);
    assert_eq!(names(ALL_SLOTS, 1, 9).await, ["b", "c"]);
    assert_eq!(names(ALL_SLOTS, 9, 2).await, ["b", "c"]);
    assert!(names(1 << key("c").slot(), 9, 9).await.contains(&"c".to_owned()));
    assert!(!names(!(1 << key("c").slot()), 9, 9).await.contains(&"c".to_owned()));
}

pub async fn a_run_is_settled_once(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    advanced(&*store, &a, vec![run(1, Outcome::Created), run(2, Outcome::Missed)]).await;
    let current = store.schedule(&key("a")).await.unwrap().unwrap();
    let left = async |before: i64| store.unsettled_runs(None, NOW.plus(before), 9).await.unwrap();
    assert_eq!(left(0).await, [], "it is not older than that");
    let found = left(1).await;
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].0, found[0].1.key.at), (&current, Millis(1)));
    let older = async |schedule: i64, revision: i64| {
        let older = OlderDocuments { schedule, revision };
        store.unsettled_runs(Some(older), NOW.plus(1), 9).await.unwrap()
    };
    let revision = run(1, Outcome::Created).revision;
    assert_eq!(older(a.id, revision + 1).await, found);
    assert_eq!(older(a.id, revision).await, [], "of this document");
    assert_eq!(older(a.id + 1, revision + 1).await, []);
    let settle = |task_ref: &str| {
        let key = run(1, Outcome::Created).key(a.id);
        vec![RecordRun { key, task_ref: task_ref.to_owned(), note: Some("the next id".to_owned()) }]
    };
    store.record_runs(settle("t1")).await.unwrap();
    store.record_runs(settle("t2")).await.unwrap();
    assert_eq!(left(1).await, []);
    let runs = history(&*store, &a).await;
    assert_eq!((runs[1].task_ref.as_deref(), runs[1].is_recorded), (Some("t1"), true), "the first stays");
    assert_eq!((runs[1].reason.as_deref(), runs[1].version), (Some("the next id"), Some(2)));
    assert_eq!(runs[0].task_ref, None, "one that was missed has none");
}

pub async fn the_tasks_of_runs_are_found_together_in_order(store: Arc<dyn ScheduleStore>) {
    let (a, b) = (saved(&*store, "a").await, saved(&*store, "b").await);
    for of in [&a, &b] {
        let runs = (1..=3).map(|at| run(at, Outcome::Created)).chain([run(4, Outcome::Skipped)]).collect();
        assert_eq!(advanced(&*store, of, runs).await, Applied::Moved);
    }
    let key = |of: &StoredSchedule, at| run(at, Outcome::Created).key(of.id);
    let recorded = [(&a, 1), (&b, 3), (&b, 1)].map(|(of, at)| RecordRun {
        key: key(of, at),
        task_ref: format!("t{}-{at}", of.key.name.as_str()),
        note: None,
    });
    store.record_runs(recorded.to_vec()).await.unwrap();
    let asked = vec![key(&b, 3), key(&a, 2), key(&a, 1), key(&a, 4), key(&b, 9), key(&b, 1), key(&b, 3)];
    let found = store.run_tasks(asked).await.unwrap();
    let made = |task_ref: &str| RunTask::Made(task_ref.to_owned());
    let (owed, unknown) = (RunTask::Owed, RunTask::Unknown);
    let wanted = [made("tb-3"), owed, made("ta-1"), unknown.clone(), unknown, made("tb-1"), made("tb-3")];
    assert_eq!(found, wanted);
    assert_eq!(store.run_tasks(Vec::new()).await.unwrap(), []);
    let many = store.run_tasks(vec![key(&a, 1); 1_200]).await.unwrap();
    assert!(many.len() == 1_200 && many.iter().all(|run_task| *run_task == made("ta-1")));
}

pub async fn runs_that_are_put_off_stand_behind_all_others(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    advanced(&*store, &a, (1..=3).map(|at| run(at, Outcome::Created)).collect()).await;
    let key = |at: i64| run(at, Outcome::Created).key(a.id);
    let recorded = RecordRun { key: key(3), task_ref: "t3".to_owned(), note: None };
    store.record_runs(vec![recorded]).await.unwrap();
    store.put_off_runs(vec![key(1), key(3), key(9)], NOW.plus(10)).await.unwrap();
    let left = async |before: i64| {
        let found = store.unsettled_runs(None, NOW.plus(before), 9).await.unwrap();
        found.into_iter().map(|(_, run)| run.key.at.0).collect::<Vec<_>>()
    };
    assert_eq!(left(10).await, [2]);
    assert_eq!(left(11).await, [2, 1], "the one that is settled is not owed again");
}

pub async fn what_is_taken_back_stays_cancelled(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    advanced(&*store, &a, vec![run(1, Outcome::Created), run(2, Outcome::Created)]).await;
    let one = run(1, Outcome::Created).key(a.id);
    store.withdraw_runs(vec![one.clone()], Outcome::Cancelled, "paused").await.unwrap();
    let recorded = RecordRun { key: one.clone(), task_ref: "t1".to_owned(), note: None };
    store.record_runs(vec![recorded]).await.unwrap();
    let runs = history(&*store, &a).await;
    let reported = (runs[1].outcome, runs[1].reason.as_deref(), runs[1].is_recorded);
    assert_eq!(reported, (Outcome::Cancelled, Some("paused"), true));
    assert_eq!((runs[1].task_ref.clone(), runs[0].outcome), (None, Outcome::Created));
    store.withdraw_runs(vec![one], Outcome::Missed, "again").await.unwrap();
    assert_eq!(history(&*store, &a).await[1].reason.as_deref(), Some("paused"));
    assert_eq!(store.unsettled_runs(None, NOW.plus(1), 9).await.unwrap().len(), 1);
}

pub async fn what_an_advance_takes_back_is_cancelled_if_it_is_applied(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    advanced(&*store, &a, (1..=3).map(|at| run(at, Outcome::Created)).collect()).await;
    let runs = vec![run(1, Outcome::Created).key(a.id), run(3, Outcome::Created).key(a.id)];
    let takes_back = Some(TakesBack { runs, reason: "changed".to_owned() });
    let outcomes =
        async || history(&*store, &a).await.iter().map(|run| run.outcome.code()).collect::<Vec<_>>();
    let stale = Advance { takes_back: takes_back.clone(), ..advance(&a, None, vec![]) };
    assert_eq!(store.advance_schedules(vec![stale], NOW).await.unwrap(), [Applied::Lost]);
    assert_eq!(outcomes().await, [1, 1, 1], "nothing of it");
    let current = store.schedule(&key("a")).await.unwrap().unwrap();
    let good = Advance { takes_back, ..advance(&current, None, vec![]) };
    assert_eq!(store.advance_schedules(vec![good], NOW).await.unwrap(), [Applied::Moved]);
    assert_eq!(outcomes().await, [5, 1, 5]);
    let runs = history(&*store, &a).await;
    assert_eq!((runs[0].reason.as_deref(), runs[0].is_recorded), (Some("changed"), true));
}

pub async fn the_first_secret_that_was_offered_stays(store: Arc<dyn ScheduleStore>) {
    let mut asking = JoinSet::new();
    for nth in 0..16_u8 {
        let store = Arc::clone(&store);
        asking.spawn(async move { store.identity_secret(IdentitySecret::new([nth; 32])).await.unwrap() });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|secret| *secret == answers[0]), "one of them, for all");
    let again = store.identity_secret(IdentitySecret::new([99; 32])).await.unwrap();
    assert_eq!(again, answers[0]);
}

pub async fn pages_of_runs_tear_no_instant_apart(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    let runs = (0..10).flat_map(|at| [run(at, Outcome::Buffered), run(at, Outcome::Created)]).collect();
    advanced(&*store, &a, runs).await;
    let (mut found, mut before) = (Vec::new(), Millis(i64::MAX));
    loop {
        let some = page(&*store, &a, before, 3).await;
        let Some(last) = some.last() else { break };
        assert!(some.len() <= 4, "{}", some.len());
        before = last.key.at;
        found.extend(some.into_iter().map(|run| (run.key.at, run.outcome)));
    }
    found.sort_unstable_by_key(|pair| (pair.0, pair.1.code()));
    found.dedup();
    assert_eq!(found.len(), 20);
}

pub async fn old_runs_are_forgotten_and_young_ones_stay(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    advanced(&*store, &a, (0..5).map(|at| run(at, Outcome::Created)).collect()).await;
    let current = store.schedule(&key("a")).await.unwrap().unwrap();
    let later = vec![advance(&current, None, vec![run(9, Outcome::Created)])];
    store.advance_schedules(later, NOW.plus(10)).await.unwrap();
    assert_eq!(store.forget_runs(NOW.plus(1), 3).await.unwrap(), 3);
    assert_eq!(store.forget_runs(NOW.plus(1), 9).await.unwrap(), 2);
    assert_eq!(store.forget_runs(NOW.plus(1), 9).await.unwrap(), 0);
    assert_eq!(history(&*store, &a).await.len(), 1);
}

pub async fn schedules_are_listed_by_name_page_by_page(store: Arc<dyn ScheduleStore>) {
    for name in ["b", "a", "c"] {
        saved(&*store, name).await;
    }
    let elsewhere = ScheduleKey { namespace: Name::new("other").unwrap(), name: Name::new("a").unwrap() };
    let asked = SaveSchedule { key: elsewhere.clone(), ..request("a", None) };
    store.save_schedule(asked, NOW).await.unwrap().unwrap();
    let names = async |after: &str, limit: usize| -> Vec<String> {
        let found = store.schedules(&Name::default_namespace(), after, limit).await.unwrap();
        found.iter().map(|schedule| schedule.key.name.as_str().to_owned()).collect()
    };
    assert_eq!(names("", 2).await, ["a", "b"]);
    assert_eq!(names("b", 9).await, ["c"]);
    assert_eq!(store.schedule(&elsewhere).await.unwrap().unwrap().key, elsewhere);
}

pub async fn a_schedule_that_is_forgotten_is_gone_for_good(store: Arc<dyn ScheduleStore>) {
    let a = saved(&*store, "a").await;
    assert_eq!(store.remove_schedule(a.id, a.step + 1).await.unwrap(), Applied::Lost);
    assert_eq!(store.remove_schedule(a.id, a.step).await.unwrap(), Applied::Moved);
    assert_eq!(store.remove_schedule(a.id, a.step).await.unwrap(), Applied::Lost);
    assert_eq!(store.schedule(&key("a")).await.unwrap(), None);
    let again = saved(&*store, "a").await;
    assert!(again.id > a.id && again.revision > a.revision, "nothing of it is used again");
}
