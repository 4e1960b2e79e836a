//! What was found of the clock when last looked.

use parking_lot::Mutex;
use punctual_contract::clock::ClockStatus;
use punctual_domain::time::Millis;

/// What was found when last looked.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) last: Mutex<(Millis, ClockStatus)>,
}
