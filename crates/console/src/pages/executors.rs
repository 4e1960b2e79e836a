//! Executors: who lives, what each can and holds, and what is wished of it.

use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    layout::under,
    parts, texts,
    view::{Done, Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Executor, ExecutorState, Page as Items};
use serde_json::json;
use std::collections::BTreeMap;

const OPERATE: &str = "operate";
const COLUMNS: usize = 7;

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/executors", show: |context| Box::pin(list(context)), act: None },
        Page { path: "/console/executors/{executor}", show: |context| Box::pin(show(context)), act: None },
        Page {
            path: "/console/executors/{executor}/quiet",
            show: |context| Box::pin(ask(context, "quiet")),
            act: Some(|context, _| Box::pin(act(context, "quiet"))),
        },
        Page {
            path: "/console/executors/{executor}/drain",
            show: |context| Box::pin(ask(context, "drain")),
            act: Some(|context, _| Box::pin(act(context, "drain"))),
        },
        Page {
            path: "/console/executors/{executor}/resume",
            show: |context| Box::pin(ask(context, "resume")),
            act: Some(|context, _| Box::pin(act(context, "resume"))),
        },
    ]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", "200")];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let page: Items<Executor> = context.api.get_with("/v1/executors", &query).await?;
    Ok(View::new(
        "Executors",
        "Executors of this namespace: alive, quiet, stopping or silent; their versions and running tasks.",
    )
    .live("executors", html! { (facets(context, &page)) (versions(&page)) (table(context, &page)) }))
}

fn facets(context: &Context, page: &Items<Executor>) -> Markup {
    let wanted = context.query("state").unwrap_or("");
    let count = |word: &str| {
        page.items.iter().filter(|executor| texts::executor_state(executor.state).0 == word).count()
    };
    html! {
        @if !page.items.is_empty() {
            nav.facet aria-label="By state" {
                a href=(context.here_with("state", "")) aria-current=[wanted.is_empty().then_some("true")] { "all " (page.items.len()) }
                @for word in ["alive", "quiet", "draining", "silent"] {
                    @if count(word) > 0 || wanted == word {
                        a href=(context.here_with("state", word)) aria-current=[(wanted == word).then_some("true")] { (word) " " (count(word)) }
                    }
                }
            }
        }
    }
}

/// Shows the versions if handlers of several versions run.
fn versions(page: &Items<Executor>) -> Markup {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for executor in page.items.iter().filter(|executor| executor.state != ExecutorState::Dead) {
        *all.entry(executor.version.as_deref().unwrap_or("no version")).or_default() += 1;
    }
    html! {
        @if all.len() > 1 { p.dim { "Versions: " @for (version, count) in &all { span.badge.off { (version) } " " (count) "  " } } }
    }
}

fn table(context: &Context, page: &Items<Executor>) -> Markup {
    let wanted = context.query("state");
    let shown: Vec<&Executor> = page
        .items
        .iter()
        .filter(|executor| wanted.is_none_or(|wanted| texts::executor_state(executor.state).0 == wanted))
        .collect();
    if page.items.is_empty() {
        return parts::empty(
            "No executor has connected.",
            &html! { "Fired tasks wait for an executor. Start one: " code { "punctual work --queue mail --exec ./handler" } },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Executors" { table.cards #executors {
            caption.hidden { "Executors" }
            thead { tr {
                th scope="col" { "Executor" } th scope="col" { "State" } th scope="col" { "In hand" } th scope="col" { "Version" }
                th scope="col" { "Queues" } th scope="col" { "Last heard" } th scope="col" { "Since" }
            } }
            tbody data-rows {
                @for executor in &shown { (row(context, executor)) }
                (parts::pager(context, page.next_cursor.as_deref(), COLUMNS, shown.len()))
            }
        } }
    }
}

fn row(context: &Context, this_executor: &Executor) -> Markup {
    let (word, tone) = texts::executor_state(this_executor.state);
    html! {
        tr data-row data-key=(this_executor.name) data-executor=(this_executor.name) {
            th scope="row" { a href=(address(context, &this_executor.name)) { (this_executor.name) } @if let Some(host) = &this_executor.host { br; span.dim { (host) } } }
            td data-label="State" { (parts::badge(word, tone)) }
            td data-label="In hand" { (in_hand(this_executor)) }
            td data-label="Version" { (parts::text_or_dash(this_executor.version.as_deref())) }
            td data-label="Queues" { (queues(context, this_executor)) }
            td data-label="Last heard" { (parts::ago(context, this_executor.last_seen_at_ms)) }
            td data-label="Since" { (parts::ago(context, this_executor.first_seen_at_ms)) }
        }
    }
}

fn queues(context: &Context, executor: &Executor) -> Markup {
    html! {
        @if executor.queues.is_empty() { (parts::dash()) }
        @for (nth, queue) in executor.queues.iter().take(5).enumerate() { @if nth > 0 { ", " } (parts::queue_link(context, queue)) }
        @if executor.queues.len() > 5 { span.dim { " and " (executor.queues.len() - 5) " more" } }
    }
}

fn in_hand(executor: &Executor) -> Markup {
    let most = executor.concurrency.or(executor.capacity).map(u64::from);
    html! {
        @match (executor.running, most) {
            (Some(running), Some(most)) => {
                (texts::number(running)) " / " (texts::number(most))
                (parts::meter(running, most))
            },
            (Some(running), None) => (texts::number(running)),
            (None, Some(most)) => span.dim { "– / " (texts::number(most)) },
            (None, None) => (parts::dash()),
        }
    }
}

fn address(context: &Context, name: &str) -> String {
    context.href(&under("/console/executors", name), &[])
}

async fn get(context: &Context) -> Result<Executor, Fault> {
    context.api.get(&format!("/v1/executors/{}", segment(context.param("executor")))).await
}

