//! A worker of several queues, and one of some kinds, with an engine that accepts several queues in one call.

use super::{Running, a_minute};
use crate::fake::Fake;
use punctual_sdk::protocol::LeasedTask;
use punctual_sdk::{Error, Task, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const MINUTE: Duration = super::MINUTE;

fn of_queue(queue: &str, nth: usize) -> LeasedTask {
    LeasedTask { r#ref: format!("{queue}{nth}"), kind: "k".into(), ..LeasedTask::default() }
}

#[tokio::test(start_paused = true)]
async fn several_queues_are_asked_for_with_one_call_and_all_slots_are_for_any_of_them() {
    let fake = Fake::new();
    fake.change(|kept| kept.takes_several = true);
    let worker = fake.worker().queue("other").concurrency(8).handle_any(|_| async {
        a_minute().await;
        Ok(())
    });
    let running = Running::start(worker);
    fake.until(|kept| kept.polling == 1).await;
    fake.change(|kept| {
        let all = (0..9).map(|nth| LeasedTask {
            token: format!("o{nth}"),
            queue: "other".into(),
            ..of_queue("other", nth)
        });
        kept.waiting.insert("other".to_owned(), all.collect());
    });
    fake.until(|kept| kept.held.len() == 8).await;
    {
        let kept = fake.kept();
        let (_, first) = &kept.leases[0];
        let names: Vec<_> = first.queues.iter().map(|queue| (queue.name.as_str(), queue.max)).collect();
        assert_eq!((names, first.max, kept.leases.len()), (vec![("q", None), ("other", None)], 8, 1));
    }
    fake.until(|kept| kept.reports.concat().len() == 9).await;
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn of_a_queue_with_a_bound_no_more_run_at_once_and_the_others_have_the_other_slots() {
    let fake = Fake::new();
    fake.change(|kept| kept.takes_several = true);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (now.clone(), most.clone());
    let worker = fake.worker().queue_up_to("slow", 2).concurrency(8).handle_any(move |task: Task| {
        let (now, most) = counts.clone();
        async move {
            if task.queue() == "slow" {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                a_minute().await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(())
        }
    });
    let running = Running::start(worker);
    (0..6).for_each(|nth| fake.put_task("slow", of_queue("slow", nth)));
    fake.until(|kept| kept.held.len() == 2).await;
    fake.until(|kept| kept.leases.last().is_some_and(|lease| lease.1.queues.len() == 1)).await;
    let began = Instant::now();
    (0..20).for_each(|nth| fake.put_task("q", of_queue("q", nth)));
    fake.until(|kept| kept.reports.concat().len() == 20).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    fake.until(|kept| kept.reports.concat().len() == 26).await;
    let waited = began.elapsed();
    assert!(waited < 3 * MINUTE + Duration::from_secs(3), "a free place is filled soon: {waited:?}");
    assert_eq!(most.load(Ordering::SeqCst), 2);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn more_queues_than_one_call_takes_all_have_their_turn() {
    let fake = Fake::new();
    fake.change(|kept| kept.takes_several = true);
    let queues = (0..39).map(|nth| format!("q{nth}"));
    let worker = queues.clone().fold(fake.worker(), Worker::queue).concurrency(2);
    let running = Running::start(worker.handle_any(|_| async { Ok(()) }));
    a_minute().await;
    let began = Instant::now();
    queues.for_each(|queue| fake.put_task(&queue, of_queue(&queue, 0)));
    fake.until(|kept| kept.reports.concat().len() == 39).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(fake.kept().leases.iter().all(|lease| (1..=16).contains(&lease.1.queues.len())));
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_whether_it_takes_only_its_own_kinds() {
    for only in [false, true] {
        let fake = Fake::new();
        let worker = fake.worker().handle("a", |_| async { Ok(()) }).handle("b", |_| async { Ok(()) });
        let running = Running::start(if only { worker.only_own_kinds() } else { worker });
        fake.until(|kept| kept.polling == 1).await;
        let asked = fake.kept().leases[0].1.clone();
        assert_eq!(asked.kinds, Some(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!(asked.only_kinds, only);
        running.end().await;
    }
    let any = Fake::new().worker().handle_any(|_| async { Ok(()) }).only_own_kinds();
    assert!(matches!(any.run().await, Err(Error::Configuration { .. })));
}

/// With an older engine, which accepts one queue per call, as below.
#[tokio::test(start_paused = true)]
async fn an_idle_queue_does_not_hold_up_a_busy_one() {
    let fake = Fake::new();
    let worker = fake.worker().queue("busy").concurrency(2).handle_any(|_| async { Ok(()) });
    let running = Running::start(worker);
    fake.until(|kept| kept.leases.len() == 2).await;
    let began = Instant::now();
    for i in 0..200 {
        fake.put_task("busy", LeasedTask { r#ref: format!("t{i}"), ..LeasedTask::default() });
    }
    fake.until(|kept| kept.reports.concat().len() == 200).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn more_queues_than_slots_take_turns() {
    let fake = Fake::new();
    let running =
        Running::start(fake.worker().queue("other").concurrency(1).handle_any(|_| async { Ok(()) }));
    a_minute().await;
    let began = Instant::now();
    fake.put("a", "k");
    fake.put_task("other", LeasedTask { r#ref: "b".into(), ..LeasedTask::default() });
    fake.until(|kept| kept.reports.concat().len() == 2).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    running.end().await;
}
