//! Each action does to many what its call does to one.

use super::rig::{CANCEL, HOUR_MS, Rig, START, bulk, name, on_both};
use punctual_contract::settings::SaveSetting;
use punctual_domain::{
    bulk::{Action, Bulk, Filter, NewTime, Tally},
    name::{Name, QueueKey},
    outcome::Report,
    settings::{QueueSettings, Scope, Setting},
    state::State,
    task::{Priority, Task, TaskResult},
    time::Millis,
};
use punctual_engine::{LeaseRequest, OutcomeReport};
use std::sync::Arc;

async fn ended(rig: &Rig, bulk: Bulk) -> Tally {
    let id = rig.confirmed(bulk).await.id;
    rig.until_the_end(id).await.progress.tally
}

const fn done(done: u64) -> Tally {
    Tally { done, skipped: 0, failed: 0 }
}

/// All that is ready, with an executor.
async fn leased(rig: &Rig, queue: &str) -> Vec<punctual_contract::store::Assignment> {
    rig.engine.run_once().await.unwrap();
    rig.engine.run_once().await.unwrap();
    let queue = QueueKey { namespace: Name::default_namespace(), queue: name(queue) };
    let asked = LeaseRequest {
        queue: Arc::new(queue),
        max: 100,
        wait_ms: 0,
        lease_ms: HOUR_MS,
        executor: "test".to_owned(),
        version: None,
    };
    rig.engine.lease(asked).await.unwrap()
}

async fn recorded(rig: &Rig, queue: &str, report: Report) {
    for lease in leased(rig, queue).await {
        let report =
            OutcomeReport { place: lease.place, fence: lease.fence, report, result: TaskResult::default() };
        rig.engine.record_outcomes(vec![report], "test").await.unwrap();
    }
}

async fn states(rig: &Rig, tasks: &[Task]) -> Vec<State> {
    let mut states = Vec::new();
    for task in tasks {
        states.push(rig.task(task).await.state);
    }
    states
}

on_both!(tasks_are_given_another_time);
async fn tasks_are_given_another_time(rig: Rig) {
    let tasks = rig.insert("mail", 15).await;
    let later = bulk(Action::Reschedule(NewTime::ByMs(-HOUR_MS / 2)), "mail");
    assert_eq!(ended(&rig, later).await, done(15));
    let times = async || -> Vec<Millis> {
        let mut times = Vec::new();
        for task in &tasks {
            times.push(rig.task(task).await.ask.execute_at);
        }
        times.dedup();
        times
    };
    assert_eq!(times().await, [START.plus(HOUR_MS / 2)]);
    let at = START.plus(7 * HOUR_MS);
    assert_eq!(ended(&rig, bulk(Action::Reschedule(NewTime::At(at)), "mail")).await, done(15));
    assert_eq!(times().await, [at]);
    rig.clock.set(at.plus(-1));
    assert_eq!(leased(&rig, "mail").await.len(), 0, "never early");
    rig.clock.set(at);
    assert_eq!(leased(&rig, "mail").await.len(), 15);
}

on_both!(tasks_are_given_another_priority_and_run_now);
async fn tasks_are_given_another_priority_and_run_now(rig: Rig) {
    rig.insert("mail", 15).await;
    let priority = Priority::new(1).unwrap();
    assert_eq!(ended(&rig, bulk(Action::SetPriority { priority }, "mail")).await, done(15));
    assert!(
        rig.tasks()
            .await
            .iter()
            .all(|task| task.ask.priority == priority && task.ask.execute_at == START.plus(HOUR_MS))
    );
    assert_eq!(ended(&rig, bulk(Action::RunNow, "mail")).await, done(15));
    let leased = leased(&rig, "mail").await;
    assert_eq!(leased.len(), 15);
    assert!(leased.iter().all(|lease| lease.priority == priority));
}

