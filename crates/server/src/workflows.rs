//! Workflows: begun, seen, ended and continued. A token sees and changes those all of whose tasks go to queues that it
//! reaches. What a workflow means is the runner's and the domain's.

mod wire;

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    cursor,
    extract::{Body, Caller, Query, WorkflowNodeName, WorkflowRef},
    insert, namespaces,
    refusal::Refusal,
    set_aside,
};
use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::workflows::{StoredWorkflow, WorkflowId, WorkflowQuery};
use punctual_domain::{
    name::{Name, QueueKey},
    task::NewTask,
    workflow::{Definition, Work, WorkflowState},
};
use punctual_protocol::{
    CancelWorkflow, Code, CreateWorkflow, DrawWorkflow, GraphFormat, ListWorkflows, Page, RerunWorkflow,
    Workflow as Shown, limits::PAGE_DEFAULT,
};
use punctual_workflows::{Error, MovedRows, Plan, Runner, Submission, dot, mermaid};
use std::{collections::BTreeSet, sync::Arc};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => no_workflow(),
            Error::NoSuchNode => Self::new(Code::WorkflowNodeNotFound, error.to_string()),
            Error::Invalid(invalid) => Self::field(&format!("/{}", invalid.field), invalid.problem),
            Error::Refused(_) => Self::new(Code::WorkflowWrongState, error.to_string()),
            Error::Contended => Self::new(Code::WorkflowContended, error.to_string()),
            Error::Busy => Self::new(Code::ExpressionBusy, error.to_string()),
            Error::Engine(error) => error.into(),
        }
    }
}

fn runner(app: &App) -> Result<&Runner, Refusal> {
    let none = || Refusal::new(Code::RequestUnknownRoute, "this server was started without workflows");
    app.options.workflows.as_ref().ok_or_else(none)
}

/// Also of one that the token does not see.
fn no_workflow() -> Refusal {
    Refusal::new(Code::WorkflowNotFound, "the namespace has no workflow of this reference")
}

/// Every queue that tasks of it go to.
fn queues<'a>(definition: &'a Definition, all: &mut Vec<&'a Name>) {
    for node in definition.nodes.values() {
        match &node.work {
            Work::Task(task) => all.push(&task.queue),
            Work::Workflow(sub) => queues(&sub.definition, all),
        }
        all.extend(node.compensate.as_ref().map(|compensate| &compensate.queue));
    }
}

fn keys(namespace: &Name, definition: &Definition) -> Vec<QueueKey> {
    let mut all = Vec::new();
    queues(definition, &mut all);
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|name| QueueKey { namespace: namespace.clone(), queue: name.clone() }).collect()
}

fn reaches(who: &Who, stored: &StoredWorkflow, plan: &Plan) -> bool {
    keys(&stored.namespace, &plan.definition).iter().all(|key| who.reaches(key))
}

/// One that the token reaches.
async fn reached(app: &App, caller: &Caller, id: WorkflowId) -> Result<(StoredWorkflow, Arc<Plan>), Refusal> {
    let (stored, plan) = runner(app)?.get(&caller.namespace, id).await?;
    if reaches(&caller.who, &stored, &plan) { Ok((stored, plan)) } else { Err(no_workflow()) }
}

async fn shown(app: &App, namespace: &Name, id: WorkflowId) -> Result<Shown, Refusal> {
    let shown = wire::shown(runner(app)?.view(namespace, id).await?);
    let set_aside = set_aside::of(&runner(app)?.set_aside().await?, id.0);
    Ok(Shown { set_aside, ..shown })
}

/// The state of a workflow for the audit.
fn state_of(id: WorkflowId, word: &str) -> String {
    format!("{{\"ref\":\"{id}\",\"state\":\"{word}\"}}")
}

/// The answer after a change, with the current state, and with the data for the audit.
async fn changed(
    app: &App,
    namespace: &Name,
    id: WorkflowId,
    moved: MovedRows,
    reason: Option<String>,
) -> Result<Response, Refusal> {
    let after = shown(app, namespace, id).await.map_err(Refusal::after_a_change)?;
    let state = |state: WorkflowState| Some(state_of(id, state.word()));
    let audited = Changed { before: state(moved.before), after: state(moved.after), reason };
    Ok(audited.reported_with(answer::json(StatusCode::OK, &after)))
}

