//! Workflows: requests. Their state is in `workflow_status`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid, escape};
use crate::limits::{DURATION_MAX_MS, PAGE_MAX, PAUSE_REASON_MAX_CHARS, PRIORITY_MAX, PRIORITY_MIN};
use crate::workflow_status::WorkflowState;
use crate::{Json, ScheduledTask, parse};

/// The number of parents that must hold before a node runs. A node holds if it succeeded, was skipped manually, or
/// failed with `on_failure` `continue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    #[default]
    All,
    Any,
    AtLeast(u32),
}

/// The effect on the workflow when the node has finally failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The workflow fails.
    #[default]
    Fail,
    /// The workflow continues. Later nodes can read the state of the node.
    Continue,
}

/// One node: a `task` or a `workflow`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowNode {
    /// In the payload, `{"$expr": "CEL"}` is replaced by the value of the expression. Variables are `input`, `nodes.NAME.result`
    /// and `nodes.NAME.state` of earlier nodes, and, with `for_each`, also `item` and `index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ScheduledTask>,
    /// A workflow as one node. Its result contains the results of its last nodes, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub workflow: Option<Box<CreateWorkflow>>,
    /// The names of the preceding nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Default: `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// The task is due this long after the preceding nodes have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub delay_ms: Option<i64>,
    /// A CEL expression. If it is false, the node is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "nodes.charge.result.amount > 100")]
    pub when: Option<String>,
    /// A CEL expression for an array. The node runs once for each item, at most 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// Undoes the effects of the node, if the workflow fails or is cancelled later. Its payload can also use
    /// `result`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Compensate::of_either")]
    pub compensate: Option<Compensate>,
    /// Default: `fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
}

impl WorkflowNode {
    /// A node that is a task.
    pub fn task(task: ScheduledTask) -> Self {
        Self { task: Some(task), ..Self::default() }
    }

    /// Runs the node after these nodes.
    #[must_use]
    pub fn after<T: Into<String>>(mut self, nodes: impl IntoIterator<Item = T>) -> Self {
        self.after.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Due this long after that.
    #[must_use]
    pub const fn delay_ms(mut self, delay_ms: i64) -> Self {
        self.delay_ms = Some(delay_ms);
        self
    }

    /// Only where this expression is true.
    #[must_use]
    pub fn when(mut self, expression: impl Into<String>) -> Self {
        self.when = Some(expression.into());
        self
    }

    /// Once for each item of this expression's value.
    #[must_use]
    pub fn for_each(mut self, expression: impl Into<String>) -> Self {
        self.for_each = Some(expression.into());
        self
    }

    /// Undone by this task.
    #[must_use]
    pub fn compensate(mut self, task: ScheduledTask) -> Self {
        self.compensate = Some(Compensate { task });
        self
    }
}

/// The compensation of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Compensate {
    pub task: ScheduledTask,
}

impl Compensate {
    /// The task may also be given directly.
    fn of_either<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let Some(text) = Option::<Json>::deserialize(deserializer)? else { return Ok(None) };
        let fields: BTreeMap<String, IgnoredAny> =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let read = if fields.contains_key("task") {
            serde_json::from_str(text.get())
        } else {
            serde_json::from_str(text.get()).map(|task| Self { task })
        };
        read.map(Some).map_err(D::Error::custom)
    }
}

/// A workflow to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkflow {
    /// Documents of one name have versions. A different document is the next version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "order")]
    pub name: Option<String>,
    /// Any JSON value, up to 64 KiB. A workflow that is a node may use expressions in it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub input: Option<Json>,
    /// A workflow that has not ended this long after its start fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub deadline_ms: Option<i64>,
    /// The priority of tasks without one. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u8>,
    /// Nodes by name. Up to 10,000, including those of sub-workflows, and at most 1,000 in sequence.
    #[serde(deserialize_with = "each_once")]
    pub nodes: BTreeMap<String, WorkflowNode>,
}

/// A repeated name would replace the first.
fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, WorkflowNode>, D::Error> {
    struct Nodes;
    impl<'de> Visitor<'de> for Nodes {
        type Value = BTreeMap<String, WorkflowNode>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object of nodes by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some(name) = map.next_key::<String>()? {
                if all.contains_key(&name) {
                    return Err(A::Error::custom(format!("there are two nodes {name:?}")));
                }
                all.insert(name, map.next_value()?);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_map(Nodes)
}

impl CreateWorkflow {
    /// A workflow without nodes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>, node: WorkflowNode) -> Self {
        self.nodes.insert(name.into(), node);
        self
    }

    /// Sets the input.
    #[must_use]
    pub fn input(mut self, input: Json) -> Self {
        self.input = Some(input);
        self
    }

    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let workflow: Self = parse(json)?;
        workflow.check()?;
        Ok(workflow)
    }

    /// Every rule of the wire; how nodes belong together, and whether expressions can be read, the server knows.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if let Some(name) = &self.name {
            checks.name("/name", name);
        }
        checks.span("/deadline_ms", self.deadline_ms, 1..=DURATION_MAX_MS);
        checks.range("/priority", self.priority, PRIORITY_MIN..=PRIORITY_MAX);
        checks.readable("/input", self.input.as_ref());
        for (name, node) in &self.nodes {
            let path = format!("/nodes/{}", escape(name));
            checks.name(&path, name);
            node.check(&path, &mut checks);
        }
        checks.done()
    }
}

