//! What has become of the tasks of nodes, and of workflows that are nodes: of those that somebody told of, or of all that have
//! not ended. A look at one that waits costs less the longer it lasts: it comes when something could have happened.

use crate::{
    Plan,
    advance::{Ended, kept},
    make,
    runner::Inner,
    values,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
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
use std::collections::{BTreeMap, HashMap};

/// After the instant at which something could have happened.
const GRACE_MS: i64 = 2_000;
/// Tasks of one read.
const BATCH: usize = 1_000;

/// What was found, and when it is worth while to look again.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) ended: Vec<Ended>,
    pub(crate) next_at: Option<Millis>,
}

/// Of these tasks, those that are of workflows and have ended.
pub(crate) async fn tasks(
    inner: &Inner,
    places: &[TaskRef],
) -> Result<Vec<(WorkflowId, Ended)>, BackendError> {
    let mut all = Vec::new();
    let mut known: HashMap<WorkflowId, Option<(StoredWorkflow, std::sync::Arc<Plan>)>> = HashMap::new();
    for some in places.chunks(BATCH) {
        for task in read(inner, some.to_vec()).await?.into_iter().flatten() {
            let Some((end, carried)) = end_of(&task) else { continue };
            let Some(id) = make::workflow_of(&task) else { continue };
            if let std::collections::hash_map::Entry::Vacant(place) = known.entry(id) {
                let stored = inner.store.workflow(id).await?;
                place.insert(match stored {
                    Some(stored) => inner.plan(stored.definition).await?.map(|plan| (stored, plan)),
                    None => None,
                });
            }
            let Some(Some((stored, plan))) = known.get(&id) else { continue };
            if let Some((key, attempt)) = make::node_of(&task, stored, plan) {
                all.push((id, Ended { key, attempt, end, carried }));
            }
        }
    }
    Ok(all)
}

async fn read(inner: &Inner, places: Vec<TaskRef>) -> Result<Vec<Option<Task>>, BackendError> {
    let read = inner.engine.read_each(places).await.map_err(make::backend)?;
    let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(read)
}

/// None: it is not over, or not there.
pub(crate) async fn workflow(
    inner: &Inner,
    id: WorkflowId,
    parent: ParentNode,
) -> Result<Option<Ended>, BackendError> {
    let Some(stored) = inner.store.workflow(id).await? else { return Ok(None) };
    let key = NodeKey { node: parent.node, item: parent.item, role: Role::Action };
    over(inner, &stored, key, parent.attempt).await
}

async fn over(
    inner: &Inner,
    stored: &StoredWorkflow,
    key: NodeKey,
    attempt: u32,
) -> Result<Option<Ended>, BackendError> {
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
    Ok(Some(Ended { key, attempt, end, carried }))
}

