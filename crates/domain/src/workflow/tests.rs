//! Workflows: which are refused, and their transitions: single cases, and random graphs compared with a naive
//! model.

mod random;

use super::*;
use crate::identity::IdentitySecret;
use crate::schedule::{Payload, TaskTemplate};

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn node(after: &[&str]) -> Node {
    let task = TaskTemplate::new(name("q"), name("k"));
    Node { after: after.iter().map(|text| name(text)).collect(), ..Node::task(task) }
}

pub(super) fn document(nodes: Vec<(&str, Node)>) -> Definition {
    let nodes = nodes.into_iter().map(|(text, node)| (name(text), node)).collect();
    Definition { name: None, deadline_ms: None, nodes }
}

fn refused(nodes: Vec<(&str, Node)>) -> (String, String) {
    let invalid = Graph::of(&document(nodes)).unwrap_err();
    (invalid.field, invalid.problem)
}

#[test]
fn a_cycle_is_refused_with_its_way() {
    let all = vec![
        ("start", node(&[])),
        ("a", node(&["start", "c"])),
        ("b", node(&["a"])),
        ("c", node(&["b"])),
        ("behind", node(&["c"])),
    ];
    let (field, problem) = refused(all);
    assert_eq!((field.as_str(), problem.as_str()), ("nodes/b/after/0", "closes a cycle: b → c → a → b"));
    let (field, problem) = refused(vec![("a", node(&["a"]))]);
    assert_eq!(field, "nodes/a/after/0");
    assert!(problem.contains("a → a"));
}

#[test]
fn names_that_are_not_there_and_names_that_come_twice_are_refused() {
    let (field, problem) = refused(vec![("a", node(&[])), ("b", node(&["a", "z"]))]);
    assert_eq!(field, "nodes/b/after/1");
    assert!(problem.contains("\"z\""));
    assert_eq!(refused(vec![("a", node(&[])), ("b", node(&["a", "a"]))]).0, "nodes/b/after/1");
    assert_eq!(refused(Vec::new()).0, "nodes");
}

#[test]
fn a_join_that_can_never_hold_is_refused() {
    let joined = |join, after: &[&str]| Node { join, ..node(after) };
    let with = |this_node| refused(vec![("a", node(&[])), ("b", node(&[])), ("c", this_node)]);
    let (field, problem) = with(joined(Join::AtLeast(3), &["a", "b"]));
    assert_eq!(
        (field.as_str(), problem.as_str()),
        ("nodes/c/join/at_least", "can never hold: it asks for 3 of 2 parents")
    );
    assert_eq!(with(joined(Join::AtLeast(0), &["a"])).0, "nodes/c/join/at_least");
    assert_eq!(with(joined(Join::Any, &[])).0, "nodes/c/join");
}

#[test]
fn only_a_task_waits_and_not_for_longer_than_a_century() {
    let waits = |delay_ms| Node { delay_ms: Some(delay_ms), ..node(&[]) };
    assert!(Graph::of(&document(vec![("a", waits(DEADLINE_MAX_MS))])).is_ok());
    for delay_ms in [-1, DEADLINE_MAX_MS + 1] {
        assert_eq!(refused(vec![("a", waits(delay_ms))]).0, "nodes/a/delay_ms");
    }
    let sub = SubWorkflow { definition: document(vec![("x", node(&[]))]), input: None };
    let within = Node { delay_ms: Some(1), ..Node::new(Work::Workflow(Box::new(sub))) };
    assert_eq!(refused(vec![("a", within)]).0, "nodes/a/delay_ms");
}

#[test]
fn what_is_too_deep_or_too_many_is_refused() {
    let chain = |length: usize| {
        let names: Vec<String> = (0..length).map(|nth| format!("n{nth:05}")).collect();
        let nodes = (0..length).map(|nth| {
            let after: &[&str] = if nth == 0 { &[] } else { &[&names[nth - 1]] };
            (name(&names[nth]), node(after))
        });
        Graph::of(&Definition { name: None, deadline_ms: None, nodes: nodes.collect() })
    };
    assert!(chain(DEPTH_MAX).is_ok());
    let invalid = chain(DEPTH_MAX + 1).unwrap_err();
    assert_eq!(invalid.field, "nodes/n01000");
    let wide = |count: usize| {
        let nodes = (0..count).map(|nth| (name(&format!("n{nth}")), node(&[]))).collect();
        Graph::of(&Definition { name: None, deadline_ms: None, nodes })
    };
    assert!(wide(NODES_MAX).is_ok());
    assert!(wide(NODES_MAX + 1).unwrap_err().problem.contains("10000"));
    let mut within = document(vec![("a", node(&[]))]);
    for _ in 0..=NESTED_MAX {
        let sub = SubWorkflow { definition: within, input: None };
        within = document(vec![("a", Node::new(Work::Workflow(Box::new(sub))))]);
    }
    assert!(Graph::of(&within).unwrap_err().problem.contains("is nested in more than"));
}

