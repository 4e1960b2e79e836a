//! The calls that read and change the log filter of this process while it runs. A change applies to the engine that answers,
//! and to no other. Must never write the log itself: the command line does that, behind [`Log`].

pub(crate) mod state;

pub use state::{Log, LogFilters};

use crate::{
    access::Changed,
    answer,
    app::{App, Shared},
    extract::Body,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_protocol::{Code, LogFilter, PutLogFilter};
use serde_json::json;
use std::time::Duration;

fn filters(app: &App) -> Result<&LogFilters, Refusal> {
    let none = || Refusal::new(Code::RequestUnknownRoute, "the log of this server cannot be changed");
    app.options.log.as_ref().ok_or_else(none)
}

/// Get the log filter of this engine.
///
/// Each engine has its own filter.
#[utoipa::path(
    get, path = "/v1/log-filter", operation_id = "get_log_filter", tag = "operation",
    responses((status = 200, description = "The filter, and until when it holds.", body = LogFilter)),
)]
pub(crate) async fn get_log_filter(State(app): State<Shared>) -> Result<Response, Refusal> {
    Ok(answer::json(StatusCode::OK, &filters(&app)?.current()))
}

/// Change the log filter of this engine.
///
/// Until the engine is restarted, or for `for_ms`. Without `filter`, the engine returns to the filter with which it was
/// started.
#[utoipa::path(
    put, path = "/v1/log-filter", operation_id = "put_log_filter", tag = "operation",
    request_body(content = PutLogFilter, example = json!({"filter": "info,punctual_engine=debug", "for_ms": 600_000})),
    responses((status = 200, description = "The filter from now on.", body = LogFilter)),
)]
pub(crate) async fn put_log_filter(State(app): State<Shared>, Body(body): Body) -> Result<Response, Refusal> {
    let asked = PutLogFilter::from_json(&body)?;
    let filters = filters(&app)?.clone();
    let lasts = asked.for_ms.map(Duration::from_millis);
    let until =
        lasts.map(|lasts| app.engine.now().plus(i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX)));
    let (before, after) = filters
        .set(asked.filter.as_deref(), until)
        .map_err(|what| Refusal::field("/filter", format!("is no filter: {what}")))?;
    let set = after.sets;
    let after = filters.shown(after);
    tracing::info!(filter = after.filter, "what is logged was changed");
    if let Some(lasts) = lasts {
        let stopping = app.shutdown.clone();
        app.detached.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(lasts) => filters.end(set),
            }
        });
    }
    let changed = Changed {
        before: Some(json!({ "filter": before.filter }).to_string()),
        after: Some(json!({ "filter": after.filter, "until_ms": after.until_ms }).to_string()),
        reason: None,
    };
    Ok(changed.reported_with(answer::json(StatusCode::OK, &after)))
}
