//! What an operator asks of all engines together: events, engines, partitions, databases, rates, what falls due. Of everything,
//! and therefore for those who reach everything. What is answered is the watcher's; here it is turned into JSON.

use crate::{
    alerts::Report,
    answer,
    app::{App, Shared},
    cursor,
    extract::{MaxAge, Query},
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_cluster::{
    Counts, DatabaseView, EngineView, HotStanding, HourView, PartitionView, QueueRates,
    Rates as CountedRates, Stats as Counted, ToldAlert, Watcher,
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

fn watcher(app: &App) -> Result<&Watcher, Refusal> {
    let none = || {
        Refusal::new(Code::RequestUnknownRoute, "this server was started without a watcher of the cluster")
    };
    app.options.cluster.as_ref().ok_or_else(none)
}

fn page_of(limit: Option<u32>) -> usize {
    usize::try_from(limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX)
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What happened to the cluster.
///
/// The newest first: engines that start, stop, die and come back, partitions that are taken over or moved, Redis and databases
/// that are away and back. Kept for `retention.events_ms`, and 10,000 at most.
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
        engine: search.engine.clone().filter(|it| !it.is_empty()),
        since: search.since.map(|it| Millis(it.0)),
        until: search.until.map(|it| Millis(it.0)),
        before_id: cursor::before_id(search.cursor.as_deref())?,
        limit: limit + 1,
    };
    let mut found = watcher(&app)?.events(query).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| has_more).map(|it| cursor::write(it.0));
    let items = found.into_iter().map(|(id, it)| event(id, it)).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn event(id: i64, it: Noticed) -> Event {
    Event {
        id,
        at: At::from_ms(it.at.0),
        at_ms: it.at.0,
        event: it.kind.word().to_owned(),
        engine: it.engine,
        text: it.text,
        details: serde_json::from_str(&it.details).unwrap_or_default(),
    }
}

/// The engines of the cluster.
///
/// By name: those that live, and those that fell silent within the last ten minutes and did not come back. One that stopped
/// in order is not shown.
#[utoipa::path(
    get, path = "/v1/engines", operation_id = "list_engines", tag = "operation",
    responses((status = 200, description = "All of them.", body = Page<Engine>)),
)]
pub(crate) async fn list_engines(State(app): State<Shared>) -> Result<Response, Refusal> {
    let items = watcher(&app)?.engines().await?.into_iter().map(engine).collect();
    Ok(answer::json(StatusCode::OK, &Page::<Engine> { items, next_cursor: None }))
}

fn engine(it: EngineView) -> Engine {
    Engine {
        state: if it.silent_ms > 0 { EngineState::Silent } else { EngineState::Alive },
        name: it.name,
        is_this: it.is_this,
        leads: it.leads,
        partitions: as_u64(it.partitions),
        has_hot_set: it.has_hot,
        databases_away: it.databases_away.into_iter().map(as_u64).collect(),
        silent_ms: Some(it.silent_ms).filter(|ms| *ms > 0),
        version: it.version,
        started_at: it.started_at.map(|at| At::from_ms(at.0)),
        started_at_ms: it.started_at.map(|at| at.0),
        rates: it.rates.map(|rates| shown(&rates)),
    }
}

fn shown(it: &CountedRates) -> Rates {
    let rounded = |rate: f64| (rate * 100.0).round() / 100.0;
    Rates {
        inserted: rounded(it.inserted),
        fired: rounded(it.fired),
        dispatched: rounded(it.dispatched),
        succeeded: rounded(it.succeeded),
        retried: rounded(it.retried),
        dead: rounded(it.dead),
        cancelled: rounded(it.cancelled),
    }
}

/// The partitions of the store, and who works on each.
///
/// By number.
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
    let mut rest = all.into_iter().filter(|it| after.is_none_or(|after| i64::from(it.partition.0) > after));
    let items: Vec<Partition> = rest.by_ref().take(limit).map(partition).collect();
    let last = items.last().map(|it| cursor::write(i64::from(it.partition)));
    let next_cursor = last.filter(|_| rest.next().is_some());
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn partition(it: PartitionView) -> Partition {
    Partition {
        partition: it.partition.0,
        database: as_u64(it.database),
        moving_to: it.moves_to.map(as_u64),
        engine: it.engine,
        term: it.term,
        lease_left_ms: it.lease_left_ms,
        overdue_since: it.overdue_since.map(|at| At::from_ms(at.0)),
        overdue_since_ms: it.overdue_since.map(|at| at.0),
    }
}

/// The databases of the store.
///
/// By number. One that is away is shown without its sizes.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "list_shards", tag = "operation",
    responses((status = 200, description = "All of them.", body = Page<Shard>)),
)]
pub(crate) async fn list_shards(State(app): State<Shared>) -> Result<Response, Refusal> {
    let items = watcher(&app)?.databases().await.into_iter().map(shard).collect();
    Ok(answer::json(StatusCode::OK, &Page::<Shard> { items, next_cursor: None }))
}

fn shard(it: DatabaseView) -> Shard {
    let answers = it.database.is_some();
    let database = it.database.unwrap_or_default();
    Shard {
        shard: as_u64(it.number),
        answers,
        partitions: as_u64(it.partitions),
        database: answers.then_some(database.name),
        rows_estimated: database.rows,
        bytes: database.bytes,
        buckets: database.buckets,
        archives_published: database.archives,
        time_axis: database.axis.into_iter().map(bucket).collect(),
        away_from: it.away_from,
    }
}

