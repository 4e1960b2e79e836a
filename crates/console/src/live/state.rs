//! The state of open pages: who is subscribed, and what was rendered for them. Must never render or send anything.

use super::{subscribers::Subscribers, viewport::Viewports};

#[derive(Debug)]
pub(crate) struct Live {
    pub(super) subscribers: Subscribers,
    pub(super) viewports: Viewports,
}

impl Live {
    pub(crate) fn new(streams_max: usize, of_one_max: usize) -> Self {
        Self { subscribers: Subscribers::new(streams_max, of_one_max), viewports: Viewports::default() }
    }
}
