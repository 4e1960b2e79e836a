//! The machines: engines and what they own, databases and their fill level, their events. Estimates are marked as
//! such, and an unavailable server is shown as unavailable.

use crate::{
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Engine, EngineState, Event, HotSet, Ledger, Page as Items, Partition, Shard, Stats};
use std::collections::BTreeMap;

const DAY_MS: i64 = 86_400_000;

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/engines", show: |context| Box::pin(show(context)), act: None },
        Page { path: "/console/events", show: |context| Box::pin(events(context)), act: None },
    ]
}

async fn show(context: &Context) -> Result<View, Fault> {
    let api = &context.api;
    // To the minute, so that the call is the same for a while.
    let since = (context.now_ms - DAY_MS) / 60_000 * 60_000;
    let of_the_day = |kind: &str| format!("/v1/events?limit=20&since={since}{kind}");
    let (any, taken, moved) =
        (of_the_day(""), of_the_day("&event=partitions_taken_over"), of_the_day("&event=partition_moved"));
    let (engines, shards, partitions, stats, happened, taken, moved) = futures_util::join!(
        api.get::<Items<Engine>>("/v1/engines"),
        api.get::<Items<Shard>>("/v1/shards"),
        api.get::<Items<Partition>>("/v1/partitions?limit=1000"),
        api.get::<Stats>("/v1/stats"),
        api.get::<Items<Event>>(&any),
        api.get::<Items<Event>>(&taken),
        api.get::<Items<Event>>(&moved),
    );
    let view = View::new(
        "Engines and shards",
        "Engines that are alive and what each owns, how full the databases are, and the events of the last day.",
    );
    let shown = |result: &Result<Markup, &Fault>| match result {
        Ok(markup) => markup.clone(),
        Err(fault) => parts::missing(fault),
    };
    let of_engines = engines.as_ref().map(|page| engine_table(context, &page.items));
    let ledgers = match &shards {
        Ok(page) => ledgers(context, &page.items).await,
        Err(_) => Vec::new(),
    };
    let of_shards = shards.as_ref().map(|page| shard_table(context, &page.items, &ledgers));
    let of_hot = stats.as_ref().map(|stats| hot_set(stats.hot_set));
    let of_partitions = partitions.as_ref().map(|page| ownership(context, page));
    let of_owners = taken.as_ref().and_then(|taken| Ok(changes_of_owners(context, taken, moved.as_ref()?)));
    let of_events = happened.as_ref().map(|page| event_list(context, page, true));
    Ok(view
        .live("engines", shown(&of_engines))
        .live("shards", shown(&of_shards))
        .live("hot", shown(&of_hot))
        .live("partitions", shown(&of_partitions))
        .live("owners", shown(&of_owners))
        .live("events", shown(&of_events)))
}

fn engine_table(context: &Context, engines: &[Engine]) -> Markup {
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Engines" { table.cards #engines {
            caption.hidden { "Engines" }
            thead { tr {
                th scope="col" { "Engine" } th scope="col" { "State" } th.num scope="col" { "Partitions" }
                th.num scope="col" { "In /s" } th.num scope="col" { "Fired /s" } th.num scope="col" { "Done /s" }
                th scope="col" { "Reaches" } th scope="col" { "Version" } th scope="col" { "Started" }
            } }
            tbody { @for each_engine in engines { tr data-row data-engine=(each_engine.name) {
                th scope="row" { (each_engine.name) @if each_engine.is_this { " " span.badge.off title="It answered this page" { "this one" } } @if each_engine.leads { " " span.badge.off title="It is the leader: it does the work that one engine does for all" { "leads" } } }
                td data-label="State" { @match each_engine.state { EngineState::Alive => (parts::badge("alive", "good")), EngineState::Silent => { (parts::badge("silent", "bad")) " for " (texts::duration(each_engine.silent_ms.unwrap_or_default())) } } }
                td.num data-label="Partitions" { (texts::number(each_engine.partitions)) }
                td.num data-label="In /s" { @match each_engine.rates { Some(rate) => (texts::rate(rate.inserted)), None => (parts::dash()) } }
                td.num data-label="Fired /s" { @match each_engine.rates { Some(rate) => (texts::rate(rate.fired)), None => (parts::dash()) } }
                td.num data-label="Done /s" { @match each_engine.rates { Some(rate) => (texts::rate(rate.succeeded)), None => (parts::dash()) } }
                td data-label="Reaches" { (reaches(each_engine)) }
                td data-label="Version" { (parts::text_or_dash(each_engine.version.as_deref())) }
                td data-label="Started" { @match each_engine.started_at_ms { Some(at) => (parts::ago(context, at)), None => (parts::dash()) } }
            } } }
        } }
    }
}

