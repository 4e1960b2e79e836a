//! Databases whose leases could not be read, and since when they are back. Ends no lease.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::time::Millis;

/// A database that returns is left alone for this long: its executors could not send heartbeats, and engines
/// whose answers were lost return leases that no executor had.
const BACK_FOR_MS: i64 = 2_000;

/// Databases that could not be read: since when they are back, or None while they are not.
#[derive(Debug, Default)]
pub(crate) struct LeaseLooks(Mutex<HashMap<usize, Option<Millis>>>);

impl LeaseLooks {
    pub(crate) fn failed(&self, part: usize) {
        self.0.lock().insert(part, None);
    }

    /// It could not be read, or is not back for long enough.
    pub(crate) fn is_in_doubt(&self, part: usize) -> bool {
        self.0.lock().contains_key(&part)
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
