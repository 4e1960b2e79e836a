//! An engine's log filter, which can be changed at runtime.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::{LOG_FILTER_FOR_MS_MAX, LOG_FILTER_MAX_CHARS};
use crate::{At, parse};

/// The log filter of the answering engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogFilter {
    /// Levels, also for parts of the program, such as `info,punctual_engine=debug`.
    pub filter: String,
    /// The filter with which the engine started.
    pub started_with: String,
    /// The instant at which the engine returns to the filter of its start. Absent if it does not return by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// The new log filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutLogFilter {
    /// The filter in the form of the setting `log.filter`. Default: the filter of the engine's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "info,punctual_engine=debug", max_length = 1024)]
    pub filter: Option<String>,
    /// The time in milliseconds for which the filter is in effect, at most a day. Default: until the filter is set
    /// again or the engine restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub for_ms: Option<u64>,
}

impl PutLogFilter {
    /// Reads and checks it.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let asked: Self = parse(json)?;
        let mut checks = Checks::default();
        checks.text("/filter", asked.filter.as_deref(), LOG_FILTER_MAX_CHARS);
        checks.span("/for_ms", asked.for_ms, 1..=LOG_FILTER_FOR_MS_MAX);
        checks.done()?;
        Ok(asked)
    }
}
