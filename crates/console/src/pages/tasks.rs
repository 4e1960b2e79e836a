//! Tasks: found by what is in the address, shown in the columns that one chose, a page at a time; and what is done to
//! several of them. All that match are done by a bulk operation, with its preview; those that were picked, one by one.

use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::Form,
    parts, texts,
    view::{Done, Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{FoundTasks, SearchedAlong, Task};
use serde_json::json;

const ROWS: &str = "50";
/// Picked ones that are done in one go.
const PICKED_MAX: usize = 200;
/// Name in the address, label.
const COLUMNS: [(&str, &str); 14] = [
    ("queue", "Queue"),
    ("kind", "Kind"),
    ("state", "State"),
    ("due", "Due"),
    ("late", "Lateness"),
    ("attempt", "Attempt"),
    ("error", "Last error"),
    ("task_id", "Task id"),
    ("key", "Key"),
    ("version", "Version"),
    ("priority", "Priority"),
    ("labels", "Labels"),
    ("created", "Created"),
    ("updated", "Updated"),
];
/// The orders of a search, except for the versions of one id.
const ORDERS: [(&str, &str); 3] =
    [("", "as found"), ("-created_at", "newest first"), ("-due_at", "latest due first")];
const SHOWN_AT_FIRST: [&str; 7] = ["queue", "kind", "state", "due", "late", "attempt", "error"];
/// The filters of the search, with the API's names; times are parsed in the zone first.
const FILTERS: [&str; 7] = ["task_id", "key", "queue", "state", "phase", "kind", "label"];

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/tasks", show: |context| Box::pin(list(context)), act: None },
        Page {
            path: "/console/tasks/picked",
            show: |context| Box::pin(ask_picked(context)),
            act: Some(|context, form| Box::pin(do_picked(context, form))),
        },
    ]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let view =
        View::new("Tasks", "Tasks of this namespace. The address holds the filters, so you can share it.");
    let query = match query(context) {
        Ok(query) => query,
        Err(fault) => return Ok(view.part(parts::faults(&fault)).part(filters(context))),
    };
    let found: Result<FoundTasks, Fault> = context.api.get_with("/v1/tasks", &query).await;
    match found {
        Ok(found) => Ok(view.part(filters(context)).part(results(context, &found))),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(view.part(parts::faults(&fault)).part(filters(context))),
    }
}

fn query(context: &Context) -> Result<Vec<(&'static str, String)>, Fault> {
    let mut query = vec![("limit", ROWS.to_owned())];
    for name in FILTERS {
        query.extend(context.query(name).map(|query| (name, query.trim().to_owned())));
    }
    for (name, label) in [("due_after", "Due from"), ("due_before", "Due before")] {
        let Some(text) = context.query(name) else { continue };
        let at = context
            .zone
            .read(text)
            .ok_or_else(|| Fault::Invalid(format!("{label}: {text:?} is not a time.")))?;
        query.push((name, at.to_string()));
    }
    query.extend(
        ["sort", "cursor"].into_iter().filter_map(|name| Some((name, context.query(name)?.to_owned()))),
    );
    Ok(query)
}

fn is_filtered(context: &Context) -> bool {
    FILTERS.iter().chain(&["due_after", "due_before"]).any(|filter| context.query(filter).is_some())
}

fn columns(context: &Context) -> Vec<(&'static str, &'static str)> {
    let wanted: Vec<&str> = context.query_all("col").collect();
    let is_shown =
        |name: &str| if wanted.is_empty() { SHOWN_AT_FIRST.contains(&name) } else { wanted.contains(&name) };
    COLUMNS.into_iter().filter(|column| is_shown(column.0)).collect()
}

