//! How far a schedule has come. Kept as JSON beside the document: a field is never renamed.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// What becomes of every instant up to here is decided.
    pub decided_until: Millis,
    /// Runs that were made, by whatever cause.
    #[serde(default)]
    pub runs: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<Millis>,
    /// The run that has to be over before the next may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRun>,
    /// Instants whose run waits for the end of the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffered: Vec<Millis>,
    /// It was paused, and what it missed meanwhile is not decided yet.
    #[serde(default)]
    pub was_paused: bool,
    /// It was changed, and runs that were made before have to be taken back first.
    #[serde(default)]
    pub takes_back: bool,
    /// The longest jitter of the documents that made those.
    #[serde(default)]
    pub jitter_ms: i64,
}

/// By which a run is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    pub at: Millis,
    /// Of its task: the revision of the document that it was made by.
    pub version: i64,
    pub planned_at: Millis,
}

impl Progress {
    /// Of a schedule that begins now.
    #[must_use]
    pub fn beginning(now: Millis) -> Self {
        Self { decided_until: now, ..Self::default() }
    }
}