/// Start a workflow.
///
/// The complete document is checked first. A mistake is reported with its path. With an `Idempotency-Key` the
/// workflow is started once, even if this engine crashes meanwhile.
#[utoipa::path(
    post, path = "/v1/workflows", operation_id = "create_workflow", tag = "workflows",
    request_body(content = CreateWorkflow, example = json!({
        "name": "order", "input": {"items": [1, 2, 3]}, "nodes": {
            "charge": {"task": {"queue": "pay", "payload": {"$expr": "input"}}, "compensate": {"task": {"queue": "refund"}}},
            "pack": {"task": {"queue": "pack", "payload": {"$expr": "item"}}, "after": ["charge"], "for_each": "input.items"},
            "send": {"task": {"queue": "send"}, "after": ["pack"], "when": "nodes.charge.result.paid"}
        }
    })),
    responses(
        (status = 201, description = "The workflow was started.", body = Shown),
        (status = 200, description = "A request with the same key had already started it.", body = Shown),
    ),
)]
pub(crate) async fn create_workflow(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let (definition, input) = wire::domain(CreateWorkflow::from_json(&body)?)?;
    begin(&app, &caller, Arc::new(definition), input).await
}

/// A workflow begins where a task could be inserted into each queue that its first nodes go to: it counts as one there. What it
/// makes later is refused by no cap: what has begun comes to its end.
async fn room_for_first(app: &App, caller: &Caller, definition: &Definition) -> Result<(), Refusal> {
    let mut first = BTreeSet::new();
    first_queues(definition, &mut first);
    let now = app.engine.now();
    let task = |(queue, kind): (&Name, &Name)| {
        NewTask::new(
            QueueKey { namespace: caller.namespace.clone(), queue: queue.clone() },
            kind.clone(),
            now,
        )
    };
    let tasks: Vec<NewTask> = first.into_iter().map(task).collect();
    match app.engine.refused(&tasks).await?.into_iter().flatten().next() {
        Some(refused) => Err(insert::not_now(refused, caller).into()),
        None => Ok(()),
    }
}

fn first_queues<'a>(definition: &'a Definition, all: &mut BTreeSet<(&'a Name, &'a Name)>) {
    for node in definition.nodes.values().filter(|node| node.after.is_empty()) {
        match &node.work {
            Work::Task(task) if all.iter().any(|pair| pair.0 == &task.queue) => {}
            Work::Task(task) => drop(all.insert((&task.queue, &task.kind))),
            Work::Workflow(sub) => first_queues(&sub.definition, all),
        }
    }
}

async fn begin(
    app: &App,
    caller: &Caller,
    definition: Arc<Definition>,
    input: String,
) -> Result<Response, Refusal> {
    for queue in keys(&caller.namespace, &definition) {
        caller.who.must_reach(&queue)?;
    }
    namespaces::must_be_open(app, &caller.namespace)?;
    room_for_first(app, caller, &definition).await?;
    // Keys belong to the token that sends them.
    let key = caller.idempotency_key.as_deref();
    let key = key.map(|key| format!("{}\u{1}{key}", caller.who.owner().unwrap_or_default()));
    let namespace = caller.namespace.clone();
    let asked = Submission { namespace, definition, input, key, by: caller.who.by().to_owned() };
    let (stored, is_new) = runner(app)?.create(asked).await?;
    let shown = shown(app, &stored.namespace, stored.id).await.map_err(Refusal::after_a_change)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let after = Some(state_of(stored.id, stored.state.word()));
    Ok(Changed { after, ..Changed::default() }.reported_with(answer::json(status, &shown)))
}

/// List the workflows of the namespace, the newest first.
#[utoipa::path(
    get, path = "/v1/workflows", operation_id = "list_workflows", tag = "workflows", params(ListWorkflows),
    responses((status = 200, description = "A page of them, without their nodes.", body = Page<Shown>)),
)]
pub(crate) async fn list_workflows(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<ListWorkflows>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let name = asked.name.as_deref().map(Name::chosen).transpose();
    let query = WorkflowQuery {
        namespace: caller.namespace.clone(),
        name: name.map_err(|error| Refusal::field("/name", error.to_string()))?,
        state: asked.state.map(wire::state),
        before: cursor::before_id(asked.cursor.as_deref())?.map(WorkflowId),
        limit,
    };
    let all = match caller.who.reaches_namespace(&caller.namespace) {
        true => runner(&app)?.list(&query).await?,
        false => Vec::new(),
    };
    let next_cursor = all.last().filter(|_| all.len() == limit).map(|pair| cursor::write(pair.0.id.0));
    let seen = all.into_iter().filter(|(stored, plan)| reaches(&caller.who, stored, plan));
    let all_set_aside = runner(&app)?.set_aside().await?;
    let brief = |stored: StoredWorkflow| {
        let set_aside = set_aside::of(&all_set_aside, stored.id.0);
        Shown { set_aside, ..wire::brief(stored) }
    };
    let items = seen.map(|pair| brief(pair.0)).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// Get a workflow with its nodes.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}", operation_id = "get_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "The `ref` of the workflow.")),
    responses((status = 200, description = "The workflow.", body = Shown)),
)]
pub(crate) async fn get_workflow(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowRef(id): WorkflowRef,
) -> Result<Response, Refusal> {
    reached(&app, &caller, id).await?;
    Ok(answer::json(StatusCode::OK, &shown(&app, &caller.namespace, id).await?))
}