on_both!(tasks_go_into_another_queue_and_fire_there);
async fn tasks_go_into_another_queue_and_fire_there(rig: Rig) {
    let tasks = rig.insert("mail", 15).await;
    rig.insert("sms", 1).await;
    let into_sms = Action::SetQueue { queue: name("sms") };
    assert_eq!(ended(&rig, bulk(into_sms.clone(), "mail")).await, done(15));
    assert_eq!(ended(&rig, bulk(into_sms, "mail")).await, done(0), "none is left");
    for each_task in &tasks {
        let task = rig.task(each_task).await;
        assert_eq!((task.ask.queue.queue.as_str(), task.ask.execute_at), ("sms", each_task.ask.execute_at));
        let last = task.history.last().unwrap();
        assert_eq!(last.reason.as_deref(), Some("from queue mail to sms"));
    }
    rig.is_balanced().await;
    rig.clock.set(START.plus(HOUR_MS));
    assert_eq!(leased(&rig, "mail").await.len(), 0, "no entry of the old queue fires");
    assert_eq!(leased(&rig, "sms").await.len(), 16);
    rig.is_balanced().await;
}

on_both!(what_has_fired_stays_in_its_queue);
async fn what_has_fired_stays_in_its_queue(rig: Rig) {
    let tasks = rig.insert("mail", 3).await;
    assert_eq!(ended(&rig, bulk(Action::RunNow, "mail")).await, done(3));
    rig.clock.advance_ms(1_000);
    rig.engine.run_once().await.unwrap();
    rig.engine.run_once().await.unwrap();
    let into_sms = bulk(Action::SetQueue { queue: name("sms") }, "mail");
    let tally = ended(&rig, into_sms).await;
    assert_eq!((tally.done, tally.failed), (0, 0));
    assert!(rig.task(&tasks[0]).await.ask.queue.queue == name("mail"));
    assert_eq!(leased(&rig, "mail").await.len(), 3, "each once");
    assert_eq!(leased(&rig, "sms").await.len(), 0);
}

on_both!(a_queue_that_is_full_takes_no_more_than_it_may_have);
async fn a_queue_that_is_full_takes_no_more_than_it_may_have(rig: Rig) {
    rig.insert("mail", 15).await;
    let of_sms = QueueKey { namespace: Name::default_namespace(), queue: name("sms") };
    let capped = QueueSettings { max_waiting: Some(6), ..QueueSettings::default() };
    let save = SaveSetting {
        scope: Scope::Queue(of_sms),
        setting: Some(Setting::Queue(Box::new(capped))),
        expected: None,
        by: "test".to_owned(),
    };
    rig.engine.save_setting(save).await.unwrap();
    let id = rig.confirmed(bulk(Action::SetQueue { queue: name("sms") }, "mail")).await.id;
    rig.run().await;
    let waits_for = rig.get(id).await.progress.waits_for.unwrap();
    assert!(waits_for.contains("queue sms: the queue is full"), "{waits_for}");
    let ended = rig.until_the_end(id).await;
    assert_eq!(ended.progress.tally, Tally { done: 6, skipped: 0, failed: 9 });
    assert_eq!(rig.runner.failures(id, i64::MIN, 100).await.unwrap().len(), 9);
}

on_both!(the_dead_are_redriven_and_those_that_wait_are_buried);
async fn the_dead_are_redriven_and_those_that_wait_are_buried(rig: Rig) {
    let tasks = rig.insert("mail", 12).await;
    assert_eq!(ended(&rig, bulk(Action::Bury, "mail")).await, done(12));
    let buried = rig.task(&tasks[0]).await;
    assert_eq!((buried.state, buried.last_error.as_deref()), (State::Dead, Some("a test")));
    rig.clock.set(START.plus(2 * HOUR_MS));
    assert_eq!(leased(&rig, "mail").await.len(), 0, "what is buried does not run");
    let of_what = Filter { error: Some("a test".to_owned()), ..Filter::default() };
    let redrive = Bulk { filter: of_what, ..bulk(Action::Redrive, "mail") };
    assert_eq!(ended(&rig, redrive).await, done(12));
    assert_eq!(leased(&rig, "mail").await.len(), 12);
    rig.is_balanced().await;
}

