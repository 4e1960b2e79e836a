//! One queue: what is in it, who holds its slots, what is set for it and who changed that; pause, resume, settings.

mod settings;

pub(super) use settings::{rate_fields, wanted_rate};

use super::queues::{address, budget, by_state};
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
use punctual_protocol::{
    Alert, Mode, Page as Items, ParkedFor, Queue, QueueStats, ScanReport, SettingChange, Source,
    WhileStoreIsAway,
};
use serde_json::{Map, Value, json};

const OPERATE: &str = "operate";
/// The default interval of a scanned queue.
const SCAN_INTERVAL_MS: i64 = 1_000;
const SCAN_CONCURRENCY: u32 = 2;

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/queues/{queue}", show: |context| Box::pin(show(context)), act: None },
        Page {
            path: "/console/queues/{queue}/settings",
            show: |context| Box::pin(settings::settings(context)),
            act: Some(|context, form| Box::pin(settings::set(context, form))),
        },
        Page {
            path: "/console/queues/{queue}/pause",
            show: |context| Box::pin(ask_pause(context)),
            act: Some(|context, form| Box::pin(pause(context, form))),
        },
        Page {
            path: "/console/queues/{queue}/resume",
            show: |context| Box::pin(ask_resume(context)),
            act: Some(|context, _| Box::pin(resume(context))),
        },
        Page {
            path: "/console/queues/{queue}/scan",
            show: |context| Box::pin(ask_scan(context)),
            act: Some(|context, _| Box::pin(scan(context))),
        },
        Page {
            path: "/console/queues/{queue}/reset",
            show: |context| Box::pin(ask_reset(context)),
            act: Some(|context, _| Box::pin(reset(context))),
        },
    ]
}

fn call(context: &Context, rest: &str) -> String {
    format!("/v1/queues/{}{rest}", segment(context.param("queue")))
}

async fn show(context: &Context) -> Result<View, Fault> {
    let name = context.param("queue");
    let queue: Queue = context.api.get(&call(context, "")).await?;
    let alerts = context.api.get_with::<Items<Alert>>("/v1/alerts", &[("queue", name)]).await;
    let hour = context.api.get::<QueueStats>(&call(context, "/stats")).await;
    let changes = context.api.get::<Items<SettingChange>>(&call(context, "/changes?limit=20")).await;
    let view = View::new(
        name,
        "Waiting and running tasks, who holds the slots, the settings, and who changed them.",
    )
    .under("Queues", context.href("/console/queues", &[]))
    .live_actions(actions(context, &queue))
    .live("state", state(context, &queue, alerts.as_ref().map_or(&[], |page| &page.items)))
    .live("curves", curves(context, &hour))
    .live("holders", holders(context, &queue))
    .part(summary(context, &queue));
    Ok(view.part(match &changes {
        Ok(changes) => history(context, changes),
        Err(fault) => parts::missing(fault),
    }))
}

fn actions(context: &Context, queue: &Queue) -> Markup {
    let to = |rest: &str| context.href(&format!("{}/{rest}", under("/console/queues", &queue.queue)), &[]);
    html! {
        @if queue.pause.is_some() { (parts::button(context, OPERATE, &to("resume"), "Resume", "primary")) }
        @else { (parts::button(context, OPERATE, &to("pause"), "Pause", "")) }
        @if queue.source == Some(Source::Store) { (parts::button(context, OPERATE, &to("scan"), "Scan now", "")) }
        a.button href=(to("settings")) { "Settings" }
        a.button href=(context.href("/console/tasks", &[("queue", &queue.queue)])) { "Its tasks" }
    }
}

