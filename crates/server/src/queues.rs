//! The queues of a namespace: what is set, what is in them (counts of the running account: cheap, whatever the number
//! of tasks), who changed what; pause and resume. What a setting means is the engine's.

mod mode;

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    cluster, cursor, etag,
    extract::{Body, Caller, MaxAge, Query, Queue as QueueOf},
    namespaces,
    refusal::Refusal,
    settings, webhooks,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use mode::{must_be_possible, of_queue};
use punctual_cluster::EngineCounts;
use punctual_contract::{hot::ParkReason, limiter::Held, settings::StoredSetting};
use punctual_domain::{
    limits::Scope as Scoped,
    name::QueueKey,
    settings::{Pause, QueueSettings, Scope},
};
use punctual_engine::{Account, Put, Stood};
use punctual_protocol::{
    At, Code, Indexing, ListQueues, Page, Parked, ParkedFor, PauseRequest, PauseWish, PutQueue, Queue,
    QueueCounts, QueueStats, ScanReport, SearchChanges, SettingChange, SlotHolder, Slots,
    limits::PAGE_DEFAULT, parse, parse_settings,
};
use std::{collections::BTreeMap, sync::Arc};

/// A change that others overtake so often is given up.
const PATCH_TRIES: usize = 16;
/// Holders and lanes in an answer.
const SHOWN_MAX: usize = 100;

/// List the queues of the namespace that have tasks or settings.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues", params(ListQueues),
    responses((status = 200, description = "By name: all queues, or a page.", body = Page<Queue>)),
)]
pub(crate) async fn list_queues(
    State(app): State<Shared>,
    caller: Caller,
    max_age: MaxAge,
    Query(asked): Query<ListQueues>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let mut queues: BTreeMap<QueueKey, Option<StoredSetting>> = BTreeMap::new();
    for stored in app.engine.settings().await?.all {
        if let Scope::Queue(queue) = &stored.scope
            && queue.namespace == caller.namespace
            && caller.who.reaches(queue)
        {
            queues.insert(queue.clone(), Some(stored));
        }
    }
    let numbers = Numbers::read(&app, max_age).await?;
    let mut last = None;
    for queue in numbers.0.queues(&caller.namespace).filter(|queue| caller.who.reaches(queue)) {
        // It comes once for each state.
        if last.replace(queue) != Some(queue) {
            queues.entry(queue.clone()).or_default();
        }
    }
    queues.retain(|queue, stored| is_asked_for(&asked, queue, stored.as_ref()));
    let limit = asked.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let next_cursor = queues.keys().nth(limit).map(|key| key.queue.as_str().to_owned());
    let page = queues.iter().take(limit);
    let rates = cluster::queue_rates(&app).await;
    let shown = |(queue, stored): (&QueueKey, &Option<StoredSetting>)| -> Result<Queue, Refusal> {
        let rates = cluster::rates_of(rates.as_deref(), queue);
        Ok(Queue { counted: counted(&app, queue), rates, ..numbers.shown(queue, stored.as_ref())? })
    };
    let items = page.map(shown).collect::<Result<_, _>>()?;
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// True if the queue belongs to the page, from the cursor on: the cursor is the name of the first queue of its page.
fn is_asked_for(asked: &ListQueues, queue: &QueueKey, current: Option<&StoredSetting>) -> bool {
    let name = queue.queue.as_str();
    let is_paused = current.is_some_and(|stored| stored.setting.is_paused());
    asked.cursor.as_deref().is_none_or(|from| name >= from)
        && asked.prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
        && asked.paused.is_none_or(|paused| paused == is_paused)
}

/// Get a queue with its settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "get_queue", tag = "queues",
    params(("queue" = String, Path, description = "The name.")),
    responses((status = 200, description = "The queue.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn get_queue(
    State(app): State<Shared>,
    who: Who,
    max_age: MaxAge,
    QueueOf(queue): QueueOf,
) -> Result<Response, Refusal> {
    let (numbers, current) = there(&app, &who, max_age, &queue).await?;
    one(&app, &numbers, &queue, current.as_ref()).await
}

/// Get rates and lateness of a queue for the last hour.
///
/// The statistics are in steps of one minute, over all engines.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/stats", operation_id = "get_queue_stats", tag = "queues",
    params(("queue" = String, Path, description = "The name.")),
    responses((status = 200, description = "The last hour.", body = QueueStats)),
)]
pub(crate) async fn get_queue_stats(
    State(app): State<Shared>,
    who: Who,
    max_age: MaxAge,
    QueueOf(queue): QueueOf,
) -> Result<Response, Refusal> {
    there(&app, &who, max_age, &queue).await?;
    Ok(answer::json(StatusCode::OK, &cluster::queue_hour(&app, &queue).await?))
}

