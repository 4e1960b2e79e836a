//! Schedules: stored, changed, paused, run manually, and what became of their runs. A token sees and changes those whose
//! tasks go to queues that it reaches. What a schedule means is the planner's and the domain's.

mod wire;

pub(crate) use wire::template;

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    cursor, etag,
    extract::{Body, Caller, Query, ScheduleName},
    namespaces,
    refusal::Refusal,
    set_aside,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::schedules::{ScheduleKey, StoredSchedule};
use punctual_domain::{
    name::{Name, QueueKey},
    schedule::Schedule,
    time::Millis,
};
use punctual_protocol::{
    BackfillAnswer, BackfillSchedule, Code, HowMany, ListSchedules, Page, PauseRequest, PauseSchedule,
    PutSchedule, RunsTakenBack, Schedule as Shown, ScheduleRun, UpcomingRun, limits::PAGE_DEFAULT,
};
use punctual_schedules::{Error, Planner, TakenBack, Upcoming};
use serde_json::{Map, Value};

/// Changes that are read again because another was faster: only where the caller has not said which revision is meant.
const RACES_MAX: usize = 32;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => no_schedule(),
            Error::Otherwise(revision) => {
                let detail = match revision {
                    0 => "there is no schedule of this name".to_owned(),
                    _ => format!(
                        "its ETag is \"{revision}\" now; look at what has changed, and send that as If-Match"
                    ),
                };
                Self::new(Code::PreconditionFailed, detail)
            }
            Error::Invalid(invalid) => Self::field(&format!("/{}", invalid.field), invalid.problem),
            Error::Contended => Self::new(Code::ScheduleContended, error.to_string()),
            Error::Busy => Self::new(Code::ExpressionBusy, error.to_string()),
            Error::Budget(invalid) => {
                Self::new(Code::ExpressionBudget, format!("/{}: {}", invalid.field, invalid.problem))
            }
            Error::Engine(error) => error.into(),
        }
    }
}

fn planner(app: &App) -> Result<&Planner, Refusal> {
    let none = || Refusal::new(Code::RequestUnknownRoute, "this server was started without schedules");
    app.options.schedules.as_ref().ok_or_else(none)
}

fn queue_of(key: &ScheduleKey, schedule: &Schedule) -> QueueKey {
    QueueKey { namespace: key.namespace.clone(), queue: schedule.task.queue.clone() }
}

/// Also of one that the token does not see.
fn no_schedule() -> Refusal {
    Refusal::new(Code::ScheduleNotFound, "the namespace has no schedule of this name")
}

/// A planner that only has schedules whose queues the token reaches, also while another caller replaces one.
fn planner_of(app: &App, who: &Who) -> Result<Planner, Refusal> {
    let who = who.clone();
    Ok(planner(app)?.seen_by(move |schedule| who.reaches(&queue_of(&schedule.key, &schedule.schedule))))
}

async fn shown(app: &App, stored: &StoredSchedule) -> Result<Shown, Refusal> {
    let next = planner(app)?.next(stored, 1).await?.first().map(|upcoming| upcoming.at);
    let set_aside = set_aside::of(&planner(app)?.set_aside().await?, stored.id);
    Ok(Shown { set_aside, ..wire::shown(stored, app.engine.now(), next) })
}

fn one(status: StatusCode, shown: &Shown) -> Response {
    let tag = [(header::ETAG, etag::of_revision(shown.revision))];
    (tag, answer::json(status, shown)).into_response()
}

/// The answer after a change, with the revoked runs, and with the data for the audit.
async fn changed(app: &App, taken: &TakenBack, reason: Option<String>) -> Result<Response, Refusal> {
    let before = taken.before.as_ref();
    let mut after = shown(app, &taken.schedule).await?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let counts = RunsTakenBack { cancelled: count(taken.cancelled), fired: count(taken.fired) };
    after.taken_back = Some(counts);
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let json = |schedule: &Schedule| serde_json::to_string(schedule).ok();
    let audited = Changed {
        before: before.and_then(|schedule| json(&schedule.schedule)),
        after: json(&taken.schedule.schedule),
        reason,
    };
    Ok(audited.reported_with(one(status, &after)))
}

