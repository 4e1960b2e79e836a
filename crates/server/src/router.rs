//! The routes. Those of the interface are registered together with their documentation; `/docs` is for people and is
//! not part of the interface.

use crate::{
    actions, alerts, answer,
    app::{App, Shared},
    dead, docs, executors, health, idempotency, insert, lookup, metrics, observe, openapi,
    options::ServerOptions,
    origin, queues, roster, settings,
};
use axum::{
    Router,
    http::StatusCode,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use punctual_engine::Engine;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The whole interface as a router, for tests and for embedding; [`crate::serve`] is the way to run it.
pub fn router(engine: Engine, options: ServerOptions) -> Router {
    routes(&App::new(engine, options, None, CancellationToken::new()))
}

/// The document that `/openapi.json` serves.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    openapi::complete(
        OpenApiRouter::with_openapi(openapi::base()).merge(interface()).merge(operation()).into_openapi(),
    )
}

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    serde_json::to_vec_pretty(&document()).expect("a document of strings and numbers has a JSON form").into()
});

pub(crate) fn routes(app: &Shared) -> Router {
    let interface: Router<Shared> = interface().into();
    let interface = interface
        .layer(from_fn_with_state(Arc::clone(app), idempotency::keep_replies))
        .layer(from_fn(observe::refuse_query))
        .layer(from_fn_with_state(Arc::clone(app), observe::shed));
    let operation: Router<Shared> = operation().into();
    Router::new()
        .merge(interface)
        .merge(operation)
        .merge(pages())
        .fallback(observe::unknown_route)
        .layer(from_fn_with_state(Arc::clone(app), origin::refuse_foreign))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn_with_state(Arc::clone(app), observe::observe))
        .with_state(Arc::clone(app))
}

fn interface() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(insert::insert_task, lookup::search_tasks))
        .routes(routes!(insert::insert_batch))
        .routes(routes!(lookup::get_task, actions::patch_task))
        .routes(routes!(lookup::why_task))
        .routes(routes!(actions::cancel_task))
        .routes(routes!(actions::run_task_now))
        .routes(routes!(actions::redrive_task))
        .routes(routes!(executors::lease_tasks))
        .routes(routes!(executors::report_outcomes))
        .routes(routes!(executors::send_heartbeats))
        .routes(routes!(roster::list_executors))
        .routes(routes!(roster::get_executor))
        .routes(routes!(roster::drain_executor))
        .routes(routes!(roster::quiet_executor))
        .routes(routes!(roster::resume_executor))
        .routes(routes!(dead::list_dead))
        .routes(routes!(dead::redrive_dead))
        .routes(routes!(queues::list_queues))
        .routes(routes!(queues::get_queue, queues::put_queue, queues::reset_queue))
        .routes(routes!(queues::list_queue_changes))
        .routes(routes!(alerts::list_alerts))
        .routes(routes!(queues::pause_queue))
        .routes(routes!(queues::resume_queue))
        .routes(routes!(settings::get_namespace, settings::put_namespace))
        .routes(routes!(settings::get_limits, settings::put_limits))
}

fn operation() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::render::get_metrics))
        .routes(routes!(get_openapi))
}

fn pages() -> Router<Shared> {
    Router::new()
        .route("/docs", get(docs::to_index))
        .route("/docs/", get(docs::swagger))
        .route("/docs/{*file}", get(docs::swagger))
        .route("/docs/errors", get(docs::errors))
        .route("/docs/errors/{code}", get(docs::error))
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "operation",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
)]
async fn get_openapi() -> Response {
    answer::json_bytes(StatusCode::OK, DOCUMENT.clone())
}
