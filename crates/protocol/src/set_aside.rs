//! Subjects that are no longer evaluated, because engines have died of them.

use crate::At;
use serde::{Deserialize, Serialize};

/// Engines crashed while they evaluated this object. No engine evaluates it until an operator releases it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SetAside {
    /// The begin of the last evaluation during which an engine crashed.
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    pub reason: String,
}
