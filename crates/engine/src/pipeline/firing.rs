//! What wakes at the instants of tasks, and how leases ahead of them keep pace. Fires nothing itself: that is `fire`'s and `ahead`'s.

use super::{ahead::pace::Ahead, timer::Timer};
use punctual_domain::time::Millis;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Firing {
    pub(crate) timer: Arc<Timer>,
    pub(crate) ahead: Ahead,
}

impl Firing {
    pub(crate) fn new(now: Millis) -> Self {
        Self { timer: Arc::new(Timer::new(now)), ahead: Ahead::default() }
    }
}
