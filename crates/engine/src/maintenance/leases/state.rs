//! Databases whose leases could not be looked at, and since when they are back. Ends no lease.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::time::Millis;

/// A part of the store that was unavailable is left alone for so long when it is back: its executors could give no heartbeat,
/// and engines whose answers were lost give back what nobody had.
const BACK_FOR_MS: i64 = 2_000;

/// Which parts could not be looked at: since they are back, or None as long as they are not.
#[derive(Debug, Default)]
pub(crate) struct LeaseLooks(Mutex<HashMap<usize, Option<Millis>>>);

impl LeaseLooks {
    pub(super) fn failed(&self, part: usize) {
        self.0.lock().insert(part, None);
    }

    /// It answers. Whether it has for long enough.
    pub(super) fn answered(&self, part: usize, now: Millis) -> bool {
        let mut looks = self.0.lock();
        let Some(since) = looks.get_mut(&part) else { return true };
        let is_over = now.since(*since.get_or_insert(now)) >= BACK_FOR_MS;
        if is_over {
            looks.remove(&part);
        }
        is_over
    }
}
