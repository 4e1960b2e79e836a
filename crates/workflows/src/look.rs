//! Finds the ends of nodes' tasks, and of workflows that are nodes: of reported ones, or of all that have not ended.
//! A waiting workflow is checked less often the longer it waits, and when something could have happened.

use crate::{
    Plan,
    advance::{NodeEnd, kept},
    make,
    runner::{AT_ONCE, WorkflowsState},
    values,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{StreamExt as _, stream};
use punctual_contract::{
    Error as BackendError,
    workflows::{Carried, StoredNode, StoredWorkflow, WorkflowId},
};
use punctual_domain::{
    place::TaskRef,
    state::State,
    task::{Content, Task},
    time::Millis,
    workflow::{End, NodeKey, ParentNode, Role, Run, WorkflowState},
};
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

/// The time after the instant at which something could have happened.
const GRACE_MS: i64 = 2_000;
/// Tasks of one read: each may have a payload, a result and a history of 64 KiB or so.
const BATCH: usize = 200;
/// The maximum size of the results that one check reads: the next continues.
const RESULTS_MAX_BYTES: usize = 16 << 20;

/// The ends found, and the time when another check is worthwhile.
#[derive(Debug, Default)]
pub(crate) struct LookResult {
    pub(crate) ended: Vec<NodeEnd>,
    pub(crate) next_at: Option<Millis>,
    /// There were too many: the rest is read after this commit.
    pub(crate) is_cut: bool,
}

/// Workflows that were read for one batch of ends. `None` if it was deleted.
type ReadWorkflows = HashMap<WorkflowId, Result<Option<(StoredWorkflow, Arc<Plan>)>, BackendError>>;

/// The end of each of these tasks, in order. `None` if it belongs to no workflow, or has not ended. A failed read
/// does not affect the others.
pub(crate) async fn tasks(
    inner: &WorkflowsState,
    places: &[TaskRef],
) -> Vec<Result<Option<(WorkflowId, NodeEnd)>, BackendError>> {
    let (mut all, mut known) = (Vec::with_capacity(places.len()), ReadWorkflows::new());
    for some in places.chunks(BATCH) {
        for task in read_each(inner, some.to_vec()).await {
            all.push(match task {
                Ok(Some(task)) => ended(inner, &task, &mut known).await,
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            });
        }
    }
    all
}

async fn ended(
    inner: &WorkflowsState,
    task: &Task,
    known: &mut ReadWorkflows,
) -> Result<Option<(WorkflowId, NodeEnd)>, BackendError> {
    let Some((end, carried)) = end_of(task) else { return Ok(None) };
    let Some(id) = make::workflow_of(task) else { return Ok(None) };
    if let Entry::Vacant(place) = known.entry(id) {
        place.insert(planned(inner, id).await);
    }
    let Some(found) = known.get(&id) else { return Ok(None) };
    let Some((stored, plan)) = found.as_ref().map_err(Clone::clone)? else { return Ok(None) };
    let node = make::node_of(task, stored, plan, inner.secret_of(stored).await?.as_ref());
    Ok(node.map(|(key, attempt)| (id, NodeEnd { key, attempt, end, carried })))
}

async fn planned(
    inner: &WorkflowsState,
    id: WorkflowId,
) -> Result<Option<(StoredWorkflow, Arc<Plan>)>, BackendError> {
    let Some(stored) = inner.store.workflow(id).await? else { return Ok(None) };
    Ok(inner.plan(&stored.namespace, stored.definition).await?.map(|plan| (stored, plan)))
}

async fn read_each(inner: &WorkflowsState, places: Vec<TaskRef>) -> Vec<Result<Option<Task>, BackendError>> {
    let count = places.len();
    match inner.engine.read_each(places).await.map_err(make::backend) {
        Ok(read) => read,
        Err(error) => vec![Err(error); count],
    }
}

async fn read(inner: &WorkflowsState, places: Vec<TaskRef>) -> Result<Vec<Option<Task>>, BackendError> {
    read_each(inner, places).await.into_iter().collect()
}

/// Returns `None` if the workflow has not ended, or does not exist.
pub(crate) async fn workflow(
    inner: &WorkflowsState,
    id: WorkflowId,
    parent: ParentNode,
) -> Result<Option<NodeEnd>, BackendError> {
    let Some(stored) = inner.store.workflow(id).await? else { return Ok(None) };
    let key = NodeKey { node: parent.node, item: parent.item, role: Role::Action };
    over(inner, &stored, key, parent.attempt).await
}

async fn over(
    inner: &WorkflowsState,
    stored: &StoredWorkflow,
    key: NodeKey,
    attempt: u32,
) -> Result<Option<NodeEnd>, BackendError> {
    let end = match stored.state {
        WorkflowState::Running | WorkflowState::Compensating => return Ok(None),
        WorkflowState::Succeeded => End::Succeeded,
        WorkflowState::Failed | WorkflowState::Compensated => End::Failed,
        WorkflowState::Cancelled => End::Cancelled,
    };
    let mut carried = Carried { error: stored.progress.reason.clone(), ..Carried::default() };
    if end == End::Succeeded {
        match results(inner, stored).await? {
            Ok(text) => carried = Carried { result: Some(text), ..Carried::default() },
            Err(problem) => carried.error = Some(problem),
        }
    }
    Ok(Some(NodeEnd { key, attempt, end, carried }))
}

/// The results of the nodes without successors, by name.
async fn results(
    inner: &WorkflowsState,
    stored: &StoredWorkflow,
) -> Result<Result<String, String>, BackendError> {
    let Some(plan) = inner.plan(&stored.namespace, stored.definition).await? else {
        return Ok(Ok("null".to_owned()));
    };
    let rows: BTreeMap<_, _> = inner
        .store
        .node_rows(stored.id)
        .await?
        .into_iter()
        .map(|node_row| (node_row.key, node_row.row))
        .collect();
    let run = Run::of(stored.state, stored.progress.ending, stored.progress.completed, rows);
    let mut known = values::RowValues::default();
    known.read(inner, stored, plan.leaves().into_iter()).await?;
    let mut all = Vec::new();
    for node in plan.leaves() {
        let Some(name) = plan.graph.name(node) else { continue };
        match known.result(&run, node) {
            // A name has no letter that JSON writes otherwise.
            Ok(result) => all.push(format!("\"{}\":{}", name.as_str(), result.into_json())),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(format!("{{{}}}", all.join(","))))
}

/// Checks every task and workflow of a node that has not ended.
pub(crate) async fn at_open(
    inner: &WorkflowsState,
    stored: &StoredWorkflow,
    plan: &Plan,
    nodes: &[StoredNode],
    now: Millis,
) -> Result<LookResult, BackendError> {
    let mut looked = LookResult::default();
    let (mut places, mut children) = (Vec::<(&StoredNode, TaskRef)>::new(), Vec::new());
    for node in nodes.iter().filter(|node| node.row.state.is_open() && node.row.items.is_none()) {
        let Some(text) = &node.task_ref else { continue };
        if let Ok(id) = text.parse::<WorkflowId>() {
            children.push(async move { (node, inner.store.workflow(id).await) });
        } else if let Ok(place) = text.parse::<TaskRef>() {
            places.push((node, place));
        }
    }
    let children: Vec<_> = stream::iter(children).buffered(AT_ONCE).collect().await;
    for (node, found) in children {
        match found? {
            None => looked.ended.push(gone(node)),
            Some(child) => {
                looked.ended.extend(over(inner, &child, node.key, node.row.attempt).await?);
                looked.at(inner, rarely(inner, node.begun_at, now), now);
            }
        }
    }
    let secret = inner.secret_of(stored).await?;
    for some in places.chunks(BATCH) {
        if looked.result_bytes() > RESULTS_MAX_BYTES {
            looked.is_cut = true;
            break;
        }
        let found = read(inner, some.iter().map(|pair| pair.1).collect()).await?;
        for ((node, _), task) in some.iter().zip(found) {
            let Some(task) = task.filter(|task| make::node_of(task, stored, plan, secret.as_ref()).is_some())
            else {
                looked.ended.push(gone(node));
                continue;
            };
            match end_of(&task) {
                Some((end, carried)) => {
                    looked.ended.push(NodeEnd { key: node.key, attempt: node.row.attempt, end, carried });
                }
                None => looked.at(inner, next_at(inner, &task, now), now),
            }
        }
    }
    Ok(looked)
}

impl LookResult {
    fn result_bytes(&self) -> usize {
        self.ended.iter().filter_map(|ended| ended.carried.result.as_ref()).map(String::len).sum()
    }

    fn at(&mut self, inner: &WorkflowsState, at: Millis, now: Millis) {
        let at = at.max(now.plus(inner.options.first_look_ms));
        self.next_at = self.next_at.into_iter().chain([at]).min();
    }
}

/// The instant at which a task could have ended: it may also be buried because it was not started in time.
fn next_at(inner: &WorkflowsState, task: &Task, now: Millis) -> Millis {
    let deadline = task.ask.deadline_ms.map(|deadline_ms| task.ask.execute_at.plus(deadline_ms));
    let pending_timeout_ms = inner.engine.known_settings(&task.ask.queue).pending_timeout_ms;
    let timeout = task.fired_at.zip(pending_timeout_ms).map(|(fired_at, ms)| fired_at.plus(ms));
    let buried = deadline.into_iter().chain(timeout).map(|at| at.max(now).plus(GRACE_MS));
    let buried = buried.filter(|_| !task.state.is_in_flight()).min();
    buried.into_iter().chain([by_itself(inner, task, now)]).min().unwrap_or(now)
}

fn by_itself(inner: &WorkflowsState, task: &Task, now: Millis) -> Millis {
    match task.state {
        State::Scheduled | State::Dispatching | State::Retrying | State::Blocked => {
            task.due_at.max(now).plus(GRACE_MS)
        }
        State::Dispatched | State::Running => {
            let until = task.lease.as_ref().map_or(now, |lease| lease.until);
            until.max(now).plus(GRACE_MS)
        }
        _ => rarely(inner, task.due_at, now),
    }
}

/// The time of the next check: the longer the workflow waits, the longer the pause.
fn rarely(inner: &WorkflowsState, since: Millis, now: Millis) -> Millis {
    let waited = now.since(since).max(0) / 2;
    now.plus(waited.clamp(inner.options.first_look_ms, inner.options.look_max_ms))
}

fn gone(node: &StoredNode) -> NodeEnd {
    let error = Some("its task is gone".to_owned());
    let carried = Carried { error, ..Carried::default() };
    NodeEnd { key: node.key, attempt: node.row.attempt, end: End::Failed, carried }
}

/// Returns `None` if the task has not ended.
pub(crate) fn end_of(task: &Task) -> Option<(End, Carried)> {
    let error = || Carried { error: task.last_error.as_deref().and_then(kept), ..Carried::default() };
    match task.state {
        State::Succeeded | State::Stopped => {
            let content = task.result.as_ref().and_then(|result| result.content.as_ref());
            Some((End::Succeeded, content.map(result).unwrap_or_default()))
        }
        State::Dead => Some((End::Failed, error())),
        State::Cancelled => {
            let task_ends = error();
            let error = task_ends.error.or_else(|| Some("its task was cancelled".to_owned()));
            Some((End::Cancelled, Carried { error, ..Carried::default() }))
        }
        _ => None,
    }
}

fn result(content: &Content) -> Carried {
    let too_long = |bytes: usize| Carried { error: Some(too_long(bytes)), ..Carried::default() };
    if content.is_outside {
        return too_long(content.reference().map_or(0, |reference| reference.len));
    }
    if content.bytes.len() > values::RESULT_MAX_BYTES {
        return too_long(content.bytes.len());
    }
    let text = match (content.is_json, str::from_utf8(&content.bytes)) {
        (true, Ok(text)) => text.to_owned(),
        _ => serde_json::Value::String(STANDARD.encode(&content.bytes)).to_string(),
    };
    Carried { result: Some(text), ..Carried::default() }
}

/// The error if a result is needed.
pub(crate) fn too_long(bytes: usize) -> String {
    format!("its result has {bytes} bytes, and is too long to be passed on: pass a key instead")
}
