//! The receiver of a webhook queue. Rules about addresses and secrets are the server's.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, within};
use crate::limits::{
    WEBHOOK_CONCURRENCY_MAX, WEBHOOK_HEADERS_MAX, WEBHOOK_TIMEOUT_MAX_MS, WEBHOOK_TIMEOUT_MIN_MS,
    WEBHOOK_URL_MAX_BYTES,
};
use crate::scan::DEFAULT;

/// The receiver of the tasks of a queue whose `mode` is `webhook`. Answers have `***` in place of secrets. Sent back, it
/// means the stored secret.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// The address of each request (POST).
    #[schema(example = "https://example.org/tasks", max_length = 2048)]
    pub url: String,
    /// Signs each request (Standard Webhooks): `whsec_` and the base64 of 24 to 64 random bytes. Two secrets, separated by
    /// a space, give two signatures. Without one, requests are not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    pub secret: Option<String>,
    /// Further headers of each request, at most 20. Their values are secrets, too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The longest time of a delivery. Default: 15,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 600_000)]
    pub timeout_ms: Option<i64>,
    /// The maximum number of deliveries of each engine at one time. Default: 16. The queue's `concurrency` is over all engines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub concurrency: Option<u32>,
    /// The form of the body. Default: `standard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<BodyFormat>,
    /// The address may be of this machine or of a private network. Only for tokens of all namespaces and queues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_private: bool,
}

/// The form of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    Standard,
    /// A CloudEvent 1.0 in its structured form, with the standard body as its data.
    Cloudevents,
}

/// Without secrets.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A queue that is delivered needs a receiver.
pub(crate) fn check_webhook(checks: &mut Checks, webhook: Option<&Webhook>, is_delivered: bool) {
    let Some(webhook) = webhook else {
        if is_delivered {
            let detail = "is missing: with `\"mode\": \"webhook\"`, name the receiver: {\"url\": \"https://example.org/tasks\"}";
            checks.refuse("/webhook", detail);
        }
        return;
    };
    if webhook.url.is_empty() || webhook.url.len() > WEBHOOK_URL_MAX_BYTES {
        let detail = format!(
            "must be an address of 1 to {WEBHOOK_URL_MAX_BYTES} bytes, such as https://example.org/tasks"
        );
        checks.refuse("/webhook/url", detail);
    }
    if webhook.headers.len() > WEBHOOK_HEADERS_MAX {
        checks.refuse("/webhook/headers", format!("must have at most {WEBHOOK_HEADERS_MAX} headers"));
    }
    let spans = WEBHOOK_TIMEOUT_MIN_MS..=WEBHOOK_TIMEOUT_MAX_MS;
    within(checks, "/webhook/timeout_ms", webhook.timeout_ms, spans, DEFAULT);
    within(checks, "/webhook/concurrency", webhook.concurrency, 1..=WEBHOOK_CONCURRENCY_MAX, DEFAULT);
}