fn reaches(engine: &Engine) -> Markup {
    html! {
        @if engine.has_hot_set && engine.databases_away.is_empty() { span.dim { "all" } }
        @if !engine.has_hot_set { (parts::badge("not the hot set", "bad")) " " }
        @for database in &engine.databases_away { (parts::badge(&format!("not database {database}"), "bad")) " " }
    }
}

fn shard_table(context: &Context, shards: &[Shard], ledgers: &[Ledger]) -> Markup {
    parts::panel(
        "Databases",
        &html! {
            div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards #shards {
                caption.hidden { "Databases" }
                thead { tr {
                    th.num scope="col" { "Shard" } th scope="col" { "Database" } th scope="col" { "State" } th.num scope="col" { "Partitions" }
                    th.num scope="col" { "Rows, about" } th scope="col" { "Size, about" } th.num scope="col" { "Buckets" }
                    th.num scope="col" title="Archive runs" { "Archived" } th scope="col" title="Every row against the account" { "Counted" }
                    th.num scope="col" title="Tasks that are lost, doubled or elsewhere" { "Unaccounted" }
                } }
                tbody { @for each_shard in shards { tr data-row data-shard=(each_shard.shard) {
                    th.num scope="row" { (each_shard.shard) }
                    td data-label="Database" { (parts::text_or_dash(each_shard.database.as_deref())) }
                    td data-label="State" {
                        @if each_shard.answers { (parts::badge("answers", "good")) } @else { (parts::badge("away", "bad")) }
                        @if !each_shard.away_from.is_empty() { " not reached by " (each_shard.away_from.join(", ")) }
                    }
                    td.num data-label="Partitions" { (texts::number(each_shard.partitions)) }
                    td.num data-label="Rows, about" { (parts::number_or_dash(each_shard.rows_estimated)) }
                    td data-label="Size, about" { @match each_shard.bytes { Some(bytes) => (texts::bytes(bytes)), None => (parts::dash()) } }
                    td.num data-label="Buckets" { @match each_shard.buckets { Some(buckets) => (texts::number(buckets)), None => span.dim title="Its time axis is not cut" { "not cut" } } }
                    td.num data-label="Archived" { @match each_shard.archives_published { Some(times) => (texts::count(times.max(0).unsigned_abs(), "time", "times")), None => span.dim title="Nothing of it is in archives" { "never" } } }
                    td data-label="Counted" { @match each_shard.checked_at_ms { Some(at) => (parts::ago(context, at)), None => span.dim title="Its rows were not counted yet" { "not yet" } } }
                    td.num data-label="Unaccounted" { @match each_shard.unaccounted { Some(0) => (texts::number(0)), Some(tasks) => (parts::badge(&texts::number(tasks), "bad")), None => (parts::dash()) } }
                } } }
            } }
            @for ledger in ledgers { (findings(ledger)) }
            @for shard in shards.iter().filter(|shard| !shard.time_axis.is_empty()) { (axis(context, shard)) }
            p.dim { "Sizes are the database server's estimates, at most 15 s old." }
        },
    )
}