/// Refused where there is no such queue, or not for this caller.
async fn there(
    app: &App,
    who: &Who,
    max_age: MaxAge,
    queue: &QueueKey,
) -> Result<(Numbers, Option<StoredSetting>), Refusal> {
    let current = app.engine.setting(&Scope::Queue(queue.clone())).await?;
    let mut numbers = Numbers::read(app, max_age).await?;
    if current.is_none() && !numbers.0.knows(queue) && max_age != MaxAge::NONE {
        // Its first task may have come since then: that there is no such queue is never said from what is older than the question.
        numbers = Numbers::read(app, MaxAge::NONE).await?;
    }
    if !who.reaches(queue) || (current.is_none() && !numbers.0.knows(queue)) {
        let detail = format!("{:?} has no tasks, and nothing was set for it", queue.queue.as_str());
        return Err(Refusal::new(Code::QueueNotFound, detail));
    }
    Ok((numbers, current))
}

fn holder(held: &Held) -> SlotHolder {
    SlotHolder {
        r#ref: held.place.to_string(),
        since: At::from_ms(held.granted_at.0),
        since_ms: held.granted_at.0,
        scopes: held.scopes.iter().map(scope).collect(),
    }
}

fn scope(scope: &Scoped) -> String {
    match scope {
        Scoped::Everything => "everything".to_owned(),
        Scoped::Namespace(name) => format!("namespace:{name}"),
        Scoped::Queue(_) => "queue".to_owned(),
        Scoped::Retries(_) => "retries".to_owned(),
        Scoped::Key(_, key) => format!("key:{key}"),
        Scoped::Executor(_, name) => format!("executor:{name}"),
    }
}

fn put_aside((lane, tasks): (ParkReason, usize)) -> Parked {
    let (waits_for, name) = match lane {
        ParkReason::Key(key) => (ParkedFor::Key, Some(key)),
        ParkReason::Retries => (ParkedFor::Retries, None),
        ParkReason::Version(range) => (ParkedFor::HandlerVersions, Some(range)),
        ParkReason::Kind(kind) => (ParkedFor::Kind, Some(kind)),
    };
    Parked { waits_for, name, tasks: u64::try_from(tasks).unwrap_or(u64::MAX) }
}

