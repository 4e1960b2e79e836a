//! One task: its state and the reason, its life drawn to scale, its executors' log lines, and the possible actions.

mod act;
mod timeline;

use crate::{
    api::segment,
    context::Context,
    fault::Fault,
    json,
    layout::curl,
    parts, shell, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{HistoryEntry, Retry, Task, Why};

pub(super) fn pages() -> Vec<Page> {
    let mut pages =
        vec![Page { path: "/console/tasks/{ref}", show: |context| Box::pin(show(context)), act: None }];
    pages.extend(act::pages());
    pages
}

async fn show(context: &Context) -> Result<View, Fault> {
    let path = format!("/v1/tasks/{}", segment(context.param("ref")));
    let task: Task = context.api.get(&path).await?;
    let why = context.api.get::<Why>(&format!("{path}/why")).await;
    let mut view = View::new(
        format!("Task {}", task.reference()),
        "The task's state and the reason for it, its timeline, its attempts, and the available actions.",
    )
    .under("Tasks", context.href("/console/tasks", &[]))
    .under(task.queue.clone(), super::queues::address(context, &task.queue))
    .live("state", state(context, &task, &why))
    .live("life", timeline::drawn(context, &task))
    .live("attempts", attempts(context, &task))
    .live("result", said(context, &task));
    view = view.part(payload(&task)).part(facts(context, &task));
    Ok(view.part(copies(context, &task)))
}

fn state(context: &Context, task: &Task, why: &Result<Why, Fault>) -> Markup {
    html! {
        section.panel #state data-state=(texts::state(task.state)) {
            div.panel-head {
                p { (parts::state(task.state)) " " span.dim { (texts::state_means(task.state)) " · phase " (texts::phase(task.phase)) } }
                div.buttons.small #actions { (act::buttons(context, task)) }
            }
            @match why {
                Ok(why) => (chain(context, why)),
                Err(fault) => (parts::missing(fault)),
            }
            @if let Some(error) = &task.last_error { h2 { "Last error" } (parts::long_text(error)) }
            dl.facts {
                (parts::fact("Due", parts::time(context, task.execute_at_ms)))
                @if let Some(at) = task.fired_at_ms { (parts::fact("Fired", html! { (parts::exact(context, at)) })) }
                @if let Some(late) = task.lateness_ms { (parts::fact("Late by", texts::duration(late))) }
                @if let Some(at) = task.started_at_ms { (parts::fact("Handed over", html! { (parts::exact(context, at)) })) }
                @if let Some(at) = task.finished_at_ms { (parts::fact("Ended", html! { (parts::exact(context, at)) @if let Some(ended_as) = task.ended_as.filter(|ended_as| *ended_as != task.state) { " as " (parts::state(ended_as)) } })) }
                (parts::fact("Attempt", html! { (task.attempt) " of " (task.max_attempts) }))
                @if let Some(lease) = &task.lease {
                    (parts::fact("With", executor(context, &lease.executor)))
                    (parts::fact("Its lease ends", html! { (parts::ago(context, lease.until_ms)) @if lease.cancel_requested { " " (parts::badge("asked to stop", "warn")) } }))
                }
            }
        }
    }
}

fn executor(context: &Context, name: &str) -> Markup {
    html! { a href=(context.href(&crate::layout::under("/console/executors", name), &[])) { (name) } }
}

/// The chain of explanations, from the reason on.
fn chain(context: &Context, why: &Why) -> Markup {
    html! {
        p.why #why { (why.reason) }
        ol.chain {
            @if let Some(text) = &why.blocking { li { "In its way: " strong { (text) } } }
            @if let Some(owner) = &why.owner { li { "In the hands of " strong { (owner) } } }
            li { "What comes next: " strong { (why.next_step) }
                @if let Some(at) = why.expected_at_ms { ", expected " (parts::time(context, at)) } }
            @if let Some(workflow) = &why.workflow {
                li { "Part of the workflow " a href=(context.href(&crate::layout::under("/console/workflows", workflow), &[])) { (workflow) }
                    @if let Some(node) = &why.workflow_node { ", node " code { (node) } } }
            }
        }
    }
}

