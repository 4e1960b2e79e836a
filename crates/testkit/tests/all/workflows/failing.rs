//! One workflow that fails, or does not add up, beside others that continue.

use super::rig::{WorkflowsRig, document, echo, node, on_both};
use punctual_contract::{
    store::Applied,
    workflows::{AdvanceWorkflow, Carried, ChangedNode, WorkflowId},
};
use punctual_domain::{
    outcome::Report,
    workflow::{Node, NodeKey, NodeRow, NodeState, WorkflowState},
};
use punctual_engine::AlertKind;
use punctual_testkit::patience::until;
use punctual_workflows::Error;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

on_both!(a_workflow_that_cannot_be_looked_at_is_put_off_and_the_others_go_on);
async fn a_workflow_that_cannot_be_looked_at_is_put_off_and_the_others_go_on(rig: WorkflowsRig) {
    let chain = || document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]);
    let (bad, good) = (rig.begin(chain(), "1").await, rig.begin(chain(), "2").await);
    rig.run_once().await;
    for lease in rig.leased().await {
        rig.report_holders(&lease, Report::Succeeded, None).await;
    }
    let other = rig.beside();
    other.faulty.unreadable.lock().insert(bad);
    other.clock.advance_ms(70_000);
    other.runner.run_once(other.now()).await.unwrap_err();
    assert_eq!(other.state(good, "a").await, NodeState::Succeeded);
    assert_eq!(rig.state(bad, "a").await, NodeState::Open);
    assert_eq!(other.current(bad).await.wake_at, Some(other.now().plus(1_000)), "and not at once again");
    other.faulty.unreadable.lock().clear();
    other.clock.advance_ms(1_000);
    other.runner.run_once(other.now()).await.unwrap();
    assert_eq!(other.state(bad, "a").await, NodeState::Succeeded);
}

on_both!(an_end_that_cannot_be_gone_on_with_is_kept_and_holds_up_no_other);
async fn an_end_that_cannot_be_gone_on_with_is_kept_and_holds_up_no_other(rig: WorkflowsRig) {
    let each = |input: &str| {
        let each = Node { for_each: Some("input".to_owned()), ..node("each", &[]) };
        (document(vec![("each", each), ("last", node("last", &["each"]))]), input.to_owned())
    };
    let ((of_bad, input), (of_good, _)) = (each("[1, 2, 3]"), each("[1, 2, 3]"));
    let (bad, good) = (rig.begin(of_bad, &input).await, rig.begin(of_good, &input).await);
    rig.run_once().await;
    rig.faulty.unreadable.lock().insert(bad);
    for lease in rig.leased().await {
        rig.report(&lease, Report::Succeeded, None).await;
    }
    rig.runner.go_on().await.unwrap_err();
    assert_eq!(rig.state(good, "each").await, NodeState::Succeeded);
    assert_eq!(rig.runner.go_on().await.unwrap(), 0, "it waits a second");
    rig.faulty.unreadable.lock().clear();
    assert_eq!(rig.state(bad, "each").await, NodeState::Open);
    rig.clock.advance_ms(1_000);
    assert_eq!(rig.runner.go_on().await.unwrap(), 1, "all of them at once");
    assert_eq!(rig.state(bad, "each").await, NodeState::Succeeded);
    assert_eq!(rig.work(echo).await, ["last", "last"]);
}

async fn broken(rig: &WorkflowsRig, id: WorkflowId, key: NodeKey, row: NodeRow) {
    let mut applied = Applied::Lost;
    while applied == Applied::Lost {
        let stored = rig.current(id).await;
        let advance = AdvanceWorkflow {
            id,
            step: stored.step,
            state: stored.state,
            progress: stored.progress,
            wake_at: stored.wake_at,
            rows: vec![ChangedNode { key, row, carried: Carried::default() }],
            mark: None,
        };
        applied = rig.workflows.advance_workflow(advance, rig.now()).await.unwrap();
    }
}

