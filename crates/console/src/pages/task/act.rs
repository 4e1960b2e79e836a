//! The actions on one task. Each asks first; the API decides if it is still possible.

use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::Form,
    layout::under,
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{ActionAnswer, Json, State, Task};
use serde_json::{Map, Value, json};

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page {
            path: "/console/tasks/{ref}/run-now",
            show: |context| Box::pin(ask(context, "run-now")),
            act: Some(|context, form| Box::pin(act(context, "run-now", form))),
        },
        Page {
            path: "/console/tasks/{ref}/cancel",
            show: |context| Box::pin(ask(context, "cancel")),
            act: Some(|context, form| Box::pin(act(context, "cancel", form))),
        },
        Page {
            path: "/console/tasks/{ref}/redrive",
            show: |context| Box::pin(ask(context, "redrive")),
            act: Some(|context, form| Box::pin(act(context, "redrive", form))),
        },
        Page {
            path: "/console/tasks/{ref}/bury",
            show: |context| Box::pin(ask(context, "bury")),
            act: Some(|context, form| Box::pin(act(context, "bury", form))),
        },
        Page {
            path: "/console/tasks/{ref}/delete",
            show: |context| Box::pin(ask(context, "delete")),
            act: Some(|context, form| Box::pin(act(context, "delete", form))),
        },
        Page {
            path: "/console/tasks/{ref}/change",
            show: |context| Box::pin(ask(context, "change")),
            act: Some(|context, form| Box::pin(act(context, "change", form))),
        },
    ]
}

fn permission(action: &str) -> &'static str {
    match action {
        "redrive" => "redrive",
        "delete" => "operate",
        _ => "change_tasks",
    }
}

/// The buttons for the actions that are possible in the task's current state.
pub(super) fn buttons(context: &Context, task: &Task) -> Markup {
    let waits = matches!(task.state, State::Scheduled | State::Retrying | State::DispatchFailed);
    let all: [(&str, &str, bool, &str); 6] = [
        ("run-now", "Run now", waits, ""),
        ("change", "Change", waits, ""),
        ("redrive", "Redrive", task.state == State::Dead, "primary"),
        ("cancel", "Cancel", !texts::has_ended(task.state), "danger"),
        ("bury", "Bury", waits || task.state == State::Ready, "danger"),
        ("delete", "Delete", texts::has_ended(task.state), "danger"),
    ];
    html! {
        @for (action, label, fits, tone) in all {
            @if fits {
                @let address = context.href(&format!("{}/{action}", under("/console/tasks", task.reference())), &[]);
                (parts::button(context, permission(action), &address, label, tone)) " "
            }
        }
    }
}

fn path(context: &Context) -> String {
    format!("/v1/tasks/{}", segment(context.param("ref")))
}

async fn ask(context: &Context, action: &str) -> Result<View, Fault> {
    let task: Task = context.api.get(&path(context)).await?;
    Ok(question(context, action, &task, None, None))
}

fn question(
    context: &Context,
    action: &str,
    task: &Task,
    form: Option<&Form>,
    fault: Option<&Fault>,
) -> View {
    let (label, fields) = match action {
        "run-now" => ("Run now", html! {}),
        "cancel" => (
            "Cancel",
            html! {
                label.check { input type="checkbox" name="stop_if_fired" value="true" checked[is_fired(task)]; "Also if it has fired: remove it from its queue, and ask its executor to stop" }
            },
        ),
        "redrive" => (
            "Redrive",
            html! { p.hint { "Unchanged. To change its payload or time as well:" } (changes(context, task, form, false)) },
        ),
        "bury" => (
            "Bury",
            parts::field(
                "reason",
                "Why",
                Some("Becomes its last error. The dead letters page groups by it."),
                &parts::input("reason", "", "buried manually"),
                None,
            ),
        ),
        "delete" => ("Delete", html! {}),
        _ => ("Change", changes(context, task, form, true)),
    };
    let title = format!("{label} this task?");
    let does = format!("{label} {}", if action == "change" { "it" } else { "the task" });
    let says = html! {
        p { (says(action)) }
        p { (parts::state(task.state)) " " code { (task.reference()) } " in " strong { (task.queue) } ", " (task.kind) ", due " (parts::time(context, task.execute_at_ms)) }
    };
    let back = address(context);
    let is_dangerous = matches!(action, "cancel" | "delete");
    Confirm { title: &title, says, fields, does: &does, permission: permission(action), is_dangerous, back }
        .with(context, fault)
}

