//! The routes. Those of the interface are registered together with their documentation; `/docs` is for people and is
//! not part of the interface.

use crate::{
    access::{self, Guarded, Needs, Reach},
    actions, alerts, answer,
    app::{App, Shared},
    audit, bulk, cluster, dead, docs, executors, health, idempotency, insert, log_filter, lookup, metrics,
    namespaces, observe, openapi,
    options::ServerOptions,
    origin, queues, roster, schedules, settings, tokens, workflows,
};
use axum::{
    Router,
    http::StatusCode,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use punctual_domain::access::Permission;
use punctual_engine::Engine;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::routes;

/// The whole interface as a router, for tests and for embedding; [`crate::serve`] is the way to run it.
pub fn router(engine: Engine, options: ServerOptions) -> Router {
    routes(&App::new(engine, options, None, CancellationToken::new()))
}

/// The document that `/openapi.json` serves.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    openapi::complete(interface().merge(operation()).document(openapi::base()))
}

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    serde_json::to_vec_pretty(&document()).expect("a document of strings and numbers has a JSON form").into()
});

pub(crate) fn routes(app: &Shared) -> Router {
    let interface: Router<Shared> = interface().apart().0.into();
    let interface = interface
        .layer(from_fn_with_state(Arc::clone(app), idempotency::keep_replies))
        .layer(from_fn(observe::refuse_query))
        .layer(from_fn_with_state(Arc::clone(app), observe::shed));
    let operation: Router<Shared> = operation().apart().0.into();
    Router::new()
        .merge(interface)
        .merge(operation)
        .merge(pages())
        .fallback(observe::unknown_route)
        .layer(from_fn_with_state(Arc::clone(app), access::guard))
        .layer(from_fn(observe::refuse_malformed))
        .layer(from_fn_with_state(Arc::clone(app), origin::refuse_foreign))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn_with_state(Arc::clone(app), observe::observe))
        .with_state(Arc::clone(app))
}

/// Every route of the interface, with the permission that it needs and who looks at what the token reaches.
fn interface() -> Guarded {
    of_tasks().merge(of_workflows()).merge(of_the_cluster())
}

fn of_tasks() -> Guarded {
    use Permission::{
        ChangeTasks, Execute, Insert, ManageAccess, ManageNamespaces, ManageSchedules, Operate, Read,
        ReadAudit, Redrive,
    };
    use Reach::{Everything, Namespace, Own};
    Guarded::new()
        .needing(Insert, Namespace, routes!(insert::insert_task))
        .needing(Read, Own, routes!(lookup::search_tasks))
        .needing(Insert, Own, routes!(insert::insert_batch))
        .needing(Read, Own, routes!(lookup::get_task))
        .needing(ChangeTasks, Own, routes!(actions::patch_task))
        .needing(Read, Own, routes!(lookup::why_task))
        .needing(ChangeTasks, Own, routes!(actions::cancel_task))
        .needing(ChangeTasks, Own, routes!(actions::run_task_now))
        .needing(Redrive, Own, routes!(actions::redrive_task))
        .needing(ChangeTasks, Own, routes!(actions::bury_task))
        .needing(Operate, Own, routes!(actions::delete_task))
        .needing(Execute, Namespace, routes!(executors::lease_tasks))
        .needing(Execute, Own, routes!(executors::report_outcomes))
        .needing(Execute, Own, routes!(executors::send_heartbeats))
        .needing(Read, Own, routes!(roster::list_executors))
        .needing(Read, Own, routes!(roster::get_executor))
        .needing(Operate, Own, routes!(roster::drain_executor))
        .needing(Operate, Own, routes!(roster::quiet_executor))
        .needing(Operate, Own, routes!(roster::resume_executor))
        .needing(Read, Own, routes!(dead::list_dead))
        .needing(Redrive, Own, routes!(dead::redrive_dead))
        .needing(Read, Own, routes!(queues::list_queues))
        .needing(Read, Own, routes!(queues::get_queue))
        .needing(Operate, Namespace, routes!(queues::put_queue, queues::patch_queue, queues::reset_queue))
        .needing(Read, Own, routes!(queues::list_queue_changes))
        .needing(Read, Own, routes!(alerts::list_alerts))
        .needing(Operate, Namespace, routes!(queues::pause_queue))
        .needing(Operate, Namespace, routes!(queues::resume_queue))
        .needing(Read, Own, routes!(namespaces::list_namespaces))
        .needing(Read, Own, routes!(namespaces::get_namespace))
        .needing(ManageNamespaces, Own, routes!(namespaces::put_namespace, namespaces::delete_namespace))
        .needing(Read, Everything, routes!(settings::get_limits))
        .needing(ManageNamespaces, Everything, routes!(settings::put_limits))
        .needing(ManageAccess, Own, routes!(tokens::create_token, tokens::list_tokens))
        .needing(ManageAccess, Own, routes!(tokens::revoke_token))
        .needing(ManageAccess, Own, routes!(tokens::rotate_token))
        .needing(ReadAudit, Own, routes!(audit::list_audit))
        .needing(Read, Own, routes!(schedules::list_schedules))
        .needing(Read, Own, routes!(schedules::get_schedule))
        .needing(
            ManageSchedules,
            Namespace,
            routes!(schedules::put_schedule, schedules::patch_schedule, schedules::delete_schedule),
        )
        .needing(Read, Own, routes!(schedules::preview_schedule))
        .needing(Read, Own, routes!(schedules::next_of_schedule))
        .needing(Read, Own, routes!(schedules::list_schedule_runs))
        .needing(ManageSchedules, Own, routes!(schedules::pause_schedule))
        .needing(ManageSchedules, Own, routes!(schedules::resume_schedule))
        .needing(ManageSchedules, Own, routes!(schedules::run_schedule))
        .needing(ManageSchedules, Own, routes!(schedules::backfill_schedule))
        .needing(ChangeTasks, Own, routes!(bulk::create_bulk))
        .needing(Read, Own, routes!(bulk::list_bulk))
        .needing(Read, Own, routes!(bulk::get_bulk))
        .needing(Read, Own, routes!(bulk::list_bulk_tasks))
        .needing(Read, Own, routes!(bulk::list_bulk_failures))
        .needing(ChangeTasks, Own, routes!(bulk::confirm_bulk))
        .needing(ChangeTasks, Own, routes!(bulk::pause_bulk))
        .needing(ChangeTasks, Own, routes!(bulk::resume_bulk))
        .needing(ChangeTasks, Own, routes!(bulk::stop_bulk))
        .needing(ChangeTasks, Own, routes!(bulk::repeat_bulk))
}

