//! Limits of a namespace, or of everything, and the rate that queues have too.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid, within};
use crate::limits::{DURATION_MAX_MS, LIMIT_MAX, PAYLOAD_BYTES_MAX, WAITING_MAX, WEIGHT_MAX};
use crate::parse_settings;

pub(crate) const NONE: &str = "leave it out for no limit";
pub(crate) const ONE: &str = "leave it out for 1";

/// A token bucket: `limit` starts per `period_ms`, and up to `burst` at once after an idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub limit: u32,
    #[schema(minimum = 1)]
    pub period_ms: i64,
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub burst: u32,
}

impl Rate {
    pub(crate) fn check(&self, checks: &mut Checks, at: &str) {
        let way_out = "leave the whole rate out for no limit";
        within(checks, &format!("{at}/limit"), Some(self.limit), 1..=LIMIT_MAX, way_out);
        within(checks, &format!("{at}/period_ms"), Some(self.period_ms), 1..=DURATION_MAX_MS, way_out);
        within(checks, &format!("{at}/burst"), Some(self.burst), 1..=LIMIT_MAX, way_out);
    }
}

/// Limits of a namespace, or of the complete installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Limits {
    /// The namespace. Absent for the complete installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default)]
    pub revision: i64,
    /// The maximum number of attempts in flight at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    /// The maximum number of waiting tasks. Further inserts are refused with `queue.full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_waiting: Option<u64>,
    /// The maximum number of payload bytes of waiting tasks. Further inserts are refused with `quota.payload_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_payload_bytes: Option<u64>,
    /// The rate limit for the start of attempts, over all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The rate limit for the insertion of tasks, over all queues. Faster inserts are refused with
    /// `quota.insert_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_rate: Option<Rate>,
    /// The share of the namespace among all namespaces, when slots or starts are short. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
}

/// New limits. Omitted ones are removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_waiting: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_payload_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub namespace: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub revision: Option<IgnoredAny>,
}

impl PutLimits {
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let put_limits: Self = parse_settings(json)?;
        let mut checks = Checks::default();
        within(&mut checks, "/concurrency", put_limits.concurrency, 1..=LIMIT_MAX, NONE);
        within(&mut checks, "/max_waiting", put_limits.max_waiting, 1..=WAITING_MAX, NONE);
        within(&mut checks, "/max_payload_bytes", put_limits.max_payload_bytes, 1..=PAYLOAD_BYTES_MAX, NONE);
        put_limits.rate.iter().for_each(|rate| rate.check(&mut checks, "/rate"));
        put_limits.insert_rate.iter().for_each(|rate| rate.check(&mut checks, "/insert_rate"));
        within(&mut checks, "/weight", put_limits.weight, 1..=WEIGHT_MAX, ONE);
        checks.done()?;
        Ok(put_limits)
    }
}
