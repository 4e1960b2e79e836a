//! The ways in which a workflow ends before its last node, and how it is continued.

use super::rig::{WorkflowsRig, document, echo, name, node, on_both, payload, undone_by, with_payload};
use punctual_domain::{
    outcome::Report,
    state::State,
    workflow::{Definition, Node, NodeState, SubWorkflow, Work, WorkflowState},
};

on_both!(what_was_done_is_undone_in_the_reverse_order_one_after_the_other);
async fn what_was_done_is_undone_in_the_reverse_order_one_after_the_other(rig: WorkflowsRig) {
    let undone =
        |kind: &str, node: Node| Node { compensate: undone_by(kind, Some(r#"{"$expr": "result"}"#)), ..node };
    let each = Node {
        for_each: Some("[10, 20]".to_owned()),
        ..with_payload("each", &["a"], r#"{"$expr": "item"}"#)
    };
    let id = rig
        .begin(
            document(vec![
                ("a", undone("undo-a", with_payload("a", &[], "1"))),
                ("each", undone("undo-each", each)),
                ("plain", node("plain", &["each"])),
                ("fails", undone("undo-fails", node("fails", &["plain"]))),
                ("never", node("never", &["fails"])),
            ]),
            "null",
        )
        .await;
    let mut undone = Vec::new();
    let ran = rig
        .work(|lease| {
            if lease.kind.as_str().starts_with("undo") {
                undone.push(payload(lease));
            }
            if lease.kind.as_str() == "fails" { Err(()) } else { echo(lease) }
        })
        .await;
    assert_eq!(ran, ["a", "each", "each", "plain", "fails", "undo-each", "undo-each", "undo-a"]);
    assert_eq!(undone, ["20", "10", "1"], "the last first, each with its own result");
    let stored = rig.current(id).await;
    assert_eq!(stored.state, WorkflowState::Compensated);
    assert_eq!(stored.progress.reason.as_deref(), Some("node \"fails\" failed: it broke"));
    assert!(rig.runner.retry(id).await.is_err(), "what was undone cannot be gone on with");
}

on_both!(a_cancelled_workflow_begins_nothing_and_asks_what_runs_to_stop);
async fn a_cancelled_workflow_begins_nothing_and_asks_what_runs_to_stop(rig: WorkflowsRig) {
    let sub = SubWorkflow { definition: document(vec![("x", node("x", &[]))]), input: None };
    let id = rig
        .begin(
            document(vec![
                ("runs", node("runs", &[])),
                ("waits", node("waits", &[])),
                ("within", Node::new(Work::Workflow(Box::new(sub)))),
                ("after", node("after", &["runs"])),
            ]),
            "null",
        )
        .await;
    rig.run_once().await;
    let leased = rig.leased().await;
    let runs = leased.iter().find(|lease| lease.kind.as_str() == "runs").unwrap();
    for lease in leased.iter().filter(|lease| lease.kind.as_str() != "runs") {
        let step = punctual_contract::store::Step {
            place: lease.place,
            fence: Some(lease.fence),
            change: punctual_contract::store::Change::Release,
            note: punctual_domain::history::Note::default(),
            fired_at: None,
            known: None,
        };
        rig.engine.store().apply(vec![step], rig.now()).await.unwrap();
    }
    rig.runner.cancel(id, "why not").await.unwrap();
    let stored = rig.current(id).await;
    assert_eq!((stored.state, stored.progress.reason.as_deref()), (WorkflowState::Running, Some("why not")));
    let states: Vec<(String, State)> =
        rig.tasks().await.iter().map(|task| (task.ask.kind.to_string(), task.state)).collect();
    assert!(states.contains(&("waits".to_owned(), State::Cancelled)), "{states:?}");
    assert!(states.contains(&("x".to_owned(), State::Cancelled)), "{states:?}");
    let held = rig.engine.read(runs.place).await.unwrap();
    assert!(held.lease.unwrap().cancel_requested);
    rig.report(runs, Report::Failed { after_ms: None }, None).await;
    rig.run_once().await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Cancelled);
    assert_eq!(rig.state(id, "after").await, NodeState::Blocked);
    assert!(rig.runner.cancel(id, "again").await.is_err());
}

on_both!(a_failed_workflow_is_gone_on_with_from_what_has_failed);
async fn a_failed_workflow_is_gone_on_with_from_what_has_failed(rig: WorkflowsRig) {
    let each = Node {
        for_each: Some("[1, 2, 3]".to_owned()),
        ..with_payload("each", &["a"], r#"{"$expr": "item"}"#)
    };
    let id = rig
        .begin(
            document(vec![("a", node("a", &[])), ("each", each), ("last", node("last", &["each"]))]),
            "null",
        )
        .await;
    let fails =
        |lease: &punctual_contract::store::Assignment| if payload(lease) == "2" { Err(()) } else { Ok(None) };
    assert_eq!(rig.work(fails).await, ["a", "each", "each", "each"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Failed);
    rig.runner.retry(id).await.unwrap();
    assert_eq!(rig.work(fails).await, ["each"], "what has succeeded is not done again");
    assert_eq!(rig.current(id).await.state, WorkflowState::Failed);
    rig.runner.retry(id).await.unwrap();
    assert_eq!(rig.work(|_| Ok(None)).await, ["each", "last"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    assert!(rig.runner.retry(id).await.is_err());
    let attempts: Vec<_> = rig
        .tasks()
        .await
        .iter()
        .filter(|task| task.ask.kind.as_str() == "each")
        .map(|task| task.ask.labels["workflow_attempt"].clone())
        .collect();
    assert_eq!(attempts.iter().filter(|attempt| *attempt == "3").count(), 1, "{attempts:?}");
}

on_both!(a_node_that_is_skipped_counts_as_done);
async fn a_node_that_is_skipped_counts_as_done(rig: WorkflowsRig) {
    let id = rig
        .begin(
            document(vec![("a", node("a", &[])), ("b", node("b", &["a"])), ("c", node("c", &["b"]))]),
            "null",
        )
        .await;
    let plan = rig.view(id).await.plan;
    rig.run_once().await;
    rig.runner.skip(id, &plan, &name("b")).await.unwrap();
    // Its task waits: it is cancelled.
    rig.runner.skip(id, &plan, &name("a")).await.unwrap();
    assert_eq!(rig.work(echo).await, ["c"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    assert_eq!((rig.state(id, "a").await, rig.state(id, "b").await), (NodeState::Passed, NodeState::Passed));
    assert!(rig.runner.skip(id, &plan, &name("c")).await.is_err(), "it has ended");
    assert!(rig.runner.skip(id, &plan, &name("z")).await.is_err());
}

on_both!(a_workflow_that_is_not_over_by_its_deadline_fails);
async fn a_workflow_that_is_not_over_by_its_deadline_fails(rig: WorkflowsRig) {
    let with_deadline = Definition {
        deadline_ms: Some(60_000),
        ..document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))])
    };
    let id = rig.begin(with_deadline, "null").await;
    rig.pass(59).await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Running);
    rig.pass(2).await;
    let stored = rig.current(id).await;
    assert_eq!(stored.state, WorkflowState::Failed);
    assert!(stored.progress.reason.unwrap().contains("deadline"));
    assert_eq!(rig.work(echo).await, [""; 0], "its task was withdrawn");
    rig.runner.retry(id).await.unwrap();
    assert_eq!(rig.work(echo).await, ["a", "b"], "with a deadline of its own");
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(a_task_of_a_node_that_somebody_cancels_fails_the_workflow);
async fn a_task_of_a_node_that_somebody_cancels_fails_the_workflow(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    let task = rig.tasks().await.remove(0);
    rig.engine.cancel(task.place, true, "bob").await.unwrap();
    rig.pass(6).await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Failed);
    assert_eq!(rig.state(id, "a").await, NodeState::Cancelled);
}
