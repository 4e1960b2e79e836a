//! Instants as UTC epoch milliseconds. Never reads a clock: whoever needs "now" is given it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An instant: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);
    pub const ZERO: Self = Self(0);

    /// `self + ms`, held inside `ZERO..=MAX`, so that no arithmetic on user input can overflow.
    #[must_use]
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).clamp(0, Self::MAX.0))
    }

    /// Milliseconds from `earlier` to `self`; negative when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
