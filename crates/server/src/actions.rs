//! Actions on an existing task. Every answer is definite: done, or a problem document with the task in its current state.

use crate::{
    answer,
    app::{App, Shared},
    ask::{self, Context},
    etag,
    extract::{Body, Caller, TaskPath},
    insert,
    lookup::task_of,
    refusal::Refusal,
    reported::{self, TaskBefore},
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::{store::Change, workflows::WorkflowId};
use punctual_domain::{place::TaskRef, state::State as TaskState, task::Task};
use punctual_engine::{Cancelled, Changed, Deleted, QueueRefused};
use punctual_protocol::{
    ActionAnswer, ActionOutcome, BuryRequest, CancelRequest, Code, PatchTask, Problem, Task as WireTask,
    WORKFLOW_LABEL, parse,
};
use punctual_workflows::Expected;

/// Change a task that has not fired, or that is dead.
///
/// A dead task stays dead until it is redriven. Its payload, priority, number of attempts, retry policy and timeout can be
/// changed; the redrive sets its time and its queue.
#[utoipa::path(
    patch, path = "/v1/tasks/{ref}", operation_id = "patch_task", tag = "tasks",
    params(
        ("ref" = String, Path, description = "The `ref` of the task. It stays the same."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    request_body(content = PatchTask, example = json!({"delay_ms": 60000, "priority": 1})),
    responses((status = 200, description = "The task after the change.", body = WireTask, headers(("ETag" = String)))),
)]
pub(crate) async fn patch_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = PatchTask::from_json(&body)?;
    let before = task_of(&app, &caller, place).await?;
    let (condition, found) = (etag::condition(&headers), TaskBefore::default());
    let noting = found.noting();
    let expected = move |task: &Task| {
        noting(task);
        condition.as_deref().is_none_or(|condition| etag::matches(condition, task))
    };
    let replaces = asked.replaces_payload();
    let changed = if before.state == TaskState::Dead {
        if asked.is_of_the_plan() {
            let consequence = "its time and its queue are changed by a redrive, whose body may name them";
            return Err(already_fired(&before, consequence));
        }
        let change = ask::amend(asked, Context::of(&app, &caller))?;
        app.engine.amend(place, change, caller.who.by(), expected).await?
    } else {
        if let Some(pointer) = asked.only_of_the_dead() {
            return Err(Refusal::field(pointer, "can be changed of a dead task only, before it is redriven"));
        }
        let change = ask::reschedule(asked, Context::of(&app, &caller))?;
        has_room(&app, &before, &change).await?;
        app.engine.reschedule(place, change, caller.who.by(), expected).await?
    };
    match changed {
        Some(Changed::Changed(task)) => {
            let tag = [(header::ETAG, etag::header(&task))];
            let changed = found.became_with(&task, replaces);
            let response = (tag, answer::json(StatusCode::OK, &answer::task(*task))).into_response();
            Ok(changed.reported_with(response))
        }
        Some(Changed::Refused(task)) => Err(already_fired(&task, "it can be changed no more")),
        None => Err(precondition_failed(task_of(&app, &caller, place).await?)),
    }
}

/// Checks the caps for a task that waits, or will wait: another queue, or a longer payload.
async fn has_room(app: &App, before: &Task, change: &Change) -> Result<(), Refusal> {
    if let Some(queue) = change.queue()
        && let Some(refused) = app.engine.queue_refused(before, queue).await
    {
        return Err(queue_refused(&refused));
    }
    if let Some(payload) = change.payload()
        && let Some(refused) = app.engine.payload_refused(before, payload).await
    {
        return Err(insert::too_many_bytes(&refused).into());
    }
    Ok(())
}

fn queue_refused(why: &QueueRefused) -> Refusal {
    match why {
        QueueRefused::Full(full) => insert::full(full).into(),
        QueueRefused::Versions(_) => Refusal::field("/queue", why.to_string()),
    }
}

fn precondition_failed(task: Task) -> Refusal {
    let detail =
        format!("its ETag is {} now; look at what has changed, and send that as If-Match", etag::of(&task));
    Problem::new(Code::PreconditionFailed, detail).with_existing(answer::brief(task)).into()
}