/// The tasks and queues that the last count names.
fn findings(ledger: &Ledger) -> Markup {
    const SHOWN: usize = 20;
    html! {
        h3 { "Unaccounted in shard " (ledger.shard) }
        ul data-ledger=(ledger.shard) {
            @for finding in ledger.findings.iter().take(SHOWN) { li { (finding.text) } }
            @if ledger.findings.len() > SHOWN { li { "and " ((ledger.findings.len() - SHOWN)) " more" } }
        }
    }
}

/// The ledgers of databases that do not balance.
async fn ledgers(context: &Context, shards: &[Shard]) -> Vec<Ledger> {
    let mut ledgers = Vec::new();
    for shard in shards.iter().filter(|shard| shard.unaccounted.is_some_and(|tasks| tasks != 0)) {
        ledgers.extend(context.api.get::<Ledger>(&format!("/v1/shards/{}/ledger", shard.shard)).await.ok());
    }
    ledgers
}

/// The tasks that are due soon and those that wait for executors.
fn hot_set(hot_set: Option<HotSet>) -> Markup {
    let of =
        |name, count: u64, title| html! { div title=(title) { dt { (name) } dd { (texts::number(count)) } } };
    parts::panel(
        "Hot set",
        &html! {
            @match hot_set {
                None => p.note.bad #hot-set { "It does not answer. Tasks fire from the databases until it does, some of them late." },
                Some(hot_set) => {
                    dl.facts #hot-set {
                        (of("Due soon", hot_set.due, "Their time has not come"))
                        (of("Firing", hot_set.firing, "An engine is about to fire them"))
                        (of("Ready", hot_set.ready, "They wait for an executor"))
                        (of("Parked", hot_set.parked, "They wait because their queue is paused"))
                        div title="Of what it may have" { dt { "Memory" } dd { @let percent = hot_set.fullness * 100.0; (format!("{percent:.1}")) " %" } }
                    }
                    @if hot_set.fullness >= 0.8 { p.note.warn { "It is nearly full. Only tasks due within 30 s are loaded; the others wait in the databases." } }
                }
            }
        },
    )
}

/// Partitions that changed their engine or their database.
fn changes_of_owners(context: &Context, taken: &Items<Event>, moved: &Items<Event>) -> Markup {
    let mut all: Vec<&Event> = taken.items.iter().chain(&moved.items).collect();
    all.sort_by_key(|event| std::cmp::Reverse(event.at_ms));
    let is_cut = taken.next_cursor.is_some() || moved.next_cursor.is_some();
    parts::panel(
        "Changes of ownership in the last day",
        &html! {
            @if all.is_empty() { p.dim #owner-changes { "None." } }
            @else { ul #owner-changes {
                @for each_event in &all { li data-event=(each_event.event) { (parts::time(context, each_event.at_ms)) " " (each_event.text) } }
            } }
            @if is_cut { p { a href=(context.href("/console/events", &[("event", "partitions_taken_over")])) { "All takeovers" } " " a href=(context.href("/console/events", &[("event", "partition_moved")])) { "All moves" } } }
        },
    )
}

