//! The routes. Those of the interface are registered together with their documentation; `/docs` is for people and is
//! not part of the interface.

use crate::{
    access::{self, Guarded, Needs, Recorded, ScopeCheck},
    actions, alerts, answer,
    app::{App, Shared},
    audit, bulk, cluster, console, dead, docs, executors, health, idempotency, inboxes, insert, ledger,
    log_filter, lookup, me, metrics, namespaces, observe, openapi,
    options::ServerOptions,
    origin, queues, roster, schedules, settings, tokens, workflows,
};
use axum::{
    Router,
    http::{Method, StatusCode},
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{MethodRouter, get},
};
use bytes::Bytes;
use punctual_domain::access::Permission;
use punctual_engine::Engine;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::routes;

/// The complete interface as a router, for tests and for embedding; [`crate::serve`] is the way to run it.
pub fn router(engine: Engine, options: ServerOptions) -> Router {
    routes(&App::new(engine, options, needs(), None, CancellationToken::new()))
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
    let console = console::over(layered(Router::new(), app), app);
    layered(console, app)
}

/// The interface, and what is beside it, with what every request passes.
fn layered(beside: Router, app: &Shared) -> Router {
    let interface = REGISTERED
        .interface
        .clone()
        .layer(from_fn_with_state(Arc::clone(app), idempotency::keep_replies))
        .layer(from_fn(observe::refuse_query))
        .layer(from_fn_with_state(Arc::clone(app), observe::shed));
    Router::new()
        .merge(interface)
        .merge(REGISTERED.operation.clone())
        .merge(pages().into_iter().fold(Router::new(), |all, (path, page)| all.route(path, page)))
        .merge(beside.with_state(()))
        .fallback(observe::unknown_route)
        .layer(from_fn_with_state(Arc::clone(app), access::guard))
        .layer(from_fn_with_state(Arc::clone(app), origin::refuse_foreign))
        .layer(from_fn(observe::refuse_malformed))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn_with_state(Arc::clone(app), observe::observe))
        .layer(from_fn_with_state(Arc::clone(app), observe::protect))
        .with_state(Arc::clone(app))
}

/// The registered routes, without their documentation, which takes longer than everything else of a start, and is the
/// same for every server of a process.
struct Registered {
    interface: Router<Shared>,
    operation: Router<Shared>,
    needs: Needs,
}

static REGISTERED: LazyLock<Registered> = LazyLock::new(|| {
    let (interface, mut needs) = interface().apart();
    let (operation, more) = operation().apart();
    needs.extend(more);
    for (path, _) in pages() {
        needs.open(Method::GET, path);
    }
    for (method, path) in punctual_console::routes() {
        needs.open(method, path);
    }
    Registered { interface: interface.into(), operation: operation.into(), needs }
});

/// Every route of the interface, with the permission that it needs and the place that checks the scope of the token.
fn interface() -> Guarded {
    of_tasks().merge(of_queues()).merge(of_workflows()).merge(of_the_cluster())
}

