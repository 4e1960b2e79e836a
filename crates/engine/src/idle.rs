//! Removes in-memory state of queues that were not used for long. Queue names are unbounded: one for each customer or day.
//! Removed state begins anew with the next task; nothing depends on it.

use crate::{core::Core, engine::Engine};
use punctual_contract::Error;
use punctual_domain::time::Millis;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_secs(60);
/// The time without a request after which the waiters and announcements of a queue are removed.
const FORGOTTEN_AFTER_MS: i64 = 600_000;
/// The time without a change after which counts are removed; they begin at 0 again.
const COUNTS_FORGOTTEN_AFTER_MS: i64 = 24 * 3_600_000;

/// Removes idle names. Returns their number.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let before = core.queues_held();
    core.arrivals.forget(now.plus(-FORGOTTEN_AFTER_MS));
    core.limits.admissions.forget(now);
    core.meters.forget_idle(now, COUNTS_FORGOTTEN_AFTER_MS);
    Ok(before.saturating_sub(core.queues_held()))
}

impl Engine {
    /// The number of queue names in memory, each counted as often as it is stored.
    #[must_use]
    pub fn queues_held(&self) -> usize {
        self.core.queues_held()
    }
}