/// List the schedules of the namespace.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules", params(ListSchedules),
    responses((status = 200, description = "A page of the list, by name.", body = Page<Shown>)),
)]
pub(crate) async fn list_schedules(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<ListSchedules>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let after = asked.cursor.as_deref().map(|cursor| cursor.strip_prefix("n:")).map(|text| {
        text.ok_or_else(|| Refusal::field("/cursor", "is not a `next_cursor` that this server has answered"))
    });
    let after = after.transpose()?.unwrap_or_default();
    let all = match caller.who.reaches_namespace(&caller.namespace) {
        true => planner(&app)?.list(&caller.namespace, after, limit).await?,
        false => Vec::new(),
    };
    let next_cursor =
        all.last().filter(|_| all.len() == limit).map(|schedule| format!("n:{}", schedule.key.name));
    let seen =
        all.into_iter().filter(|schedule| caller.who.reaches(&queue_of(&schedule.key, &schedule.schedule)));
    let seen: Vec<StoredSchedule> = seen.collect();
    let next = planner(&app)?.next_of_each(seen.clone(), 1).await?;
    let all_set_aside = planner(&app)?.set_aside().await?;
    let now = app.engine.now();
    let one = |(stored, next): (&StoredSchedule, Result<Vec<Upcoming>, Error>)| {
        let set_aside = set_aside::of(&all_set_aside, stored.id);
        Ok::<_, Refusal>(Shown {
            set_aside,
            ..wire::shown(stored, now, next?.first().map(|upcoming| upcoming.at))
        })
    };
    let items = seen.iter().zip(next).map(one).collect::<Result<Vec<Shown>, _>>()?;
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// Get a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}", operation_id = "get_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name.")),
    responses((status = 200, description = "The schedule.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn get_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
) -> Result<Response, Refusal> {
    let stored = planner_of(&app, &who)?.get(&key).await?;
    Ok(one(StatusCode::OK, &shown(&app, &stored).await?))
}

/// Create or replace a schedule.
///
/// Omitted fields get their default; only a pause stays. Runs that the replaced schedule made in advance and that have not
/// fired are cancelled: `taken_back` counts them. `If-Match: "0"` only creates.
#[utoipa::path(
    put, path = "/v1/schedules/{schedule}", operation_id = "put_schedule", tag = "schedules",
    params(
        ("schedule" = String, Path, description = "The name."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    request_body(content = PutSchedule, example = json!({
        "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin", "overlap": "skip",
        "task": {"queue": "mail", "kind": "digest", "payload": {"list": "all"}}
    })),
    responses(
        (status = 200, description = "The schedule was replaced.", body = Shown, headers(("ETag" = String))),
        (status = 201, description = "The schedule was created.", body = Shown, headers(("ETag" = String))),
    ),
)]
pub(crate) async fn put_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let schedule = wire::domain(PutSchedule::from_json(&body)?)?;
    who.must_reach(&queue_of(&key, &schedule))?;
    namespaces::must_be_open(&app, &key.namespace)?;
    let condition = etag::condition(&headers);
    let is_meant =
        |revision: i64| condition.as_deref().is_none_or(|condition| etag::is_revision(condition, revision));
    for _ in 0..RACES_MAX {
        // A caller that may not see the stored schedule does not replace it, even if it was stored meanwhile.
        let stood = stored_schedule(&app, &who, &key).await?.map_or(0, |schedule| schedule.revision);
        let fits = |revision: i64| revision == stood && is_meant(revision);
        match planner(&app)?.put(&key, schedule.clone(), who.by(), fits).await {
            Err(Error::Otherwise(_)) if condition.is_none() => {}
            taken => return changed(&app, &taken?, None).await,
        }
    }
    Err(Error::Contended.into())
}

/// The schedule that is stored under a name, if this token may replace it.
async fn stored_schedule(app: &App, who: &Who, key: &ScheduleKey) -> Result<Option<StoredSchedule>, Refusal> {
    match planner(app)?.get(key).await {
        Ok(stored) => {
            who.must_reach(&queue_of(key, &stored.schedule))?;
            Ok(Some(stored))
        }
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Change some fields of a schedule.
///
/// A JSON merge patch (RFC 7396); `payload` is replaced entirely. As with `PUT`, runs that were made in advance are
/// cancelled.
#[utoipa::path(
    patch, path = "/v1/schedules/{schedule}", operation_id = "patch_schedule", tag = "schedules",
    params(
        ("schedule" = String, Path, description = "The name."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    request_body(content = Object, example = json!({"cron": "0 10 * * *", "task": {"priority": 1}})),
    responses((status = 200, description = "The schedule after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn patch_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let patch: Map<String, Value> = punctual_protocol::parse(&body)?;
    let planner = planner_of(&app, &who)?;
    let condition = etag::condition(&headers);
    let is_meant =
        |revision: i64| condition.as_deref().is_none_or(|condition| etag::is_revision(condition, revision));
    for _ in 0..RACES_MAX {
        let before = planner.get(&key).await?;
        let after = patched(&app, &before, patch.clone())?;
        who.must_reach(&queue_of(&key, &after))?;
        // What was read is what is changed.
        let fits = |revision: i64| revision == before.revision && is_meant(revision);
        match planner.patch(&key, who.by(), fits, |_| Ok(after.clone())).await {
            Err(Error::Otherwise(_)) if condition.is_none() => {}
            taken => return changed(&app, &taken?, None).await,
        }
    }
    Err(Error::Contended.into())
}

fn patched(app: &App, before: &StoredSchedule, patch: Map<String, Value>) -> Result<Schedule, Refusal> {
    const TWINS: [(&str, &str); 2] = [("start_at", "start_at_ms"), ("end_at", "end_at_ms")];
    let internal = |error: serde_json::Error| Refusal::new(Code::Internal, error.to_string());
    let mut whole = serde_json::to_value(wire::shown(before, app.engine.now(), None)).map_err(internal)?;
    let keeps_payload = !patch
        .get("task")
        .and_then(Value::as_object)
        .is_some_and(|task| task.contains_key("payload") || task.contains_key("payload_base64"));
    let fields =
        whole.as_object_mut().ok_or_else(|| Refusal::new(Code::Internal, "a schedule is an object"))?;
    for (plain, twin) in TWINS {
        if patch.contains_key(twin) {
            fields.remove(plain);
        }
    }
    for (name, value) in patch {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(task)), Value::Object(of_task)) if name == "task" => {
                if of_task.contains_key("payload") || of_task.contains_key("payload_base64") {
                    task.remove("payload");
                    task.remove("payload_base64");
                }
                merge(task, of_task);
            }
            (_, Value::Null) => drop(fields.remove(&name)),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
    let text = serde_json::to_vec(&whole).map_err(internal)?;
    let mut after = wire::domain(PutSchedule::from_json(&text)?)?;
    if keeps_payload {
        // Letter for letter.
        after.task.payload.clone_from(&before.schedule.task.payload);
    }
    Ok(after)
}

fn merge(into: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => drop(into.remove(&name)),
            value => drop(into.insert(name, value)),
        }
    }
}

/// Delete a schedule.
///
/// Runs that were made in advance and have not fired are cancelled first. The schedule's history is stored for some
/// time, but is not shown any more.
#[utoipa::path(
    delete, path = "/v1/schedules/{schedule}", operation_id = "delete_schedule", tag = "schedules",
    params(
        ("schedule" = String, Path, description = "The name."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag."),
    ),
    responses((status = 200, description = "The schedule as it was at its end.", body = Shown)),
)]
pub(crate) async fn delete_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let planner = planner_of(&app, &who)?;
    let condition = etag::condition(&headers);
    let fits =
        |revision: i64| condition.as_deref().is_none_or(|condition| etag::is_revision(condition, revision));
    let taken = planner.delete(&key, who.by(), fits).await?;
    changed(&app, &taken, None).await
}

/// List the next runs of a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}/next", operation_id = "next_of_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name."), HowMany),
    responses((status = 200, description = "Up to `n` of them; none, while it is paused or not enabled.",
        body = Page<UpcomingRun>)),
)]
pub(crate) async fn next_of_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    Query(asked): Query<HowMany>,
) -> Result<Response, Refusal> {
    let count = usize::try_from(asked.check()?).unwrap_or(0);
    let stored = planner_of(&app, &who)?.get(&key).await?;
    let next = planner(&app)?.next(&stored, count).await?;
    let items = next.into_iter().map(wire::upcoming).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: None }))
}

