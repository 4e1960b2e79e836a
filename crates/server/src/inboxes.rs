//! Answers about inboxes. Their relays know; this module turns it into JSON.

mod intake;

use crate::{answer, app::Shared, refusal::Refusal};
use axum::{extract::State, http::StatusCode, response::Response};
pub use intake::EngineIntake;
use punctual_inbox::{InboxReport, InboxState};
use punctual_protocol::{At, Inbox, InboxState as WireState, Page};

/// The inboxes of this engine.
///
/// As the settings (`inbox.url`) list them: tables in users' own databases whose rows become tasks. Every engine of a cluster that
/// lists an inbox answers for it; one of them moves its rows.
#[utoipa::path(
    get, path = "/v1/inboxes", operation_id = "list_inboxes", tag = "operation",
    responses((status = 200, description = "All of them.", body = Page<Inbox>)),
)]
pub(crate) async fn list_inboxes(State(app): State<Shared>) -> Result<Response, Refusal> {
    let items = app.options.inboxes.iter().map(|relay| inbox(relay.report())).collect();
    Ok(answer::json(StatusCode::OK, &Page::<Inbox> { items, next_cursor: None }))
}

fn inbox(report: InboxReport) -> Inbox {
    let (error_at, error) = report.last_error.unzip();
    Inbox {
        name: report.name,
        at: report.at,
        state: match report.state {
            InboxState::Moving => WireState::Moving,
            InboxState::Standby => WireState::Standby,
            InboxState::Away => WireState::Away,
        },
        waiting: report.counts.map(|counts| counts.waiting),
        lag_ms: report.counts.and_then(|counts| counts.oldest_ms),
        refused: report.counts.map(|counts| counts.refused),
        last_error: error,
        last_error_at: error_at.map(|at| At::from_ms(at.0)),
        last_error_at_ms: error_at.map(|at| at.0),
    }
}