fn state(context: &Context, queue: &Queue, alerts: &[Alert]) -> Markup {
    let of = |word: &str| queue.tasks.get(word).copied().unwrap_or(0);
    let running = of("dispatched") + of("running");
    let held = queue.slots.as_ref().map(|slots| slots.held);
    html! {
        @if let Some(pause) = &queue.pause {
            div.note.warn #paused { strong { "Paused" } " by " (pause.by) " " (parts::ago(context, pause.at_ms))
                @if let Some(reason) = &pause.reason { ": " (reason) } ". No task starts; running tasks continue." }
        }
        @if queue.source == Some(Source::Store) {
            div.note #scanned { strong { "Scanned" } ": its due tasks are found in the database every "
                (texts::duration(queue.scan_interval_ms.unwrap_or(SCAN_INTERVAL_MS))) ", at most "
                (texts::number(queue.scan_concurrency.unwrap_or(SCAN_CONCURRENCY))) " of them run at a time, and Redis is not needed." }
        }
        @if let Some(webhook) = queue.webhook.as_ref().filter(|_| queue.mode == Some(Mode::Webhook)) {
            div.note #delivered { strong { "Webhook" } ": engines send its tasks to " code { (webhook.url) } "." }
        }
        @if queue.while_store_is_away == Some(WhileStoreIsAway::HandOver) {
            div.note #handed-over-while-away { strong { "Dispatched while its database does not answer" }
                ": executors get what is preloaded, at least once; a cancel may come too late." }
        }
        @for alert in alerts {
            div.note.bad { strong { (super::overview::sentence(&alert.name)) } ": " (alert.text) ". " (alert.what_to_do) " " (parts::ago(context, alert.since_ms)) }
        }
        div.figures {
            (parts::figure("Waiting", &html! { a href=(tasks(context, queue, "scheduled")) { (texts::number(queue.waiting)) } }, &html! { (texts::number(of("scheduled"))) " for their time" }, ""))
            (parts::figure("Ready", &html! { a href=(tasks(context, queue, "ready")) { (texts::number(queue.ready)) } }, &html! { "fired, wait for their turn" }, ""))
            (parts::figure("Running", &html! { a href=(tasks(context, queue, "running")) { (texts::number(running)) } },
                &html! { @match (queue.concurrency, held) { (Some(limit), Some(held)) => { (texts::number(held)) " of " (texts::number(limit)) " slots" }, _ => "no limit" } }, ""))
            (parts::figure("To be retried", &html! { a href=(tasks(context, queue, "retrying")) { (texts::number(of("retrying") + of("dispatch_failed"))) } }, &html! { "have a time for it" }, ""))
            @let lateness = queue.counted.map(|counts| counts.lateness).unwrap_or_default();
            (parts::figure("Late, p99", &parts::lateness(lateness.p99_ms), &html! { "budget " (budget(queue)) " · max " (parts::lateness(lateness.max_ms)) @if lateness.over_budget > 0 { " · " strong { (texts::number(lateness.over_budget)) " over" } } },
                if lateness.over_budget > 0 { "warn" } else { "" }))
            @if let Some(rates) = queue.rates { (parts::figure("In, a second", &html! { span #rate-in { (texts::rate(rates.inserted)) } }, &html! { (texts::rate(rates.fired)) " fired · " (texts::rate(rates.succeeded)) " done · " (texts::rate(rates.retried + rates.dead)) " failed" }, "")) }
            (parts::figure("Succeeded", &html! { (texts::number(of("succeeded"))) }, &html! { "and still kept" }, ""))
            (parts::figure("Dead", &html! { a href=(context.href("/console/dead-letters", &[("queue", &queue.queue)])) { (texts::number(of("dead"))) } }, &html! { "will not run by themselves" }, if of("dead") > 0 { "warn" } else { "" }))
        }
        (by_state(queue))
        @if let Some(counts) = queue.counted {
            p.dim #counted { "This engine, since it started: " (texts::number(counts.inserted)) " inserted, " (texts::number(counts.fired)) " fired, " (texts::number(counts.retried)) " to be retried, " (texts::number(counts.dead)) " dead, " (texts::number(counts.cancelled)) " cancelled." }
        }
    }
}

fn curves(context: &Context, hour: &Result<QueueStats, Fault>) -> Markup {
    match hour {
        Ok(hour) => html! { div.charts { (super::hour::curves(context, &hour.steps, hour.step_ms)) } },
        Err(fault) => parts::missing(fault),
    }
}

fn tasks(context: &Context, queue: &Queue, state: &str) -> String {
    context.href("/console/tasks", &[("queue", &queue.queue), ("state", state)])
}

fn holders(context: &Context, queue: &Queue) -> Markup {
    let slots = queue.slots.as_ref().filter(|slots| slots.held > 0 || !slots.holders.is_empty());
    html! {
        @if slots.is_some() || !queue.parked.is_empty() || !queue.indexing.is_empty() {
            div.columns {
                @if let Some(slots) = slots {
                    section.panel {
                        h2 { "Who holds the slots: " (texts::number(slots.held)) @if let Some(limit) = slots.limit { " of " (texts::number(limit)) } }
                        div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards {
                            caption.hidden { "Holders of slots" }
                            thead { tr { th scope="col" { "Task" } th scope="col" { "Since" } th scope="col" { "Counts for" } } }
                            tbody { @for holder in slots.holders.iter().take(50) { tr data-row {
                                th scope="row" { (parts::task_link(context, &holder.r#ref)) }
                                td data-label="Since" { (parts::ago(context, holder.since_ms)) }
                                td data-label="Counts for" { (holder.scopes.join(", ")) }
                            } } }
                        } }
                        @if slots.held > 50 { p.dim { "The first 50." } }
                    }
                }
                @if !queue.parked.is_empty() {
                    section.panel {
                        h2 { "Blocked until a slot is free" }
                        table {
                            caption.hidden { "Parked tasks" }
                            thead { tr { th scope="col" { "Wait for" } th.num scope="col" { "Tasks" } } }
                            tbody { @for parked in &queue.parked { tr {
                                td { (waits_for(parked.waits_for)) @if let Some(name) = &parked.name { " " code { (name) } } }
                                td.num { (texts::number(parked.tasks)) }
                            } } }
                        }
                    }
                }
                @if !queue.indexing.is_empty() {
                    section.panel {
                        h2 { "Labels that are being indexed" }
                        ul { @for indexing in &queue.indexing { li { code { (indexing.label) } " " (indexing.percent) " %" } } }
                        p.dim { "Until then a search for them is a scan." }
                    }
                }
            }
        }
    }
}

const fn waits_for(parked_for: ParkedFor) -> &'static str {
    match parked_for {
        ParkedFor::Key => "a slot or a start of the key",
        ParkedFor::Retries => "a slot for retries",
        ParkedFor::HandlerVersions => "an executor of version",
        ParkedFor::Kind => "an executor that takes the kind",
    }
}

/// The settings in words.
fn summary(context: &Context, queue: &Queue) -> Markup {
    let set: Vec<(&str, String)> =
        settings::fields(queue).into_iter().filter(|field| !field.1.is_empty()).collect();
    let edit = html! { a.button.small href=(context.href(&format!("{}/settings", under("/console/queues", &queue.queue)), &[])) { "Change" } };
    parts::panel_with(
        "What is set",
        &edit,
        &html! {
            @if set.is_empty() { p.dim { "The defaults: no limit, lateness budget 1 s." } }
            @else { dl.facts { @for (name, value) in set { (parts::fact(settings::label(name), value)) } } }
            @if let (Some(at), Some(by)) = (queue.updated_at_ms, &queue.updated_by) {
                p.dim { "Revision " (queue.revision) ", by " (by) " " (parts::ago(context, at)) }
            }
        },
    )
}

fn history(context: &Context, changes: &Items<SettingChange>) -> Markup {
    parts::panel(
        "Who changed it",
        &html! {
            @if changes.items.is_empty() { p.dim { "No one: the settings were never changed." } }
            @else { div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards {
                caption.hidden { "Changes of settings" }
                thead { tr { th.num scope="col" { "Revision" } th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "Different from before" } } }
                tbody { @for (nth, change) in changes.items.iter().enumerate() {
                    @let before = changes.items.get(nth + 1).and_then(|setting_change| setting_change.settings.as_ref());
                    tr data-row {
                        td.num data-label="Revision" { (change.revision) }
                        td data-label="When" { (parts::time(context, change.changed_at_ms)) }
                        td data-label="Who" { (change.changed_by) }
                        td.wrap data-label="Different from before" { (difference(before, change.settings.as_ref())) }
                    }
                } }
            } } }
            @if changes.next_cursor.is_some() { p.dim { "The last 20. The JSON of this page links to the others." } }
        },
    )
}

/// Field by field.
pub(super) fn difference(before: Option<&Value>, after: Option<&Value>) -> Markup {
    let none = Map::new();
    let of =
        |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_else(|| none.clone());
    let reported = |value: Option<&Value>| -> Map<String, Value> {
        of(value).into_iter().filter_map(|(name, answer)| Some((name, without_nulls(answer)?))).collect()
    };
    let (before, after) = (reported(before), reported(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => parts::short(text, 200),
        Some(other) => parts::short(&other.to_string(), 200),
    };
    let changed: Vec<_> = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
    html! {
        @if changed.is_empty() { span.dim { "the same" } }
        @for (nth, name) in changed.iter().enumerate() {
            @if nth > 0 { br; }
            code { (name) } " " (shown(before.get(*name))) " → " strong { (shown(after.get(*name))) }
        }
    }
}

/// Removes fields that are null.
fn without_nulls(answer: Value) -> Option<Value> {
    match answer {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: Map<String, Value> =
                fields.into_iter().filter_map(|(name, field)| Some((name, without_nulls(field)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other),
    }
}

async fn ask_pause(context: &Context) -> Result<View, Fault> {
    let queue: Queue = context.api.get(&call(context, "")).await?;
    let of = |word: &str| queue.tasks.get(word).copied().unwrap_or(0);
    let running = of("dispatched") + of("running");
    let says = html! {
        p { "No task of " strong { (queue.queue) } " starts any more, from this second on, at any engine." }
        p { strong { (texts::number(queue.waiting)) } " wait now. The " strong { (texts::number(running)) } " that run go on to their end. Inserts are taken as before." }
    };
    let reason = parts::field(
        "reason",
        "Why",
        Some("Shown wherever the pause is."),
        &parts::input("reason", "", "database maintenance"),
        None,
    );
    Ok(asked(context, &format!("Pause {}?", queue.queue), says, reason, "Pause the queue", false)
        .view(context))
}

async fn pause(context: &Context, form: &Form) -> Result<Done, Fault> {
    let mut body = json!({"by": "console"});
    if let (Some(body), Some(reason)) = (body.as_object_mut(), form.get("reason")) {
        body.insert("reason".to_owned(), json!(reason));
    }
    context.api.post(&call(context, "/pause"), &body).await?;
    let name = context.param("queue");
    Ok(Done::to(address(context, name), format!("{name} is paused: nothing of it starts.")))
}

async fn ask_resume(context: &Context) -> Result<View, Fault> {
    let queue: Queue = context.api.get(&call(context, "")).await?;
    let says = html! {
        p { "Tasks of " strong { (queue.queue) } " start again." }
        p { strong { (texts::number(queue.ready)) } " are due already and start as fast as limits and executors let them." }
    };
    Ok(asked(context, &format!("Resume {}?", queue.queue), says, html! {}, "Resume the queue", false)
        .view(context))
}

async fn resume(context: &Context) -> Result<Done, Fault> {
    context.api.post(&call(context, "/resume"), &json!({})).await?;
    let name = context.param("queue");
    Ok(Done::to(address(context, name), format!("{name} is resumed.")))
}

async fn ask_scan(context: &Context) -> Result<View, Fault> {
    let queue: Queue = context.api.get(&call(context, "")).await?;
    let name = &queue.queue;
    let says = html! {
        p { "Due tasks of " strong { (name) } " are looked for in all databases now, and made ready for executors." }
    };
    Ok(asked(context, &format!("Scan {name} now?"), says, html! {}, "Scan the queue", false).view(context))
}

async fn scan(context: &Context) -> Result<Done, Fault> {
    let report: ScanReport =
        context.api.send(Method::POST, &call(context, "/scan"), None, None).await?.read()?;
    let said = format!(
        "{} due tasks found, {} made ready, {} failed.",
        texts::number(report.found),
        texts::number(report.handed_over),
        texts::number(report.failed),
    );
    Ok(Done::to(address(context, context.param("queue")), said))
}

async fn ask_reset(context: &Context) -> Result<View, Fault> {
    let queue: Queue = context.api.get(&call(context, "")).await?;
    let says = html! {
        p { "Everything that is set for " strong { (queue.queue) } " is forgotten, and the defaults hold: no limit of any kind." }
        p { "Its " strong { (texts::number(queue.tasks.values().sum::<i64>())) } " tasks stay. A pause stays. Earlier settings are in the history." }
    };
    Ok(asked(
        context,
        &format!("Forget the settings of {}?", queue.queue),
        says,
        html! {},
        "Forget the settings",
        true,
    )
    .view(context))
}

async fn reset(context: &Context) -> Result<Done, Fault> {
    context.api.send(Method::DELETE, &call(context, ""), None, None).await?;
    let name = context.param("queue");
    Ok(Done::to(address(context, name), format!("The settings of {name} are removed.")))
}

fn asked<'a>(
    context: &Context,
    title: &'a str,
    says: Markup,
    fields: Markup,
    does: &'a str,
    is_dangerous: bool,
) -> Confirm<'a> {
    let back = address(context, context.param("queue"));
    Confirm { title, says, fields, does, permission: OPERATE, is_dangerous, back }
}
