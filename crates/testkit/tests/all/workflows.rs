//! Workflows on a real engine and both kinds of back ends: nodes run in the order of their edges, each once,
//! if any engine dies between two steps; failed work is undone in reverse order. Only the test moves the
//! clock.

mod costs;
mod crashing;
mod ending;
mod failing;
mod large;
mod marks;
mod rig;

use punctual_domain::workflow::{Join, Node, NodeState, OnFailure, SubWorkflow, Work, WorkflowState};
use rig::{WorkflowsRig, document, echo, name, node, on_both, payload, with_payload};

on_both!(a_chain_runs_in_order_and_passes_results_on);
async fn a_chain_runs_in_order_and_passes_results_on(rig: WorkflowsRig) {
    let id = rig
        .begin(
            document(vec![
                ("a", with_payload("a", &[], r#"{"n": {"$expr": "input.n + 1"}}"#)),
                ("b", with_payload("b", &["a"], r#"{"$expr": "nodes.a.result.n * 10"}"#)),
                (
                    "c",
                    with_payload("c", &["b"], r#"[{"$expr": "nodes.a.state"}, {"$expr": "nodes.b.result"}]"#),
                ),
            ]),
            r#"{"n": 4}"#,
        )
        .await;
    let mut given = Vec::new();
    let ran = rig
        .work(|lease| {
            given.push(payload(lease));
            echo(lease)
        })
        .await;
    assert_eq!(ran, ["a", "b", "c"]);
    assert_eq!(given, [r#"{"n": 5}"#, "50", r#"["succeeded", 50]"#]);
    let stored = rig.current(id).await;
    assert_eq!(
        (stored.state, stored.wake_at, stored.finished_at),
        (WorkflowState::Succeeded, None, Some(rig.now()))
    );
    let tasks = rig.tasks().await;
    assert_eq!(tasks.len(), 3, "each once");
    assert!(tasks.iter().all(|task| task.ask.labels["workflow"] == id.to_string()));
    assert_eq!(rig.runner.reconcile().await.unwrap(), 0);
}

on_both!(a_fan_out_of_a_thousand_runs_once_for_each_item_and_is_joined);
async fn a_fan_out_of_a_thousand_runs_once_for_each_item_and_is_joined(rig: WorkflowsRig) {
    let each = Node {
        for_each: Some("nodes.list.result".to_owned()),
        ..with_payload("each", &["list"], r#"{"item": {"$expr": "item"}, "index": {"$expr": "index"}}"#)
    };
    let id = rig
        .begin(
            document(vec![
                ("list", node("list", &[])),
                ("each", each),
                ("sum", with_payload("sum", &["each"], r#"{"$expr": "nodes.each.result"}"#)),
            ]),
            "null",
        )
        .await;
    let list: Vec<u32> = (0..1_000).map(|nth| nth * 3).collect();
    let mut summed = String::new();
    let ran = rig
        .work(|lease| match lease.kind.as_str() {
            "list" => Ok(Some(format!("{list:?}"))),
            "each" => {
                let given: serde_json::Value = serde_json::from_str(&payload(lease)).unwrap();
                assert_eq!(given["item"], given["index"].as_u64().unwrap() * 3);
                Ok(Some(given["item"].to_string()))
            }
            _ => {
                summed = payload(lease);
                Ok(None)
            }
        })
        .await;
    assert_eq!(ran.iter().filter(|text| *text == "each").count(), 1_000);
    assert_eq!(ran.last().map(String::as_str), Some("sum"), "not before all of them");
    assert_eq!(serde_json::from_str::<Vec<u32>>(&summed).unwrap(), list);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    assert_eq!(rig.tasks().await.len(), 1_002);
}

on_both!(a_condition_leaves_a_branch_out_and_a_join_of_any_goes_on);
async fn a_condition_leaves_a_branch_out_and_a_join_of_any_goes_on(rig: WorkflowsRig) {
    let when = |text: &str, node: Node| Node { when: Some(text.to_owned()), ..node };
    let id = rig
        .begin(
            document(vec![
                ("a", node("a", &[])),
                ("large", when("nodes.a.result > 10", node("large", &["a"]))),
                ("small", when("nodes.a.result <= 10", node("small", &["a"]))),
                ("any", Node { join: Join::Any, ..node("any", &["large", "small"]) }),
                ("all", node("all", &["large", "small"])),
                ("after", node("after", &["all"])),
            ]),
            "null",
        )
        .await;
    let ran = rig.work(|_| Ok(Some("7".to_owned()))).await;
    assert_eq!(ran, ["a", "small", "any"]);
    for (of, state) in
        [("large", NodeState::Skipped), ("all", NodeState::Skipped), ("after", NodeState::Skipped)]
    {
        assert_eq!(rig.state(id, of).await, state, "{of}");
    }
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(a_failure_that_is_gone_on_from_takes_another_branch);
async fn a_failure_that_is_gone_on_from_takes_another_branch(rig: WorkflowsRig) {
    let when = |text: &str, node: Node| Node { when: Some(text.to_owned()), ..node };
    let id = rig
        .begin(
            document(vec![
                ("a", Node { on_failure: OnFailure::Continue, ..node("a", &[]) }),
                ("good", when("nodes.a.state == 'succeeded'", node("good", &["a"]))),
                ("bad", when("nodes.a.state == 'failed'", node("bad", &["a"]))),
            ]),
            "null",
        )
        .await;
    let ran = rig.work(|lease| if lease.kind.as_str() == "a" { Err(()) } else { Ok(None) }).await;
    assert_eq!(ran, ["a", "bad"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    assert_eq!(rig.error(id, "a").await, "it broke");
}

on_both!(a_workflow_is_a_node_of_another);
async fn a_workflow_is_a_node_of_another(rig: WorkflowsRig) {
    let sub = SubWorkflow {
        definition: document(vec![
            ("x", with_payload("x", &[], r#"{"$expr": "input.a"}"#)),
            ("y", with_payload("y", &["x"], r#"{"$expr": "nodes.x.result + 1"}"#)),
        ]),
        input: Some(r#"{"a": {"$expr": "nodes.first.result"}}"#.to_owned()),
    };
    let within = Node { after: vec![name("first")], ..Node::new(Work::Workflow(Box::new(sub))) };
    let id = rig
        .begin(
            document(vec![
                ("first", with_payload("first", &[], "5")),
                ("within", within),
                ("last", with_payload("last", &["within"], r#"{"$expr": "nodes.within.result.y"}"#)),
            ]),
            "null",
        )
        .await;
    let mut given = Vec::new();
    let ran = rig
        .work(|lease| {
            given.push(payload(lease));
            echo(lease)
        })
        .await;
    assert_eq!(ran, ["first", "x", "y", "last"]);
    assert_eq!(given, ["5", "5", "6", "6"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(what_cannot_be_evaluated_fails_its_node_and_says_why);
async fn what_cannot_be_evaluated_fails_its_node_and_says_why(rig: WorkflowsRig) {
    let id = rig
        .begin(
            document(vec![
                ("a", with_payload("a", &[], "1")),
                ("b", with_payload("b", &["a"], r#"{"$expr": "nodes.a.result.missing"}"#)),
            ]),
            "null",
        )
        .await;
    let ran = rig.work(echo).await;
    assert_eq!(ran, ["a"]);
    let stored = rig.current(id).await;
    assert_eq!(stored.state, WorkflowState::Failed);
    assert!(rig.error(id, "b").await.contains("nodes.a.result.missing"));
    assert!(stored.progress.reason.unwrap().contains("\"b\""));
}

on_both!(documents_of_one_name_have_versions_and_a_workflow_keeps_its_own);
async fn documents_of_one_name_have_versions_and_a_workflow_keeps_its_own(rig: WorkflowsRig) {
    let of = |nodes| punctual_domain::workflow::Definition { name: Some(name("order")), ..document(nodes) };
    let first = rig.begin(of(vec![("a", node("a", &[]))]), "1").await;
    let again = rig.begin(of(vec![("a", node("a", &[]))]), "2").await;
    let second = rig.begin(of(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "3").await;
    let (first, again, second) =
        (rig.current(first).await, rig.current(again).await, rig.current(second).await);
    assert_eq!((first.version, again.version, second.version), (1, 1, 2));
    assert_eq!((first.definition == again.definition, first.definition == second.definition), (true, false));
    let mut ran = rig.work(|_| Ok(None)).await;
    ran.sort_unstable();
    assert_eq!(ran, ["a", "a", "a", "b"]);
    assert_eq!(rig.view(first.id).await.plan.graph.len(), 1);
}

on_both!(what_is_over_is_forgotten_with_time);
async fn what_is_over_is_forgotten_with_time(rig: WorkflowsRig) {
    let over = rig.begin(document(vec![("a", node("a", &[]))]), "1").await;
    rig.work(|_| Ok(None)).await;
    let waits = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "1").await;
    rig.clock.advance_ms(8 * 24 * 3_600_000);
    rig.runner.run_once(rig.now()).await.unwrap();
    assert_eq!(rig.workflows.workflow(over).await.unwrap(), None);
    assert!(rig.workflows.workflow(waits).await.unwrap().is_some());
    assert_eq!(rig.workflows.definition(1).await.unwrap(), None, "nothing refers to it any more");
}
