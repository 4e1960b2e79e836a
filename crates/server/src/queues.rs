//! The queues of a namespace, with the counts of the running account: cheap, whatever the number of tasks.

use crate::{answer, app::Shared, extract::Caller, refusal::Refusal};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_protocol::{Page, QueueSummary};
use std::collections::BTreeMap;

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
        summary.tasks.insert(tally.state.word().to_owned(), tally.tasks);
    }
    for (queue, ready) in depth.ready.iter().filter(|(it, _)| it.namespace == caller.namespace) {
        let ready = u64::try_from(*ready).unwrap_or(u64::MAX);
        queues.entry(queue.queue.as_str().to_owned()).or_default().ready = ready;
    }
    let items = queues.into_iter().map(|(queue, it)| QueueSummary { queue, ..it }).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor: None }))
}
