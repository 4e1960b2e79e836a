//! `GET /metrics`: takes the numbers of store, hot set, engine, server and process, and writes them. When the store
//! does not answer, its numbers are left out and the rest is served: metrics are read most during failures.

use super::{
    AWAY_HANDED_OVER, AWAY_REFUSED, AWAY_WAITING, AWAY_WRITTEN, BULK_AT_WORK, BULK_BEHIND, BULK_TASKS,
    CLOCK_DATABASE_AHEAD, CLOCK_DOUBTFUL, CLOCK_STEPS, CLOCK_WALL_AHEAD, DURABILITY_WEAK, EXECUTORS,
    EXECUTORS_DIED, FIRED_FROM_STORE, HOT_AWAY, HOT_DUE, HOT_FIRING, HOT_FULLNESS, HOT_OF_ANOTHER,
    HOT_REBUILT, IDENTITY_CONFLICTS, LEASES_ENDED, LOG_LINES_LOST, Metric, OFFERED_AGAIN, OLDEST_OVERDUE,
    OLDEST_WAITING, OUTCOMES_JOURNAL_APPLIED, OUTCOMES_JOURNAL_BYTES, OUTCOMES_JOURNAL_STALE,
    OUTCOMES_JOURNAL_WAITING, OUTCOMES_JOURNALLED, OUTCOMES_NOT_JOURNALLED, OVERDUE_NOT_FIRED, PANICS,
    PARTITIONS_OWNED, PROCESS_CPU, PROCESS_MEMORY, PROCESS_START, PUBLISH_FAILURES, SCHEDULE_RUNS,
    SCHEDULES_BEHIND, SERVICE_FAILING, SERVICE_FAILURES, SERVICE_HANDLED, SERVICE_PANICS, SERVICE_RUNS,
    SERVICE_SUCCEEDED_AT, TASKS_ACCEPTED, TASKS_COMPENSATED, TASKS_DELETED, TASKS_PRELOADED, TASKS_SUCCEEDED,
    TASKS_SWEPT, TASKS_UNSENT, TERMS_GAINED, TERMS_LOST, TERMS_RAISED, TRACE_FAILURES, TRACE_SPANS,
    TRACES_DROPPED, WHEEL_TASKS, connections, databases,
    exposition::{Exposition, Format, seconds},
    inboxes, ledger, process, queues, webhooks,
};
use crate::{
    app::{App, Shared},
    refusal::Refusal,
};
use axum::{
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use punctual_bulk::Runner;
use punctual_contract::{clock::ClockStatus, store::Books};
use punctual_domain::executor::Roll;
use punctual_engine::{Depth, ManySlots, ServiceNumbers, Slots};
use punctual_protocol::Code;
use std::{collections::BTreeMap, time::Duration};

/// A scrape must not hang on a store that does.
const PATIENCE: Duration = Duration::from_secs(2);

type Count = fn(&ServiceNumbers) -> u64;

/// Metrics in the Prometheus text format.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "operation",
    responses((status = 200, description = "Every metric; see docs/metrics.md.", body = String,
        content_type = "text/plain")),
)]
pub(crate) async fn get_metrics(State(app): State<Shared>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let format = Format::asked(accept);
    match read(&app).await.write(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => Refusal::new(Code::Internal, error.to_string()).into_response(),
    }
}

