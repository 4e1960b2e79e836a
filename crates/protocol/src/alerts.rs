//! What a human should look at.

use serde::{Deserialize, Serialize};

use crate::At;

/// An active alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Alert {
    /// `fired_early`, `service_failing`, `panicked`, `hot_set_of_another_cluster`, `store_went_back`,
    /// `durability_weak`, `hot_set_away`, `late_tasks`, `waiting_long`, `dead_letters`, `log_lines_lost`,
    /// `engine_lost`, `certificate_not_usable`, `certificate_ends`.
    #[schema(example = "late_tasks")]
    pub name: String,
    pub severity: Severity,
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    /// Of which queue; absent where it is about the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Which engine says it; absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// A sentence for people.
    pub text: String,
    pub what_to_do: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Critical,
}