/// The buckets of a database from the past to the future; as high as they have rows, on a scale on which ten times as many are one step.
fn axis(context: &Context, shard: &Shard) -> Markup {
    const WIDTH: usize = 18;
    const HEIGHT: usize = 56;
    const STEPS: usize = 8;
    let buckets = &shard.time_axis;
    let now = buckets.iter().position(|bucket| bucket.until_ms.is_none_or(|at| at > context.now_ms));
    let day = |ms: Option<i64>| {
        let date =
            ms.map(|ms| context.zone.date(ms).map_or_else(|| texts::rfc3339(ms), |date| date.to_string()));
        date.unwrap_or_else(|| "the end of time".to_owned())
    };
    let tall = |rows: i64| {
        usize::try_from(rows.max(0))
            .unwrap_or(0)
            .checked_ilog10()
            .map_or(1, |rows| 6 + (usize::try_from(rows).unwrap_or(0) + 1) * (HEIGHT - 6) / STEPS)
    };
    html! {
        h3 { "Time axis of " @match &shard.database { Some(name) => (name), None => { "shard " (shard.shard) } } }
        div.scroll tabindex="0" role="group" aria-label="Buckets, scrolls" data-scrolls {
            svg.heat.axis viewBox={ "0 0 " (buckets.len() * WIDTH) " " (HEIGHT + 16) } width=(buckets.len() * WIDTH) height=(HEIGHT + 16) role="img" aria-label={ (buckets.len()) " buckets in order of time" } {
                @for (nth, bucket) in buckets.iter().enumerate() {
                    @let height = tall(bucket.rows_estimated).min(HEIGHT);
                    @let tone = match now { Some(now) if nth < now => "fill-off", Some(now) if nth == now => "fill-due", _ => "fill-run" };
                    rect class=(tone) x=(nth * WIDTH) y=(HEIGHT - height) width=(WIDTH - 2) height=(height) {
                        title { "due before " (day(bucket.until_ms)) ": about " (texts::count(bucket.rows_estimated.max(0).unsigned_abs(), "row", "rows")) }
                    }
                }
                @if let Some(now) = now { text x=(now * WIDTH) y=(HEIGHT + 13) { "now" } }
            }
        }
        p.dim { "Each bar is a bucket: what is due up to " (day(buckets.first().and_then(|bucket| bucket.until_ms))) " on the left, without an end on the right. Ten times as many rows are one step higher." }
    }
}

/// Numbers of the partitions, with the terms of their owners.
fn terms(all: &[Partition]) -> Markup {
    html! {
        details #terms {
            summary { "As a table, with terms" }
            div.scroll tabindex="0" role="region" aria-label="Partitions" { table.cards {
                caption.hidden { "Partitions" }
                thead { tr { th.num scope="col" { "Partition" } th.num scope="col" { "Database" } th scope="col" { "Owner" } th.num scope="col" title="Grows with every change of the owner" { "Term" } } }
                tbody { @for partition in all { tr {
                    th.num scope="row" { (partition.partition) }
                    td.num data-label="Database" { (partition.database) }
                    td data-label="Owner" { (parts::text_or_dash(partition.engine.as_deref())) }
                    td.num data-label="Term" { (partition.term) }
                } } }
            } }
        }
    }
}

/// A square for each partition, in the colour of its owner.
fn ownership(context: &Context, page: &Items<Partition>) -> Markup {
    const TONES: [&str; 6] = ["run", "due", "good", "warn", "off", "wait"];
    let all = &page.items;
    let mut owners: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for text in all.iter().filter_map(|partition| partition.engine.as_deref()) {
        let nth = owners.len();
        owners.entry(text).or_insert((nth, 0)).1 += 1;
    }
    let tone = |partition: &Partition| match &partition.engine {
        None => "bad",
        Some(engine) => owners
            .get(engine.as_str())
            .and_then(|owner| TONES.get(owner.0 % TONES.len()))
            .copied()
            .unwrap_or("off"),
    };
    let moving: Vec<&Partition> = all.iter().filter(|partition| partition.moving_to.is_some()).collect();
    let overdue: Vec<&Partition> =
        all.iter().filter(|partition| partition.overdue_since_ms.is_some()).collect();
    let free = all.iter().filter(|partition| partition.engine.is_none()).count();
    let (columns, size) = (64, 14);
    let rows = all.len().div_ceil(columns).max(1);
    parts::panel(
        "Partitions and their owners",
        &html! {
            svg.heat #owners viewBox={ "0 0 " (columns * size) " " (rows * size) } role="img" aria-label="Partitions by owner" {
                @for (nth, partition) in all.iter().enumerate() {
                    rect class={ "fill-" (tone(partition)) @if partition.overdue_since_ms.is_some() { " over" } } x=((nth % columns) * size) y=((nth / columns) * size) width=(size - 2) height=(size - 2) {
                        title { "partition " (partition.partition) ", database " (partition.database) ": " (partition.engine.as_deref().unwrap_or("nobody")) ", term " (partition.term) @if partition.overdue_since_ms.is_some() { ", overdue" } }
                    }
                }
            }
            ul.states {
                @for (name, (nth, count)) in &owners { li { (parts::badge(name, TONES.get(nth % TONES.len()).copied().unwrap_or("off"))) " " (texts::number(*count)) } }
                @if free > 0 { li { (parts::badge("nobody", "bad")) " " (free) } }
            }
            @if overdue.is_empty() { p.dim { "No task is overdue by more than 10 s." } }
            @else { p.note.warn { (texts::count(overdue.len() as u64, "partition has", "partitions have")) " tasks that should have fired more than ten seconds ago: "
                @for partition in overdue.iter().take(10) { code { (partition.partition) } " " @if let Some(at) = partition.overdue_since_ms { "(" (parts::ago(context, at)) ") " } } } }
            @if !moving.is_empty() { div #moving { p { (texts::count(moving.len() as u64, "partition is", "partitions are")) " on the way to another database:" }
                ul { @for partition in moving.iter().take(20) { li data-moving=(partition.partition) { "partition " (partition.partition) ": from database " (partition.database) " to " (parts::number_or_dash(partition.moving_to)) } } } } }
            @if page.next_cursor.is_some() { p.dim { "The first " (all.len()) "." } }
            (terms(all))
        },
    )
}

