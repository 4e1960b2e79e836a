//! Answers about all engines together: events, engines, partitions, databases, rates, due tasks. They cover everything, so only
//! tokens for everything may ask. The watcher answers; this module turns answers into JSON.

use crate::{
    alerts::AlertReport,
    answer,
    app::{App, Shared},
    cursor,
    extract::{MaxAge, Query},
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_cluster::{
    DatabaseView, EngineCounts, EngineView, HotStatus, HourView, LedgerPass, PartitionView, QueueRates,
    Rates as CountedRates, ReportedAlert, Stats as Counted, Watcher,
};
use punctual_contract::cluster::{Event as Noticed, EventQuery, Slice};
use punctual_domain::{
    name::{Name, QueueKey},
    time::Millis,
};
use punctual_engine::Account;
use punctual_protocol::{
    Alert, At, Backlog, Bucket, Code, Due, DueStep, Engine, EngineState, Event, HotSet, Lateness,
    ListPartitions, Page, Partition, QueueStats, Rates, SearchEvents, Severity, Shard, Stats, StatsStep,
    limits::PAGE_DEFAULT,
};
use std::sync::Arc;

pub(crate) fn watcher(app: &App) -> Result<&Watcher, Refusal> {
    let none = || {
        Refusal::new(Code::RequestUnknownRoute, "this server was started without a watcher of the cluster")
    };
    app.options.cluster.as_ref().ok_or_else(none)
}

fn page_of(limit: Option<u32>) -> usize {
    usize::try_from(limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX)
}

pub(crate) fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// List events of the cluster.
///
/// The newest first: engines that start, stop, crash and come back; partitions that are acquired or moved; Redis and
/// databases that become unavailable and come back. Events are stored for `retention.events_ms`, and at most 10,000
/// of them.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "list_events", tag = "operation", params(SearchEvents),
    responses((status = 200, description = "A page of events.", body = Page<Event>)),
)]
pub(crate) async fn list_events(
    State(app): State<Shared>,
    Query(search): Query<SearchEvents>,
) -> Result<Response, Refusal> {
    search.check()?;
    let kind = search.event.as_deref().map(|word| {
        word.parse()
            .map_err(|_| Refusal::field("/event", "is no kind of event; see the document of this call"))
    });
    let limit = page_of(search.limit);
    let query = EventQuery {
        kind: kind.transpose()?,
        engine: search.engine.clone().filter(|engine| !engine.is_empty()),
        since: search.since.map(|bound| Millis(bound.0)),
        until: search.until.map(|bound| Millis(bound.0)),
        before_id: cursor::before_id(search.cursor.as_deref())?,
        limit: limit + 1,
    };
    let mut found = watcher(&app)?.events(query).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| has_more).map(|pair| cursor::write(pair.0));
    let items = found.into_iter().map(|(id, each_event)| event(id, each_event)).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn event(id: i64, event: Noticed) -> Event {
    Event {
        id,
        at: At::from_ms(event.at.0),
        at_ms: event.at.0,
        event: event.kind.word().to_owned(),
        engine: event.engine,
        text: event.text,
        details: serde_json::from_str(&event.details).unwrap_or_default(),
    }
}

/// List the engines of the cluster.
///
/// By name: live engines, and those that fell silent within the last ten minutes. Engines that were stopped regularly
/// are not listed.
#[utoipa::path(
    get, path = "/v1/engines", operation_id = "list_engines", tag = "operation",
    responses((status = 200, description = "The whole list.", body = Page<Engine>)),
)]
pub(crate) async fn list_engines(State(app): State<Shared>) -> Result<Response, Refusal> {
    let items = watcher(&app)?.engines().await?.into_iter().map(engine).collect();
    Ok(answer::json(StatusCode::OK, &Page::<Engine> { items, next_cursor: None }))
}

fn engine(view: EngineView) -> Engine {
    Engine {
        state: if view.silent_ms > 0 { EngineState::Silent } else { EngineState::Alive },
        name: view.name,
        is_this: view.is_this,
        leads: view.leads,
        partitions: as_u64(view.partitions),
        has_hot_set: view.has_hot,
        databases_away: view.databases_away.into_iter().map(as_u64).collect(),
        silent_ms: Some(view.silent_ms).filter(|ms| *ms > 0),
        version: view.version,
        started_at: view.started_at.map(|at| At::from_ms(at.0)),
        started_at_ms: view.started_at.map(|at| at.0),
        rates: view.rates.map(|rates| shown(&rates)),
    }
}

fn shown(rates: &CountedRates) -> Rates {
    let rounded = |rate: f64| (rate * 100.0).round() / 100.0;
    Rates {
        inserted: rounded(rates.inserted),
        fired: rounded(rates.fired),
        dispatched: rounded(rates.dispatched),
        succeeded: rounded(rates.succeeded),
        retried: rounded(rates.retried),
        dead: rounded(rates.dead),
        cancelled: rounded(rates.cancelled),
    }
}