/// The results of the nodes that nothing comes after, by name.
async fn results(inner: &Inner, stored: &StoredWorkflow) -> Result<Result<String, String>, BackendError> {
    let Some(plan) = inner.plan(stored.definition).await? else { return Ok(Ok("null".to_owned())) };
    let rows: BTreeMap<_, _> =
        inner.store.node_rows(stored.id).await?.into_iter().map(|it| (it.key, it.row)).collect();
    let run = Run::of(stored.state, stored.progress.ending, stored.progress.completed, rows);
    let mut known = values::Known::default();
    known.read(inner, stored, plan.leaves().into_iter()).await?;
    let mut all = serde_json::Map::new();
    for node in plan.leaves() {
        let Some(name) = plan.graph.name(node) else { continue };
        match known.result(&run, node) {
            Ok(result) => drop(all.insert(name.as_str().to_owned(), result)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(serde_json::Value::Object(all).to_string()))
}

/// At every task and workflow of a node that has not ended.
pub(crate) async fn at_open(
    inner: &Inner,
    stored: &StoredWorkflow,
    plan: &Plan,
    nodes: &[StoredNode],
    now: Millis,
) -> Result<Looked, BackendError> {
    let mut looked = Looked::default();
    let mut places: Vec<(&StoredNode, TaskRef)> = Vec::new();
    for node in nodes.iter().filter(|it| it.row.state.is_open() && it.row.items.is_none()) {
        let Some(text) = &node.task_ref else { continue };
        if let Ok(id) = text.parse::<WorkflowId>() {
            let found = inner.store.workflow(id).await?;
            match found {
                None => looked.ended.push(gone(node)),
                Some(child) => {
                    looked.ended.extend(over(inner, &child, node.key, node.row.attempt).await?);
                    looked.at(inner, rarely(inner, node.begun_at, now), now);
                }
            }
        } else if let Ok(place) = text.parse::<TaskRef>() {
            places.push((node, place));
        }
    }
    for some in places.chunks(BATCH) {
        let found = read(inner, some.iter().map(|it| it.1).collect()).await?;
        for ((node, _), task) in some.iter().zip(found) {
            let Some(task) = task.filter(|it| make::node_of(it, stored, plan).is_some()) else {
                looked.ended.push(gone(node));
                continue;
            };
            match end_of(&task) {
                Some((end, carried)) => {
                    looked.ended.push(Ended { key: node.key, attempt: node.row.attempt, end, carried });
                }
                None => looked.at(inner, next_at(inner, &task, now), now),
            }
        }
    }
    Ok(looked)
}

impl Looked {
    fn at(&mut self, inner: &Inner, at: Millis, now: Millis) {
        let at = at.max(now.plus(inner.options.first_look_ms));
        self.next_at = self.next_at.into_iter().chain([at]).min();
    }
}

/// When a task that has not ended could have.
fn next_at(inner: &Inner, task: &Task, now: Millis) -> Millis {
    match task.state {
        State::Scheduled | State::Dispatching | State::Retrying | State::Blocked => {
            task.due_at.max(now).plus(GRACE_MS)
        }
        State::Dispatched | State::Running => {
            let until = task.lease.as_ref().map_or(now, |it| it.until);
            until.max(now).plus(GRACE_MS)
        }
        _ => rarely(inner, task.due_at, now),
    }
}

/// The longer it waits, the rarer it is looked at.
fn rarely(inner: &Inner, since: Millis, now: Millis) -> Millis {
    let waited = now.since(since).max(0) / 2;
    now.plus(waited.clamp(inner.options.first_look_ms, inner.options.look_max_ms))
}

fn gone(node: &StoredNode) -> Ended {
    let error = Some("its task is gone".to_owned());
    let carried = Carried { error, ..Carried::default() };
    Ended { key: node.key, attempt: node.row.attempt, end: End::Failed, carried }
}

/// None: it has not ended.
pub(crate) fn end_of(task: &Task) -> Option<(End, Carried)> {
    let error = || Carried { error: task.last_error.as_deref().and_then(kept), ..Carried::default() };
    match task.state {
        State::Succeeded | State::Stopped => {
            let content = task.result.as_ref().and_then(|it| it.content.as_ref());
            Some((End::Succeeded, content.map(result).unwrap_or_default()))
        }
        State::Dead => Some((End::Failed, error())),
        State::Cancelled => {
            let told = error();
            let error = told.error.or_else(|| Some("its task was cancelled".to_owned()));
            Some((End::Cancelled, Carried { error, ..Carried::default() }))
        }
        _ => None,
    }
}

fn result(content: &Content) -> Carried {
    let too_long = |bytes: usize| Carried { error: Some(too_long(bytes)), ..Carried::default() };
    if content.is_outside {
        return too_long(content.reference().map_or(0, |it| it.len));
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

/// As it is told where a result is wanted.
pub(crate) fn too_long(bytes: usize) -> String {
    format!("its result has {bytes} bytes, and is too long to be passed on: pass a key instead")
}
