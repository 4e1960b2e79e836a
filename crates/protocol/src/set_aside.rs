//! Subjects that are no longer evaluated, because engines have died of them.

use crate::At;
use serde::{Deserialize, Serialize};

/// Engines died while they evaluated it: no engine evaluates it until an operator releases it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SetAside {
    /// When the last evaluation began that an engine died of.
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    pub reason: String,
}
