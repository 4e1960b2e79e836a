//! Alerts, and the lateness of tasks in comparison with its budget. Missing measurements are left empty. The API has
//! the lateness of the complete cluster over the last hour; of a queue, the observations of the engine that answers
//! since its start.

use super::{
    hour::{as_float, late, whole},
    overview::{of_alert, queue_address, sentence},
    queues::{budget, budget_ms},
};
use crate::{
    charts::{self, Series, Unit},
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Alert, Lateness, Page as Items, Queue, Severity, Stats};

/// The number of queues that the page reads, and of rows that it shows.
const LOOKED_AT: &str = "200";
const ROWS: usize = 50;

pub(super) fn pages() -> Vec<Page> {
    vec![Page { path: "/console/lateness", show: |context| Box::pin(show(context)), act: None }]
}

async fn show(context: &Context) -> Result<View, Fault> {
    let alerts: Result<Items<Alert>, Fault> = context.api.get("/v1/alerts").await;
    let stats: Result<Stats, Fault> = context.api.get("/v1/stats").await;
    let queues: Result<Items<Queue>, Fault> = context.api.get(&format!("/v1/queues?limit={LOOKED_AT}")).await;
    let view = View::new("Alerts and lateness", "Alerts and how to resolve them; and how late tasks fired in the last hour, compared with the target.")
        .live("alerts", match &alerts {
            Ok(alerts) => alert_list(context, &alerts.items),
            Err(fault) => parts::missing(fault),
        });
    let view = match &stats {
        Ok(stats) => view
            .live("promises", promises(stats))
            .live("heat", heat(context, stats))
            .live("curves", curves(context, stats)),
        Err(fault) => view.live("promises", parts::missing(fault)),
    };
    Ok(view.live(
        "queues",
        match &queues {
            Ok(queues) => by_queue(context, queues),
            Err(fault) => parts::missing(fault),
        },
    ))
}

fn alert_list(context: &Context, alerts: &[Alert]) -> Markup {
    parts::panel(
        "Alerts",
        &html! {
            @if alerts.is_empty() { p.calm { span.tick aria-hidden="true" { "✓" } " None is active. Conditions are in the documentation of " code { "GET /v1/alerts" } "." } }
            @else { ul.needs #alerts { @for each_alert in alerts {
                @let need = of_alert(context, each_alert);
                li class=(if each_alert.severity == Severity::Critical { "critical" } else { "warning" }) data-row data-alert=(each_alert.name) {
                    a href=(need.address) { (need.what) }
                    span.detail {
                        (each_alert.text) br; span.dim { (each_alert.what_to_do) }
                        @if !each_alert.consequences.is_empty() {
                            details { summary { "Explains " (texts::count(each_alert.consequences.len() as u64, "other alert", "other alerts")) }
                                ul { @for one in &each_alert.consequences { li { (sentence(&one.name)) ": " (one.text) } } } }
                        }
                    }
                    (parts::ago(context, each_alert.since_ms))
                }
            } } }
        },
    )
}