fn of_tasks() -> Guarded {
    use Permission::{
        ChangeTasks, Execute, Insert, ManageAccess, ManageNamespaces, ManageSchedules, Operate, Read,
        ReadAudit, Redrive,
    };
    use Recorded::{Beside, InHistories, Nowhere};
    use ScopeCheck::{Everything, Namespace, Own};
    Guarded::new()
        .recording(InHistories, Insert, Namespace, routes!(insert::insert_task))
        .needing(Read, Own, routes!(lookup::search_tasks))
        .recording(InHistories, Insert, Own, routes!(insert::insert_batch))
        .needing(Read, Own, routes!(lookup::get_task))
        .recording(Beside, ChangeTasks, Own, routes!(actions::patch_task))
        .needing(Read, Own, routes!(lookup::why_task))
        .recording(Beside, ChangeTasks, Own, routes!(actions::cancel_task))
        .recording(Beside, ChangeTasks, Own, routes!(actions::run_task_now))
        .recording(Beside, Redrive, Own, routes!(actions::redrive_task))
        .recording(Beside, ChangeTasks, Own, routes!(actions::bury_task))
        .needing(Operate, Own, routes!(actions::delete_task))
        .recording(InHistories, Execute, Namespace, routes!(executors::lease_tasks))
        .recording(InHistories, Execute, Namespace, routes!(executors::lease_tasks_from_several))
        .recording(InHistories, Execute, Own, routes!(executors::report_outcomes))
        .recording(InHistories, Execute, Own, routes!(executors::send_heartbeats))
        .needing(Read, Own, routes!(roster::list_executors))
        .needing(Read, Own, routes!(roster::get_executor))
        .needing(Operate, Own, routes!(roster::drain_executor))
        .needing(Operate, Own, routes!(roster::quiet_executor))
        .needing(Operate, Own, routes!(roster::resume_executor))
        .needing(Read, Own, routes!(dead::list_dead))
        .needing(Redrive, Own, routes!(dead::redrive_dead))
        .needing(Read, Own, routes!(namespaces::list_namespaces))
        .needing(Read, Own, routes!(namespaces::get_namespace))
        .needing(ManageNamespaces, Own, routes!(namespaces::put_namespace, namespaces::delete_namespace))
        .needing(Read, Everything, routes!(settings::get_limits))
        .needing(ManageNamespaces, Everything, routes!(settings::put_limits))
        .needing(Read, Own, routes!(me::get_me))
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
        .recording(Nowhere, Read, Own, routes!(schedules::preview_schedule))
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

fn of_queues() -> Guarded {
    use Permission::{Operate, Read};
    use Recorded::InHistories;
    use ScopeCheck::{Namespace, Own};
    Guarded::new()
        .needing(Read, Own, routes!(queues::list_queues))
        .needing(Read, Own, routes!(queues::get_queue))
        .needing(Operate, Namespace, routes!(queues::put_queue, queues::patch_queue, queues::reset_queue))
        .needing(Read, Own, routes!(queues::list_queue_changes))
        .needing(Read, Own, routes!(alerts::list_alerts))
        .needing(Operate, Namespace, routes!(queues::pause_queue))
        .needing(Operate, Namespace, routes!(queues::resume_queue))
        .recording(InHistories, Operate, Namespace, routes!(queues::scan_queue))
}

/// The part of workflows.
fn of_workflows() -> Guarded {
    use Permission::{ChangeTasks, Insert, Read};
    use Recorded::InHistories;
    use ScopeCheck::{Namespace, Own};
    Guarded::new()
        .recording(InHistories, Insert, Namespace, routes!(workflows::create_workflow))
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
    use Recorded::Nowhere;
    use ScopeCheck::{Everything, Own};
    Guarded::new()
        .needing(Read, Own, routes!(queues::get_queue_stats))
        .needing(Read, Everything, routes!(cluster::list_events))
        .needing(Read, Everything, routes!(cluster::list_engines))
        .needing(Read, Everything, routes!(inboxes::list_inboxes))
        .needing(Read, Everything, routes!(cluster::list_partitions))
        .needing(Read, Everything, routes!(cluster::list_shards))
        .needing(Read, Everything, routes!(ledger::get_ledger))
        .recording(Nowhere, Operate, Everything, routes!(ledger::check_ledger))
        .needing(Read, Everything, routes!(cluster::get_stats))
        .needing(Read, Everything, routes!(cluster::get_due))
        .needing(Read, Everything, routes!(log_filter::get_log_filter))
        .needing(Operate, Everything, routes!(log_filter::put_log_filter))
}

fn operation() -> Guarded {
    Guarded::new()
        .open(routes!(health::livez))
        .open(routes!(health::readyz))
        .needing(Permission::ReadMetrics, ScopeCheck::Everything, routes!(metrics::render::get_metrics))
        .open(routes!(get_openapi))
}

/// The permissions that each route needs.
pub(crate) fn needs() -> &'static Needs {
    &REGISTERED.needs
}

