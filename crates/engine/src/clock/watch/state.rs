//! The clock's status as of the last look.

use parking_lot::Mutex;
use punctual_contract::clock::ClockStatus;
use punctual_domain::time::Millis;

/// The clock's status as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) last: Mutex<(Millis, ClockStatus)>,
}