#[test]
fn a_mistake_in_a_task_is_told_with_the_path_to_it() {
    let bad = |task: TaskTemplate| Node::task(task);
    let task = TaskTemplate { max_attempts: Some(0), ..TaskTemplate::new(name("q"), name("k")) };
    assert_eq!(refused(vec![("a", bad(task.clone()))]).0, "nodes/a/task/max_attempts");
    assert_eq!(
        refused(vec![("a", Node { compensate: Some(task), ..node(&[]) })]).0,
        "nodes/a/compensate/task/max_attempts"
    );
    let mut task = TaskTemplate::new(name("q"), name("k"));
    task.labels.insert("workflow_node".to_owned(), "x".to_owned());
    let sub = SubWorkflow { definition: document(vec![("x", bad(task))]), input: None };
    let nested = Node::new(Work::Workflow(Box::new(sub)));
    assert_eq!(refused(vec![("a", nested)]).0, "nodes/a/workflow/nodes/x/task/labels/workflow_node");
}

#[test]
fn a_document_is_pinned_because_it_is_stored() {
    let task = TaskTemplate {
        payload: Some(Payload::Json("1.0".to_owned())),
        ..TaskTemplate::new(name("q"), name("k"))
    };
    let full = Node {
        join: Join::AtLeast(1),
        when: Some("true".to_owned()),
        on_failure: OnFailure::Continue,
        after: vec![name("b")],
        ..Node::task(task)
    };
    let text = serde_json::to_string(&document(vec![("a", full)])).unwrap();
    let wanted = r#"{"nodes":{"a":{"work":{"task":{"queue":"q","kind":"k","priority":3,"payload":{"json":"1.0"}}},"after":["b"],"join":{"at_least":1},"when":"true","on_failure":"continue"}}}"#;
    assert_eq!(text, wanted);
    assert_eq!(
        serde_json::from_str::<Definition>(&text).unwrap(),
        document(vec![("a", serde_json::from_str(&text[14..text.len() - 2]).unwrap())])
    );
}

#[test]
fn what_a_task_is_called_is_pinned_because_tasks_were_made_by_it() {
    let (node, created_at) = (name("a"), crate::time::Millis(1_800_000_000_000));
    let identity =
        NodeIdentity { workflow: 7, created_at, node: &node, item: None, role: Role::Action, attempt: 1 };
    let all = [
        identity,
        NodeIdentity { item: Some(0), ..identity },
        NodeIdentity { attempt: 2, ..identity },
        NodeIdentity { role: Role::Compensation, ..identity },
        NodeIdentity { workflow: 8, ..identity },
    ];
    let mut ids: Vec<i64> =
        all.iter().map(|identity| identity.task_id(None, 0)).chain([identity.task_id(None, 1)]).collect();
    assert!(ids.iter().all(|id| *id < 0 && *id >= -(1 << 53)), "{ids:?}");
    let secret = IdentitySecret::new([7; 32]);
    assert_eq!(identity.task_id(Some(&secret), 0), identity.task_id(Some(&secret), 0));
    ids.push(identity.task_id(Some(&secret), 0));
    ids.push(identity.task_id(Some(&IdentitySecret::new([8; 32])), 0));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8, "each its own");
}

#[test]
fn ancestors_are_those_on_some_way() {
    let graph = Graph::of(&document(vec![
        ("a", node(&[])),
        ("b", node(&["a"])),
        ("c", node(&["b"])),
        ("d", node(&["a"])),
    ]))
    .unwrap();
    let (a, b, c, d) = (0, 1, 2, 3);
    let ancestors = graph.ancestors();
    assert!(ancestors.has(c, a) && ancestors.has(c, b) && ancestors.has(d, a));
    assert!(!ancestors.has(d, b) && !ancestors.has(a, c) && !ancestors.has(c, c));
}

#[test]
fn the_codes_are_pinned_because_they_are_stored() {
    assert_eq!(NodeState::ALL.map(NodeState::code), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(WorkflowState::ALL.map(WorkflowState::code), [1, 2, 3, 4, 5, 6]);
    assert!(NodeState::ALL.into_iter().all(|state| NodeState::from_code(state.code()) == Some(state)));
    assert!(
        WorkflowState::ALL.into_iter().all(|state| WorkflowState::from_code(state.code()) == Some(state))
    );
}
