//! Removes in-memory state of queues that were not used for long. Queue names are unbounded: one for each customer or day.
//! Removed state begins anew with the next task; nothing depends on it.

use crate::{core::Core, engine::Engine};
use punctual_contract::Error;
use punctual_domain::time::Millis;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_secs(60);
/// Waiters and announcements of a queue are forgotten after this long without a request.
const FORGOTTEN_AFTER_MS: i64 = 600_000;
/// Counts are forgotten after this long without a change; they begin at 0 again.
const COUNTS_FORGOTTEN_AFTER_MS: i64 = 24 * 3_600_000;

/// Names that were forgotten.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let before = core.queues_held();
    core.arrivals.forget(now.plus(-FORGOTTEN_AFTER_MS));
    core.limits.admissions.forget(now);
    core.meters.forget_idle(now, COUNTS_FORGOTTEN_AFTER_MS);
    Ok(before.saturating_sub(core.queues_held()))
}

impl Engine {
    /// How many names of queues something is kept by, each as often as it is.
    #[must_use]
    pub fn queues_held(&self) -> usize {
        self.core.queues_held()
    }
}
