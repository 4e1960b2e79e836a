//! The receiver of a webhook queue: its address, its secrets, and the bounds of a delivery. Must not send anything.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The author of a pause that a receiver has caused by the answer 410 Gone.
pub const PAUSED_BY_RECEIVER: &str = "webhook";

/// The longest time of one delivery, unless it is set.
pub const TIMEOUT_MS: i64 = 15_000;
/// The deliveries of one engine at one time, unless it is set.
pub const CONCURRENCY: u32 = 16;

/// Answers show this in place of a secret. Sent back, it means the stored secret.
pub const MASK: &str = "***";

/// A value that is stored, and that no answer, log or audit entry contains.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the code that signs or sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn is_mask(&self) -> bool {
        self.0 == MASK
    }

    fn mask() -> Self {
        Self(MASK.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// The form of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    #[default]
    Standard,
    /// The standard body is the data of a CloudEvent in its structured form.
    Cloudevents,
}

/// The receiver of a queue's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    /// One secret, or two of them separated by a space while a receiver changes from one to the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// Further headers of each request. Their values may be credentials, so they are secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<BodyFormat>,
    /// The receiver may have an address of this machine or of a private network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_private: bool,
}

impl Webhook {
    #[must_use]
    pub fn timeout_ms(&self) -> i64 {
        self.timeout_ms.unwrap_or(TIMEOUT_MS)
    }

    #[must_use]
    pub fn concurrency(&self) -> usize {
        usize::try_from(self.concurrency.unwrap_or(CONCURRENCY)).unwrap_or(usize::MAX)
    }

    /// The same settings, with the mask in place of each secret.
    #[must_use]
    pub fn masked(&self) -> Self {
        let headers = self.headers.keys().map(|name| (name.clone(), Secret::mask())).collect();
        Self { secret: self.secret.as_ref().map(|_| Secret::mask()), headers, ..self.clone() }
    }

    /// Puts the stored secrets in place of masks. Returns the JSON pointers of masks for which none is stored, below
    /// the settings of the receiver.
    pub fn unmask(&mut self, stored: Option<&Self>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(secret) = self.secret.as_mut().filter(|secret| secret.is_mask()) {
            match stored.and_then(|stored| stored.secret.clone()) {
                Some(known) => *secret = known,
                None => missing.push("/secret".to_owned()),
            }
        }
        for (name, value) in self.headers.iter_mut().filter(|(_, value)| value.is_mask()) {
            match stored.and_then(|stored| stored.headers.get(name)) {
                Some(known) => *value = known.clone(),
                None => missing.push(format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"))),
            }
        }
        missing
    }

    /// True if a mask is in place of a secret.
    #[must_use]
    pub fn has_masks(&self) -> bool {
        self.secret.iter().chain(self.headers.values()).any(Secret::is_mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook() -> Webhook {
        Webhook {
            url: "https://example.org/hook".to_owned(),
            secret: Some(Secret::new("whsec_c2VjcmV0")),
            headers: [("authorization".to_owned(), Secret::new("Bearer hidden"))].into(),
            ..Webhook::default()
        }
    }

    #[test]
    fn no_form_that_is_shown_has_a_secret() {
        let json = serde_json::to_string(&webhook().masked()).unwrap();
        for shown in [json, format!("{:?}", webhook())] {
            assert!(!shown.contains("c2VjcmV0") && !shown.contains("hidden"), "{shown}");
            assert!(shown.contains(MASK), "{shown}");
        }
    }

    #[test]
    fn a_mask_that_is_sent_back_means_the_stored_secret() {
        let mut sent = webhook().masked();
        assert!(sent.has_masks());
        assert_eq!(sent.unmask(Some(&webhook())), [""; 0]);
        assert_eq!(sent, webhook());
        let mut sent = webhook().masked();
        assert_eq!(sent.unmask(None), ["/secret", "/headers/authorization"]);
    }
}
