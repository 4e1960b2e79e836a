//! Alerts that need a human.

use serde::{Deserialize, Serialize};

use crate::At;

/// An active alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Alert {
    /// `fired_early`, `overdue_not_fired`, `database_away`, `service_failing`, `panicked`, `hot_set_of_another_cluster`, `store_went_back`,
    /// `durability_weak`, `hot_set_away`, `late_tasks`, `waiting_long`, `dead_letters`, `log_lines_lost`,
    /// `engine_lost`, `inbox_behind`, `inbox_refused`, `certificate_not_usable`, `certificate_ends`.
    #[schema(example = "late_tasks")]
    pub name: String,
    pub severity: Severity,
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    /// Of which namespace; absent where it is about an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of which queue; absent where it is about an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The engine that says it; absent where several do, and where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The engines that say it, where they are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// A sentence for people.
    pub text: String,
    pub what_to_do: String,
    /// Alerts that this one explains: they are not listed by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
}

/// An alert that another one explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Consequence {
    #[schema(example = "service_failing")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A sentence for people.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Critical,
}
