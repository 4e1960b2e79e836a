//! What a human should look at, as the engine that is asked sees it.

use crate::{answer, app::Shared, extract::Caller, refusal::Refusal};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_engine::Alert as EngineAlert;
use punctual_protocol::{Alert, At, Page, Severity};

/// Active alerts.
///
/// As the engine that is asked sees them: of the namespace's queues, and of the engine itself.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "list_alerts", tag = "operation",
    responses((status = 200, description = "The gravest first.", body = Page<Alert>)),
)]
pub(crate) async fn list_alerts(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    let mine = |it: &EngineAlert| match &it.queue {
        Some(queue) => queue.namespace == caller.namespace && caller.who.reaches(queue),
        // Of the engine itself, and what it does for all.
        None => caller.who.reaches_everything(),
    };
    let items = app.engine.alerts().await?.into_iter().filter(mine).map(alert).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: None }))
}

fn alert(it: EngineAlert) -> Alert {
    Alert {
        name: it.kind.name().to_owned(),
        severity: if it.kind.is_critical() { Severity::Critical } else { Severity::Warning },
        since: At::from_ms(it.since.0),
        since_ms: it.since.0,
        queue: it.queue.map(|it| it.queue.as_str().to_owned()),
        text: it.text,
        what_to_do: it.kind.what_to_do().to_owned(),
    }
}
