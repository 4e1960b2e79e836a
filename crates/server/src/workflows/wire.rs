//! A workflow on the wire and in the domain. What it means is the domain's.

use crate::{ask, refusal::Refusal, schedules};
use punctual_contract::workflows::{Carried, NodeContent, StoredNode, StoredWorkflow, WorkflowId};
use punctual_domain::{
    task::Priority,
    time::Millis,
    workflow::{self as domain, Definition, Node, NodeKey, Role, Run, SubWorkflow, TaskTemplate, Work},
};
use punctual_protocol::{
    self as wire, At, CreateWorkflow, Json, NodeStatus, ScheduledTask, Workflow, WorkflowGraph, WorkflowNode,
};
use punctual_workflows::{Plan, View};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Converts a definition with its input.
pub(super) fn domain(asked: CreateWorkflow) -> Result<(Definition, String), Refusal> {
    let (definition, input) = within(asked, "", Priority::default())?;
    Ok((definition, input.unwrap_or_else(|| "null".to_owned())))
}

fn within(
    asked: CreateWorkflow,
    path: &str,
    above: Priority,
) -> Result<(Definition, Option<String>), Refusal> {
    let name = asked.name.as_deref().map(|name| ask::name(&format!("{path}/name"), name)).transpose()?;
    let priority = ask::priority(asked.priority)?.unwrap_or(above);
    let mut nodes = BTreeMap::new();
    for (name, node) in asked.nodes {
        let path = format!("{path}/nodes/{name}");
        nodes.insert(ask::name(&path, &name)?, self::node(node, &path, priority)?);
    }
    let definition = Definition { name, deadline_ms: asked.deadline_ms, nodes };
    Ok((definition, asked.input.map(Json::into_text)))
}

fn node(asked: WorkflowNode, path: &str, priority: Priority) -> Result<Node, Refusal> {
    let work = match (asked.task, asked.workflow) {
        (Some(task), None) => Work::Task(Box::new(template(task, &format!("{path}/task"), priority)?)),
        (None, Some(workflow)) => {
            let (definition, input) = within(*workflow, &format!("{path}/workflow"), priority)?;
            Work::Workflow(Box::new(SubWorkflow { definition, input }))
        }
        _ => return Err(Refusal::field(path, "needs `task` or `workflow`, and only one of them")),
    };
    let after = asked.after.iter().enumerate();
    let after = after.map(|(nth, text)| ask::name(&format!("{path}/after/{nth}"), text));
    let compensate = asked
        .compensate
        .map(|compensate| template(compensate.task, &format!("{path}/compensate/task"), priority));
    Ok(Node {
        work,
        after: after.collect::<Result<_, _>>()?,
        join: match asked.join.unwrap_or_default() {
            wire::Join::All => domain::Join::All,
            wire::Join::Any => domain::Join::Any,
            wire::Join::AtLeast(need) => domain::Join::AtLeast(need),
        },
        delay_ms: asked.delay_ms,
        when: asked.when,
        for_each: asked.for_each,
        compensate: compensate.transpose()?,
        on_failure: match asked.on_failure.unwrap_or_default() {
            wire::OnFailure::Fail => domain::OnFailure::Fail,
            wire::OnFailure::Continue => domain::OnFailure::Continue,
        },
    })
}

fn template(task: ScheduledTask, path: &str, priority: Priority) -> Result<TaskTemplate, Refusal> {
    let is_set = task.priority.is_some();
    let mut template = schedules::template(task, path)?;
    if !is_set {
        template.priority = priority;
    }
    Ok(template)
}

pub(super) const fn state(state: wire::WorkflowState) -> domain::WorkflowState {
    match state {
        wire::WorkflowState::Running => domain::WorkflowState::Running,
        wire::WorkflowState::Compensating => domain::WorkflowState::Compensating,
        wire::WorkflowState::Succeeded => domain::WorkflowState::Succeeded,
        wire::WorkflowState::Failed => domain::WorkflowState::Failed,
        wire::WorkflowState::Compensated => domain::WorkflowState::Compensated,
        wire::WorkflowState::Cancelled => domain::WorkflowState::Cancelled,
    }
}

