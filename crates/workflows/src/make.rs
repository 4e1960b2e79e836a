//! Creates the tasks of open rows. An id is derived from workflow, node, item and attempt, and an existing task
//! stays: created twice, it is one task, however late the second insert is. A task whose content cannot be filled in
//! ends its node.

use crate::{
    Plan,
    advance::{NodeEnd, StepContext, StepRequest},
    fill::Filling,
    values,
};
use punctual_contract::{
    Error as BackendError,
    store::Inserted,
    workflows::{Carried, MadeNode, NewWorkflow, StoredWorkflow, WorkflowId},
};
use punctual_domain::{
    identity::IdentitySecret,
    insert::OnConflict,
    name::{Name, QueueKey},
    schedule::Payload,
    task::{Content, NewTask, Task},
    workflow::{
        End, NodeIdentity, NodeKey, ParentNode, Progress, Role, SubWorkflow, TaskTemplate, Work, fingerprint,
    },
};
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

/// The author in the histories of tasks.
pub(crate) const BY: &str = "workflow";
/// The label on every task of a workflow.
const LABEL: &str = "workflow";
const LABEL_NODE: &str = "workflow_node";
const LABEL_ITEM: &str = "workflow_item";
const LABEL_ROLE: &str = "workflow_role";
const LABEL_ATTEMPT: &str = "workflow_attempt";
const COMPENSATION: &str = "compensation";
/// The number of ids that are tried if other tasks have them.
const SALTS: RangeInclusive<u8> = 0..=3;
/// Tasks of one insert.
const BATCH: usize = 1_000;
/// Payloads that are filled in before they are inserted.
const PAYLOADS_MAX_BYTES: usize = 16 << 20;
/// Rows of a fan-out that are filled in together: each payload may have a megabyte.
const ROWS_AT_ONCE: usize = 250;

/// The workflow in a task's labels.
#[must_use]
pub fn workflow_of(task: &Task) -> Option<WorkflowId> {
    task.ask.labels.get(LABEL)?.parse().ok()
}

/// The row that a task is of, with the attempt: labels can be anybody's, the id that follows from them is not.
pub(crate) fn node_of(
    task: &Task,
    stored: &StoredWorkflow,
    plan: &Plan,
    secret: Option<&IdentitySecret>,
) -> Option<(NodeKey, u32)> {
    let label = |name: &str| task.ask.labels.get(name);
    let name = Name::new(label(LABEL_NODE)?).ok()?;
    let node = plan.graph.number(&name)?;
    let item = match label(LABEL_ITEM) {
        Some(text) => Some(text.parse().ok()?),
        None => None,
    };
    let role = if label(LABEL_ROLE).is_some() { Role::Compensation } else { Role::Action };
    let (key, attempt) = (NodeKey { node, item, role }, label(LABEL_ATTEMPT)?.parse().ok()?);
    let identity = identity(stored, &name, &key, attempt);
    let is_own = SALTS.into_iter().any(|salt| identity.task_id(secret, salt) == task.task_id());
    (is_own && task.ask.queue.namespace == stored.namespace).then_some((key, attempt))
}

fn identity<'a>(stored: &StoredWorkflow, node: &'a Name, key: &NodeKey, attempt: u32) -> NodeIdentity<'a> {
    let NodeKey { item, role, .. } = *key;
    NodeIdentity { workflow: stored.id.0, created_at: stored.created_at, node, item, role, attempt }
}

/// The task to make for one row.
struct RowToMake {
    key: NodeKey,
    attempt: u32,
    /// Filled in. `None` if it has none.
    content: Option<Content>,
}

/// Makes the tasks or workflows of these rows. Returns the ends of those that fail.
pub(crate) async fn make(
    step: &mut StepContext<'_>,
    keys: Vec<NodeKey>,
) -> Result<Vec<NodeEnd>, BackendError> {
    let mut groups: BTreeMap<(u32, Role), Vec<NodeKey>> = BTreeMap::new();
    for key in keys {
        groups.entry((key.node, key.role)).or_default().push(key);
    }
    let (mut ends, groups) = (Vec::new(), groups.into_iter().collect::<Vec<_>>());
    for some in groups.chunks(values::NODES_AT_ONCE) {
        let plan = step.plan;
        let needed = some.iter().flat_map(|((node, role), _)| values::needed(plan, *node, *role));
        step.known.read(step.inner, step.stored, needed).await?;
        make_some(step, some, &mut ends).await?;
    }
    Ok(ends)
}