fn promises(stats: &Stats) -> Markup {
    let hour = &stats.lateness_hour;
    let unaccounted = stats.backlog.as_ref().map(|backlog| backlog.unaccounted);
    let tone = |is_kept: bool| if is_kept { "promise kept" } else { "promise broken" };
    html! {
        div.figures #promises {
            (parts::figure("Fired early, last hour", &html! { span class=(tone(hour.early == 0)) #early { (texts::number(hour.early)) } }, &html! { "promised: 0, always" }, ""))
            (parts::figure("Not accounted for", &html! { @match unaccounted { Some(number) => span class=(tone(number == 0)) #unaccounted { (texts::number(number)) }, None => (parts::dash()) } },
                &html! { @if unaccounted.is_some() { "promised: 0, always" } @else { "the account cannot be read now" } }, ""))
            (parts::figure("Over their budget, last hour", &html! { (texts::number(hour.over_budget)) }, &html! { "of queues; 1 s unless set" }, if hour.over_budget > 0 { "warn" } else { "" }))
            (quantile("p50", hour.p50_ms, stats.lateness.p50_ms))
            (quantile("p99", hour.p99_ms, stats.lateness.p99_ms))
            (quantile("p99.9", hour.p999_ms, stats.lateness.p999_ms))
            (quantile("max", hour.max_ms, stats.lateness.max_ms))
        }
    }
}

fn quantile(label: &str, hour: Option<i64>, now: Option<i64>) -> Markup {
    parts::figure(
        &format!("Late, {label}"),
        &parts::lateness(hour),
        &html! { "last minutes: " (parts::lateness(now)) },
        "",
    )
}

/// Each against its budget, the worst first.
fn by_queue(context: &Context, page: &Items<Queue>) -> Markup {
    let mut all: Vec<(&Queue, Lateness)> = page
        .items
        .iter()
        .filter_map(|queue| Some((queue, queue.counted.filter(|counts| counts.fired > 0)?.lateness)))
        .collect();
    let allowed = budget_ms;
    all.sort_by_key(|(queue, lateness)| {
        std::cmp::Reverse((
            lateness.over_budget,
            lateness.p99_ms.unwrap_or(0) * 1_000 / allowed(queue).max(1),
        ))
    });
    parts::panel(
        "Per queue, against its budget",
        &html! {
            @if all.is_empty() { p.dim { "This engine has fired no task of this namespace since it started." } }
            @else { div.scroll tabindex="0" role="region" aria-label="Queues" { table.cards #by-queue {
                caption.hidden { "Lateness by queue" }
                thead { tr { th scope="col" { "Queue" } th.num scope="col" { "Fired" } th.num scope="col" { "p50" } th.num scope="col" { "p99" } th.num scope="col" { "max" } th.num scope="col" { "Budget" } th scope="col" { "p99 of the budget" } th.num scope="col" { "Over it" } } }
                tbody { @for (queue, lateness) in all.iter().take(ROWS) { tr data-row data-key=(queue.queue) {
                    th scope="row" { a href=(queue_address(context, &queue.queue)) { (queue.queue) } }
                    td.num data-label="Fired" { (texts::number(queue.counted.map_or(0, |counts| counts.fired))) }
                    td.num data-label="p50" { (parts::lateness(lateness.p50_ms)) }
                    td.num data-label="p99" { (parts::lateness(lateness.p99_ms)) }
                    td.num data-label="max" { (parts::lateness(lateness.max_ms)) }
                    td.num data-label="Budget" { (budget(queue)) }
                    td data-label="p99 of the budget" { @if allowed(queue) > 0 { (parts::meter(lateness.p99_ms.unwrap_or(0).unsigned_abs(), allowed(queue).unsigned_abs())) } @else { (parts::dash()) } }
                    td.num data-label="Over it" { @if lateness.over_budget > 0 { (parts::badge(&texts::number(lateness.over_budget), "warn")) } @else { "0" } }
                } } }
            } } }
            p.dim { "By the engine that served this page, since it started."
                @if all.len() > ROWS { " The " (ROWS) " worst." }
                @if page.next_cursor.is_some() { " Of the first " (LOOKED_AT) " queues by name." } }
        },
    )
}

/// Upper bounds of the classes, milliseconds.
const CLASSES: [(i64, &str); 4] = [(5, "h1"), (50, "h2"), (1_000, "h3"), (i64::MAX, "h4")];

fn class(ms: Option<i64>) -> &'static str {
    ms.map_or("h0", |ms| CLASSES.iter().find(|class| ms <= class.0).map_or("h4", |class| class.1))
}

/// Minutes from left to right, the worst on top.
fn heat(context: &Context, stats: &Stats) -> Markup {
    const LEFT: usize = 44;
    const WIDTH: usize = 19;
    const HEIGHT: usize = 20;
    type Of = fn(&Lateness) -> Option<i64>;
    let rows: [(&str, Of); 4] = [
        ("max", |lateness| lateness.max_ms),
        ("p99.9", |lateness| lateness.p999_ms),
        ("p99", |lateness| lateness.p99_ms),
        ("p50", |lateness| lateness.p50_ms),
    ];
    let steps = whole(&stats.steps);
    let width = LEFT + steps.len() * WIDTH;
    parts::panel(
        "Lateness, minute by minute",
        &html! {
            div.scroll tabindex="0" role="group" aria-label="Heat map, scrolls" data-scrolls {
            svg.heat viewBox={ "0 0 " (width.max(LEFT + 60)) " " (HEIGHT * 4 + 18) } role="img" aria-label="Lateness by minute; the same numbers are in the table of the curves" {
                @for (nth, (label, of)) in rows.iter().enumerate() {
                    text x=(LEFT - 6) y=(nth * HEIGHT + 14) text-anchor="end" { (label) }
                    @for (at, step) in steps.iter().enumerate() {
                        rect class={ (class(of(&step.lateness))) @if step.lateness.over_budget > 0 && nth == 0 { " over" } } x=(LEFT + at * WIDTH) y=(nth * HEIGHT) width=(WIDTH - 1) height=(HEIGHT - 2) {
                            title { (context.zone.minute(step.at_ms)) " " (label) ": " @match of(&step.lateness) { Some(ms) => (texts::duration(ms)), None => "nothing fired" }
                                @if step.lateness.over_budget > 0 { "; " (texts::number(step.lateness.over_budget)) " over their budget" } }
                        }
                    }
                }
                @for (at, step) in steps.iter().enumerate().filter(|entry| entry.0 % 10 == 0) {
                    text x=(LEFT + at * WIDTH) y=(HEIGHT * 4 + 13) { (context.zone.minute(step.at_ms)) }
                }
            }
            }
            ul.states {
                li { svg.swatch.heat viewBox="0 0 12 12" aria-hidden="true" { rect.h0 width="12" height="12" {} } " nothing fired" }
                @for ((_, class), label) in CLASSES.iter().zip(["up to 5 ms", "up to 50 ms", "up to 1 s", "later"]) {
                    li { svg.swatch.heat viewBox="0 0 12 12" aria-hidden="true" { rect class=(class) width="12" height="12" {} } " " (label) }
                }
                li.dim { "framed: some were over the budget of their queue" }
            }
        },
    )
}

fn curves(context: &Context, stats: &Stats) -> Markup {
    let at: Vec<i64> = whole(&stats.steps).iter().map(|step| step.at_ms).collect();
    let over = whole(&stats.steps).iter().map(|step| Some(as_float(step.lateness.over_budget))).collect();
    html! {
        div.charts {
            (charts::lines(context, "late", "Lateness", &at, Unit::Millis, &[
                late(&stats.steps, "p50", "in", |step| step.lateness.p50_ms),
                late(&stats.steps, "p99", "fired", |step| step.lateness.p99_ms),
                late(&stats.steps, "p99.9", "warn", |step| step.lateness.p999_ms),
                late(&stats.steps, "max", "bad", |step| step.lateness.max_ms),
            ]))
            (charts::lines(context, "over", "Over their budget, per minute", &at, Unit::Count, &[Series { label: "over budget", tone: "warn", values: over }]))
        }
        p.dim { "Each number is the upper bound of its histogram bucket, over all engines." }
    }
}