on_both!(a_workflow_whose_rows_do_not_add_up_is_an_alert_until_they_do);
async fn a_workflow_whose_rows_do_not_add_up_is_an_alert_until_they_do(rig: WorkflowsRig) {
    let each = Node { for_each: Some("[1, 2]".to_owned()), ..node("each", &[]) };
    let id = rig.begin(document(vec![("each", each)]), "null").await;
    rig.run_once().await;
    assert_eq!(rig.runner.reconcile().await.unwrap(), 0);
    // A fan-out of three, of which one item is nowhere.
    let open = NodeRow { state: NodeState::Open, attempt: 1, ..NodeRow::default() };
    broken(&rig, id, NodeKey::node(0), NodeRow { items: Some(3), ..open }).await;
    rig.pass(10).await;
    assert!(rig.runner.reconcile().await.is_err());
    let running = rig.engine.start().unwrap();
    let runner = rig.runner.clone();
    running.supervise("workflow_reconciler", Duration::from_millis(10), move |_| {
        let runner = runner.clone();
        async move { runner.reconcile().await }
    });
    let is_alarmed = || async {
        let alerts = rig.engine.alerts().await.unwrap();
        let is_it = |text: &str| text.contains("workflow_reconciler");
        alerts.iter().any(|alert| alert.kind == AlertKind::ServiceFailing && is_it(&alert.text))
    };
    until("it is an alert", is_alarmed).await;
    broken(&rig, id, NodeKey::node(0), NodeRow { items: Some(2), ..open }).await;
    let is_quiet = || async {
        // An alert is kept for a while after it was last so.
        rig.clock.advance_ms(100);
        !is_alarmed().await
    };
    until("it is none any more", is_quiet).await;
    running.stop().await;
    assert_eq!(rig.runner.reconcile().await.unwrap(), 0);
}

on_both!(a_row_of_no_node_does_not_add_up);
async fn a_row_of_no_node_does_not_add_up(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    let open = NodeRow { state: NodeState::Open, attempt: 1, ..NodeRow::default() };
    broken(&rig, id, NodeKey::node(7), open).await;
    rig.pass(10).await;
    assert!(rig.runner.reconcile().await.is_err());
}

on_both!(a_command_that_others_are_always_faster_than_has_a_definite_answer);
async fn a_command_that_others_are_always_faster_than_has_a_definite_answer(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    rig.faulty.is_contended.store(true, Relaxed);
    let refused = rig.runner.cancel(id, "why not").await.unwrap_err();
    assert!(matches!(refused, Error::Contended), "{refused:?}");
    rig.faulty.is_contended.store(false, Relaxed);
    rig.runner.cancel(id, "why not").await.unwrap();
    rig.run_once().await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Cancelled);
}

on_both!(a_node_waits_as_long_as_its_delay_says_whoever_makes_its_task);
async fn a_node_waits_as_long_as_its_delay_says_whoever_makes_its_task(rig: WorkflowsRig) {
    let waits = Node { delay_ms: Some(60_000), ..node("b", &["a"]) };
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", waits)]), "null").await;
    rig.run_once().await;
    let a = rig.leased().await.remove(0);
    rig.store
        .faults
        .set(punctual_testkit::faults::StoreGroup::Insert, punctual_testkit::faults::Dials::REFUSES);
    rig.report(&a, Report::Succeeded, None).await;
    assert!(rig.runner.go_on().await.is_err(), "its step is committed, and its task is not made");
    let begun = rig.now();
    rig.store.faults.heal();
    assert_eq!(rig.tasks().await.len(), 1);
    rig.pass(6).await;
    let b = rig.tasks().await.into_iter().find(|task| task.ask.kind.as_str() == "b").unwrap();
    assert_eq!(b.due_at, begun.plus(60_000), "from its beginning, and not from when its task was made");
    rig.pass(53).await;
    assert_eq!(rig.work(echo).await, [""; 0]);
    rig.pass(2).await;
    assert_eq!(rig.work(echo).await, ["b"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
}
