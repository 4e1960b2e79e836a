//! The form of a new bulk operation. Sending it counts and shows; nothing else happens.

use super::{CHANGE, address};
use crate::{
    context::Context,
    fault::Fault,
    form::{self, Form},
    parts, texts,
    view::{Done, View},
};
use maud::{Markup, html};
use punctual_protocol::BulkOperation;
use serde_json::{Map, Value, json};

const ACTIONS: [(&str, &str); 9] = [
    ("cancel", "Cancel"),
    ("reschedule", "Reschedule"),
    ("set_priority", "Set the priority"),
    ("set_queue", "Move to another queue"),
    ("run_now", "Run now"),
    ("redrive", "Redrive dead ones"),
    ("bury", "Bury: put among the dead"),
    ("delete", "Delete finished ones"),
    ("export", "Find and count only"),
];
const FILTERS: [&str; 5] = ["queue", "state", "kind", "label", "error"];

pub(super) async fn ask(context: &Context) -> Result<View, Fault> {
    let names = ["action", "due_after", "due_before", "phase"].into_iter().chain(FILTERS);
    let given = names.filter_map(|name| Some((name.to_owned(), context.query(name)?.to_owned()))).collect();
    Ok(view(context, &Form::of(given), None))
}

fn view(context: &Context, form: &Form, fault: Option<&Fault>) -> View {
    let lacks = context.lacks(CHANGE);
    View::new("New bulk operation", "Choose the action and the tasks. The preview counts the tasks and shows some of them. Nothing happens before you confirm.")
        .under("Bulk operations", context.href("/console/bulk", &[]))
        .part(html! {
            form.settings #bulk method="post" action=(context.href("/console/bulk/new", &[])) {
                @if let Some(fault) = fault { (parts::faults(fault)) }
                input type="hidden" name=(form::TOKEN) value=(context.form_token);
                @if let Some(phase) = form.get("phase") { input type="hidden" name="phase" value=(phase); }
                fieldset { legend { "What is done" } div.fields {
                    (parts::field("action", "Action", None, &parts::choice("action", &ACTIONS, form.get("action").unwrap_or("cancel")), None))
                    (parts::field("by", "Reschedule: later by", Some("Such as 2 h; −30 min for earlier."), &parts::input("by", form.raw("by"), ""), None))
                    (parts::field("execute_at", "or to the time", None, &html! { input #execute_at type="datetime-local" step="1" name="execute_at" value=(form.raw("execute_at")); }, None))
                    (parts::field("priority", "Set priority: to", Some("1 to 5."), &parts::input("priority", form.raw("priority"), ""), None))
                    (parts::field("to_queue", "Move: to the queue", None, &parts::input("to_queue", form.raw("to_queue"), ""), None))
                    (parts::field("stop_if_fired", "Cancel", None, &html! { label.check { input #stop_if_fired type="checkbox" name="stop_if_fired" value="true" checked[form.has("stop_if_fired")]; "also what has fired" } }, None))
                } }
                (which(context, form))
                fieldset { legend { "How" } div.fields {
                    (parts::field("rate", "Tasks a second", None, &parts::input("rate", form.raw("rate"), "1000"), None))
                    (parts::field("reason", "Why", Some("Shown with the operation, and in the audit."), &parts::input("reason", form.raw("reason"), ""), None))
                } }
                div.buttons {
                    @match &lacks { None => button #preview.primary type="submit" { "Count and show" }, Some(why) => (parts::dead_button("Count and show", why)) }
                    a.button href=(context.href("/console/bulk", &[])) { "Leave it" }
                }
            }
        })
}

fn which(context: &Context, form: &Form) -> Markup {
    let mut states = vec![("", "any in which it can be done")];
    states.extend(texts::STATES.into_iter().map(|state| (texts::state(state), texts::state(state))));
    let time = |name: &str| {
        let value =
            context.zone.read(form.raw(name)).map_or_else(String::new, |zone| context.zone.for_input(zone));
        html! { input id=(name) name=(name) type="datetime-local" step="1" value=(value); }
    };
    html! {
        fieldset { legend { "To which tasks" } div.fields {
            (parts::field("queue", "Queue", None, &parts::input("queue", form.raw("queue"), "any"), None))
            (parts::field("state", "State", None, &parts::choice("state", &states, form.raw("state")), None))
            (parts::field("kind", "Kind", None, &parts::input("kind", form.raw("kind"), "any"), None))
            (parts::field("label", "Label", None, &parts::input("label", form.raw("label"), "key=value"), None))
            (parts::field("due_after", "Due from", None, &time("due_after"), None))
            (parts::field("due_before", "Due before", None, &time("due_before"), None))
            (parts::field("error", "Text in the last error", Some("Letter for letter."), &parts::input("error", form.raw("error"), ""), None))
            (parts::field("all", "Without any of these", None, &html! { label.check { input #all type="checkbox" name="all" value="true" checked[form.has("all")]; "I mean all tasks of the namespace" } }, None))
        } }
    }
}

pub(super) async fn preview(context: &Context, form: &Form) -> Result<Done, Fault> {
    let sent = match body(context, form) {
        Ok(body) => context.api.post("/v1/bulk", &body).await,
        Err(fault) => Err(fault),
    };
    match sent {
        Ok(answer) => {
            let made: BulkOperation = answer.read()?;
            Ok(Done::to(
                address(context, made.id),
                "Counted. Nothing has happened yet. Check the preview, then confirm.",
            ))
        }
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(view(context, form, Some(&fault))))),
    }
}

fn body(context: &Context, form: &Form) -> Result<Value, Fault> {
    let time = |name: &str, label: &str| match form.get(name) {
        None => Ok(None),
        Some(text) => context
            .zone
            .read(text)
            .map(Some)
            .ok_or_else(|| Fault::Invalid(format!("{label}: {text:?} is not a time."))),
    };
    let mut filter = Map::new();
    for name in FILTERS.into_iter().chain(["phase"]) {
        filter.extend(form.get(name).map(|form| (name.to_owned(), json!(form))));
    }
    filter.extend(time("due_after", "Due from")?.map(|time| ("due_after".to_owned(), json!(time))));
    filter.extend(time("due_before", "Due before")?.map(|time| ("due_before".to_owned(), json!(time))));
    let action = form.get("action").unwrap_or("cancel");
    let mut args = Map::new();
    match action {
        "cancel" if form.has("stop_if_fired") => args.extend([("stop_if_fired".to_owned(), json!(true))]),
        "reschedule" => {
            args.extend(by(form)?.map(|number| ("by_ms".to_owned(), json!(number))));
            args.extend(
                time("execute_at", "To the time")?.map(|time| ("execute_at_ms".to_owned(), json!(time))),
            );
        }
        "set_priority" => args.extend(
            form.number::<u8>("priority", "Priority")?.map(|number| ("priority".to_owned(), json!(number))),
        ),
        "set_queue" => {
            args.extend(form.get("to_queue").map(|to_queue| ("queue".to_owned(), json!(to_queue))))
        }
        _ => {}
    }
    let mut body =
        Map::from_iter([("action".to_owned(), json!(action)), ("filter".to_owned(), Value::Object(filter))]);
    if !args.is_empty() {
        body.insert("args".to_owned(), Value::Object(args));
    }
    if form.has("all") {
        body.insert("all".to_owned(), json!(true));
    }
    body.extend(
        form.number::<u32>("rate", "Tasks a second")?.map(|number| ("rate".to_owned(), json!(number))),
    );
    body.extend(form.get("reason").map(|reason| ("reason".to_owned(), json!(reason))));
    Ok(Value::Object(body))
}

/// Earlier with a minus before it.
fn by(form: &Form) -> Result<Option<i64>, Fault> {
    let text = form.raw("by").trim();
    let Some(rest) = text.strip_prefix(['-', '\u{2212}']) else { return form.span("by", "Later by") };
    let earlier = texts::read_duration(rest);
    earlier
        .map(|earlier| Some(-earlier))
        .ok_or_else(|| Fault::Invalid(format!("Earlier by: {text:?} is not a time such as 30 min.")))
}
