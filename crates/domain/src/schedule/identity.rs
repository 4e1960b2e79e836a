//! What a run is called: its task's id comes from the schedule and the instant, and from nothing else, so that whoever
//! makes it makes the same task. A durable format: a change here makes runs twice that were made before it.

use crate::{name::Name, time::Millis};
use serde::{Deserialize, Serialize};

/// Whose run it is. The codes are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// The schedule's own.
    Planned,
    /// Somebody asked for it: it runs beside the others.
    Manual,
    /// Of a range that was asked for.
    Backfill,
}

impl RunKind {
    pub const ALL: [Self; 3] = [Self::Planned, Self::Manual, Self::Backfill];

    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Planned => 0,
            Self::Manual => 1,
            Self::Backfill => 2,
        }
    }

    /// None: no such code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.code() == code)
    }
}

/// Ids of this width are exact in JavaScript.
const BITS: u32 = 53;

#[derive(Clone, Copy, Debug)]
pub struct TaskIdentity<'a> {
    pub namespace: &'a Name,
    pub schedule: &'a Name,
    pub kind: RunKind,
    pub at: Millis,
}

impl TaskIdentity<'_> {
    /// Negative: callers count upwards from 1, and the engine from 2^52. `salt`: 0, and the next where another task has
    /// that id already.
    #[must_use]
    pub fn task_id(&self, salt: u8) -> i64 {
        let hash = self.hash(&[b'i', self.kind.code(), salt]);
        let kept = hash >> (u64::BITS - BITS);
        -i64::try_from(kept).unwrap_or(0) - 1
    }

    /// How long after its instant it fires.
    #[must_use]
    pub fn jitter_ms(&self, most_ms: i64) -> i64 {
        let most = u64::try_from(most_ms).unwrap_or(0);
        let part = self.hash(b"j") % most.saturating_add(1);
        i64::try_from(part).unwrap_or(0)
    }

    fn hash(&self, purpose: &[u8]) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for part in [self.namespace.as_str().as_bytes(), self.schedule.as_str().as_bytes()] {
            hasher.update(part).update(&[0]);
        }
        hasher.update(&self.at.0.to_le_bytes()).update(purpose);
        let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}
