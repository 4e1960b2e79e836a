//! Converts requests to the domain's types. `protocol` has checked the rules of the wire; this module checks those
//! that need the clock, the server's limits, or the domain's own judgement.

use crate::{
    app::App,
    extract::{Caller, well_formed},
    options::ServerOptions,
    refusal::Refusal,
};
use punctual_contract::store::Change;
use punctual_domain::{
    insert::OnConflict,
    key::Key,
    name::{Name, QueueKey},
    outcome::Report,
    retry::RetryPolicy,
    task::{Content, Demands, MAX_ATTEMPTS_DEFAULT, NewTask, Priority, TaskResult},
    time::Millis,
};
use punctual_engine::Engine;
use punctual_protocol::{
    Body, Code, FieldError, InsertTask, Invalid, OnConflict as WireOnConflict, Outcome, OutcomeKind,
    PatchTask, Problem, Retry, When, limits::DEFAULT_KIND,
};

/// The context of a conversion, in addition to the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) now: Millis,
    pub(crate) options: &'a ServerOptions,
    /// The engine, whose queue settings apply to tasks without their own values.
    pub(crate) engine: &'a Engine,
}

impl<'a> Context<'a> {
    pub(crate) fn of(app: &'a App, caller: &'a Caller) -> Self {
        Self { caller, now: app.engine.now(), options: &app.options, engine: &app.engine }
    }
}

pub(crate) fn new_task(mut task: InsertTask, context: Context<'_>) -> Result<NewTask, Refusal> {
    let payload = content(task.take_payload(), "/payload", context)?.unwrap_or_default();
    let execute_at = instant(task.schedule()?, context.now)?.unwrap_or(context.now);
    let queue = QueueKey { namespace: context.caller.namespace.clone(), queue: name("/queue", &task.queue)? };
    context.caller.who.must_reach(&queue)?;
    versions_can_be_met(task.handler_versions.as_deref(), &queue, context)?;
    let set = context.engine.known_settings(&queue);
    Ok(NewTask {
        queue,
        task_id: task.task_id.map(i64::from),
        key: task.key.as_deref().map(key).transpose()?,
        task_version: task.task_version.map_or(0, i64::from),
        kind: name("/kind", task.kind.as_deref().unwrap_or(DEFAULT_KIND))?,
        priority: priority(task.priority)?.unwrap_or_default(),
        execute_at,
        payload,
        max_attempts: task.max_attempts.or(set.max_attempts).unwrap_or(MAX_ATTEMPTS_DEFAULT),
        retry: task.retry.map(retry).transpose()?.or_else(|| set.retry.clone()).unwrap_or_default(),
        timeout_ms: task.timeout_ms.or(set.timeout_ms),
        deadline_ms: task.deadline_ms,
        labels: task.labels,
        traceparent: match task.traceparent {
            Some(own) => well_formed(&own),
            None => context.caller.traceparent.clone(),
        },
        demands: Demands { concurrency_key: task.concurrency_key, handler_versions: task.handler_versions },
        name: task.name,
        on_conflict: on_conflict(task.on_conflict),
        insert_by: None,
    })
}

fn on_conflict(asked: Option<WireOnConflict>) -> OnConflict {
    match asked.unwrap_or_default() {
        WireOnConflict::Replace => OnConflict::Replace,
        WireOnConflict::Keep => OnConflict::Keep,
        WireOnConflict::Fail => OnConflict::Fail,
    }
}

pub(crate) fn key(text: &str) -> Result<Key, FieldError> {
    Key::caller(text).map_err(|error| FieldError::new("/key", error.to_string()))
}

/// Any subscriber of a push queue may get any message, whatever its version: a task that demands one would wait for ever.
fn versions_can_be_met(
    demanded: Option<&str>,
    queue: &QueueKey,
    context: Context<'_>,
) -> Result<(), FieldError> {
    let Some(range) = demanded.filter(|_| context.engine.is_pushed(queue)) else { return Ok(()) };
    let detail = format!(
        "demands {range:?}, and queue {:?} is pushed over the bus, where any subscriber may get it; leave it out, or \
         take a queue whose executors pull (its `mode` is `pull`)",
        queue.queue.as_str()
    );
    Err(FieldError::new("/handler_versions", detail))
}

/// The change of a dead task, which stays dead.
pub(crate) fn amend(mut patch: PatchTask, context: Context<'_>) -> Result<Change, Refusal> {
    Ok(Change::Amend {
        max_attempts: patch.max_attempts,
        priority: priority(patch.priority)?,
        payload: content(patch.take_payload(), "/payload", context)?,
        timeout_ms: patch.timeout_ms,
        retry: patch.retry.map(retry).transpose()?,
    })
}

/// The changes of a redrive: first those that only dead tasks allow, then those of waiting tasks.
pub(crate) fn redrive(mut patch: PatchTask, context: Context<'_>) -> Result<Vec<Change>, Refusal> {
    let (max_attempts, timeout_ms, retry) =
        (patch.max_attempts.take(), patch.timeout_ms.take(), patch.retry.take());
    let of_the_dead = PatchTask { max_attempts, timeout_ms, retry, ..PatchTask::default() };
    let mut changes = Vec::new();
    if of_the_dead != PatchTask::default() {
        changes.push(amend(of_the_dead, context)?);
    }
    if patch != PatchTask::default() {
        changes.push(reschedule(patch, context)?);
    }
    Ok(changes)
}