async fn show(context: &Context) -> Result<View, Fault> {
    let executor = get(context).await?;
    Ok(View::new(
        executor.name.clone(),
        "What this executor reports about itself, and the tasks it is running.",
    )
    .under("Executors", context.href("/console/executors", &[]))
    .live("executor", html! { (state(context, &executor)) (held(context, &executor)) }))
}

fn state(context: &Context, executor: &Executor) -> Markup {
    let (word, tone) = texts::executor_state(executor.state);
    let to = |action: &str| {
        context.href(&format!("{}/{action}", under("/console/executors", &executor.name)), &[])
    };
    html! {
        section.panel #state data-state=(word) {
            div.panel-head {
                p { (parts::badge(word, tone)) " " span.dim { (means(executor.state)) } }
                div.buttons.small #actions {
                    @match executor.state {
                        ExecutorState::Alive => { (parts::button(context, OPERATE, &to("quiet"), "Quiet", "")) (parts::button(context, OPERATE, &to("drain"), "Drain and end", "danger")) },
                        ExecutorState::Quiet => { (parts::button(context, OPERATE, &to("resume"), "Resume", "primary")) (parts::button(context, OPERATE, &to("drain"), "Drain and end", "danger")) },
                        ExecutorState::Draining => (parts::button(context, OPERATE, &to("resume"), "Resume", "primary")),
                        ExecutorState::Dead => {},
                    }
                }
            }
            dl.facts {
                (parts::fact("In hand", in_hand(executor)))
                (parts::fact("Version", parts::text_or_dash(executor.version.as_deref())))
                (parts::fact("Host", parts::text_or_dash(executor.host.as_deref())))
                (parts::fact("First heard", parts::time(context, executor.first_seen_at_ms)))
                (parts::fact("Last heard", parts::time(context, executor.last_seen_at_ms)))
                (parts::fact(if executor.state == ExecutorState::Dead { "Counts as silent since" } else { "Silent without a heartbeat by" }, parts::ago(context, executor.alive_until_ms)))
                (parts::fact("Queues", queues(context, executor)))
                (parts::fact("Kinds", html! { @if executor.kinds.is_empty() { span.dim { "any" } } @else { (executor.kinds.iter().map(String::as_str).collect::<Vec<_>>().join(", ")) } }))
                @if !executor.labels.is_empty() { (parts::fact("Labels", html! { @for (key, value) in &executor.labels { span.badge.off { (key) "=" (value) } " " } })) }
            }
        }
    }
}

const fn means(state: ExecutorState) -> &'static str {
    match state {
        ExecutorState::Alive => "asks for tasks and gives signs of life",
        ExecutorState::Quiet => "gets no new tasks until it is resumed",
        ExecutorState::Draining => "gets no new tasks, finishes what it has, and ends",
        ExecutorState::Dead => "fell silent: its tasks run elsewhere when their leases end",
    }
}

fn held(context: &Context, executor: &Executor) -> Markup {
    let leases = executor.leases.as_deref().unwrap_or_default();
    parts::panel(
        "What it has in hand",
        &html! {
            @if leases.is_empty() { p.dim { "Its last heartbeat named no task." } }
            @else { div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards #held {
                caption.hidden { "Leases" }
                thead { tr { th scope="col" { "Task" } th scope="col" { "Queue" } th scope="col" { "Kind" } th scope="col" { "State" } th.num scope="col" { "Attempt" } th scope="col" { "Since" } th scope="col" { "Lease ends" } } }
                tbody { @for lease in leases { tr data-row {
                    th scope="row" { (parts::task_link(context, &lease.r#ref)) }
                    td data-label="Queue" { (parts::queue_link(context, &lease.queue)) }
                    td data-label="Kind" { (lease.kind) }
                    td data-label="State" { (parts::state(lease.state)) @if lease.cancel_requested { " " (parts::badge("asked to stop", "warn")) } }
                    td.num data-label="Attempt" { (lease.attempt) }
                    td data-label="Since" { @match lease.since_ms { Some(at) => (parts::ago(context, at)), None => (parts::dash()) } }
                    td data-label="Lease ends" { (parts::ago(context, lease.lease_until_ms)) }
                } } }
            } } }
        },
    )
}

async fn ask(context: &Context, action: &str) -> Result<View, Fault> {
    let executor = get(context).await?;
    let running = executor.running.unwrap_or(0);
    let (title, does, says) = match action {
        "quiet" => (
            "Quiet",
            "Quiet the executor",
            "gets no new tasks until it is resumed. What it has, it finishes.",
        ),
        "drain" => (
            "Drain",
            "Drain the executor",
            "gets no new tasks, finishes what it has, and ends. Whoever starts it must start it again.",
        ),
        _ => ("Resume", "Resume the executor", "gets tasks again."),
    };
    let title = format!("{title} {}?", executor.name);
    let says = html! { p { strong { (executor.name) } " " (says) } p { "It has " strong { (texts::count(running, "task", "tasks")) } " in hand." } };
    let back = address(context, &executor.name);
    Ok(Confirm {
        title: &title,
        says,
        fields: html! {},
        does,
        permission: OPERATE,
        is_dangerous: action == "drain",
        back,
    }
    .view(context))
}

async fn act(context: &Context, action: &'static str) -> Result<Done, Fault> {
    let name = context.param("executor");
    context.api.post(&format!("/v1/executors/{}/{action}", segment(name)), &json!({})).await?;
    let said = match action {
        "quiet" => "gets no new tasks",
        "drain" => "finishes what it has, and ends",
        _ => "gets tasks again",
    };
    Ok(Done::to(address(context, name), format!("{name} {said}; it learns of it at its next call.")))
}
