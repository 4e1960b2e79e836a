//! The time when a transaction of this engine last took so long that its rows may appear behind a floor (`floor`).
//! Must not decide what follows.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A transaction of this engine that takes so long commits rows behind the second floor, or soon will.
const LATE_COMMIT: Duration = Duration::from_secs(3);
/// The time after that in which rows may appear late: until the last running transaction is over.
const DOUBT: Duration = Duration::from_secs(10);

/// The time when a transaction of this engine last took so long that its rows may appear behind the second floor. The
/// writers note it.
#[derive(Debug, Default)]
pub(crate) struct LateCommits(Mutex<Option<Instant>>);

impl LateCommits {
    /// Notes the duration of a transaction. If its answer was lost, it lasted until it was given up.
    pub(crate) fn note(&self, took: Duration) {
        if took >= LATE_COMMIT {
            *self.0.lock() = Some(Instant::now());
        }
    }

    pub(crate) fn are_recent(&self) -> bool {
        self.0.lock().is_some_and(|at| at.elapsed() < DOUBT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_take_seconds_are_late() {
        let late = LateCommits::default();
        late.note(LATE_COMMIT.saturating_sub(Duration::from_millis(1)));
        assert!(!late.are_recent());
        late.note(LATE_COMMIT);
        assert!(late.are_recent());
    }
}
