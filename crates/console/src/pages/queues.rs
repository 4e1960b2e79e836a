//! All queues of the namespace, a page at a time.

use crate::{
    charts,
    context::Context,
    fault::Fault,
    layout::under,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Page as Items, Queue, Rate, Source};

/// Rows of a page.
const ROWS: &str = "100";
const COLUMNS: usize = 9;
/// The lateness budget of a queue without one.
pub(super) const BUDGET_MS: i64 = 1_000;
/// The same of a queue that is scanned.
const SCANNED_BUDGET_MS: i64 = 600_000;

pub(super) fn pages() -> Vec<Page> {
    vec![Page { path: "/console/queues", show: |context| Box::pin(list(context)), act: None }]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", ROWS)];
    query.extend(
        ["prefix", "paused", "cursor"].into_iter().filter_map(|name| Some((name, context.query(name)?))),
    );
    let page: Items<Queue> = context.api.get_with("/v1/queues", &query).await?;
    Ok(View::new(
        "Queues",
        "Every queue with tasks or settings: waiting and running tasks, settings, and whether it is paused.",
    )
    .part(filters(context))
    .live("queues", table(context, &page)))
}

fn filters(context: &Context) -> Markup {
    html! {
        form.filters #filters method="get" action="/console/queues" role="search" aria-label="Queues" data-filter {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="prefix" { "Name begins with" } (parts::input("prefix", context.query("prefix").unwrap_or(""), "mail")) }
            div { label for="paused" { "Paused" } (parts::choice("paused", &[("", "all"), ("true", "only paused"), ("false", "not paused")], context.query("paused").unwrap_or(""))) }
            button type="submit" { "Show" }
        }
    }
}

fn table(context: &Context, page: &Items<Queue>) -> Markup {
    if page.items.is_empty() {
        let is_filtered = context.query("prefix").is_some() || context.query("paused").is_some();
        return match is_filtered {
            true => parts::empty(
                "No queue is like that.",
                &html! { a href=(context.href("/console/queues", &[])) { "Show all queues" } },
            ),
            false => parts::empty(
                "There are no queues yet.",
                &html! { "A queue exists as soon as a task is inserted into it: " code { "punctual task insert --queue mail --delay 5s" } },
            ),
        };
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Queues" {
            table.cards #queues {
                caption.hidden { "Queues" }
                thead { tr {
                    th scope="col" { "Queue" }
                    th.num scope="col" title="Not dispatched yet" { "Waiting" }
                    th.num scope="col" title="Fired, wait for a slot or an executor" { "Ready" }
                    th.num scope="col" title="With executors" { "Running" }
                    th.num scope="col" { "Dead" }
                    th.num scope="col" title="Inserted and succeeded per second, over the last one to two minutes" { "In, done /s" }
                    th scope="col" { "By state" }
                    th scope="col" { "Limits" }
                    th scope="col" title="By this engine since it started, and the target" { "Late, p99 of budget" }
                } }
                tbody data-rows { @for queue in &page.items { (row(context, queue)) } (parts::pager(context, page.next_cursor.as_deref(), COLUMNS, page.items.len())) }
            }
        }
    }
}

fn row(context: &Context, queue: &Queue) -> Markup {
    let of = |word: &str| queue.tasks.get(word).copied().unwrap_or(0);
    let running = of("dispatched") + of("running");
    html! {
        tr data-row data-key=(queue.queue) data-queue=(queue.queue) {
            th scope="row" {
                (parts::queue_link(context, &queue.queue))
                @if let Some(pause) = &queue.pause { br; (parts::paused(&pause.by, pause.reason.as_deref())) }
                @if queue.source == Some(Source::Store) { br; (parts::badge("scanned", "")) }
            }
            td.num data-label="Waiting" { (texts::number(queue.waiting)) }
            td.num data-label="Ready" { (texts::number(queue.ready)) }
            td.num data-label="Running" { (texts::number(running)) @if let Some(limit) = queue.concurrency { span.dim { " / " (texts::number(limit)) } } }
            td.num data-label="Dead" { @if of("dead") > 0 { a href=(context.href("/console/dead-letters", &[("queue", &queue.queue)])) { (texts::number(of("dead"))) } } @else { "0" } }
            td.num data-label="In, done /s" { @match queue.rates { Some(rate) => { (texts::rate(rate.inserted)) ", " (texts::rate(rate.succeeded)) }, None => (parts::dash()) } }
            td data-label="By state" { (by_state(queue)) }
            td data-label="Limits" { (limits(queue)) }
            td data-label="Late, p99 of budget" { (late(queue)) }
        }
    }
}

/// The lateness of tasks that this engine has fired, in comparison with the budget, and the number of late tasks.
pub(super) fn late(queue: &Queue) -> Markup {
    let lateness = queue.counted.map(|counts| counts.lateness);
    html! {
        @match lateness.and_then(|lateness| lateness.p99_ms) { Some(ms) => (parts::lateness(Some(ms))), None => (parts::dash()) }
        span.dim { " / " (budget(queue)) }
        @if let Some(over) = lateness.map(|lateness| lateness.over_budget).filter(|over_budget| *over_budget > 0) { " " (parts::badge(&format!("{} over", texts::number(over)), "warn")) }
    }
}

/// 0: none.
pub(super) fn budget_ms(queue: &Queue) -> i64 {
    let unless_set = if queue.source == Some(Source::Store) { SCANNED_BUDGET_MS } else { BUDGET_MS };
    queue.lateness_budget_ms.unwrap_or(unless_set)
}

pub(super) fn budget(queue: &Queue) -> String {
    match budget_ms(queue) {
        0 => "none".to_owned(),
        budget_ms => texts::duration(budget_ms),
    }
}

pub(super) fn by_state(queue: &Queue) -> Markup {
    let bars: Vec<(&str, &str, i64)> = texts::STATES
        .into_iter()
        .map(texts::state)
        .filter_map(|word| Some((word, texts::tone_of_state(word), *queue.tasks.get(word)?)))
        .collect();
    charts::shares(&format!("Tasks of {} by state", queue.queue), &bars)
}

pub(super) fn rate(rate: &Rate) -> String {
    format!(
        "{} per {}, {} at once",
        texts::number(rate.limit),
        texts::duration(rate.period_ms),
        texts::number(rate.burst)
    )
}

fn limits(queue: &Queue) -> Markup {
    let mut said = Vec::new();
    said.extend(queue.concurrency.map(|concurrency| format!("{} at a time", texts::number(concurrency))));
    said.extend(
        queue.key_concurrency.map(|key_concurrency| format!("{} a key", texts::number(key_concurrency))),
    );
    said.extend(queue.rate.as_ref().map(rate));
    said.extend(queue.max_waiting.map(|max_waiting| format!("{} waiting", texts::number(max_waiting))));
    html! { @if said.is_empty() { (parts::dash()) } @else { (said.join(" · ")) } }
}

/// The address of a queue.
pub(super) fn address(context: &Context, queue: &str) -> String {
    context.href(&under("/console/queues", queue), &[])
}