impl WorkflowNode {
    fn check(&self, path: &str, checks: &mut Checks) {
        for (nth, parent) in self.after.iter().enumerate() {
            checks.name(&format!("{path}/after/{nth}"), parent);
        }
        match (&self.task, &self.workflow) {
            (None, None) => checks.refuse(path, "needs `task` or `workflow`"),
            (Some(_), Some(_)) => checks.refuse(path, "has `task` and `workflow`; give only one of them"),
            (Some(task), None) => within(checks, &format!("{path}/task"), task.check_fields()),
            (None, Some(workflow)) => within(checks, &format!("{path}/workflow"), workflow.check()),
        }
        if let Some(Compensate { task }) = &self.compensate {
            within(checks, &format!("{path}/compensate/task"), task.check_fields());
        }
    }
}

fn within(checks: &mut Checks, path: &str, checked: Result<(), Invalid>) {
    for error in checked.err().into_iter().flat_map(|invalid| invalid.under(path).errors) {
        checks.refuse(error.pointer, error.detail);
    }
}

/// Query parameters of the list of workflows, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListWorkflows {
    /// Only workflows of documents with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<WorkflowState>,
    /// 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListWorkflows {
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if let Some(name) = &self.name {
            checks.name("/name", name);
        }
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// Why a workflow is cancelled. Body and reason are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelWorkflow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CancelWorkflow {
    /// An empty body sets nothing.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let request: Self = parse(json)?;
        let mut checks = Checks::default();
        checks.at_most_chars("/reason", request.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()?;
        Ok(request)
    }
}

/// A copy of a workflow. Default: with the same input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunWorkflow {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub input: Option<Json>,
}

impl RerunWorkflow {
    /// An empty body sets nothing.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let request: Self = parse(json)?;
        let mut checks = Checks::default();
        checks.readable("/input", request.input.as_ref());
        checks.done()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(text: &str) -> String {
        CreateWorkflow::from_json(text.as_bytes()).unwrap_err().errors.remove(0).pointer
    }

    #[test]
    fn a_document_is_read_as_it_is_documented() {
        let text = r#"{"name": "order", "input": {"n": 1.0}, "deadline_ms": 60000, "nodes": {
            "a": {"task": {"queue": "q"}},
            "b": {"task": {"queue": "q", "payload": {"$expr": "item"}}, "after": ["a"], "join": {"at_least": 1}, "when": "true",
                "for_each": "nodes.a.result", "compensate": {"task": {"queue": "undo"}}, "on_failure": "continue"},
            "c": {"workflow": {"nodes": {"x": {"task": {"queue": "q"}}}}, "after": ["a", "b"], "join": "any"}}}"#;
        let read = CreateWorkflow::from_json(text.as_bytes()).unwrap();
        assert_eq!(read.nodes["b"].join, Some(Join::AtLeast(1)));
        assert_eq!(read.nodes["c"].join, Some(Join::Any));
        assert_eq!(read.nodes["b"].compensate.as_ref().unwrap().task.queue, "undo");
        let bare = text.replace(r#"{"task": {"queue": "undo"}}"#, r#"{"queue": "undo"}"#);
        assert_eq!(CreateWorkflow::from_json(bare.as_bytes()).unwrap(), read, "either is understood");
        assert_eq!(read.input.as_ref().unwrap().get(), r#"{"n": 1.0}"#);
        let again = serde_json::to_vec(&read).unwrap();
        assert_eq!(CreateWorkflow::from_json(&again).unwrap(), read);
    }

    #[test]
    fn a_mistake_is_told_with_the_path_to_it() {
        assert_eq!(pointer(r#"{"nodes": {"a": {}}}"#), "/nodes/a");
        assert_eq!(pointer(r#"{"nodes": {"a": {"task": {"queue": ""}}}}"#), "/nodes/a/task/queue");
        assert_eq!(pointer(r#"{"nodes": {"a b": {"task": {"queue": "q"}}}}"#), "/nodes/a b");
        assert_eq!(
            pointer(
                r#"{"nodes": {"a": {"workflow": {"nodes": {"x": {"task": {"queue": "q"}, "compensate": {"task": {"queue": "!"}}}}}}}}"#
            ),
            "/nodes/a/workflow/nodes/x/compensate/task/queue"
        );
        let twice = r#"{"nodes": {"a": {"task": {"queue": "q"}}, "a": {"task": {"queue": "r"}}}}"#;
        let problem = CreateWorkflow::from_json(twice.as_bytes()).unwrap_err();
        assert!(problem.errors[0].detail.contains("two nodes"), "{problem:?}");
        assert!(
            CreateWorkflow::from_json(br#"{"nodes": {"a": {"task": {"queue": "q"}, "delay": 1}}}"#).is_err()
        );
    }
}
