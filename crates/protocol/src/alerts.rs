//! Alerts that need a human.

use serde::{Deserialize, Serialize};

use crate::At;

/// An active alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Alert {
    /// `fired_early`, `overdue_not_fired`, `database_away`, `service_failing`, `scan_failing`, `panicked`,
    /// `clock_doubtful`, `hot_set_of_another_cluster`, `store_went_back`, `durability_weak`, `evaluation_set_aside`,
    /// `hot_set_away`, `late_tasks`, `waiting_long`, `dead_letters`, `log_lines_lost`, `engine_lost`, `inbox_behind`,
    /// `inbox_refused`, `webhook_gone`, `webhook_failing`, `certificate_not_usable`, `certificate_ends`.
    #[schema(example = "late_tasks")]
    pub name: String,
    pub severity: Severity,
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    /// The namespace; absent if the alert is about an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The queue; absent if the alert is about an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The engine that reports it. Absent if several report it, or if it is about the complete cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The engines that report it, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// A sentence for humans.
    pub text: String,
    pub what_to_do: String,
    /// Alerts that are consequences of this one. They are not listed separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
}

/// An alert that is a consequence of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Consequence {
    #[schema(example = "service_failing")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A sentence for humans.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Critical,
}
