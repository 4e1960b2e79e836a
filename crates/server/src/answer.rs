//! Converts the engine's answers to those that callers read. Decides nothing.

use axum::{
    body::Body as HttpBody,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use punctual_contract::{store::Assignment, workflows::WorkflowId};
use punctual_domain::{
    history,
    key::Key,
    retry::RetryPolicy,
    state::{Event, Phase as DomainPhase, State as DomainState},
    task::{self, Content},
    time::Millis,
};
use punctual_protocol::{
    At, Base64, Body, HistoryEntry, InsertOutcome, Json, LeasedTask, LogLine, Phase, Retry, State, Task,
    TaskLease, TaskResult, WORKFLOW_LABEL, WORKFLOW_NODE_LABEL, Why,
};
use punctual_traces::Traces;
use serde::Serialize;

/// JSON with a status.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => json_bytes(status, bytes.into()),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            let mut response = Response::new(HttpBody::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

pub(crate) fn json_bytes(status: StatusCode, bytes: bytes::Bytes) -> Response {
    let mut response = Response::new(HttpBody::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The complete task, history included.
pub(crate) fn task(mut task: task::Task) -> Task {
    let mut history = std::mem::take(&mut task.history);
    history::name_executors(&mut history, task.lease.as_ref());
    let log = task.log.take().map_or_else(Vec::new, |text| punctual_domain::log::decode(&text));
    let log = log.into_iter().map(said).collect();
    let shown = of(task, &history);
    Task { history: history.into_iter().map(entry).collect(), log, ..shown }
}

/// The task as answers to an insert show it.
pub(crate) fn inserted(task: task::Task, outcome: InsertOutcome) -> Task {
    Task { outcome: Some(outcome), ..brief(task) }
}

/// The task without its history.
pub(crate) fn brief(mut task: task::Task) -> Task {
    let history = std::mem::take(&mut task.history);
    of(task, &history)
}

fn of(mut task: task::Task, history: &[history::Entry]) -> Task {
    let payload = std::mem::take(&mut task.ask.payload);
    let payload_outside_bytes = outside_bytes(&payload);
    let (payload, payload_base64) = fields(Some(payload).filter(|payload| !payload.bytes.is_empty()));
    let at = |instant: Millis| At::from_ms(instant.0);
    let fired_at = task.fired_at.filter(|_| shown(&task) == task.state);
    let (started_at, finished_at) = (started_at(&task, history), finished_at(&task, history));
    let lease = task.lease.as_ref().filter(|lease| task.state.is_in_flight() && !lease.is_ahead()).map(lease);
    Task {
        r#ref: task.place.to_string(),
        namespace: task.ask.queue.namespace.as_str().to_owned(),
        task_id: task.task_id(),
        key: task.ask.key.as_ref().and_then(Key::shown).map(str::to_owned),
        name: task.ask.name.take(),
        task_version: task.ask.task_version,
        queue: task.ask.queue.queue.as_str().to_owned(),
        kind: task.ask.kind.as_str().to_owned(),
        priority: task.ask.priority.level(),
        state: state(shown(&task)),
        phase: phase(shown(&task).phase()),
        ended_as: task.state.ended_as().map(state),
        outcome: None,
        execute_at: at(task.ask.execute_at),
        execute_at_ms: task.ask.execute_at.0,
        fired_at: fired_at.map(at),
        fired_at_ms: fired_at.map(|fired_at| fired_at.0),
        lateness_ms: lateness_ms(&task),
        started_at: started_at.map(at),
        started_at_ms: started_at.map(|started_at| started_at.0),
        finished_at: finished_at.map(at),
        finished_at_ms: finished_at.map(|finished_at| finished_at.0),
        attempt: task.attempt,
        max_attempts: task.ask.max_attempts,
        created_at: at(task.created_at),
        created_at_ms: task.created_at.0,
        updated_at: at(task.updated_at),
        updated_at_ms: task.updated_at.0,
        payload,
        payload_base64,
        payload_outside_bytes,
        result: task.result.map(result),
        last_error: task.last_error,
        labels: task.ask.labels,
        timeout_ms: task.ask.timeout_ms,
        deadline_ms: task.ask.deadline_ms,
        retry: Some(retry(task.ask.retry)),
        concurrency_key: task.ask.demands.concurrency_key,
        handler_versions: task.ask.demands.handler_versions,
        traceparent: task.ask.traceparent.take(),
        lease,
        progress: task.progress.and_then(|progress| Json::from_text(progress).ok()),
        log: Vec::new(),
        history: Vec::new(),
    }
}

/// The displayed state. No executor has a preleased task yet: callers see it as scheduled.
pub(crate) fn shown(task: &task::Task) -> DomainState {
    let is_ahead = task.lease.as_ref().is_some_and(task::Lease::is_ahead) && task.due_at > task.updated_at;
    if task.state == DomainState::Dispatched && is_ahead { DomainState::Dispatching } else { task.state }
}

fn lease(lease: &task::Lease) -> TaskLease {
    let until = lease.until;
    TaskLease {
        executor: lease.executor.clone(),
        until: At::from_ms(until.0),
        until_ms: until.0,
        cancel_requested: lease.cancel_requested,
    }
}

/// The instant at which the present or last attempt was delivered. A preleased task was delivered when it fired.
fn started_at(task: &task::Task, history: &[history::Entry]) -> Option<Millis> {
    if shown(task) != task.state || task.attempt == 0 {
        return None;
    }
    let begins = |entry: &&history::Entry| entry.event == Some(Event::Dispatch);
    let at = history.iter().rev().find(begins)?.at;
    Some(task.fired_at.map_or(at, |fired_at| at.max(fired_at)))
}

/// The instant at which the task ended for good; the later end of its retention does not count.
fn finished_at(task: &task::Task, history: &[history::Entry]) -> Option<Millis> {
    let ends = |entry: &&history::Entry| entry.to.is_finished() && entry.to != DomainState::Stopped;
    history.iter().rev().find(ends).map(|entry| entry.at).filter(|_| task.state.is_finished())
}

/// While a task waits for its next time, `fired_at` is that of the attempt before: the two do not belong together.
fn lateness_ms(task: &task::Task) -> Option<i64> {
    let waits =
        matches!(shown(task), DomainState::Scheduled | DomainState::Dispatching | DomainState::Retrying);
    if waits { None } else { task.lateness_ms() }
}

fn said(line: punctual_domain::log::LogLine) -> LogLine {
    LogLine { at: At::from_ms(line.at.0), at_ms: line.at.0, level: line.level, text: line.text }
}

fn entry(entry: history::Entry) -> HistoryEntry {
    HistoryEntry {
        at: At::from_ms(entry.at.0),
        at_ms: entry.at.0,
        event: entry.event.map_or("insert", punctual_domain::state::Event::word).to_owned(),
        from: entry.from.map(state),
        to: state(entry.to),
        attempt: entry.attempt,
        by: entry.by,
        reason: entry.reason,
        error: entry.error,
        due_at: entry.due_at.map(|due_at| At::from_ms(due_at.0)),
        due_at_ms: entry.due_at.map(|due_at| due_at.0),
    }
}

fn result(task_result: task::TaskResult) -> TaskResult {
    let result_outside_bytes = task_result.content.as_ref().and_then(outside_bytes);
    let (result, result_base64) = fields(task_result.content);
    TaskResult {
        status_code: task_result.status_code,
        status_msg: Some(task_result.status_msg).filter(|status_message| !status_message.is_empty()),
        result,
        result_base64,
        result_outside_bytes,
    }
}

/// The wire fields of stored bytes, as they were sent. Text that is not valid JSON (which cannot happen) is shown as
/// bytes. Content outside of the store is shown only in answers about one task, whose handler has fetched it before.
fn fields(content: Option<Content>) -> (Option<Json>, Option<Base64>) {
    content.filter(|content| !content.is_outside).map_or((None, None), |content| body(content).into_fields())
}

/// The length of content that is not shown.
fn outside_bytes(content: &Content) -> Option<u64> {
    content.reference().and_then(|reference| u64::try_from(reference.len).ok())
}

fn body(content: Content) -> Body {
    if !content.is_json {
        return Body::Bytes(content.bytes);
    }
    match String::from_utf8(content.bytes) {
        Ok(text) => Json::from_text(text.clone()).map_or_else(|_| Body::Bytes(text.into_bytes()), Body::Json),
        Err(error) => Body::Bytes(error.into_bytes()),
    }
}

/// Sets the parent of the executor's spans to the span of its attempt, if traces are exported.
pub(crate) fn traced(traces: Option<&Traces>, mut assignment: Assignment) -> Assignment {
    if let Some(traces) = traces {
        let handed = |traceparent| traces.handed(traceparent, assignment.place.id, assignment.attempt);
        assignment.traceparent = assignment.traceparent.take().map(handed);
    }
    assignment
}

/// The task as its executor gets it. `is_held` states that the executor declared the maximum number of tasks that it
/// holds.
pub(crate) fn leased(lease: Assignment, lease_ms: i64, is_held: bool) -> LeasedTask {
    let token = punctual_protocol::Token::of(lease.fence, lease_ms, &lease.labels);
    let token = punctual_protocol::Token { is_held, ..token }.to_string();
    let mut leased = LeasedTask {
        r#ref: lease.place.to_string(),
        task_id: lease.task_id,
        task_version: lease.task_version,
        queue: lease.queue.queue.as_str().to_owned(),
        kind: lease.kind.as_str().to_owned(),
        priority: lease.priority.level(),
        attempt: lease.attempt,
        max_attempts: lease.max_attempts,
        token,
        execute_at_ms: lease.execute_at.0,
        fired_at_ms: lease.fired_at.0,
        lease_until_ms: lease.lease_until.0,
        timeout_ms: lease.timeout_ms,
        labels: lease.labels,
        traceparent: lease.traceparent,
        ..LeasedTask::default()
    };
    leased.set_payload(Some(lease.payload).filter(|payload| !payload.bytes.is_empty()).map(body));
    leased
}

pub(crate) fn why(task: &task::Task, plain: punctual_engine::Why) -> Why {
    let label = |name: &str| task.ask.labels.get(name).cloned();
    // A caller's own task may have a label of that name.
    let workflow = label(WORKFLOW_LABEL).filter(|label| label.parse::<WorkflowId>().is_ok());
    Why {
        r#ref: task.place.to_string(),
        state: state(shown(task)),
        phase: phase(shown(task).phase()),
        reason: plain.reason,
        blocking: plain.blocking.map(str::to_owned),
        owner: plain.owner,
        next_step: plain.next_step,
        expected_at: plain.expected_at.map(|expected_at| At::from_ms(expected_at.0)),
        expected_at_ms: plain.expected_at.map(|expected_at| expected_at.0),
        workflow_node: workflow.as_ref().and_then(|_| label(WORKFLOW_NODE_LABEL)),
        workflow,
    }
}

pub(crate) fn retry(retry_policy: RetryPolicy) -> Retry {
    match retry_policy {
        RetryPolicy::Immediate {} => Retry::Immediate {},
        RetryPolicy::Fixed { delay_ms } => Retry::Fixed { delay_ms },
        RetryPolicy::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
            Retry::Exponential { delay_ms, factor, max_delay_ms, jitter }
        }
        RetryPolicy::List { delays_ms } => Retry::List { delays_ms },
    }
}

pub(crate) const fn domain_phase(phase: Phase) -> DomainPhase {
    match phase {
        Phase::Pending => DomainPhase::Pending,
        Phase::Processing => DomainPhase::Processing,
        Phase::Success => DomainPhase::Success,
        Phase::Failed => DomainPhase::Failed,
        Phase::Stopped => DomainPhase::Stopped,
    }
}

pub(crate) const fn phase(phase: DomainPhase) -> Phase {
    match phase {
        DomainPhase::Pending => Phase::Pending,
        DomainPhase::Processing => Phase::Processing,
        DomainPhase::Success => Phase::Success,
        DomainPhase::Failed => Phase::Failed,
        DomainPhase::Stopped => Phase::Stopped,
    }
}

pub(crate) const fn state(state: DomainState) -> State {
    match state {
        DomainState::Scheduled => State::Scheduled,
        DomainState::Dispatching => State::Dispatching,
        DomainState::Ready => State::Ready,
        DomainState::Dispatched => State::Dispatched,
        DomainState::Running => State::Running,
        DomainState::DispatchFailed => State::DispatchFailed,
        DomainState::Retrying => State::Retrying,
        DomainState::Succeeded => State::Succeeded,
        DomainState::Dead => State::Dead,
        DomainState::Cancelled => State::Cancelled,
        DomainState::Stopped => State::Stopped,
        DomainState::Blocked => State::Blocked,
    }
}

/// The inverse, for searches.
pub(crate) const fn domain_state(state: State) -> DomainState {
    match state {
        State::Scheduled => DomainState::Scheduled,
        State::Dispatching => DomainState::Dispatching,
        State::Ready => DomainState::Ready,
        State::Dispatched => DomainState::Dispatched,
        State::Running => DomainState::Running,
        State::DispatchFailed => DomainState::DispatchFailed,
        State::Retrying => DomainState::Retrying,
        State::Succeeded => DomainState::Succeeded,
        State::Dead => DomainState::Dead,
        State::Cancelled => DomainState::Cancelled,
        State::Stopped => DomainState::Stopped,
        State::Blocked => DomainState::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_has_the_machine_s_own_words() {
        for each_state in DomainState::ALL {
            assert_eq!(serde_json::to_value(state(each_state)).unwrap(), each_state.word());
            assert_eq!(serde_json::to_value(phase(each_state.phase())).unwrap(), each_state.phase().word());
            assert_eq!(domain_state(state(each_state)), each_state);
        }
    }
}