/// Cancel a workflow.
///
/// No further node begins. Tasks that have not begun are cancelled, executors are requested to stop, and then
/// completed work is compensated, the last first. The body is optional.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/cancel", operation_id = "cancel_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "The `ref` of the workflow.")),
    request_body(content = Option<CancelWorkflow>, example = json!({"reason": "ordered twice"})),
    responses((status = 200, description = "The workflow after the change.", body = Shown)),
)]
pub(crate) async fn cancel_workflow(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowRef(id): WorkflowRef,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = CancelWorkflow::from_json(&body)?;
    reached(&app, &caller, id).await?;
    let by = caller.who.by();
    let reason = asked.reason.as_deref().map_or_else(|| format!("cancelled by {by}"), str::to_owned);
    let moved = runner(&app)?.cancel(id, &reason).await?;
    changed(&app, &caller.namespace, id, moved, asked.reason).await
}

/// Continue a workflow from its failed nodes.
///
/// Nodes that failed or were cancelled run again with a new attempt; succeeded ones stay. Refused if completed work was
/// compensated.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/retry", operation_id = "retry_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "The `ref` of the workflow.")),
    responses((status = 200, description = "The workflow after the change.", body = Shown)),
)]
pub(crate) async fn retry_workflow(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowRef(id): WorkflowRef,
) -> Result<Response, Refusal> {
    reached(&app, &caller, id).await?;
    namespaces::must_be_open(&app, &caller.namespace)?;
    let moved = runner(&app)?.retry(id).await?;
    changed(&app, &caller.namespace, id, moved, None).await
}

/// Skip a node of a workflow.
///
/// It counts as done, without a result, and the following nodes continue. Its running tasks are stopped first. In a failed
/// workflow, failed nodes can be skipped before it is retried.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/nodes/{node}/skip", operation_id = "skip_node", tag = "workflows",
    params(
        ("workflow" = String, Path, description = "The `ref` of the workflow."),
        ("node" = String, Path, description = "The name of the node."),
    ),
    responses((status = 200, description = "The workflow after the change.", body = Shown)),
)]
pub(crate) async fn skip_node(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowNodeName(id, node): WorkflowNodeName,
) -> Result<Response, Refusal> {
    let (_, plan) = reached(&app, &caller, id).await?;
    let moved = runner(&app)?.skip(id, &plan, &node).await?;
    changed(&app, &caller.namespace, id, moved, Some(format!("node {}", node.as_str()))).await
}

/// Start a copy of a workflow.
///
/// With the same document, and with the same input unless another is given. The body is optional.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/rerun", operation_id = "rerun_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "The `ref` of the workflow.")),
    request_body(content = Option<RerunWorkflow>, example = json!({"input": {"items": [4]}})),
    responses(
        (status = 201, description = "The copy.", body = Shown),
        (status = 200, description = "A request with the same key had already started it.", body = Shown),
    ),
)]
pub(crate) async fn rerun_workflow(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowRef(id): WorkflowRef,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = RerunWorkflow::from_json(&body)?;
    let (stored, plan) = reached(&app, &caller, id).await?;
    let input = asked.input.map_or(stored.input, punctual_protocol::Json::into_text);
    begin(&app, &caller, Arc::clone(&plan.definition), input).await
}

/// Draw a workflow.
///
/// `mermaid` and `dot` are answered as text; `json` has nodes and edges.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}/graph", operation_id = "draw_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "The `ref` of the workflow."), DrawWorkflow),
    responses((status = 200, description = "The drawing.", body = punctual_protocol::WorkflowGraph)),
)]
pub(crate) async fn draw_workflow(
    State(app): State<Shared>,
    caller: Caller,
    WorkflowRef(id): WorkflowRef,
    Query(asked): Query<DrawWorkflow>,
) -> Result<Response, Refusal> {
    reached(&app, &caller, id).await?;
    let view = runner(&app)?.view(&caller.namespace, id).await?;
    let run = view.run();
    let text = |text: String| {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        ([(header::CONTENT_TYPE, plain)], text).into_response()
    };
    Ok(match asked.format.unwrap_or_default() {
        GraphFormat::Mermaid => text(mermaid(&view.plan, &run)),
        GraphFormat::Dot => text(dot(&view.plan, &run)),
        GraphFormat::Json => answer::json(StatusCode::OK, &wire::graph(&view.plan, &run)),
    })
}
