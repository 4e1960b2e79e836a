//! Tasks, for people or for programs. Adds nothing that the server did not say.

use crate::{
    output::{self, Form},
    spans, times,
};
use anyhow::Result;
use punctual_domain::time::Millis;
use punctual_protocol::{ActionAnswer, HistoryEntry, Task};
use serde::Serialize;

/// A word as it is on the wire.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

pub(super) fn inserted(task: &Task, form: Form) -> Result<()> {
    if form == Form::Json {
        return Ok(output::json(task)?);
    }
    let outcome = task.outcome.map_or_else(|| "inserted".to_owned(), |outcome| word(&outcome));
    output::line(&format!("{outcome} {}", task.r#ref));
    output::facts(&[
        ("queue", task.queue.clone()),
        ("task id", format!("{} (version {})", task.task_id, task.task_version)),
        ("state", word(&task.state)),
        ("due", times::full(task.execute_at)),
    ]);
    Ok(())
}

pub(super) fn rescheduled(task: &Task, form: Form) -> Result<()> {
    if form == Form::Json {
        return Ok(output::json(task)?);
    }
    output::line(&format!(
        "rescheduled {} to {}, priority {}",
        task.r#ref,
        times::full(task.execute_at),
        task.priority
    ));
    Ok(())
}

pub(super) fn acted(reference: &str, answer: &ActionAnswer, form: Form) -> Result<()> {
    if form == Form::Json {
        return Ok(output::json(answer)?);
    }
    output::line(&format!("{} {reference}", word(&answer.outcome)));
    Ok(())
}

/// `now`: by this machine's clock, for what is due in how long.
pub(super) fn page(tasks: &[Task], now: Millis) {
    let rows = tasks.iter().map(|task| {
        [
            task.r#ref.clone(),
            task.queue.clone(),
            task.kind.clone(),
            word(&task.state),
            spans::relative(task.execute_at_ms, now.0),
            task.lateness_ms.map(spans::short_span).unwrap_or_default(),
            format!("{}/{}", task.attempt, task.max_attempts),
        ]
    });
    output::table(["REF", "QUEUE", "KIND", "STATE", "DUE", "LATE", "ATTEMPTS"], rows);
}

pub(super) fn task(task: &Task, form: Form) -> Result<()> {
    if form == Form::Json {
        return Ok(output::json(task)?);
    }
    output::line(&task.r#ref);
    output::facts(&facts(task));
    if !task.log.is_empty() {
        output::line("");
        let rows = task.log.iter().map(|line| {
            [times::stamp_ms(line.at), line.level.clone().unwrap_or_default(), line.text.clone()]
        });
        output::table(["AT", "LEVEL", "SAID"], rows);
    }
    if !task.history.is_empty() {
        output::line("");
        let rows = task.history.iter().map(entry);
        output::table(["AT", "EVENT", "TO", "ATTEMPT", "BY", "WHY"], rows);
    }
    Ok(())
}

fn facts(task: &Task) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("task id", format!("{} (version {})", task.task_id, task.task_version)),
        ("queue", task.queue.clone()),
        ("kind", task.kind.clone()),
        ("state", state(task)),
        ("priority", task.priority.to_string()),
        ("attempts", format!("{} of {}", task.attempt, task.max_attempts)),
        ("due", times::full(task.execute_at)),
    ];
    facts.extend(task.fired_at.map(|at| ("fired", times::full(at))));
    facts.extend(task.lateness_ms.map(|late| ("late", spans::short_span(late))));
    facts.push(("created", times::full(task.created_at)));
    facts.push(("updated", times::full(task.updated_at)));
    for (key, value) in &task.labels {
        facts.push(("label", format!("{key}={value}")));
    }
    facts.extend(task.payload.as_ref().map(|payload| ("payload", payload.get().to_owned())));
    facts.extend(task.payload_base64.as_ref().map(|payload_base64| ("payload", word(payload_base64))));
    facts.extend(task.handler_versions.clone().map(|handler_versions| ("versions", handler_versions)));
    facts.extend(task.progress.as_ref().map(|progress| ("progress", progress.get().to_owned())));
    facts.extend(task.result.as_ref().map(|task_result| ("result", result(task_result))));
    facts.extend(task.last_error.clone().map(|last_error| ("error", last_error)));
    facts
}

fn state(task: &Task) -> String {
    let ended_as = task.ended_as.filter(|ended_as| *ended_as != task.state);
    let ended = ended_as.map(|ended_as| format!(", ended as {}", word(&ended_as))).unwrap_or_default();
    format!("{} ({}){ended}", word(&task.state), word(&task.phase))
}

fn result(result: &punctual_protocol::TaskResult) -> String {
    let said = [
        result.result.as_ref().map(|json| json.get().to_owned()),
        result.result_base64.as_ref().map(word),
        result.status_msg.clone().filter(|status_message| !status_message.is_empty()),
    ];
    let said = said.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if result.status_code == 0 { said } else { format!("status {} {said}", result.status_code) }
}

fn entry(entry: &HistoryEntry) -> [String; 6] {
    let due = entry.due_at.map(|at| format!("due {}", times::stamp_ms(at)));
    let why = [entry.reason.clone(), entry.error.clone(), due];
    [
        times::stamp_ms(entry.at),
        entry.event.clone(),
        word(&entry.to),
        entry.attempt.to_string(),
        entry.by.clone(),
        why.into_iter().flatten().collect::<Vec<_>>().join("; "),
    ]
}
