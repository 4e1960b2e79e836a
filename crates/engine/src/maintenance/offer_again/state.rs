//! How far the walk through what fired a while ago has come. Offers nothing itself.

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct OfferAgain {
    /// By partition, how many of the oldest have been offered in this walk.
    walked: Mutex<Vec<usize>>,
}

impl OfferAgain {
    pub(super) fn walked(&self, nth: usize) -> usize {
        self.walked.lock().get(nth).copied().unwrap_or(0)
    }

    pub(super) fn remember(&self, nth: usize, walked: usize) {
        let mut all = self.walked.lock();
        if all.len() <= nth {
            all.resize(nth + 1, 0);
        }
        if let Some(it) = all.get_mut(nth) {
            *it = walked;
        }
    }
}
