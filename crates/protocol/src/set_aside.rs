//! What is not evaluated any more, because engines have died of it.

use crate::At;
use serde::{Deserialize, Serialize};

/// Engines died while they evaluated it: no engine evaluates it any more, until somebody lets it go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SetAside {
    /// When the last evaluation began that an engine died of.
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    pub reason: String,
}
