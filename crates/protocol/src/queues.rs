//! What is said of queues. Counts only: a queue's settings have calls of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A queue and what stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueSummary {
    #[schema(example = "mail")]
    pub queue: String,
    /// Tasks by state; states without a task are left out.
    #[schema(example = json!({"scheduled": 120, "running": 4}))]
    pub tasks: BTreeMap<String, i64>,
    /// Fired tasks that wait for an executor now.
    pub ready: u64,
}
