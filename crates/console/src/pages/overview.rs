//! The first page: what needs attention, and the statistics of the cluster. Unreadable values are reported, and never
//! drawn as 0.

use super::{hour, queues::BUDGET_MS};
use crate::{
    charts::{self, Series, Unit},
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{
    Alert, Due, Engine, EngineState, Executor, ExecutorState, Page as Items, Queue, Severity, Shard, Stats,
    StatsStep,
};
use std::time::Duration;

/// The time for which the first byte may wait for the count of tasks that become due.
const DUE_TIMEOUT: Duration = Duration::from_millis(60);

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console", show: |context| Box::pin(overview(context)), act: None },
        Page { path: "/console/find", show: |context| Box::pin(find(context)), act: None },
    ]
}

/// The API's answers, each by itself.
struct OverviewData {
    stats: Result<Stats, Fault>,
    /// `None` if it is not counted yet.
    due: Result<Option<Due>, Fault>,
    alerts: Result<Items<Alert>, Fault>,
    engines: Result<Items<Engine>, Fault>,
    executors: Result<Items<Executor>, Fault>,
    shards: Result<Items<Shard>, Fault>,
    paused: Result<Items<Queue>, Fault>,
}

async fn overview(context: &Context) -> Result<View, Fault> {
    let api = &context.api;
    let (stats, due, alerts, engines, executors, shards, paused) = futures_util::join!(
        api.get("/v1/stats"),
        coming_up(context),
        api.get("/v1/alerts?limit=100"),
        api.get("/v1/engines"),
        api.get("/v1/executors?limit=1000"),
        api.get("/v1/shards"),
        api.get("/v1/queues?paused=true&limit=20"),
    );
    let seen = OverviewData { stats, due, alerts, engines, executors, shards, paused };
    let view = View::new(
        "Overview",
        "What needs attention, and the whole cluster in numbers: now, and over the last hour.",
    );
    let view = view.live("attention", attention(context, &seen)).live("figures", figures(context, &seen));
    Ok(match (&seen.stats, &seen.due) {
        (Ok(stats), due) => view
            .live("charts", curves(context, stats, due.as_ref().ok().and_then(Option::as_ref)))
            .live("standing", summary(context, stats)),
        (Err(fault), _) => view.live("charts", parts::missing(fault)),
    })
}

/// Reads the count of coming tasks. With millions of tasks the count takes seconds: the page does not wait for it,
/// live or not, and shows it in a later rendering.
async fn coming_up(context: &Context) -> Result<Option<Due>, Fault> {
    let asked = context.api.get("/v1/stats/due");
    tokio::time::timeout(DUE_TIMEOUT, asked).await.map_or(Ok(None), |result| result.map(Some))
}

/// One line of what needs attention.
pub(super) struct Need {
    pub(super) is_critical: bool,
    pub(super) what: String,
    pub(super) detail: String,
    pub(super) since_ms: Option<i64>,
    pub(super) address: String,
}

fn attention(context: &Context, seen: &OverviewData) -> Markup {
    let needs = needs(context, seen);
    let asked: [(&str, Option<&Fault>); 5] = [
        ("alerts", seen.alerts.as_ref().err()),
        ("engines", seen.engines.as_ref().err()),
        ("executors", seen.executors.as_ref().err()),
        ("databases", seen.shards.as_ref().err()),
        ("the account of tasks", seen.stats.as_ref().err()),
    ];
    html! {
        section.panel #attention class=(if needs.iter().any(|need| need.is_critical) { "panel critical" } else { "panel" }) {
            h2 { "Needs attention" @if !needs.is_empty() { " " span.badge.bad { (needs.len()) } } }
            @if needs.is_empty() {
                p.calm { span.tick aria-hidden="true" { "✓" } " Nothing. No alert, no unavailable engine or database, no silent executor, no paused queue; every task is accounted for and none fired early." }
            } @else {
                ul.needs { @for need in &needs { li class=(if need.is_critical { "critical" } else { "warning" }) data-row {
                    a href=(need.address) { (need.what) }
                    span.detail { (need.detail) }
                    @if let Some(since) = need.since_ms { (parts::ago(context, since)) }
                } } }
            }
            @for (what, fault) in asked {
                @if let Some(fault) = fault { p.dim { "Not looked at: " (what) ". " (fault.detail()) } }
            }
        }
    }
}

