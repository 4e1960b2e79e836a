//! Bulk operations: request, preview, confirm, watch. Nothing happens before the confirmation, which has the revision
//! that was previewed.

mod new;

use crate::{
    confirm::Confirm,
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{BulkFailure, BulkFilter, BulkOperation, BulkState, FoundTasks, Page as Items};
use serde_json::json;

const CHANGE: &str = "change_tasks";

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/bulk", show: |context| Box::pin(list(context)), act: None },
        Page {
            path: "/console/bulk/new",
            show: |context| Box::pin(new::ask(context)),
            act: Some(|context, form| Box::pin(new::preview(context, form))),
        },
        Page { path: "/console/bulk/{bulk}", show: |context| Box::pin(show(context)), act: None },
        Page {
            path: "/console/bulk/{bulk}/confirm",
            show: |context| Box::pin(ask(context, "confirm")),
            act: Some(|context, form| {
                Box::pin(act(context, "confirm", form.get("revision").map(str::to_owned)))
            }),
        },
        Page {
            path: "/console/bulk/{bulk}/pause",
            show: |context| Box::pin(ask(context, "pause")),
            act: Some(|context, _| Box::pin(act(context, "pause", None))),
        },
        Page {
            path: "/console/bulk/{bulk}/resume",
            show: |context| Box::pin(ask(context, "resume")),
            act: Some(|context, _| Box::pin(act(context, "resume", None))),
        },
        Page {
            path: "/console/bulk/{bulk}/stop",
            show: |context| Box::pin(ask(context, "stop")),
            act: Some(|context, _| Box::pin(act(context, "stop", None))),
        },
        Page {
            path: "/console/bulk/{bulk}/repeat",
            show: |context| Box::pin(ask(context, "repeat")),
            act: Some(|context, _| Box::pin(act(context, "repeat", None))),
        },
    ]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", "50")];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let page: Items<BulkOperation> = context.api.get_with("/v1/bulk", &query).await?;
    Ok(View::new(
        "Bulk operations",
        "One action on all matching tasks: the request, its progress, and what failed. Newest first.",
    )
    .actions(parts::link_button(
        context,
        CHANGE,
        &context.href("/console/bulk/new", &[]),
        "New operation",
        "primary",
    ))
    .live("bulk", table(context, &page)))
}

fn table(context: &Context, page: &Items<BulkOperation>) -> Markup {
    if page.items.is_empty() {
        return parts::empty(
            "There was no bulk operation.",
            &html! { "Search " a href=(context.href("/console/tasks", &[])) { "tasks" } " and act on all that match, or redrive a group of " a href=(context.href("/console/dead-letters", &[])) { "dead letters" } "." },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Bulk operations" { table.cards #operations {
            caption.hidden { "Bulk operations" }
            thead { tr { th.num scope="col" { "Id" } th scope="col" { "What" } th scope="col" { "State" } th scope="col" { "How far" } th scope="col" { "Who" } th scope="col" { "When" } th scope="col" { "Why" } } }
            tbody data-rows {
                @for operation in &page.items { @let (word, tone) = texts::bulk_state(operation.state); tr data-row data-key=(operation.id) data-bulk=(operation.id) {
                    th.num scope="row" { a href=(address(context, operation.id)) { (operation.id) } }
                    td.wrap data-label="What" { strong { (texts::bulk_action(operation.action)) } " " span.dim { (said(&operation.filter)) } }
                    td data-label="State" { (parts::badge(word, tone)) }
                    td data-label="How far" { (how_far(operation)) }
                    td data-label="Who" { (operation.created_by) }
                    td data-label="When" { (parts::ago(context, operation.created_at_ms)) }
                    td.wrap data-label="Why" { (parts::text_or_dash(operation.reason.as_deref())) }
                } }
                (parts::pager(context, page.next_cursor.as_deref(), 7, page.items.len()))
            }
        } }
    }
}

fn how_far(operation: &BulkOperation) -> Markup {
    let over = operation.done + operation.skipped + operation.failed;
    html! {
        (texts::number(over)) " of " (counted(operation))
        @if operation.failed > 0 { " · " span.badge.bad { (texts::number(operation.failed)) " failed" } }
        (parts::progress(over, operation.count.max(over)))
    }
}

/// Never less than there may be, while it is counted.
fn counted(operation: &BulkOperation) -> String {
    let count = texts::number(operation.count);
    match (operation.counted_all, operation.state) {
        (true, _) => count,
        (false, BulkState::Previewed) => format!("at least {count}, still counting"),
        (false, _) => format!("at least {count}"),
    }
}