async fn make_some(
    step: &mut StepContext<'_>,
    groups: &[((u32, Role), Vec<NodeKey>)],
    ends: &mut Vec<NodeEnd>,
) -> Result<(), BackendError> {
    let (plan, mut tasks) = (step.plan, Vec::new());
    for ((node, role), keys) in groups {
        let Some(document) = plan.node(*node) else { continue };
        let mut filling = Filling::of(*node, *role);
        // However many rows there are, only this many payloads are held at a time.
        for keys in keys.chunks(ROWS_AT_ONCE) {
            match (&document.work, *role) {
                (Work::Workflow(sub), Role::Action) => {
                    for wanted in filled(step, &mut filling, keys, sub.input.as_deref(), ends).await? {
                        begin(step, sub, wanted).await?;
                    }
                }
                (Work::Task(template), Role::Action) => {
                    tasks.extend(tasks_of(step, &mut filling, keys, template, ends).await?);
                }
                (_, Role::Compensation) => {
                    if let Some(template) = &document.compensate {
                        tasks.extend(tasks_of(step, &mut filling, keys, template, ends).await?);
                    }
                }
            }
            let bytes: usize = tasks.iter().map(|task| task.task.payload.bytes.len()).sum();
            if bytes > PAYLOADS_MAX_BYTES {
                insert_all(step, &mut tasks).await?;
            }
        }
    }
    insert_all(step, &mut tasks).await
}

async fn insert_all<'a>(
    step: &mut StepContext<'a>,
    tasks: &mut Vec<Prepared<'a>>,
) -> Result<(), BackendError> {
    for some in tasks.chunks(BATCH) {
        insert(step, some).await?;
    }
    tasks.clear();
    Ok(())
}

/// A row with its task, but for the id.
struct Prepared<'a> {
    key: NodeKey,
    attempt: u32,
    node: &'a Name,
    task: NewTask,
}

async fn tasks_of<'a>(
    step: &StepContext<'a>,
    filling: &mut Filling,
    keys: &[NodeKey],
    template: &TaskTemplate,
    ends: &mut Vec<NodeEnd>,
) -> Result<Vec<Prepared<'a>>, BackendError> {
    let plan: &'a Plan = step.plan;
    let Some(name) = plan.graph.name(filling.node) else { return Ok(Vec::new()) };
    let all = match &template.payload {
        Some(Payload::Json(text)) => filled(step, filling, keys, Some(text), ends).await?,
        Some(Payload::Bytes(bytes)) => plain(step, keys, &Some(Content::binary(bytes.clone()))),
        None => plain(step, keys, &None),
    };
    let namespace = &step.stored.namespace;
    let queue = QueueKey { namespace: namespace.clone(), queue: template.queue.clone() };
    let set = step.inner.engine.known_settings(&queue);
    let of_actions = filling.role == Role::Action;
    let delay_ms = plan.node(filling.node).and_then(|node| node.delay_ms).filter(|_| of_actions);
    let mut like = template.task(namespace, step.inner.engine.now(), &set);
    like.on_conflict = OnConflict::Keep;
    like.labels.insert(LABEL.to_owned(), step.stored.id.to_string());
    like.labels.insert(LABEL_NODE.to_owned(), name.as_str().to_owned());
    let task = |wanted: RowToMake| {
        let RowToMake { key, attempt, content } = wanted;
        let mut task = NewTask { payload: content.unwrap_or_default(), ..like.clone() };
        if let Some(delay_ms) = delay_ms {
            // From its beginning, whichever engine makes it and however late.
            task.execute_at = step.begun.get(&key).copied().unwrap_or(step.now).plus(delay_ms);
        }
        task.labels.insert(LABEL_ATTEMPT.to_owned(), attempt.to_string());
        task.labels.extend(key.item.map(|number| (LABEL_ITEM.to_owned(), number.to_string())));
        if key.role == Role::Compensation {
            task.labels.insert(LABEL_ROLE.to_owned(), COMPENSATION.to_owned());
        }
        Prepared { key, attempt, node: name, task }
    };
    Ok(all.into_iter().map(task).collect())
}

fn plain(step: &StepContext<'_>, keys: &[NodeKey], content: &Option<Content>) -> Vec<RowToMake> {
    let one = |key: &NodeKey| {
        let attempt = step.run.row(key)?.attempt;
        Some(RowToMake { key: *key, attempt, content: content.clone() })
    };
    keys.iter().filter_map(one).collect()
}