/// Every change of state, with how long it lasted.
fn attempts(context: &Context, task: &Task) -> Markup {
    let history = &task.history;
    html! {
        section.panel {
            h2 { "What happened" }
            div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards #history {
                caption.hidden { "History" }
                thead { tr {
                    th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Then" } th.num scope="col" { "Attempt" }
                    th scope="col" { "By" } th.num scope="col" { "After" } th scope="col" { "Why" }
                } }
                tbody { @for (nth, entry) in history.iter().enumerate() {
                    @let before = nth.checked_sub(1).and_then(|nth| history.get(nth));
                    (happened(context, entry, before))
                } }
            } }
            @if history.is_empty() { p.dim { "Its history has been deleted." } }
        }
    }
}

fn happened(context: &Context, entry: &HistoryEntry, before: Option<&HistoryEntry>) -> Markup {
    html! {
        tr data-row data-event=(entry.event) {
            th scope="row" { (parts::exact(context, entry.at_ms)) }
            td data-label="What" { (entry.event.replace('_', " ")) }
            td data-label="Then" { (parts::state(entry.to)) }
            td.num data-label="Attempt" { @if entry.attempt > 0 { (entry.attempt) } @else { (parts::dash()) } }
            td data-label="By" { (entry.by) }
            td.num data-label="After" { @match before { Some(before) => (texts::duration(entry.at_ms - before.at_ms)), None => (parts::dash()) } }
            td.wrap data-label="Why" {
                @if let Some(reason) = &entry.reason { (parts::short(reason, 2_000)) }
                @if let Some(error) = &entry.error { @if entry.reason.is_some() { br; } span.badge.bad { "error" } " " (parts::short(error, 2_000)) }
                @if let Some(at) = entry.due_at_ms { @if entry.reason.is_some() || entry.error.is_some() { br; } span.dim { "due " (parts::absolute(context, at)) } }
            }
        }
    }
}

/// Progress, log and result.
fn said(context: &Context, task: &Task) -> Markup {
    html! {
        @if task.progress.is_some() || !task.log.is_empty() || task.result.is_some() {
            div.columns {
                @if let Some(progress) = &task.progress { section.panel #progress { h2 { "Progress" } (json::json(progress.get())) } }
                @if let Some(result) = &task.result {
                    section.panel #result {
                        h2 { "Result" }
                        p { "Status " code { (result.status_code) } @if let Some(text) = &result.status_msg { ": " (parts::short(text, 4_000)) } }
                        @if let Some(json) = &result.result { (json::json(json.get())) }
                        @if let Some(bytes) = &result.result_base64 { (parts::hex(&bytes.0)) }
                        @if let Some(bytes) = result.result_outside_bytes { p.dim { "Kept outside of the store: " (texts::bytes(i64::try_from(bytes).unwrap_or(i64::MAX))) } }
                    }
                }
                @if !task.log.is_empty() {
                    section.panel #log {
                        h2 { "Log" }
                        div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards { caption.hidden { "Log" } tbody { @for line in &task.log { tr {
                            td.slim { (parts::exact(context, line.at_ms)) }
                            td.slim { @if let Some(level) = &line.level { (parts::badge(level, match level.as_str() { "error" => "bad", "warn" => "warn", _ => "off" })) } }
                            td.wrap { (line.text) }
                        } } } } }
                    }
                }
            }
        }
    }
}

fn payload(task: &Task) -> Markup {
    parts::panel(
        "Payload",
        &html! {
            @match (&task.payload, &task.payload_base64, task.payload_outside_bytes) {
                (Some(json), _, _) => { (json::json(json.get())) p { (parts::copy(json.get(), "Copy the payload")) } },
                (_, Some(bytes), _) => (parts::hex(&bytes.0)),
                (_, _, Some(bytes)) => p.note.warn { "Its payload of " (texts::bytes(i64::try_from(bytes).unwrap_or(i64::MAX))) " is kept outside of the store, and is not there." },
                (None, None, None) => p.dim { "None." },
            }
        },
    )
}