async fn read(app: &App) -> Exposition {
    let books = tokio::time::timeout(PATIENCE, app.engine.store().books()).await.ok().and_then(Result::ok);
    let depth = tokio::time::timeout(PATIENCE, app.engine.depth()).await.ok().and_then(Result::ok);
    let slots = tokio::time::timeout(PATIENCE, app.engine.slots()).await.ok().and_then(Result::ok);
    let many = tokio::time::timeout(PATIENCE, app.engine.many_slots()).await.ok().and_then(Result::ok);
    let (behind, bulk_behind) = (behind(app).await, bulk_behind(app).await);
    let shared = tokio::time::timeout(PATIENCE, app.engine.shared_slots()).await.ok().and_then(Result::ok);
    let databases = match &app.options.cluster {
        Some(watcher) => tokio::time::timeout(PATIENCE, watcher.databases()).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut out = Exposition::default();
    tasks(
        &mut out,
        app,
        books.as_ref(),
        depth.as_ref(),
        &slots.unwrap_or_default(),
        &many.unwrap_or_default(),
    );
    queues::shared_slots(&mut out, &shared.unwrap_or_default());
    databases::render(&mut out, &databases);
    engine(&mut out, app);
    executors(&mut out, &app.engine.roll_of_executors());
    services(&mut out, app.engine.meters().services());
    app.http.render(&mut out);
    connections::render(&mut out, app);
    schedules(&mut out, app, behind);
    bulk(&mut out, app, bulk_behind);
    inboxes::render(&mut out, &app.options.inboxes);
    webhooks::render(&mut out, app.options.webhooks.as_ref());
    traces(&mut out, app);
    process(&mut out, app);
    out
}

/// Milliseconds. `None` if the store does not answer, or there are no schedules here.
async fn behind(app: &App) -> Option<u64> {
    let next = app.options.schedules.as_ref()?.next_run_at();
    let next = tokio::time::timeout(PATIENCE, next).await.ok()?.ok()?;
    Some(next.map_or(0, |at| app.engine.now().since(at).max(0).unsigned_abs()))
}

/// The same for bulk operations.
async fn bulk_behind(app: &App) -> Option<u64> {
    let next = app.options.bulk.as_ref()?.next_run_at();
    let next = tokio::time::timeout(PATIENCE, next).await.ok()?.ok()?;
    Some(next.map_or(0, |at| app.engine.now().since(at).max(0).unsigned_abs()))
}

fn bulk(out: &mut Exposition, app: &App, behind_ms: Option<u64>) {
    out.begin(&BULK_TASKS);
    for (action, outcome, tasks) in app.options.bulk.iter().flat_map(Runner::tasks_by_outcome) {
        out.sample(&BULK_TASKS, &[action, outcome.word()], tasks);
    }
    out.begin(&BULK_AT_WORK);
    if let Some(runner) = &app.options.bulk {
        out.sample(&BULK_AT_WORK, &[], runner.at_work());
    }
    out.begin(&BULK_BEHIND);
    if let Some(behind_ms) = behind_ms {
        out.sample(&BULK_BEHIND, &[], seconds(behind_ms.saturating_mul(1_000)));
    }
}

fn traces(out: &mut Exposition, app: &App) {
    let (exported, dropped, failures) =
        app.options.traces.as_ref().map_or((0, 0, 0), |traces| traces.counts());
    out.single(&TRACE_SPANS, exported);
    out.single(&TRACES_DROPPED, dropped);
    out.single(&TRACE_FAILURES, failures);
}

fn schedules(out: &mut Exposition, app: &App, behind_ms: Option<u64>) {
    out.begin(&SCHEDULE_RUNS);
    for (outcome, lines) in app.options.schedules.iter().flat_map(|schedule| schedule.lines()) {
        out.sample(&SCHEDULE_RUNS, &[outcome.word()], lines);
    }
    out.begin(&SCHEDULES_BEHIND);
    if let Some(behind_ms) = behind_ms {
        out.sample(&SCHEDULES_BEHIND, &[], seconds(behind_ms.saturating_mul(1_000)));
    }
}

fn tasks(
    out: &mut Exposition,
    app: &App,
    books: Option<&Books>,
    depth: Option<&Depth>,
    slots: &[Slots],
    many: &ManySlots,
) {
    let numbers = app.engine.meters().queues();
    let status = books.iter().flat_map(|book| book.tallies.iter().map(|tally| &tally.queue));
    let waiting = depth.iter().flat_map(|depth| depth.ready.iter().map(|(queue, _)| queue.as_ref()));
    let (oldest, paused) = (app.engine.oldest_waiting(), app.engine.paused());
    let waiting = waiting.chain(slots.iter().chain(&many.retries).map(|slot| slot.queue.as_ref()));
    let waiting = waiting.chain(many.keys.iter().map(|key| key.queue.as_ref()));
    let named = numbers.iter().map(|numbers| numbers.queue.as_ref());
    let overdue_by_queue = app.engine.overdue_by_queue();
    let set = oldest.iter().chain(&overdue_by_queue).map(|pair| &pair.0).chain(&paused);
    let shown = queues::ShownQueues::of(&numbers, status.chain(waiting).chain(named).chain(set));
    if let Some(books) = books {
        queues::states(out, &shown, books);
        out.single(&TASKS_ACCEPTED, books.accepted);
        out.single(&TASKS_DELETED, books.deleted);
    }
    ledger::render(out, app, books);
    queues::counters(out, &shown, &numbers);
    queues::lateness(out, &shown, &numbers);
    queues::outcomes(out, &shown, &numbers);
    queues::oldest(out, &shown, &OLDEST_WAITING, &oldest, app.engine.now());
    queues::oldest(out, &shown, &OLDEST_OVERDUE, &overdue_by_queue, app.engine.now());
    overdue(out, app);
    queues::paused(out, &shown, &paused);
    queues::slots(out, &shown, slots);
    queues::many_slots(out, &shown, many);
    queues::shares(out, &app.engine.shares());
    if let Some(depth) = depth {
        queues::ready(out, &shown, depth);
        out.single(&HOT_DUE, depth.due);
        out.single(&HOT_FIRING, depth.fired);
    }
}

fn overdue(out: &mut Exposition, app: &App) {
    let now = app.engine.now();
    out.begin(&OVERDUE_NOT_FIRED);
    for (partition, database, oldest) in app.engine.overdue() {
        let overdue_us = oldest.map_or(0, |oldest| now.since(oldest.due_at).max(0).unsigned_abs() * 1_000);
        let (database, partition) = (database.to_string(), partition.0.to_string());
        out.sample(&OVERDUE_NOT_FIRED, &[&database, &partition], seconds(overdue_us));
    }
}

fn engine(out: &mut Exposition, app: &App) {
    let meters = app.engine.meters();
    out.single(&WHEEL_TASKS, app.engine.on_wheel());
    out.single(&TASKS_SUCCEEDED, meters.succeeded_total());
    out.single(&TASKS_PRELOADED, meters.preloaded_total());
    out.single(&TASKS_SWEPT, meters.swept_total());
    out.single(&LEASES_ENDED, meters.leases_ended_total());
    out.single(&OFFERED_AGAIN, meters.offered_again_total());
    out.single(&PUBLISH_FAILURES, meters.publish_failures_total());
    out.single(&TASKS_UNSENT, app.engine.unsent());
    out.single(&TASKS_COMPENSATED, meters.compensated_total());
    journal(out, app);
    sharing(out, app);
}

fn journal(out: &mut Exposition, app: &App) {
    // Without a journal each is 0.
    let numbers = app.engine.journal_numbers().unwrap_or_default();
    out.single(&OUTCOMES_JOURNALLED, numbers.kept);
    out.single(&OUTCOMES_NOT_JOURNALLED, numbers.refused);
    out.single(&OUTCOMES_JOURNAL_APPLIED, numbers.applied);
    out.single(&OUTCOMES_JOURNAL_STALE, numbers.stale);
    out.single(&OUTCOMES_JOURNAL_WAITING, numbers.waiting.records);
    out.single(&AWAY_HANDED_OVER, numbers.handed_over);
    out.single(&AWAY_WRITTEN, numbers.leases_written);
    out.single(&AWAY_REFUSED, numbers.leases_refused);
    out.single(&AWAY_WAITING, numbers.leases_waiting);
    out.single(&OUTCOMES_JOURNAL_BYTES, numbers.waiting.bytes);
}

/// Renders the hot set, and this engine's share of the work.
fn sharing(out: &mut Exposition, app: &App) {
    let meters = app.engine.meters();
    let fullness = app.engine.hot_fullness();
    out.single(&HOT_FULLNESS, f64::from(fullness) / 1e3);
    out.single(&HOT_AWAY, app.engine.hot_is_away());
    clock(out, &app.engine.clock_status());
    out.single(&HOT_OF_ANOTHER, app.engine.hot_is_another_clusters());
    out.single(&TERMS_RAISED, meters.terms_raised_total());
    out.single(&IDENTITY_CONFLICTS, meters.identity_conflicts_total());
    out.single(&HOT_REBUILT, meters.rebuilt_total());
    out.single(&FIRED_FROM_STORE, meters.fired_from_store_total());
    out.single(&PARTITIONS_OWNED, app.engine.owned());
    out.single(&TERMS_GAINED, meters.terms_gained_total());
    out.single(&TERMS_LOST, meters.terms_lost_total());
}

fn clock(out: &mut Exposition, status: &ClockStatus) {
    out.single(&CLOCK_WALL_AHEAD, signed_seconds(status.wall_ahead_ms));
    out.begin(&CLOCK_DATABASE_AHEAD);
    if let Some(ms) = status.keeper_ahead_ms {
        out.sample(&CLOCK_DATABASE_AHEAD, &[], signed_seconds(ms));
    }
    out.single(&CLOCK_DOUBTFUL, status.is_doubtful || status.is_keeper_doubtful);
    out.single(&CLOCK_STEPS, status.steps);
}

const fn signed_seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

fn executors(out: &mut Exposition, roll: &Roll) {
    out.begin(&EXECUTORS);
    let status =
        [("alive", roll.alive), ("quiet", roll.quiet), ("draining", roll.draining), ("dead", roll.dead)];
    for (word, count) in status {
        out.sample(&EXECUTORS, &[word], count);
    }
    out.single(&EXECUTORS_DIED, roll.died);
}

/// Services of one name (one for each push queue) are counted together.
fn services(out: &mut Exposition, services: Vec<ServiceNumbers>) {
    let table: [(&'static Metric, Count); 4] = [
        (&SERVICE_RUNS, |numbers| numbers.runs),
        (&SERVICE_FAILURES, |numbers| numbers.failures),
        (&SERVICE_PANICS, |numbers| numbers.panics),
        (&SERVICE_HANDLED, |numbers| numbers.handled),
    ];
    for (metric, of) in table {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for service in &services {
            *sums.entry(service.name).or_default() += of(service);
        }
        out.begin(metric);
        for (name, count) in sums {
            out.sample(metric, &[name], count);
        }
    }
    let mut failing: BTreeMap<&str, u64> = BTreeMap::new();
    for service in &services {
        let most = failing.entry(service.name).or_default();
        *most = service.failures_in_a_row.max(*most);
    }
    out.begin(&SERVICE_FAILING);
    for (name, count) in failing {
        out.sample(&SERVICE_FAILING, &[name], count);
    }
    let mut succeeded: BTreeMap<&str, i64> = BTreeMap::new();
    for service in &services {
        if let Some(at) = service.succeeded_at {
            let last = succeeded.entry(service.name).or_default();
            *last = at.0.max(*last);
        }
    }
    out.begin(&SERVICE_SUCCEEDED_AT);
    for (name, at) in succeeded {
        out.sample(&SERVICE_SUCCEEDED_AT, &[name], seconds(at.unsigned_abs().saturating_mul(1_000)));
    }
}

fn process(out: &mut Exposition, app: &App) {
    out.single(&PANICS, app.engine.process_meters().panics_total());
    out.single(&DURABILITY_WEAK, app.engine.weaknesses().len());
    out.single(&LOG_LINES_LOST, app.engine.process_meters().log_lines_lost_total());
    let started_us = app.started_at.0.unsigned_abs().saturating_mul(1_000);
    out.single(&PROCESS_START, seconds(started_us));
    if let Some(us) = process::cpu_us() {
        out.single(&PROCESS_CPU, seconds(us));
    }
    if let Some(bytes) = process::resident_bytes() {
        out.single(&PROCESS_MEMORY, bytes);
    }
}
