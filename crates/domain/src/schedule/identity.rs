//! The identity of a run. Its task's id depends only on the schedule, the instant and a secret of the
//! cluster. So every engine that makes the run makes the same task, and no caller can use its id first. A
//! durable format: after a change here, earlier runs would be made again.

use crate::{
    identity::{IdentitySecret, first_bits, negative_id},
    name::Name,
    time::Millis,
};
use serde::{Deserialize, Serialize};

/// The origin of a run. The codes are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// The schedule's own.
    Planned,
    /// A manual run: it runs besides the others.
    Manual,
    /// One of a requested range.
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

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The purpose of the secret here.
const PURPOSE: &[u8] = b"schedule run";

/// The identity of one run: its schedule and its instant, whatever document made it.
#[derive(Clone, Copy, Debug)]
pub struct RunIdentity {
    /// Never used again.
    pub schedule: i64,
    /// The creation time of the schedule: its id alone might recur in a database that was reset.
    pub created_at: Millis,
    pub kind: RunKind,
    pub at: Millis,
}

impl RunIdentity {
    /// `salt`: 0, and the next where another task has that id already.
    #[must_use]
    pub fn task_id(&self, secret: &IdentitySecret, salt: u8) -> i64 {
        let mut hasher = secret.hasher();
        hasher.update(PURPOSE).update(&self.schedule.to_le_bytes()).update(&self.created_at.0.to_le_bytes());
        hasher.update(&self.at.0.to_le_bytes()).update(&[self.kind.code(), salt]);
        negative_id(&hasher.finalize())
    }
}

/// The identity of a run that an older program decided: its task had the revision as its version.
#[derive(Clone, Copy, Debug)]
pub struct UnkeyedIdentity<'a> {
    pub namespace: &'a Name,
    pub schedule: &'a Name,
    pub kind: RunKind,
    pub at: Millis,
}

impl UnkeyedIdentity<'_> {
    /// `salt`: as of a [`RunIdentity`].
    #[must_use]
    pub fn task_id(&self, salt: u8) -> i64 {
        negative_id(&hash(self.namespace, self.schedule, self.at, &[b'i', self.kind.code(), salt]))
    }
}

/// The delay of a run after its instant. It is a function of the schedule's name and the instant, so that every
/// engine computes the same delay.
#[must_use]
pub fn jitter_ms(namespace: &Name, schedule: &Name, at: Millis, most_ms: i64) -> i64 {
    let most = u64::try_from(most_ms).unwrap_or(0);
    let part = first_bits(&hash(namespace, schedule, at, b"j")) % most.saturating_add(1);
    i64::try_from(part).unwrap_or(0)
}

fn hash(namespace: &Name, schedule: &Name, at: Millis, purpose: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in [namespace.as_str().as_bytes(), schedule.as_str().as_bytes()] {
        hasher.update(part).update(&[0]);
    }
    hasher.update(&at.0.to_le_bytes()).update(purpose);
    hasher.finalize()
}