pub(crate) fn reschedule(mut patch: PatchTask, context: Context<'_>) -> Result<Change, Refusal> {
    Ok(Change::Reschedule {
        execute_at: instant(patch.schedule()?, context.now)?,
        priority: priority(patch.priority)?,
        payload: content(patch.take_payload(), "/payload", context)?,
        queue: patch.queue.as_deref().map(|queue| other_queue(queue, context)).transpose()?,
    })
}

/// One that the caller reaches too.
fn other_queue(text: &str, context: Context<'_>) -> Result<Name, Refusal> {
    let queue = name("/queue", text)?;
    let namespace = context.caller.namespace.clone();
    context.caller.who.must_reach(&QueueKey { namespace, queue: queue.clone() })?;
    Ok(queue)
}

/// An executor's report, and its result.
pub(crate) fn report(mut outcome: Outcome, context: Context<'_>) -> Result<(Report, TaskResult), Refusal> {
    let result = TaskResult {
        status_code: outcome.status_code.unwrap_or(0),
        content: content(outcome.take_result(), "/result", context)?,
        status_msg: outcome.status_msg.unwrap_or_default(),
    };
    let after_ms = outcome.retry_after_ms;
    let report = match outcome.outcome {
        OutcomeKind::Succeeded => Report::Succeeded,
        OutcomeKind::Failed => Report::Failed { after_ms },
        OutcomeKind::Snooze => Report::Snooze { after_ms: after_ms.unwrap_or(0) },
        OutcomeKind::Reject => Report::Reject,
    };
    Ok((report, result))
}

fn instant(when: Option<When>, now: Millis) -> Result<Option<Millis>, FieldError> {
    when.map(|when| when.resolve(now.0).map(Millis)).transpose()
}

/// A body of a task, within the limit of one payload.
fn content(body: Option<Body>, pointer: &str, context: Context<'_>) -> Result<Option<Content>, Refusal> {
    let Some(body) = body else { return Ok(None) };
    let is_json = matches!(body, Body::Json(_));
    let bytes = body.into_bytes();
    if bytes.len() > context.options.payload_max_bytes {
        let pointer = if is_json { pointer.to_owned() } else { format!("{pointer}_base64") };
        return Err(oversized(pointer, bytes.len(), context.options));
    }
    Ok(Some(Content::inside(is_json, bytes)))
}

fn oversized(pointer: String, len: usize, options: &ServerOptions) -> Refusal {
    let detail = format!(
        "has {len} bytes, and may have at most {}{}",
        options.payload_max_bytes, options.payload_advice
    );
    let mut problem = Problem::new(Code::RequestTooLarge, format!("{pointer}: {detail}"));
    problem.errors.push(FieldError::new(pointer, detail));
    problem.into()
}

pub(crate) fn name(pointer: &str, text: &str) -> Result<Name, FieldError> {
    Name::chosen(text).map_err(|error| FieldError::new(pointer, error.to_string()))
}

pub(crate) fn priority(level: Option<u8>) -> Result<Option<Priority>, FieldError> {
    let checked = level.map(Priority::new).transpose();
    checked.map_err(|error| FieldError::new("/priority", error.to_string()))
}

pub(crate) fn retry(retry: Retry) -> Result<RetryPolicy, Invalid> {
    let policy = match retry {
        Retry::Immediate {} => RetryPolicy::Immediate {},
        Retry::Fixed { delay_ms } => RetryPolicy::Fixed { delay_ms },
        Retry::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
            RetryPolicy::Exponential { delay_ms, factor, max_delay_ms, jitter }
        }
        Retry::List { delays_ms } => RetryPolicy::List { delays_ms },
    };
    policy.check().map_err(|error| FieldError::new(format!("/retry/{}", error.field), error.problem))?;
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use punctual_domain::retry::{DELAY_MAX_MS, FACTOR_MAX, LIST_LEN_MAX, RetryPolicy};
    use punctual_protocol::{
        Retry,
        limits::{RETRY_DELAY_MAX_MS, RETRY_DELAYS_MAX, RETRY_FACTOR_MAX},
    };

    /// Compares the bounds of the wire, of the domain and of the document.
    #[test]
    fn bounds_of_retries_are_the_same_everywhere() {
        assert_eq!((DELAY_MAX_MS, LIST_LEN_MAX), (RETRY_DELAY_MAX_MS, RETRY_DELAYS_MAX));
        assert!((FACTOR_MAX - RETRY_FACTOR_MAX).abs() < f64::EPSILON);
        let json = r#"{"strategy":"exponential","delay_ms":1000}"#;
        let wire = super::retry(serde_json::from_str::<Retry>(json).unwrap()).unwrap();
        assert_eq!(wire, RetryPolicy::default(), "and so are the defaults");
        let document = serde_json::to_value(crate::document()).unwrap();
        let retry = document["components"]["schemas"]["Retry"].to_string();
        for bound in [
            format!("\"maximum\":{DELAY_MAX_MS}"),
            format!("\"maxItems\":{LIST_LEN_MAX}"),
            "\"maximum\":100".to_owned(),
        ] {
            assert!(retry.contains(&bound), "{bound}: {retry}");
        }
    }
}