/// Set all settings of a queue.
///
/// Omitted settings get their default; only a pause stays as it is. Every engine applies the settings within a second.
#[utoipa::path(
    put, path = "/v1/queues/{queue}", operation_id = "put_queue", tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue. It need not have tasks."),
        ("If-Match" = Option<String>, Header, description = "Set it only if this is its ETag."),
    ),
    request_body(content = PutQueue, example = json!({
        "concurrency": 10, "rate": {"limit": 100, "period_ms": 1000, "burst": 20}, "max_waiting": 1000000
    })),
    responses((status = 200, description = "The queue after the change.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn put_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    namespaces::must_be_open(&app, &queue.namespace)?;
    let asked = PutQueue::from_json(&body)?;
    must_be_possible(&app, &asked)?;
    let pause = pause_of(&app, &who, &asked);
    let asked = settings::of_wire(&asked)?;
    let stored = match &asked.webhook {
        Some(_) => app.engine.setting(&Scope::Queue(queue.clone())).await?,
        None => None,
    };
    // A mask means what is stored now, and nothing newer.
    let revision = stored.as_ref().map_or(0, |stored| stored.revision);
    let expected = webhooks::has_masks(&asked).then_some(revision);
    let wanted = webhooks::checked(&who, asked, stored.as_ref().and_then(of_queue))?;
    put(&app, &who, queue, (wanted, pause), (&headers, expected)).await
}

/// Change some settings of a queue.
///
/// Omitted settings stay as they are; a setting that is `null` gets its default. A setting with several fields
/// (`rate`, `retry`, ...) is replaced entirely.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "patch_queue", tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue. It need not have tasks."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    request_body(content = PutQueue, example = json!({"concurrency": 10, "max_waiting": null})),
    responses((status = 200, description = "The queue after the change.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn patch_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    namespaces::must_be_open(&app, &queue.namespace)?;
    // What cannot be read at all is refused before the stored settings are read.
    let patch: serde_json::Map<String, serde_json::Value> = parse(&body)?;
    let PutQueue { .. } = parse_settings(&body)?;
    let condition = etag::condition(&headers);
    for _ in 0..PATCH_TRIES {
        let current = app.engine.setting(&Scope::Queue(queue.clone())).await?;
        let revision = current.as_ref().map_or(0, |stored| stored.revision);
        if condition.as_deref().is_some_and(|condition| !etag::is_revision(condition, revision)) {
            return Err(settings::has_changed(revision));
        }
        let asked = PutQueue::from_json(&settings::patched(current.as_ref(), &patch)?)?;
        must_be_possible(&app, &asked)?;
        let stored = current.as_ref().and_then(of_queue);
        let receiver = webhooks::checked(&who, settings::of_wire(&asked)?, stored)?;
        let wanted = (receiver, pause_of(&app, &who, &asked));
        let reason = reason_of(&wanted.1);
        let fits = move |number| number == revision;
        match app.engine.put_queue(queue.clone(), wanted.0, wanted.1, who.by(), fits).await? {
            Put::Done(stood) => return changed(&app, &queue, &stood, reason).await,
            Put::Otherwise(_) => {}
        }
    }
    Err(punctual_engine::Error::Contended.into())
}

/// The requested change of the pause, if any.
type PauseChange = Option<Option<Pause>>;

fn pause_of(app: &App, who: &Who, asked: &PutQueue) -> PauseChange {
    let new = |reason| Pause { at: app.engine.now(), by: who.by().to_owned(), reason };
    asked.pause.as_ref().map(|pause| match pause {
        PauseWish::Is(false) => None,
        PauseWish::Is(true) => Some(new(None)),
        PauseWish::Because { reason } => Some(new(reason.clone())),
    })
}

fn reason_of(pause: &PauseChange) -> Option<String> {
    pause.iter().flatten().find_map(|pause| pause.reason.clone())
}

/// Reset the settings of a queue to their defaults.
///
/// The queue's tasks stay. A pause stays until the queue is resumed.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}", operation_id = "reset_queue", tag = "queues",
    params(
        ("queue" = String, Path, description = "The name."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    responses((status = 200, description = "The queue after the change.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn reset_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    put(&app, &who, queue, (QueueSettings::default(), None), (&headers, None)).await
}

async fn put(
    app: &App,
    who: &Who,
    queue: QueueKey,
    (settings, pause): (QueueSettings, PauseChange),
    (headers, expected): (&HeaderMap, Option<i64>),
) -> Result<Response, Refusal> {
    let condition = etag::condition(headers);
    let fits = move |revision| {
        condition.as_deref().is_none_or(|condition| etag::is_revision(condition, revision))
            && expected.is_none_or(|expected| expected == revision)
    };
    let reason = reason_of(&pause);
    match app.engine.put_queue(queue.clone(), settings, pause, who.by(), fits).await? {
        Put::Done(stood) => changed(app, &queue, &stood, reason).await,
        Put::Otherwise(revision) => Err(settings::has_changed(revision)),
    }
}

/// List the changes of the settings of a queue, the newest first.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/changes", operation_id = "list_queue_changes", tag = "queues",
    params(("queue" = String, Path, description = "The name."), SearchChanges),
    responses((status = 200, description = "A page of the list.", body = Page<SettingChange>)),
)]
pub(crate) async fn list_queue_changes(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    Query(asked): Query<SearchChanges>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let before = cursor::before_id(asked.cursor.as_deref())?;
    if !who.reaches(&queue) {
        let none: Page<SettingChange> = Page { items: Vec::new(), next_cursor: None };
        return Ok(answer::json(StatusCode::OK, &none));
    }
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let changes = app.engine.setting_changes(&Scope::Queue(queue), before, limit).await?;
    let next = changes.last().filter(|_| changes.len() == limit).map(|change| cursor::write(change.revision));
    let items = changes.into_iter().map(settings::change).collect::<Result<_, _>>()?;
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: next }))
}