on_both!(what_has_fired_is_buried_too_unless_an_executor_has_it);
async fn what_has_fired_is_buried_too_unless_an_executor_has_it(rig: Rig) {
    let tasks = rig.insert("mail", 3).await;
    assert_eq!(ended(&rig, bulk(Action::RunNow, "mail")).await, done(3));
    for _ in 0..3 {
        rig.clock.advance_ms(1_000);
        rig.engine.run_once().await.unwrap();
    }
    assert_eq!(states(&rig, &tasks).await, [State::Ready; 3]);
    let bury = bulk(Action::Bury, "mail");
    assert_eq!(ended(&rig, bury.clone()).await, done(3));
    assert_eq!(leased(&rig, "mail").await.len(), 0);
    assert_eq!(ended(&rig, bulk(Action::Redrive, "mail")).await, done(3));
    assert_eq!(leased(&rig, "mail").await.len(), 3);
    assert_eq!(ended(&rig, bury).await, done(0), "they are with their executor");
    rig.is_balanced().await;
}

on_both!(finished_tasks_are_deleted_and_no_others);
async fn finished_tasks_are_deleted_and_no_others(rig: Rig) {
    let finished = rig.insert("mail", 12).await;
    assert_eq!(ended(&rig, bulk(Action::RunNow, "mail")).await, done(12));
    recorded(&rig, "mail", Report::Succeeded).await;
    let waiting = rig.insert("mail", 3).await;
    let cancelled = rig.insert("sms", 2).await;
    assert_eq!(ended(&rig, bulk(CANCEL, "sms")).await, done(2));
    let all = Bulk { filter: Filter::default(), ..bulk(Action::Delete, "mail") };
    assert_eq!(ended(&rig, all).await, done(14));
    for task in finished.iter().chain(&cancelled) {
        assert!(matches!(rig.engine.read(task.place).await, Err(punctual_engine::Error::NotFound)));
    }
    assert_eq!(states(&rig, &waiting).await, [State::Scheduled; 3]);
    rig.is_balanced().await;
    let one = rig.engine.delete(waiting[0].place, |_| true).await.unwrap();
    assert!(matches!(one, Some(punctual_engine::Deleted::Refused(_))), "{one:?}");
}

on_both!(what_is_exported_is_counted_and_read_and_stays_as_it_is);
async fn what_is_exported_is_counted_and_read_and_stays_as_it_is(rig: Rig) {
    let tasks = rig.insert("mail", 12).await;
    rig.insert("sms", 2).await;
    let id = rig.confirmed(bulk(Action::Export, "mail")).await.id;
    let ended = rig.until_the_end(id).await;
    assert_eq!(ended.progress.tally, done(12));
    rig.clock.advance_ms(1);
    rig.insert("mail", 1).await;
    let (mut read, mut before_id) = (Vec::new(), None);
    loop {
        let punctual_bulk::FoundOf { tasks: page, next, .. } =
            rig.runner.tasks(&ended, before_id, 5).await.unwrap();
        assert!(page.len() <= 5);
        read.extend(page.into_iter().map(|task| task.place.id));
        before_id = next;
        if next.is_none() {
            break;
        }
    }
    let mut wanted: Vec<i64> = tasks.iter().map(|task| task.place.id).collect();
    wanted.reverse();
    assert_eq!(read, wanted, "the newest first, and nothing that came later");
    assert_eq!(states(&rig, &tasks).await, [State::Scheduled; 12]);
}

on_both!(running_tasks_are_asked_to_stop_if_that_is_wished);
async fn running_tasks_are_asked_to_stop_if_that_is_wished(rig: Rig) {
    let tasks = rig.insert("mail", 4).await;
    assert_eq!(ended(&rig, bulk(Action::RunNow, "mail")).await, done(4));
    let leased = leased(&rig, "mail").await;
    assert_eq!(leased.len(), 4);
    assert_eq!(ended(&rig, bulk(CANCEL, "mail")).await, done(0), "they have fired");
    assert_eq!(ended(&rig, bulk(Action::Cancel { stop_if_fired: true }, "mail")).await, done(4));
    for task in &tasks {
        assert!(rig.task(task).await.lease.is_some_and(|lease| lease.cancel_requested));
    }
}
