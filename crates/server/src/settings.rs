//! Settings on the wire and in the domain: both have the same names, so that one is written and read as the other. And
//! the limits of everything.

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    etag,
    extract::Body,
    refusal::Refusal,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use punctual_contract::settings::{SaveSetting, Saved, SettingChange as Change, StoredSetting};
use punctual_domain::settings::{Choice, Keep, QueueSettings, Retries, Scope, ScopeSettings, Setting};
use punctual_protocol::{At, Code, Limits, Pause, PutLimits, PutQueue, Queue, SettingChange};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub(crate) fn turned<T: DeserializeOwned>(from: &impl Serialize) -> Result<T, Refusal> {
    let value = serde_json::to_value(from).and_then(serde_json::from_value);
    value.map_err(|error| Refusal::new(Code::Internal, format!("settings cannot be encoded: {error}")))
}

/// The settings without the pause.
pub(crate) fn of_wire(asked: &PutQueue) -> Result<QueueSettings, Refusal> {
    turned(asked)
}

/// Settings and pause of a queue, without secrets; its names and counts are the caller's to fill in.
pub(crate) fn queue(current: Option<&StoredSetting>) -> Result<Queue, Refusal> {
    let Some(current) = current else { return Ok(Queue::default()) };
    let Setting::Queue(settings) = &current.setting else { return Ok(Queue::default()) };
    let pause = settings.pause.as_ref().map(|pause| Pause {
        at: At::from_ms(pause.at.0),
        at_ms: pause.at.0,
        by: pause.by.clone(),
        reason: pause.reason.clone(),
    });
    let mut queue: Queue = turned(&Bare::of(settings.masked()))?;
    // What is as if it were not set is not shown.
    queue.choice = queue.choice.filter(|_| settings.choice != Choice::default());
    queue.retries = queue.retries.filter(|_| settings.retries != Retries::default());
    queue.keep = queue.keep.filter(|_| settings.keep != Keep::default());
    Ok(Queue {
        pause,
        revision: current.revision,
        updated_at: Some(At::from_ms(current.updated_at.0)),
        updated_at_ms: Some(current.updated_at.0),
        updated_by: Some(current.updated_by.clone()),
        ..queue
    })
}

/// Settings without the pause, which has another shape on the wire.
#[derive(Serialize)]
struct Bare {
    queue: &'static str,
    #[serde(flatten)]
    settings: QueueSettings,
}

impl Bare {
    fn of(settings: QueueSettings) -> Self {
        Self { queue: "", settings: QueueSettings { pause: None, ..settings } }
    }
}

/// The settings of a queue as a put would ask for them, with those that are named in their place. What is answered of a
/// queue beside its settings is passed over by a put.
pub(crate) fn patched(
    current: Option<&StoredSetting>,
    patch: &serde_json::Map<String, Value>,
) -> Result<Vec<u8>, Refusal> {
    let mut asked: serde_json::Map<String, Value> = turned(&queue(current)?)?;
    // A pause stays unless the patch says otherwise.
    asked.remove("pause");
    for (name, value) in patch {
        match value {
            Value::Null => drop(asked.remove(name)),
            value => drop(asked.insert(name.clone(), value.clone())),
        }
    }
    serde_json::to_vec(&asked).map_err(|error| Refusal::new(Code::Internal, error.to_string()))
}

pub(crate) fn change(change: Change) -> Result<SettingChange, Refusal> {
    let settings: Option<Value> = change.setting.map(|setting| all_of(&setting.masked())).transpose()?;
    Ok(SettingChange {
        revision: change.revision,
        changed_at: At::from_ms(change.changed_at.0),
        changed_at_ms: change.changed_at.0,
        changed_by: change.changed_by,
        settings,
    })
}

/// The fields that are set, without the others.
fn all_of(setting: &Setting) -> Result<Value, Refusal> {
    let mut value: Value = match setting {
        Setting::Scope(settings) => turned(settings)?,
        Setting::Queue(settings) => turned(settings)?,
    };
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    Ok(value)
}