/// Pause a queue.
///
/// After the answer, no task of the queue starts at any engine. Tasks at executors or on the bus continue, and so do
/// inserts, cancels and changes. Pausing a paused queue changes nothing. The body is optional.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pause_queue", tag = "queues",
    params(("queue" = String, Path, description = "The name.")),
    request_body(content = Option<PauseRequest>, example = json!({"reason": "mail provider is down"})),
    responses((status = 200, description = "The queue after the change.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn pause_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    Body(body): Body,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    namespaces::must_be_open(&app, &queue.namespace)?;
    let PauseRequest { reason, by } = PauseRequest::from_json(&body)?;
    let stood = app.engine.pause(queue.clone(), reason.clone(), &who.by_as(by.as_deref())).await?;
    changed(&app, &queue, &stood, reason).await
}

/// Resume a queue.
///
/// Waiting tasks continue in their order. The body is optional; a `reason` is not stored.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resume_queue", tag = "queues",
    params(("queue" = String, Path, description = "The name.")),
    request_body(content = Option<PauseRequest>, example = json!({"by": "ann"})),
    responses((status = 200, description = "The queue after the change.", body = Queue, headers(("ETag" = String)))),
)]
pub(crate) async fn resume_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
    Body(body): Body,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    let PauseRequest { reason, by } = PauseRequest::from_json(&body)?;
    let stood = app.engine.resume(queue.clone(), &who.by_as(by.as_deref())).await?;
    changed(&app, &queue, &stood, reason).await
}

/// Scan a queue now.
///
/// Only for queues whose `source` is `store`. Finds due tasks of the queue in all databases, in time order, and makes
/// each ready in a transaction of its own. Executors then lease them, at most `scan_concurrency` at one time. Answers
/// within 20 s: with `is_complete: false` if a database has not answered by then, and with an error if none has.
/// There is no body.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/scan", operation_id = "scan_queue", tag = "queues",
    params(("queue" = String, Path, description = "The name.")),
    responses((status = 200, description = "The result of the scan.", body = ScanReport)),
)]
pub(crate) async fn scan_queue(
    State(app): State<Shared>,
    who: Who,
    QueueOf(queue): QueueOf,
) -> Result<Response, Refusal> {
    who.must_reach(&queue)?;
    namespaces::must_be_open(&app, &queue.namespace)?;
    let Some(report) = app.engine.scan_queue(queue.clone()).await? else {
        let detail = format!(
            "`source` of queue {:?} is not `store`: its tasks fire by themselves. PATCH /v1/queues/{{queue}} with \
             {{\"source\": \"store\"}} has it scanned",
            queue.queue.as_str()
        );
        return Err(Refusal::new(Code::QueueNotScanned, detail));
    };
    let count = |tasks: usize| u64::try_from(tasks).unwrap_or(u64::MAX);
    let report = ScanReport {
        found: count(report.found),
        handed_over: count(report.handed_over),
        failed: count(report.failed),
        took_ms: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        is_complete: report.is_complete,
    };
    Ok(answer::json(StatusCode::OK, &report))
}

