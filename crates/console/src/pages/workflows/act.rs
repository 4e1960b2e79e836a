//! The actions on a workflow: cancel, retry from what has failed, begin a copy, skip a node. Each asks first.

use super::shared::{CHANGE, LIST, address, call, counts, node_word, word};
use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::Form,
    layout::under,
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{NodeState, NodeStatus, Workflow, WorkflowState};
use serde_json::json;

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page {
            path: "/console/workflows/{workflow}/cancel",
            show: |context| Box::pin(ask(context, "cancel")),
            act: Some(|context, form| Box::pin(act(context, "cancel", form))),
        },
        Page {
            path: "/console/workflows/{workflow}/retry",
            show: |context| Box::pin(ask(context, "retry")),
            act: Some(|context, form| Box::pin(act(context, "retry", form))),
        },
        Page {
            path: "/console/workflows/{workflow}/rerun",
            show: |context| Box::pin(ask(context, "rerun")),
            act: Some(|context, form| Box::pin(act(context, "rerun", form))),
        },
        Page {
            path: "/console/workflows/{workflow}/nodes/{node}/skip",
            show: |context| Box::pin(ask(context, "skip")),
            act: Some(|context, form| Box::pin(act(context, "skip", form))),
        },
    ]
}

fn permission(action: &str) -> &'static str {
    if action == "rerun" { "insert" } else { CHANGE }
}

pub(super) fn buttons(context: &Context, workflow: &Workflow) -> Markup {
    let to = |action: &str| context.href(&format!("{}/{action}", under(LIST, &workflow.r#ref)), &[]);
    let has_failed = matches!(workflow.state, WorkflowState::Failed | WorkflowState::Cancelled);
    let can_be_retried = has_failed || workflow.set_aside.is_some();
    html! {
        @if can_be_retried { (parts::button(context, CHANGE, &to("retry"), "Retry from failed", "primary")) " " }
        (parts::button(context, "insert", &to("rerun"), "Begin a copy", "")) " "
        @if !workflow.state.is_finished() { (parts::button(context, CHANGE, &to("cancel"), "Cancel", "danger")) }
    }
}

async fn ask(context: &Context, action: &str) -> Result<View, Fault> {
    let workflow: Workflow = context.api.get(&call(context, "")).await?;
    Ok(question(context, action, &workflow, &Form::default(), None))
}

fn question(
    context: &Context,
    action: &str,
    workflow: &Workflow,
    form: &Form,
    fault: Option<&Fault>,
) -> View {
    let name = workflow.name.as_deref().unwrap_or(&workflow.r#ref);
    let node = context.param("node");
    let (title, does) = match action {
        "cancel" => (format!("Cancel {name}?"), "Cancel the workflow"),
        "retry" => (format!("Retry the failed nodes of {name}?"), "Retry it"),
        "rerun" => (format!("Begin a copy of {name}?"), "Begin a copy"),
        _ => (format!("Skip the node {node}?"), "Skip the node"),
    };
    let nodes = || workflow.nodes.iter().flat_map(|node| node.values());
    let says = html! {
        p { (says(action, node, nodes)) }
        p { (parts::badge(word(workflow.state).0, word(workflow.state).1)) " " code { (workflow.r#ref) } ": "
            @for (word, _, count) in counts(nodes()) { (texts::number(count)) " " (word) " " } }
    };
    let fields = match action {
        "cancel" => parts::field(
            "reason",
            "Why",
            Some("Shown with the workflow, and in the audit."),
            &parts::input("reason", form.raw("reason"), "ordered twice"),
            None,
        ),
        _ => html! {},
    };
    let back = address(context, &workflow.r#ref);
    Confirm {
        title: &title,
        says,
        fields,
        does,
        permission: permission(action),
        is_dangerous: action == "cancel",
        back,
    }
    .with(context, fault)
}

fn says<'a, Nodes: Iterator<Item = &'a NodeStatus>>(
    action: &str,
    node: &str,
    nodes: impl Fn() -> Nodes,
) -> Markup {
    let count = |is: fn(&NodeStatus) -> bool| nodes().filter(|node| is(node)).count() as u64;
    html! {
        @match action {
            "cancel" => {
                "No task of it starts any more: " strong { (texts::count(count(|node| node.state == NodeState::Blocked), "node", "nodes")) } " will not run, and "
                strong { (texts::number(count(|node| node.state == NodeState::Running))) } " that run are asked to stop. Then what was done is undone, the last first, where a node says how."
            },
            "retry" => {
                strong { (texts::count(count(|node| matches!(node.state, NodeState::Failed | NodeState::Cancelled)), "node", "nodes")) }
                " that failed or were cancelled run again, with a new attempt. What has succeeded stays."
            },
            "rerun" => "A new workflow of the same document with the same input begins. This one stays as it is.",
            _ => { "The node " strong { (node) } " is marked as done, without a result: later nodes continue. Its running tasks are stopped first." },
        }
    }
}

async fn act(context: &Context, action: &'static str, form: &Form) -> Result<Done, Fault> {
    let workflow: Workflow = context.api.get(&call(context, "")).await?;
    let post = |rest: String, body: Option<String>| async move {
        context.api.send(Method::POST, &call(context, &rest), body, None).await
    };
    let sent = match action {
        "cancel" => {
            post(
                "/cancel".to_owned(),
                Some(
                    form.get("reason")
                        .map_or_else(|| json!({}), |reason| json!({"reason": reason}))
                        .to_string(),
                ),
            )
            .await
        }
        "skip" => post(format!("/nodes/{}/skip", segment(context.param("node"))), None).await,
        _ => post(format!("/{action}"), None).await,
    };
    match sent {
        Ok(answer) => {
            let after: Workflow = answer.read()?;
            let said = match action {
                "rerun" => "It has begun: a copy.".to_owned(),
                "retry" => "What has failed runs again.".to_owned(),
                "skip" => {
                    let state = after
                        .nodes
                        .as_ref()
                        .and_then(|nodes| nodes.get(context.param("node")))
                        .map(|node| node_word(node.state).0);
                    format!("{} is {}.", context.param("node"), state.unwrap_or("skipped"))
                }
                _ => "It is being cancelled.".to_owned(),
            };
            Ok(Done::to(address(context, &after.r#ref), said))
        }
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(question(context, action, &workflow, form, Some(&fault))))),
    }
}
