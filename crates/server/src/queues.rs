//! The queues of a namespace, with the counts of the running account: cheap, whatever the number of tasks.

use crate::{answer, app::Shared, extract::Caller, refusal::Refusal};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_protocol::Page;
use serde::Serialize;
use std::collections::BTreeMap;

/// A queue and what stands in it.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct QueueSummary {
    #[schema(example = "mail")]
    queue: String,
    /// Tasks by state; states without a task are left out.
    #[schema(example = json!({"scheduled": 120, "running": 4}))]
    tasks: BTreeMap<&'static str, i64>,
    /// Fired tasks that wait for an executor now.
    ready: usize,
}

/// The queues of the namespace that have tasks.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    responses((status = 200, description = "All of them, by name.", body = Page<QueueSummary>)),
)]
pub(crate) async fn list_queues(State(app): State<Shared>, caller: Caller) -> Result<Response, Refusal> {
    let books = app.engine.store().books().await?;
    let depth = app.engine.depth().await?;
    let mut queues: BTreeMap<String, QueueSummary> = BTreeMap::new();
    for tally in books.standing.iter().filter(|it| it.queue.namespace == caller.namespace) {
        let summary = queues.entry(tally.queue.queue.as_str().to_owned()).or_default();
        summary.tasks.insert(tally.state.word(), tally.tasks);
    }
    for (queue, ready) in depth.ready.iter().filter(|(it, _)| it.namespace == caller.namespace) {
        queues.entry(queue.queue.as_str().to_owned()).or_default().ready = *ready;
    }
    let items = queues.into_iter().map(|(queue, it)| QueueSummary { queue, ..it }).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: None }))
}