const fn shown_state(state: domain::WorkflowState) -> wire::WorkflowState {
    match state {
        domain::WorkflowState::Running => wire::WorkflowState::Running,
        domain::WorkflowState::Compensating => wire::WorkflowState::Compensating,
        domain::WorkflowState::Succeeded => wire::WorkflowState::Succeeded,
        domain::WorkflowState::Failed => wire::WorkflowState::Failed,
        domain::WorkflowState::Compensated => wire::WorkflowState::Compensated,
        domain::WorkflowState::Cancelled => wire::WorkflowState::Cancelled,
    }
}

/// The displayed state of a node. A node of a workflow that is over that never began is cancelled.
const fn shown_node_state(state: domain::NodeState, is_over: bool) -> wire::NodeState {
    match state {
        domain::NodeState::Blocked if is_over => wire::NodeState::Cancelled,
        domain::NodeState::Blocked => wire::NodeState::Blocked,
        domain::NodeState::Open | domain::NodeState::Skipping => wire::NodeState::Running,
        domain::NodeState::Succeeded => wire::NodeState::Succeeded,
        domain::NodeState::Failed => wire::NodeState::Failed,
        domain::NodeState::Skipped | domain::NodeState::Passed => wire::NodeState::Skipped,
        domain::NodeState::Cancelled => wire::NodeState::Cancelled,
    }
}

fn instant(at: Millis) -> At {
    At::from_ms(at.0)
}

/// The workflow without its nodes.
pub(super) fn brief(workflow: StoredWorkflow) -> Workflow {
    let ending = workflow.progress.ending.filter(|_| workflow.state == domain::WorkflowState::Running);
    let deadline_at = workflow.progress.deadline_at;
    Workflow {
        r#ref: workflow.id.to_string(),
        namespace: workflow.namespace.as_str().to_owned(),
        name: workflow.name.map(|name| name.as_str().to_owned()),
        version: workflow.version,
        state: shown_state(workflow.state),
        ending: ending.map(|ending| match ending {
            domain::Ending::Failed => wire::WorkflowState::Failed,
            domain::Ending::Cancelled => wire::WorkflowState::Cancelled,
        }),
        reason: workflow.progress.reason,
        set_aside: None,
        parent_ref: workflow.progress.parent.map(|parent| WorkflowId(parent.workflow).to_string()),
        deadline_at: deadline_at.map(instant),
        deadline_at_ms: deadline_at.map(|deadline_at| deadline_at.0),
        created_at: instant(workflow.created_at),
        created_at_ms: workflow.created_at.0,
        created_by: workflow.created_by,
        updated_at: instant(workflow.updated_at),
        updated_at_ms: workflow.updated_at.0,
        finished_at: workflow.finished_at.map(instant),
        finished_at_ms: workflow.finished_at.map(|finished_at| finished_at.0),
        input: None,
        nodes: None,
        results_left_out: false,
    }
}

/// The rows of the workflow by their keys.
struct Rows {
    rows: BTreeMap<NodeKey, StoredNode>,
    contents: HashMap<NodeKey, Carried>,
    tells_results: bool,
    is_over: bool,
}

pub(super) fn shown(view: View) -> Workflow {
    let View { stored, plan, nodes, contents } = view;
    let rows = Rows {
        rows: nodes.into_iter().map(|node| (node.key, node)).collect(),
        tells_results: contents.is_some(),
        contents: contents.into_iter().flatten().map(|NodeContent { key, carried }| (key, carried)).collect(),
        is_over: stored.state.is_finished(),
    };
    let input = Json::from_text(stored.input.clone()).ok();
    let all = (0..).zip(&plan.definition.nodes).map(|(number, (name, document))| {
        let mut status = rows.node(NodeKey::node(number));
        status.after = document.after.iter().map(|name| name.as_str().to_owned()).collect();
        (name.as_str().to_owned(), status)
    });
    Workflow { nodes: Some(all.collect()), input, results_left_out: !rows.tells_results, ..brief(stored) }
}