/// The answer after a change. It includes the content of the queue; if that cannot be read, the answer does not state
/// that nothing was done.
async fn changed(
    app: &App,
    queue: &QueueKey,
    stood: &Stood,
    reason: Option<String>,
) -> Result<Response, Refusal> {
    let numbers = Numbers::read(app, MaxAge::NONE).await.map_err(Refusal::after_a_change)?;
    let response = one(app, &numbers, queue, stood.current.as_ref()).await?;
    let changed = settings::recorded(app, &Scope::Queue(queue.clone()), stood.written).await;
    Ok(Changed { reason, ..changed }.reported_with(response))
}

async fn one(
    app: &App,
    numbers: &Numbers,
    queue: &QueueKey,
    current: Option<&StoredSetting>,
) -> Result<Response, Refusal> {
    let mut shown = numbers.shown(queue, current)?;
    // While the limiter is unavailable this is unknown, and nothing of the queue starts.
    if let Some((limit, holders)) = app.engine.holders(queue, SHOWN_MAX).await.ok().flatten() {
        let held = u64::try_from(holders.count).unwrap_or(u64::MAX);
        shown.slots = Some(Slots { limit, held, holders: holders.first.iter().map(holder).collect() });
    }
    let parked = app.engine.parked(queue, SHOWN_MAX).await.unwrap_or_default();
    shown.parked = parked.into_iter().map(put_aside).collect();
    // A store that does not answer leaves only this out.
    let indexing = app.engine.indexing(queue).await.unwrap_or_default();
    shown.indexing = indexing.into_iter().map(|(label, percent)| Indexing { label, percent }).collect();
    shown.counted = counted(app, queue);
    shown.rates = cluster::rates_of(cluster::queue_rates(app).await.as_deref(), queue);
    let tag = [(header::ETAG, etag::of_revision(current.map_or(0, |stored| stored.revision)))];
    Ok((tag, answer::json(StatusCode::OK, &shown)).into_response())
}

/// The counts of this engine.
fn counted(app: &App, queue: &QueueKey) -> Option<QueueCounts> {
    let counts = EngineCounts::of_queue(&app.engine.meters().queue_numbers(queue)?);
    Some(QueueCounts {
        inserted: counts.inserted,
        fired: counts.fired,
        retried: counts.retried,
        dead: counts.dead,
        cancelled: counts.cancelled,
        lateness: cluster::lateness(&counts),
    })
}

/// The numbers of tasks in all queues.
struct Numbers(Arc<Account>);

impl Numbers {
    async fn read(app: &App, MaxAge(max_age): MaxAge) -> Result<Self, Refusal> {
        Ok(Self(app.engine.account(max_age).await?))
    }

    fn shown(&self, queue: &QueueKey, current: Option<&StoredSetting>) -> Result<Queue, Refusal> {
        let mut shown = settings::queue(current)?;
        shown.queue = queue.queue.as_str().to_owned();
        shown.namespace = queue.namespace.as_str().to_owned();
        for tally in self.0.of_queue(queue) {
            shown.tasks.insert(tally.state.word().to_owned(), tally.tasks);
            if !tally.state.is_finished() && !tally.state.is_in_flight() {
                shown.waiting += tally.tasks;
            }
        }
        shown.ready = u64::try_from(self.0.ready(queue)).unwrap_or(u64::MAX);
        Ok(shown)
    }
}
