//! The pause of a queue: who paused it and why, and the call that pauses.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::PAUSE_REASON_MAX_CHARS;
use crate::{At, parse};

/// The author, time and reason of a queue's pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pause {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of a `PUT` that pauses or resumes the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum PauseWish {
    Is(bool),
    Because {
        #[serde(default)]
        reason: Option<String>,
    },
}

/// The body of the call that pauses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// The reason, shown with the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// The author of the pause. Default: `api`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub by: Option<String>,
}

impl PauseRequest {
    /// The body may be left out.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        let mut checks = Checks::default();
        checks.text("/by", request.by.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.at_most_chars("/reason", request.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()?;
        Ok(request)
    }
}
