//! Query parameters of pages of queues and of alerts.

use serde::{Deserialize, Serialize};

use crate::Severity;
use crate::fields::{Checks, Invalid};
use crate::limits::PAGE_MAX;

/// Query parameters of `GET /v1/queues`. Those that are given must all hold.
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
    /// Items of a page, 1 to 1,000; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
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

/// Query parameters of `GET /v1/alerts`. Those that are given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAlerts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Only those of this namespace; of all that the token reaches unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only those of this queue, in the `namespace` that is given, else in that of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Items of a page, 1 to 1,000; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
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