/// List the runs that a schedule would have, without storing it.
#[utoipa::path(
    post, path = "/v1/schedules/preview", operation_id = "preview_schedule", tag = "schedules", params(HowMany),
    request_body(content = PutSchedule, example = json!({
        "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "task": {"queue": "mail"}
    })),
    responses((status = 200, description = "Up to `n` of them. With jitter they are those of a schedule called `preview`.",
        body = Page<UpcomingRun>)),
)]
pub(crate) async fn preview_schedule(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<HowMany>,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let count = usize::try_from(asked.check()?).unwrap_or(0);
    let schedule = wire::domain(PutSchedule::from_json(&body)?)?;
    let name = Name::new("preview").map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    let key = ScheduleKey { namespace: caller.namespace, name };
    let next = planner(&app)?.preview(&key, schedule, count).await?;
    let items = next.into_iter().map(wire::upcoming).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: None }))
}

/// Pause a schedule.
///
/// After the answer, no run of the schedule fires. Pausing a paused schedule changes nothing, unless `until` is given. The
/// body is optional.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", operation_id = "pause_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name.")),
    request_body(content = Option<PauseSchedule>, example = json!({"reason": "the printer burns"})),
    responses((status = 200, description = "The schedule after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn pause_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = PauseSchedule::from_json(&body)?;
    let by = who.by_as(asked.by.as_deref());
    let until = asked.until_ms().map(Millis);
    let taken = planner_of(&app, &who)?.pause(&key, asked.reason.clone(), until, &by).await?;
    changed(&app, &taken, asked.reason).await
}

/// Resume a schedule.
///
/// Missed runs are handled according to `missed`. The body is optional.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", operation_id = "resume_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name.")),
    request_body(content = Option<PauseRequest>, example = json!({"by": "ann"})),
    responses((status = 200, description = "The schedule after the change.", body = Shown, headers(("ETag" = String)))),
)]
pub(crate) async fn resume_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let PauseRequest { reason, by } = PauseRequest::from_json(&body)?;
    let taken = planner_of(&app, &who)?.resume(&key, &who.by_as(by.as_deref())).await?;
    changed(&app, &taken, reason).await
}

