//! An engine's received ends die with it; the mark that it made before stays, and another engine continues
//! within seconds.

use super::rig::{WorkflowsRig, document, echo, name, node, on_both};
use punctual_contract::workflows::{WorkflowId, WorkflowMark};
use punctual_domain::{
    bulk::{Action, Bulk, Filter},
    name::Name,
    outcome::Report,
    workflow::{Node, NodeState, SubWorkflow, Work, WorkflowState},
};
use punctual_testkit::faults::{Dials, WorkflowGroup};

/// For an executor, so that looks at it have become rare.
async fn waits_for_long(rig: &WorkflowsRig, id: WorkflowId) {
    rig.pass(7).await;
    rig.clock.advance_ms(24 * 3_600_000);
    rig.run_once().await;
    assert!(rig.current(id).await.wake_at.unwrap().since(rig.now()) > 200_000);
}

on_both!(an_end_whose_engine_died_before_it_went_on_is_gone_on_with_within_seconds);
async fn an_end_whose_engine_died_before_it_went_on_is_gone_on_with_within_seconds(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    waits_for_long(&rig, id).await;
    let leased = rig.leased().await;
    rig.report_expected(&leased[0], false).await;
    let other = rig.beside();
    other.pass(5).await;
    assert_eq!(other.work(echo).await, ["b"]);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
    other.pass(2).await;
    assert_eq!(other.marks().await, 0);
}

/// Confirmed, and carried on up to its end.
async fn cancelled_in_bulk(rig: &WorkflowsRig, kind: &str) {
    let filter = Filter { kind: Some(name(kind)), ..Filter::default() };
    let action = Action::Cancel { stop_if_fired: true };
    let bulk = Bulk { filter, action, rate: 10_000, reason: None };
    let namespace = Name::default_namespace();
    let id = rig.bulk.preview(&namespace, bulk, "ada").await.unwrap().stored.id;
    rig.bulk.confirm(&namespace, id, |_| true, "ada").await.unwrap();
    while rig.bulk.next_run_at().await.unwrap().is_some_and(|at| at <= rig.now()) {
        rig.bulk.run_once(rig.now()).await.unwrap();
    }
}

on_both!(what_a_bulk_operation_ends_of_a_workflow_is_gone_on_with_at_once);
async fn what_a_bulk_operation_ends_of_a_workflow_is_gone_on_with_at_once(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    let other = rig.begin(document(vec![("c", node("c", &[]))]), "null").await;
    waits_for_long(&rig, id).await;
    cancelled_in_bulk(&rig, "a").await;
    rig.run_once().await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Failed);
    assert_eq!(rig.state(id, "a").await, NodeState::Cancelled);
    assert_eq!(rig.current(other).await.state, WorkflowState::Running);
    rig.pass(2).await;
    assert_eq!(rig.marks().await, 0);
}

on_both!(what_an_engine_has_ended_in_bulk_before_it_died_is_gone_on_with_within_seconds);
async fn what_an_engine_has_ended_in_bulk_before_it_died_is_gone_on_with_within_seconds(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    waits_for_long(&rig, id).await;
    cancelled_in_bulk(&rig, "a").await;
    let other = rig.beside();
    other.pass(5).await;
    assert_eq!(other.current(id).await.state, WorkflowState::Failed);
}