fn needs(context: &Context, seen: &OverviewData) -> Vec<Need> {
    let mut needs = Vec::new();
    promises(context, seen, &mut needs);
    for alert in seen.alerts.iter().flat_map(|page| &page.items) {
        needs.push(of_alert(context, alert));
    }
    if seen.alerts.as_ref().is_ok_and(|page| page.next_cursor.is_some()) {
        needs.push(Need {
            is_critical: false,
            what: "More alerts".to_owned(),
            detail: "these are the gravest hundred".to_owned(),
            since_ms: None,
            address: context.href("/console/lateness", &[]),
        });
    }
    for engine in seen.engines.iter().flat_map(|page| &page.items) {
        let silent = engine.state == EngineState::Silent;
        if silent || !engine.databases_away.is_empty() || !engine.has_hot_set {
            let detail = match (silent, engine.has_hot_set) {
                (true, _) => format!("silent for {}", texts::duration(engine.silent_ms.unwrap_or_default())),
                (false, false) => "does not reach the hot set".to_owned(),
                (false, true) => format!(
                    "does not reach {}",
                    texts::count(engine.databases_away.len() as u64, "database", "databases")
                ),
            };
            let address = context.href("/console/engines", &[]);
            needs.push(Need {
                is_critical: silent,
                what: format!("Engine {}", engine.name),
                detail,
                since_ms: None,
                address,
            });
        }
    }
    for shard in seen.shards.iter().flat_map(|page| &page.items).filter(|shard| !shard.answers) {
        needs.push(Need {
            is_critical: true,
            what: format!("Database {} is unavailable", shard.shard),
            detail: format!("it has {}", texts::count(shard.partitions, "partition", "partitions")),
            since_ms: None,
            address: context.href("/console/engines", &[]),
        });
    }
    let executors = seen.executors.iter().flat_map(|page| &page.items);
    let silent: Vec<&Executor> =
        executors.filter(|executors| executors.state == ExecutorState::Dead).collect();
    if let Some(first) = silent.first() {
        needs.push(Need {
            is_critical: false,
            what: texts::count(silent.len() as u64, "silent executor", "silent executors"),
            detail: format!("{}: what it had runs elsewhere when its leases end", first.name),
            since_ms: Some(first.last_seen_at_ms),
            address: context.href("/console/executors", &[("state", "silent")]),
        });
    }
    for queue in seen.paused.iter().flat_map(|page| &page.items) {
        let Some(pause) = &queue.pause else { continue };
        let reason = pause.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        needs.push(Need {
            is_critical: false,
            what: format!("Queue {} is paused", queue.queue),
            detail: format!("by {}{reason}; {} waiting", pause.by, texts::number(queue.waiting)),
            since_ms: Some(pause.at_ms),
            address: queue_address(context, &queue.queue),
        });
    }
    needs.sort_by_key(|need| !need.is_critical);
    needs
}

fn promises(context: &Context, seen: &OverviewData, needs: &mut Vec<Need>) {
    let Ok(stats) = &seen.stats else { return };
    let address = context.href("/console/lateness", &[]);
    let mut broken = |what: &str, detail: String| {
        needs.push(Need {
            is_critical: true,
            what: what.to_owned(),
            detail,
            since_ms: None,
            address: address.clone(),
        });
    };
    if stats.lateness_hour.early > 0 {
        broken(
            "Tasks fired early",
            format!("{} in the last hour: a promise is broken", texts::number(stats.lateness_hour.early)),
        );
    }
    if let Some(backlog) = stats.backlog.as_ref().filter(|backlog| backlog.unaccounted != 0) {
        broken(
            "Tasks are not accounted for",
            format!("{}: something is broken", texts::number(backlog.unaccounted)),
        );
    }
}