/// The filter in words.
fn said(filter: &BulkFilter) -> String {
    let word = |name: &str, value: Option<&str>| value.map(|text| format!("{name} {text}"));
    let at = |name: &str, at: Option<i64>| at.map(|at| format!("{name} {}", texts::rfc3339(at)));
    let all: Vec<String> = [
        word("queue", filter.queue.as_deref()),
        word("state", filter.state.map(texts::state)),
        word("phase", filter.phase.map(texts::phase)),
        word("kind", filter.kind.as_deref()),
        word("label", filter.label.as_deref()),
        at("due from", filter.due_after.as_ref().and_then(|instant| instant.ms())),
        at("due before", filter.due_before.as_ref().and_then(|instant| instant.ms())),
        word("error", filter.error.as_deref()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if all.is_empty() { "all tasks of the namespace".to_owned() } else { all.join(" · ") }
}

fn address(context: &Context, id: i64) -> String {
    context.href(&format!("/console/bulk/{id}"), &[])
}

fn call(context: &Context, rest: &str) -> String {
    format!("/v1/bulk/{}{rest}", crate::api::segment(context.param("bulk")))
}

async fn show(context: &Context) -> Result<View, Fault> {
    let operation: BulkOperation = context.api.get(&call(context, "")).await?;
    let failures: Result<Items<BulkFailure>, Fault> = match operation.failed {
        0 => Ok(Items { items: Vec::new(), next_cursor: None }),
        _ => context.api.get(&call(context, "/failures?limit=50")).await,
    };
    let title = format!("Bulk operation {}: {}", operation.id, texts::bulk_action(operation.action));
    let help = if operation.state == BulkState::Previewed {
        "Counted, not confirmed. Nothing has happened yet."
    } else {
        "Progress and failures."
    };
    let view = View::new(title, help)
        .under("Bulk operations", context.href("/console/bulk", &[]))
        .live("state", state(context, &operation))
        .live(
            "failures",
            match &failures {
                Ok(failures) => failed(context, &operation, failures),
                Err(fault) => parts::missing(fault),
            },
        );
    Ok(if operation.state == BulkState::Previewed {
        view.live("sample", sample(context, &operation).await)
    } else {
        view
    })
}

fn state(context: &Context, operation: &BulkOperation) -> Markup {
    let (word, tone) = texts::bulk_state(operation.state);
    let to = |action: &str| context.href(&format!("/console/bulk/{}/{action}", operation.id), &[]);
    html! {
        section.panel #state data-state=(word) {
            div.panel-head {
                p { (parts::badge(word, tone)) " " strong { (how_far(operation)) } }
                div.buttons.small #actions {
                    @match operation.state {
                        BulkState::Previewed => (parts::button(context, CHANGE, &to("confirm"), "Confirm…", "primary")),
                        BulkState::Running => { @if operation.set_aside.is_some() { (parts::button(context, CHANGE, &to("resume"), "Resume", "primary")) } @else { (parts::button(context, CHANGE, &to("pause"), "Pause", "")) } (parts::button(context, CHANGE, &to("stop"), "Stop", "danger")) },
                        BulkState::Paused => { (parts::button(context, CHANGE, &to("resume"), "Resume", "primary")) (parts::button(context, CHANGE, &to("stop"), "Stop", "danger")) },
                        BulkState::Done | BulkState::Stopped => { @if operation.failed > 0 { (parts::button(context, CHANGE, &to("repeat"), "Try the failed ones again", "")) } },
                    }
                }
            }
            @if let Some(set_aside) = &operation.set_aside { (parts::set_aside(context, set_aside)) }
            @if let Some(why) = &operation.waits_for { p.note.warn { "It is stalled and will be retried: " (why) } }
            dl.facts {
                (parts::fact("Tasks", html! { span #counted data-all=(operation.counted_all) { (counted(operation)) } }))
                (parts::fact("Done", texts::number(operation.done)))
                (parts::fact("Skipped", html! { (texts::number(operation.skipped)) span.dim { " not what was looked for any more" } }))
                (parts::fact("Failed", texts::number(operation.failed)))
                (parts::fact("Rate", html! { (texts::number(operation.rate)) " a second" }))
                (parts::fact(if matches!(operation.state, BulkState::Running | BulkState::Paused) { "Left, at its rate" } else { "Takes, at its rate" }, texts::duration(i64::try_from(operation.takes_ms).unwrap_or(i64::MAX))))
                (parts::fact("Which tasks", html! { (said(&operation.filter)) }))
                (parts::fact("In the states", html! { @for state in &operation.states { (parts::state(*state)) " " } }))
                @if let Ok(args) = serde_json::to_string(&operation.args) { @if args != "{}" { (parts::fact("With", html! { code { (args) } })) } }
                (parts::fact("Asked for", html! { (parts::time(context, operation.created_at_ms)) " by " (operation.created_by) }))
                @if let Some(at) = operation.confirmed_at_ms { (parts::fact("Confirmed", html! { (parts::time(context, at)) " by " (operation.confirmed_by.as_deref().unwrap_or("–")) })) }
                @if let Some(at) = operation.ended_at_ms { (parts::fact("Ended", parts::time(context, at))) }
                @if let Some(reason) = &operation.reason { (parts::fact("Why", html! { (reason) })) }
                @if let Some(note) = &operation.note { (parts::fact("Note", html! { (note) })) }
            }
        }
    }
}

fn failed(context: &Context, operation: &BulkOperation, failures: &Items<BulkFailure>) -> Markup {
    html! {
        @if operation.failed > 0 {
            section.panel { h2 { "What could not be done" }
                div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards { caption.hidden { "Failures" }
                    thead { tr { th scope="col" { "Task" } th scope="col" { "When" } th scope="col" { "Error" } } }
                    tbody { @for failure in &failures.items { tr data-row {
                        th scope="row" { (parts::task_link(context, &failure.task_ref)) }
                        td data-label="When" { (parts::ago(context, failure.at_ms)) }
                        td.wrap data-label="Error" { (parts::short(&failure.error, 2_000)) }
                    } } }
                } }
                @if failures.next_cursor.is_some() { p.dim { "The first 50." } }
            }
        }
    }
}

/// The first tasks that it is about.
async fn sample(context: &Context, operation: &BulkOperation) -> Markup {
    let found: Result<FoundTasks, Fault> = context.api.get(&call(context, "/tasks?limit=20")).await;
    match &found {
        Err(fault) => parts::missing(fault),
        Ok(found) => parts::panel(
            "Some of them",
            &html! {
                @let is_none = found.items.is_empty() && found.next_cursor.is_none() && operation.counted_all;
                @if is_none { p.dim { "No task matches now." } }
                @else if found.items.is_empty() { p.dim { "At least " (texts::number(operation.count)) ", still counting: looked at about " (texts::number(found.search.examined)) " tasks for some of them so far." } }
                @else { div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards #sample { caption.hidden { "Some of the tasks" }
                    thead { tr { th scope="col" { "Task" } th scope="col" { "Queue" } th scope="col" { "Kind" } th scope="col" { "State" } th scope="col" { "Due" } } }
                    tbody { @for task in &found.items { tr data-row {
                        th scope="row" { (parts::task_link(context, task.reference())) }
                        td data-label="Queue" { (task.queue) } td data-label="Kind" { (task.kind) } td data-label="State" { (parts::state(task.state)) } td data-label="Due" { (parts::time(context, task.execute_at_ms)) }
                    } } }
                } } }
            },
        ),
    }
}

