//! Query parameters of pages of queues and of alerts.

use serde::{Deserialize, Serialize};

use crate::Severity;
use crate::fields::{Checks, Invalid};
use crate::limits::PAGE_MAX;

/// Query parameters of `GET /v1/queues`. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQueues {
    /// The beginning of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "mail")]
    pub prefix: Option<String>,
    /// Only queues that are paused, or only those that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Items per page, 1 to 1,000. Default: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListQueues {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if let Some(prefix) = self.prefix.as_deref() {
            checks.prefix("/prefix", prefix);
        }
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// Query parameters of `GET /v1/alerts`. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAlerts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Only alerts of this namespace. Default: of all namespaces that the token reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only alerts of this queue, in the given `namespace`, or else in the namespace of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Items per page, 1 to 1,000. Default: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListAlerts {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if let Some(namespace) = self.namespace.as_deref() {
            checks.name("/namespace", namespace);
        }
        if let Some(queue) = self.queue.as_deref() {
            checks.name("/queue", queue);
        }
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}