/// The need of an alert, with the page that explains it.
pub(super) fn of_alert(context: &Context, alert: &Alert) -> Need {
    let namespace = alert.namespace.as_deref().unwrap_or(&context.namespace);
    let address = match (&*alert.name, &alert.queue) {
        ("dead_letters", Some(queue)) => {
            context.href_in(namespace, "/console/dead-letters", &[("queue", queue)])
        }
        (_, Some(queue)) => context.href_in(namespace, &crate::layout::under("/console/queues", queue), &[]),
        (
            "engine_lost"
            | "database_away"
            | "service_failing"
            | "panicked"
            | "hot_set_away"
            | "hot_set_of_another_cluster"
            | "durability_weak"
            | "store_went_back",
            None,
        ) => context.href("/console/engines", &[]),
        (_, None) => context.href("/console/lateness", &[]),
    };
    let is_elsewhere = namespace != context.namespace;
    let prefix = if is_elsewhere { format!("{namespace}/") } else { String::new() };
    Need {
        is_critical: alert.severity == Severity::Critical,
        what: alert.queue.as_ref().map_or_else(
            || sentence(&alert.name),
            |queue| format!("{}: {}{queue}", sentence(&alert.name), prefix),
        ),
        detail: with_consequences(alert),
        since_ms: Some(alert.since_ms),
        address,
    }
}

/// The sentence of the alert, and which other alerts it explains.
fn with_consequences(alert: &Alert) -> String {
    let count = alert.consequences.len() as u64;
    if count == 0 {
        return alert.text.clone();
    }
    let mut names: Vec<_> = alert.consequences.iter().map(|one| sentence(&one.name).to_lowercase()).collect();
    names.dedup();
    format!(
        "{}; explains {}: {}",
        alert.text,
        texts::count(count, "other alert", "other alerts"),
        names.join(", ")
    )
}

/// `late_tasks` → `Late tasks`.
pub(super) fn sentence(word: &str) -> String {
    let text = word.replace('_', " ");
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |letter| letter.to_uppercase().chain(chars).collect())
}

pub(super) fn queue_address(context: &Context, queue: &str) -> String {
    context.href(&crate::layout::under("/console/queues", queue), &[])
}

fn figures(context: &Context, seen: &OverviewData) -> Markup {
    html! {
        div.figures {
            @if let Ok(stats) = &seen.stats { (of_stats(context, stats)) }
            @if let Ok(executors) = &seen.executors { (of_executors(context, &executors.items)) }
            @if let Ok(engines) = &seen.engines {
                @let alive = engines.items.iter().filter(|engine| engine.state == EngineState::Alive).count();
                (parts::figure("Engines", &html! { a href=(context.href("/console/engines", &[])) { (alive) } },
                    &html! { @if alive < engines.items.len() { (engines.items.len() - alive) " silent" } @else { "alive" } },
                    if alive < engines.items.len() { "bad" } else { "" }))
            }
            @if let Ok(shards) = &seen.shards { (of_databases(context, &shards.items)) }
        }
    }
}

fn of_stats(context: &Context, stats: &Stats) -> Markup {
    let now = &stats.lateness;
    let tasks = |state: &str| context.href("/console/tasks", &[("state", state)]);
    let spark = |of: fn(&StatsStep) -> u64, label: &str, tone: &'static str| {
        let values = hour::whole(&stats.steps).iter().map(|step| Some(hour::as_float(of(step)))).collect();
        charts::spark(label, tone, values)
    };
    html! {
        (parts::figure("In", &html! { (texts::rate(stats.rates.inserted)) small { "/s" } }, &spark(|step| step.inserted, "inserted in the last hour", "in"), ""))
        (parts::figure("Fired", &html! { (texts::rate(stats.rates.fired)) small { "/s" } }, &spark(|step| step.fired, "fired in the last hour", "fired"), ""))
        (parts::figure("Done", &html! { (texts::rate(stats.rates.succeeded)) small { "/s" } }, &spark(|step| step.succeeded, "succeeded in the last hour", "good"), ""))
        (parts::figure("Late, p99", &html! { a href=(context.href("/console/lateness", &[])) { (parts::lateness(now.p99_ms)) } },
            &html! { "budget " (texts::duration(BUDGET_MS)) " · p50 " (parts::lateness(now.p50_ms)) " · max " (parts::lateness(now.max_ms))
                @if now.over_budget > 0 { " · " strong { (texts::number(now.over_budget)) " over budget" } } },
            if now.over_budget > 0 { "warn" } else { "" }))
        @if let Some(backlog) = &stats.backlog {
            @let of = |state: &str| backlog.states.get(state).copied().unwrap_or(0);
            (parts::figure("Waiting", &html! { a href=(tasks("scheduled")) { (texts::number(of("scheduled") + of("blocked"))) } },
                &html! { (texts::number(of("ready") + of("dispatching"))) " due · " (texts::number(of("retrying") + of("dispatch_failed"))) " to be retried" }, ""))
            (parts::figure("In flight", &html! { a href=(tasks("running")) { (texts::number(of("dispatched") + of("running"))) } }, &html! { "with executors" }, ""))
            (parts::figure("Dead", &html! { a href=(context.href("/console/dead-letters", &[])) { (texts::number(of("dead"))) } },
                &html! { (texts::number(stats.steps.iter().map(|step| step.dead).sum::<u64>())) " in the last hour" },
                if of("dead") > 0 { "warn" } else { "" }))
        }
    }
}