/// Pages for people: they say nothing of what is here.
fn pages() -> [(&'static str, MethodRouter<Shared>); 6] {
    [
        ("/", get(docs::to_start)),
        ("/docs", get(docs::to_index)),
        ("/docs/", get(docs::api_browser)),
        ("/docs/{*file}", get(docs::api_browser_file)),
        ("/docs/errors", get(docs::errors)),
        ("/docs/errors/{code}", get(docs::error)),
    ]
}

/// Get this document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "operation",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
)]
async fn get_openapi() -> Response {
    answer::json_bytes(StatusCode::OK, DOCUMENT.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, http::Request};
    use punctual_bus::MemoryBus;
    use punctual_domain::{access::SecretHash, time::Millis};
    use punctual_engine::{Backends, Options};
    use punctual_hot::{MemoryLimiter, NoHot};
    use punctual_store::SqliteStore;
    use punctual_testkit::clock::ManualClock;
    use tower::ServiceExt as _;

    fn app() -> Shared {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let backends = Backends {
            hot: Arc::new(NoHot),
            store: Arc::new(store),
            limiter: Arc::new(MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(ManualClock::at(Millis(1_900_000_000_000))),
            blobs: None,
            shared: None,
        };
        let options = Options { admin_token: Some(SecretHash::of("a word")), ..Options::default() };
        let engine = Engine::new(backends, options);
        App::new(engine, ServerOptions::default(), needs(), None, CancellationToken::new())
    }

    async fn status(router: &Router, method: Method, path: &str) -> u16 {
        send(router, method, path).await.status().as_u16()
    }

    async fn send(router: &Router, method: Method, path: &str) -> axum::response::Response {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", "Bearer a word").body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn a_route_that_says_no_permission_is_served_to_nobody() {
        let app = app();
        let hidden = || get(async || "secret").post(async || "done");
        let beside = Router::new().route("/hidden", hidden()).route("/livez2/{*rest}", hidden());
        let router = layered(beside, &app);
        for method in [Method::GET, Method::HEAD, Method::POST] {
            assert_eq!(status(&router, method.clone(), "/hidden").await, 403, "{method}");
            assert_eq!(status(&router, method, "/livez2/x").await, 403);
        }
        assert_eq!(status(&router, Method::GET, "/v1/tasks").await, 200);
        assert_eq!(status(&router, Method::GET, "/nothing").await, 404);
    }

    /// Also for a method: what is registered for one is not served for another.
    #[tokio::test]
    async fn a_method_that_says_no_permission_is_not_run() {
        let app = app();
        let beside = Router::new().route("/console/tokens", axum::routing::delete(async || "done"));
        let router = layered(beside, &app);
        assert_eq!(status(&router, Method::DELETE, "/console/tokens").await, 405);
    }

    #[tokio::test]
    async fn pages_and_the_console_are_in_the_list_of_what_routes_need() {
        let (needs, app) = (needs(), app());
        let pages = pages().into_iter().map(|pair| (Method::GET, pair.0));
        let listed: Vec<(Method, &str)> = pages.chain(punctual_console::routes()).collect();
        assert!(listed.len() > 40, "{listed:?}");
        let router = routes(&app);
        for (method, path) in listed {
            assert!(needs.of(&method, path).is_some(), "{method} {path}");
            // Whatever it answers: it is known to the guard under the name that the router has for it.
            let path = path.replace("{*", "").replace(['{', '}'], "");
            let answer = send(&router, method.clone(), &path).await;
            assert_ne!(answer.status(), 405, "{method} {path}");
            // A form without its seal is refused by the console, with a page.
            let is_problem = answer
                .headers()
                .get("content-type")
                .is_some_and(|content_type| content_type == "application/problem+json");
            assert!(answer.status() != 403 || !is_problem, "{method} {path}");
        }
    }
}