fn filters(context: &Context) -> Markup {
    let given = |name: &str| context.query(name).unwrap_or("");
    let mut states = vec![("", "any")];
    states.extend(texts::STATES.into_iter().map(|state| (texts::state(state), texts::state(state))));
    let time = |name: &str| html! { input id=(name) name=(name) type="datetime-local" step="1" value=(shown_time(context, given(name))); };
    html! {
        form.filters #filters method="get" action="/console/tasks" role="search" aria-label="Tasks" {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="queue" { "Queue" } (parts::input("queue", given("queue"), "")) }
            div { label for="state" { "State" } (parts::choice("state", &states, given("state"))) }
            div { label for="kind" { "Kind" } (parts::input("kind", given("kind"), "")) }
            div { label for="label" { "Label" } (parts::input("label", given("label"), "key=value")) }
            div { label for="due_after" { "Due from" } (time("due_after")) }
            div { label for="due_before" { "Due before" } (time("due_before")) }
            div { label for="task_id" { "Task id" } (parts::input("task_id", given("task_id"), "")) }
            div { label for="key" { "Key" } (parts::input("key", given("key"), "")) }
            div { label for="sort" { "Order" } (parts::choice("sort", &ORDERS, given("sort"))) }
            details #columns { summary { "Columns" } div {
                @let shown = columns(context);
                @for (name, label) in COLUMNS { label.check { input type="checkbox" name="col" value=(name) checked[shown.iter().any(|pair| pair.0 == name)]; (label) } " " }
            } }
            div.buttons { button.primary #search type="submit" { "Search" } @if is_filtered(context) { a.button href=(context.href("/console/tasks", &[])) { "All tasks" } } }
        }
    }
}

/// The time in the form of the field.
fn shown_time(context: &Context, text: &str) -> String {
    context.zone.read(text).map_or_else(String::new, |zone| context.zone.for_input(zone))
}

fn results(context: &Context, found: &FoundTasks) -> Markup {
    if found.items.is_empty() && found.next_cursor.is_none() {
        return match is_filtered(context) {
            true => parts::empty(
                "No task is like that.",
                &html! { "Take a filter away, or look " a href=(context.href("/console/tasks", &[])) { "at all tasks" } ". What is over its retention is forgotten." },
            ),
            false => parts::empty(
                "There are no tasks in this namespace.",
                &html! { "Insert one: " code { "punctual task insert --queue mail --delay 5s" } },
            ),
        };
    }
    let shown = columns(context);
    html! {
        (looked(context, found))
        form #picked method="get" action="/console/tasks/picked" {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div.scroll.list tabindex="0" role="region" aria-label="Tasks" {
                table.cards #tasks {
                    caption.hidden { "Tasks" }
                    thead { tr {
                        th.tight scope="col" { input type="checkbox" aria-label="Pick all of this page" data-select-all="ref" data-js; }
                        th scope="col" { "Ref" }
                        @for (name, label) in &shown { th scope="col" class=(if is_number(name) { "num" } else { "" }) { (label) } }
                    } }
                    tbody data-rows {
                        @for task in &found.items { (row(context, task, &shown)) }
                        (parts::pager(context, found.next_cursor.as_deref(), shown.len() + 2, found.items.len()))
                    }
                }
            }
            (acts(context))
        }
    }
}

fn is_number(name: &str) -> bool {
    matches!(name, "late" | "attempt" | "task_id" | "version" | "priority")
}

fn row(context: &Context, task: &Task, shown: &[(&'static str, &'static str)]) -> Markup {
    let reference = task.reference();
    html! {
        tr data-row data-ref=(reference) {
            td.tight { input type="checkbox" name="ref" value=(reference) aria-label={ "Pick " (reference) } data-select; }
            th scope="row" { (parts::task_link(context, reference)) }
            @for (name, label) in shown { td data-label=(label) class=(if is_number(name) { "num" } else { "" }) { (cell(context, task, name)) } }
        }
    }
}