/// Run the task of a schedule now.
///
/// In addition to its own runs, regardless of its policies, and also while it is paused.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/run", operation_id = "run_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name.")),
    responses((status = 200, description = "The run, with its task.", body = ScheduleRun)),
)]
pub(crate) async fn run_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
) -> Result<Response, Refusal> {
    let planner = planner_of(&app, &who)?;
    planner.get(&key).await?;
    namespaces::must_be_open(&app, &key.namespace)?;
    let run = wire::run(planner.run_now(&key).await?);
    Ok(made(serde_json::to_value(&run), answer::json(StatusCode::OK, &run)))
}

/// Make the runs of a past range of time.
///
/// Up to 10,000 runs, `rate` of them per second. If the call is repeated while the schedule has not changed, no run is made
/// twice.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/backfill", operation_id = "backfill_schedule", tag = "schedules",
    params(("schedule" = String, Path, description = "The name.")),
    request_body(content = BackfillSchedule, example = json!({
        "from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "rate": 10
    })),
    responses((status = 200, description = "The runs that were made.", body = BackfillAnswer)),
)]
pub(crate) async fn backfill_schedule(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let (asked, from, to) = BackfillSchedule::from_json(&body)?;
    let range = serde_json::json!({ "from_ms": from, "to_ms": to, "rate": asked.rate });
    let planner = planner_of(&app, &who)?;
    planner.get(&key).await?;
    namespaces::must_be_open(&app, &key.namespace)?;
    let made = planner.backfill(&key, Millis(from), Millis(to), asked.rate).await?;
    let answer = BackfillAnswer {
        runs: u64::try_from(made.found).unwrap_or(u64::MAX),
        first_at_ms: made.first_at.map(|first_at| first_at.0),
        last_at_ms: made.last_at.map(|last_at| last_at.0),
        until_ms: made.until.map(|at| at.0),
    };
    let reported =
        serde_json::to_value(&answer).map(|answer| serde_json::json!({ "asked": range, "made": answer }));
    Ok(self::made(reported, answer::json(StatusCode::OK, &answer)))
}

/// Adds the created object to the answer, for the audit.
fn made(what: serde_json::Result<Value>, response: Response) -> Response {
    Changed { after: what.ok().map(|value| value.to_string()), ..Changed::default() }.reported_with(response)
}

/// List the past runs of a schedule and their results.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}/runs", operation_id = "list_schedule_runs", tag = "schedules",
    params(("schedule" = String, Path, description = "The name."), ListSchedules),
    responses((status = 200, description = "A page of them, the latest instant first.", body = Page<ScheduleRun>)),
)]
pub(crate) async fn list_schedule_runs(
    State(app): State<Shared>,
    who: Who,
    ScheduleName(key): ScheduleName,
    Query(asked): Query<ListSchedules>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let before = cursor::before_id(asked.cursor.as_deref())?.map(Millis);
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let (_, runs) = planner_of(&app, &who)?.runs(&key, before, limit).await?;
    let next_cursor = runs.last().filter(|_| runs.len() >= limit).map(|run| cursor::write(run.key.at.0));
    let items = runs.into_iter().map(wire::run).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}
