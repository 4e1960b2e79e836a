//! A workflow's data besides its state. Stored as JSON: a field is never renamed.

use super::Ending;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The reason for the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Nodes and items that have succeeded.
    #[serde(default)]
    pub completed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Millis>,
    /// The node that it is of another workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentNode>,
    /// The ids of its tasks follow from the secret of the cluster. False if an older program has begun it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_keyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentNode {
    pub workflow: i64,
    pub node: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    pub attempt: u32,
}

/// The fingerprint of a text, 40 characters, equal for equal texts. A durable format.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().as_str().chars().take(40).collect()
}