fn of_executors(context: &Context, all: &[Executor]) -> Markup {
    let alive = all.iter().filter(|executor| executor.state != ExecutorState::Dead).count();
    let running: u64 = all.iter().filter_map(|executor| executor.running).sum();
    let capacity: u64 = all
        .iter()
        .filter(|executor| executor.state == ExecutorState::Alive)
        .filter_map(|executor| executor.capacity)
        .map(u64::from)
        .sum();
    parts::figure(
        "Executors",
        &html! { a href=(context.href("/console/executors", &[])) { (alive) @if all.len() >= 1_000 { "+" } } },
        &html! { (texts::number(running)) @if capacity > 0 { " of " (texts::number(capacity)) } " busy" },
        if alive < all.len() || all.is_empty() { "warn" } else { "" },
    )
}

fn of_databases(context: &Context, all: &[Shard]) -> Markup {
    let answering = all.iter().filter(|shard| shard.answers).count();
    // One that does not count its rows knows its size.
    let sum = |of: fn(&Shard) -> Option<i64>| all.iter().filter_map(of).reduce(i64::saturating_add);
    let size = match (sum(|shard| shard.rows_estimated), sum(|shard| shard.bytes)) {
        (Some(rows), _) => format!("about {} rows", texts::number(rows)),
        (None, Some(bytes)) => texts::bytes(bytes),
        (None, None) => "size not known".to_owned(),
    };
    parts::figure(
        if all.len() == 1 { "Database" } else { "Databases" },
        &html! { a href=(context.href("/console/engines", &[])) { (answering) @if answering < all.len() { " of " (all.len()) } } },
        &html! { @if answering < all.len() { (all.len() - answering) " away" } @else { (size) } },
        if answering < all.len() { "bad" } else { "" },
    )
}

fn curves(context: &Context, stats: &Stats, due: Option<&Due>) -> Markup {
    html! {
        div.charts {
            (hour::curves(context, &stats.steps, stats.step_ms))
            @if let Some(due) = due { (coming(context, due)) }
        }
    }
}

fn coming(context: &Context, due: &Due) -> Markup {
    let at: Vec<i64> = due.steps.iter().map(|step| step.at_ms).collect();
    let values = due.steps.iter().map(|step| step.tasks.map(hour::as_float)).collect();
    let title = if due.is_estimate {
        "Falls due in the next hour, per minute (estimated)"
    } else {
        "Falls due in the next hour, per minute"
    };
    charts::lines(context, "due", title, &at, Unit::Count, &[Series { label: "due", tone: "in", values }])
}

