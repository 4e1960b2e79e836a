//! From what the engine answers to what callers read. Shows; decides nothing.

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

/// The whole task, history included.
pub(crate) fn task(mut it: task::Task) -> Task {
    let history = std::mem::take(&mut it.history);
    let log = it.log.take().map_or_else(Vec::new, |it| punctual_domain::log::decode(&it));
    let log = log.into_iter().map(said).collect();
    let shown = of(it, &history);
    Task { history: history.into_iter().map(entry).collect(), log, ..shown }
}

/// The task as answers to an insert show it.
pub(crate) fn inserted(it: task::Task, outcome: InsertOutcome) -> Task {
    Task { outcome: Some(outcome), ..brief(it) }
}

/// The task without its history.
pub(crate) fn brief(mut it: task::Task) -> Task {
    let history = std::mem::take(&mut it.history);
    of(it, &history)
}

fn of(mut it: task::Task, history: &[history::Entry]) -> Task {
    let payload = std::mem::take(&mut it.ask.payload);
    let payload_outside_bytes = outside_bytes(&payload);
    let (payload, payload_base64) = fields(Some(payload).filter(|it| !it.bytes.is_empty()));
    let at = |instant: Millis| At::from_ms(instant.0);
    let fired_at = it.fired_at.filter(|_| shown(&it) == it.state);
    let (started_at, finished_at) = (started_at(&it, history), finished_at(&it, history));
    let lease = it.lease.as_ref().filter(|lease| it.state.is_in_flight() && !lease.is_ahead()).map(lease);
    Task {
        r#ref: it.place.to_string(),
        namespace: it.ask.queue.namespace.as_str().to_owned(),
        task_id: it.task_id(),
        key: it.ask.key.as_ref().and_then(Key::shown).map(str::to_owned),
        name: it.ask.name.take(),
        task_version: it.ask.task_version,
        queue: it.ask.queue.queue.as_str().to_owned(),
        kind: it.ask.kind.as_str().to_owned(),
        priority: it.ask.priority.level(),
        state: state(shown(&it)),
        phase: phase(shown(&it).phase()),
        outcome: None,
        execute_at: at(it.ask.execute_at),
        execute_at_ms: it.ask.execute_at.0,
        fired_at: fired_at.map(at),
        fired_at_ms: fired_at.map(|it| it.0),
        lateness_ms: lateness_ms(&it),
        started_at: started_at.map(at),
        started_at_ms: started_at.map(|it| it.0),
        finished_at: finished_at.map(at),
        finished_at_ms: finished_at.map(|it| it.0),
        attempt: it.attempt,
        max_attempts: it.ask.max_attempts,
        created_at: at(it.created_at),
        created_at_ms: it.created_at.0,
        updated_at: at(it.updated_at),
        updated_at_ms: it.updated_at.0,
        payload,
        payload_base64,
        payload_outside_bytes,
        result: it.result.map(result),
        last_error: it.last_error,
        labels: it.ask.labels,
        timeout_ms: it.ask.timeout_ms,
        deadline_ms: it.ask.deadline_ms,
        retry: Some(retry(it.ask.retry)),
        concurrency_key: it.ask.demands.concurrency_key,
        handler_versions: it.ask.demands.handler_versions,
        traceparent: it.ask.traceparent.take(),
        lease,
        progress: it.progress.and_then(|it| Json::from_text(it).ok()),
        log: Vec::new(),
        history: Vec::new(),
    }
}

/// What an engine has leased ahead of its instant is with nobody yet: to callers it is still on its way there.
pub(crate) fn shown(it: &task::Task) -> DomainState {
    let is_ahead = it.lease.as_ref().is_some_and(task::Lease::is_ahead) && it.due_at > it.updated_at;
    if it.state == DomainState::Dispatched && is_ahead { DomainState::Dispatching } else { it.state }
}

fn lease(it: &task::Lease) -> TaskLease {
    let until = it.until;
    TaskLease {
        executor: it.executor.clone(),
        until: At::from_ms(until.0),
        until_ms: until.0,
        cancel_requested: it.cancel_requested,
    }
}

/// When the present or last attempt was handed over: what was leased ahead of its instant, at that.
fn started_at(it: &task::Task, history: &[history::Entry]) -> Option<Millis> {
    if shown(it) != it.state || it.attempt == 0 {
        return None;
    }
    let begins = |it: &&history::Entry| it.event == Some(Event::Dispatch);
    let at = history.iter().rev().find(begins)?.at;
    Some(it.fired_at.map_or(at, |fired_at| at.max(fired_at)))
}

/// When it ended for good; the end of its retention, which comes later, is no end of its own.
fn finished_at(it: &task::Task, history: &[history::Entry]) -> Option<Millis> {
    let ends = |it: &&history::Entry| it.to.is_finished() && it.to != DomainState::Stopped;
    history.iter().rev().find(ends).map(|it| it.at).filter(|_| it.state.is_finished())
}

/// While a task waits for its next time, `fired_at` is that of the attempt before: the two do not belong together.
fn lateness_ms(it: &task::Task) -> Option<i64> {
    let waits =
        matches!(shown(it), DomainState::Scheduled | DomainState::Dispatching | DomainState::Retrying);
    if waits { None } else { it.lateness_ms() }
}

fn said(it: punctual_domain::log::LogLine) -> LogLine {
    LogLine { at: At::from_ms(it.at.0), at_ms: it.at.0, level: it.level, text: it.text }
}

