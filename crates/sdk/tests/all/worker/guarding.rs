//! The guard of the server: attempts that are delivered twice.

use super::{Running, a_minute};
use crate::fake::Fake;
use punctual_sdk::{
    Task, Worked,
    protocol::{Outcome, OutcomeKind},
};

/// The first executor of `a` has sent a heartbeat and runs it; `b` is lost; the database of `c` does not answer.
#[tokio::test(start_paused = true)]
async fn under_the_servers_guard_an_attempt_that_was_delivered_twice_runs_once() {
    let fake = Fake::new();
    fake.change(|kept| {
        kept.begun.insert("token of a".to_owned());
        kept.lost.insert("b".to_owned());
        kept.unavailable.insert("c".to_owned());
    });
    let running = Running::start(fake.worker().guard_by_server().handle("k", |task: Task| async move {
        assert!(task.reference() != "a" && task.reference() != "b", "another executor's");
        Ok(())
    }));
    for reference in ["a", "b", "c", "d"] {
        fake.put(reference, "k");
    }
    assert_eq!(fake.outcome("d").await.outcome, OutcomeKind::Succeeded);
    fake.change(|kept| kept.unavailable.clear());
    assert_eq!(fake.outcome("c").await.outcome, OutcomeKind::Succeeded);
    a_minute().await;
    assert_eq!(running.end().await, Worked { succeeded: 2, ..Worked::default() });
    let is_others = |outcome: &&Outcome| outcome.r#ref == "a" || outcome.r#ref == "b";
    assert_eq!(fake.kept().reports.iter().flatten().find(is_others), None);
}

/// The fence decides alone then.
#[tokio::test(start_paused = true)]
async fn tasks_run_where_the_server_cannot_guard_them() {
    for is_old in [false, true] {
        let fake = Fake::new();
        fake.change(|kept| {
            kept.is_old = is_old;
            if !is_old {
                kept.lose_answers.push_back("/heartbeats");
            }
        });
        fake.put("a", "k");
        let running =
            Running::start(fake.worker().guard_by_server().handle("k", |_: Task| async move { Ok(()) }));
        assert_eq!(fake.outcome("a").await.outcome, OutcomeKind::Succeeded, "old: {is_old}");
        running.end().await;
    }
}