fn facts(context: &Context, task: &Task) -> Markup {
    parts::panel(
        "What it is",
        &html! {
            dl.facts {
                (parts::fact("Ref", parts::copyable(task.reference())))
                (parts::fact("Task id", parts::copyable(&task.task_id.to_string())))
                (parts::fact("Version", texts::number(task.task_version)))
                @if let Some(key) = &task.key { (parts::fact("Key", parts::copyable(key))) }
                @if let Some(name) = &task.name { (parts::fact("Name", html! { (name) })) }
                (parts::fact("Namespace", html! { (task.namespace) }))
                (parts::fact("Queue", parts::queue_link(context, &task.queue)))
                (parts::fact("Kind", html! { a href=(context.href("/console/tasks", &[("queue", &task.queue), ("kind", &task.kind)])) { (task.kind) } }))
                (parts::fact("Priority", html! { (task.priority) " of 5" }))
                (parts::fact("Labels", super::tasks::labels(context, task)))
                (parts::fact("Inserted", parts::time(context, task.created_at_ms)))
                (parts::fact("Last changed", parts::time(context, task.updated_at_ms)))
                @if let Some(ms) = task.timeout_ms { (parts::fact("Longest attempt", texts::duration(ms))) }
                @if let Some(ms) = task.deadline_ms { (parts::fact("Deadline", texts::duration(ms))) }
                @if let Some(retry) = &task.retry { (parts::fact("Tried again", retried(retry))) }
                @if let Some(key) = &task.concurrency_key { (parts::fact("Concurrency key", html! { code { (key) } })) }
                @if let Some(handler_version) = &task.handler_versions { (parts::fact("Handler versions", html! { code { (handler_version) } })) }
                @if let Some(traceparent) = &task.traceparent { (parts::fact("Trace", parts::copyable(traceparent))) }
            }
        },
    )
}

/// The same from a terminal.
fn copies(context: &Context, task: &Task) -> Markup {
    let path = format!("/v1/tasks/{}", segment(task.reference()));
    let namespace = if context.namespace == "default" {
        String::new()
    } else {
        format!(" --namespace {}", shell::quoted(&context.namespace))
    };
    let again = again(task);
    let mut all = vec![
        (
            "This task, on the command line",
            format!("punctual task get {}{namespace}", shell::quoted(task.reference())),
        ),
        ("This task, with curl", curl(context, "GET", &path, None)),
        ("Why, with curl", curl(context, "GET", &format!("{path}/why"), None)),
        (
            "Cancel it, with curl",
            curl(context, "POST", &format!("{path}/cancel"), Some("{\"stop_if_fired\":true}")),
        ),
    ];
    if let Some(again) = &again {
        all.push(("Insert another like it, with curl", curl(context, "POST", "/v1/tasks", Some(again))));
    }
    parts::panel(
        "From a terminal",
        &html! {
            details #terminal { summary { "Copy as command or curl" }
                @for (label, text) in &all { p { strong { (label) } " " (parts::copy(text, "Copy")) } pre { (parts::short(text, 4_000)) } }
            }
        },
    )
}

/// The body of an insert. `None` if its payload is not here.
fn again(task: &Task) -> Option<String> {
    if task.payload_outside_bytes.is_some() && task.payload.is_none() && task.payload_base64.is_none() {
        return None;
    }
    let mut body = serde_json::json!({"queue": task.queue, "kind": task.kind, "priority": task.priority, "max_attempts": task.max_attempts});
    let fields = body.as_object_mut()?;
    if let Some(bytes) = &task.payload_base64 {
        fields.insert("payload_base64".to_owned(), serde_json::to_value(bytes).ok()?);
    }
    if !task.labels.is_empty() {
        fields.insert("labels".to_owned(), serde_json::to_value(&task.labels).ok()?);
    }
    if let Some(retry) = &task.retry {
        fields.insert("retry".to_owned(), serde_json::to_value(retry).ok()?);
    }
    Some(act::with_payload(fields.clone(), task.payload.as_ref()))
}

/// The retry policy in words.
fn retried(retry: &Retry) -> String {
    match retry {
        Retry::Immediate {} => "at once".to_owned(),
        Retry::Fixed { delay_ms } => format!("after {}", texts::duration(*delay_ms)),
        Retry::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
            let about = if *jitter > 0.0 { "about " } else { "" };
            let (first, last) = (texts::duration(*delay_ms), texts::duration(*max_delay_ms));
            format!("after {about}{first}, then {factor} times as long each time, up to {last}")
        }
        Retry::List { delays_ms } => {
            let all: Vec<String> = delays_ms.iter().take(10).map(|ms| texts::duration(*ms)).collect();
            let more = if delays_ms.len() > all.len() { ", …" } else { "" };
            format!("after {}{more}", all.join(", "))
        }
    }
}