const fn is_fired(task: &Task) -> bool {
    matches!(task.state, State::Ready | State::Dispatching | State::Dispatched | State::Running)
}

fn says(action: &str) -> &'static str {
    match action {
        "run-now" => "One task is due at once, instead of at its time.",
        "cancel" => "One task is cancelled. If an executor is running it, the executor is asked to stop.",
        "redrive" => "One dead task gets new attempts.",
        "bury" => "One task moves to the dead letters. It does not run, and can be redriven.",
        "delete" => {
            "One task is deleted, with its history and payload. It stays only in archives and the audit."
        }
        _ => "One task is changed, unless it has fired. Fields that you leave unchanged stay.",
    }
}

/// Fields of a change, with the present values.
fn changes(context: &Context, task: &Task, form: Option<&Form>, is_whole: bool) -> Markup {
    let current = |name: &str, current: String| form.map_or(current, |form| form.raw(name).to_owned());
    let at = current(
        "execute_at",
        if is_whole { context.zone.for_input(task.execute_at_ms) } else { String::new() },
    );
    let payload = current(
        "payload",
        task.payload.as_ref().map_or_else(String::new, |payload| payload.get().to_owned()),
    );
    let zone = format!("In {}.", context.zone.name);
    html! {
        div.fields {
            (parts::field("execute_at", "Due at", Some(&zone), &html! { input #execute_at type="datetime-local" step="1" name="execute_at" value=(at); }, None))
            (parts::field("delay", "or after", Some("Such as 90 s, 10 min, 2 h."), &parts::input("delay", &current("delay", String::new()), ""), None))
            (parts::field("priority", "Priority", Some("1 (first) to 5 (last)."), &parts::input("priority", &current("priority", if is_whole { task.priority.to_string() } else { String::new() }), ""), None))
            (parts::field("queue", "Queue", None, &parts::input("queue", &current("queue", if is_whole { task.queue.clone() } else { String::new() }), &task.queue), None))
        }
        @if task.payload_base64.is_none() {
            (parts::field("payload", "Payload, JSON", None, &html! { textarea #payload name="payload" spellcheck="false" rows="8" { (payload) } }, None))
        }
    }
}

fn address(context: &Context) -> String {
    context.href(&under("/console/tasks", context.param("ref")), &[])
}

async fn act(context: &Context, action: &'static str, form: &Form) -> Result<Done, Fault> {
    let task: Task = context.api.get(&path(context)).await?;
    let sent = match body(context, action, &task, form) {
        Ok(body) => send(context, action, body).await,
        Err(fault) => Err(fault),
    };
    match sent {
        Ok(said) if action == "delete" => Ok(Done::to(context.href("/console/tasks", &[]), said)),
        Ok(said) => Ok(Done::to(address(context), said)),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(question(context, action, &task, Some(form), Some(&fault))))),
    }
}

async fn send(context: &Context, action: &str, body: String) -> Result<String, Fault> {
    let path = path(context);
    let answer = match action {
        "delete" => context.api.send(Method::DELETE, &path, None, None).await?,
        "change" => context.api.send(Method::PATCH, &path, Some(body), None).await?,
        _ => context.api.send(Method::POST, &format!("{path}/{action}"), Some(body), None).await?,
    };
    let outcome =
        answer.read::<ActionAnswer>().ok().and_then(|answer| serde_json::to_value(answer.outcome).ok());
    let outcome = outcome.as_ref().and_then(Value::as_str).unwrap_or_default();
    Ok(match (action, outcome) {
        (_, "stop_requested") => "An executor is running it and was asked to stop.".to_owned(),
        ("run-now", _) => "It is due now.".to_owned(),
        ("change", _) => "It is changed.".to_owned(),
        (_, outcome) => format!("Done: {outcome}."),
    })
}

/// JSON.
fn body(context: &Context, action: &str, task: &Task, form: &Form) -> Result<String, Fault> {
    Ok(match action {
        "cancel" => json!({"stop_if_fired": form.has("stop_if_fired")}).to_string(),
        "bury" => {
            form.get("reason").map_or_else(|| json!({}), |reason| json!({"reason": reason})).to_string()
        }
        "change" | "redrive" => {
            let fields = changed(context, task, form)?;
            let payload = new_payload(task, form)?;
            if fields.is_empty() && payload.is_none() && action == "change" {
                return Err(Fault::Invalid("Nothing of it is different.".to_owned()));
            }
            with_payload(fields, payload.as_ref())
        }
        // These take no body.
        _ => String::new(),
    })
}

/// `None` if the payload is unchanged.
fn new_payload(task: &Task, form: &Form) -> Result<Option<Json>, Fault> {
    let current = task.payload.as_ref().map_or("", |payload| payload.get());
    // A browser sends the ends of lines in its own way.
    let sent = form.raw("payload").replace("\r\n", "\n");
    let sent = sent.trim();
    if sent.is_empty() || sent == current.trim() {
        return Ok(None);
    }
    let payload = Json::from_text(sent.to_owned());
    payload.map(Some).map_err(|error| Fault::Invalid(format!("Payload: not JSON: {error}")))
}

/// Letter for letter: a number keeps its digits.
pub(super) fn with_payload(fields: Map<String, Value>, payload: Option<&Json>) -> String {
    let Some(payload) = payload else { return Value::Object(fields).to_string() };
    let mut text = Value::Object(fields).to_string();
    text.pop();
    if text.len() > 1 {
        text.push(',');
    }
    text.push_str(&format!("\"payload\":{}}}", payload.get()));
    text
}

/// The fields of the form that differ from the task.
fn changed(context: &Context, task: &Task, form: &Form) -> Result<Map<String, Value>, Fault> {
    let mut fields = Map::new();
    if let Some(delay) = form.span("delay", "After")? {
        fields.insert("delay_ms".to_owned(), json!(delay));
    } else if let Some(text) =
        form.get("execute_at").filter(|execute_at| *execute_at != context.zone.for_input(task.execute_at_ms))
    {
        let at = context
            .zone
            .read(text)
            .ok_or_else(|| Fault::Invalid(format!("Due at: {text:?} is not a time.")))?;
        fields.insert("execute_at_ms".to_owned(), json!(at));
    }
    if let Some(priority) =
        form.number::<u8>("priority", "Priority")?.filter(|number| *number != task.priority)
    {
        fields.insert("priority".to_owned(), json!(priority));
    }
    if let Some(queue) = form.get("queue").filter(|queue| *queue != task.queue) {
        fields.insert("queue".to_owned(), json!(queue));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_sent_letter_for_letter() {
        let payload = Json::from_text("{\"n\": 123456789012345678901234567890}".to_owned()).unwrap();
        assert_eq!(with_payload(Map::new(), Some(&payload)), format!("{{\"payload\":{}}}", payload.get()));
        let fields = Map::from_iter([("priority".to_owned(), json!(2))]);
        let both = format!("{{\"priority\":2,\"payload\":{}}}", payload.get());
        assert_eq!(with_payload(fields.clone(), Some(&payload)), both);
        assert_eq!(with_payload(fields, None), "{\"priority\":2}");
    }
}