/// The filled-in text for each row; failures are added to the ends.
async fn filled(
    step: &StepContext<'_>,
    filling: &mut Filling,
    keys: &[NodeKey],
    text: Option<&str>,
    ends: &mut Vec<NodeEnd>,
) -> Result<Vec<RowToMake>, BackendError> {
    let rows = plain(step, keys, &None);
    let Some(text) = text else { return Ok(rows) };
    let keys: Vec<NodeKey> = rows.iter().map(|wanted| wanted.key).collect();
    let contents = filling.fill(step, &keys, text).await?;
    let mut all = Vec::with_capacity(rows.len());
    for (row, content) in rows.into_iter().zip(contents) {
        match content {
            Ok(text) => all.push(RowToMake { content: Some(Content::json(text)), ..row }),
            Err(problem) => {
                let carried = Carried { error: Some(problem), ..Carried::default() };
                ends.push(NodeEnd { key: row.key, attempt: row.attempt, end: End::Failed, carried });
            }
        }
    }
    Ok(all)
}

/// Inserts tasks, and records in their rows that they exist. Failed ones are created in the next run.
async fn insert(step: &mut StepContext<'_>, all: &[Prepared<'_>]) -> Result<(), BackendError> {
    let mut made = Vec::with_capacity(all.len());
    let mut left: Vec<&Prepared<'_>> = all.iter().collect();
    for salt in SALTS {
        if left.is_empty() {
            break;
        }
        let with_id = |prepared: &&Prepared<'_>| {
            let id = identity(step.stored, prepared.node, &prepared.key, prepared.attempt)
                .task_id(step.secret.as_ref(), salt);
            NewTask { task_id: Some(id), ..prepared.task.clone() }
        };
        let tasks = left.iter().map(with_id).collect();
        let inserted = step.inner.engine.insert_each(tasks, BY).await.map_err(backend)?;
        let mut taken = Vec::new();
        for (prepared, inserted) in left.into_iter().zip(inserted) {
            match inserted {
                Ok(Inserted { task, .. }) => {
                    match node_of(&task, step.stored, step.plan, step.secret.as_ref()) {
                        Some(_) => made.push(MadeNode {
                            key: prepared.key,
                            attempt: prepared.attempt,
                            task_ref: task.place.to_string(),
                        }),
                        // Another task has its id.
                        None => {
                            let workflow = step.stored.id;
                            tracing::error!(%workflow, node = %prepared.node, task = %task.place, "another task has the id of a node's; the node's gets another");
                            step.inner.engine.count_identity_conflict();
                            taken.push(prepared);
                        }
                    }
                }
                Err(error) => {
                    let workflow = step.stored.id;
                    tracing::warn!(%workflow, node = %prepared.node, %error, "a task could not be made; it is tried again");
                }
            }
        }
        left = taken;
    }
    note(step, made).await
}

async fn note(step: &mut StepContext<'_>, made: Vec<MadeNode>) -> Result<(), BackendError> {
    step.refs.extend(made.iter().map(|node| (node.key, node.task_ref.clone())));
    if made.is_empty() { Ok(()) } else { step.inner.store.nodes_made(step.stored.id, made).await }
}

/// A workflow that is a node.
async fn begin(step: &mut StepContext<'_>, sub: &SubWorkflow, wanted: RowToMake) -> Result<(), BackendError> {
    let RowToMake { key, attempt, content } = wanted;
    let (stored, now) = (step.stored, step.inner.engine.now());
    let parent = ParentNode { workflow: stored.id.0, node: key.node, item: key.item, attempt };
    let input = content
        .and_then(|content| String::from_utf8(content.bytes).ok())
        .unwrap_or_else(|| "null".to_owned());
    let named = format!("{}/{}/{parent:?}", stored.id, stored.created_at.0);
    let new = NewWorkflow {
        namespace: stored.namespace.clone(),
        definition: Arc::new(sub.definition.clone()),
        input,
        key: Some(fingerprint(&named)),
        progress: Progress {
            parent: Some(parent),
            is_keyed: true,
            deadline_at: sub.definition.deadline_ms.map(|deadline_ms| now.plus(deadline_ms)),
            ..Progress::default()
        },
        wake_at: Some(now.plus(step.inner.options.first_look_ms)),
        by: BY.to_owned(),
    };
    let child = step.inner.store.create_workflow(new, now).await?.workflow.id;
    note(step, vec![MadeNode { key, attempt, task_ref: child.to_string() }]).await?;
    // A subject that an engine has died of is evaluated alone: the other workflow waits for its own look.
    if step.marked.is_alone() {
        return Ok(());
    }
    // However deep it is nested, that has a bound.
    if let Err(error) = Box::pin(step.inner.advance(child, StepRequest::default())).await {
        tracing::warn!(workflow = %child, %error, "a workflow could not be begun; it is looked at again");
    }
    Ok(())
}

pub(crate) fn backend(error: punctual_engine::Error) -> BackendError {
    match error {
        punctual_engine::Error::Backend(error) => error,
        other => BackendError::did_not_happen("run a workflow", other),
    }
}
