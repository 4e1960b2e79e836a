//! An engine that dies between two steps of a workflow: another continues, and each node runs once. The table is in
//! docs/consistency-tests.md, "Workflows".

use super::rig::{WorkflowsRig, document, echo, node, on_both};
use punctual_domain::{
    insert::OnConflict,
    outcome::Report,
    state::State,
    task::NewTask,
    workflow::{Node, WorkflowState},
};
use punctual_testkit::faults::{Dials, StoreGroup};

on_both!(after_the_step_before_its_tasks_another_engine_makes_them);
async fn after_the_step_before_its_tasks_another_engine_makes_them(rig: WorkflowsRig) {
    rig.store.faults.set(StoreGroup::Insert, Dials::REFUSES);
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    rig.store.faults.heal();
    assert_eq!(rig.tasks().await.len(), 0);
    let other = rig.beside();
    other.pass(6).await;
    assert_eq!(other.work(echo).await, ["a", "b"]);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(after_its_tasks_before_they_are_noted_they_are_noted_and_not_made_again);
async fn after_its_tasks_before_they_are_noted_they_are_noted_and_not_made_again(rig: WorkflowsRig) {
    rig.store.faults.set(StoreGroup::Insert, Dials::ANSWERS_LOST);
    let id = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    rig.store.faults.heal();
    assert_eq!(rig.tasks().await.len(), 1);
    assert!(rig.view(id).await.nodes.iter().all(|node| node.task_ref.is_none()));
    let other = rig.beside();
    other.pass(6).await;
    assert!(other.view(id).await.nodes.iter().all(|node| node.task_ref.is_some()));
    assert_eq!(other.work(echo).await, ["a"]);
    assert_eq!(other.tasks().await.len(), 1);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(an_end_that_nobody_told_of_is_found);
async fn an_end_that_nobody_told_of_is_found(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    rig.run_once().await;
    let leased = rig.leased().await;
    rig.report_holders(&leased[0], Report::Succeeded, None).await;
    let other = rig.beside();
    other.pass(70).await;
    assert_eq!(other.work(echo).await, ["b"]);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(a_task_that_is_made_late_by_a_sleeping_engine_does_not_run_again);
async fn a_task_that_is_made_late_by_a_sleeping_engine_does_not_run_again(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    let asked = rig.tasks().await.remove(0).ask;
    assert_eq!(rig.work(echo).await, ["a"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    // What it had in hand when it fell asleep, it inserts now.
    let asked = NewTask { on_conflict: OnConflict::Keep, ..asked };
    rig.engine.insert(vec![asked], "workflow").await.unwrap();
    assert_eq!(rig.work(echo).await, [""; 0]);
    assert_eq!(rig.tasks().await[0].state, State::Succeeded);
}

on_both!(two_engines_that_hear_of_ends_at_once_make_each_node_once);
async fn two_engines_that_hear_of_ends_at_once_make_each_node_once(rig: WorkflowsRig) {
    let each = Node { for_each: Some("input".to_owned()), ..node("each", &["a"]) };
    let input: Vec<u32> = (0..40).collect();
    let id = rig
        .begin(
            document(vec![("a", node("a", &[])), ("each", each), ("b", node("b", &["each"]))]),
            &format!("{input:?}"),
        )
        .await;
    let other = rig.beside();
    rig.run_once().await;
    let a = rig.leased().await.remove(0);
    rig.report_holders(&a, Report::Succeeded, None).await;
    for rig in [&rig, &other] {
        rig.runner.ended([a.place]);
    }
    let (x, y) = tokio::join!(rig.runner.go_on(), other.runner.go_on());
    assert_eq!((x.is_ok(), y.is_ok()), (true, true), "{x:?} {y:?}");
    rig.run_once().await;
    // What an engine inserts and is due at once is in its own table, and waits there if no Redis shares it.
    other.run_once().await;
    let leased = [rig.leased().await, other.leased().await].concat();
    assert_eq!(leased.len(), 40);
    for (nth, lease) in leased.iter().enumerate() {
        rig.report_holders(lease, Report::Succeeded, None).await;
        // Half of them come to another engine.
        if nth % 2 == 0 { &rig } else { &other }.runner.ended([lease.place]);
    }
    let (x, y) = tokio::join!(rig.runner.go_on(), other.runner.go_on());
    assert_eq!((x.is_ok(), y.is_ok()), (true, true), "{x:?} {y:?}");
    other.run_once().await;
    assert_eq!([rig.work(echo).await, other.work(echo).await].concat(), ["b"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    let tasks = rig.tasks().await;
    assert_eq!(tasks.len(), 42);
    assert!(tasks.iter().all(|task| task.fence <= 3), "none was made twice");
}

on_both!(a_begin_that_is_asked_for_twice_with_one_key_begins_once);
async fn a_begin_that_is_asked_for_twice_with_one_key_begins_once(rig: WorkflowsRig) {
    let asked = punctual_workflows::Submission {
        namespace: punctual_domain::name::Name::default_namespace(),
        definition: std::sync::Arc::new(document(vec![("a", node("a", &[]))])),
        input: "null".to_owned(),
        key: Some("the same".to_owned()),
        by: "ada".to_owned(),
    };
    let (first, is_new) = rig.runner.create(asked.clone()).await.unwrap();
    let (again, is_new_again) = rig.beside().runner.create(asked).await.unwrap();
    assert_eq!((is_new, is_new_again, first.id), (true, false, again.id));
    assert_eq!(rig.work(echo).await, ["a"]);
}
