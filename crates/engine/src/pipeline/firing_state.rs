//! The timer for due tasks, and the pace of preleases. Fires nothing itself: `fire` and `ahead` do.

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
