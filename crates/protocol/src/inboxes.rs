//! Requests and answers about inboxes.

use crate::At;
use serde::{Deserialize, Serialize};

/// The state of an inbox: tells an operator if an engine moves its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InboxState {
    /// This engine moves its rows.
    Moving,
    /// Another engine moves the rows; this one replaces it when it ends.
    Standby,
    /// The database does not answer, or has no such table.
    Away,
}

/// A table in a user's own database whose rows become tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Inbox {
    #[schema(example = "shop")]
    pub name: String,
    /// Host, port and database.
    #[schema(example = "db.example.org:3306/shop")]
    pub at: String,
    pub state: InboxState,
    /// The number of rows that are not tasks yet, counted up to 100,000. This number and the next two are at most a
    /// second old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Age of the first of them, from its INSERT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<i64>,
    /// Rows that were refused and wait for a repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Why rows could not be moved, since rows were moved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_error_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at_ms: Option<i64>,
}
