//! The worker against a server in process, under a paused clock: minutes pass in no time, and waits are exact.

mod guarding;
mod refused_progress;
mod several;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::fake::Fake;
use punctual_sdk::protocol::{Code, LeasedTask, NewLogLine, OutcomeKind, Problem, Wish};
use punctual_sdk::{CancellationToken, Error, HandlerError, Task, Worked, Worker};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);

async fn a_minute() {
    sleep(MINUTE).await;
}

/// A worker that runs beside the test.
struct Running {
    shutdown: CancellationToken,
    work: JoinSet<Result<Worked, Error>>,
}

impl Running {
    fn start(worker: Worker) -> Self {
        let shutdown = worker.shutdown();
        let mut work = JoinSet::new();
        work.spawn(worker.run());
        Self { shutdown, work }
    }

    async fn end(mut self) -> Worked {
        self.shutdown.cancel();
        let ended = self.work.join_next().await.expect("it was started").expect("it does not panic");
        ended.expect("its settings can work")
    }
}

/// Notes that a handler was dropped before it ended.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_leased_run_and_reported_with_its_result() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle("double", |task: Task| async move {
        let number: u32 = task.payload()?;
        Ok(number * 2)
    }));
    let payload = Some(punctual_sdk::json(&21).unwrap());
    fake.put_task(
        "q",
        LeasedTask { r#ref: "a".into(), kind: "double".into(), payload, ..LeasedTask::default() },
    );
    let outcome = fake.outcome("a").await;
    assert_eq!((outcome.outcome, outcome.result.unwrap().get()), (OutcomeKind::Succeeded, "42"));
    assert_eq!(running.end().await, Worked { succeeded: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt_and_the_worker_goes_on() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().concurrency(1).handle("bad", |task: Task| async move {
        if task.reference() == "a" { panic!("boom {}", 7) } else { Ok(()) }
    }));
    fake.put("a", "bad");
    fake.put("b", "bad");
    let outcome = fake.outcome("a").await;
    assert_eq!(
        (outcome.outcome, outcome.status_msg.as_deref()),
        (OutcomeKind::Failed, Some("panicked: boom 7"))
    );
    assert_eq!(fake.outcome("b").await.outcome, OutcomeKind::Succeeded);
    assert_eq!(running.end().await, Worked { succeeded: 1, failed: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn the_worker_waits_for_a_server_that_is_not_there_yet() {
    let fake = Fake::new();
    fake.away(true);
    let running = Running::start(fake.worker().handle_any(|_| async { Ok(()) }));
    sleep(10 * MINUTE).await;
    fake.put("a", "k");
    fake.away(false);
    let back = Instant::now();
    assert_eq!(fake.outcome("a").await.outcome, OutcomeKind::Succeeded);
    assert!(back.elapsed() < Duration::from_secs(11), "{:?}", back.elapsed());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_outcome_survives_an_outage_that_is_longer_than_its_lease() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle_any(|_| async {
        sleep(Duration::from_secs(5)).await;
        Ok("kept")
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    fake.away(true);
    sleep(3 * MINUTE).await;
    assert!(fake.outcomes().is_empty());
    fake.away(false);
    assert_eq!(fake.outcome("a").await.result.unwrap().get(), "\"kept\"");
    fake.put("b", "k");
    fake.outcome("b").await;
    assert_eq!(running.end().await, Worked { succeeded: 2, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_outcome_is_given_up_and_counted() {
    let fake = Fake::new();
    let worker = fake.worker().lease(Duration::from_secs(1)).handle_any(|task: Task| async move {
        sleep(if task.reference() == "a" { Duration::from_millis(100) } else { Duration::ZERO }).await;
        Ok(())
    });
    let running = Running::start(worker);
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    fake.away(true);
    sleep(MINUTE).await;
    fake.away(false);
    fake.put("b", "k");
    fake.outcome("b").await;
    assert_eq!(running.end().await, Worked { succeeded: 1, unreported: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn an_outcome_whose_lease_was_lost_before_it_was_reported_is_dropped() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle_any(|_| async { Ok(()) }));
    fake.until(|kept| kept.polling == 1).await;
    // Reports fail, heartbeats succeed.
    let busy = Problem::new(Code::Overload, "");
    fake.change(|kept| kept.refuse_reports = Some(busy));
    fake.put("a", "k");
    fake.until(|kept| !kept.beats.is_empty()).await;
    fake.change(|kept| kept.lost.insert("a".into()));
    fake.until(|kept| kept.beats.len() == 2).await;
    sleep(Duration::from_secs(2)).await;
    fake.change(|kept| kept.refuse_reports = None);
    assert_eq!(running.end().await, Worked { lost: 1, ..Worked::default() });
    assert!(fake.kept().reports.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_answer_was_lost_is_sent_again_and_counts_once() {
    let fake = Fake::new();
    fake.change(|kept| kept.lose_answers.push_back("/outcomes"));
    let running = Running::start(fake.worker().handle_any(|_| async { Ok(()) }));
    fake.put("a", "k");
    fake.until(|kept| kept.reports.len() == 2).await;
    assert_eq!(fake.kinds(), [("a".to_owned(), OutcomeKind::Succeeded)]);
    assert_eq!(running.end().await, Worked { stale: 1, ..Worked::default() });
}

/// One database of the server is unavailable: its outcomes are sent again until it returns, and do not delay
/// others.
#[tokio::test(start_paused = true)]
async fn outcomes_that_a_database_does_not_take_are_sent_again_and_hold_up_no_others() {
    let fake = Fake::new();
    fake.change(|kept| kept.unavailable.insert("away".into()));
    let running = Running::start(fake.worker().concurrency(5).handle_any(|_| async { Ok(()) }));
    fake.put("away", "k");
    fake.put("with it", "k");
    fake.outcome("with it").await;
    sleep(MINUTE / 2).await;
    let asked = Instant::now();
    fake.put("later", "k");
    fake.outcome("later").await;
    assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
    let tries = fake.kept().reports.len();
    assert!((15..60).contains(&tries), "{tries} in half a minute");
    fake.change(|kept| kept.unavailable.clear());
    fake.outcome("away").await;
    assert_eq!(running.end().await, Worked { succeeded: 3, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn what_is_accepted_for_later_is_done_and_not_reported_again() {
    let fake = Fake::new();
    fake.change(|kept| kept.journalled.insert("a".into()));
    let running = Running::start(fake.worker().handle_any(|_| async { Ok(()) }));
    fake.put("a", "k");
    fake.outcome("a").await;
    sleep(MINUTE).await;
    assert_eq!(fake.kept().reports.len(), 1);
    assert_eq!(running.end().await, Worked { succeeded: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn of_a_lease_of_which_nothing_is_known_the_progress_is_sent_again_soon() {
    let fake = Fake::new();
    fake.change(|kept| kept.unavailable.insert("a".into()));
    let began = Instant::now();
    let running =
        Running::start(fake.worker().lease(Duration::from_secs(30)).handle_any(|task: Task| async move {
            task.progress("half")?;
            sleep(Duration::from_secs(15)).await;
            Ok(())
        }));
    fake.put("a", "k");
    fake.until(|kept| kept.beats.len() == 1).await;
    fake.change(|kept| kept.unavailable.clear());
    fake.outcome("a").await;
    let (at, beat) = fake.kept().beats[1].clone();
    assert_eq!(at.duration_since(began), Duration::from_millis(12_500), "sooner than after a good one");
    assert_eq!(beat.leases[0].progress.as_ref().unwrap().get(), "\"half\"");
    assert_eq!(running.end().await, Worked { succeeded: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn heartbeats_go_out_three_times_in_a_lease_and_carry_progress() {
    let fake = Fake::new();
    let worker =
        fake.worker().concurrency(7).lease(Duration::from_secs(30)).handle_any(|task: Task| async move {
            task.progress(&0.5)?;
            sleep(Duration::from_secs(65)).await;
            Ok(())
        });
    let began = Instant::now();
    let running = Running::start(worker);
    fake.put("a", "k");
    fake.outcome("a").await;
    let beats: Vec<_> = fake.kept().beats.clone();
    let times: Vec<_> = beats.iter().map(|(at, _)| at.duration_since(began).as_secs()).collect();
    assert_eq!(times, [10, 20, 30, 40, 50, 60]);
    let progress: Vec<_> =
        beats.iter().map(|(_, beat)| beat.leases[0].progress.as_ref().map(|p| p.get().to_owned())).collect();
    assert_eq!(progress, [Some("0.5".to_owned()), None, None, None, None, None]);
    let (_, first) = &beats[0];
    assert_eq!(
        (first.executor.as_str(), first.capacity, first.leases[0].token.as_str()),
        ("w-1", Some(7), "token of a")
    );
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_fails_is_sent_again_sooner_with_its_progress() {
    let fake = Fake::new();
    let began = Instant::now();
    let running =
        Running::start(fake.worker().lease(Duration::from_secs(30)).handle_any(|task: Task| async move {
            task.progress("half")?;
            sleep(Duration::from_secs(15)).await;
            Ok(())
        }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    sleep(Duration::from_secs(8)).await;
    fake.away(true);
    sleep(Duration::from_secs(3)).await;
    fake.away(false);
    fake.outcome("a").await;
    let (at, beat) = fake.kept().beats[0].clone();
    assert_eq!(at.duration_since(began), Duration::from_millis(12_500));
    assert_eq!(beat.leases[0].progress.as_ref().unwrap().get(), "\"half\"");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_drops_the_handler_and_its_outcome() {
    let fake = Fake::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = dropped.clone();
    let running = Running::start(fake.worker().handle_any(move |task: Task| {
        let guard = Dropped(seen.clone());
        async move {
            let _guard = guard;
            sleep(if task.reference() == "a" { 60 * MINUTE } else { Duration::ZERO }).await;
            Ok(())
        }
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    fake.change(|kept| kept.lost.insert("a".into()));
    sleep(Duration::from_secs(11)).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    fake.put("b", "k");
    fake.outcome("b").await;
    assert_eq!(running.end().await, Worked { succeeded: 1, lost: 1, ..Worked::default() });
    assert_eq!(fake.kinds(), [("b".to_owned(), OutcomeKind::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_that_it_should_stop_and_its_outcome_counts() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle_any(|task: Task| async move {
        assert!(!task.is_cancelled());
        task.cancelled().await;
        Err::<(), _>(HandlerError::reject("stopped on request"))
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    fake.change(|kept| kept.cancel.insert("a".into()));
    let outcome = fake.outcome("a").await;
    assert_eq!(
        (outcome.outcome, outcome.status_msg.as_deref()),
        (OutcomeKind::Reject, Some("stopped on request"))
    );
    assert_eq!(running.end().await, Worked { rejected: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_the_same_moment_go_in_one_report() {
    let fake = Fake::new();
    let together = Arc::new(Barrier::new(300));
    for i in 0..300 {
        fake.put(&format!("t{i}"), "k");
    }
    let running = Running::start(fake.worker().concurrency(300).handle_any(move |_| {
        let together = together.clone();
        async move {
            together.wait().await;
            Ok(())
        }
    }));
    fake.until(|kept| kept.reports.concat().len() == 300).await;
    assert_eq!(fake.kept().reports.len(), 1);
    assert_eq!(running.end().await.succeeded, 300);
}

#[tokio::test(start_paused = true)]
async fn only_as_many_tasks_are_leased_as_there_are_free_slots() {
    let fake = Fake::new();
    for i in 0..9 {
        fake.put(&format!("t{i}"), "k");
    }
    let at_once = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (at_once.clone(), most.clone());
    let running = Running::start(fake.worker().concurrency(2).handle_any(move |_| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    }));
    fake.until(|kept| kept.reports.concat().len() == 9).await;
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert!(fake.kept().leases.iter().all(|(_, request)| (1..=2).contains(&request.max)));
    assert_eq!(running.end().await.succeeded, 9);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_longer_than_its_timeout_has_failed() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle_any(|_| async {
        sleep(MINUTE).await;
        Ok(())
    }));
    fake.put_task("q", LeasedTask { r#ref: "a".into(), timeout_ms: Some(1_500), ..LeasedTask::default() });
    let began = Instant::now();
    let outcome = fake.outcome("a").await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(outcome.status_msg.as_deref(), Some("ran longer than its timeout of 1 s 500 ms"));
    assert_eq!(running.end().await.failed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_running_handlers_finish_and_takes_nothing_new() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().concurrency(2).handle_any(|_| async {
        sleep(Duration::from_secs(20)).await;
        Ok(())
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    running.shutdown.cancel();
    fake.until(|kept| kept.polling == 0).await;
    fake.put("b", "k");
    let began = Instant::now();
    assert_eq!(running.end().await, Worked { succeeded: 1, ..Worked::default() });
    assert!(began.elapsed() < Duration::from_secs(21), "{:?}", began.elapsed());
    assert_eq!(fake.kinds(), [("a".to_owned(), OutcomeKind::Succeeded)]);
    assert_eq!(fake.kept().waiting["q"].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_grace_is_handed_back_at_once() {
    let fake = Fake::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = dropped.clone();
    let running = Running::start(fake.worker().grace(Duration::from_secs(5)).handle_any(move |_| {
        let guard = Dropped(seen.clone());
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
            Ok(())
        }
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    let began = Instant::now();
    assert_eq!(running.end().await, Worked { handed_back: 1, ..Worked::default() });
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let outcome = fake.outcome("a").await;
    assert_eq!((outcome.outcome, outcome.retry_after_ms), (OutcomeKind::Snooze, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_also_when_the_server_is_away() {
    let fake = Fake::new();
    let running = Running::start(fake.worker().handle_any(|_| async {
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    fake.away(true);
    let began = Instant::now();
    assert_eq!(running.end().await, Worked { unreported: 1, ..Worked::default() });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_server_refuses_becomes_a_failed_attempt_and_holds_up_no_other() {
    let fake = Fake::new();
    fake.change(|kept| kept.result_max = Some(100));
    let running = Running::start(fake.worker().handle_any(|task: Task| async move {
        Ok("x".repeat(if task.reference() == "long" { 1_000 } else { 1 }))
    }));
    fake.put("long", "k");
    fake.put("short", "k");
    assert_eq!(fake.outcome("short").await.outcome, OutcomeKind::Succeeded);
    let long = fake.outcome("long").await;
    assert_eq!((long.outcome, long.result), (OutcomeKind::Failed, None));
    assert!(long.status_msg.unwrap().contains("the result is too long"));
    assert_eq!(running.end().await, Worked { succeeded: 1, failed: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_too_large_is_halved_until_it_fits() {
    let fake = Fake::new();
    fake.change(|kept| kept.report_max = Some(2_000));
    for i in 0..32 {
        fake.put(&format!("t{i}"), "k");
    }
    fake.put("huge", "k");
    let running = Running::start(fake.worker().concurrency(33).handle_any(|task: Task| async move {
        Ok("x".repeat(if task.reference() == "huge" { 5_000 } else { 100 }))
    }));
    fake.until(|kept| kept.reports.concat().len() == 33).await;
    assert_eq!(fake.outcome("huge").await.outcome, OutcomeKind::Failed);
    assert_eq!(running.end().await, Worked { succeeded: 32, failed: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn dropping_a_worker_drops_its_handlers() {
    let fake = Fake::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = dropped.clone();
    let mut running = Running::start(fake.worker().handle_any(move |_| {
        let guard = Dropped(seen.clone());
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
            Ok(())
        }
    }));
    fake.put("a", "k");
    fake.until(|kept| !kept.held.is_empty()).await;
    running.work.shutdown().await;
    tokio::task::yield_now().await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_at_the_start() {
    let fake = Fake::new();
    let fine = || fake.worker().handle_any(|_| async { Ok(()) });
    for (what, worker) in [
        ("no handler", fake.worker()),
        ("no queue", Worker::new(fake.client()).handle_any(|_| async { Ok(()) })),
        ("no slot", fine().concurrency(0)),
        ("a short lease", fine().lease(Duration::from_millis(99))),
        ("a long wait", fine().wait(Duration::from_secs(61))),
        ("a bad name", fine().executor("a b")),
    ] {
        assert!(matches!(worker.run().await, Err(Error::Configuration { .. } | Error::Refused(_))), "{what}");
    }
    assert!(fake.kept().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_finishes_what_it_has_however_long_it_takes_and_says_farewell() {
    let fake = Fake::new();
    let worker = fake.worker().version("2.1.0").label("zone", "a").grace(Duration::from_secs(1));
    let mut running = Running::start(worker.handle("long", |_| async {
        sleep(10 * MINUTE).await;
        Ok("done")
    }));
    fake.put("a", "long");
    fake.until(|kept| kept.held.len() == 1).await;
    fake.change(|kept| kept.wish = Some(Wish::Drain));
    let worked = running.work.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((worked.succeeded, worked.handed_back), (1, 0), "{worked:?}");
    assert!(!running.shutdown.is_cancelled(), "it ended by itself");
    fake.put("b", "long");
    assert_eq!(fake.kept().waiting["q"].len(), 1, "nobody takes more");
    let (_, last) = fake.kept().beats.last().unwrap().clone();
    assert!(last.leaving && last.leases.is_empty(), "{last:?}");
    let (_, asked) = fake.kept().leases[0].clone();
    assert_eq!((asked.version.as_deref(), asked.capacity), (Some("2.1.0"), Some(16)));
    assert_eq!(asked.kinds, Some(["long".to_owned()].into()));
    assert_eq!((last.version, last.queues), (Some("2.1.0".to_owned()), Some(["q".to_owned()].into())));
    assert_eq!(last.labels, Some([("zone".to_owned(), "a".to_owned())].into()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_drain_that_takes_too_long() {
    let fake = Fake::new();
    let worker = fake.worker().grace(Duration::from_secs(1));
    let running = Running::start(worker.handle("endless", |_| async {
        std::future::pending::<()>().await;
        Ok(())
    }));
    fake.put("a", "endless");
    fake.until(|kept| kept.held.len() == 1).await;
    fake.change(|kept| kept.wish = Some(Wish::Drain));
    sleep(10 * MINUTE).await;
    assert_eq!(fake.outcomes(), []);
    let worked = running.end().await;
    assert_eq!(worked.handed_back, 1, "{worked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_goes_out_with_heartbeats_and_the_outcome_once() {
    let fake = Fake::new();
    let running =
        Running::start(fake.worker().lease(Duration::from_secs(30)).handle("k", |task: Task| async move {
            task.log("info", "begun");
            sleep(Duration::from_secs(15)).await;
            task.log("warn", "nearly done");
            Ok(())
        }));
    fake.put("a", "k");
    let outcome = fake.outcome("a").await;
    running.end().await;
    let texts = |log: &[NewLogLine]| log.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
    let beats = fake.kept().beats.clone();
    let said: Vec<_> =
        beats.iter().flat_map(|(_, beat)| &beat.leases).flat_map(|lease| texts(&lease.log)).collect();
    assert_eq!((said, texts(&outcome.log)), (vec!["begun".to_owned()], vec!["nearly done".to_owned()]));
    assert_eq!(outcome.log[0].level.as_deref(), Some("warn"));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_survives_a_heartbeat_that_fails() {
    let fake = Fake::new();
    let running =
        Running::start(fake.worker().lease(Duration::from_secs(30)).handle("k", |task: Task| async move {
            task.log("info", "said while nobody listens");
            sleep(Duration::from_secs(18)).await;
            Ok(())
        }));
    fake.put("a", "k");
    fake.until(|kept| kept.held.len() == 1).await;
    fake.away(true);
    sleep(Duration::from_secs(11)).await;
    fake.away(false);
    fake.outcome("a").await;
    running.end().await;
    let beats = fake.kept().beats.clone();
    let said: Vec<_> = beats.iter().flat_map(|(_, beat)| &beat.leases).flat_map(|lease| &lease.log).collect();
    assert_eq!(said.len(), 1, "{said:?}");
}

#[tokio::test]
async fn a_version_that_is_none_is_refused_at_the_start() {
    let worker = Fake::new().worker().version("two").handle("k", |_| async { Ok(()) });
    let error = worker.run().await.unwrap_err().to_string();
    assert!(error.contains("/version") && error.contains("major.minor.patch"), "{error}");
}