fn event_list(context: &Context, page: &Items<Event>, is_short: bool) -> Markup {
    let more = html! { a href=(context.href("/console/events", &[])) { "All events" } };
    parts::panel_with(
        if is_short { "Events of the last day" } else { "Events" },
        &more,
        &html! {
            @if page.items.is_empty() { p.dim { "No events: no engine started, stopped or fell silent, no partition moved, no database or Redis was down." } }
            @else { div.scroll tabindex="0" role="group" aria-label="Table, scrolls" { table.cards {
                caption.hidden { "Events" }
                thead { tr { th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Engine" } th scope="col" { "In words" } } }
                tbody data-rows {
                    @for item in &page.items { tr data-row data-event=(item.event) {
                        td data-label="When" { (parts::time(context, item.at_ms)) }
                        td data-label="What" { (parts::badge(&item.event.replace('_', " "), tone_of(&item.event))) }
                        td data-label="Engine" { (parts::text_or_dash(item.engine.as_deref())) }
                        td.wrap data-label="In words" { (item.text) }
                    } }
                    @if !is_short { (parts::pager(context, page.next_cursor.as_deref(), 4, page.items.len())) }
                }
            } } }
        },
    )
}

fn tone_of(event: &str) -> &'static str {
    match event {
        "engine_lost" | "hot_set_lost" | "database_away" => "bad",
        "engine_back" | "hot_set_back" | "database_back" | "engine_started" => "good",
        "partitions_taken_over" | "partition_moved" => "warn",
        _ => "off",
    }
}

async fn events(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", "100")];
    query.extend(
        ["event", "engine", "cursor"].into_iter().filter_map(|name| Some((name, context.query(name)?))),
    );
    let page: Items<Event> = context.api.get_with("/v1/events", &query).await?;
    let kinds = [
        "",
        "engine_started",
        "engine_stopped",
        "engine_lost",
        "engine_back",
        "partitions_taken_over",
        "partition_moved",
        "hot_set_lost",
        "hot_set_back",
        "database_away",
        "database_back",
    ];
    let kinds: Vec<(&str, &str)> =
        kinds.into_iter().map(|kind| (kind, if kind.is_empty() { "any" } else { kind })).collect();
    let filters = html! {
        form.filters #filters method="get" action="/console/events" role="search" aria-label="Events" data-filter {
            div { label for="event" { "What" } (parts::choice("event", &kinds, context.query("event").unwrap_or(""))) }
            div { label for="engine" { "Engine" } (parts::input("engine", context.query("engine").unwrap_or(""), "")) }
            button type="submit" { "Show" }
        }
    };
    Ok(View::new(
        "Events",
        "Events of the cluster, newest first: engines, partitions, hot sets and databases.",
    )
    .under("Engines and shards", context.href("/console/engines", &[]))
    .part(filters)
    .part(event_list(context, &page, false)))
}