/// List the partitions of the store and their owners.
///
/// The partitions are in the order of their numbers.
#[utoipa::path(
    get, path = "/v1/partitions", operation_id = "list_partitions", tag = "operation", params(ListPartitions),
    responses((status = 200, description = "A page of partitions.", body = Page<Partition>)),
)]
pub(crate) async fn list_partitions(
    State(app): State<Shared>,
    Query(asked): Query<ListPartitions>,
) -> Result<Response, Refusal> {
    asked.check()?;
    // The cursor is the number of the last one.
    let after = cursor::before_id(asked.cursor.as_deref())?;
    let limit = page_of(asked.limit);
    let all = watcher(&app)?.partitions().await?;
    let mut rest =
        all.into_iter().filter(|view| after.is_none_or(|after| i64::from(view.partition.0) > after));
    let items: Vec<Partition> = rest.by_ref().take(limit).map(partition).collect();
    let last = items.last().map(|partition| cursor::write(i64::from(partition.partition)));
    let next_cursor = last.filter(|_| rest.next().is_some());
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn partition(view: PartitionView) -> Partition {
    Partition {
        partition: view.partition.0,
        database: as_u64(view.database),
        moving_to: view.moves_to.map(as_u64),
        engine: view.engine,
        term: view.term,
        lease_left_ms: view.lease_left_ms,
        overdue_since: view.overdue_since.map(|at| At::from_ms(at.0)),
        overdue_since_ms: view.overdue_since.map(|at| at.0),
    }
}

/// List the databases of the store.
///
/// The databases are in the order of their numbers. An unavailable database is listed without its sizes.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "list_shards", tag = "operation",
    responses((status = 200, description = "The whole list.", body = Page<Shard>)),
)]
pub(crate) async fn list_shards(State(app): State<Shared>) -> Result<Response, Refusal> {
    let watcher = watcher(&app)?;
    let ledgers = watcher.ledgers();
    let pass = |number| ledgers.iter().find(|view| view.database == number)?.pass.as_ref();
    let items = watcher.databases().await.into_iter().map(|view| shard(pass(view.number), view)).collect();
    Ok(answer::json(StatusCode::OK, &Page::<Shard> { items, next_cursor: None }))
}

fn shard(pass: Option<&LedgerPass>, view: DatabaseView) -> Shard {
    let answers = view.database.is_some();
    let database = view.database.unwrap_or_default();
    Shard {
        shard: as_u64(view.number),
        answers,
        partitions: as_u64(view.partitions),
        database: answers.then_some(database.name),
        rows_estimated: database.rows,
        bytes: database.bytes,
        buckets: database.buckets,
        archives_published: database.archives,
        time_axis: database.axis.into_iter().map(bucket).collect(),
        away_from: view.away_from,
        checked_at: pass.map(|pass| At::from_ms(pass.ended_ms())),
        checked_at_ms: pass.map(LedgerPass::ended_ms),
        unaccounted: pass.map(|pass| pass.unaccounted),
    }
}

fn bucket(slice: Slice) -> Bucket {
    Bucket {
        until: slice.until.map(|at| At::from_ms(at.0)),
        until_ms: slice.until.map(|at| at.0),
        rows_estimated: slice.rows,
    }
}

/// Get the statistics of the cluster.
///
/// Rates, lateness, the contents of the store, and the last hour in steps of one minute. Engines report their counts every
/// ten seconds.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "operation",
    responses((status = 200, description = "The numbers of all engines together.", body = Stats)),
)]
pub(crate) async fn get_stats(State(app): State<Shared>, max_age: MaxAge) -> Result<Response, Refusal> {
    let watcher = watcher(&app)?;
    let (this_stats, counted): (Counted, i64) = (watcher.stats(max_age.0).await?, watcher.unaccounted());
    let QueueStats { at, at_ms, rates, lateness, lateness_hour, step_ms, steps } = hour(this_stats.hour);
    let stats = Stats {
        at,
        at_ms,
        engines: as_u64(this_stats.engines),
        rates,
        lateness,
        lateness_hour,
        backlog: this_stats.account.map(|account| backlog(&account, counted)),
        hot_set: this_stats.hot.as_ref().map(hot_set),
        step_ms,
        steps,
    };
    Ok(answer::json(StatusCode::OK, &stats))
}

/// The last hour of a queue.
pub(crate) async fn queue_hour(app: &App, queue: &QueueKey) -> Result<QueueStats, Refusal> {
    Ok(hour(watcher(app)?.queue_hour(queue).await?))
}

/// Returns `None` if the engines' reports cannot be read; the rest of the answer is complete.
pub(crate) async fn queue_rates(app: &App) -> Option<Arc<QueueRates>> {
    app.options.cluster.as_ref()?.queue_rates().await
}

pub(crate) fn rates_of(all: Option<&QueueRates>, queue: &QueueKey) -> Option<Rates> {
    all?.of(queue).map(|rates| shown(&rates))
}

