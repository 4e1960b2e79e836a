//! The result of the last check of each database's writers. Asks none of them.

use crate::sharing::self_check::state::LivenessTick;
use parking_lot::Mutex;
use std::time::Duration;

/// Writers that have not answered for this long count as failed.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// The result of the last check of the writers, by database.
#[derive(Debug, Default)]
pub(crate) struct Writers(pub(super) Mutex<Vec<ComponentStatus>>);

#[derive(Debug, Default)]
pub(super) struct ComponentStatus {
    /// The last successful check. Until the first one was requested, none counts as missing.
    pub(super) written: LivenessTick,
    pub(super) failure: Option<String>,
}

impl ComponentStatus {
    /// Why it cannot be written.
    pub(super) fn problem(&self) -> Option<String> {
        let silent = self.written.silent_for().filter(|silent| *silent > SILENT_AFTER);
        let silent = silent.map(|silent| format!("a writer has not answered for {} s", silent.as_secs()));
        self.failure.clone().or(silent)
    }
}

impl Writers {
    pub(super) fn of<T>(&self, part: usize, change: impl FnOnce(&mut ComponentStatus) -> T) -> T {
        let mut parts = self.0.lock();
        let count = parts.len().max(part + 1);
        parts.resize_with(count, ComponentStatus::default);
        change(parts.get_mut(part).expect("there are so many"))
    }

    /// Parts that cannot be written, by number.
    pub(crate) fn away(&self) -> Vec<usize> {
        let parts = self.0.lock();
        parts.iter().enumerate().filter(|entry| entry.1.problem().is_some()).map(|entry| entry.0).collect()
    }
}