impl Rows {
    fn node(&self, key: NodeKey) -> NodeStatus {
        let row = self.rows.get(&key);
        let carried = self.contents.get(&key);
        let task_ref = row.and_then(|node| node.task_ref.clone());
        let is_workflow = task_ref.as_ref().is_some_and(|task_ref| task_ref.parse::<WorkflowId>().is_ok());
        let (workflow_ref, task_ref) = if is_workflow { (task_ref, None) } else { (None, task_ref) };
        let begun_at = row.map(|node| node.begun_at);
        let ended_at = row.and_then(|node| node.ended_at);
        let items = row.filter(|node| node.row.items.is_some()).map(|_| self.items(key.node));
        let result =
            carried.and_then(|carried| carried.result.clone()).and_then(|text| Json::from_text(text).ok());
        NodeStatus {
            state: shown_node_state(row.map(|node| node.row.state).unwrap_or_default(), self.is_over),
            task_ref,
            workflow_ref,
            result: result.or_else(|| items.as_deref().and_then(|nodes| self.gathered(row, nodes))),
            error: carried.and_then(|carried| carried.error.clone()),
            attempt: row.map_or(0, |node| node.row.attempt),
            after: Vec::new(),
            begun_at: begun_at.map(instant),
            begun_at_ms: begun_at.map(|begun_at| begun_at.0),
            ended_at: ended_at.map(instant),
            ended_at_ms: ended_at.map(|ended_at| ended_at.0),
            items,
            compensation: self.compensation(key.undoing()),
        }
    }

    fn items(&self, node: u32) -> Vec<NodeStatus> {
        let all = self.rows.range(NodeKey::item(node, 0)..=NodeKey::item(node, u32::MAX));
        all.map(|pair| *pair.0).filter(|key| key.role == Role::Action).map(|key| self.node(key)).collect()
    }

    /// The results of a fan-out that has ended.
    fn gathered(&self, row: Option<&StoredNode>, items: &[NodeStatus]) -> Option<Json> {
        let has_ended = row.is_some_and(|node| node.row.state == domain::NodeState::Succeeded);
        if !has_ended || !self.tells_results {
            return None;
        }
        let value = |node: &NodeStatus| {
            node.result.as_ref().and_then(|json| json.read::<Value>().ok()).unwrap_or_default()
        };
        Json::of(&items.iter().map(value).collect::<Vec<_>>()).ok()
    }

    fn compensation(&self, key: NodeKey) -> Option<wire::Compensation> {
        let row = self.rows.get(&key)?;
        Some(wire::Compensation {
            state: shown_node_state(row.row.state, self.is_over),
            task_ref: row.task_ref.clone(),
            error: self.contents.get(&key).and_then(|content| content.error.clone()),
        })
    }
}

pub(super) fn graph(plan: &Plan, run: &Run) -> WorkflowGraph {
    let is_over = run.state.is_finished();
    let mut graph = WorkflowGraph { nodes: Vec::new(), edges: Vec::new() };
    for (number, (name, node)) in (0..).zip(&plan.definition.nodes) {
        graph.nodes.push(wire::GraphNode {
            name: name.as_str().to_owned(),
            state: shown_node_state(run.state_of(number), is_over),
            join: match node.join {
                domain::Join::All => wire::Join::All,
                domain::Join::Any => wire::Join::Any,
                domain::Join::AtLeast(need) => wire::Join::AtLeast(need),
            },
            items: run.row(&NodeKey::node(number)).and_then(|row| row.items),
        });
        let edge = |from: &punctual_domain::name::Name| wire::GraphEdge {
            from: from.as_str().to_owned(),
            to: name.as_str().to_owned(),
        };
        graph.edges.extend(node.after.iter().map(edge));
    }
    graph
}
