//! What expressions cost: names that look like macros cost nothing, what costs too much fails its node and nothing else, and numbers
//! that are passed on keep their digits.

use super::rig::{WorkflowsRig, document, node, on_both, payload, with_payload};
use punctual_domain::workflow::{Node, NodeState, WorkflowState};

const MANY: usize = 1_200;

on_both!(a_fan_out_may_name_a_node_that_is_called_as_a_macro_begins);
async fn a_fan_out_may_name_a_node_that_is_called_as_a_macro_begins(rig: WorkflowsRig) {
    let each = Node {
        for_each: Some("nodes.transform.result.list".to_owned()),
        ..with_payload(
            "each",
            &["transform"],
            r#"{"$expr": "'-----BEGIN----- ' + string(nodes.transform.result.k + item + input.mapping.x)"}"#,
        )
    };
    let nodes = vec![("transform", node("transform", &[])), ("each", each)];
    let id = rig.begin(document(nodes), r#"{"mapping": {"x": 1}}"#).await;
    let list: Vec<usize> = (0..MANY).collect();
    let mut given = Vec::new();
    rig.work(|task| {
        if task.kind.as_str() == "transform" {
            return Ok(Some(format!(r#"{{"k": 7, "list": {list:?}}}"#)));
        }
        given.push(payload(task));
        Ok(None)
    })
    .await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    given.sort_by_key(|text| (text.len(), text.clone()));
    let wanted: Vec<String> = (0..MANY).map(|nth| format!(r#""-----BEGIN----- {}""#, nth + 8)).collect();
    assert_eq!(given, wanted);
}

on_both!(what_costs_too_much_fails_its_node_and_holds_up_no_other_workflow);
async fn what_costs_too_much_fails_its_node_and_holds_up_no_other_workflow(rig: WorkflowsRig) {
    let walks = (0..12).fold("true".to_owned(), |text, _| format!("[1, 2, 3, 4, 5, 6].\tall(x, {text})"));
    let joined = format!("nodes.list.result.map(i, input.t{}).size() > 0", " + input.t".repeat(59));
    let input = format!(r#"{{"t": "{}"}}"#, "x".repeat(30_000));
    let mut dear = Vec::new();
    for when in [walks, joined] {
        let last = Node { when: Some(when), ..node("last", &["list"]) };
        dear.push(rig.begin(document(vec![("list", node("list", &[])), ("last", last)]), &input).await);
    }
    let other = rig.begin(document(vec![("a", node("a", &[]))]), "null").await;
    let list: Vec<usize> = (0..8_000).collect();
    rig.work(|task| Ok((task.kind.as_str() == "list").then(|| format!("{list:?}")))).await;
    assert_eq!(rig.current(other).await.state, WorkflowState::Succeeded);
    for (id, bound) in dear.into_iter().zip(["50000 steps", "1048576 bytes"]) {
        assert_eq!(rig.current(id).await.state, WorkflowState::Failed);
        let error = rig.error(id, "last").await;
        assert!(error.contains("expression.budget: ") && error.contains(bound), "{error}");
    }
}

on_both!(numbers_that_are_passed_on_keep_their_digits);
async fn numbers_that_are_passed_on_keep_their_digits(rig: WorkflowsRig) {
    const NUMBERS: &str = "[9007199254740993,18446744073709551615,19.90,123456789012345678901234567890]";
    let nodes = vec![
        ("a", with_payload("a", &[], r#"{"id": 9007199254740993.10, "all": {"$expr": "input"}}"#)),
        ("b", with_payload("b", &["a"], r#"{"$expr": "nodes.a.result"}"#)),
    ];
    let id = rig.begin(document(nodes), NUMBERS).await;
    let mut given = Vec::new();
    rig.work(|task| {
        given.push(payload(task));
        Ok(Some(NUMBERS.to_owned()))
    })
    .await;
    assert_eq!(rig.current(id).await.state, WorkflowState::Succeeded);
    assert_eq!(given, [format!(r#"{{"id": 9007199254740993.10, "all": {NUMBERS}}}"#), NUMBERS.to_owned()]);
    assert_eq!(
        rig.view(id).await.nodes.iter().filter(|node| node.row.state == NodeState::Succeeded).count(),
        2
    );
}