fn entry(it: history::Entry) -> HistoryEntry {
    HistoryEntry {
        at: At::from_ms(it.at.0),
        at_ms: it.at.0,
        event: it.event.map_or("insert", punctual_domain::state::Event::word).to_owned(),
        from: it.from.map(state),
        to: state(it.to),
        attempt: it.attempt,
        by: it.by,
        reason: it.reason,
        error: it.error,
        due_at: it.due_at.map(|it| At::from_ms(it.0)),
        due_at_ms: it.due_at.map(|it| it.0),
    }
}

fn result(it: task::TaskResult) -> TaskResult {
    let result_outside_bytes = it.content.as_ref().and_then(outside_bytes);
    let (result, result_base64) = fields(it.content);
    TaskResult {
        status_code: it.status_code,
        status_msg: Some(it.status_msg).filter(|it| !it.is_empty()),
        result,
        result_base64,
        result_outside_bytes,
    }
}

/// Stored bytes in the field that they came in. Text that is JSON no more (it cannot be) is shown as bytes.
/// What is kept outside of the store is shown where one task is asked for, which has fetched it before.
fn fields(content: Option<Content>) -> (Option<Json>, Option<Base64>) {
    content.filter(|it| !it.is_outside).map_or((None, None), |it| body(it).into_fields())
}

/// How long it is, where it is not shown.
fn outside_bytes(content: &Content) -> Option<u64> {
    content.reference().and_then(|it| u64::try_from(it.len).ok())
}

fn body(it: Content) -> Body {
    if !it.is_json {
        return Body::Bytes(it.bytes);
    }
    match String::from_utf8(it.bytes) {
        Ok(text) => Json::from_text(text.clone()).map_or_else(|_| Body::Bytes(text.into_bytes()), Body::Json),
        Err(error) => Body::Bytes(error.into_bytes()),
    }
}

/// What an executor is handed. `is_held`: it said how many it holds at most.
pub(crate) fn leased(it: Assignment, lease_ms: i64, is_held: bool) -> LeasedTask {
    let token = punctual_protocol::Token::of(it.fence, lease_ms, &it.labels);
    let token = punctual_protocol::Token { is_held, ..token }.to_string();
    let mut leased = LeasedTask {
        r#ref: it.place.to_string(),
        task_id: it.task_id,
        task_version: it.task_version,
        queue: it.queue.queue.as_str().to_owned(),
        kind: it.kind.as_str().to_owned(),
        priority: it.priority.level(),
        attempt: it.attempt,
        max_attempts: it.max_attempts,
        token,
        execute_at_ms: it.execute_at.0,
        fired_at_ms: it.fired_at.0,
        lease_until_ms: it.lease_until.0,
        timeout_ms: it.timeout_ms,
        labels: it.labels,
        traceparent: it.traceparent,
        ..LeasedTask::default()
    };
    leased.set_payload(Some(it.payload).filter(|it| !it.bytes.is_empty()).map(body));
    leased
}

pub(crate) fn why(task: &task::Task, it: punctual_engine::Why) -> Why {
    let label = |name: &str| task.ask.labels.get(name).cloned();
    // A caller's own task may have a label of that name.
    let workflow = label(WORKFLOW_LABEL).filter(|it| it.parse::<WorkflowId>().is_ok());
    Why {
        r#ref: task.place.to_string(),
        state: state(shown(task)),
        phase: phase(shown(task).phase()),
        reason: it.reason,
        blocking: it.blocking.map(str::to_owned),
        owner: it.owner,
        next_step: it.next_step,
        expected_at: it.expected_at.map(|it| At::from_ms(it.0)),
        expected_at_ms: it.expected_at.map(|it| it.0),
        workflow_node: workflow.as_ref().and_then(|_| label(WORKFLOW_NODE_LABEL)),
        workflow,
    }
}

pub(crate) fn retry(it: RetryPolicy) -> Retry {
    match it {
        RetryPolicy::Immediate {} => Retry::Immediate {},
        RetryPolicy::Fixed { delay_ms } => Retry::Fixed { delay_ms },
        RetryPolicy::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
            Retry::Exponential { delay_ms, factor, max_delay_ms, jitter }
        }
        RetryPolicy::List { delays_ms } => Retry::List { delays_ms },
    }
}

pub(crate) const fn domain_phase(it: Phase) -> DomainPhase {
    match it {
        Phase::Pending => DomainPhase::Pending,
        Phase::Processing => DomainPhase::Processing,
        Phase::Success => DomainPhase::Success,
        Phase::Failed => DomainPhase::Failed,
        Phase::Stopped => DomainPhase::Stopped,
    }
}

pub(crate) const fn phase(it: DomainPhase) -> Phase {
    match it {
        DomainPhase::Pending => Phase::Pending,
        DomainPhase::Processing => Phase::Processing,
        DomainPhase::Success => Phase::Success,
        DomainPhase::Failed => Phase::Failed,
        DomainPhase::Stopped => Phase::Stopped,
    }
}

pub(crate) const fn state(it: DomainState) -> State {
    match it {
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
pub(crate) const fn domain_state(it: State) -> DomainState {
    match it {
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
        for it in DomainState::ALL {
            assert_eq!(serde_json::to_value(state(it)).unwrap(), it.word());
            assert_eq!(serde_json::to_value(phase(it.phase())).unwrap(), it.phase().word());
            assert_eq!(domain_state(state(it)), it);
        }
    }
}
