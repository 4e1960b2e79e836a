//! The clock's status as of the last check.

use parking_lot::Mutex;
use punctual_contract::clock::ClockStatus;
use punctual_domain::time::Millis;

/// The clock's status as of the last check.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) last: Mutex<(Millis, ClockStatus)>,
}