fn summary(context: &Context, stats: &Stats) -> Markup {
    let Some(backlog) = &stats.backlog else {
        return html! { div.note { "The counts cannot be read now: a database does not answer." } };
    };
    let of = |word: &str| backlog.states.get(word).copied().unwrap_or(0);
    let words: Vec<&str> = texts::STATES.into_iter().map(texts::state).filter(|word| of(word) > 0).collect();
    let bars: Vec<(&str, &str, i64)> =
        words.iter().map(|word| (*word, texts::tone_of_state(word), of(word))).collect();
    parts::panel(
        "Every task, by state",
        &html! {
            (charts::shares("Tasks by state", &bars))
            ul.states { @for word in &words {
                li { a href=(context.href("/console/tasks", &[("state", word)])) { (parts::badge(&word.replace('_', " "), texts::tone_of_state(word))) " " (texts::number(of(word))) } }
            } }
            dl.facts.row {
                (parts::fact("Accepted ever", texts::number(backlog.accepted)))
                (parts::fact("Forgotten since", texts::number(backlog.deleted)))
                (parts::fact("Unaccounted", html! { span class=(if backlog.unaccounted == 0 { "promise kept" } else { "promise broken" }) { (texts::number(backlog.unaccounted)) } }))
                (parts::fact("Fired early, last hour", html! { span class=(if stats.lateness_hour.early == 0 { "promise kept" } else { "promise broken" }) { (texts::number(stats.lateness_hour.early)) } }))
                (parts::fact("Payloads that wait", texts::bytes(backlog.pending_bytes)))
            }
        },
    )
}

/// Finds everything with the name that was typed into the field of the header.
async fn find(context: &Context) -> Result<View, Fault> {
    let wanted = context.query("q").unwrap_or_default().trim().to_owned();
    let mut view = View::new(
        "Find",
        "Searches this namespace for a task (by ref, id or key), a queue, an executor and a workflow.",
    );
    if wanted.is_empty() {
        return Ok(view.part(parts::empty(
            "Nothing to look for.",
            &html! { "Type a ref, a task id, a key or the name of a queue into the field above." },
        )));
    }
    let name = crate::api::segment(&wanted);
    let mut found: Vec<(&str, String, String)> = Vec::new();
    let things = [
        ("Task", "/v1/tasks/", "/console/tasks/"),
        ("Executor", "/v1/executors/", "/console/executors/"),
        ("Workflow", "/v1/workflows/", "/console/workflows/"),
    ];
    for (what, call, page) in things {
        if context.api.get::<serde_json::Value>(&format!("{call}{name}")).await.is_ok() {
            found.push((what, wanted.clone(), context.href(&format!("{page}{name}"), &[])));
            if what == "Task" {
                // It is a ref: only an engine makes these, and nothing else is named so.
                break;
            }
        }
    }
    // From a list, which may be a little old: one that is asked for by its name, and is not there, is counted anew in all queues.
    let is_a_ref = found.iter().any(|row| row.0 == "Task");
    let query = [("prefix", &*wanted), ("limit", "1")];
    let alike = match is_a_ref {
        true => None,
        false => context.api.get_with::<Items<Queue>>("/v1/queues", &query).await.ok(),
    };
    if alike.is_some_and(|page| page.items.first().is_some_and(|queue| queue.queue == wanted)) {
        found.push(("Queue", wanted.clone(), queue_address(context, &wanted)));
    }
    for key in ["task_id", "key"] {
        let is_number = wanted.parse::<i64>().is_ok();
        let query = [(key, wanted.as_str()), ("limit", "1")];
        let page = if key == "task_id" && !is_number {
            None
        } else {
            context.api.get_with::<Items<serde_json::Value>>("/v1/tasks", &query).await.ok()
        };
        if page.is_some_and(|page| !page.items.is_empty()) {
            let what = if key == "key" { "Tasks with the key" } else { "Tasks with the id" };
            found.push((what, wanted.clone(), context.href("/console/tasks", &[(key, &wanted)])));
        }
    }
    view = view.part(match found.is_empty() {
        true => parts::empty(
            &format!("There is no {} here.", parts::short(&wanted, 100)),
            &html! { "It may be in another namespace, or deleted. " a href=(context.href("/console/tasks", &[])) { "Search tasks by queue, state, kind or label" } "." },
        ),
        false => html! { ul.found { @for (what, name, address) in found { li data-row { span.dim { (what) } " " a href=(address) { (name) } } } } },
    });
    Ok(view)
}