fn cell(context: &Context, task: &Task, name: &str) -> Markup {
    match name {
        "queue" => parts::queue_link(context, &task.queue),
        "kind" => html! { (task.kind) },
        "state" => parts::state(task.state),
        "due" => parts::time(context, task.execute_at_ms),
        "late" => parts::duration_or_dash(task.lateness_ms),
        "attempt" => html! { (task.attempt) span.dim { " / " (task.max_attempts) } },
        "error" => match &task.last_error {
            Some(last_error) => {
                html! { span.clamped title=(parts::short(last_error, 500)) { (parts::short(last_error, 200)) } }
            }
            None => parts::dash(),
        },
        "task_id" => html! { (task.task_id) },
        "key" => parts::text_or_dash(task.key.as_deref()),
        "version" => html! { (task.task_version) },
        "priority" => html! { (task.priority) },
        "labels" => labels(context, task),
        "created" => parts::time(context, task.created_at_ms),
        "updated" => parts::time(context, task.updated_at_ms),
        _ => parts::dash(),
    }
}

/// Each leads to the tasks that have it too.
pub(super) fn labels(context: &Context, task: &Task) -> Markup {
    html! {
        @if task.labels.is_empty() { (parts::dash()) }
        @for (key, value) in &task.labels {
            a.badge.off href=(context.href("/console/tasks", &[("label", &format!("{key}={value}"))])) { (key) "=" (parts::short(value, 60)) } " "
        }
    }
}

/// The progress of the search, if it took long or is not over.
fn looked(context: &Context, found: &FoundTasks) -> Markup {
    let search = &found.search;
    html! {
        @if !search.is_complete { p.note #so-far {
            "Looked at " strong { (texts::number(search.examined)) } " tasks so far, " (texts::number(found.items.len() as u64)) " found; there may be more. “The next ones” continues, automatically where scripts run."
        } }
        @match (search.through_percent, search.through_due_at_ms) {
            (Some(percent), _) => p.note #looked {
                "No index covers this search, so tasks are scanned: " strong { (format!("{percent:.1}")) " %" } " are behind this page. “The next ones” continues. "
                @if context.query("label").is_some() { "Index the label in the queue's settings to make this search fast." }
                @else { "A range of due times, or a label that the queue indexes, is fast." }
            },
            (None, Some(at)) => p.note #looked { "Scanned down to tasks due at " (parts::absolute(context, at)) ". “The next ones” continues." },
            (None, None) if search.along == SearchedAlong::All && is_filtered(context) => p.dim { "All tasks were scanned, newest first." },
            (None, None) => {},
        }
    }
}

fn acts(context: &Context) -> Markup {
    let bulk = |action: &str| {
        let mut query: Vec<(&str, String)> = vec![("action", action.to_owned())];
        for name in ["queue", "state", "phase", "kind", "label", "due_after", "due_before"] {
            query.extend(context.query(name).map(|query| (name, query.to_owned())));
        }
        let query: Vec<(&str, &str)> = query.iter().map(|pair| (pair.0, pair.1.as_str())).collect();
        context.href("/console/bulk/new", &query)
    };
    let is_possible = context.query("task_id").is_none() && context.query("key").is_none();
    html! {
        div.columns {
            section.panel {
                h2 { "The picked ones" span data-js { " (" span data-selected-count { "0" } ")" } }
                div.buttons {
                    @for (action, label, permission) in PICKED {
                        @match context.lacks(permission) {
                            None => button type="submit" name="action" value=(action) data-needs-selection { (label) },
                            Some(why) => (parts::dead_button(label, &why)),
                        }
                    }
                }
                p.hint { "It is asked first. At most " (PICKED_MAX) " at a time." }
            }
            @if is_possible {
                section.panel {
                    h2 { "All that match this search" }
                    div.buttons {
                        @for (action, label, permission) in [("cancel", "Cancel…", "change_tasks"), ("reschedule", "Reschedule…", "change_tasks"), ("run_now", "Run now…", "change_tasks"), ("redrive", "Redrive…", "redrive"), ("delete", "Delete…", "operate")] {
                            (match context.lacks(permission) {
                                None => html! { a.button href=(bulk(action)) { (label) } },
                                Some(why) => parts::dead_button(label, &why),
                            })
                        }
                    }
                    p.hint { "As a bulk operation: a preview first, a limited rate, and pause and stop." }
                }
            }
        }
    }
}

