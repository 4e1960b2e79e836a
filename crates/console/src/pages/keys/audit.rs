//! The audit: changes and attempts, with their authors.

use super::super::queue::difference;
use crate::{
    context::Context,
    fault::Fault,
    parts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{AuditEntry, Page as Items};

pub(super) fn pages() -> Vec<Page> {
    vec![Page { path: "/console/audit", show: |context| Box::pin(list(context)), act: None }]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let view = View::new(
        "Audit",
        "Who changed what, when and from where, and what was refused. Newest first. An action whose entry cannot be written is not carried out.",
    );
    let mut query = vec![("limit", "100".to_owned())];
    query.extend(
        ["token", "action", "namespace", "cursor"]
            .into_iter()
            .filter_map(|name| Some((name, context.query(name)?.trim().to_owned()))),
    );
    for name in ["since", "until"] {
        let Some(text) = context.query(name) else { continue };
        match context.zone.read(text) {
            Some(at) => query.push((name, at.to_string())),
            None => {
                return Ok(view
                    .part(parts::faults(&Fault::Invalid(format!("{text:?} is not a time."))))
                    .part(filters(context)));
            }
        }
    }
    let page: Items<AuditEntry> = context.api.get_with("/v1/audit", &query).await?;
    Ok(view.part(filters(context)).part(table(context, &page)))
}

fn filters(context: &Context) -> Markup {
    let given = |name: &str| context.query(name).unwrap_or("");
    let time = |name: &str| {
        let value =
            context.zone.read(given(name)).map_or_else(String::new, |zone| context.zone.for_input(zone));
        html! { input id=(name) name=(name) type="datetime-local" step="1" value=(value); }
    };
    html! {
        form.filters #filters method="get" action="/console/audit" role="search" aria-label="Audit" {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="action" { "Action" } (parts::input("action", given("action"), "pause_queue")) }
            div { label for="token" { "Id of a token" } (parts::input("token", given("token"), "")) }
            div { label for="namespace" { "Of the namespace" } (parts::input("namespace", given("namespace"), "any")) }
            div { label for="since" { "From" } (time("since")) }
            div { label for="until" { "Until" } (time("until")) }
            button type="submit" { "Show" }
        }
    }
}

fn table(context: &Context, page: &Items<AuditEntry>) -> Markup {
    if page.items.is_empty() {
        return parts::empty(
            "Nothing was changed.",
            &html! { "Every change through the API, this console or the command line is recorded here before it is made." },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Audit" { table.cards #audit {
            caption.hidden { "Audit" }
            thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "From" } th scope="col" { "What" } th scope="col" { "Result" } th scope="col" { "More" } } }
            tbody data-rows {
                @for entry in &page.items { (row(context, entry)) }
                (parts::pager(context, page.next_cursor.as_deref(), 6, page.items.len()))
            }
        } }
    }
}

fn row(context: &Context, entry: &AuditEntry) -> Markup {
    let by_console = entry.request_id.as_deref().is_some_and(|request_id| request_id.starts_with("console-"));
    html! {
        tr data-row data-audit=(entry.id) {
            th scope="row" { (parts::time(context, entry.at_ms)) }
            td data-label="Who" { (entry.caller) @if let Some(id) = &entry.token_id { br; a.dim href=(context.here_with("token", id)) { (id) } } }
            td data-label="From" { (parts::text_or_dash(entry.address.as_deref())) @if by_console { br; span.badge.off { "console" } } }
            td.wrap data-label="What" { a href=(context.here_with("action", &entry.action)) { (entry.action) } @if let Some(namespace) = &entry.namespace { " " span.dim { "in " (namespace) } } br; code { (parts::short(&entry.request, 300)) } }
            td data-label="Result" { (result(entry)) @if entry.times > 1 { " × " (entry.times) } }
            td.wrap data-label="More" { (more(entry)) }
        }
    }
}

fn result(entry: &AuditEntry) -> Markup {
    match entry.status {
        None => {
            html! { span.badge.warn title="In progress, or the server stopped between the change and its result" { "not known" } }
        }
        Some(status @ 200..=299) => parts::badge(&status.to_string(), "good"),
        Some(status @ (401 | 403 | 429)) => parts::badge(&format!("refused, {status}"), "bad"),
        Some(status) => parts::badge(&status.to_string(), "warn"),
    }
}

fn more(entry: &AuditEntry) -> Markup {
    html! {
        @if let Some(reason) = &entry.reason { p { (reason) } }
        @if entry.before.is_some() || entry.after.is_some() {
            details id={ "audit-" (entry.id) } { summary { "before and after" } (difference(entry.before.as_ref(), entry.after.as_ref())) }
        } @else if entry.reason.is_none() { (parts::dash()) }
    }
}