pub(crate) fn has_changed(revision: i64) -> Refusal {
    Refusal::new(
        Code::PreconditionFailed,
        format!("its ETag is \"{revision}\" now; look at what has changed, and send that as If-Match"),
    )
}

/// Get the limits of the complete installation.
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "get_limits", tag = "queues",
    responses((status = 200, description = "The limits of all namespaces together.", body = Limits,
        headers(("ETag" = String)))),
)]
pub(crate) async fn get_limits(State(app): State<Shared>) -> Result<Response, Refusal> {
    let current = app.engine.setting(&Scope::Everything).await?;
    reported(current.map(|stored| (stored.setting, stored.revision)))
}

/// Set the limits of the complete installation.
#[utoipa::path(
    put, path = "/v1/limits", operation_id = "put_limits", tag = "queues",
    params(("If-Match" = Option<String>, Header, description = "Set them only if this is the current ETag.")),
    request_body(content = PutLimits, example = json!({"concurrency": 1000})),
    responses((status = 200, description = "The limits after the change.", body = Limits, headers(("ETag" = String)))),
)]
pub(crate) async fn put_limits(
    State(app): State<Shared>,
    who: Who,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let wanted: ScopeSettings = turned(&PutLimits::from_json(&body)?)?;
    let scope = Scope::Everything;
    if wanted.weight.is_some() {
        let detail =
            "has no meaning here: namespaces have weights (PUT /v1/namespaces/{namespace}), and queues";
        return Err(Refusal::field("/weight", detail.to_owned()));
    }
    let mut expected = None;
    if let Some(condition) = etag::condition(&headers) {
        let current = app.engine.setting(&scope).await?.map_or(0, |setting| setting.revision);
        if !etag::is_revision(&condition, current) {
            return Err(has_changed(current));
        }
        expected = Some(current);
    }
    let setting = (wanted != ScopeSettings::default()).then_some(Setting::Scope(wanted));
    let by = who.by().to_owned();
    let asked = SaveSetting { scope: scope.clone(), setting: setting.clone(), expected, by };
    match app.engine.save_setting(asked).await? {
        // From what was committed: a look that fails now must not say that nothing was done.
        Saved::Done(revision) => {
            let response = reported(setting.map(|setting| (setting, revision)))?;
            Ok(recorded(&app, &scope, Some(revision)).await.reported_with(response))
        }
        Saved::Conflict(revision) => Err(has_changed(revision)),
    }
}

/// The last change of a scope in its history, for the audit: that line, and the one before it, whatever others have
/// changed since. `written` is its revision. Empty if nothing was written, or it cannot be read.
pub(crate) async fn recorded(app: &App, scope: &Scope, written: Option<i64>) -> Changed {
    let Some(written) = written.filter(|revision| *revision > 0) else { return Changed::default() };
    let changes = app.engine.setting_changes(scope, Some(written + 1), 2).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what was changed is not in the audit; it is in the history of its settings");
        Vec::new()
    });
    let mut changes = changes.into_iter();
    let json = |change: Option<Change>| {
        change.and_then(|change| change.setting).map(|setting| setting.masked().to_json())
    };
    match changes.next().filter(|change| change.revision == written) {
        Some(last) => Changed { before: json(changes.next()), after: json(Some(last)), reason: None },
        None => Changed::default(),
    }
}

/// The answer with its revision. `None` if nothing is set.
fn reported(current: Option<(Setting, i64)>) -> Result<Response, Refusal> {
    let revision = current.as_ref().map_or(0, |pair| pair.1);
    let mut limits = match current {
        Some((Setting::Scope(settings), _)) => turned(&settings)?,
        _ => Limits::default(),
    };
    limits.revision = revision;
    let tag = [(header::ETAG, etag::of_revision(revision))];
    Ok((tag, answer::json(StatusCode::OK, &limits)).into_response())
}
