//! The treatment of a queue's fired tasks while their database is unavailable.

use serde::{Deserialize, Serialize};

use crate::fields::Checks;
use crate::scan::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhileStoreIsAway {
    /// Tasks wait until the database answers.
    Wait,
    /// Executors get preloaded tasks. The engine stores the leases in its journal.
    HandOver,
}

/// Only executors that pull can get preloaded tasks.
pub(crate) fn check_away(
    checks: &mut Checks,
    away: Option<WhileStoreIsAway>,
    source: Option<Source>,
    is_pushed: bool,
) {
    if away != Some(WhileStoreIsAway::HandOver) {
        return;
    }
    let why = if source == Some(Source::Store) {
        "beside `\"source\": \"store\"`: nothing of a queue that is scanned is preloaded. Leave `source` at `hot`"
    } else if is_pushed {
        "beside `\"mode\": \"push\"`: a task on the bus needs a lease in the database. Set `mode` to `pull`"
    } else {
        return;
    };
    checks.refuse(
        "/while_store_is_away",
        format!("cannot be `hand_over` {why}; or leave `while_store_is_away` at `wait`"),
    );
}