fn already_fired(task: &Task, consequence: &str) -> Refusal {
    let detail = match task.state {
        state if state.is_finished() => format!("the task is {}; {consequence}", state.word()),
        state if state.is_in_flight() => format!(
            "the task is {} with an executor; {consequence}; to ask the executor to stop, cancel with stop_if_fired",
            state.word()
        ),
        _ => format!(
            "the task has fired and waits for an executor; {consequence}; to withdraw it, cancel with stop_if_fired"
        ),
    };
    Problem::new(Code::TaskAlreadyFired, detail).with_existing(answer::brief(task.clone())).into()
}

fn done(outcome: ActionOutcome, task: Task, found: &TaskBefore) -> Response {
    let changed = found.became(&task);
    changed.reported_with(bare_done(outcome, task))
}

fn bare_done(outcome: ActionOutcome, task: Task) -> Response {
    let tag = [(header::ETAG, etag::header(&task))];
    let answer = ActionAnswer { outcome, task: Some(answer::task(task)) };
    (tag, answer::json(StatusCode::OK, &answer)).into_response()
}

/// A task that may be ended manually: if it is one of a workflow, that continues at once.
struct Ending {
    expected: Option<Expected>,
    workflow: Option<WorkflowId>,
    place: TaskRef,
}

impl Ending {
    async fn of(app: &App, task: &Task) -> Self {
        let workflow = task.ask.labels.get(WORKFLOW_LABEL).and_then(|label| label.parse().ok());
        let expected = match app.options.workflows.as_ref().filter(|_| workflow.is_some()) {
            Some(runner) => Some(runner.expect(workflow).await),
            None => None,
        };
        Self { expected, workflow, place: task.place }
    }

    fn report_end(self) {
        if let Some(expected) = self.expected {
            expected.ended([(self.workflow, self.place)]);
        }
    }
}

/// Cancel a task.
///
/// Either the task is cancelled or it fires: one atomic step decides, to the millisecond. The body is optional.
#[utoipa::path(
    post, path = "/v1/tasks/{ref}/cancel", operation_id = "cancel_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    request_body(content = Option<CancelRequest>, example = json!({"stop_if_fired": true})),
    responses((status = 200, body = ActionAnswer, description = "`cancelled`: the task will not run. `stop_requested`: an executor has it, and learns of the request with its next heartbeat.")),
)]
pub(crate) async fn cancel_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let request = CancelRequest::from_json(&body)?;
    let before = task_of(&app, &caller, place).await?;
    let ending = Ending::of(&app, &before).await;
    let found = TaskBefore::default();
    let by = caller.who.by();
    match app.engine.cancel_noting(place, request.stop_if_fired, by, found.noting()).await? {
        Cancelled::Cancelled(task) => {
            ending.report_end();
            Ok(done(ActionOutcome::Cancelled, *task, &found))
        }
        Cancelled::StopRequested(task) => Ok(done(ActionOutcome::StopRequested, *task, &found)),
        Cancelled::AlreadyFired(task) => Err(already_fired(&task, "it was not cancelled")),
    }
}

/// Make a waiting task due now.
#[utoipa::path(
    post, path = "/v1/tasks/{ref}/run-now", operation_id = "run_task_now", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    responses((status = 200, description = "`scheduled`: the task is due now.", body = ActionAnswer)),
)]
pub(crate) async fn run_task_now(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    Body(body): Body,
) -> Result<Response, Refusal> {
    bare(&app, &caller, place, &body).await?;
    let refuse = |task: Task| already_fired(&task, "there is nothing to bring forward");
    let found = TaskBefore::default();
    let run = app.engine.run_now_noting(place, caller.who.by(), found.noting()).await?;
    changed(run, ActionOutcome::Scheduled, &found, refuse)
}