fn bucket(it: Slice) -> Bucket {
    Bucket {
        until: it.until.map(|at| At::from_ms(at.0)),
        until_ms: it.until.map(|at| at.0),
        rows_estimated: it.rows,
    }
}

/// The whole cluster in numbers.
///
/// Rates, lateness, what stands in the store, and the last hour in steps of a minute. Engines tell what they have counted
/// every ten seconds.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "operation",
    responses((status = 200, description = "Of all engines together.", body = Stats)),
)]
pub(crate) async fn get_stats(State(app): State<Shared>, max_age: MaxAge) -> Result<Response, Refusal> {
    let it: Counted = watcher(&app)?.stats(max_age.0).await?;
    let QueueStats { at, at_ms, rates, lateness, lateness_hour, step_ms, steps } = hour(it.hour);
    let stats = Stats {
        at,
        at_ms,
        engines: as_u64(it.engines),
        rates,
        lateness,
        lateness_hour,
        backlog: it.account.map(|account| backlog(&account)),
        hot_set: it.hot.as_ref().map(hot_set),
        step_ms,
        steps,
    };
    Ok(answer::json(StatusCode::OK, &stats))
}

/// The last hour of a queue.
pub(crate) async fn queue_hour(app: &App, queue: &QueueKey) -> Result<QueueStats, Refusal> {
    Ok(hour(watcher(app)?.queue_hour(queue).await?))
}

/// None: what engines tell cannot be read, which keeps nobody from the rest.
pub(crate) async fn queue_rates(app: &App) -> Option<Arc<QueueRates>> {
    app.options.cluster.as_ref()?.queue_rates().await
}

pub(crate) fn rates_of(all: Option<&QueueRates>, queue: &QueueKey) -> Option<Rates> {
    all?.of(queue).map(|it| shown(&it))
}

fn hour(it: HourView) -> QueueStats {
    let step = |it: punctual_cluster::Step| StatsStep {
        at: At::from_ms(it.at.0),
        at_ms: it.at.0,
        inserted: it.counts.inserted,
        fired: it.counts.fired,
        dispatched: it.counts.dispatched,
        succeeded: it.counts.succeeded,
        retried: it.counts.retried,
        dead: it.counts.dead,
        cancelled: it.counts.cancelled,
        lateness: lateness(&it.counts),
    };
    QueueStats {
        at: At::from_ms(it.at.0),
        at_ms: it.at.0,
        rates: shown(&it.rates),
        lateness: lateness(&it.lately),
        lateness_hour: lateness(&it.total),
        step_ms: it.step_ms,
        steps: it.steps.into_iter().map(step).collect(),
    }
}

pub(crate) fn lateness(counts: &Counts) -> Lateness {
    Lateness {
        p50_ms: counts.lateness_ms(500),
        p99_ms: counts.lateness_ms(990),
        p999_ms: counts.lateness_ms(999),
        max_ms: counts.lateness_ms(1_000),
        over_budget: counts.over_budget,
        early: counts.early,
    }
}

fn hot_set(it: &HotStanding) -> HotSet {
    HotSet {
        due: as_u64(it.due),
        firing: as_u64(it.firing),
        ready: as_u64(it.ready),
        parked: as_u64(it.parked),
        fullness: f64::from(it.fullness) / 1_000.0,
    }
}

fn backlog(account: &Account) -> Backlog {
    let books = account.books();
    Backlog {
        states: account.states().iter().map(|(state, tasks)| (state.word().to_owned(), *tasks)).collect(),
        accepted: books.accepted,
        deleted: books.deleted,
        unaccounted: books.unaccounted(),
        pending_bytes: books.pending_bytes.iter().map(|it| it.bytes).sum(),
    }
}

/// What falls due in each minute of the next hour.
///
/// Counted at most every 15 seconds, whoever asks. Where more falls due than may be looked at, some partitions are counted and
/// stand for all: then it is an estimate.
#[utoipa::path(
    get, path = "/v1/stats/due", operation_id = "get_due", tag = "operation",
    responses((status = 200, description = "Of all queues together.", body = Due)),
)]
pub(crate) async fn get_due(State(app): State<Shared>) -> Result<Response, Refusal> {
    let it = watcher(&app)?.due().await?;
    let step = |(nth, tasks): (i64, Option<u64>)| {
        let at = it.at.plus(nth * it.step_ms);
        DueStep { at: At::from_ms(at.0), at_ms: at.0, tasks }
    };
    let due = Due {
        at: At::from_ms(it.at.0),
        at_ms: it.at.0,
        step_ms: it.step_ms,
        is_estimate: it.is_estimate(),
        partitions: as_u64(it.partitions),
        partitions_counted: as_u64(it.partitions_counted),
        steps: (0..).zip(it.steps.iter().copied()).map(step).collect(),
    };
    Ok(answer::json(StatusCode::OK, &due))
}

/// What the other engines reported. What cannot be read is left out: this engine says by itself that a database is away.
pub(crate) async fn alerts_elsewhere(app: &App, max_age: MaxAge) -> Vec<Report> {
    let Some(watcher) = &app.options.cluster else { return Vec::new() };
    let reported = watcher.alerts_elsewhere(max_age.0).await;
    let reported =
        reported.inspect_err(|error| tracing::warn!(%error, "alerts of other engines cannot be read"));
    let report = |(engine, alert): (String, ToldAlert)| {
        let queue = match &alert.queue {
            // Of a name that this release does not take: left out.
            Some((namespace, queue)) => Some(queue_key(namespace, queue)?),
            None => None,
        };
        Some(Report {
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
