//! Liveness and readiness of the process. Cheap: monitors ask every few seconds.

use crate::{
    access::{self, Who},
    answer,
    app::{App, Shared},
    refusal::Refusal,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use punctual_protocol::{Code, Problem};
use serde::Serialize;
use std::time::Duration;

/// A part that takes longer than this to answer is not ready.
const PATIENCE: Duration = Duration::from_secs(2);
const HOT: &str = "hot";
const STORE: &str = "store";
const WRITERS: &str = "writers";

/// The process answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Liveness {
    #[schema(example = "alive")]
    status: &'static str,
}

/// States if requests can be served, and lists each part that this depends on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Readiness {
    /// `ready`; or `degraded`, while the hot set is unavailable (tasks are accepted and stored, and fire from the
    /// store), or one database of several (its tasks wait, everything else continues).
    #[schema(example = "ready")]
    status: &'static str,
    parts: Vec<Part>,
}

/// A part of the server.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Part {
    #[schema(example = "store")]
    name: &'static str,
    ok: bool,
    /// A sentence for people. What is wrong with a server may name where it is: once there are tokens, it is shown to those
    /// that may read the metrics.
    #[schema(example = "answers")]
    detail: String,
}

const REASON_HIDDEN: &str =
    "not ready; the reason is in the log, and is shown to tokens that may read metrics";

impl Part {
    fn without_detail(self) -> Self {
        let detail = if self.ok { "ready" } else { REASON_HIDDEN };
        Self { detail: detail.to_owned(), ..self }
    }
}

/// The problem of a server that cannot serve.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only its schema is used: `Problem` carries the parts as an extension")]
pub(crate) struct NotReady {
    #[schema(inline = false)]
    #[serde(flatten)]
    problem: Problem,
    parts: Vec<Part>,
}

/// Check that the process runs.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "operation",
    responses((status = 200, description = "The process runs.", body = Liveness)),
)]
pub(crate) async fn livez() -> Response {
    answer::json(StatusCode::OK, &Liveness { status: "alive" })
}

/// Check that the server can serve.
///
/// It can if its store answers and can be written, all services that make tasks fire run, and it is not stopping. An
/// unavailable hot set does not make a server unready: all engines share it, and due tasks fire from the store meanwhile.
/// No token is needed, but an invalid one is refused.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "operation",
    responses(
        (status = 200, description = "The server can serve. `parts` says whether all parts are ready.", body = Readiness),
        (status = 503, description = "The store does not answer or cannot be written, what fires tasks is not at work, or the server is stopping.", body = NotReady, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn readyz(
    State(app): State<Shared>,
    who: Who,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let mut parts = vec![
        engine(&app),
        known("services", app.engine.can_fire(), "at work"),
        store(&app).await,
        writers(&app),
        hot(&app).await,
    ];
    let known = tokio::time::timeout(PATIENCE, app.engine.access_is_known()).await;
    let may_know = match known {
        Ok(Ok(())) => match access::may_read_metrics(&app, &headers, who.address).await {
            Ok(may_know) => may_know,
            Err(refusal) => return Ok(access::challenged(refusal)),
        },
        _ => false,
    };
    if !may_know {
        parts = parts.into_iter().map(Part::without_detail).collect();
    }
    // All engines share them: a balancer that avoids this engine because one of them is unavailable stops what is healthy, too.
    let some_write = app.engine.can_write().is_ok() && app.engine.store().parts() > 1;
    let may_be_away = |name| name == HOT || (some_write && (name == STORE || name == WRITERS));
    if parts.iter().all(|part| part.ok || may_be_away(part.name)) {
        let status = if parts.iter().all(|part| part.ok) { "ready" } else { "degraded" };
        return Ok(answer::json(StatusCode::OK, &Readiness { status, parts }));
    }
    let is_broken = |name| parts.iter().any(|part| part.name == name && !part.ok);
    let code = match (is_broken("engine"), is_broken("services")) {
        (true, _) => Code::Stopping,
        (false, true) => Code::NotFiring,
        (false, false) => Code::StoreUnavailable,
    };
    let broken: Vec<&str> = parts.iter().filter(|part| !part.ok).map(|part| part.name).collect();
    let mut problem = Problem::new(code, format!("not ready: {}", broken.join(", "))).retry_after_ms(1_000);
    let parts = serde_json::to_value(parts).unwrap_or_default();
    problem.extensions.insert("parts".to_owned(), parts);
    Err(problem.into())
}

fn engine(app: &App) -> Part {
    let ok = !app.engine.is_stopping() && !app.shutdown.is_cancelled();
    Part { name: "engine", ok, detail: if ok { "runs" } else { "is stopping" }.to_owned() }
}

/// A part that is checked all the time.
fn known(name: &'static str, found: Result<(), String>, well: &str) -> Part {
    let ok = found.is_ok();
    Part { name, ok, detail: found.err().unwrap_or_else(|| well.to_owned()) }
}

fn writers(app: &App) -> Part {
    let problems = app.engine.write_problems();
    let detail = if problems.is_empty() { "write".to_owned() } else { problems.join("; ") };
    Part { name: WRITERS, ok: problems.is_empty(), detail }
}

async fn store(app: &App) -> Part {
    part(STORE, async { app.engine.store().books().await.map(|_| ()).map_err(|error| error.to_string()) })
        .await
}

async fn hot(app: &App) -> Part {
    if !app.engine.has_hot_set() {
        return Part { name: HOT, ok: true, detail: "none is set; tasks fire from the store".to_owned() };
    }
    let part =
        part(HOT, async { app.engine.depth().await.map(|_| ()).map_err(|error| error.to_string()) }).await;
    match app.engine.hot_fullness() {
        fullness @ 1.. if part.ok => {
            Part { detail: format!("answers; {} % of its memory is used", fullness / 10), ..part }
        }
        _ => part,
    }
}

async fn part(name: &'static str, asked: impl Future<Output = Result<(), String>>) -> Part {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(())) => Part { name, ok: true, detail: "answers".to_owned() },
        Ok(Err(error)) => Part { name, ok: false, detail: error },
        Err(_) => Part { name, ok: false, detail: format!("does not answer within {PATIENCE:?}") },
    }
}