on_both!(an_engine_that_lives_leaves_no_marks_and_makes_one_a_second);
async fn an_engine_that_lives_leaves_no_marks_and_makes_one_a_second(rig: WorkflowsRig) {
    let each = Node { for_each: Some("input".to_owned()), ..node("each", &[]) };
    let input: Vec<u32> = (0..30).collect();
    let id = rig
        .begin(document(vec![("each", each), ("last", node("last", &["each"]))]), &format!("{input:?}"))
        .await;
    rig.run_once().await;
    let leased = rig.leased().await;
    for lease in &leased[..20] {
        rig.report_expected(lease, true).await;
    }
    assert_eq!(rig.marks().await, 1, "one stands for all");
    rig.run_once().await;
    rig.pass(2).await;
    assert_eq!(rig.marks().await, 0);
    for lease in &leased[20..] {
        rig.report_expected(lease, true).await;
        rig.clock.advance_ms(300);
    }
    assert!(rig.marks().await >= 1);
    assert_eq!(rig.work(echo).await, ["last"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    rig.pass(2).await;
    assert_eq!(rig.marks().await, 0);
}

on_both!(a_mark_stays_while_what_was_heard_cannot_be_gone_on_with);
async fn a_mark_stays_while_what_was_heard_cannot_be_gone_on_with(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    rig.run_once().await;
    let leased = rig.leased().await;
    rig.report_expected(&leased[0], true).await;
    rig.faulty.faults.set(WorkflowGroup::Write, Dials::REFUSES);
    assert!(rig.runner.go_on().await.is_err());
    rig.clock.advance_ms(2_000);
    assert!(rig.runner.go_on().await.is_err());
    rig.runner.run_once(rig.now()).await.unwrap();
    assert_eq!(rig.marks().await, 1, "whoever is left finds it");
    rig.clock.advance_ms(2_000);
    let other = rig.beside();
    other.run_once().await;
    assert_eq!(other.state(id, "b").await, NodeState::Open);
}

on_both!(without_a_mark_an_outcome_is_taken_all_the_same);
async fn without_a_mark_an_outcome_is_taken_all_the_same(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    rig.run_once().await;
    let leased = rig.leased().await;
    rig.faulty.faults.set(WorkflowGroup::Mark, Dials::REFUSES);
    rig.report_expected(&leased[0], true).await;
    rig.faulty.faults.heal();
    assert_eq!(rig.marks().await, 0);
    assert_eq!(rig.work(echo).await, ["b"]);
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(a_catalog_that_takes_no_marks_is_waited_for_once_and_marked_when_it_answers);
async fn a_catalog_that_takes_no_marks_is_waited_for_once_and_marked_when_it_answers(rig: WorkflowsRig) {
    let each = Node { for_each: Some("input".to_owned()), ..node("each", &[]) };
    let id = rig
        .begin(document(vec![("each", each), ("last", node("last", &["each"]))]), "[0, 1, 2, 3, 4, 5]")
        .await;
    waits_for_long(&rig, id).await;
    let leased = rig.leased().await;
    rig.faulty.faults.set(WorkflowGroup::Mark, Dials::REFUSES);
    rig.report_expected(&leased[0], false).await;
    // It would answer now: no caller asks it for a while.
    rig.faulty.faults.heal();
    for lease in &leased[1..3] {
        rig.report_expected(lease, false).await;
    }
    assert_eq!(rig.marks().await, 0, "they have not waited");
    rig.clock.advance_ms(5_000);
    rig.report_expected(&leased[3], false).await;
    assert_eq!(rig.marks().await, 1, "after a while one tries again");
    for lease in &leased[4..] {
        rig.report_expected(lease, false).await;
    }
    // This engine dies; no engine was notified of any of them.
    let other = rig.beside();
    other.pass(5).await;
    assert_eq!(other.work(echo).await, ["last"]);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(what_could_not_be_marked_is_marked_while_it_is_not_gone_on_with);
async fn what_could_not_be_marked_is_marked_while_it_is_not_gone_on_with(rig: WorkflowsRig) {
    let id = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    waits_for_long(&rig, id).await;
    let leased = rig.leased().await;
    rig.faulty.faults.set(WorkflowGroup::Mark, Dials::REFUSES);
    rig.report_expected(&leased[0], true).await;
    rig.faulty.faults.heal();
    rig.faulty.faults.set(WorkflowGroup::Write, Dials::REFUSES);
    assert!(rig.runner.go_on().await.is_err());
    assert_eq!(rig.marks().await, 0);
    drop(rig.runner.run_once(rig.now()).await);
    assert_eq!(rig.marks().await, 1, "it is heard, and not gone on with");
    rig.faulty.faults.heal();
    // This engine dies.
    rig.clock.advance_ms(4_000);
    let other = rig.beside();
    other.run_once().await;
    assert_eq!(other.state(id, "b").await, NodeState::Open);
}

on_both!(a_task_that_is_not_started_in_time_is_found_when_its_deadline_has_passed);
async fn a_task_that_is_not_started_in_time_is_found_when_its_deadline_has_passed(rig: WorkflowsRig) {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut late = node("a", &[]);
    if let Work::Task(template) = &mut late.work {
        template.deadline_ms = Some(i64::try_from(DAY_MS).unwrap() + 60_000);
    }
    let id = rig.begin(document(vec![("a", late)]), "null").await;
    rig.pass(7).await;
    rig.clock.advance_ms(DAY_MS);
    rig.run_once().await;
    let wake_at = rig.current(id).await.wake_at.unwrap();
    assert!(wake_at <= rig.now().plus(65_000), "a look {} ms later", wake_at.since(rig.now()));
}

on_both!(the_end_of_a_workflow_that_is_a_node_is_marked_with_it);
async fn the_end_of_a_workflow_that_is_a_node_is_marked_with_it(rig: WorkflowsRig) {
    let sub = SubWorkflow { definition: document(vec![("x", node("x", &[]))]), input: None };
    let within = Node::new(Work::Workflow(Box::new(sub)));
    let id = rig.begin(document(vec![("within", within), ("last", node("last", &["within"]))]), "null").await;
    waits_for_long(&rig, id).await;
    let x = rig.leased().await.remove(0);
    let other = rig.beside();
    // The child ends at an engine that dies before the other workflow is continued.
    rig.report_holders(&x, Report::Succeeded, None).await;
    let child: WorkflowId = x.labels["workflow"].parse().unwrap();
    rig.faulty.unreadable.lock().insert(id);
    rig.runner.ended([x.place]);
    rig.runner.go_on().await.unwrap_err();
    assert_eq!(rig.current(child).await.state, WorkflowState::Succeeded);
    assert_eq!(other.state(id, "within").await, NodeState::Open);
    assert_eq!(other.marks().await, 1);
    other.pass(5).await;
    assert_eq!(other.work(echo).await, ["last"]);
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}

on_both!(marks_that_cannot_be_looked_at_hold_up_no_others);
async fn marks_that_cannot_be_looked_at_hold_up_no_others(rig: WorkflowsRig) {
    let bad = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    let good = rig.begin(document(vec![("a", node("a", &[])), ("b", node("b", &["a"]))]), "null").await;
    waits_for_long(&rig, good).await;
    let leased = rig.leased().await;
    for lease in &leased {
        rig.report_expected(lease, false).await;
    }
    // Left behind long ago, more than one look takes, all of a workflow that cannot be looked at.
    let mark = |id| WorkflowMark { id, workflow: bad };
    rig.workflows.mark_workflows((1..=300).map(mark).collect(), rig.now().plus(-60_000)).await.unwrap();
    let other = rig.beside();
    other.faulty.unreadable.lock().insert(bad);
    for _ in 0..8 {
        other.clock.advance_ms(1_000);
        other.engine.run_once().await.unwrap();
        drop(other.runner.run_once(other.now()).await);
    }
    assert_eq!(other.state(good, "b").await, NodeState::Open);
    assert_eq!(rig.state(bad, "a").await, NodeState::Open);
    other.faulty.unreadable.lock().clear();
    other.pass(5).await;
    assert_eq!(other.current(bad).await.state, WorkflowState::Succeeded);
    other.pass(3).await;
    assert_eq!(other.marks().await, 0);
}