/// Action, label, permission.
type Action = (&'static str, &'static str, &'static str);

const PICKED: [Action; 5] = [
    ("cancel", "Cancel", "change_tasks"),
    ("run-now", "Run now", "change_tasks"),
    ("redrive", "Redrive", "redrive"),
    ("bury", "Bury", "change_tasks"),
    ("delete", "Delete", "operate"),
];

/// The action and the refs that were picked.
fn picked(context: &Context) -> Result<(Action, Vec<String>), Fault> {
    let action =
        PICKED.into_iter().find(|action| context.query("action") == Some(action.0)).ok_or(Fault::NotFound)?;
    let refs: Vec<String> = context.query_all("ref").map(str::to_owned).collect();
    match refs.len() {
        0 => Err(Fault::Invalid("Pick some tasks first.".to_owned())),
        1..=PICKED_MAX => Ok((action, refs)),
        _ => Err(Fault::Invalid(format!(
            "At most {PICKED_MAX} at a time. A bulk operation takes all tasks that match a search."
        ))),
    }
}

async fn ask_picked(context: &Context) -> Result<View, Fault> {
    let ((action, label, permission), refs) = picked(context)?;
    let count = texts::count(refs.len() as u64, "task", "tasks");
    let title = format!("{label}: {count}?");
    let says = html! {
        p { (says(action)) }
        p { "One after the other. The result of each is shown afterwards." }
        ul.chain { @for text in refs.iter().take(20) { li { code { (text) } } } }
        @if refs.len() > 20 { p.dim { "and " (refs.len() - 20) " more" } }
    };
    let is_dangerous = matches!(action, "cancel" | "delete" | "bury");
    let does = format!("{label}: {count}");
    let back = context.href("/console/tasks", &[]);
    Ok(Confirm { title: &title, says, fields: html! {}, does: &does, permission, is_dangerous, back }
        .view(context))
}

fn says(action: &str) -> &'static str {
    match action {
        "cancel" => "They are cancelled. Tasks that have fired are not changed.",
        "run-now" => "They are due at once.",
        "redrive" => "Dead tasks get new attempts and are due at once.",
        "bury" => "They move to the dead letters, where they can be redriven.",
        _ => "Finished ones are deleted, with their histories and payloads.",
    }
}

async fn do_picked(context: &Context, _: &Form) -> Result<Done, Fault> {
    let ((action, label, permission), refs) = picked(context)?;
    if let Some(why) = context.lacks(permission) {
        return Err(Fault::Invalid(why));
    }
    let mut results = Vec::new();
    for reference in &refs {
        let path = format!("/v1/tasks/{}", segment(reference));
        let sent = match action {
            "delete" => context.api.send(axum::http::Method::DELETE, &path, None, None).await,
            _ => context.api.post(&format!("{path}/{action}"), &json!({})).await,
        };
        if let Err(fault) = &sent
            && fault.is_sign_in()
        {
            return Err(Fault::SignIn(fault.detail().to_owned()));
        }
        results.push((reference, sent.err()));
    }
    let failed = results.iter().filter(|pair| pair.1.is_some()).count();
    let done = results.len() - failed;
    let view = View::new(format!("{label}: {} done, {} not", texts::number(done as u64), texts::number(failed as u64)), "The result of each task.")
        .under("Tasks", context.href("/console/tasks", &[]))
        .part(html! {
            div.scroll.list tabindex="0" role="group" aria-label="Table, scrolls" { table.cards {
                caption.hidden { "What became of each" }
                thead { tr { th scope="col" { "Task" } th scope="col" { "What became of it" } } }
                tbody { @for (reference, fault) in &results { tr data-row {
                    th scope="row" { (parts::task_link(context, reference)) }
                    td.wrap data-label="What became of it" { @match fault {
                        None => (parts::badge("done", "good")),
                        Some(fault) => { (parts::badge("not done", "bad")) " " (fault.title()) ". " (fault.detail()) },
                    } }
                } } }
            } }
        });
    Ok(Done::Show(Box::new(view)))
}
