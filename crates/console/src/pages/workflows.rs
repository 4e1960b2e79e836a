//! Workflows: which there are and how they stand; one of them drawn, with its nodes as a table beside it, and what can be done with it.

mod act;
mod geometry;
mod graph;
mod nodes;
mod shared;

use crate::{
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{NodeStatus, Page as Items, Workflow};
use shared::{LIST, STATES, address, call, counts, took, word};
use std::collections::BTreeMap;

const ROWS: &str = "100";
const COLUMNS: usize = 6;

pub(super) fn pages() -> Vec<Page> {
    let mut pages = vec![
        Page { path: LIST, show: |context| Box::pin(list(context)), act: None },
        Page { path: "/console/workflows/{workflow}", show: |context| Box::pin(show(context)), act: None },
    ];
    pages.extend(act::pages());
    pages
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", ROWS)];
    query.extend(
        ["name", "state", "cursor"].into_iter().filter_map(|name| Some((name, context.query(name)?))),
    );
    let page: Items<Workflow> = context.api.get_with("/v1/workflows", &query).await?;
    Ok(View::new("Workflows", "Tasks that depend on each other. Newest first.")
        .part(filters(context))
        .live("workflows", table(context, &page)))
}

fn filters(context: &Context) -> Markup {
    let mut states = vec![("", "any")];
    states.extend(STATES.map(|state| (state.1, state.1)));
    html! {
        form.filters #filters method="get" action=(LIST) role="search" aria-label="Workflows" data-filter {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="name" { "Name" } (parts::input("name", context.query("name").unwrap_or(""), "order")) }
            div { label for="state" { "State" } (parts::choice("state", &states, context.query("state").unwrap_or(""))) }
            button type="submit" { "Show" }
        }
    }
}

fn table(context: &Context, page: &Items<Workflow>) -> Markup {
    if page.items.is_empty() {
        return match context.query("name").or_else(|| context.query("state")) {
            Some(_) => parts::empty(
                "No workflow is like that.",
                &html! { a href=(context.href(LIST, &[])) { "All workflows" } },
            ),
            None => parts::empty(
                "There are no workflows yet.",
                &html! { "Begin one: " code { "punctual workflow run order.json" } },
            ),
        };
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Workflows" { table.cards #workflows {
            caption.hidden { "Workflows" }
            thead { tr {
                th scope="col" { "Workflow" } th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Begun" } th scope="col" { "Took" } th scope="col" { "Why" }
            } }
            tbody data-rows {
                @for item in &page.items { tr data-row data-key=(item.r#ref) data-workflow=(item.r#ref) {
                    th scope="row" { a.ref href=(address(context, &item.r#ref)) { (item.r#ref) } }
                    td data-label="Name" { @match &item.name { Some(name) => { (name) span.dim { " v" (item.version) } }, None => (parts::dash()) } }
                    td data-label="State" { (state_of(item)) }
                    td data-label="Begun" { (parts::time(context, item.created_at_ms)) }
                    td data-label="Took" { (took(item.created_at_ms, item.finished_at_ms)) }
                    td.wrap data-label="Why" { @match &item.reason { Some(reason) => (parts::short(reason, 300)), None => (parts::dash()) } }
                } }
                (parts::pager(context, page.next_cursor.as_deref(), COLUMNS, page.items.len()))
            }
        } }
    }
}

fn state_of(workflow: &Workflow) -> Markup {
    let (now, tone) = word(workflow.state);
    html! { (parts::badge(now, tone)) @if let Some(ending) = workflow.ending { " " span.dim { "soon " (word(ending).0) } } }
}

async fn show(context: &Context) -> Result<View, Fault> {
    let workflow: Workflow = context.api.get(&call(context, "")).await?;
    let none = BTreeMap::new();
    let all = workflow.nodes.as_ref().unwrap_or(&none);
    let title = workflow.name.clone().unwrap_or_else(|| format!("Workflow {}", workflow.r#ref));
    let view = View::new(title, "The nodes in the order of their dependencies. Each links to its task.")
        .under("Workflows", context.href(LIST, &[]))
        .live("state", state(context, &workflow, all))
        .part(graph::tools())
        .live("graph", graph::drawn(context, &workflow, all))
        .live("nodes", nodes::table(context, &workflow, all));
    Ok(match &workflow.input {
        Some(input) if input.get() != "null" => {
            view.part(parts::panel("Input", &crate::json::json(input.get())))
        }
        _ => view,
    })
}

fn state(context: &Context, workflow: &Workflow, nodes: &BTreeMap<String, NodeStatus>) -> Markup {
    let compensated = nodes.values().filter(|node| node.compensation.is_some()).count();
    html! {
        section.panel #state data-state=(word(workflow.state).0) {
            div.panel-head {
                p { (state_of(workflow)) @if let Some(reason) = &workflow.reason { " " (parts::short(reason, 2_000)) } }
                div.buttons.small #actions { (act::buttons(context, workflow)) }
            }
            @if let Some(set_aside) = &workflow.set_aside { (parts::set_aside(context, set_aside)) }
            ul.states #counts { @for (word, tone, count) in counts(nodes.values()) {
                li { a href=(context.here_with("state", word)) { (parts::badge(word, tone)) " " (texts::number(count)) } }
            } }
            dl.facts {
                (parts::fact("Ref", parts::copyable(&workflow.r#ref)))
                @if let Some(name) = &workflow.name { (parts::fact("Name", html! { a href=(context.href(LIST, &[("name", name)])) { (name) } span.dim { " version " (workflow.version) } })) }
                (parts::fact("Begun", html! { (parts::time(context, workflow.created_at_ms)) " by " (workflow.created_by) }))
                @match workflow.finished_at_ms {
                    Some(at) => { (parts::fact("Ended", parts::time(context, at))) (parts::fact("Took", took(workflow.created_at_ms, Some(at)))) },
                    None => { @if let Some(at) = workflow.deadline_at_ms { (parts::fact("Must be over", parts::time(context, at))) } },
                }
                (parts::fact("Nodes", texts::number(nodes.len() as u64)))
                @if compensated > 0 { (parts::fact("Undone, or being undone", texts::number(compensated as u64))) }
                @if let Some(parent) = &workflow.parent_ref { (parts::fact("A node of", html! { a.ref href=(address(context, parent)) { (parent) } })) }
                (parts::fact("Tasks", html! { a href=(context.href("/console/tasks", &[("label", &format!("workflow={}", workflow.r#ref))])) { "all of it" } }))
            }
        }
    }
}