async fn ask(context: &Context, action: &str) -> Result<View, Fault> {
    let operation: BulkOperation = context.api.get(&call(context, "")).await?;
    Ok(question(context, action, &operation, None))
}

fn question(context: &Context, action: &str, operation: &BulkOperation, fault: Option<&Fault>) -> View {
    let least = if operation.counted_all { "" } else { "at least " };
    let tasks = format!("{least}{}", texts::count(operation.count, "task", "tasks"));
    let what = texts::bulk_action(operation.action);
    let (title, does, says) = match action {
        "confirm" => (
            format!("{}: {tasks}?", super::overview::sentence(what)),
            format!("Yes: {what} {tasks}"),
            html! {
                p { "The action " strong { (what) } " is carried out on " strong #count { (tasks) } ": " (said(&operation.filter)) ", at " (texts::number(operation.rate)) " a second, in about " (texts::duration(i64::try_from(operation.takes_ms).unwrap_or(i64::MAX))) "." }
                @if !operation.counted_all { p.note.warn #counting { "It is still being counted: there are " strong { (tasks) } ", and there may be many more. It is carried out on all that match." } }
                p { "Only tasks that existed at the preview. It can be paused and stopped; finished work is not undone." }
            },
        ),
        "pause" => (
            "Pause this operation?".to_owned(),
            "Pause it".to_owned(),
            html! { p { "It stops until it is resumed. Finished work is not undone." } },
        ),
        "resume" => (
            "Resume this operation?".to_owned(),
            "Resume it".to_owned(),
            html! { p { "It continues where it stopped." } },
        ),
        "stop" => (
            "Stop this operation?".to_owned(),
            "Stop it for good".to_owned(),
            html! { p { "It ends where it is, after " (texts::number(operation.done)) " of " (tasks) ", and does not go on. What is done stays done." } },
        ),
        _ => (
            "Try the failed ones again?".to_owned(),
            "Try them again".to_owned(),
            html! { p { strong { (texts::count(operation.failed, "task", "tasks")) } " could not be changed; each is tried once more." } },
        ),
    };
    let is_dangerous = (action == "confirm"
        && !matches!(operation.action, punctual_protocol::BulkAction::Export))
        || action == "stop";
    let fields = html! { input type="hidden" name="revision" value=(operation.revision); };
    let back = address(context, operation.id);
    Confirm { title: &title, says, fields, does: &does, permission: CHANGE, is_dangerous, back }
        .with(context, fault)
}

async fn act(context: &Context, action: &'static str, revision: Option<String>) -> Result<Done, Fault> {
    let operation: BulkOperation = context.api.get(&call(context, "")).await?;
    let looked_at = revision.map(|revision| format!("\"{}.{revision}\"", operation.id));
    let sent = context
        .api
        .send(
            Method::POST,
            &call(context, &format!("/{action}")),
            Some(json!({}).to_string()),
            looked_at.as_deref(),
        )
        .await;
    match sent {
        Ok(_) => {
            let said = match action {
                "confirm" => "It runs.",
                "pause" => "It is paused.",
                "resume" => "It goes on.",
                "stop" => "It is stopped.",
                _ => "Failed tasks are retried.",
            };
            Ok(Done::to(address(context, operation.id), said))
        }
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(question(context, action, &operation, Some(&fault))))),
    }
}