fn hour(hour_view: HourView) -> QueueStats {
    let step = |step: punctual_cluster::CountsSample| StatsStep {
        at: At::from_ms(step.at.0),
        at_ms: step.at.0,
        inserted: step.counts.inserted,
        fired: step.counts.fired,
        dispatched: step.counts.dispatched,
        succeeded: step.counts.succeeded,
        retried: step.counts.retried,
        dead: step.counts.dead,
        cancelled: step.counts.cancelled,
        lateness: lateness(&step.counts),
    };
    QueueStats {
        at: At::from_ms(hour_view.at.0),
        at_ms: hour_view.at.0,
        rates: shown(&hour_view.rates),
        lateness: lateness(&hour_view.lately),
        lateness_hour: lateness(&hour_view.total),
        step_ms: hour_view.step_ms,
        steps: hour_view.steps.into_iter().map(step).collect(),
    }
}

pub(crate) fn lateness(counts: &EngineCounts) -> Lateness {
    Lateness {
        p50_ms: counts.lateness_ms(500),
        p99_ms: counts.lateness_ms(990),
        p999_ms: counts.lateness_ms(999),
        max_ms: counts.lateness_ms(1_000),
        over_budget: counts.over_budget,
        early: counts.early,
    }
}

fn hot_set(hot_status: &HotStatus) -> HotSet {
    HotSet {
        due: as_u64(hot_status.due),
        firing: as_u64(hot_status.firing),
        ready: as_u64(hot_status.ready),
        parked: as_u64(hot_status.parked),
        fullness: f64::from(hot_status.fullness) / 1_000.0,
    }
}

fn backlog(account: &Account, counted: i64) -> Backlog {
    let books = account.books();
    Backlog {
        states: account.states().iter().map(|(state, tasks)| (state.word().to_owned(), *tasks)).collect(),
        accepted: books.accepted,
        deleted: books.deleted,
        unaccounted: books.unaccounted().abs().max(counted),
        pending_bytes: books.pending_bytes.iter().map(|pending_bytes| pending_bytes.bytes).sum(),
    }
}

/// Get the number of tasks that fall due in each minute of the next hour.
///
/// The tasks are counted at most every 15 seconds, regardless of the number of callers. If too many tasks become due,
/// only some partitions are counted, and the result is an estimate.
#[utoipa::path(
    get, path = "/v1/stats/due", operation_id = "get_due", tag = "operation",
    responses((status = 200, description = "The numbers of all queues together.", body = Due)),
)]
pub(crate) async fn get_due(State(app): State<Shared>) -> Result<Response, Refusal> {
    let this_due = watcher(&app)?.due().await?;
    let step = |(nth, tasks): (i64, Option<u64>)| {
        let at = this_due.at.plus(nth * this_due.step_ms);
        DueStep { at: At::from_ms(at.0), at_ms: at.0, tasks }
    };
    let due = Due {
        at: At::from_ms(this_due.at.0),
        at_ms: this_due.at.0,
        step_ms: this_due.step_ms,
        is_estimate: this_due.is_estimate(),
        partitions: as_u64(this_due.partitions),
        partitions_counted: as_u64(this_due.partitions_counted),
        steps: (0..).zip(this_due.steps.iter().copied()).map(step).collect(),
    };
    Ok(answer::json(StatusCode::OK, &due))
}

/// The alerts of the other engines. Unreadable reports are omitted: this engine itself reports that a database is
/// unavailable.
pub(crate) async fn alerts_elsewhere(app: &App, max_age: MaxAge) -> Vec<AlertReport> {
    let Some(watcher) = &app.options.cluster else { return Vec::new() };
    let reported = watcher.alerts_elsewhere(max_age.0).await;
    let reported =
        reported.inspect_err(|error| tracing::warn!(%error, "alerts of other engines cannot be read"));
    let report = |(engine, alert): (String, ReportedAlert)| {
        let queue = match &alert.queue {
            // Of a name that this release does not take: left out.
            Some((namespace, queue)) => Some(queue_key(namespace, queue)?),
            None => None,
        };
        Some(AlertReport {
            name: alert.name,
            is_critical: alert.is_critical,
            since: Millis(alert.since_ms),
            queue,
            engine,
            text: alert.text,
            what_to_do: alert.what_to_do,
            count: alert.count,
        })
    };
    reported.unwrap_or_default().into_iter().filter_map(report).collect()
}

fn queue_key(namespace: &str, queue: &str) -> Option<QueueKey> {
    Some(QueueKey { namespace: Name::new(namespace).ok()?, queue: Name::new(queue).ok()? })
}

/// Engines that fell silent, as alerts.
pub(crate) fn alerts(app: &App) -> Vec<Alert> {
    let Some(watcher) = &app.options.cluster else { return Vec::new() };
    let now = app.engine.now();
    let alert = |(engine, silent_ms): (String, i64)| {
        let since = now.plus(-silent_ms);
        Alert {
            name: "engine_lost".to_owned(),
            severity: Severity::Warning,
            since: At::from_ms(since.0),
            since_ms: since.0,
            namespace: None,
            queue: None,
            engine: None,
            engines: Vec::new(),
            consequences: Vec::new(),
            text: format!("engine {engine} has given no sign of life for {} s", silent_ms / 1_000),
            what_to_do: "See whether its process runs and reaches the database; its partitions have gone to the others, and those must bear their load.".to_owned(),
        }
    };
    watcher.lost().into_iter().map(alert).collect()
}