/// The part of workflows.
fn of_workflows() -> Guarded {
    use Permission::{ChangeTasks, Insert, Read};
    use Reach::{Namespace, Own};
    Guarded::new()
        .needing(Insert, Namespace, routes!(workflows::create_workflow))
        .needing(Read, Own, routes!(workflows::list_workflows))
        .needing(Read, Own, routes!(workflows::get_workflow))
        .needing(Read, Own, routes!(workflows::draw_workflow))
        .needing(ChangeTasks, Own, routes!(workflows::cancel_workflow))
        .needing(ChangeTasks, Own, routes!(workflows::retry_workflow))
        .needing(ChangeTasks, Own, routes!(workflows::skip_node))
        .needing(Insert, Own, routes!(workflows::rerun_workflow))
}

/// The part of what all engines are together.
fn of_the_cluster() -> Guarded {
    use Permission::{Operate, Read};
    use Reach::Everything;
    Guarded::new()
        .needing(Read, Everything, routes!(cluster::list_events))
        .needing(Read, Everything, routes!(cluster::list_engines))
        .needing(Read, Everything, routes!(cluster::list_partitions))
        .needing(Read, Everything, routes!(cluster::list_shards))
        .needing(Read, Everything, routes!(cluster::get_stats))
        .needing(Read, Everything, routes!(cluster::get_due))
        .needing(Read, Everything, routes!(log_filter::get_log_filter))
        .needing(Operate, Everything, routes!(log_filter::put_log_filter))
}

fn operation() -> Guarded {
    Guarded::new()
        .open(routes!(health::livez))
        .open(routes!(health::readyz))
        .needing(Permission::ReadMetrics, Reach::Everything, routes!(metrics::render::get_metrics))
        .open(routes!(get_openapi))
}

/// What each route needs.
pub(crate) fn needs() -> Needs {
    let mut needs = interface().merge(operation()).apart().1;
    for page in PAGES {
        needs.open(page);
    }
    needs
}

/// Pages for people: they say nothing of what is here.
const PAGES: [&str; 6] = ["/", "/docs", "/docs/", "/docs/{*file}", "/docs/errors", "/docs/errors/{code}"];

fn pages() -> Router<Shared> {
    Router::new()
        .route("/", get(docs::to_documentation))
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