/// Give a dead task new attempts.
///
/// The task is due now, unless the body names a time. The body may also change other fields in the same step, such as a
/// payload that could not be processed. The body is optional.
#[utoipa::path(
    post, path = "/v1/tasks/{ref}/redrive", operation_id = "redrive_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    request_body(content = Option<PatchTask>, example = json!({"payload": {"to": "ada@example.org"}})),
    responses((status = 200, description = "`redriven`: the task is due again.", body = ActionAnswer)),
)]
pub(crate) async fn redrive_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = PatchTask::from_json_of_redrive(&body)?;
    let before = task_of(&app, &caller, place).await?;
    let changes = asked.map(|patch| ask::redrive(patch, Context::of(&app, &caller))).transpose()?;
    let changes = changes.unwrap_or_default();
    for payload in changes.iter().filter_map(Change::payload) {
        if let Some(refused) = app.engine.payload_refused(&before, payload).await {
            return Err(insert::too_many_bytes(&refused).into());
        }
    }
    let (found, replaces) = (TaskBefore::default(), changes.iter().any(|change| change.payload().is_some()));
    match app.engine.redrive_noting(place, changes, caller.who.by(), found.noting()).await? {
        Changed::Changed(task) => {
            let reported = found.became_with(&task, replaces);
            Ok(reported.reported_with(bare_done(ActionOutcome::Redriven, *task)))
        }
        Changed::Refused(task) => Err(not_dead(*task)),
    }
}

/// Move a task that no executor has to the dead tasks.
///
/// A dead task can be inspected and redriven. It has the retention of other dead tasks.
#[utoipa::path(
    post, path = "/v1/tasks/{ref}/bury", operation_id = "bury_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    request_body(content = Option<BuryRequest>, example = json!({"reason": "its customer is gone"})),
    responses((status = 200, description = "`buried`: the task is dead.", body = ActionAnswer)),
)]
pub(crate) async fn bury_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let request = BuryRequest::from_json(&body)?;
    let ending = Ending::of(&app, &task_of(&app, &caller, place).await?).await;
    let found = TaskBefore::default();
    let (reason, by) = (request.reason.as_deref(), caller.who.by());
    let buried = app.engine.bury_noting(place, reason, by, found.noting()).await?;
    if matches!(buried, Changed::Changed(_)) {
        ending.report_end();
    }
    changed(buried, ActionOutcome::Buried, &found, |task| already_fired(&task, "it was not buried"))
}

/// Delete a finished task.
///
/// The history, payload and result of the task are deleted too. Its id can be used again.
#[utoipa::path(
    delete, path = "/v1/tasks/{ref}", operation_id = "delete_task", tag = "tasks",
    params(("ref" = String, Path, description = "The `ref` of the task.")),
    responses((status = 200, description = "`deleted`, with the task as it was.", body = ActionAnswer)),
)]
pub(crate) async fn delete_task(
    State(app): State<Shared>,
    caller: Caller,
    TaskPath(place): TaskPath,
) -> Result<Response, Refusal> {
    task_of(&app, &caller, place).await?;
    match app.engine.delete(place, |_| true).await?.ok_or(punctual_engine::Error::Contended)? {
        Deleted::Deleted(task) => {
            let reported = reported::gone(&task);
            Ok(reported.reported_with(bare_done(ActionOutcome::Deleted, *task)))
        }
        Deleted::Refused(task) => {
            let detail = match task.state.is_finished() {
                true => "the task is in an archive".to_owned(),
                false => format!("the task is {}", task.state.word()),
            };
            Err(Problem::new(Code::TaskNotFinished, detail).with_existing(answer::brief(*task)).into())
        }
    }
}

/// An action whose request says nothing more, on a task of the caller's namespace.
async fn bare(app: &App, caller: &Caller, place: TaskRef, body: &[u8]) -> Result<(), Refusal> {
    nothing(body)?;
    task_of(app, caller, place).await.map(drop)
}

fn changed(
    changed: Changed,
    outcome: ActionOutcome,
    found: &TaskBefore,
    refuse: impl FnOnce(Task) -> Refusal,
) -> Result<Response, Refusal> {
    match changed {
        Changed::Changed(task) => Ok(done(outcome, *task, found)),
        Changed::Refused(task) => Err(refuse(*task)),
    }
}

fn not_dead(task: Task) -> Refusal {
    let detail = format!("the task is {}", task.state.word());
    Problem::new(Code::TaskNotDead, detail).with_existing(answer::brief(task)).into()
}

/// The body of a call that takes none: empty, or an empty object.
fn nothing(body: &[u8]) -> Result<(), Refusal> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    if !body.trim_ascii().is_empty() {
        let Nothing {} = parse(body)?;
    }
    Ok(())
}
